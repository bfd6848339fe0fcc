//! What one step says, on its way into the run's record.
//!
//! The reply that ends a step waits until everything that follows from it is known, and is written with it in one commit.
//! What must not be lost before that is written at once: that a model is about to be asked, calls of tools and their results.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scrollback_agent::BoxFuture;
use scrollback_agent::journal::{JournalCommit, Keeper, Viewed};
use scrollback_agent::runner::RequestMessage;
use scrollback_core::request::LadderStep;
use scrollback_core::tokens::{Counter, entry_tokens};
use scrollback_core::{Decision, Entry, Role, Status};
use scrollback_store::{CallStatus, ConversationId, NewEntry, Sent, StepStatus, StoreError};
use serde_json::{Value, json};

use super::Shared;
use super::ledger::{Batch, LedgerItem, OVERFLOW, SpanRow};
use super::meter::StepMeter;
use crate::HistoryMode;
use crate::advance::StepRow;
use crate::call_history::{MessageSource, SheetMessage};
use crate::history::ChosenTurns;
use crate::lens::messages;
use crate::passed_values::EntryId;
use crate::turns::LoopScope;

/// Keeps what a step says.
pub(crate) struct StepRecorder {
    pub(super) shared: Arc<Shared>,
    pub(super) conversation: ConversationId,
    pub(super) key: String,
    /// What is known about the step while it runs; none for calls that are no step.
    pub(super) row: Option<StepRow>,
    pub(super) meter: Arc<StepMeter>,
    pub(super) counter: Counter,
    pub(super) stash: Mutex<Stash>,
}

/// What waits to be written.
#[derive(Default)]
pub(crate) struct Stash {
    pub(super) batch: Batch,
    /// The reply that ends the step.
    pub(super) reply: Option<Entry>,
    /// What the places of the sheet are.
    pub(super) places: Vec<SheetMessage>,
    /// Where the run's record ended when the sheet was made.
    pub(super) upto: u64,
    pub(super) shown: Prompted,
    /// Calls so far.
    pub(super) calls: u64,
}

/// What is known about a request beside its messages.
#[derive(Default, Clone)]
pub(crate) struct Prompted {
    pub(super) mode: HistoryMode,
    pub(super) scope: Option<Arc<str>>,
    /// Turns that are sent, as runs of numbers from 1.
    pub(super) turns: Vec<(usize, usize)>,
    /// Turns that are not, with who left them out and why.
    pub(super) left_out: Vec<Value>,
    /// How many turns are sent that only this branch knows.
    pub(super) branch: usize,
    /// Whether a summary of older turns is sent.
    pub(super) summary: bool,
    /// How many turns there are in all.
    pub(super) total: usize,
}

/// What must be written now.
pub(crate) struct Durable {
    pub(super) batch: Batch,
    /// What holds from the moment it is written.
    pub(super) cut: Option<HistoryCut>,
}

/// An overflow left out the oldest turns of a loop.
pub(crate) struct HistoryCut {
    scope: Arc<str>,
    /// How many.
    turns: usize,
}

impl Prompted {
    /// How many turns are sent.
    fn sent(&self) -> usize {
        self.turns.iter().map(|(first, last)| last + 1 - first).sum::<usize>() + self.branch
    }
}

impl StepRecorder {
    pub(super) fn stash(&self) -> MutexGuard<'_, Stash> {
        self.stash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything that waits, the reply at its end.
    pub(super) fn take(&self) -> (Batch, Option<Entry>) {
        let mut stash = self.stash();
        let reply = stash.reply.take();
        (std::mem::take(&mut stash.batch), reply)
    }

    /// Puts what was written aside; what must be durable now comes back.
    fn put(&self, written: JournalCommit) -> Option<Durable> {
        let JournalCommit { entries, evaluation, sent, view, .. } = written;
        let mut stash = self.stash();
        let (mut now, mut cut) = (false, None);
        for mut sent in sent {
            now |= !matches!(sent.status, CallStatus::Done | CallStatus::Interrupted);
            sent.run = Some(self.shared.run.to_string());
            sent.step = Some(self.key.clone());
            sent.upto = stash.upto;
            if let Some(view) = view.as_ref().filter(|_| sent.status == CallStatus::Sent) {
                self.prompted(&mut stash, &sent, view);
            }
            self.traced(&mut stash, &sent);
            let shows = view.as_ref().map(|view| entries_of(&stash.places, &view.shown)).unwrap_or_default();
            stash.batch.take_sent(sent, shows);
        }
        if let Some(mut evaluation) = evaluation.filter(|_| self.row.is_some()) {
            // The store follows what is appended; the run is held under a lease.
            (evaluation.count, evaluation.first_position, evaluation.last_position) = (0, None, None);
            evaluation.lease = None;
            stash.batch.evaluation = Some(evaluation);
        }
        for entry in entries {
            match entry {
                NewEntry::Message(entry) if self.row.is_none() => stash.reply = Some(*entry),
                NewEntry::Message(entry) if ends(&entry) => stash.reply = Some(*entry),
                NewEntry::Message(entry) => {
                    let tokens = entry_tokens(self.counter.tokenizer, &entry);
                    let id = EntryId { evaluation: entry.evaluation_id, sequence: entry.sequence };
                    stash.places.push(SheetMessage {
                        source: MessageSource::Step,
                        entry: Some(id),
                        tokens,
                        changed: None,
                    });
                    stash.batch.items.push(LedgerItem::Entry(entry));
                    now = true;
                }
                // A cut after an overflow lasts. What else is decided about a sheet holds for this step only: it is about the
                // step's own exchanges, or about what this model takes, which managers find again in the next sheet.
                NewEntry::Decision(decision) => {
                    if let Decision::Cut { before, by, .. } = &*decision
                        && by == OVERFLOW
                    {
                        cut = self.overflowed(&mut stash, *before);
                        now = true;
                    }
                    stash.places.push(SheetMessage {
                        source: MessageSource::Step,
                        entry: None,
                        tokens: 0,
                        changed: None,
                    });
                }
            }
        }
        if !now || self.row.is_none() {
            return None;
        }
        let mut batch = std::mem::take(&mut stash.batch);
        batch.steps.extend(self.row.clone().map(|row| StepRow { usage: Some(self.meter.usage()), ..row }));
        Some(Durable { batch, cut })
    }

