//! Counts against two independent implementations of the same vocabularies, and against published counts.

use scrollback_core::tokens::Tokenizer;

const SEED: u64 = 0x5C20_11BA_C400_0007;
const TEXTS: u64 = 2_000;

/// `SplitMix64`: the same texts on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "the", "Scrollback", "don't", "I'LL", "we've", "HTTPServer", "naïve", "Straße", "résumé", "привет",
    "ΑΒΓδ", "مرحبا", "שלום", "हिन्दी", "ภาษาไทย", "x", "antidisestablishmentarianism", "3.14159", "1234567",
    "0xFF", "٣٤٥",
];
#[rustfmt::skip]
const CODE: &[&str] = &[
    "fn main() {\n", "    let x = ", "if (a && b) ", "=> ", "::<Vec<_>>()", "// note\n", "\t\treturn;\n",
    "}\n\n", "#[test]\n", "def f(self):\n", "a[i] += 1;", "\r\n", "!=", "/*…*/", "snake_case_name",
    "camelCaseName", "$HOME/.config",
];
#[rustfmt::skip]
const JSON: &[&str] = &[
    "{\"role\":\"user\",", "\"content\": ", "null", "[1,2,3]", "\\n\\u00e9", "}]}", "\"\\\"\"", "-1.5e-10",
    ":{", "\",\n  \"",
];
const CJK: &[&str] =
    &["日本語", "の", "漢字かな混じり文", "你好，世界", "한국어", "。", "「", "カタカナ", "𠮷", "　"];
const EMOJI: &[&str] = &["👍", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👋🏽", "🇩🇪", "❤️", "1️⃣", "🫠"];
const COMBINING: &[&str] =
    &["e\u{301}", "a\u{308}\u{304}", "\u{300}", "Z\u{351}\u{36b}\u{343}", "ﬁ", "\u{200d}", "\u{fe0f}", "ǅ"];
const SPACE: &[&str] =
    &[" ", "  ", "\n", "\r\n", "\t", "\u{a0}", "\u{2003}", "\u{2028}", "\u{85}", "\u{b}", " \n \n"];
const CONTROL: &[&str] =
    &["\0", "\u{1}", "\u{1b}[31m", "\u{7f}", "\u{80}", "\u{feff}", "\u{fffd}", "\u{10ffff}", "\u{e000}"];
#[rustfmt::skip]
const SPECIAL: &[&str] = &[
    "<|endoftext|>", "<|im_start|>", "<|fim_prefix|>", "<|endofprompt|>", "<|", "|>", "<|start|>", "<s>",
    "[INST]",
];
const ALPHABETS: [&[&str]; 9] = [WORDS, CODE, JSON, CJK, EMOJI, COMBINING, SPACE, CONTROL, SPECIAL];

/// A text of one alphabet, or of all of them mixed, with runs and raw characters thrown in.
fn text(dice: &mut Dice) -> String {
    let mut text = String::new();
    let only = dice.roll(ALPHABETS.len() * 2);
    for _ in 0..dice.roll(60) {
        let alphabet = ALPHABETS.get(only).copied().unwrap_or_else(|| dice.pick(&ALPHABETS));
        match dice.roll(12) {
            0 => text.push_str(&dice.pick(alphabet).repeat(1 + dice.roll(40))),
            1 => text.extend(char::from_u32(dice.roll(0x2_0000) as u32)),
            2 => text.extend((0..dice.roll(20)).map(|_| (b' ' + dice.roll(95) as u8) as char)),
            3..=6 => {
                text.push_str(dice.pick(alphabet));
                text.push(' ');
            }
            _ => text.push_str(dice.pick(alphabet)),
        }
    }
    text
}

#[test]
fn random_texts_count_as_two_other_implementations_count_them() {
    let peers = [
        (Tokenizer::O200kBase, tiktoken_rs::o200k_base_singleton(), bpe_openai::o200k_base()),
        (Tokenizer::Cl100kBase, tiktoken_rs::cl100k_base_singleton(), bpe_openai::cl100k_base()),
    ];
    for number in 0..TEXTS {
        let text = text(&mut Dice(SEED ^ number));
        for (tokenizer, tiktoken_rs, bpe_openai) in &peers {
            let count = tokenizer.count(&text);
            let context = || format!("{} of text {number} from seed {SEED:#x}: {text:?}", tokenizer.name());
            assert_eq!(count, tiktoken_rs.encode_ordinary(&text).len(), "tiktoken-rs, {}", context());
            assert_eq!(count, bpe_openai.count(text.as_str()), "bpe-openai, {}", context());
        }
    }
}

#[test]
fn known_texts_have_their_known_counts() {
    for (text, o200k, cl100k) in [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("tiktoken is great!", 6, 6),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 8, 9),
        ("<|endoftext|>", 7, 7),
    ] {
        assert_eq!(Tokenizer::O200kBase.count(text), o200k, "o200k_base of {text:?}");
        assert_eq!(Tokenizer::Cl100kBase.count(text), cl100k, "cl100k_base of {text:?}");
    }
}

/// Texts without a place to split, on which some implementations overflow their stack or return nothing.
#[test]
fn a_megabyte_of_one_character_is_counted_to_the_token() {
    for (unit, o200k, cl100k) in [(" ", 8_192, 8_192), ("a", 131_072, 131_072), ("\n", 65_536, 32_768)] {
        let text = unit.repeat(1 << 20);
        assert_eq!(Tokenizer::O200kBase.count(&text), o200k, "o200k_base of {unit:?}");
        assert_eq!(Tokenizer::Cl100kBase.count(&text), cl100k, "cl100k_base of {unit:?}");
    }
}
