//! What another manager would have sent at every call of a conversation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::caching::{CacheRetention, CacheRule, idle};
use super::course::look;
use super::figures::{CallFigures, Lost, Tally};
use super::needs::{Needs, Stake};
use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::{Entry, Role, Time, Usage};
use crate::error::CurationError;
use crate::manager::SharedManager;
use crate::model::facts;
use crate::record::{Record, Slot};
use crate::request::{RequestTokens, decisions};
use crate::summary::settle_offline;
use crate::tokens::{Calibration, entry_tokens};
use crate::view::{ItemSource, View, ViewItem};
use crate::wire::Wire;
use crate::wire::check::{Strictness, Violation};

/// A manager to try, and what is to be told about it.
#[derive(Clone)]
pub struct Candidate {
    /// The manager.
    pub manager: SharedManager,
    /// Whether every value that it lost is listed.
    pub lists_lost: bool,
    /// The lifetime of caches that its requests ask for.
    pub retention: CacheRetention,
}

/// Repeats every call of a conversation under a manager: each reply of the assistant was the answer to one.
///
/// Each view is made and rendered as the proxy makes it, and what it decided is recorded before the next one, so the cuts are
/// those that the proxy would make. What managers decided then is not repeated, because it may have been another manager; what
/// people and clients decided is: pins, new instructions, interrupted calls. Summaries are written offline. Where a reply reports
/// its input and the simulated request was cut where the recorded one was, estimates are corrected by it.
///
/// `needs` are those of the same conversation. `clock` gives milliseconds. Ends early where it is not `wanted` any more.
pub fn simulate(
    slots: &[Slot],
    needs: &Needs,
    candidate: &Candidate,
    cx: &CurationContext,
    clock: &dyn Fn() -> f64,
    wanted: &AtomicBool,
) -> Tally {
    let wire = cx.wire.unwrap_or_else(|| spoken(slots));
    let cx = CurationContext { wire: Some(wire), ..cx.clone() };
    let mut run = Simulation::new(needs, candidate, cx, wire, clock);
    for (position, slot) in (0..).zip(slots) {
        if !wanted.load(Ordering::Relaxed) {
            run.tally.stopped = Some("the caller went away".into());
            break;
        }
        if let Slot::Message(entry) = slot
            && entry.role == Role::Assistant
            && run.record.message_count() > 0
            && let Err(error) = run.call(position, entry)
        {
            run.tally.stopped = Some(error.to_string());
            break;
        }
        run.observe(position, slot);
    }
    run.finish()
}

/// The wire of the last message.
fn spoken(slots: &[Slot]) -> Wire {
    let last = slots.iter().rev().find_map(|slot| match slot {
        Slot::Message(entry) => Some(entry.origin.wire),
        _ => None,
    });
    last.filter(|wire| *wire != Wire::Scrollback).unwrap_or(Wire::OpenaiChat)
}

struct Simulation<'n> {
    tally: Tally,
    needs: &'n Needs,
    candidate: &'n Candidate,
    cx: CurationContext,
    wire: Wire,
    clock: &'n dyn Fn() -> f64,
    caching: CacheRule,
    calibration: Calibration,
    /// What was said so far, and what the manager decided about it.
    record: Record,
    /// Where each place of the record stands in the conversation, and the other way round. They differ where the decisions do.
    positions: Vec<u64>,
    places: BTreeMap<u64, u64>,
    /// The newest cut of the manager, and the newest one in the conversation.
    cut: Option<u64>,
    cut_then: Option<u64>,
    before: Vec<ViewItem>,
    /// When the call before was made, where the transcript says.
    called_at: Option<Time>,
    /// Position of what the user said last.
    task: Option<u64>,
    /// Tokens of everything said so far, entry by entry, as counted without a factor.
    said: Vec<usize>,
}

impl<'n> Simulation<'n> {
    fn new(
        needs: &'n Needs,
        candidate: &'n Candidate,
        cx: CurationContext,
        wire: Wire,
        clock: &'n dyn Fn() -> f64,
    ) -> Self {
        Simulation {
            tally: Tally::default(),
            needs,
            candidate,
            caching: CacheRule::of(cx.model.as_ref()).kept(candidate.retention),
            cx,
            wire,
            clock,
            calibration: Calibration::default(),
            record: Record::new(),
            positions: Vec::new(),
            places: BTreeMap::new(),
            cut: None,
            cut_then: None,
            before: Vec::new(),
            called_at: None,
            task: None,
            said: Vec::new(),
        }
    }

