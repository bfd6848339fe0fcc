//! Finding the parts of a request body that the recorded messages already hold.

use std::collections::HashMap;

/// Shortest value that is copied rather than repeated: naming a copy takes about as much room.
const WORTH_COPYING: usize = 32;

/// Lists and objects are compared as a whole down to this depth: message, content, block, arguments. Below it only
/// strings are. So no byte is hashed more than a few times, however deeply a body is nested.
const COMPARED_DEPTH: usize = 4;

/// A JSON value inside a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JsonSpan {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) is_string: bool,
}

/// The values of a JSON text that are worth looking up, outer ones before what is in them. The text itself is the first.
pub(super) fn values(json: &str) -> Vec<JsonSpan> {
    let bytes = json.as_bytes();
    let mut found = vec![JsonSpan { start: 0, end: bytes.len(), is_string: bytes.first() == Some(&b'"') }];
    // The lists and objects that are open, by their index in `found`; none for those that are too deep to compare.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = string_end(bytes, at);
                if end - at >= WORTH_COPYING && at > 0 {
                    found.push(JsonSpan { start: at, end, is_string: true });
                }
                at = end;
                continue;
            }
            b'[' | b'{' => {
                let compared = (1..COMPARED_DEPTH).contains(&open.len());
                open.push(compared.then_some(found.len()));
                if compared {
                    found.push(JsonSpan { start: at, end: at, is_string: false });
                }
            }
            b']' | b'}' => {
                if let Some(value) = open.pop().flatten().and_then(|index| found.get_mut(index)) {
                    value.end = at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut first = true;
    found.retain(|value| std::mem::take(&mut first) || value.end >= value.start + WORTH_COPYING);
    found
}

/// Where the string literal that begins at `start` ends.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(stop) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += stop;
        if bytes.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// A range of a recorded message, by the message's index in what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedRange {
    pub(super) message: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The values of all messages that are shown, by their text.
pub(super) struct SharedValues<'e> {
    /// In the order of the messages.
    places: HashMap<&'e str, Vec<SharedRange>>,
}

impl<'e> SharedValues<'e> {
    pub(super) fn of(messages: &[&'e str]) -> Self {
        let mut places: HashMap<&str, Vec<SharedRange>> = HashMap::new();
        for (message, raw) in messages.iter().enumerate() {
            for JsonSpan { start, end, .. } in values(raw) {
                if let Some(text) = raw.get(start..end) {
                    places.entry(text).or_default().push(SharedRange { message, start, end });
                }
            }
        }
        SharedValues { places }
    }

    /// Where a text lies: in the next message from `from` on that has it, else in the last one before.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<SharedRange> {
        let places = self.places.get(text)?;
        let next = places.partition_point(|place| place.message < from);
        places.get(next).or(places.last()).copied()
    }
}

/// How many bytes two texts have in common at their beginning, whole characters only.
pub(super) fn common_start(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    (0..=same).rev().find(|&end| one.is_char_boundary(end)).unwrap_or(0)
}

/// The same at their end.
pub(super) fn common_end(one: &str, other: &str) -> usize {
    let same = one.bytes().rev().zip(other.bytes().rev()).take_while(|(one, other)| one == other).count();
    (0..=same).rev().find(|&length| one.is_char_boundary(one.len() - length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_worth_looking_up_are_found_outer_ones_first() {
        let long = "x".repeat(40);
        let json = format!(r#"{{"a":"short","b":[{{"c":"{long}"}}],"d":"\"{long}"}}"#);
        let texts: Vec<&str> = values(&json).iter().map(|value| &json[value.start..value.end]).collect();
        let block = format!(r#"{{"c":"{long}"}}"#);
        let expected =
            [json.clone(), format!("[{block}]"), block, format!("\"{long}\""), format!("\"\\\"{long}\"")];
        assert_eq!(texts, expected);
    }

    #[test]
    fn nesting_does_not_multiply_the_work() {
        let deep = format!("{}\"{}\"{}", "[".repeat(100), "y".repeat(100), "]".repeat(100));
        assert_eq!(values(&deep).len(), COMPARED_DEPTH + 1);
        for broken in ["", "\"", "[[", "]]", "{\"a", "\"\\"] {
            let _ = values(broken);
        }
    }

    #[test]
    fn what_is_in_common_ends_between_characters() {
        assert_eq!(common_start("aé", "aè"), 1);
        assert_eq!(common_end("é!", "©!"), 1);
        assert_eq!((common_start("same", "same"), common_end("same", "same")), (4, 4));
    }
}
