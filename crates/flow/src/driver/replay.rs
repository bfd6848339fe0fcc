//! The state of a stored run: its recorded events are applied again, and no model is asked.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use scrollback_core::{Decision, Slot};
use scrollback_store::{Run, Step, StepStatus, StoreError};
use serde_json::Value;

use super::call::spoken;
use super::ledger::{Ledger, name_of};
use super::refusal::RunRefused;
use super::start::Before;
use super::{Engine, Shared};
use crate::advance::{Action, FlowEvent, Write, advance};
use crate::error::RunError;
use crate::passed_values::EntryId;
use crate::quota::Amount;
use crate::state::{RunPhase, RunState};
use crate::turns::{Condensed, Listed};
use crate::usage::RunUsage;
use crate::{Flow, HistoryManagement, MicroDollars, OnBranchFailure, StepKind};

/// A stored run, ready to go on.
pub(super) struct RestoredRun {
    pub(super) shared: Arc<Shared>,
    /// What is left to be done.
    pub(super) actions: Vec<Action>,
    /// What steps that are done again have used already.
    pub(super) before: Before,
}

impl RestoredRun {
    /// Reads a run and gives it every recorded event again. What that leads to was written with the event.
    pub(super) async fn of(
        engine: &Engine,
        flow: Arc<Flow>,
        run: &Run,
        steps: &[Step],
    ) -> Result<Self, RunRefused> {
        let Some(conversation) = run.conversation.clone() else {
            return Err(
                StoreError::new(scrollback_store::ErrorKind::Damaged, "the run has no conversation").into()
            );
        };
        let (store, id): (_, Arc<str>) = (Arc::clone(&engine.store), run.id.as_str().into());
        let mut ledger = Ledger::open(store, engine.tenant.clone(), Arc::clone(&id), conversation).await?;
        let told = engine.store.events(&engine.tenant, &run.id, 0).await?;
        let next = told.last().map_or(0, |event| event.sequence + 1);
        let rows: HashMap<&str, &Step> = steps.iter().map(|step| (step.key.as_str(), step)).collect();
        for step in steps.iter().filter(|step| step.status.is_open()) {
            if let Some(at) = step.started_at {
                ledger.began(&step.key, at);
            }
        }
        for span in engine.store.spans(&engine.tenant, &run.id).await? {
            if span.ended_at.is_none() {
                ledger.began(span.key.as_deref().unwrap_or_default(), span.started_at);
            }
        }
        ledger.began("", run.started_at);
        let mut state = RunState::new(flow, &id, run.input.as_deref());
        state.phase = RunPhase::Replaying;
        state.recorded = steps.iter().map(|step| step.key.clone()).collect();
        for step in steps
            .iter()
            .filter(|step| step.status == StepStatus::Failed && is_excused(&state.flow, &step.key))
        {
            let error: Option<RunError> = read(step.error.as_deref());
            state.excused.extend(error.map(|error| (step.key.clone(), error)));
        }
        for step in steps {
            let again =
                u64::from(step.status == StepStatus::Failed && !state.excused.contains_key(&step.key));
            if step.attempt + again > 1 {
                state.attempts.insert(step.key.clone(), step.attempt + again);
            }
        }
        let mut events = VecDeque::from([FlowEvent::Started]);
        let (mut actions, mut end) = (Vec::new(), None);
        while let Some(event) = events.pop_front() {
            let (next, led_to) = advance(state, event);
            state = next;
            end = None;
            for action in led_to {
                match action {
                    Action::Call(call) => {
                        let row = rows.get(call.key.as_str());
                        let event = row.and_then(|row| replied(row, &ledger).or_else(|| failed(row, &state)));
                        match event {
                            Some(event) => events.push_back(event),
                            None => actions.push(Action::Call(call)),
                        }
                    }
                    Action::Write(Write::Step(row)) if row.status == StepStatus::Paused => {
                        events.extend(rows.get(row.key.as_str()).and_then(|row| answered(row, &ledger)));
                    }
                    Action::Write(_) => {}
                    Action::Continue(key) => actions.push(Action::Continue(key)),
                    Action::End(how) => end = Some(how),
                }
            }
        }
        state.phase = RunPhase::Running;
        (state.recorded, state.excused) = (HashSet::new(), HashMap::new());
        let mut before = Before::new();
        for action in &actions {
            let Action::Call(call) = action else { continue };
            let used: Option<RunUsage> =
                rows.get(call.key.as_str()).and_then(|row| read(row.usage.as_deref()));
            if let Some(used) = used {
                let amount = Amount { tokens: used.total(), micros: used.cost.unwrap_or(MicroDollars(0)) };
                state.quota.settle(call.account, Amount::default(), amount);
                before.insert(call.key.clone(), used);
            }
        }
        if actions.is_empty() {
            actions.extend(end.map(Action::End));
        }
        remember(&mut state, &ledger);
        let shared = Arc::new(Shared::new(engine.clone(), state, ledger, next));
        Ok(RestoredRun { shared, actions, before })
    }
}

fn read<T: serde::de::DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}