    /// Takes in what stands at a position of the conversation.
    fn observe(&mut self, position: u64, slot: &Slot) {
        match slot {
            Slot::Message(entry) => {
                self.said.push(entry_tokens(self.cx.counter.tokenizer, entry));
                if entry.role == Role::User {
                    self.task = Some(position);
                }
                self.places.insert(position, self.record.len() as u64);
                // What the store accepted once is accepted again.
                let _ = self.record.take(slot.clone());
            }
            Slot::Erased(_) => {
                self.places.insert(position, self.record.len() as u64);
                let _ = self.record.take(slot.clone());
            }
            Slot::Decision(decision, at) => match decision.as_ref() {
                Decision::Lead { .. }
                | Decision::Pin { .. }
                | Decision::Unpin { .. }
                | Decision::Interrupted { .. }
                | Decision::Echo { .. }
                | Decision::Superseded { .. }
                | Decision::ProviderEdit { .. }
                | Decision::Turn { .. } => {
                    let place = |position| self.places.get(&position).copied().unwrap_or(position);
                    let moved = decision.as_ref().clone().moved(place);
                    let _ = self.record.decide(moved, *at);
                }
                Decision::Cut { before, .. } | Decision::Plan { tail: before, .. } => {
                    self.cut_then = Some(*before);
                }
                Decision::Clear { .. }
                | Decision::Truncate { .. }
                | Decision::Summary { .. }
                | Decision::SummaryFailed { .. } => {}
            },
        }
        self.positions.resize(self.record.len(), position);
    }

    /// Makes the request that a reply answered, and records what it decided.
    fn call(&mut self, position: u64, reply: &Entry) -> Result<(), CurationError> {
        self.cx.counter = self.cx.counter.with_factor(self.calibration.factor());
        let (cx, manager) = (&self.cx, &self.candidate.manager);
        let began = (self.clock)();
        // A summary that cannot be recorded leaves the view as it was.
        let _ = settle_offline(&mut self.record, cx, &**manager, Time(0));
        self.positions.resize(self.record.len(), position);
        let mut feasible = true;
        let view = match manager.curate(View::to_send(&self.record, cx), cx) {
            Ok(view) => view,
            Err(error @ CurationError::UnknownModel { .. }) => return Err(error),
            Err(_) => {
                feasible = false;
                manager.closest(View::to_send(&self.record, cx), cx)
            }
        };
        self.tally.times.push((self.clock)() - began);
        let position_of = |place: u64| self.positions.get(place as usize).copied().unwrap_or(position);
        let (seen, items) = look(&self.record, &view, cx, &self.before, position_of);
        let decided = decisions(&self.record, &view, cx);
        for decision in &decided {
            if let Decision::Cut { before, .. } | Decision::Plan { tail: before, .. } = decision {
                self.cut = Some(position_of(*before));
            }
        }
        let around = cx.overhead(cx.counter) as u64;
        let said: usize = self.said.iter().map(|tokens| cx.counter.factor.apply(*tokens)).sum();
        let whole = said as u64 + around;
        let tokens = seen.tokens.total() + around;
        let holds = |at: u64| items.iter().any(|item| item.source == ItemSource::Entry(at));
        let tally = &mut self.tally;
        tally.task_kept += u64::from(self.task.is_none_or(holds));
        if feasible {
            tally.kept += self.needs.kept(position, &items, Stake::All);
            if manager.budget(cx).is_none_or(|budget| whole > budget as u64) {
                tally.kept_at_cut += self.needs.kept(position, &items, Stake::Chosen);
                if self.candidate.lists_lost {
                    let lost = lost(self.needs, position, &items, &view, &self.places);
                    tally.lost.extend(lost);
                }
            }
        } else {
            tally.infeasible += 1;
        }
        let mut rendered = view.render(self.wire, cx);
        let fatal = |violation: &&Violation| violation.is_fatal(Strictness::Lenient);
        tally.violations +=
            rendered.take_checked().map_or(0, |checked| checked.violations.iter().filter(fatal).count())
                as u64;
        // Tools stand before everything that was said, so a prefix begins with them.
        let shared = if self.before.is_empty() { 0 } else { seen.shared + cx.tool_tokens(cx.counter) as u64 };
        let cached = self.caching.held(shared, idle(self.called_at, reply.created_at));
        tally.calls += 1;
        tally.input_tokens += tokens;
        tally.cache_read += cached;
        tally.cache_write += tokens - cached.min(tokens);
        tally.peak = tally.peak.max(tokens);
        tally.cuts += u64::from(seen.cut);
        tally.dropped_tokens += whole.saturating_sub(tokens);
        tally.rewritten += seen.changed as u64;
        tally.per_call.push(CallFigures {
            position,
            tokens,
            entries: seen.entries as u64,
            of: seen.of as u64,
            cache_read: cached,
            cut: seen.cut,
            cut_before: self.cut,
        });
        tally.output_tokens += entry_tokens(cx.counter.tokenizer, reply) as u64;
        let counted = RequestTokens::of(&view, cx);
        self.before = items;
        self.called_at = Some(reply.created_at);
        self.learn(counted, reply);
        for decision in decided {
            // A cut over what is no whole number of groups is not recorded; the next view finds it again.
            let _ = self.record.decide(decision, Time(0));
        }
        self.positions.resize(self.record.len(), position);
        Ok(())
    }

