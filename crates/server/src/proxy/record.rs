//! The record of a call: what the client said is durable before the provider is asked, what came back before the reply ends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, StatusCode};
use scrollback_agent::Pending;
use scrollback_agent::exchange::Recorder;
use scrollback_agent::journal::Rows;
use scrollback_core::identity::Alignment;
use scrollback_core::request::{Stamp, news as said_anew};
use scrollback_core::{Entry, Record, Slot, Time};
use scrollback_store::{
    Alias, Appended, ConversationId, ErrorKind, Expected, NewConversation, NewEntry, Sent, StoreError,
    Tenant, Tx, new_evaluation,
};
use serde_json::json;
use uuid::Uuid;

use super::aside::LARGE;
use super::asked::Asked;
use super::call::STORE;
use super::identity::{self, BY_RESPONSE, Place, Start};
use super::known::Known;
use super::plan::Plan;
use crate::App;
use crate::problem::Problem;

/// How often the place for a request is looked for anew because somebody else wrote there.
pub(super) const TRIES: usize = 8;

/// A request and where it is recorded.
pub(crate) struct Recorded {
    app: App,
    pub(crate) tenant: Tenant,
    /// Its conversation; none where the store failed and a record is not required.
    conversation: Option<ConversationId>,
    pub(crate) known: Known,
    /// The call: what the client said in it, and the reply.
    pub(crate) evaluation: Uuid,
    /// The number the reply has in it.
    sequence: u64,
    /// What is not written yet: it is in the record here, and becomes durable with the row about the call.
    first: Option<First>,
    /// Bytes of the request, by which work on it is large or small.
    bytes: usize,
    /// Whether the first commit was acknowledged.
    written: bool,
    /// Whether the store took too long.
    pub(crate) timed_out: bool,
    /// Kept while the reply is on its way.
    _under_way: Option<UnderWay>,
}

/// The first commit of a call: what is new, and what has to be there before.
struct First {
    start: Start,
    /// Where the new entries begin.
    head: u64,
    new: Vec<Slot>,
    /// Lists that must not be stored when the entries are: the place was guessed.
    unless: Vec<scrollback_core::Link>,
}

impl Recorded {
    /// Finds the place of a request, and takes what is new into the record. Nothing is written yet.
    pub(crate) async fn begin(
        app: &App,
        tenant: &Tenant,
        headers: &HeaderMap,
        plan: &Plan,
        tried: usize,
    ) -> Result<Box<Self>, Problem> {
        let asked = &plan.asked;
        let guessed = if tried == 0 { identity::guess(app, tenant, headers, asked)? } else { None };
        let place = match guessed {
            Some(place) => place,
            None => Box::pin(identity::find(app, tenant, headers, asked, plan.carries)).await?,
        };
        let (evaluation, now) = (new_evaluation(), app.now());
        let new = news(&place.known.record, asked, &place.alignment, evaluation, now);
        let head = place.known.record.len() as u64;
        let (place, under_way) = apart(app, place, head, new.len() as u64);
        let Place { conversation, start, mut known, prefix, unless, .. } = place;
        let sequence = new.iter().filter(|slot| matches!(slot, Slot::Message(_))).count() as u64;
        known.expect(&new).map_err(|error| Problem::from(disagree(&error)))?;
        // Known for the whole list already, and not hashed once more.
        known.prefix = prefix;
        Ok(Box::new(Recorded {
            app: app.clone(),
            tenant: tenant.clone(),
            conversation: Some(conversation),
            bytes: known.bytes().max(asked.body.len()),
            known,
            evaluation,
            sequence,
            first: Some(First { start, head, new, unless }),
            written: false,
            timed_out: false,
            _under_way: under_way,
        }))
    }

    /// A request that is served without a record, because the store failed and a record is not required.
    pub(crate) fn nowhere(app: &App, tenant: &Tenant, plan: &Plan) -> Box<Self> {
        let known = Known::new(Record::new(), [0; 32], app.now());
        Box::new(Recorded {
            app: app.clone(),
            tenant: tenant.clone(),
            conversation: None,
            known,
            evaluation: Uuid::nil(),
            sequence: 0,
            first: None,
            bytes: plan.asked.body.len(),
            written: false,
            timed_out: false,
            _under_way: None,
        })
    }

    /// Whether anything of it is durable already.
    pub(crate) fn is_written(&self) -> bool {
        self.written
    }

    /// The commit that writes entries at the record's end, and before them whatever is not written yet.
    fn tx(&mut self, conversation: &ConversationId, entries: Vec<NewEntry>, at: Time) -> Tx {
        let mut tx = Tx::new(&self.tenant, at);
        let Some(First { start, head, new, unless }) = self.first.take() else {
            if !entries.is_empty() {
                tx.append(conversation, Expected::At(self.known.record.len() as u64), entries);
            }
            return tx;
        };
        if !unless.is_empty() {
            tx.unless_known(unless);
        }
        match start {
            Start::Append => {}
            Start::Fork { parent, at } => _ = tx.fork(&parent, at, conversation.clone()),
            Start::New(names) => {
                let key = names.first().map(identity::Named::key);
                tx.create(NewConversation { key, ..NewConversation::new(conversation.clone()) });
                for name in names {
                    tx.alias(Alias {
                        tenant: self.tenant.clone(),
                        source: name.source.into(),
                        source_id: name.id,
                        conversation: conversation.clone(),
                        position: None,
                    });
                }
            }
        }
        let all: Vec<NewEntry> = new.iter().filter_map(NewEntry::of).chain(entries).collect();
        if !all.is_empty() {
            tx.append(conversation, Expected::At(head), all);
        }
        tx
    }

