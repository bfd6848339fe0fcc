//! The run's one record and everything beside it, written in commits of a store.

use std::collections::HashMap;
use std::sync::Arc;

use scrollback_core::request::BodyTemplate;
use scrollback_core::wire::Wire;
use scrollback_core::{Decision, Entry, Record, Role, Slot, Time};
use scrollback_store::{
    ConversationId, ErrorKind, Evaluation, Event, Expected, NewConversation, NewEntry, Run, Sent, Span, Step,
    StepStatus, Store, StoreError, Tenant, Tx,
};
use serde_json::Value;
use uuid::Uuid;

use super::trace::{Telling, span_id};
use crate::advance::{StepRow, Write};
use crate::passed_values::EntryId;
use crate::turns::{Listed, role_of};

/// Who cut the history of a loop after an overflow, as views name it.
pub(super) const OVERFLOW: &str = "overflow";

/// The record of a run, and where it is kept.
pub(crate) struct Ledger {
    pub(super) store: Arc<dyn Store>,
    pub(super) tenant: Tenant,
    pub(super) run: Arc<str>,
    pub(super) conversation: ConversationId,
    record: Record,
    places: HashMap<EntryId, u64>,
    /// The entries of each evaluation, by position.
    said: HashMap<Uuid, Vec<u64>>,
    /// System texts that are entries already.
    systems: HashMap<[u8; 32], EntryId>,
    /// When steps and iterations that are under way began.
    began: HashMap<String, Time>,
    pub(super) before_commit: Option<super::BeforeCommit>,
}

/// What one commit writes, in order.
#[derive(Default)]
pub(crate) struct Batch {
    pub(super) items: Vec<LedgerItem>,
    pub(super) steps: Vec<StepRow>,
    pub(super) spans: Vec<SpanRow>,
    pub(super) events: Vec<Telling>,
    pub(super) sent: Vec<SentCall>,
    pub(super) evaluation: Option<Evaluation>,
    pub(super) run: Option<Box<Run>>,
}

/// A row about a call, and the entries that its request shows, in order.
pub(crate) struct SentCall {
    row: Sent,
    shows: Vec<EntryId>,
}

/// One place of the record to be.
pub(crate) enum LedgerItem {
    /// Something said.
    Entry(Box<Entry>),
    /// A turn mark, once the entry it names has a place.
    Mark { scope: Arc<str>, entry: EntryId, role: Role, field: Option<String> },
    /// What stands for some turns, once they have places.
    Summary { scope: Arc<str>, summary: Arc<Listed> },
    /// An overflow left out the turns of a loop before this one, once it has a place; all of them if it has none.
    Cut { scope: Arc<str>, first: Option<EntryId> },
    /// Anything else decided.
    Decision(Box<Decision>),
}

/// A stretch of time of the trace.
pub(crate) struct SpanRow {
    pub(super) key: String,
    pub(super) within: Option<String>,
    pub(super) name: String,
    pub(super) status: StepStatus,
    pub(super) attributes: Value,
}

