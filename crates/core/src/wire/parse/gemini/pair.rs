//! Ids for calls that came without: the provider pairs calls and responses by name and order, a record by id.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::block::{BlockKind, ToolCall, ToolResult};
use crate::entry::Entry;
use crate::text::Text;

/// Gives calls without an id one (`sb_<position>_<number>`), and responses without one that of the call they answer:
/// in the nearest reply before, the first call of their name that is not answered yet. Whether anything was given.
pub(crate) fn give_ids(entries: &mut [Entry]) -> bool {
    let mut given = false;
    let mut waiting: HashMap<String, VecDeque<Text>> = HashMap::new();
    let mut answered: HashSet<String> = HashSet::new();
    let mut rest = entries;
    let mut position = 0;
    while let Some(first) = rest.first() {
        if first.tool_result().is_none() {
            let Some((entry, others)) = rest.split_first_mut() else { break };
            if entry.role == crate::Role::Assistant {
                waiting.clear();
                for (number, call) in calls(entry).enumerate() {
                    if call.call_id.is_none() {
                        call.call_id = Some(Text::from(format!("sb_{position}_{number}").as_str()));
                        given = true;
                    }
                    let queue = waiting.entry(call.name.as_str().into_owned()).or_default();
                    queue.extend(call.call_id.clone());
                }
            }
            (rest, position) = (others, position + 1);
            continue;
        }
        // A run of responses: those that name their call leave only the others open.
        let run = rest.iter().take_while(|entry| entry.tool_result().is_some()).count();
        let (responses, others) = rest.split_at_mut(run);
        answered.clear();
        answered.extend(responses.iter().filter_map(Entry::tool_call_id));
        for result in responses.iter_mut().filter_map(result) {
            let Some(queue) = result.name.as_ref().and_then(|name| waiting.get_mut(name.as_str().as_ref()))
            else {
                continue;
            };
            if result.call_id.is_none() {
                let open = std::iter::from_fn(|| queue.pop_front())
                    .find(|id| !answered.contains(id.as_str().as_ref()));
                given |= open.is_some();
                // A copy, not a part of the call's message: what this result said has no id.
                result.call_id = open.map(|id| Text::from(&*id.as_str()));
            }
        }
        (rest, position) = (others, position + run);
    }
    given
}

fn calls(entry: &mut Entry) -> impl Iterator<Item = &mut ToolCall> {
    entry.blocks.iter_mut().filter_map(|block| match &mut block.kind {
        BlockKind::ToolCall(call) => Some(call.as_mut()),
        _ => None,
    })
}

fn result(entry: &mut Entry) -> Option<&mut ToolResult> {
    entry.blocks.iter_mut().find_map(|block| match &mut block.kind {
        BlockKind::ToolResult(result) => Some(result.as_mut()),
        _ => None,
    })
}
