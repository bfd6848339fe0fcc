//! Tokens of a view, counted as it is shown.

use std::sync::Arc;

use super::edit::signature;
use super::show::{Result, ShownResult};
use super::{Fidelity, INTERRUPTED, ItemSource, View};
use crate::context::CurationContext;
use crate::entry::Entry;
use crate::tokens::{Count, Counter, entry_tokens};

impl View<'_> {
    /// Tokens of one group as the view shows it.
    pub(crate) fn group_tokens(&self, counter: Counter, index: u32) -> usize {
        let Some(group) = self.group(index) else { return 0 };
        let results =
            self.places(index, group).iter().map(|place| self.result_tokens(counter, place)).sum::<usize>();
        self.opening_tokens(counter, group.first) + results
    }

    fn opening_tokens(&self, counter: Counter, position: u32) -> usize {
        let whole = || self.record.entry_tokens(counter, position);
        match self.record.entry(position.into()).and_then(|entry| self.rewritten_opening(position, entry)) {
            Some(left) => counter.factor.apply(entry_tokens(counter.tokenizer, &left)),
            None => whole(),
        }
    }

    pub(super) fn result_tokens(&self, counter: Counter, place: &ShownResult<'_>) -> usize {
        let Result::Came(position) = place.result else {
            let stands_in = Arc::new(Entry::result("", INTERRUPTED));
            let entry = self.rewritten(place, &stands_in).0;
            return counter.factor.apply(entry_tokens(counter.tokenizer, &entry));
        };
        let edits: Vec<u64> = self.edits_on(place).map(|edit| edit.signature).collect();
        if edits.is_empty() {
            return self.record.entry_tokens(counter, position);
        }
        let key = match &self.recall {
            Some(tail) => signature(&(&edits, tail.as_str())),
            None => signature(&edits),
        };
        let tokens = self.record.cache.rewrite_tokens(counter.tokenizer, position, key, || {
            let Some(entry) = self.record.entry(position.into()) else { return 0 };
            match self.rewritten(place, entry) {
                (_, Fidelity::AsSaid | Fidelity::Moved) => {
                    self.record.raw_tokens(counter.tokenizer, position)
                }
                (rewritten, Fidelity::Rewritten) => entry_tokens(counter.tokenizer, &rewritten),
            }
        });
        counter.factor.apply(tokens)
    }

    /// Tokens of lead and summary, and of the line that says what was left out.
    pub(crate) fn anchored_tokens(&self, counter: Counter) -> usize {
        let lead: usize = self.lead.iter().map(|&index| self.group_tokens(counter, index)).sum();
        let around = self.summary.iter().map(|shown| &shown.entry).chain(&self.notice);
        let tokens = |entry: &Arc<Entry>| counter.factor.apply(entry_tokens(counter.tokenizer, entry));
        lead + around.map(tokens).sum::<usize>()
    }

    /// Tokens of the whole view, entry by entry.
    pub fn count(&self, cx: &CurationContext) -> Count {
        self.count_by(cx.counter, cx)
    }

    /// Tokens of the whole view by a given counter.
    pub(crate) fn count_by(&self, counter: Counter, cx: &CurationContext) -> Count {
        let per_entry: Vec<usize> = self
            .items()
            .map(|item| match item.source {
                ItemSource::Entry(position) if item.fidelity != Fidelity::Rewritten => {
                    self.record.entry_tokens(counter, position as u32)
                }
                _ => counter.factor.apply(entry_tokens(counter.tokenizer, &item.entry)),
            })
            .collect();
        let overhead = cx.overhead(counter);
        Count { total: per_entry.iter().sum::<usize>() + overhead, per_entry, overhead, counter }
    }

    /// Tokens of the whole view, for callers that do not need it entry by entry: the total of [`View::count`].
    pub fn tokens(&self, cx: &CurationContext) -> usize {
        self.total_tokens(cx.counter, cx)
    }

    /// Tokens of the whole view by a given counter, without listing entries.
    pub(crate) fn total_tokens(&self, counter: Counter, cx: &CurationContext) -> usize {
        cx.overhead(counter) + self.anchored_tokens(counter) + self.body_tokens(counter)
    }

    /// Tokens of everything that is neither lead nor summary.
    pub(crate) fn body_tokens(&self, counter: Counter) -> usize {
        let ledgers: usize = self.ledgers().map(|ledger| ledger.tokens(counter)).sum();
        ledgers + self.body.iter().map(|index| self.group_tokens(counter, index)).sum::<usize>()
    }
}
