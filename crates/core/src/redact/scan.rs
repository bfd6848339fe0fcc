//! Reading around a keyword: alphabets, runs, and where a token may begin.

use std::ops::Range;

/// A secret in a text, and everything that was read to be sure of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundSecret {
    /// What is replaced.
    pub(super) secret: Range<usize>,
    /// The bytes the decision rests on; they include the secret.
    pub(super) read: Range<usize>,
}

impl FoundSecret {
    /// A secret that was recognised by itself.
    pub(super) fn bare(secret: Range<usize>) -> FoundSecret {
        FoundSecret { read: secret.clone(), secret }
    }
}

/// The characters a token is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// `A-Z a-z 0-9`
    Alnum,
    /// `A-Z 0-9`
    Upper,
    /// `A-Z a-z 0-9 _`
    Word,
    /// `A-Z a-z 0-9 _ -`
    Base64Url,
    /// `A-Z a-z 0-9 + / =`
    Base64,
    /// What may follow `Bearer`: `A-Z a-z 0-9 - . _ ~ + / =`
    Token68,
}

impl Alphabet {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Alphabet::Alnum => byte.is_ascii_alphanumeric(),
            Alphabet::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Alphabet::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Alphabet::Base64Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Alphabet::Base64 => byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='),
            Alphabet::Token68 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
            }
        }
    }
}

/// The byte at a position, if there is one.
pub(super) fn byte(text: &str, at: usize) -> Option<u8> {
    text.as_bytes().get(at).copied()
}

/// The byte before a position, if there is one.
pub(super) fn byte_before(text: &str, at: usize) -> Option<u8> {
    byte(text, at.checked_sub(1)?)
}

/// Where the run of bytes that satisfy a test ends.
pub(super) fn run(text: &str, from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    from + rest.iter().position(|&byte| !belongs(byte)).unwrap_or(rest.len())
}

/// As [`run`], but after at most `most` bytes it ends in any case.
pub(super) fn run_within(text: &str, from: usize, most: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    from + rest.iter().take(most).take_while(|&&byte| belongs(byte)).count()
}

/// Where the run of bytes that ends at `to` begins, looking back over at most `most` bytes.
pub(super) fn run_back(text: &str, to: usize, most: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let before = text.as_bytes().get(..to).unwrap_or_default();
    to - before.iter().rev().take(most).take_while(|&&byte| belongs(byte)).count()
}

/// Whether a token of this alphabet may begin here: it does not continue a run.
///
/// So no byte is read twice for one rule, however often a keyword repeats: that is what keeps every rule
/// linear. Escape sequences end in letters that belong to no run, as in `\nTOKEN` or `%3DTOKEN`.
pub(super) fn opens(text: &str, at: usize, alphabet: Alphabet) -> bool {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    match before.last() {
        Some(&last) if alphabet.has(last) || last.is_ascii_alphanumeric() => ends_in_escape(before),
        _ => true,
    }
}

fn ends_in_escape(before: &[u8]) -> bool {
    match before {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'%', a, b] | [.., b'\\', b'x', a, b] if is_hex(&[*a, *b]) => true,
        [.., b'\\', b'u', a, b, c, d] if is_hex(&[*a, *b, *c, *d]) => true,
        // The longest colour in use is `[38;2;255;255;255m`.
        [head @ .., b'm'] => {
            let digits =
                head.iter().rev().take(17).take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
            head.get(..head.len() - digits).is_some_and(|head| head.ends_with(b"["))
        }
        _ => false,
    }
}

fn is_hex(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_hexdigit)
}

/// How many different bytes a text has.
pub(super) fn distinct(text: &str) -> u32 {
    let seen = text.bytes().fold([0u64; 4], |mut seen, byte| {
        if let Some(word) = seen.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
        seen
    });
    seen.iter().map(|word| word.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_after_a_separator_or_an_escape() {
        for (before, opens_here) in [
            ("", true),
            ("=", true),
            ("x", false),
            ("_", false),
            ("é", true),
            ("\\n", true),
            ("%3D", true),
            ("%zz", false),
            ("\\u003d", true),
            ("\u{1b}[1;32m", true),
            ("them", false),
        ] {
            assert_eq!(opens(before, before.len(), Alphabet::Base64Url), opens_here, "{before:?}");
        }
    }

    #[test]
    fn runs_end_at_the_first_stranger_or_at_the_edge() {
        let digit = |byte: u8| byte.is_ascii_digit();
        assert_eq!(run("a12b", 1, digit), 3);
        assert_eq!(run("a12", 1, digit), 3);
        assert_eq!(run("a12", 9, digit), 9);
        assert_eq!(run_within("12345", 0, 2, digit), 2);
        assert_eq!(run_back("a123", 4, 2, digit), 2);
        assert_eq!(run_back("a123", 4, 9, digit), 1);
    }

    #[test]
    fn distinct_counts_bytes() {
        assert_eq!([distinct(""), distinct("aaa"), distinct("abca~é")], [0, 1, 6]);
    }
}
