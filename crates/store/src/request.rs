//! How a request is laid out in the store: as a list of items that name ranges of the record, blobs, and parts.
//!
//! A part is a stretch of such a list that is kept apart under its hash. The list of a long conversation is cut into parts
//! where its items say so and not where they stand, so the list of the next call has nearly all parts in common with it.
//! Parts are cut into parts in turn until little is left, which is what the row of the call keeps.

use std::collections::HashMap;

use scrollback_core::Link;
use scrollback_core::request::{BodyPiece, BodyTemplate};
use serde::{Deserialize, Serialize};

use crate::body::hex;

/// Texts of so many bytes are blobs; shorter ones stand in the list.
pub(crate) const BLOB: usize = 256;
/// Most bytes of a list that is not cut into parts.
const LIST: usize = 512;
/// Fewest bytes of a part: shorter ones are not worth their row.
const PART_LEAST: usize = 256;
/// Most bytes of a part, more or less: two of them fit on a page of the database.
const PART_MOST: usize = 2048;
/// One item in so many ends a part that is long enough.
const PART_END: u8 = 8;

/// An element of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum ListItem {
    /// A short text.
    Text(String),
    /// Whole messages, from the first position to the last.
    Run(u64, u64),
    /// A range of a message: position, start, end.
    Copy(u64, u32, u32),
    /// A long text, by the hash of its blob.
    Blob { blob: String },
    /// More items, by the hash of their text.
    Part { part: String },
}

/// A request on its way into the store.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Hash of the whole body.
    pub(crate) hash: Link,
    /// The list that the row of the call keeps.
    pub(crate) list: String,
    /// The parts it names, and those that these name.
    pub(crate) parts: HashMap<Link, String>,
    /// The texts of all of them that are blobs.
    pub(crate) blobs: HashMap<Link, Vec<u8>>,
    /// The highest position that something is copied from.
    pub(crate) highest: Option<u64>,
}

impl Layout {
    pub(crate) fn of(template: BodyTemplate) -> Self {
        let hash = *template.hash();
        let mut blobs = HashMap::new();
        let mut highest = None;
        let mut item = |piece: BodyPiece| match piece {
            BodyPiece::Run { first, last } => {
                highest = highest.max(Some(last));
                ListItem::Run(first, last)
            }
            BodyPiece::Copy { position, start, end } => {
                highest = highest.max(Some(position));
                ListItem::Copy(position, start, end)
            }
            BodyPiece::Text(bytes) => match std::str::from_utf8(&bytes) {
                Ok(text) if text.len() < BLOB => ListItem::Text(text.into()),
                _ => {
                    let hash = *blake3::hash(&bytes).as_bytes();
                    blobs.insert(hash, bytes);
                    ListItem::Blob { blob: hex(&hash) }
                }
            },
        };
        let items: Vec<String> =
            template.into_pieces().into_iter().map(|piece| written(&item(piece))).collect();
        let (list, parts) = cut(items);
        Layout { hash, list, parts, blobs, highest }
    }
}

fn written(item: &ListItem) -> String {
    serde_json::to_string(item).unwrap_or_default()
}

fn listed(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

/// The items of a list, if it is one.
pub(crate) fn items(list: &str) -> Option<Vec<ListItem>> {
    serde_json::from_str(list).ok()
}

/// Cuts a list into parts until it is short, and gives what is left of it.
fn cut(mut items: Vec<String>) -> (String, HashMap<Link, String>) {
    let mut parts = HashMap::new();
    while items.iter().map(|item| item.len() + 1).sum::<usize>() > LIST {
        let before = items.len();
        items = cut_once(items, &mut parts);
        if items.len() == before {
            break;
        }
    }
    (listed(&items), parts)
}

/// Puts a part in the place of its items. What stands after the last part stays: the next call has other items there.
fn cut_once(items: Vec<String>, parts: &mut HashMap<Link, String>) -> Vec<String> {
    let (mut left, mut open, mut size) = (Vec::new(), Vec::new(), 0);
    for item in items {
        size += item.len() + 1;
        let ends = blake3::hash(item.as_bytes()).as_bytes().first().is_some_and(|byte| byte % PART_END == 0);
        open.push(item);
        if size >= PART_MOST || (size >= PART_LEAST && ends && open.len() > 1) {
            let text = listed(&std::mem::take(&mut open));
            let hash = *blake3::hash(text.as_bytes()).as_bytes();
            left.push(written(&ListItem::Part { part: hex(&hash) }));
            parts.insert(hash, text);
            size = 0;
        }
    }
    left.extend(open);
    left
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::body::unhex;

    fn template(positions: u64, changing: &str) -> BodyTemplate {
        let mut pieces = vec![BodyPiece::Text(changing.into()), BodyPiece::Text(vec![b'x'; BLOB])];
        for position in 0..positions {
            pieces.push(BodyPiece::Copy { position, start: 0, end: 100 });
            pieces.push(BodyPiece::Text(b",\"cache_control\":{}".to_vec()));
        }
        BodyTemplate::from_pieces([7; 32], pieces)
    }

    /// The items again, with parts in place of their names.
    fn flat(layout: &Layout) -> Vec<ListItem> {
        let mut open = items(&layout.list).unwrap();
        open.reverse();
        let mut flat = Vec::new();
        while let Some(item) = open.pop() {
            match item {
                ListItem::Part { part } => {
                    open.extend(items(&layout.parts[&unhex(&part).unwrap()]).unwrap().into_iter().rev());
                }
                item => flat.push(item),
            }
        }
        flat
    }

    #[test]
    fn parts_hold_all_items_in_order() {
        for positions in [0, 1, 5, 40, 3_000] {
            let layout = Layout::of(template(positions, "{"));
            let found = flat(&layout);
            assert_eq!(found.len() as u64, 2 + 2 * positions);
            assert!(layout.list.len() < 3_000, "{} bytes are left", layout.list.len());
            assert_eq!((layout.blobs.len(), layout.highest), (1, positions.checked_sub(1)));
        }
    }

    #[test]
    fn the_next_call_has_nearly_all_parts_in_common() {
        let mut known = std::collections::HashSet::new();
        let mut added = 0;
        for call in 1..=1_000 {
            let layout = Layout::of(template(2 * call, &format!("call {call}")));
            added += layout.list.len();
            for (hash, text) in layout.parts {
                added += if known.insert(hash) { text.len() } else { 0 };
            }
        }
        // A list of 4,002 items is about 70 KB long; a thousand of them would be 35 MB.
        assert!(added < 5_000_000, "{added} bytes");
    }

    #[test]
    fn items_are_told_apart_by_their_shape() {
        let all = [
            ListItem::Text("[1,2]\u{0}\"".into()),
            ListItem::Run(1, 2),
            ListItem::Copy(1, 2, 3),
            ListItem::Blob { blob: "ab".into() },
            ListItem::Part { part: "cd".into() },
        ];
        let list = listed(&all.iter().map(written).collect::<Vec<_>>());
        assert_eq!(list, r#"["[1,2]\u0000\"",[1,2],[1,2,3],{"blob":"ab"},{"part":"cd"}]"#);
        assert_eq!(items(&list).unwrap(), all);
    }
}
