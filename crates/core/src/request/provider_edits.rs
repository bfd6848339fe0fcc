//! What a provider did to a request by itself, as decisions: so that the next view does not pay for it twice.

use std::collections::{HashMap, HashSet};

use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::Role;
use crate::json::{self, Raw};
use crate::record::Record;
use crate::stream::AppliedEdit;
use crate::view::{ItemSource, View};

/// The edit that clears tool results.
const CLEARS_TOOL_USES: &str = "clear_tool_uses";

/// The decisions that keep what a provider says it cleared of a request: the oldest results that the request showed, but for
/// those of tools that the request excludes. Empty where the record has them already.
pub fn provider_edits(
    record: &Record,
    request: &[u8],
    edits: &[AppliedEdit],
    cx: &CurationContext,
) -> Vec<Decision> {
    let clears = edits.iter().filter(|edit| edit.edit.starts_with(CLEARS_TOOL_USES));
    clears.filter_map(|edit| cleared(record, request, edit, cx)).collect()
}

fn cleared(record: &Record, request: &[u8], edit: &AppliedEdit, cx: &CurationContext) -> Option<Decision> {
    if edit.cleared_tool_uses == 0 {
        return None;
    }
    let excluded = excluded(request, &edit.edit);
    let view = View::of(record, cx);
    let mut names = HashMap::new();
    let mut positions = Vec::new();
    for item in view.items() {
        for call in item.entry.tool_calls() {
            if let Some(id) = &call.call_id {
                names.insert(id.as_str().into_owned(), call.name.as_str().into_owned());
            }
        }
        let (Role::Tool, ItemSource::Entry(position)) = (item.entry.role, item.source) else { continue };
        let name = item.entry.tool_call_id().and_then(|id| names.get::<str>(&id));
        if name.is_some_and(|name| excluded.contains(name)) {
            continue;
        }
        positions.push(position);
        if positions.len() as u64 == edit.cleared_tool_uses {
            break;
        }
    }
    let known = |position: &u64| record.decided.is_cleared_by_provider(*position);
    if positions.iter().all(known) {
        return None;
    }
    Some(Decision::ProviderEdit { edit: edit.edit.clone(), positions })
}

/// Names of the tools whose results a request does not want cleared.
fn excluded(request: &[u8], edit: &str) -> HashSet<String> {
    let Ok(body) = json::check_bytes(request) else { return HashSet::new() };
    let edits = body.get("context_management").and_then(|management| management.get("edits"));
    let mut asked = edits.into_iter().flat_map(Raw::elements);
    let asked = asked.find(|asked| asked.get("type").and_then(Raw::string).as_deref() == Some(edit));
    let tools = asked.and_then(|asked| asked.get("exclude_tools"));
    tools.into_iter().flat_map(Raw::elements).filter_map(|name| Some(name.string()?.into_owned())).collect()
}
