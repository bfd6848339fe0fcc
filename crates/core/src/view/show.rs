//! The entries of a view as they are sent: results next to their calls, rewritten where an edit reaches them.

use std::sync::Arc;

use super::edit::{Edit, Mark, Reach};
use super::{Fidelity, INTERRUPTED, Item, Shown, Source, View};
use crate::entry::Entry;
use crate::record::groups::Group;

impl View<'_> {
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
        for (number, &position) in group.results.iter().enumerate() {
            let Some(entry) = self.record.entry(position.into()) else { continue };
            let (entry, mut fidelity) =
                self.rewritten(Mark { group: index, result: number as u32 }, position, entry);
            if fidelity == Fidelity::AsSaid && self.record.groups.is_moved(position) {
                fidelity = Fidelity::Moved;
            }
            items.push(Item { source: Source::Entry(position.into()), entry, fidelity });
        }
        items.extend(self.missing_items(index, group));
        items
    }

    /// Results that stand in for missing ones, in call order.
    pub(super) fn missing_items(&self, index: u32, group: &Group) -> Vec<Item> {
        if group.is_complete() {
            return Vec::new();
        }
        let missing = self.record.missing_calls(group);
        missing
            .iter()
            .enumerate()
            .map(|(number, call)| {
                let call_id = call.call_id.as_ref().map(|id| id.as_str().into_owned()).unwrap_or_default();
                let entry = Arc::new(crate::wire::openai_chat::result_entry(&call_id, INTERRUPTED));
                let result = (group.results.len() + number) as u32;
                let (entry, fidelity) = self.rewritten(Mark { group: index, result }, u32::MAX, &entry);
                Item { source: Source::Interrupted { call_id }, entry, fidelity }
            })
            .collect()
    }

    /// The edits that reach a result, in order.
    pub(super) fn edits_on(&self, mark: Mark, position: u32) -> impl Iterator<Item = &Edit> {
        self.edits.iter().filter(move |edit| match &edit.reach {
            Reach::All { exempt } => !exempt.contains(mark.group),
            Reach::Positions(positions) => positions.contains(position),
            Reach::Before { mark: end, exclude_tools, exempt } => {
                mark < *end
                    && !exempt.contains(mark.group)
                    && (exclude_tools.is_empty() || !self.result_is_of(mark, position, exclude_tools))
            }
        })
    }

    /// Whether a result, or one that stands in, is of one of these tools.
    pub(crate) fn result_is_of(&self, mark: Mark, position: u32, tools: &[String]) -> bool {
        let name = self.record.tool_name(position).or_else(|| {
            let group = self.group(mark.group)?;
            let missing = self.record.missing_calls(group);
            let call = missing.get((mark.result as usize).checked_sub(group.results.len())?)?;
            Some(call.name.as_str().into_owned())
        });
        name.is_some_and(|name| tools.contains(&name))
    }

    pub(super) fn rewritten(&self, mark: Mark, position: u32, entry: &Arc<Entry>) -> (Arc<Entry>, Fidelity) {
        let mut current = Arc::clone(entry);
        let mut fidelity = Fidelity::AsSaid;
        for edit in self.edits_on(mark, position) {
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
