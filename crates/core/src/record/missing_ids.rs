//! Calls without ids: some wires pair calls and results by name and order, a record does by id.
//!
//! The ids are no part of what was said. They name a place in this record, so they are given when an entry is appended, and
//! given again in the same way when the record is read back; ids that were given in a client's list name places there.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Record, Slot};
use crate::block::BlockKind;
use crate::entry::{Entry, Role};
use crate::identity::said_id;
use crate::text::Text;
use crate::wire::Wire;

/// The entry, about to be appended to a record, with an id for every call and every result that came without.
pub(super) fn with_ids(record: &Record, entry: Arc<Entry>) -> Arc<Entry> {
    if entry.origin.wire != Wire::Gemini || !lacks_ids(&entry) {
        return entry;
    }
    let mut named = Entry::clone(&entry);
    let position = record.slots.len();
    let answers =
        named.tool_result().and_then(|result| result.name.as_ref()).map(|name| name.as_str().into_owned());
    let answered = answers.and_then(|name| waiting(record, &name));
    let mut number = 0;
    for block in &mut named.blocks {
        match &mut block.kind {
            BlockKind::ToolCall(call) => {
                if said_id(call.call_id.as_ref()).is_none() {
                    call.call_id = Some(Text::from(format!("sb_{position}_{number}").as_str()));
                }
                number += 1;
            }
            BlockKind::ToolResult(result) if said_id(result.call_id.as_ref()).is_none() => {
                // A copy, not a part of the call's message: the id is still no part of what this result said.
                result.call_id = answered.as_ref().map(|id| Text::from(&*id.as_str()));
            }
            _ => {}
        }
    }
    Arc::new(named)
}

fn lacks_ids(entry: &Entry) -> bool {
    entry.blocks.iter().any(|block| match &block.kind {
        BlockKind::ToolCall(call) => said_id(call.call_id.as_ref()).is_none(),
        BlockKind::ToolResult(result) => said_id(result.call_id.as_ref()).is_none(),
        _ => false,
    })
}

/// The id of the first call of that name in the newest reply that no result after it answers.
fn waiting(record: &Record, name: &str) -> Option<Text> {
    let mut answered: HashSet<String> = HashSet::new();
    for slot in record.slots.iter().rev() {
        let Slot::Message(entry) = slot else { continue };
        if let Some(id) = entry.tool_call_id() {
            answered.insert(id);
        } else if entry.role == Role::Assistant {
            let ids = entry.tool_calls().filter(|call| call.name.as_str() == name);
            let mut ids = ids.filter_map(|call| call.call_id.clone());
            return ids.find(|id| !answered.contains(id.as_str().as_ref()));
        }
    }
    None
}