    /// Writes down that an overflow cut the sheet: the turns it left out are not sent to any agent in the loop again.
    fn overflowed(&self, stash: &mut Stash, before: u64) -> Option<HistoryCut> {
        let stay = stash.places.iter().skip(before as usize);
        let stay =
            stay.filter(|place| place.source == MessageSource::History).filter_map(|place| place.entry);
        let mut stay: Vec<EntryId> = stay.collect();
        stay.dedup();
        let scope = stash.shown.scope.clone().filter(|_| stash.places.iter().any(is_history));
        if let Some(scope) = scope {
            return Some(self.cut(stash, &scope, stay.first().copied(), stay.len()));
        }
        // There was no history: exchanges of the step itself went.
        let data = json!({ "step": LadderStep::Cut.as_str() });
        stash.batch.events.push(self.shared.tell(Some(&self.key), "history.overflow", data));
        None
    }

    /// Adds the cut of a loop's history to what is written next: `first` and what was said after it stay.
    pub(super) fn cut(
        &self,
        stash: &mut Stash,
        scope: &Arc<str>,
        first: Option<EntryId>,
        turns: usize,
    ) -> HistoryCut {
        let cut = self.shared.with_state(|state| {
            let known = state.scopes().get(scope);
            let number = first.and_then(|first| known?.number(first));
            number.unwrap_or_else(|| known.map_or(0, |scope| scope.turns().len()))
        });
        let data = json!({
            "step": LadderStep::Cut.as_str(), "scope": &**scope, "turns": turns, "before": stash.shown.sent(), "cut": cut,
        });
        stash.batch.items.push(LedgerItem::Cut { scope: Arc::clone(scope), first });
        stash.batch.events.push(self.shared.tell(Some(&self.key), "history.overflow", data));
        HistoryCut { scope: Arc::clone(scope), turns: cut }
    }

    /// Writes what must be durable; what it decides holds from then on.
    pub(super) async fn commit(&self, durable: Durable) -> Result<(), StoreError> {
        let Durable { batch, cut } = durable;
        self.shared.commit(batch).await?;
        if let Some(HistoryCut { scope, turns }) = cut {
            self.shared.with_state(|state| {
                if let Some(scope) = state.scopes.get_mut(&scope) {
                    scope.cut = scope.cut.max(turns);
                }
            });
        }
        Ok(())
    }

