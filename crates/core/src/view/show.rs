//! The entries of a view as they are sent: results next to their calls, rewritten where an edit reaches them.

use std::sync::Arc;

use super::edit::{Edit, EditScope, Mark};
use super::{Fidelity, INTERRUPTED, ItemSource, ShownSummary, View, ViewItem};
use crate::auto::ledger::Ledger;
use crate::auto::plan::PlanUnit;
use crate::block::ToolCall;
use crate::entry::{Entry, Role};
use crate::recall::Handle;
use crate::record::groups::Group;

/// Where a result stands in a view.
pub(super) struct ShownResult<'r> {
    pub(super) mark: Mark,
    pub(super) result: Result<'r>,
    /// Its tool, where an edit asks for it.
    tool: Option<String>,
}

/// A result that came, or the call that still waits for one.
#[derive(Clone, Copy)]
pub(super) enum Result<'r> {
    Came(u32),
    Missing(&'r ToolCall),
}

impl<'r> View<'r> {
    /// The entries of the view, in order.
    pub fn items(&self) -> impl Iterator<Item = ViewItem> + use<> {
        let mut items = Vec::with_capacity(self.len());
        for &index in &self.lead {
            self.add_group(index, &mut items);
        }
        // A summary stands at the end of the lead, or before the group it names.
        let mut waiting = self.summary.as_ref();
        let planned = self.plan.is_some();
        items.extend(waiting.take_if(|shown| shown.before.is_none() || planned).map(summary_item));
        items.extend(self.notice.as_ref().map(notice_item));
        if let Some(plan) = &self.plan {
            for unit in plan.order(&self.body) {
                match unit {
                    PlanUnit::Group(index) => self.add_group(index, &mut items),
                    PlanUnit::Ledger(ledger) => items.push(ledger_item(&ledger)),
                }
            }
            return items.into_iter();
        }
        for index in self.body.iter() {
            items.extend(waiting.take_if(|shown| shown.before <= Some(index)).map(summary_item));
            self.add_group(index, &mut items);
        }
        items.extend(waiting.map(summary_item));
        items.into_iter()
    }

    pub(crate) fn group_items(&self, index: u32) -> Vec<ViewItem> {
        let mut items = Vec::new();
        self.add_group(index, &mut items);
        items
    }

    /// Adds what is shown of a group. Most groups are one entry, for which nothing is allocated.
    fn add_group(&self, index: u32, items: &mut Vec<ViewItem>) {
        let Some(group) = self.group(index) else { return };
        if let Some(entry) = self.record.entry(group.first.into()) {
            let left = self.rewritten_opening(group.first, entry);
            let fidelity = if left.is_some() { Fidelity::Rewritten } else { Fidelity::AsSaid };
            let entry = left.map_or_else(|| Arc::clone(entry), Arc::new);
            items.push(ViewItem { source: ItemSource::Entry(group.first.into()), entry, fidelity });
        }
        for place in self.places(index, group) {
            items.extend(self.result_item(&place));
        }
    }

