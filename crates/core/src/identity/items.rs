//! Items that a list names instead of sending them: `item_reference` of Responses.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::block::BlockKind;
use crate::entry::Entry;
use crate::json::{self, Raw};
use crate::record::{Record, Slot};
use crate::wire::Wire;
use crate::wire::responses_items as items;

/// Whether an entry names items instead of saying them.
pub(super) fn names_items(entry: &Entry) -> bool {
    entry.origin.wire == Wire::OpenaiResponses
        && entry.blocks.iter().any(|block| match &block.kind {
            BlockKind::Opaque(raw) => is_reference(raw.raw()),
            _ => false,
        })
}

/// The items of a record, by the ids that their provider gave them.
#[derive(Default)]
pub(super) struct Items<'r>(HashMap<Cow<'r, str>, Raw<'r>>);

impl<'r> Items<'r> {
    pub(super) fn of(record: &'r Record) -> Self {
        let mut found = HashMap::new();
        for slot in record.slots() {
            let Slot::Message(entry) = slot else { continue };
            if entry.origin.wire == Wire::OpenaiResponses {
                let said = items(Raw::trusted(&entry.origin.raw)).into_iter();
                let named =
                    said.filter(|item| !is_reference(*item)).filter_map(|item| Some((id(item)?, item)));
                found.extend(named);
            }
        }
        Items(found)
    }

    /// The entry with the items that it names; none if the record does not have all of them.
    pub(super) fn resolve(&self, entry: &Entry) -> Option<Entry> {
        let mut list = String::from("[");
        for item in items(Raw::trusted(&entry.origin.raw)) {
            let said = if is_reference(item) { *self.0.get(&id(item)?)? } else { item };
            if list.len() > 1 {
                list.push(',');
            }
            list.push_str(said.text());
        }
        list.push(']');
        Wire::OpenaiResponses.read_message(json::check(&list).ok()?).ok()
    }
}

fn is_reference(item: Raw<'_>) -> bool {
    item.get("type").and_then(Raw::string).as_deref() == Some("item_reference")
}

fn id(item: Raw<'_>) -> Option<Cow<'_, str>> {
    item.get("id").and_then(Raw::string)
}
