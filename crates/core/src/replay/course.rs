//! What recorded calls saw, one after the other.

use std::sync::Arc;

use serde::Serialize;

use crate::context::CurationContext;
use crate::entry::Role;
use crate::error::CurationError;
use crate::manager::HistoryManager;
use crate::record::{Record, Slot};
use crate::view::{Epoch, ItemSource, View, ViewItem};

/// Tokens of a view by who said them. Summaries and ledgers are counted apart from what was really said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByRole {
    /// Instructions.
    pub system: u64,
    /// What users said.
    pub user: u64,
    /// What the assistant said, its calls included.
    pub assistant: u64,
    /// Results of tools.
    pub tool: u64,
    /// Summaries and ledgers that stand for older entries.
    pub summary: u64,
}

impl ByRole {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.system + self.user + self.assistant + self.tool + self.summary
    }

    fn add(&mut self, item: &ViewItem, tokens: u64) {
        let place = match (&item.source, item.entry.role) {
            (ItemSource::Summary { .. } | ItemSource::Ledger { .. }, _) => &mut self.summary,
            (_, Role::System) => &mut self.system,
            (_, Role::User) => &mut self.user,
            (_, Role::Assistant) => &mut self.assistant,
            (_, Role::Tool) => &mut self.tool,
        };
        *place += tokens;
    }
}

/// One call to repeat.
pub struct RepeatedCall {
    /// The view was that of the record below this position.
    pub upto: u64,
    /// Who made it.
    pub manager: Arc<dyn HistoryManager>,
    /// For which model, with which tools.
    pub cx: CurationContext,
}

/// What one call saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Tokens by who said them.
    pub tokens: ByRole,
    /// Entries in the view.
    pub entries: usize,
    /// Messages in the record at that time.
    pub of: usize,
    /// Entries that are not what was said.
    pub changed: usize,
    /// The epoch, where a manager that cuts rarely was at work.
    pub epoch: Option<Epoch>,
    /// Tokens of the entries it has in common with the call before, from the start.
    pub shared: u64,
    /// Whether something the call before had is not there any more: the prefix was broken.
    pub cut: bool,
}

/// Repeats calls, which must be in the order of `upto`. A call whose view cannot be made is told so in its place.
pub fn course(slots: &[Slot], calls: &[RepeatedCall]) -> Vec<Result<Seen, CurationError>> {
    let mut record = Record::new();
    let mut places = slots.iter();
    let mut before: Vec<ViewItem> = Vec::new();
    let mut seen = Vec::with_capacity(calls.len());
    for call in calls {
        while (record.len() as u64) < call.upto
            && let Some(slot) = places.next()
        {
            // What the store accepted once is accepted again.
            let _ = record.take(slot.clone());
        }
        seen.push(record.view(&call.cx, call.manager.as_ref()).map(|view| {
            let (sight, items) = look(&record, &view, &call.cx, &before, |place| place);
            before = items;
            sight
        }));
    }
    seen
}

/// Measures a view beside the one before it. Its entries are named by `position_of` their places in the record.
pub(super) fn look(
    record: &Record,
    view: &View<'_>,
    cx: &CurationContext,
    before: &[ViewItem],
    position_of: impl Fn(u64) -> u64,
) -> (Seen, Vec<ViewItem>) {
    let mut items: Vec<ViewItem> = view.items().collect();
    for item in &mut items {
        if let ItemSource::Entry(place) = &mut item.source {
            *place = position_of(*place);
        }
    }
    let count = view.count(cx);
    let mut tokens = ByRole::default();
    for (item, count) in items.iter().zip(&count.per_entry) {
        tokens.add(item, *count as u64);
    }
    let same = before.iter().zip(&items).take_while(|(one, other)| says_the_same(one, other)).count();
    let shared = count.per_entry.iter().take(same).map(|count| *count as u64).sum();
    let seen = Seen {
        tokens,
        entries: items.len(),
        of: record.message_count(),
        changed: items.iter().filter(|item| item.is_changed()).count(),
        epoch: view.epoch(),
        shared,
        cut: same < before.len(),
    };
    (seen, items)
}

fn says_the_same(one: &ViewItem, other: &ViewItem) -> bool {
    one.source == other.source && (Arc::ptr_eq(&one.entry, &other.entry) || one.entry == other.entry)
}