impl Batch {
    /// Adds what a decision of the run's middle wants written.
    pub(super) fn add(
        &mut self,
        write: Write,
        at: Time,
        telling: impl FnOnce(Option<String>, &'static str, Value) -> Telling,
    ) {
        match write {
            Write::Entry { id, role, text } => self.items.push(LedgerItem::said(id, role, &text, at)),
            Write::Mark { scope, turn } => self.items.push(LedgerItem::Mark {
                scope,
                entry: turn.entry,
                role: role_of(turn.role),
                field: turn.field.clone(),
            }),
            Write::Step(row) => self.steps.push(*row),
            Write::Iteration { key, of, status } => self.spans.push(SpanRow {
                name: format!("iteration {key}"),
                key,
                within: Some(of),
                status,
                attributes: Value::Null,
            }),
            Write::Event { key, kind, data } => self.events.push(telling(key, kind, data)),
        }
    }

    /// Adds a row about a call, in place of an earlier one. A row without a request leaves the request as it was written.
    pub(super) fn take_sent(&mut self, mut row: Sent, mut shows: Vec<EntryId>) {
        if let Some(at) = self.sent.iter().position(|earlier| earlier.row.id == row.id) {
            let earlier = self.sent.remove(at);
            if row.request.is_none() {
                (row.request, shows) = (earlier.row.request, earlier.shows);
            }
        }
        self.sent.push(SentCall { row, shows });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
            && self.steps.is_empty()
            && self.spans.is_empty()
            && self.events.is_empty()
            && self.sent.is_empty()
            && self.evaluation.is_none()
            && self.run.is_none()
    }
}

impl LedgerItem {
    /// A text said as an entry.
    pub(super) fn said(id: EntryId, role: Role, text: &str, at: Time) -> Self {
        LedgerItem::Entry(Box::new(Entry::text(role, text).stamped(id.evaluation, id.sequence, at)))
    }
}

impl Ledger {
    /// The ledger of a run that begins.
    pub(super) fn begin(
        store: Arc<dyn Store>,
        tenant: Tenant,
        run: Arc<str>,
        conversation: ConversationId,
    ) -> Self {
        Ledger {
            store,
            tenant,
            run,
            conversation,
            record: Record::new(),
            places: HashMap::new(),
            said: HashMap::new(),
            systems: HashMap::new(),
            began: HashMap::new(),
            before_commit: None,
        }
    }

    /// The ledger of a run that was begun before.
    pub(super) async fn open(
        store: Arc<dyn Store>,
        tenant: Tenant,
        run: Arc<str>,
        conversation: ConversationId,
    ) -> Result<Self, StoreError> {
        let record = store.record(&tenant, &conversation, None).await?;
        let mut ledger = Ledger::begin(store, tenant, run, conversation);
        for (position, slot) in (0..).zip(record.slots()) {
            if let Slot::Message(entry) = slot {
                ledger.index(position, entry);
            }
        }
        ledger.record = record;
        Ok(ledger)
    }

    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// When a step began, as its row says.
    pub(super) fn began(&mut self, key: &str, at: Time) {
        self.began.insert(key.into(), at);
    }

    /// The entry at a position.
    pub(super) fn entry_at(&self, position: u64) -> Option<EntryId> {
        self.record.entry(position).map(|entry| id_of(entry))
    }

    /// Where an entry stands.
    pub(super) fn position(&self, entry: EntryId) -> Option<u64> {
        self.places.get(&entry).copied()
    }

    /// The entries of an evaluation, in order.
    pub(super) fn entries_of(&self, evaluation: Uuid) -> Vec<(EntryId, Arc<Entry>)> {
        let positions = self.said.get(&evaluation).map(Vec::as_slice).unwrap_or_default();
        let entries = positions.iter().filter_map(|position| self.record.entry(*position));
        entries.map(|entry| (id_of(entry), Arc::clone(entry))).collect()
    }

    /// The entry that holds a system text, if one does.
    pub(super) fn system(&self, text: &str) -> Option<(EntryId, Arc<Entry>)> {
        let id = self.systems.get(blake3::hash(text.as_bytes()).as_bytes())?;
        let entry = self.record.entry(self.position(*id)?)?;
        Some((*id, Arc::clone(entry)))
    }

    /// Whether no tool exchange stands between two positions.
    pub(super) fn is_plain(&self, from: u64, to: u64) -> bool {
        let between = self.record.slots().get(from as usize..to as usize).unwrap_or_default();
        between.iter().all(|slot| match slot {
            Slot::Message(entry) => entry.role != Role::Tool && entry.tool_calls().next().is_none(),
            _ => true,
        })
    }

    fn index(&mut self, position: u64, entry: &Entry) {
        let id = id_of(entry);
        self.places.insert(id, position);
        self.said.entry(id.evaluation).or_default().push(position);
        if entry.role == Role::System
            && let Some(text) = entry.content()
        {
            self.systems.entry(*blake3::hash(text.as_bytes()).as_bytes()).or_insert(id);
        }
    }

