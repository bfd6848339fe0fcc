//! The line that says what a plan leaves out.

use std::collections::HashSet;

use super::ledger::LedgerPart;
use crate::view::{View, notice};

/// What is shown of no group before `tail` but those in `shown`: turns, messages, tools, files, and the handle of all of it.
/// None where no line is wanted, or nothing is left out.
pub(super) fn notice(view: &View<'_>, shown: &HashSet<u32>, tail: u32) -> Option<LedgerPart> {
    let groups = view.groups().map(|(index, _)| index);
    let line = notice::line(view, groups.filter(|index| *index < tail && !shown.contains(index)))?;
    Some(LedgerPart { heading: line, lines: Vec::new() })
}
