//! Items that a list names instead of sending them: `item_reference` of Responses.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::block::BlockKind;
use crate::entry::{Entry, Role};
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

/// Whether two entries are the same messages by the ids that their provider gave them, so that one is the other in the client's
/// own words. What a person said is compared by its words alone: an edited question is another one, under whichever id.
pub(super) fn says_items(recorded: &Entry, asked: &Entry) -> bool {
    if recorded.role != asked.role || recorded.role == Role::User {
        return false;
    }
    let ids = said_ids(recorded);
    ids.is_some() && ids == said_ids(asked)
}

/// The ids of the items of an entry, reasoning aside; none where one has no id, where none is a message, or where tools are
/// called: then the calls say which entry it is.
fn said_ids(entry: &Entry) -> Option<Vec<Cow<'_, str>>> {
    if entry.origin.wire != Wire::OpenaiResponses || entry.tool_calls().next().is_some() {
        return None;
    }
    let (mut ids, mut speaks) = (Vec::new(), false);
    for item in items(Raw::trusted(&entry.origin.raw)) {
        match item.get("type").and_then(Raw::string).as_deref() {
            Some("reasoning") => continue,
            None | Some("message") => speaks = true,
            Some(_) => {}
        }
        ids.push(id(item).filter(|id| !id.is_empty())?);
    }
    speaks.then_some(ids)
}

fn is_reference(item: Raw<'_>) -> bool {
    item.get("type").and_then(Raw::string).as_deref() == Some("item_reference")
}

fn id(item: Raw<'_>) -> Option<Cow<'_, str>> {
    item.get("id").and_then(Raw::string)
}
