//! The record of a call: what the client said is durable before the provider is asked, what came back before the reply ends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, StatusCode};
use scrollback_agent::BoxFuture;
use scrollback_agent::event::EntryRecorded;
use scrollback_agent::exchange::Recorder;
use scrollback_agent::journal::JournalRows;
use scrollback_core::identity::{Alignment, asks_for_title, title_in};
use scrollback_core::request::{Stamp, news as said_anew};
use scrollback_core::{Decision, Entry, Record, Slot, Status, Time};
use scrollback_store::{
    Alias, Appended, ConversationId, ErrorKind, Expected, NewConversation, NewEntry, Sent, SessionId,
    StoreError, Tenant, Tx, new_evaluation,
};
use uuid::Uuid;

use super::background::LARGE;
use super::call::STORE;
use super::caller::WrittenAt;
use super::client_request::ClientRequest;
use super::identity::{BY_AGENT, BY_RUN, Beginning, Carries, ClientName, Placement, Precondition, Seeking};
use super::policy::CallPlan;
use super::prefix_cache::{Belongs, CachedRecord};
use crate::problem::HttpProblem;
use crate::{About, App};

/// How often the place for a request is looked for anew because another request wrote there.
pub(super) const TRIES: usize = 8;

/// A request and where it is recorded.
pub(crate) struct RecordedCall {
    app: App,
    pub(crate) tenant: Tenant,
    /// How much of the history the request carries.
    carries: Carries,
    /// The session whose title the reply is, where the client asks for one.
    entitles: Option<SessionId>,
    /// Its conversation; none where the store failed and a record is not required.
    conversation: Option<ConversationId>,
    pub(crate) known: CachedRecord,
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
    start: Precondition,
    /// Where the new entries begin.
    head: u64,
    new: Vec<Slot>,
    /// Lists that must not be stored when the entries are: the place was guessed.
    unless: Vec<scrollback_core::Link>,
}