    /// Commits entries and rows, and takes the entries into the record.
    async fn commit(&mut self, entries: Vec<NewEntry>, rows: Rows, at: Time) -> Result<Vec<u64>, StoreError> {
        let Some(conversation) = self.conversation.clone() else { return Ok(Vec::new()) };
        let unwritten = self.first.as_ref().map(|first| (first.head, first.new.clone()));
        let (first, slots) = unwritten.unwrap_or((self.known.record.len() as u64, Vec::new()));
        let position = self.known.record.len() as u64;
        let decided: Vec<Slot> = entries.iter().map(|entry| entry.slot(at)).collect();
        let mut tx = self.tx(&conversation, entries, at);
        tx.calls(rows.sent, rows.template);
        let waiting = slots.len() + decided.len();
        let in_line = self.app.waiting.enter(waiting, self.app.settings.limits.waiting_entries)?;
        let Ok(committed) = tokio::time::timeout(STORE, self.app.store.commit(tx)).await else {
            self.timed_out = true;
            return Err(StoreError::new(ErrorKind::Io, TOO_SLOW));
        };
        let committed = committed?;
        drop(in_line);
        self.written = true;
        if let Some(Appended { link, .. }) = committed.appended.first() {
            tell(&self.app, &self.tenant, &conversation, first, &slots);
            self.known.confirm(&decided, *link, at).map_err(|error| disagree(&error))?;
        }
        Ok((position..position + decided.len() as u64).collect())
    }
}

impl Recorder for Recorded {
    fn record(&self) -> &Record {
        &self.known.record
    }

    fn conversation(&self) -> Option<&ConversationId> {
        self.conversation.as_ref()
    }

    fn tenant(&self) -> Tenant {
        self.tenant.clone()
    }

    /// On another thread if the record is a long one: this thread serves others.
    fn look<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Record) -> T + Send + 'static,
    ) -> Pending<'_, Result<T, StoreError>> {
        if self.bytes < LARGE {
            return Box::pin(std::future::ready(Ok(work(&self.known.record))));
        }
        // It comes back with the answer; where the answer is not waited for, the whole call is given up.
        let record = std::mem::take(&mut self.known.record);
        Box::pin(async move {
            let looking = tokio::task::spawn_blocking(move || {
                let found = work(&record);
                (record, found)
            });
            let (record, found) =
                looking.await.map_err(|_| StoreError::new(ErrorKind::Io, "a background task panicked"))?;
            self.known.record = record;
            Ok(found)
        })
    }

    fn write(
        &mut self,
        entries: Vec<NewEntry>,
        rows: Rows,
        at: Time,
    ) -> Pending<'_, Result<Vec<u64>, StoreError>> {
        Box::pin(self.commit(entries, rows, at))
    }
}

/// Whether looking again tells whether a commit was written, or where it belongs instead.
pub(super) fn can_confirm_by_reading(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Exists | ErrorKind::Unknown)
}

/// Keeps two calls that say the same apart: the second goes its own way from where both begin.
fn apart(app: &App, mut place: Place, head: u64, new: u64) -> (Place, Option<UnderWay>) {
    if let Some(under_way) = app.under_way.begin(&place.conversation, head + new) {
        return (place, Some(under_way));
    }
    if new == 0 && matches!(place.start, Start::Append) {
        let parent = std::mem::replace(&mut place.conversation, ConversationId::new(app.now()));
        place.start = Start::Fork { parent, at: head };
    }
    let under_way = app.under_way.begin(&place.conversation, head + new);
    (place, under_way)
}

/// What a request says that its record does not: instructions that changed, what follows what is known, and how the client
/// spells what is known already.
pub(super) fn news(
    record: &Record,
    asked: &Asked,
    known: &Alignment,
    evaluation: Uuid,
    at: Time,
) -> Vec<Slot> {
    let (instructions, said) = asked.entries.split_at(asked.lead());
    let new = said.get(known.covered..).unwrap_or_default();
    let mut slots = said_anew(record, instructions, new, Stamp { evaluation, sequence: 0, at });
    slots.extend(known.decisions(said).into_iter().map(|decision| Slot::Decision(Arc::new(decision), at)));
    slots
}

/// Tells those who listen what was recorded.
fn tell(app: &App, tenant: &Tenant, conversation: &ConversationId, first: u64, slots: &[Slot]) {
    for (position, slot) in (first..).zip(slots) {
        let Slot::Message(entry) = slot else { continue };
        app.events.tell(tenant, "ConversationRecorded", || {
            json!({
                "event": "ConversationRecorded",
                "conversation": conversation.as_str(),
                "position": position,
                "role": entry.role.as_str(),
                "evaluation_id": entry.evaluation_id.to_string(),
                "created_at": entry.created_at.to_string(),
            })
        });
    }
}