    /// Writes a batch: all of it or nothing. What is written is part of the record when this returns.
    pub(super) async fn commit(
        &mut self,
        batch: Batch,
        at: Time,
        create: Option<NewConversation>,
    ) -> Result<(), StoreError> {
        if batch.is_empty() && create.is_none() {
            return Ok(());
        }
        if let Some(asked) = &self.before_commit {
            asked()?;
        }
        let first = self.record.len() as u64;
        let slots = self.slots(batch.items, first, at)?;
        let mut tx = Tx::new(&self.tenant, at);
        if let Some(create) = create {
            tx.create(create);
        }
        if let Some(run) = batch.run {
            tx.run(*run);
        }
        if let Some(evaluation) = batch.evaluation {
            tx.evaluation(evaluation);
        }
        if !slots.is_empty() {
            let entries = slots.iter().map(new_entry).collect::<Result<_, _>>()?;
            tx.append(&self.conversation, Expected::At(first), entries);
        }
        for row in batch.steps {
            let span = SpanRow {
                key: row.key.clone(),
                within: row.within.clone(),
                name: format!(
                    "{} {}",
                    if row.asks { "invoke_agent" } else { row.kind.as_str() },
                    name_of(&row.key)
                ),
                status: row.status,
                attributes: Value::Null,
            };
            let began = self.start_of(&row.key, row.status, at);
            tx.step(self.step(row, began, at));
            tx.span(self.span(span, began, at));
        }
        for span in batch.spans {
            let began = self.start_of(&span.key, span.status, at);
            tx.span(self.span(span, began, at));
        }
        for told in batch.events {
            tx.event(Event {
                run: self.run.to_string(),
                sequence: told.sequence,
                at: told.at,
                key: told.key,
                kind: told.kind.into(),
                data: Some(told.data.to_string()),
            });
        }
        for call in batch.sent {
            let template = self.template(&call, first, &slots);
            tx.calls(vec![call.row], template);
        }
        let again = tx.clone();
        match self.store.commit(tx).await {
            // It is durable or it is not; repeating it settles which.
            Err(error) if error.kind() == ErrorKind::Unknown => match self.store.commit(again).await {
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Exists) => {}
                other => other.map(|_| ())?,
            },
            other => other.map(|_| ())?,
        }
        for (position, slot) in (first..).zip(slots) {
            if let Slot::Message(entry) = &slot {
                self.index(position, entry);
            }
            self.record
                .take(slot)
                .map_err(|error| StoreError::new(ErrorKind::BadArgument, error.to_string()))?;
        }
        Ok(())
    }

    /// The places that items become; marks name the positions of entries, be they in the same commit.
    fn slots(&self, items: Vec<LedgerItem>, first: u64, at: Time) -> Result<Vec<Slot>, StoreError> {
        let mut new: HashMap<EntryId, u64> = HashMap::new();
        let mut slots = Vec::with_capacity(items.len());
        for (item, position) in items.into_iter().zip(first..) {
            slots.push(match item {
                LedgerItem::Entry(entry) => {
                    new.insert(id_of(&entry), position);
                    Slot::Message(Arc::from(entry))
                }
                LedgerItem::Decision(decision) => Slot::Decision(Arc::from(decision), at),
                LedgerItem::Summary { scope, summary } => {
                    let mut places: Vec<u64> =
                        summary.entries.iter().filter_map(|entry| self.position(*entry)).collect();
                    places.sort_unstable();
                    Slot::Decision(
                        Arc::new(Decision::Summary {
                            covers: places.into_iter().map(|place| (place, place)).collect(),
                            text: summary.text.clone(),
                            place: summary.place,
                            by: summary.by.clone(),
                            usage: None,
                            replaces: None,
                            scope: Some(scope.to_string()),
                        }),
                        at,
                    )
                }
                LedgerItem::Cut { scope, first } => {
                    let before = first.and_then(|entry| self.position(entry)).unwrap_or(position);
                    let scope = Some(scope.to_string());
                    let by = OVERFLOW.into();
                    Slot::Decision(
                        Arc::new(Decision::Cut {
                            before,
                            held: None,
                            by,
                            scope,
                            kept: Vec::new(),
                            owed: Vec::new(),
                            notice: None,
                            factor: None,
                        }),
                        at,
                    )
                }
                LedgerItem::Mark { scope, entry, role, field } => {
                    let place = new.get(&entry).copied().or_else(|| self.position(entry));
                    let entry = place.ok_or_else(|| {
                        StoreError::new(
                            ErrorKind::BadDecision,
                            "a turn names an entry that is not in the record",
                        )
                    })?;
                    let scope = scope.to_string();
                    Slot::Decision(Arc::new(Decision::Turn { scope, entry, role, field }), at)
                }
            });
        }
        Ok(slots)
    }

