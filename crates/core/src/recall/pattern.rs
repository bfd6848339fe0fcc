//! Patterns: a plain text or a regular expression, matched in time that grows with the text only.

use regex::{Regex, RegexBuilder};

use super::request::Refusal;

/// Longest pattern in bytes. Longer ones are pasted texts, not patterns.
pub(super) const LONGEST: usize = 1_000;
/// Memory of a compiled pattern in bytes; together with the length of the text this bounds the time of a match.
const COMPILED: usize = 256 * 1024;

/// What a line must have.
#[derive(Clone, Debug)]
pub struct TextPattern {
    regex: Regex,
    shown: String,
}

impl TextPattern {
    /// Reads `/regex/`, `/regex/i`, or a text that is looked for as it is, whatever its case.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.len() > LONGEST {
            return Err(Refusal::new(format!(
                "the pattern has {} bytes, {LONGEST} are the most; give a few words of it",
                text.len()
            )));
        }
        match Self::expression(text) {
            Some((inner, ignore_case)) => Self::build(inner, ignore_case, text),
            None if text.trim().is_empty() => {
                Err(Refusal::new("the pattern is empty; give a word or /regex/".into()))
            }
            None => Self::build(&regex::escape(text), true, text),
        }
    }

    /// The inside of a text that is written as a regular expression.
    pub(super) fn expression(text: &str) -> Option<(&str, bool)> {
        let inner = text.trim().strip_prefix('/')?;
        let (inner, ignore_case) = match inner.strip_suffix("/i") {
            Some(inner) => (inner, true),
            None => (inner.strip_suffix('/')?, false),
        };
        (!inner.is_empty()).then_some((inner, ignore_case))
    }

    fn build(inner: &str, ignore_case: bool, shown: &str) -> Result<Self, Refusal> {
        let built = RegexBuilder::new(inner)
            .case_insensitive(ignore_case)
            .multi_line(true)
            .size_limit(COMPILED)
            .dfa_size_limit(4 * COMPILED)
            .build();
        match built {
            Ok(regex) => Ok(TextPattern { regex, shown: shown.trim().into() }),
            Err(regex::Error::CompiledTooBig(_)) => Err(Refusal::new(
                "the regular expression is too large; shorten its repetitions, or search for the words instead".into(),
            )),
            Err(error) => {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                Err(Refusal::new(format!(
                    "this is no regular expression: {why}; look-around and back-references are not supported; search \
                     for the words instead"
                )))
            }
        }
    }

    /// Where it first matches, as bytes of the text; an empty match does not count.
    pub fn find(&self, text: &str) -> Option<(usize, usize)> {
        self.regex.find_iter(text).find(|found| !found.is_empty()).map(|found| (found.start(), found.end()))
    }

    /// How often it matches, at most so often.
    pub fn count(&self, text: &str, most: usize) -> usize {
        self.regex.find_iter(text).filter(|found| !found.is_empty()).take(most).count()
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.shown
    }
}

impl PartialEq for TextPattern {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn plain_texts_match_in_any_case_and_expressions_as_written() {
        let found = |pattern: &str, text: &str| TextPattern::parse(pattern).unwrap().find(text);
        assert_eq!(found("a.b", "xA.Bx"), Some((1, 4)));
        assert_eq!(found("/a.b/", "xA.Bx"), None);
        assert_eq!(found("/a.b/i", "xA.Bx"), Some((1, 4)));
        assert_eq!(found("/^b/", "a\nb"), Some((2, 3)));
        assert_eq!(found("/x*/", "aaa"), None, "an empty match says nothing");
    }

    #[test]
    fn expressions_of_any_kind_are_refused_or_answered_in_linear_time() {
        let text = "a".repeat(200_000);
        for pattern in ["/(a+)+$b/", "/(a|aa)*c/", "/(a*)*d/", "/(?:a?){50}a{50}z/"] {
            if let Ok(pattern) = TextPattern::parse(pattern) {
                assert_eq!(pattern.find(&text), None);
            }
        }
        for bad in ["/(/", "/a{1000}{1000}{1000}/", "/(?=a)/", "/\\1/", "/[/", "//", "", "   "] {
            match TextPattern::parse(bad) {
                Ok(_) => assert_eq!(bad, "//", "a text, not an expression"),
                Err(error) => assert!(
                    error.to_string().contains("words") || error.to_string().contains("word"),
                    "{bad}: {error}"
                ),
            }
        }
        assert!(TextPattern::parse(&"x".repeat(1_000_000)).unwrap_err().to_string().len() < 200);
    }
}
