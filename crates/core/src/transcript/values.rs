//! The JSON values a transcript is made of: one value, or one a line, each with its place in the text.

use super::{Note, ReadConversation, Transcript, TranscriptError};
use crate::json::{self, JsonError, JsonKind, Object, Raw};

/// A line longer than this is a bad line (store spec 9): it would have to be held in memory whole.
pub(super) const MAX_LINE: usize = 64 << 20;

/// A value, and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonAt<'a> {
    pub(super) raw: Raw<'a>,
    line: usize,
    byte: usize,
}

impl<'a> JsonAt<'a> {
    /// The elements of a list, or the value itself if it is not a list.
    pub(super) fn records(self) -> Vec<JsonAt<'a>> {
        if self.raw.kind() != JsonKind::Array {
            return vec![self];
        }
        let (mut line, mut seen) = (self.line, 0);
        let elements = self.raw.elements().map(|raw| {
            let start = offset(self.raw, raw);
            line += newlines(self.raw.text(), seen, start);
            seen = start;
            JsonAt { raw, line, byte: self.byte + start }
        });
        elements.collect()
    }

    /// The members of the value, which must be an object.
    pub(super) fn object(self, what: &str) -> Result<Object<'a>, TranscriptError> {
        if self.raw.kind() != JsonKind::Object {
            return Err(
                self.error(self.raw, format!("{what} must be an object, not {}", self.raw.kind().name()))
            );
        }
        self.raw.object().map_err(|_| {
            self.error(self.raw, "a key appears twice; readers would disagree about which one counts".into())
        })
    }

    /// Trouble with a value inside this one.
    pub(super) fn error(self, inner: Raw<'_>, problem: String) -> TranscriptError {
        let start = offset(self.raw, inner);
        let line = self.line + newlines(self.raw.text(), 0, start);
        TranscriptError { line, byte: self.byte + start, problem }
    }
}

/// Where `inner` begins within `outer`; 0 if it is no slice of it.
fn offset(outer: Raw<'_>, inner: Raw<'_>) -> usize {
    let start = (inner.text().as_ptr() as usize).checked_sub(outer.text().as_ptr() as usize);
    start.filter(|start| *start <= outer.text().len()).unwrap_or(0)
}

fn newlines(text: &str, from: usize, to: usize) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes().get(from..to).unwrap_or_default()).count()
}

/// What was found, and the lines that are no JSON.
pub(super) struct Values<'a> {
    pub(super) found: Vec<JsonAt<'a>>,
    pub(super) failed: Vec<TranscriptError>,
}

/// Reads a text as one JSON value, or as one object a line where it is not.
pub(super) fn values(text: &str) -> Result<Values<'_>, TranscriptError> {
    let whole = match json::check(text) {
        Ok(raw) => {
            let byte = text.len() - text.trim_start().len();
            let found = vec![JsonAt { raw, line: 1 + newlines(text, 0, byte), byte }];
            return Ok(Values { found, failed: Vec::new() });
        }
        Err(error) => TranscriptError { line: error.line, byte: error.offset, problem: error.problem },
    };
    // A list, or an object over several lines, is one broken value; its lines mean nothing.
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if first.len() == 1 || !first.starts_with('{') {
        return Err(whole);
    }
    let mut values = Values { found: Vec::new(), failed: Vec::new() };
    let mut byte = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if !line.trim().is_empty() {
            match checked_line(line) {
                Ok(raw) => {
                    let indent = line.len() - line.trim_start().len();
                    values.found.push(JsonAt { raw, line: number + 1, byte: byte + indent });
                }
                Err((within, problem)) => {
                    values.failed.push(TranscriptError { line: number + 1, byte: byte + within, problem });
                }
            }
        }
        byte += line.len();
    }
    if values.found.is_empty() { Err(whole) } else { Ok(values) }
}

fn checked_line(line: &str) -> Result<Raw<'_>, (usize, String)> {
    if line.len() > MAX_LINE {
        return Err((0, format!("the line is longer than {} MiB", MAX_LINE >> 20)));
    }
    json::check(line).map_err(|JsonError { offset, problem, .. }| (offset, problem))
}

/// Reads every record of a text with `read`; one that cannot be read is set aside, and the rest is read.
pub(super) fn each_record<'a>(
    text: &'a str,
    mut read: impl FnMut(JsonAt<'a>, &mut Transcript) -> Result<(), TranscriptError>,
) -> Result<Transcript, TranscriptError> {
    let Values { found, failed } = values(text)?;
    let mut transcript = Transcript { conversations: Vec::new(), failed };
    for record in found.into_iter().flat_map(JsonAt::records) {
        if let Err(error) = read(record, &mut transcript) {
            transcript.failed.push(error);
        }
    }
    finished(transcript)
}

