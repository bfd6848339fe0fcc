//! Words as search sees them: lower case, accents folded, each letter of scripts without spaces a word of its own.
//!
//! Databases disagree about what a word is. So texts and queries are cut into words here, and a database only ever sees
//! plain ASCII: any other letter is spelled as its number between underscores, which keeps beginnings beginnings.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longest word in letters; what is longer is cut, in texts and queries alike.
const MAX_WORD: usize = 64;

/// A word of a text, and where it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextWord {
    pub(crate) text: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The words of a text, in order.
pub(crate) fn words(text: &str) -> Vec<TextWord> {
    let mut words = Vec::with_capacity(text.len() / 6);
    each(text, |word, start, end| words.push(TextWord { text: word.into(), start, end }));
    words
}

/// Shows the words of a text one after the other, with where they stand in it.
fn each(text: &str, mut see: impl FnMut(&str, usize, usize)) {
    let mut current = Current::default();
    let mut rest = text;
    loop {
        let at = text.len() - rest.len();
        // Most letters are plain ones, and are taken by the run.
        let run = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        if let Some((plain, after)) = rest.split_at_checked(run).filter(|_| run > 0) {
            current.begin(at);
            current.push_plain(plain, at + run);
            rest = after;
            continue;
        }
        let mut letters = rest.chars();
        let Some(letter) = letters.next() else { break };
        rest = letters.as_str();
        let end = at + letter.len_utf8();
        // A mark belongs to the letter before it and is folded away.
        if !letter.is_ascii() && is_combining_mark(letter) {
            current.end = current.end.max(end);
            continue;
        }
        if !is_word_letter(letter) {
            current.finish(&mut see);
            continue;
        }
        let alone = stands_alone(letter);
        if alone {
            current.finish(&mut see);
        }
        current.begin(at);
        for folded in letter.nfkd().filter(|part| !is_combining_mark(*part)).flat_map(char::to_lowercase) {
            // Lower case may bring a mark of its own.
            if !is_combining_mark(folded) {
                current.push(folded, end);
            }
        }
        current.end = end;
        if alone {
            current.finish(&mut see);
        }
    }
    current.finish(&mut see);
}

/// The word that is being read, if there is one.
#[derive(Default)]
struct Current {
    text: String,
    letters: usize,
    start: Option<usize>,
    end: usize,
}

impl Current {
    fn begin(&mut self, at: usize) {
        self.start.get_or_insert(at);
    }

    fn push(&mut self, letter: char, end: usize) {
        self.end = end;
        if self.letters < MAX_WORD {
            self.text.push(letter);
            self.letters += 1;
        }
    }

    /// Letters and digits of ASCII.
    fn push_plain(&mut self, letters: &str, end: usize) {
        self.end = end;
        let room = letters.len().min(MAX_WORD - self.letters);
        let before = self.text.len();
        self.text.push_str(letters.get(..room).unwrap_or_default());
        self.text.get_mut(before..).unwrap_or_default().make_ascii_lowercase();
        self.letters += room;
    }

    fn finish(&mut self, see: &mut impl FnMut(&str, usize, usize)) {
        if let Some(start) = self.start.take() {
            see(&self.text, start, self.end);
        }
        // The room of the text serves the next word.
        self.text.clear();
        (self.letters, self.end) = (0, 0);
    }
}

/// Letters, digits, and what people mean when they type an emoji.
fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || is_pictograph(letter)
}

fn is_pictograph(letter: char) -> bool {
    matches!(u32::from(letter), 0x2600..=0x27BF | 0x1F000..=0x1FAFF)
}

