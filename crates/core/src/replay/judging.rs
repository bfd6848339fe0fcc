//! Views that another program made, by the figures that ours are measured with.

use std::collections::HashSet;
use std::sync::Arc;

use super::caching::CacheRule;
use super::figures::Tally;
use super::needs::{Needs, Stake};
use crate::context::CurationContext;
use crate::entry::{Entry, Role};
use crate::model::facts;
use crate::record::Slot;
use crate::tokens::entry_tokens;
use crate::view::{ItemSource, ViewItem};

/// What another program would have sent before one reply.
#[derive(Clone, Debug)]
pub struct ForeignView {
    /// Position of the reply in the conversation.
    pub position: u64,
    /// Its messages: entries of the conversation by position, or texts of its own as [`ItemSource::Summary`].
    pub items: Vec<ViewItem>,
}

/// Measures views that were made elsewhere, in the order of their calls.
///
/// Tokens, cache reads, cost and what was kept are those of [`simulate`](super::simulate). A result without its call and a call
/// without its result count as violations, because every provider refuses them.
pub fn judge(
    slots: &[Slot],
    needs: &Needs,
    views: &[ForeignView],
    budget: Option<u64>,
    cx: &CurationContext,
) -> Tally {
    let mut tally = Tally::default();
    let caching = CacheRule::of(cx.model.as_ref());
    let tokens = |entry: &Entry| cx.counter.factor.apply(entry_tokens(cx.counter.tokenizer, entry)) as u64;
    let around = cx.overhead(cx.counter) as u64;
    let (mut said, mut task, mut next) = (0, None, 0);
    let mut before: &[ViewItem] = &[];
    for view in views {
        for (position, slot) in (next..view.position).zip(slots.get(next as usize..).unwrap_or_default()) {
            let Slot::Message(entry) = slot else { continue };
            said += tokens(entry);
            if entry.role == Role::User {
                task = Some(position);
            }
        }
        next = view.position;
        let Some(Slot::Message(reply)) = slots.get(view.position as usize) else { continue };
        let whole = said + around;
        let counts: Vec<u64> = view.items.iter().map(|item| tokens(&item.entry)).collect();
        let sent = counts.iter().sum::<u64>() + around;
        let same = before.iter().zip(&view.items).take_while(|(one, other)| is_same(one, other)).count();
        let shared: u64 = counts.iter().take(same).sum();
        let opening = if before.is_empty() { 0 } else { cx.tool_tokens(cx.counter) as u64 };
        let read = caching.held(shared + opening, None).min(sent);
        tally.calls += 1;
        tally.input_tokens += sent;
        tally.cache_read += read;
        tally.cache_write += sent - read;
        tally.output_tokens += tokens(reply);
        tally.peak = tally.peak.max(sent);
        tally.cuts += u64::from(same < before.len());
        tally.dropped_tokens += whole.saturating_sub(sent);
        tally.rewritten += view.items.iter().filter(|item| item.is_changed()).count() as u64;
        let holds = |at: u64| view.items.iter().any(|item| item.source == ItemSource::Entry(at));
        tally.task_kept += u64::from(task.is_none_or(holds));
        tally.kept += needs.kept(view.position, &view.items, Stake::All);
        if budget.is_none_or(|budget| whole > budget) {
            tally.kept_at_cut += needs.kept(view.position, &view.items, Stake::Chosen);
        }
        tally.violations += unpaired(&view.items);
        before = &view.items;
    }
    tally.price(cx.model.as_ref().and_then(facts).as_ref(), &caching);
    tally
}

fn is_same(one: &ViewItem, other: &ViewItem) -> bool {
    one.source == other.source && (Arc::ptr_eq(&one.entry, &other.entry) || one.entry == other.entry)
}

/// Calls without a result, and results without a call before them.
fn unpaired(items: &[ViewItem]) -> u64 {
    let mut open: HashSet<String> = HashSet::new();
    let mut broken = 0;
    for item in items {
        if let Some(id) = item.entry.tool_call_id() {
            broken += u64::from(!open.remove(&id));
        }
        open.extend(
            item.entry
                .open_calls()
                .filter_map(|call| call.call_id.as_ref())
                .map(|id| id.as_str().into_owned()),
        );
    }
    broken + open.len() as u64
}
