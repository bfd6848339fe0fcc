//! Identifiers of a text: quoted names, and words with the marks and shapes of ids, paths and numbers.

use std::collections::HashSet;

/// A quoted name has at least so many characters between its quotes; so has a word.
const SHORTEST: usize = 3;
/// A longer text between quotes is prose.
const LONGEST_QUOTED: usize = 80;

/// The identifiers of a text without repetition: quoted names first, then words, each in the order of the text.
pub(crate) fn identifiers(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    quoted_names(text, |name| found.push(name));
    words(text, |word| found.push(word));
    // Short lists are compared pair by pair, which needs no table.
    if found.len() > 16 {
        let mut seen = HashSet::with_capacity(found.len());
        found.retain(|name| seen.insert(*name));
    } else {
        let mut at = 0;
        while let Some(name) = found.get(at) {
            if found.iter().take(at).any(|other| other == name) {
                found.remove(at);
            } else {
                at += 1;
            }
        }
    }
    found
}

/// What stands between a pair of quotes on one line. Where a quote opens nothing, the scan goes on behind it, so a closing
/// quote may open.
fn quoted_names<'t>(text: &'t str, mut found: impl FnMut(&'t str)) {
    const CURLY: &[u8] = "“".as_bytes();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(offset) = memchr::memchr3(b'`', b'"', 0xE2, bytes.get(at..).unwrap_or_default()) {
        let start = at + offset;
        let (close, width) = match bytes.get(start) {
            Some(b'`') => ('`', 1),
            Some(b'"') => ('"', 1),
            _ if bytes.get(start..start + CURLY.len()) == Some(CURLY) => ('”', CURLY.len()),
            _ => {
                at = start + 1;
                continue;
            }
        };
        let inside = text.get(start + width..).unwrap_or_default();
        let mut end = None;
        for (count, (place, letter)) in inside.char_indices().enumerate() {
            if letter == close {
                end = (count >= SHORTEST).then_some(place);
                break;
            }
            if letter == '\n' || count == LONGEST_QUOTED {
                break;
            }
        }
        at = start + width;
        if let Some(end) = end {
            let name = inside.get(..end).unwrap_or_default().trim();
            if !name.is_empty() {
                found(name);
            }
            at += end + close.len_utf8();
        }
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'@' | b'#' | b'~' | b'/' | b'.' | b'-')
}

/// Words that look like identifiers.
fn words<'t>(text: &'t str, mut found: impl FnMut(&'t str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(skipped) = rest.iter().position(|byte| is_word_byte(*byte)) else { return };
        let start = at + skipped;
        let run = bytes.get(start..).unwrap_or_default();
        let length = run.iter().position(|byte| !is_word_byte(*byte)).unwrap_or(run.len());
        at = start + length;
        let word = text.get(start..at).unwrap_or_default();
        // A word ends with a letter, a digit or `_`; what follows of the run is punctuation.
        let word = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let word = word.trim_matches(|letter| letter == '.' || letter == '-');
        if word.len() >= SHORTEST && looks_like_identifier(word.as_bytes()) {
            found(word);
        }
    }
}

/// Whether an ASCII word has the shape of an identifier.
fn looks_like_identifier(word: &[u8]) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let letter_or_line = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let mut capitals = true;
    let (mut before, mut last) = (0_u8, 0_u8);
    for &byte in word {
        capitals &= byte.is_ascii_uppercase();
        let in_a_row = before.is_ascii_digit() && last.is_ascii_digit() && byte.is_ascii_digit();
        let mixed = (letter_or_line(last) && byte.is_ascii_digit())
            || (last.is_ascii_digit() && letter_or_line(byte))
            || (last.is_ascii_lowercase() && byte.is_ascii_uppercase());
        let joined = match last {
            b'.' => {
                (before.is_ascii_digit() && byte.is_ascii_digit())
                    || (before.is_ascii_lowercase() && byte.is_ascii_lowercase())
            }
            b',' => before.is_ascii_digit() && byte.is_ascii_digit(),
            b'_' => before.is_ascii_alphanumeric() && byte.is_ascii_alphanumeric(),
            b'/' => is_name(before) && is_name(byte),
            _ => false,
        };
        if in_a_row || mixed || joined {
            return true;
        }
        (before, last) = (last, byte);
    }
    capitals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_the_marks_of_identifiers_are_found_and_prose_is_not() {
        for (text, wanted) in [
            ("Cancel order W2378156 for mia_li_3668, please.", &["W2378156", "mia_li_3668"][..]),
            ("See src/main.rs and README.", &["src/main.rs", "README"]),
            ("It costs 1,250 or 3.50 dollars.", &["250", "3.50"]),
            ("camelCase Word HTML ok a-b --flag-name...", &["camelCase", "HTML"]),
            ("-12. ab 1a", &[]),
            ("trailing/slash/ and user@example.com", &["trailing/slash", "user@example.com"]),
        ] {
            assert_eq!(identifiers(text), wanted, "{text}");
        }
    }

    #[test]
    fn quoted_names_are_found_and_a_closing_quote_may_open() {
        assert_eq!(identifiers("the “blue box” or `some name`"), ["blue box", "some name"]);
        // The pair around `is` is too short, so its closing quote opens the next.
        assert_eq!(identifiers(r#"a "is" here "yes""#), [" here ".trim()]);
        assert_eq!(identifiers("\"no\nline break\""), Vec::<&str>::new());
        let long = format!("\"{}\" \"{}\"", "a".repeat(80), "b".repeat(81));
        assert_eq!(identifiers(&long), ["a".repeat(80).as_str()]);
        assert_eq!(identifiers("\"same\" \"same\""), ["same"]);
    }
}