/// Scripts that are written without spaces, and emoji: each letter is a word, and a word a phrase.
fn stands_alone(letter: char) -> bool {
    is_pictograph(letter)
        || matches!(u32::from(letter),
            0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF
            | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// A word as databases see it.
pub(crate) fn spelled(word: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(word.len());
    for letter in word.chars() {
        if letter.is_ascii_alphanumeric() {
            out.push(letter);
        } else {
            let _ = write!(out, "_{:x}_", u32::from(letter));
        }
    }
    out
}

/// The words of a text as databases see them, with a space between them.
pub(crate) fn index_words(text: &str) -> String {
    if text.is_ascii() {
        let folded = text.to_ascii_lowercase();
        let words = folded.as_bytes().split(|letter| !letter.is_ascii_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        return spaced(words.map(|word| word.get(..MAX_WORD).unwrap_or(word)), text.len());
    }
    let (mut letters, mut ends) = (String::with_capacity(text.len()), Vec::with_capacity(text.len() / 5));
    each(text, |word, _, _| {
        letters.push_str(word);
        ends.push(letters.len());
    });
    let mut start = 0;
    let words = ends.into_iter().map(|end| {
        let word = letters.as_bytes().get(start..end).unwrap_or_default();
        start = end;
        word
    });
    spaced(words, text.len())
}

/// Words with a space between them. A word that was seen before is left out, nearly always: an index knows a word it has seen,
/// and only takes longer.
fn spaced<'w>(words: impl Iterator<Item = &'w [u8]>, bytes: usize) -> String {
    let mut out = Vec::with_capacity(bytes + 1);
    let mut seen = Seen::new(bytes);
    for word in words.filter(|word| seen.is_new(word)) {
        if !out.is_empty() {
            out.push(b' ');
        }
        match std::str::from_utf8(word) {
            Ok(letters) if !word.is_ascii() => out.extend_from_slice(spelled(letters).as_bytes()),
            _ => out.extend_from_slice(word),
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

/// The last word of each kind that was seen. Two kinds that change places are forgotten in turn, which costs less than to
/// remember both.
struct Seen<'w> {
    words: Vec<&'w [u8]>,
}

impl<'w> Seen<'w> {
    /// For the words of a text of so many bytes.
    fn new(bytes: usize) -> Self {
        Seen { words: vec![b""; (bytes / 8).next_power_of_two().clamp(16, 1 << 16)] }
    }

    fn is_new(&mut self, word: &'w [u8]) -> bool {
        let mixed = word.iter().fold(word.len() as u64, |mixed, byte| {
            (mixed ^ u64::from(*byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_right(29)
        });
        let kind = mixed as usize & (self.words.len() - 1);
        let Some(last) = self.words.get_mut(kind) else { return true };
        std::mem::replace(last, word) != word
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn texts(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_folded() {
        assert_eq!(texts("Café-RÉSUMÉ, naïve_1"), ["cafe", "resume", "naive", "1"]);
        assert_eq!(texts("cafe\u{301} Straße ﬁne"), ["cafe", "straße", "fine"]);
        assert_eq!(texts("東京 is 2東"), ["東", "京", "is", "2", "東"]);
        assert_eq!(texts("Привет, мир! 🙂👍"), ["привет", "мир", "🙂", "👍"]);
        assert_eq!(texts("... --- '\""), Vec::<String>::new());
    }

    #[test]
    fn places_are_those_in_the_text() {
        let text = "Un café, s'il vous plaît";
        for word in words(text) {
            assert!(text.get(word.start..word.end).is_some(), "{word:?}");
        }
        assert_eq!(&text[words(text)[1].start..words(text)[1].end], "café");
    }

    #[test]
    fn long_words_are_cut_however_they_are_spelled() {
        let long = "Ab1".repeat(40);
        assert_eq!(texts(&long), [&long.to_lowercase()[..MAX_WORD]]);
        let mixed = format!("é{long}é{long}");
        assert_eq!(texts(&mixed), [format!("e{}", &long.to_lowercase()[..MAX_WORD - 1])]);
        assert_eq!(words(&mixed)[0].end, mixed.len());
    }

    #[test]
    fn each_word_is_indexed_and_most_only_once() {
        let long = "Ab1".repeat(40);
        let many: Vec<String> = (0..5_000).map(|number| format!("w{}", number % 1_000)).collect();
        let many = many.join(", ");
        for text in [
            "Banana apple, banana! Apples; bananasplitter Мир мир 東 zebra APPLE 9 10",
            "Banana apple banana-Split a A bananasplitter1 12345678 z_y",
            long.as_str(),
            many.as_str(),
            " - ",
            "",
        ] {
            let distinct = |words: &mut dyn Iterator<Item = String>| words.collect::<BTreeSet<_>>();
            let indexed = index_words(text);
            let indexed = || indexed.split(' ').filter(|word| !word.is_empty()).map(String::from);
            let expected = distinct(&mut texts(text).iter().map(|word| spelled(word)));
            assert_eq!(distinct(&mut indexed()), expected);
            assert!(indexed().count() <= 2 * expected.len(), "{}", indexed().count());
        }
    }

    #[test]
    fn databases_see_ascii_and_beginnings_stay_beginnings() {
        assert_eq!(spelled("abc1"), "abc1");
        assert_eq!(spelled("мир"), "_43c__438__440_");
        assert!(spelled("мир").starts_with(&spelled("ми")));
    }
}
