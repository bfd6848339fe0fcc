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
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The words of a text, in order.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut current: Option<(String, usize, usize)> = None;
    let mut finish = |current: &mut Option<(String, usize, usize)>| {
        if let Some((text, start, end)) = current.take() {
            words.push(Word { text, start, end });
        }
    };
    for (at, letter) in text.char_indices() {
        let end = at + letter.len_utf8();
        // A mark belongs to the letter before it and is folded away.
        if is_combining_mark(letter) {
            if let Some((_, _, last)) = &mut current {
                *last = end;
            }
            continue;
        }
        if !is_word_letter(letter) {
            finish(&mut current);
            continue;
        }
        if stands_alone(letter) {
            finish(&mut current);
            current = Some((String::new(), at, end));
            fold(letter, &mut current);
            finish(&mut current);
            continue;
        }
        let (_, _, last) = current.get_or_insert((String::new(), at, end));
        *last = end;
        fold(letter, &mut current);
    }
    finish(&mut current);
    words
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

fn fold(letter: char, current: &mut Option<(String, usize, usize)>) {
    let Some((word, ..)) = current else { return };
    for folded in letter.nfkd().filter(|part| !is_combining_mark(*part)).flat_map(char::to_lowercase) {
        // Lower case may bring a mark of its own.
        if !is_combining_mark(folded) && word.chars().count() < MAX_WORD {
            word.push(folded);
        }
    }
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

/// The distinct words of a text as databases see them.
pub(crate) fn index_words(text: &str) -> Vec<String> {
    let mut all: Vec<String> = words(text).iter().map(|word| spelled(&word.text)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
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
    fn databases_see_ascii_and_beginnings_stay_beginnings() {
        assert_eq!(spelled("abc1"), "abc1");
        assert_eq!(spelled("мир"), "_43c__438__440_");
        assert!(spelled("мир").starts_with(&spelled("ми")));
    }
}