/// What an agent replied, if its step is done.
fn replied(row: &Step, ledger: &Ledger) -> Option<FlowEvent> {
    let (entry, text, value) = output(row, ledger)?;
    let usage = read(row.usage.as_deref()).unwrap_or_default();
    Some(FlowEvent::Replied { key: row.key.clone(), entry, text, value, usage })
}

/// How a step failed that is not tried again.
fn failed(row: &Step, state: &RunState) -> Option<FlowEvent> {
    let error = state.excused.get(&row.key)?.clone();
    let usage = read(row.usage.as_deref()).unwrap_or_default();
    Some(FlowEvent::Failed { key: row.key.clone(), error, usage })
}

/// Whether a step may fail without failing the run: a branch around it is ignored then.
fn is_excused(flow: &Flow, key: &str) -> bool {
    fn inside(steps: &[crate::Step], name: &str, excused: bool) -> Option<bool> {
        steps.iter().find_map(|step| {
            if step.name == name {
                return Some(excused);
            }
            let ignores = matches!(&step.kind, StepKind::Parallel(parallel)
                if parallel.on_branch_failure == OnBranchFailure::Ignore);
            step.kind.bodies().into_iter().find_map(|body| inside(body, name, excused || ignores))
        })
    }
    inside(&flow.steps, name_of(key), false) == Some(true)
}

/// What a person answered, if the question was.
fn answered(row: &Step, ledger: &Ledger) -> Option<FlowEvent> {
    let (_, text, value) = output(row, ledger)?;
    Some(FlowEvent::Answered { key: row.key.clone(), text, value })
}

fn output(row: &Step, ledger: &Ledger) -> Option<(EntryId, Arc<str>, Value)> {
    if row.status != StepStatus::Done {
        return None;
    }
    let (id, entry) = ledger.entries_of(row.evaluation?).pop()?;
    Some((id, spoken(&entry).into(), read(row.output.as_deref()).unwrap_or_default()))
}

/// Cuts and summaries of the loops, which are decisions of the record.
fn remember(state: &mut RunState, ledger: &Ledger) {
    let record = ledger.record();
    for (at, slot) in (0u64..).zip(record.slots()) {
        let Slot::Decision(decision, _) = slot else { continue };
        match &**decision {
            Decision::Cut { before, scope: Some(scope), .. } => {
                let Some(scope) = state.scopes.get_mut(scope.as_str()) else { continue };
                let first =
                    scope.turns().iter().position(|turn| ledger.position(turn.entry) == Some(*before));
                // A turn that was marked later, as those of a branch are, was no turn of the loop to cut.
                let marked = marked_before(record.slots(), at, scope.turns(), ledger);
                scope.cut = scope.cut.max(first.map_or(marked, |first| first.min(marked)));
            }
            Decision::Summary { covers, text, place, by, scope: Some(key), .. } => {
                let listed = is_listed(&state.flow, key);
                let Some(scope) = state.scopes.get_mut(key.as_str()) else { continue };
                if listed {
                    let places = covers.iter().flat_map(|(first, last)| *first..=*last);
                    let entries = places.filter_map(|position| ledger.entry_at(position)).collect();
                    let (text, by) = (text.clone(), by.clone());
                    scope.listed = Some(Arc::new(Listed { entries, text, place: *place, by }));
                    continue;
                }
                let covered =
                    |position: u64| covers.iter().any(|(first, last)| (*first..=*last).contains(&position));
                let known =
                    scope.turns().iter().take(marked_before(record.slots(), at, scope.turns(), ledger));
                let last = known
                    .enumerate()
                    .filter(|(_, turn)| ledger.position(turn.entry).is_some_and(covered))
                    .last()
                    .map(|(number, _)| number + 1);
                if let Some(last) = last {
                    scope.summary = Some(Arc::new(Condensed::new(last, text.clone())));
                    scope.failed_at = None;
                }
            }
            Decision::SummaryFailed { range, .. } => {
                let of = |position: Option<u64>| position == Some(range.0);
                let found = state
                    .scopes
                    .values_mut()
                    .find(|scope| scope.turns().iter().any(|turn| of(ledger.position(turn.entry))));
                if let Some(scope) = found {
                    scope.failed_at = Some(marked_before(record.slots(), at, scope.turns(), ledger));
                }
            }
            _ => {}
        }
    }
}

/// Whether a loop's history is managed by a list of managers.
fn is_listed(flow: &Flow, scope: &str) -> bool {
    let conversation = flow.step(name_of(scope)).and_then(|step| match &step.kind {
        StepKind::Loop(inner) => inner.conversation.as_ref(),
        _ => None,
    });
    conversation.is_some_and(|conversation| matches!(conversation.history, HistoryManagement::Managers(_)))
}

/// How many of a scope's turns were marked before a position.
fn marked_before(slots: &[Slot], at: u64, turns: &[Arc<crate::turns::Turn>], ledger: &Ledger) -> usize {
    let places: std::collections::HashSet<u64> =
        turns.iter().filter_map(|turn| ledger.position(turn.entry)).collect();
    let before = slots.iter().take(at as usize).filter(|slot| match slot {
        Slot::Decision(decision, _) => {
            matches!(&**decision, Decision::Turn { entry, .. } if places.contains(entry))
        }
        _ => false,
    });
    before.count().min(turns.len())
}