    /// The places of a group's results, in the order in which they are shown.
    pub(super) fn places(&self, index: u32, group: &'r Group) -> Vec<ShownResult<'r>> {
        if !group.has_calls() {
            return Vec::new();
        }
        let mut tools =
            if self.spares_tools() { self.record.result_tools(group) } else { Vec::new() }.into_iter();
        let came = group.results.iter().map(|&position| Result::Came(position));
        let missing = if group.is_complete() { Vec::new() } else { self.record.missing_calls(group) };
        came.chain(missing.into_iter().map(Result::Missing))
            .zip(0..)
            .map(|(result, number)| ShownResult {
                mark: Mark { group: index, result: number },
                result,
                tool: tools.next(),
            })
            .collect()
    }

    fn result_item(&self, place: &ShownResult<'_>) -> Option<ViewItem> {
        match place.result {
            Result::Came(position) => {
                let (entry, mut fidelity) = self.rewritten(place, self.record.entry(position.into())?);
                if fidelity == Fidelity::AsSaid && self.record.groups.is_moved(position) {
                    fidelity = Fidelity::Moved;
                }
                Some(ViewItem { source: ItemSource::Entry(position.into()), entry, fidelity })
            }
            Result::Missing(call) => {
                let call_id = call.call_id.as_ref().map(|id| id.as_str().into_owned()).unwrap_or_default();
                let (entry, fidelity) =
                    self.rewritten(place, &Arc::new(Entry::result(&call_id, INTERRUPTED)));
                Some(ViewItem { source: ItemSource::Interrupted { call_id }, entry, fidelity })
            }
        }
    }

    /// Whether any edit depends on which tool a result is of.
    fn spares_tools(&self) -> bool {
        self.edits.iter().any(
            |edit| matches!(&edit.reach, EditScope::Before { exclude_tools, .. } if !exclude_tools.is_empty()),
        )
    }

    /// The edits that reach a result, in order: what was decided about it first.
    pub(super) fn edits_on<'s>(&'s self, place: &'s ShownResult<'_>) -> impl Iterator<Item = &'s Edit> {
        let decided = match place.result {
            Result::Came(position) => self.record.decided.rewrites.get(&position),
            Result::Missing(_) => None,
        };
        decided.into_iter().chain(self.edits.iter().filter(move |edit| match &edit.reach {
            EditScope::All { exempt } => !exempt.contains(place.mark.group),
            EditScope::Before { mark, exclude_tools, exempt } => {
                place.mark < *mark
                    && !exempt.contains(place.mark.group)
                    && !place.tool.as_ref().is_some_and(|tool| exclude_tools.contains(tool))
            }
            EditScope::Listed(positions) => {
                matches!(place.result, Result::Came(position) if positions.contains(position))
            }
            EditScope::Decided => false,
        }))
    }

    /// The entry that opens a group as it is shown; none if that is as it was said.
    pub(super) fn rewritten_opening(&self, position: u32, entry: &Entry) -> Option<Entry> {
        if entry.role != Role::User {
            return entry.without_cut_parts();
        }
        let handle = self.recall.as_ref().map(|tail| Handle::at(tail.clone(), position.into()));
        let mut current = None;
        for edit in self.edits_on_opening(position) {
            let next = edit.rewrite.apply_with(current.as_ref().unwrap_or(entry), handle.as_ref());
            current = next.or(current);
        }
        current
    }

    /// The edits that reach the entry that opens a group, in order: what was decided about it first.
    pub(super) fn edits_on_opening(&self, position: u32) -> impl Iterator<Item = &Edit> {
        let decided = self.record.decided.rewrites.get(&position);
        let listed = self.edits.iter().filter(
            move |edit| matches!(&edit.reach, EditScope::Listed(positions) if positions.contains(position)),
        );
        decided.into_iter().chain(listed)
    }

    /// The name of a result, where the model can read it.
    pub(super) fn handle_of(&self, place: &ShownResult<'_>) -> Option<Handle> {
        match (&self.recall, place.result) {
            (Some(tail), Result::Came(position)) => Some(Handle::at(tail.clone(), position.into())),
            _ => None,
        }
    }

    /// The entry as the edits leave it.
    pub(super) fn rewritten(&self, place: &ShownResult<'_>, entry: &Arc<Entry>) -> (Arc<Entry>, Fidelity) {
        let mut current = Arc::clone(entry);
        let mut fidelity = Fidelity::AsSaid;
        let handle = self.handle_of(place);
        for edit in self.edits_on(place) {
            if let Some(next) = edit.rewrite.apply_with(&current, handle.as_ref()) {
                current = Arc::new(next);
                fidelity = Fidelity::Rewritten;
            }
        }
        (current, fidelity)
    }
}

fn ledger_item(ledger: &Ledger) -> ViewItem {
    let mut of: Vec<u64> = ledger.lines().map(|(position, ..)| *position).collect();
    of.dedup();
    ViewItem {
        source: ItemSource::Ledger { of },
        entry: Arc::clone(&ledger.entry),
        fidelity: Fidelity::AsSaid,
    }
}

/// A ledger of no lines: it says what was left out, and nothing of it.
fn notice_item(notice: &Arc<Entry>) -> ViewItem {
    let source = ItemSource::Ledger { of: Vec::new() };
    ViewItem { source, entry: Arc::clone(notice), fidelity: Fidelity::AsSaid }
}

fn summary_item(shown: &ShownSummary) -> ViewItem {
    let covers = shown.summary.positions.iter().map(u64::from).collect();
    ViewItem {
        source: ItemSource::Summary { covers },
        entry: Arc::clone(&shown.entry),
        fidelity: Fidelity::AsSaid,
    }
}