    /// A call's request as what it shares with the record, of which `slots` are the next: calls of a loop show mostly the
    /// same entries, which are then kept once.
    fn template(&self, call: &SentCall, first: u64, slots: &[Slot]) -> Option<BodyTemplate> {
        let (body, wire) = (call.row.request.as_deref()?, Wire::named(&call.row.wire)?);
        let new = (first..).zip(slots).filter_map(|(position, slot)| match slot {
            Slot::Message(entry) => Some((id_of(entry), (position, entry))),
            _ => None,
        });
        let new: HashMap<EntryId, (u64, &Arc<Entry>)> = new.collect();
        let known = |id: &EntryId| self.position(*id).and_then(|at| Some((at, self.record.entry(at)?)));
        let shown = call.shows.iter().filter_map(|id| new.get(id).copied().or_else(|| known(id)));
        Some(BodyTemplate::of(wire, body, shown.map(|(position, entry)| (position, &**entry))))
    }

    /// When something began: now, if it begins.
    fn start_of(&mut self, key: &str, status: StepStatus, at: Time) -> Time {
        if status.is_open() {
            return *self.began.entry(key.into()).or_insert(at);
        }
        self.began.remove(key).unwrap_or(at)
    }

    fn step(&self, row: StepRow, began: Time, at: Time) -> Step {
        let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
        let open = row.status.is_open();
        Step {
            run: self.run.to_string(),
            key: row.key,
            kind: row.kind,
            status: row.status,
            attempt: row.attempt,
            input: text(&row.input),
            output: text(&row.output),
            evaluation: row.evaluation,
            usage: row.usage.and_then(|usage| serde_json::to_string(&usage).ok()),
            started_at: Some(began),
            ended_at: (!open).then_some(at),
            error: row.error.and_then(|error| serde_json::to_string(&error).ok()),
        }
    }

    fn span(&self, span: SpanRow, began: Time, at: Time) -> Span {
        let open = span.status.is_open();
        Span {
            id: span_id(&self.run, &span.key),
            run: self.run.to_string(),
            // The run's own span has the empty key and is part of nothing.
            parent: (!span.key.is_empty())
                .then(|| span_id(&self.run, span.within.as_deref().unwrap_or_default())),
            name: span.name,
            key: Some(span.key).filter(|key| !key.is_empty()),
            status: Some(span.status),
            started_at: began,
            ended_at: (!open).then_some(at),
            attributes: (!span.attributes.is_null()).then(|| span.attributes.to_string()),
        }
    }
}

/// The name of a step in its key.
pub(crate) fn name_of(key: &str) -> &str {
    let last = key.rsplit('/').next().unwrap_or(key);
    last.split(['~', '#']).next().unwrap_or(last)
}

fn id_of(entry: &Entry) -> EntryId {
    EntryId { evaluation: entry.evaluation_id, sequence: entry.sequence }
}

/// What a place appends. Nothing erased is ever written anew: one that is says that the run's own record is broken.
fn new_entry(slot: &Slot) -> Result<NewEntry, StoreError> {
    NewEntry::of(slot).ok_or_else(|| {
        StoreError::new(ErrorKind::BadArgument, "cannot record an erased entry; start a new run")
    })
}