    /// Tells what a request shows: which entries, by whom the others were left out, and the hash of its bytes.
    fn prompted(&self, stash: &mut Stash, sent: &Sent, view: &Viewed) {
        if sent.attempt > 1 {
            return;
        }
        stash.calls += 1;
        let mut tokens = [0; 3];
        let (mut injected, mut summary, mut entries, mut own) = (false, false, Vec::new(), 0);
        let mut turns: Vec<EntryId> = Vec::new();
        for shown in &view.shown {
            let place = match shown {
                RequestMessage::Entry { index, .. } => stash.places.get(*index as usize),
                RequestMessage::Coalesced { .. } => None,
                RequestMessage::Synthetic { synthetic } => {
                    summary |= *synthetic == "summary";
                    None
                }
            };
            let Some(place) = place else { continue };
            injected |= matches!(place.source, MessageSource::History | MessageSource::Summary)
                || place.changed.is_some();
            match place.source {
                MessageSource::System => tokens[0] += place.tokens,
                MessageSource::History => {
                    tokens[1] += place.tokens;
                    // The tool exchanges before a turn go under its name.
                    turns.extend(place.entry.filter(|entry| turns.last() != Some(entry)));
                }
                MessageSource::Summary => {
                    tokens[1] += place.tokens;
                    summary = true;
                }
                MessageSource::Input => tokens[2] += place.tokens,
                MessageSource::Step => own += 1,
            }
            if matches!(place.source, MessageSource::System | MessageSource::Input) {
                entries.push(json!({ "source": place.source, "entry": place.entry.map(named) }));
            }
        }
        if stash.shown.mode == HistoryMode::Chat {
            self.renumber(&mut stash.shown, &turns);
        }
        let mut left_out = stash.shown.left_out.clone();
        for dropped in &view.left_out {
            let Some(place) = stash.places.get(dropped.index as usize) else { continue };
            left_out.push(json!({
                "entry": place.entry.map(named), "manager": dropped.manager, "reason": dropped.reason,
            }));
        }
        let own_from = stash
            .places
            .iter()
            .find(|place| place.source == MessageSource::Step)
            .and_then(|place| place.entry);
        let own_from = own_from.map(named);
        let changed = stash.places.iter().find_map(|place| place.changed);
        let hash = blake3::hash(sent.request.as_deref().unwrap_or_default()).to_hex().to_string();
        let data = json!({
            "call": stash.calls,
            "attempt": self.row.as_ref().map_or(1, |row| row.attempt),
            "model": sent.model,
            "wire": sent.wire,
            "mode": stash.shown.mode,
            "conversation_injected": injected || summary,
            "scope": stash.shown.scope.as_deref(),
            "turns": stash.shown.turns,
            "turns_sent": stash.shown.sent(),
            "turns_total": stash.shown.total,
            "summary": summary,
            "entries": entries,
            "own": own,
            "own_from": own_from,
            "branch": stash.shown.branch,
            "changed": changed,
            "left_out": left_out,
            "tokens": {
                "system": tokens[0], "history": tokens[1], "input": tokens[2],
                "instructions": view.tokens.instructions, "tools": view.tokens.tools,
                "messages": view.tokens.messages, "total": view.tokens.total, "exact": view.tokens.exact,
            },
            "request_hash": hash,
            "sent": sent.id,
        });
        let messages = || Some(messages(sent.request.as_deref()?, &sent.wire));
        let (key, now) = (Some(self.key.clone()), self.shared.now());
        stash.batch.events.push(self.shared.teller.tell_with(now, key, "agent.prompt", data, messages));
    }

    /// Which turns the view really shows: managers of a list may have left some out.
    fn renumber(&self, shown: &mut Prompted, turns: &[EntryId]) {
        let Some(key) = &shown.scope else { return };
        let runs = self.shared.with_state(|state| {
            let scope = state.scopes().get(key);
            scope.map(|scope| runs_of(scope.numbers(turns.iter().copied()))).unwrap_or_default()
        });
        let numbered: usize = runs.iter().map(|(first, last)| last + 1 - first).sum();
        (shown.turns, shown.branch) = (runs, turns.len() - numbered);
    }

    /// The span of a call, which lasts from its first attempt to its last.
    fn traced(&self, stash: &mut Stash, sent: &Sent) {
        let key = format!("{}#{}", self.key, stash.calls.max(1));
        let status = match sent.status {
            CallStatus::Sent => StepStatus::Running,
            CallStatus::Done => StepStatus::Done,
            _ => StepStatus::Failed,
        };
        let span = SpanRow {
            within: Some(if self.row.is_some() { self.key.clone() } else { parent(&self.key) }),
            name: format!("chat {}", sent.model),
            status,
            attributes: json!({
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": sent.model,
                "gen_ai.usage": sent.usage.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()),
                "scrollback.attempt": sent.attempt,
            }),
            key,
        };
        stash.batch.spans.retain(|earlier| earlier.key != span.key);
        stash.batch.spans.push(span);
    }
}

impl Keeper for StepRecorder {
    fn conversation(&self) -> &ConversationId {
        &self.conversation
    }

    fn keep(&self, written: JournalCommit) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            match self.put(written) {
                Some(durable) => self.commit(durable).await,
                None => Ok(()),
            }
        })
    }
}

/// Whether a reply ends its step: it is whole, and asks for nothing.
fn ends(entry: &Entry) -> bool {
    entry.role == Role::Assistant && entry.status() == Status::Complete && entry.open_calls().next().is_none()
}

/// Whether a place is part of what was said before the step.
fn is_history(place: &SheetMessage) -> bool {
    matches!(place.source, MessageSource::History | MessageSource::Summary)
}

/// The entries that a request shows, in order.
fn entries_of(places: &[SheetMessage], shown: &[RequestMessage]) -> Vec<EntryId> {
    let shown = shown.iter().filter_map(|shown| match shown {
        RequestMessage::Entry { index, .. } => places.get(*index as usize)?.entry,
        _ => None,
    });
    shown.collect()
}

/// An entry as traces name it.
pub(super) fn named(entry: EntryId) -> String {
    format!("{}/{}", entry.evaluation, entry.sequence)
}

/// The step that something aside of it belongs to.
fn parent(key: &str) -> String {
    key.split('~').next().unwrap_or(key).into()
}

/// Which turns of a scope are sent, as runs of numbers from 1.
pub(super) fn numbers(kept: &ChosenTurns, scope: &LoopScope) -> Vec<(usize, usize)> {
    runs_of(scope.numbers(kept.turns.iter().map(|turn| turn.entry)))
}

/// Numbers from 0 as runs of numbers from 1.
fn runs_of(numbers: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers.map(|number| number + 1) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs
}
