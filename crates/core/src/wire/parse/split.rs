//! One message, several entries: every tool result is an entry of its own, and what stands beside them is another.

use std::sync::Arc;

use crate::entry::Part;
use crate::json::{self, Raw};

/// The text of one entry of a message.
pub(super) struct Piece {
    pub(super) raw: Arc<str>,
    pub(super) part: Option<Box<Part>>,
}

/// Cuts a message into the texts of its entries: one per result, in order, then one with everything else.
///
/// A message that is one entry anyway stays as it is.
pub(super) fn split(message: &Arc<str>, key: &str, is_result: impl Fn(Raw<'_>) -> bool) -> Vec<Piece> {
    let whole = Raw::trusted(message);
    let Some(list) = whole.get(key) else { return vec![Piece { raw: Arc::clone(message), part: None }] };
    let (mut results, mut others) = (Vec::new(), Vec::new());
    for (index, block) in (0u32..).zip(list.elements()) {
        if is_result(block) { results.push(vec![index]) } else { others.push(index) }
    }
    if results.is_empty() || (results.len() == 1 && others.is_empty()) {
        return vec![Piece { raw: Arc::clone(message), part: None }];
    }
    let mut groups = results;
    if !others.is_empty() {
        groups.push(others);
    }
    let of = groups.len() as u32;
    (1..)
        .zip(groups)
        .map(|(number, indexes)| Piece {
            raw: with_blocks(whole, key, &indexes).into(),
            part: Some(Box::new(Part { number, of, indexes })),
        })
        .collect()
}

/// The message with only some of its blocks; every other member as it was.
fn with_blocks(message: Raw<'_>, key: &str, indexes: &[u32]) -> String {
    let mut out = String::from("{");
    for (name, value) in message.members() {
        if out.len() > 1 {
            out.push(',');
        }
        json::write_string(&mut out, &name);
        out.push(':');
        if name == key {
            out.push('[');
            let mut wanted = indexes.iter().peekable();
            let mut first = true;
            for (index, block) in (0u32..).zip(value.elements()) {
                if wanted.next_if_eq(&&index).is_none() {
                    continue;
                }
                if !first {
                    out.push(',');
                }
                first = false;
                out.push_str(block.text());
            }
            out.push(']');
        } else {
            out.push_str(value.text());
        }
    }
    out.push('}');
    out
}