/// The transcript with its failures in order; the first failure instead if nothing could be read.
pub(super) fn finished(mut transcript: Transcript) -> Result<Transcript, TranscriptError> {
    transcript.failed.sort_by_key(|error| (error.line, error.byte));
    match transcript.failed.first() {
        Some(first) if transcript.conversations.is_empty() => Err(first.clone()),
        _ => Ok(transcript),
    }
}

/// The first record of a text, to recognise a format by.
pub(super) fn first_record(text: &str) -> Option<Raw<'_>> {
    let raw = match json::check(text) {
        Ok(raw) => raw,
        Err(_) => checked_line(text.lines().find(|line| !line.trim().is_empty())?).ok()?,
    };
    match raw.kind() {
        JsonKind::Array => raw.elements().next(),
        _ => Some(raw),
    }
}

/// Whether a key of that name can stand in the text at all; a quick no before the text is read.
pub(super) fn has_key(text: &str, key: &str) -> bool {
    memchr::memmem::find(text.as_bytes(), format!("\"{key}\"").as_bytes()).is_some()
}

/// Whether `value` has a list under `key`.
pub(super) fn has_list(value: Raw<'_>, key: &str) -> bool {
    value.get(key).is_some_and(|list| list.kind() == JsonKind::Array)
}

/// The members of an object that no reader knows, as notes about the conversation.
pub(super) fn other_members(object: &Object<'_>, known: &[&str]) -> Vec<Note> {
    let others = object.members().iter().filter(|(key, _)| !known.contains(&key.as_ref()));
    others.map(|(key, value)| note(0, key, *value)).collect()
}

/// A note that keeps a value.
pub(super) fn note(line: usize, kind: &str, raw: Raw<'_>) -> Note {
    Note { line, kind: kind.into(), raw: Some(raw.text().into()) }
}

/// Leaves notes about a whole text with its first conversation, or with an empty one if there is none.
pub(super) fn leave_notes(transcript: &mut Transcript, notes: Vec<Note>) {
    if notes.is_empty() {
        return;
    }
    if transcript.conversations.is_empty() {
        transcript.conversations.push(ReadConversation::default());
    }
    if let Some(first) = transcript.conversations.first_mut() {
        first.notes.extend(notes);
    }
}

/// An id, whether it is written as a text or as a number.
pub(super) fn id_of(value: Option<Raw<'_>>) -> Option<String> {
    let value = value?;
    match value.kind() {
        JsonKind::String => value.string().map(std::borrow::Cow::into_owned),
        JsonKind::Number => Some(value.text().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_value_a_list_or_a_line_each() {
        for (text, places) in [
            ("{\"a\":1}", vec![(1, 0)]),
            ("\n [{\"a\":1},\n  {\"a\":2}]", vec![(2, 3), (3, 14)]),
            ("{\"a\":1}\n\n {\"a\":2}\n", vec![(1, 0), (3, 10)]),
            ("[]", vec![]),
        ] {
            let found: Vec<_> = values(text).unwrap().found.into_iter().flat_map(JsonAt::records).collect();
            assert_eq!(
                found.iter().map(|value| (value.line, value.byte)).collect::<Vec<_>>(),
                places,
                "{text:?}"
            );
            for value in found {
                assert!(text.get(value.byte..).unwrap().starts_with(value.raw.text()), "{text:?}");
            }
        }
    }

    #[test]
    fn broken_lines_are_set_aside_and_broken_values_are_errors() {
        let values_of = values("{\"a\":1}\n{\"a\":\n{\"a\":3}").unwrap();
        assert_eq!(values_of.found.len(), 2);
        assert_eq!((values_of.failed[0].line, values_of.failed[0].byte), (2, 14));
        for text in ["", "[{\"a\":1},\n{\"a\":]", "{\n \"a\": [\n{}\n", "interactions:\n- a"] {
            assert!(values(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_line_over_the_limit_is_a_bad_line() {
        let long = format!("{{\"a\":1}}\n{{\"a\":\"{}\"}}\n{{\"a\":3}}", "x".repeat(MAX_LINE));
        let values = values(&long).unwrap();
        assert_eq!(values.found.len(), 2);
        assert_eq!(
            (values.failed[0].line, values.failed[0].problem.as_str()),
            (2, "the line is longer than 64 MiB")
        );
    }
}