/// The record refuses what the store took, which cannot be.
fn disagree(error: &scrollback_core::AppendError) -> StoreError {
    StoreError::new(ErrorKind::Damaged, error.to_string())
}

impl Recorded {
    /// Records the reply and how the call ended. An entry that another call appended meanwhile is no obstacle: the reply then
    /// goes its own way from what it answers.
    pub(crate) async fn finish(
        mut self: Box<Self>,
        reply: Option<Entry>,
        call: Option<Sent>,
        response: Option<String>,
    ) -> Result<(), StoreError> {
        let Some(conversation) = self.conversation.clone() else { return Ok(()) };
        let app = self.app.clone();
        let now = app.now();
        let head = self.known.record.len() as u64;
        let reply = reply.map(|entry| entry.stamped(self.evaluation, self.sequence, now));
        let mut end = End { conversation, at: head, fork: None };
        let mut tries = TRIES;
        let in_line = app.waiting.join(1);
        let committed = loop {
            let tx = end.tx(&self.tenant, now, reply.as_ref(), call.as_ref(), response.as_deref());
            tries -= 1;
            match app.store.commit(tx).await {
                Ok(committed) => break committed,
                Err(error) if tries == 0 => return Err(error),
                // Every part of it says the same when it is said again.
                Err(error) if error.kind() == ErrorKind::Unknown => {}
                Err(error) if error.kind() == ErrorKind::Exists && end.fork.is_some() => end.fork = None,
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    let actual = error.heads().map_or(end.at, |(_, actual)| actual);
                    Box::pin(self.meet(&mut end, actual)).await?;
                }
                Err(error) => return Err(error),
            }
        };
        drop(in_line);
        if let (Some(appended), Some(entry)) = (committed.appended.first(), reply) {
            let slots = vec![Slot::Message(Arc::new(entry))];
            tell(&app, &self.tenant, &end.conversation, appended.first, &slots);
            if self.known.take(slots, appended.link, now).is_ok() {
                app.lately.keep(&self.tenant, &end.conversation, self.known);
            }
        } else if end.fork.is_none() {
            app.lately.keep(&self.tenant, &end.conversation, self.known);
        }
        Ok(())
    }

    /// Finds out what another call wrote: decisions are taken in, anything said is left on its own branch.
    async fn meet(&mut self, end: &mut End, actual: u64) -> Result<(), StoreError> {
        let met = self.app.store.entries(&self.tenant, &end.conversation, end.at, actual).await?;
        let only_decisions = met.iter().all(|placed| matches!(placed.slot, Slot::Decision(..)));
        if only_decisions && !met.is_empty() {
            let link = met.last().map_or(self.known.link, |placed| placed.link);
            let at = met.last().map_or(self.app.now(), |placed| placed.slot.created_at());
            let slots = met.into_iter().map(|placed| placed.slot).collect();
            self.known.take(slots, link, at).map_err(|error| disagree(&error))?;
            end.at = actual;
        } else {
            let parent = std::mem::replace(&mut end.conversation, ConversationId::new(self.app.now()));
            end.fork = Some(parent);
        }
        Ok(())
    }
}

/// Where a reply goes.
struct End {
    conversation: ConversationId,
    at: u64,
    /// The conversation it has to be forked from first.
    fork: Option<ConversationId>,
}

impl End {
    fn tx(
        &self,
        tenant: &Tenant,
        now: Time,
        reply: Option<&Entry>,
        call: Option<&Sent>,
        response: Option<&str>,
    ) -> Tx {
        let mut tx = Tx::new(tenant, now);
        if let Some(parent) = &self.fork {
            tx.fork(parent, self.at, self.conversation.clone());
        }
        if let Some(reply) = reply {
            tx.append(&self.conversation, Expected::At(self.at), vec![reply.clone().into()]);
        }
        // The call stays where it was opened, whatever way its reply goes.
        if let Some(call) = call {
            tx.sent(call.clone());
        }
        if let (Some(id), Some(_)) = (response, reply) {
            tx.alias(Alias {
                tenant: tenant.clone(),
                source: BY_RESPONSE.into(),
                source_id: id.into(),
                conversation: self.conversation.clone(),
                position: Some(self.at + 1),
            });
        }
        tx
    }
}

/// The calls that wait for their reply, by what they answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallsUnderWay(Arc<Mutex<HashSet<(ConversationId, u64)>>>);

/// One of them; no longer when it is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    all: CallsUnderWay,
    this: (ConversationId, u64),
}

impl CallsUnderWay {
    /// Notes a call; none if there is one at that place already.
    fn begin(&self, conversation: &ConversationId, at: u64) -> Option<UnderWay> {
        let this = (conversation.clone(), at);
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(this.clone());
        is_new.then(|| UnderWay { all: self.clone(), this })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.this);
    }
}

const TOO_SLOW: &str = "the store did not answer in time";

/// The store did not take it in time.
pub(crate) fn store_is_slow() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", TOO_SLOW).retry_after(1)
}
