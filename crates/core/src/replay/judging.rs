//! Views that another program made, by the figures that ours are measured with.

use std::collections::HashSet;
use std::sync::Arc;

use super::caching::{CacheRetention, CacheRule, idle};
use super::figures::{CallFigures, Tally};
use super::needs::{Needs, Stake};
use crate::context::CurationContext;
use crate::entry::{Entry, Role, Time};
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
/// Tokens, cache reads, cost and what was kept are those of [`simulate`](super::simulate): times empty caches, and calls whose
/// instructions, task and last tool group alone are above the budget count in the cost only. A result without its call and a
/// call without its result count as violations, because every provider refuses them.
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
    let mut protected = ProtectedTokens::default();
    let mut heard = 0;
    let mut before: &[ViewItem] = &[];
    let mut called_at: Option<Time> = None;
    for view in views {
        for (position, slot) in (next..view.position).zip(slots.get(next as usize..).unwrap_or_default()) {
            let Slot::Message(entry) = slot else { continue };
            said += tokens(entry);
            heard += 1;
            protected.observe(entry, tokens(entry));
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
        let read = caching.held(shared + opening, idle(called_at, reply.created_at)).min(sent);
        tally.calls += 1;
        tally.input_tokens += sent;
        tally.cache_read += read;
        tally.cache_write += sent - read;
        tally.output_tokens += tokens(reply);
        tally.peak = tally.peak.max(sent);
        tally.cuts += u64::from(same < before.len());
        tally.per_call.push(CallFigures {
            position: view.position,
            tokens: sent,
            entries: view.items.len() as u64,
            of: heard,
            cache_read: read,
            cut: same < before.len(),
            cut_before: None,
        });
        tally.dropped_tokens += whole.saturating_sub(sent);
        tally.rewritten += view.items.iter().filter(|item| item.is_changed()).count() as u64;
        let holds = |at: u64| view.items.iter().any(|item| item.source == ItemSource::Entry(at));
        tally.task_kept += u64::from(task.is_none_or(holds));
        if budget.is_some_and(|budget| protected.total() + around > budget) {
            tally.infeasible += 1;
        } else {
            tally.kept += needs.kept(view.position, &view.items, Stake::All);
            if budget.is_none_or(|budget| whole > budget) {
                tally.kept_at_cut += needs.kept(view.position, &view.items, Stake::Chosen);
            }
        }
        tally.violations += unpaired(&view.items);
        before = &view.items;
        called_at = Some(reply.created_at);
    }
    tally.price(cx.model.as_ref().and_then(facts).as_ref(), &caching, CacheRetention::Usual);
    tally
}

/// Tokens of what a manager of ours never leaves out: instructions, the task, and the last tool group while no reply has
/// answered it.
#[derive(Default)]
struct ProtectedTokens {
    system: u64,
    task: u64,
    group: u64,
    body_began: bool,
}

impl ProtectedTokens {
    fn observe(&mut self, entry: &Entry, tokens: u64) {
        match entry.role {
            Role::System if !self.body_began => self.system += tokens,
            Role::System => {}
            Role::User => (self.task, self.group) = (tokens, 0),
            Role::Assistant => self.group = if entry.tool_calls().next().is_some() { tokens } else { 0 },
            Role::Tool => self.group += tokens,
        }
        self.body_began |= entry.role != Role::System;
    }

    fn total(&self) -> u64 {
        self.system + self.task + self.group
    }
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
