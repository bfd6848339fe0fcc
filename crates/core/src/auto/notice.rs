//! The line that says what a plan leaves out, for models that can read it back.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;

use super::ledger::LedgerPart;
use crate::entry::Role;
use crate::recall::{Handle, files_named};
use crate::view::View;

/// Tools and files that are named; more are counted.
const NAMED: usize = 6;

/// What is shown of no group before `tail` but those in `shown`: turns, messages, tools, files, and the handle of all of it.
/// None where the model has no tool to read it with, or nothing is left out.
pub(super) fn notice(view: &View<'_>, shown: &HashSet<u32>, tail: u32) -> Option<LedgerPart> {
    let conversation = view.recall()?;
    let (mut turns, mut messages) = (0, 0);
    let (mut tools, mut files) = (BTreeSet::new(), BTreeSet::new());
    let mut range: Option<(u64, u64)> = None;
    for (_, group) in view.groups().filter(|(index, _)| *index < tail && !shown.contains(index)) {
        turns += usize::from(group.role == Role::User);
        messages += group.len();
        for position in group.positions().map(u64::from) {
            let (first, last) = range.unwrap_or((position, position));
            range = Some((first.min(position), last.max(position)));
        }
        let Some(opening) = view.record().entry(group.first.into()) else { continue };
        for call in opening.tool_calls() {
            tools.insert(call.name.as_str().into_owned());
            files.extend(files_named(&call.arguments.as_str()));
        }
    }
    let (first, last) = range?;
    let mut line = format!("[left out: {turns} turns, {messages} messages");
    for (what, names) in [("tools", tools), ("files", files)] {
        if names.is_empty() {
            continue;
        }
        let more = names.len().saturating_sub(NAMED);
        let shown: Vec<String> = names.into_iter().take(NAMED).collect();
        let _ = write!(line, "; {what}: {}", shown.join(", "));
        if more > 0 {
            let _ = write!(line, " and {more} more");
        }
    }
    let _ = write!(line, "; search, or read {}]", Handle::between(conversation.clone(), first, last));
    Some(LedgerPart { heading: line, lines: Vec::new() })
}
