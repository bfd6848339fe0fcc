//! Calls without ids: some wires pair calls and results by name and order, a record does by id.
//!
//! The ids are no part of what was said. They name a place in this record, so they are given when an entry is appended, and
//! given again in the same way when the record is read back; ids that were given in a client's list name places there.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::{Record, Slot};
use crate::block::BlockKind;
use crate::entry::{Entry, Role};
use crate::identity::said_id;
use crate::json;
use crate::text::Text;
use crate::wire::Wire;

/// The entry, about to be appended to a record, with an id for every call and every result that came without.
pub(super) fn with_ids(record: &mut Record, entry: Arc<Entry>) -> Arc<Entry> {
    if !lacks_ids(&entry) || !pairs_by_name(&entry) {
        return entry;
    }
    let mut named = Entry::clone(&entry);
    let position = record.slots.len();
    let answers =
        named.tool_result().and_then(|result| result.name.as_ref()).map(|name| name.as_str().into_owned());
    let answered = answers.and_then(|name| record.unnamed.waiting(&record.slots, &name));
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

/// Whether its wire pairs calls and results by name: Gemini's does, and the old `function_call` of Chat Completions.
fn pairs_by_name(entry: &Entry) -> bool {
    let has = |key: &str| json::check(&entry.origin.raw).is_ok_and(|raw| raw.get(key).is_some());
    match entry.origin.wire {
        Wire::Gemini => true,
        Wire::OpenaiChat if entry.tool_result().is_some() => has("name") && !has("tool_call_id"),
        Wire::OpenaiChat => has("function_call") && !has("tool_calls"),
        _ => false,
    }
}

fn lacks_ids(entry: &Entry) -> bool {
    entry.blocks.iter().any(|block| match &block.kind {
        BlockKind::ToolCall(call) => said_id(call.call_id.as_ref()).is_none(),
        BlockKind::ToolResult(result) => said_id(result.call_id.as_ref()).is_none(),
        _ => false,
    })
}

/// The calls of the newest reply that wait for a result, by the name of their tool. Kept from entry to entry: looking through all
/// results of a reply for each of them would cost the square of their number.
#[derive(Debug, Default)]
pub(super) struct Unnamed {
    /// How many places of the record were looked at.
    seen: usize,
    waiting: HashMap<String, VecDeque<Text>>,
    answered: HashSet<String>,
}

impl Unnamed {
    /// The id of the first call of that name in the newest reply that no result after it answers.
    fn waiting(&mut self, slots: &[Slot], name: &str) -> Option<Text> {
        for slot in slots.get(self.seen..).unwrap_or_default() {
            let Slot::Message(entry) = slot else { continue };
            if let Some(id) = entry.tool_call_id() {
                self.answered.insert(id);
            } else if entry.role == Role::Assistant {
                self.answered.clear();
                self.waiting.clear();
                for call in entry.tool_calls() {
                    let line = self.waiting.entry(call.name.as_str().into_owned()).or_default();
                    line.extend(call.call_id.clone());
                }
            }
        }
        self.seen = slots.len();
        let line = self.waiting.get_mut(name)?;
        while line.front().is_some_and(|id| self.answered.contains(id.as_str().as_ref())) {
            line.pop_front();
        }
        line.front().cloned()
    }
}
