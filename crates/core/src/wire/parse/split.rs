//! One message, several entries: every tool result is an entry of its own, and what stands beside them is another.

use std::sync::Arc;

use super::at::At;
use crate::entry::{Entry, Part};
use crate::json::{JsonKind, Raw};
use crate::wire::WireError;

/// Bytes that the parts of one message may repeat. Each part has all members beside the blocks, which is a role and
/// little else; without a limit a large member and many small results would fill the memory.
const MAX_REPEATED: usize = 64 << 20;

/// The text of one entry of a message.
#[derive(Debug)]
pub(super) struct EntryText {
    pub(super) raw: Arc<str>,
    pub(super) part: Option<Box<Part>>,
}

/// Cuts a message into the texts of its entries: one per result, in order, then one with everything else.
///
/// A message that is one entry anyway stays as it is. Of the others every byte stays but the blocks left out, and the
/// white space between blocks.
pub(super) fn split(
    message: &Arc<str>,
    key: &str,
    path: &At<'_>,
    is_result: impl Fn(Raw<'_>) -> bool,
) -> Result<Vec<EntryText>, WireError> {
    let list = Raw::trusted(message).get(key).filter(|list| list.kind() == JsonKind::Array);
    let blocks: Vec<Raw<'_>> = list.into_iter().flat_map(Raw::elements).collect();
    let (mut groups, mut others) = (Vec::new(), Vec::new());
    for (index, block) in (0u32..).zip(&blocks) {
        if is_result(*block) { groups.push(vec![index]) } else { others.push(index) }
    }
    let Some(list) = list.filter(|_| !groups.is_empty() && blocks.len() > 1) else {
        return Ok(vec![EntryText { raw: Arc::clone(message), part: None }]);
    };
    if !others.is_empty() {
        groups.push(others);
    }
    let (start, end) = list.span_in(message);
    let before = message.get(..start as usize).unwrap_or_default();
    let after = message.get(end as usize..).unwrap_or_default();
    if (before.len() + after.len()).saturating_mul(groups.len()) > MAX_REPEATED {
        let problem = "too many results beside too large members: split the message".into();
        return Err(WireError::bad_message(path, problem));
    }
    let of = groups.len() as u32;
    let pieces = (1..).zip(groups).map(|(number, indexes)| {
        let mut raw = String::from(before);
        for (place, index) in indexes.iter().enumerate() {
            raw.push(if place == 0 { '[' } else { ',' });
            raw.push_str(blocks.get(*index as usize).map_or("null", |block| block.text()));
        }
        raw.push(']');
        raw.push_str(after);
        EntryText { raw: raw.into(), part: Some(Box::new(Part { number, of, indexes })) }
    });
    Ok(pieces.collect())
}

/// Reads each piece of a message as an entry of its own.
pub(super) fn read_pieces(
    pieces: Vec<EntryText>,
    read: impl Fn(&Arc<str>) -> Result<Entry, WireError>,
) -> Result<Vec<Entry>, WireError> {
    let entry = |piece: EntryText| {
        let mut entry = read(&piece.raw)?;
        entry.origin.part = piece.part;
        Ok(entry)
    };
    pieces.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Number, of how many, and where the blocks stood.
    type Told = (u32, u32, Vec<u32>);

    fn pieces(message: &str) -> Vec<(String, Option<Told>)> {
        let is_result = |block: Raw<'_>| block.get("r").is_some();
        let pieces = split(&message.into(), "content", &At::Body, is_result).unwrap();
        let part = |part: Box<Part>| (part.number, part.of, part.indexes);
        pieces.into_iter().map(|piece| (piece.raw.to_string(), piece.part.map(part))).collect()
    }

    #[test]
    fn every_result_is_a_part_and_all_else_is_the_last() {
        let message =
            r#"{ "x" : 1.0,"content": [ {"t":"a"}, {"r":1} ,{"t":"\u00e9"},{"r": 2}], "\u0079":null }"#;
        let part = |blocks: &str| format!(r#"{{ "x" : 1.0,"content": [{blocks}], "\u0079":null }}"#);
        assert_eq!(
            pieces(message),
            [
                (part(r#"{"r":1}"#), Some((1, 3, vec![1]))),
                (part(r#"{"r": 2}"#), Some((2, 3, vec![3]))),
                (part(r#"{"t":"a"},{"t":"\u00e9"}"#), Some((3, 3, vec![0, 2]))),
            ]
        );
    }

    #[test]
    fn what_is_one_entry_stays_as_it_is() {
        for message in
            [r#"{"content":[ {"r":1} ]}"#, r#"{"content":[{"t":1}, {"t":2}]}"#, r#"{"content":[]}"#, "{}"]
        {
            assert_eq!(pieces(message), [(message.to_string(), None)]);
        }
    }

    #[test]
    fn results_without_end_cannot_fill_the_memory() {
        let results = vec![r#"{"r":1}"#; 1000].join(",");
        let message = format!(r#"{{"x":"{}","content":[{results}]}}"#, "x".repeat(100_000));
        let error = split(&message.into(), "content", &At::Body.key("messages"), |_| true).unwrap_err();
        assert_eq!(error.path(), "/messages");
    }
}