impl RecordedCall {
    /// Finds the place of a request, and takes what is new into the record. Nothing is written yet.
    pub(crate) async fn begin(
        app: &App,
        tenant: &Tenant,
        headers: &HeaderMap,
        plan: &CallPlan,
        tried: usize,
    ) -> Result<Box<Self>, HttpProblem> {
        let CallPlan { asked, carries, strangers, .. } = plan;
        let (carries, strangers) = (*carries, *strangers);
        let seeking = Seeking { app, tenant, headers, asked, origin: &plan.origin, carries, strangers };
        let guessed = if tried == 0 { seeking.guess()? } else { None };
        let place = match guessed {
            Some(place) => place,
            None => Box::pin(seeking.find()).await?,
        };
        let (evaluation, now) = (new_evaluation(), app.now());
        let new = news(&place.known.record, asked, &place.alignment, evaluation, now);
        let head = place.known.record.len() as u64;
        let (place, under_way) = apart(app, place, carries, head, new.len() as u64);
        let Placement { conversation, start, mut known, prefix, unless, .. } = place;
        let sequence = new.iter().filter(|slot| matches!(slot, Slot::Message(_))).count() as u64;
        known.expect(&new).map_err(|error| HttpProblem::from(disagree(&error)))?;
        // Known for the whole list already, and not hashed once more.
        known.prefix = prefix;
        let asks = asked.wants_title || asks_for_title(&asked.entries);
        let titled = plan.origin.session.is_some() && asks;
        Ok(Box::new(RecordedCall {
            app: app.clone(),
            tenant: tenant.clone(),
            carries,
            entitles: titled.then(|| known.belongs.session.clone()),
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
    pub(crate) fn nowhere(app: &App, tenant: &Tenant, plan: &CallPlan) -> Box<Self> {
        let belongs = Belongs { session: SessionId::new(app.now()), scope: None };
        let known = CachedRecord::new(Record::new(), [0; 32], app.now(), belongs);
        Box::new(RecordedCall {
            app: app.clone(),
            tenant: tenant.clone(),
            carries: plan.carries,
            entitles: None,
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

    /// What the client is told about where it is recorded.
    pub(crate) fn told<'r>(&'r self, call: &'r str) -> Option<WrittenAt<'r>> {
        let conversation = self.conversation.as_ref()?.as_str();
        Some(WrittenAt { conversation, session: self.known.belongs.session.as_str(), call })
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
        if let (false, Some(scope)) = (unless.is_empty(), &self.known.belongs.scope) {
            tx.unless_known(scope, unless);
        }
        if matches!(start, Precondition::Append { .. }) {
            // What was erased in the meantime must not be used once more.
            tx.unless_written_since(conversation, self.known.as_of());
        }
        match start {
            Precondition::Append { promoted: None } => {}
            Precondition::Append { promoted: Some(kind) } => _ = tx.kind(conversation, kind),
            Precondition::Fork { parent, at, child: None } => _ = tx.fork(&parent, at, conversation.clone()),
            Precondition::Fork { parent, at, child: Some(child) } => {
                tx.fork_as(&parent, at, conversation.clone(), child);
            }
            Precondition::New(beginning) => {
                let Beginning { conversation: new, names, session } = *beginning;
                if let Some(session) = session {
                    tx.session(session);
                }
                // Two conversations may be one sub-agent's, one after the other; other names stand for one only.
                let key =
                    names.iter().find(|name| ![BY_AGENT, BY_RUN].contains(&name.source)).map(ClientName::key);
                tx.create(NewConversation { key, id: conversation.clone(), ..new });
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
    async fn commit(
        &mut self,
        entries: Vec<NewEntry>,
        rows: JournalRows,
        at: Time,
    ) -> Result<Vec<u64>, StoreError> {
        let Some(conversation) = self.conversation.clone() else { return Ok(Vec::new()) };
        let unwritten = self.first.as_ref().map(|first| (first.head, first.new.clone()));
        let (first, slots) = unwritten.unwrap_or((self.known.record.len() as u64, Vec::new()));
        let position = self.known.record.len() as u64;
        let decided: Vec<Slot> = entries.iter().map(|entry| entry.slot(at)).collect();
        let mut tx = self.tx(&conversation, entries, at);
        tx.calls(rows.sent, rows.template);
        let waiting = slots.len() + decided.len();
        let in_line = self.app.waiting.enter(waiting, self.app.settings.limits.waiting_entries)?;
        let commit = async {
            let _turn = self.app.store_turns.take(&self.tenant).await;
            self.app.store.commit(tx).await
        };
        let Ok(committed) = tokio::time::timeout(STORE, commit).await else {
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

impl Recorder for RecordedCall {
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
    ) -> BoxFuture<'_, Result<T, StoreError>> {
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
        rows: JournalRows,
        at: Time,
    ) -> BoxFuture<'_, Result<Vec<u64>, StoreError>> {
        Box::pin(self.commit(entries, rows, at))
    }
}

/// Whether looking again tells whether a commit was written, or where it belongs instead.
pub(super) fn can_confirm_by_reading(kind: ErrorKind) -> bool {
    // An unknown outcome is none of them: the store whose sync failed would say what is in its log, not what is on the disk.
    matches!(kind, ErrorKind::Conflict | ErrorKind::Exists)
}

/// Keeps two calls that say the same apart: the second goes its own way from where both begin. Clients that send only what
/// is new have both in the same conversation.
fn apart(
    app: &App,
    mut place: Placement,
    carries: Carries,
    head: u64,
    new: u64,
) -> (Placement, Option<UnderWay>) {
    if let Some(under_way) = app.under_way.begin(&place.conversation, head + new) {
        return (place, Some(under_way));
    }
    let repeats = new == 0 && carries == Carries::History;
    if repeats && matches!(place.start, Precondition::Append { .. }) {
        let parent = std::mem::replace(&mut place.conversation, ConversationId::new(app.now()));
        place.start = Precondition::Fork { parent, at: head, child: None };
    }
    let under_way = app.under_way.begin(&place.conversation, head + new);
    (place, under_way)
}

/// What a request says that its record does not: instructions that changed, what follows what is known, and how the client
/// spells what is known already.
pub(super) fn news(
    record: &Record,
    asked: &ClientRequest,
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
        let about = About::Entry { conversation: conversation.as_str(), at: entry.created_at };
        app.events.tell(tenant, about, || EntryRecorded {
            position,
            role: entry.role.as_str(),
            evaluation_id: Some(entry.evaluation_id),
        });
    }
}

/// The record refuses what the store took, which cannot be.
fn disagree(error: &scrollback_core::AppendError) -> StoreError {
    StoreError::new(ErrorKind::Damaged, error.to_string())
}

impl RecordedCall {
    /// Records the reply and how the call ended. An entry that another call appended meanwhile is no obstacle: the reply then
    /// goes its own way from what it answers.
    pub(crate) async fn finish(
        mut self: Box<Self>,
        ending: Ending,
        call: Option<Sent>,
    ) -> Result<(), StoreError> {
        let Some(conversation) = self.conversation.clone() else { return Ok(()) };
        let app = self.app.clone();
        let now = app.now();
        let head = self.known.record.len() as u64;
        let reply = ending.reply.map(|entry| entry.stamped(self.evaluation, self.sequence, now));
        let edits = if reply.is_some() { ending.edits } else { Vec::new() };
        let entitles = self.entitles.take().zip(reply.as_ref().and_then(title_of_reply));
        let mut end = ReplyTarget { conversation, at: head, fork: None, entitles };
        let mut tries = TRIES;
        let in_line = app.waiting.join(1);
        let committed = loop {
            let said = reply.as_ref().map(|reply| (reply, edits.as_slice()));
            let tx = end.tx(&self.tenant, now, said, call.as_ref(), &ending.names);
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
                Err(error) if error.kind() == ErrorKind::Erased => {
                    // The client has its reply; the record keeps nothing of it.
                    tracing::info!(
                        conversation = end.conversation.as_str(),
                        "a reply came after its conversation was erased"
                    );
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        };
        drop(in_line);
        if let (Some(appended), Some(entry)) = (committed.appended.first(), reply) {
            let mut slots = vec![Slot::Message(Arc::new(entry))];
            slots.extend(edits.into_iter().map(|edit| Slot::Decision(Arc::new(edit), now)));
            tell(&app, &self.tenant, &end.conversation, appended.first, &slots);
            if self.known.take(slots, appended.link, now).is_ok() {
                app.lately.keep(&self.tenant, &end.conversation, self.known);
            }
        } else if end.fork.is_none() {
            app.lately.keep(&self.tenant, &end.conversation, self.known);
        }
        Ok(())
    }

    /// Finds out what another call wrote: decisions are taken in, anything said is left on its own branch. Clients that
    /// send only what is new have everything in one conversation, in the order in which it was written.
    async fn meet(&mut self, end: &mut ReplyTarget, actual: u64) -> Result<(), StoreError> {
        let met = self.app.store.entries(&self.tenant, &end.conversation, end.at, actual).await?;
        let only_decisions = met.iter().all(|placed| matches!(placed.slot, Slot::Decision(..)));
        if (only_decisions || self.carries == Carries::News) && !met.is_empty() {
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

/// What is recorded at the end of a call.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The reply.
    pub(crate) reply: Option<Entry>,
    /// What the provider did to the request by itself.
    pub(crate) edits: Vec<Decision>,
    /// The names under which its provider knows the reply, and the objects that it gives.
    pub(crate) names: Vec<ClientName>,
}

/// Where a reply goes.
struct ReplyTarget {
    conversation: ConversationId,
    at: u64,
    /// The conversation it has to be forked from first.
    fork: Option<ConversationId>,
    /// The session that the reply is the title of.
    entitles: Option<(SessionId, String)>,
}

/// The title in the reply of a title call.
fn title_of_reply(reply: &Entry) -> Option<String> {
    (reply.status() == Status::Complete).then(|| title_in(&reply.content()?)).flatten()
}

impl ReplyTarget {
    fn tx(
        &self,
        tenant: &Tenant,
        now: Time,
        said: Option<(&Entry, &[Decision])>,
        call: Option<&Sent>,
        names: &[ClientName],
    ) -> Tx {
        let mut tx = Tx::new(tenant, now);
        if let Some(parent) = &self.fork {
            tx.fork(parent, self.at, self.conversation.clone());
        }
        if let Some((reply, edits)) = said {
            let edits = edits.iter().cloned().map(NewEntry::from);
            let entries = std::iter::once(reply.clone().into()).chain(edits).collect();
            tx.append(&self.conversation, Expected::At(self.at), entries);
        }
        // The call stays where it was opened, whatever way its reply goes.
        if let Some(call) = call {
            tx.sent(call.clone());
        }
        if let Some((session, title)) = &self.entitles {
            tx.title(session, title);
        }
        for ClientName { source, id } in names.iter().filter(|_| said.is_some()) {
            tx.alias(Alias {
                tenant: tenant.clone(),
                source: (*source).into(),
                source_id: id.clone(),
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
pub(crate) fn store_is_slow() -> HttpProblem {
    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", TOO_SLOW).retry_after(1)
}
