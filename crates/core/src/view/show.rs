//! The entries of a view as they are sent: results next to their calls, rewritten where an edit reaches them.

use std::sync::Arc;

use super::edit::{Edit, Mark, Reach};
use super::{Fidelity, INTERRUPTED, Item, Shown, Source, View};
use crate::block::ToolCall;
use crate::entry::Entry;
use crate::record::groups::Group;

/// Where a result stands in a view.
pub(super) struct Place<'r> {
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
    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let shown = self.summary.as_ref();
        let anchored = shown.filter(|shown| shown.before.is_none());
        let mut placed = shown.filter(|shown| shown.before.is_some());
        let lead = self.lead.iter().flat_map(|&index| self.group_items(index));
        let body = self.body.iter().map(Some).chain(std::iter::once(None)).flat_map(move |index| {
            let due = index.is_none_or(|index| placed.is_some_and(|shown| shown.before <= Some(index)));
            let summary = if due { placed.take().map(summary_item) } else { None };
            summary.into_iter().chain(index.into_iter().flat_map(|index| self.group_items(index)))
        });
        lead.chain(anchored.map(summary_item)).chain(body)
    }

    pub(crate) fn group_items(&self, index: u32) -> Vec<Item> {
        let Some(group) = self.group(index) else { return Vec::new() };
        let mut items = Vec::with_capacity(group.len());
        if let Some(entry) = self.record.entry(group.first.into()) {
            let left = entry.without_cut_parts();
            let fidelity = if left.is_some() { Fidelity::Rewritten } else { Fidelity::AsSaid };
            let entry = left.map_or_else(|| Arc::clone(entry), Arc::new);
            items.push(Item { source: Source::Entry(group.first.into()), entry, fidelity });
        }
        for place in self.places(index, group) {
            items.extend(self.result_item(&place));
        }
        items
    }

    /// The places of a group's results, in the order in which they are shown.
    pub(super) fn places(&self, index: u32, group: &'r Group) -> Vec<Place<'r>> {
        if !group.has_calls() {
            return Vec::new();
        }
        let mut tools =
            if self.spares_tools() { self.record.result_tools(group) } else { Vec::new() }.into_iter();
        let came = group.results.iter().map(|&position| Result::Came(position));
        let missing = if group.is_complete() { Vec::new() } else { self.record.missing_calls(group) };
        came.chain(missing.into_iter().map(Result::Missing))
            .zip(0..)
            .map(|(result, number)| Place {
                mark: Mark { group: index, result: number },
                result,
                tool: tools.next(),
            })
            .collect()
    }

    fn result_item(&self, place: &Place<'_>) -> Option<Item> {
        match place.result {
            Result::Came(position) => {
                let (entry, mut fidelity) = self.rewritten(place, self.record.entry(position.into())?);
                if fidelity == Fidelity::AsSaid && self.record.groups.is_moved(position) {
                    fidelity = Fidelity::Moved;
                }
                Some(Item { source: Source::Entry(position.into()), entry, fidelity })
            }
            Result::Missing(call) => {
                let call_id = call.call_id.as_ref().map(|id| id.as_str().into_owned()).unwrap_or_default();
                let (entry, fidelity) =
                    self.rewritten(place, &Arc::new(Entry::result(&call_id, INTERRUPTED)));
                Some(Item { source: Source::Interrupted { call_id }, entry, fidelity })
            }
        }
    }

    /// Whether any edit depends on which tool a result is of.
    fn spares_tools(&self) -> bool {
        self.edits.iter().any(
            |edit| matches!(&edit.reach, Reach::Before { exclude_tools, .. } if !exclude_tools.is_empty()),
        )
    }

    /// The edits that reach a result, in order: what was decided about it first.
    pub(super) fn edits_on<'s>(&'s self, place: &'s Place<'_>) -> impl Iterator<Item = &'s Edit> {
        let decided = match place.result {
            Result::Came(position) => self.record.decided.rewrites.get(&position),
            Result::Missing(_) => None,
        };
        decided.into_iter().chain(self.edits.iter().filter(move |edit| match &edit.reach {
            Reach::All { exempt } => !exempt.contains(place.mark.group),
            Reach::Before { mark, exclude_tools, exempt } => {
                place.mark < *mark
                    && !exempt.contains(place.mark.group)
                    && !place.tool.as_ref().is_some_and(|tool| exclude_tools.contains(tool))
            }
            Reach::Decided => false,
        }))
    }

    /// The entry as the edits leave it.
    pub(super) fn rewritten(&self, place: &Place<'_>, entry: &Arc<Entry>) -> (Arc<Entry>, Fidelity) {
        let mut current = Arc::clone(entry);
        let mut fidelity = Fidelity::AsSaid;
        for edit in self.edits_on(place) {
            if let Some(next) = edit.rewrite.apply(&current) {
                current = Arc::new(next);
                fidelity = Fidelity::Rewritten;
            }
        }
        (current, fidelity)
    }
}

fn summary_item(shown: &Shown) -> Item {
    let covers = shown.summary.positions.iter().map(u64::from).collect();
    Item { source: Source::Summary { covers }, entry: Arc::clone(&shown.entry), fidelity: Fidelity::AsSaid }
}