    /// Corrects estimates by what a reply reports about the request that was really sent, where it is the one simulated here.
    fn learn(&mut self, tokens: RequestTokens, reply: &Entry) {
        // A transcript without instructions and tools does not hold what the reply's input was counted from.
        let is_whole =
            self.cx.tools.is_some() || self.record.entry(0).is_some_and(|entry| entry.role == Role::System);
        if tokens.exact || self.cut != self.cut_then || !is_whole {
            return;
        }
        let Some(meta) = reply.meta.as_deref() else { return };
        let asked = meta.model_asked.as_deref().zip(self.cx.model.as_ref());
        let is_another =
            asked.is_some_and(|(asked, model)| asked != model.model() && asked != model.to_string());
        if let Some(reported) = meta.usage.as_ref().and_then(Usage::input).filter(|_| !is_another) {
            self.calibration.observe(tokens.counted as u64, reported);
        }
    }

    fn finish(mut self) -> Tally {
        let prices = self.cx.model.as_ref().and_then(facts);
        self.tally.price(prices.as_ref(), &self.caching, self.candidate.retention);
        self.tally
    }
}

/// The values that a reply used and that its view does not show, with the reason.
fn lost(
    needs: &Needs,
    position: u64,
    items: &[ViewItem],
    view: &View<'_>,
    places: &BTreeMap<u64, u64>,
) -> Vec<Lost> {
    let missing = needs.missing(position, items, Stake::Chosen);
    if missing.is_empty() {
        return Vec::new();
    }
    let explanation = view.explain();
    let mut why: HashMap<u64, String> = HashMap::new();
    for drop in explanation.dropped {
        why.insert(drop.index, format!("left out by {} ({})", drop.manager, drop.reason.as_str()));
    }
    for change in explanation.changed {
        why.insert(change.index, format!("changed by {} ({})", change.manager, change.reason.as_str()));
    }
    let told = missing.into_iter().map(|one| {
        let place = places.get(&one.stood_at).copied().unwrap_or(one.stood_at);
        Lost {
            why: why.get(&place).cloned().unwrap_or_else(|| "not shown".into()),
            value: one.value,
            needed_by: one.needed_by,
            call: position,
            stood_at: one.stood_at,
        }
    });
    told.collect()
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Candidate")
            .field("manager", &self.manager.config().to_string())
            .finish_non_exhaustive()
    }
}

impl Candidate {
    /// A manager to try.
    pub fn new(manager: &SharedManager) -> Self {
        Candidate { manager: Arc::clone(manager), lists_lost: false, retention: CacheRetention::Usual }
    }
}
