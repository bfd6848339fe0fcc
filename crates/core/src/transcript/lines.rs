//! JSON lines, one after another, each with its number and the place where it begins.

use std::borrow::Cow;

use super::TranscriptError;
use crate::json::{self, JsonKind, Object, Raw};

/// No tool writes a longer line; what does is not a transcript, and reading on is worth more than reading it.
pub(super) const MAX_LINE: usize = 64 << 20;

/// How many lines are looked at to tell a format: titles and snapshots may stand before the first message.
const FIRST_LINES: usize = 20;

/// A line that is not blank.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonLine<'a> {
    /// From 1.
    pub(super) number: usize,
    /// Where it begins in the text.
    pub(super) byte: usize,
    pub(super) text: &'a str,
}

/// The lines of a text that are not blank.
pub(super) fn lines(text: &str) -> impl Iterator<Item = JsonLine<'_>> {
    let mut byte = 0;
    text.split_inclusive('\n').enumerate().filter_map(move |(index, whole)| {
        let start = byte;
        byte += whole.len();
        let line = whole.trim_end_matches(['\n', '\r']);
        (!line.trim().is_empty()).then_some(JsonLine { number: index + 1, byte: start, text: line })
    })
}

/// The objects among the first lines, to tell a format by; broken lines are passed over.
pub(super) fn first_objects(text: &str) -> impl Iterator<Item = Object<'_>> {
    lines(text).take(FIRST_LINES).filter_map(|line| line.object().ok())
}

impl<'a> JsonLine<'a> {
    /// The object the line is; an error if it is not one, or one that readers would read differently.
    pub(super) fn object(self) -> Result<Object<'a>, TranscriptError> {
        if self.text.len() > MAX_LINE {
            return Err(self.error(format!("longer than {} MiB", MAX_LINE >> 20)));
        }
        let raw = json::check(self.text).map_err(|error| TranscriptError {
            line: self.number,
            byte: self.byte + error.offset,
            problem: format!("not valid JSON: {} at column {}", error.problem, error.column),
        })?;
        object(raw).map_err(|problem| self.error(problem))
    }

    pub(super) fn error(self, problem: String) -> TranscriptError {
        TranscriptError { line: self.number, byte: self.byte, problem }
    }
}

/// A value as the object it must be, with no key twice.
pub(super) fn object(raw: Raw<'_>) -> Result<Object<'_>, String> {
    if raw.kind() != JsonKind::Object {
        return Err(format!("expected an object, found {}", raw.kind().name()));
    }
    raw.object().map_err(|key| {
        format!("the key {key:?} appears twice; readers would disagree about which one counts")
    })
}

/// The error of a text that is another format, or none.
pub(super) fn not_this_format(problem: &str) -> TranscriptError {
    TranscriptError { line: 0, byte: 0, problem: problem.into() }
}

/// Short ways to what most members are.
pub(super) trait MemberReaders<'a> {
    /// The text under a key, if it is one.
    fn text(&self, key: &str) -> Option<Cow<'a, str>>;
    /// The list under a key, if it is one.
    fn list(&self, key: &str) -> Option<Raw<'a>>;
    /// The object under a key, if it is one.
    fn inner(&self, key: &str) -> Option<Raw<'a>>;
    /// The whole number under a key, if it is one.
    fn number(&self, key: &str) -> Option<u64>;
    /// Whether `true` stands under a key.
    fn is_true(&self, key: &str) -> bool;
}

impl<'a> MemberReaders<'a> for Object<'a> {
    fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key).and_then(Raw::string)
    }

    fn list(&self, key: &str) -> Option<Raw<'a>> {
        self.get(key).filter(|value| value.kind() == JsonKind::Array)
    }

    fn inner(&self, key: &str) -> Option<Raw<'a>> {
        self.get(key).filter(|value| value.kind() == JsonKind::Object)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(|value| value.text().parse().ok())
    }

    fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.text() == "true")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn blank_lines_count_but_are_not_read() {
        let found: Vec<_> =
            lines("{}\r\n\n  \n[1]\n{").map(|line| (line.number, line.byte, line.text)).collect();
        assert_eq!(found, [(1, 0, "{}"), (4, 8, "[1]"), (5, 12, "{")]);
    }

    #[test]
    fn a_broken_line_says_which_and_where() {
        let problems: Vec<String> = lines("{\"a\":1,\"a\":2}\n[]\n{\"é\":")
            .map(|line| line.object().unwrap_err().to_string())
            .collect();
        assert!(problems[0].starts_with("line 1 (byte 0): the key \"a\" appears twice"), "{}", problems[0]);
        assert_eq!(problems[1], "line 2 (byte 14): expected an object, found a list");
        assert!(problems[2].starts_with("line 3 (byte 23): not valid JSON"), "{}", problems[2]);
    }

    #[test]
    fn a_line_over_the_limit_is_not_read() {
        let long = format!("\"{}\"\n{{}}", "x".repeat(MAX_LINE));
        let read: Vec<bool> = lines(&long).map(|line| line.object().is_ok()).collect();
        assert_eq!(read, [false, true]);
    }
}
