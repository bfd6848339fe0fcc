//! The record of a call: what the client said is durable before anybody is asked, what came back before the reply ends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, StatusCode};
use scrollback_core::tokens::{Tokenizer, entry_tokens};
use scrollback_core::{Decision, Entry, Record, Role, Slot};
use scrollback_store::{
    Alias, Appended, ConversationId, ErrorKind, Expected, NewConversation, NewEntry, Sent, StoreError,
    Tenant, Tx, new_evaluation,
};
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};
use uuid::Uuid;

use super::aside::LARGE;
use super::asked::Asked;
use super::identity::{self, BY_RESPONSE, Place, Start};
use super::known::Known;
use super::view::Curating;
use crate::App;
use crate::problem::Problem;

/// How often the place for a request is looked for anew because somebody else wrote there.
const TRIES: usize = 8;

/// A request that is recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) tenant: Tenant,
    pub(crate) conversation: ConversationId,
    pub(crate) known: Known,
    /// The call: what the client said in it, and the reply.
    pub(crate) evaluation: Uuid,
    /// The number the reply has in it.
    sequence: u64,
    /// Tokens of it that are being counted.
    counting: Option<Counting>,
    /// Kept while the reply is on its way.
    _under_way: Option<UnderWay>,
}

impl Recorded {
    pub(crate) fn record(&self) -> &Record {
        &self.known.record
    }

    /// Waits for what is being counted, and takes it in.
    pub(crate) async fn take_counts(&mut self) {
        let Some(Counting { tokenizer, begun }) = self.counting.take() else { return };
        // What could not be counted there is counted when it is asked for.
        for (position, tokens) in begun.await.unwrap_or_default() {
            self.known.record.note_tokens(tokenizer, position, tokens);
        }
    }
}

/// Tokens that another thread counts while something else is waited for.
#[derive(Debug)]
struct Counting {
    tokenizer: Tokenizer,
    /// Positions, and the tokens of what stands there.
    begun: JoinHandle<Vec<(u64, usize)>>,
}

impl Counting {
    /// Begins to count what nobody has counted of a record and of what is to follow in it, if that is much.
    fn begin(curating: &Arc<Curating>, record: &Record, new: &[Slot]) -> Option<Self> {
        let tokenizer = curating.cx.counter.tokenizer;
        let new = (record.len() as u64..).zip(new).filter_map(|(at, slot)| match slot {
            Slot::Message(entry) => Some((at, entry)),
            _ => None,
        });
        let uncounted = || record.uncounted(tokenizer).chain(new.clone());
        let bytes: usize = uncounted().map(|(_, entry)| entry.origin.raw.len()).sum();
        if bytes.max(curating.asked.body.len()) < LARGE {
            return None;
        }
        let entries: Vec<(u64, Arc<Entry>)> =
            uncounted().map(|(at, entry)| (at, Arc::clone(entry))).collect();
        let curating = Arc::clone(curating);
        let begun = spawn_blocking(move || {
            // The tools are counted with it, once.
            curating.cx.overhead(curating.cx.counter);
            entries.iter().map(|(at, entry)| (*at, entry_tokens(tokenizer, entry))).collect()
        });
        Some(Counting { tokenizer, begun })
    }
}

/// Records what is new in a request, wherever it belongs.
pub(crate) async fn record_first(
    app: &App,
    tenant: &Tenant,
    headers: &HeaderMap,
    curating: &Arc<Curating>,
) -> Result<Box<Recorded>, Problem> {
    let asked = &curating.asked;
    let mut last = None;
    for tried in 0..TRIES {
        let guessed = if tried == 0 { identity::guess(app, tenant, headers, asked)? } else { None };
        let place = match guessed {
            Some(place) => place,
            None => Box::pin(identity::find(app, tenant, headers, asked, curating.carries)).await?,
        };
        match append(app, tenant, place, curating).await {
            // Somebody was quicker, or nobody knows whether we were: the list is looked for again, and found so far.
            Err(error) if is_settled_by_looking(error.kind()) => last = Some(error),
            other => return Ok(Box::new(other?)),
        }
    }
    Err(last.map_or_else(|| Problem::not_found("conversation"), Problem::from))
}

fn is_settled_by_looking(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Exists | ErrorKind::Unknown)
}

async fn append(
    app: &App,
    tenant: &Tenant,
    place: Place,
    curating: &Arc<Curating>,
) -> Result<Recorded, StoreError> {
    let evaluation = new_evaluation();
    let now = app.now();
    let new = news(&place.known.record, &curating.asked, place.covered, evaluation, now);
    let head = place.known.record.len() as u64;
    let (place, under_way) = apart(app, place, head, new.len() as u64);
    let Place { conversation, start, mut known, prefix, unless, .. } = place;
    let mut tx = Tx::new(tenant, now);
    if !unless.is_empty() {
        tx.unless_known(unless);
    }
    let writes = !new.is_empty() || !matches!(start, Start::Append);
    match start {
        Start::Append => {}
        Start::Fork { parent, at } => _ = tx.fork(&parent, at, conversation.clone()),
        Start::New(names) => {
            let key = names.first().map(identity::Named::key);
            tx.create(NewConversation { key, ..NewConversation::new(conversation.clone()) });
            for name in names {
                tx.alias(Alias {
                    tenant: tenant.clone(),
                    source: name.source.into(),
                    source_id: name.id,
                    conversation: conversation.clone(),
                    position: None,
                });
            }
        }
    }
    let slots = slots(&new, now);
    let sequence = slots.iter().filter(|slot| matches!(slot, Slot::Message(_))).count() as u64;
    if !new.is_empty() {
        tx.append(&conversation, Expected::At(head), new);
    }
    let counting = Counting::begin(curating, &known.record, &slots);
    // Known for the whole list already, and not hashed once more.
    known.prefix = None;
    if writes {
        let _in_line = app.waiting.enter(slots.len(), app.settings.limits.waiting_entries)?;
        let committed = app.store.commit(tx).await?;
        if let Some(Appended { link, .. }) = committed.appended.first() {
            tell(app, tenant, &conversation, head, &slots);
            known.take(slots, *link, now).map_err(|error| disagree(&error))?;
        }
    }
    known.prefix = prefix;
    let tenant = tenant.clone();
    Ok(Recorded { tenant, conversation, known, evaluation, sequence, counting, _under_way: under_way })
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

/// What a request says that its record does not: instructions that changed, and what follows what is known.
pub(super) fn news(
    record: &Record,
    asked: &Asked,
    covered: usize,
    evaluation: Uuid,
    now: scrollback_core::Time,
) -> Vec<NewEntry> {
    let lead = asked.lead();
    let (instructions, said) = asked.entries.split_at(lead);
    let said = said.get(covered.saturating_sub(lead)..).unwrap_or_default();
    let (mut new, mut sequence) = (Vec::new(), 0..);
    let mut stamped =
        |entry: Entry| NewEntry::from(entry.stamped(evaluation, sequence.next().unwrap_or(0), now));
    if record.is_empty() {
        new.extend(instructions.iter().cloned().map(&mut stamped));
    } else if lead > 0 && !is_lead(record, instructions) {
        let first = record.len() as u64;
        new.extend(instructions.iter().map(|entry| stamped(entry.clone().as_lead())));
        new.push(Decision::Lead { positions: (first..first + lead as u64).collect() }.into());
    }
    new.extend(said.iter().cloned().map(&mut stamped));
    new
}

/// Whether these instructions are the ones that stand first now.
fn is_lead(record: &Record, instructions: &[Entry]) -> bool {
    let decided = record.slots().iter().rev().find_map(|slot| match slot {
        Slot::Decision(decision, _) => match decision.as_ref() {
            Decision::Lead { positions } => Some(positions.clone()),
            _ => None,
        },
        _ => None,
    });
    let leading = || {
        let is_system = |slot: &&Slot| matches!(slot, Slot::Message(entry) if entry.role == Role::System);
        (0..record.slots().iter().take_while(is_system).count() as u64).collect()
    };
    let positions: Vec<u64> = decided.unwrap_or_else(leading);
    let now = positions.iter().filter_map(|position| record.entry(*position)).map(|entry| entry.content());
    now.eq(instructions.iter().map(Entry::content))
}

/// The places that new entries become.
pub(super) fn slots(new: &[NewEntry], at: scrollback_core::Time) -> Vec<Slot> {
    let slot = |entry: &NewEntry| match entry {
        NewEntry::Message(entry) => Slot::Message(Arc::new(Entry::clone(entry))),
        NewEntry::Decision(decision) => Slot::Decision(Arc::from(decision.clone()), at),
    };
    new.iter().map(slot).collect()
}

/// Tells whoever listens what was recorded.
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
    /// Records a decision about what was said.
    pub(crate) async fn decide(&mut self, app: &App, decision: Decision) -> Result<(), StoreError> {
        let (now, head) = (app.now(), self.known.record.len() as u64);
        let new = vec![NewEntry::from(decision)];
        let slots = slots(&new, now);
        let mut tx = Tx::new(&self.tenant, now);
        tx.append(&self.conversation, Expected::At(head), new);
        let committed = app.store.commit(tx).await?;
        let link = committed.appended.first().map_or(self.known.link, |appended| appended.link);
        self.known.take(slots, link, now).map_err(|error| disagree(&error))
    }

    /// Records the reply and what is known about the call. Somebody who spoke meanwhile is no obstacle: the reply then goes
    /// its own way from what it answers.
    pub(crate) async fn finish(
        mut self: Box<Self>,
        app: &App,
        reply: Option<Entry>,
        calls: Vec<Sent>,
        response: Option<String>,
    ) -> Result<(), StoreError> {
        let now = app.now();
        let head = self.known.record.len() as u64;
        let reply = reply.map(|entry| entry.stamped(self.evaluation, self.sequence, now));
        let mut end = End { conversation: self.conversation.clone(), at: head, fork: None };
        let mut tries = TRIES;
        let in_line = app.waiting.join(1);
        let committed = loop {
            let tx = end.tx(&self.tenant, now, reply.as_ref(), &calls, response.as_deref());
            tries -= 1;
            match app.store.commit(tx).await {
                Ok(committed) => break committed,
                Err(error) if tries == 0 => return Err(error),
                // Every part of it says the same when it is said again.
                Err(error) if error.kind() == ErrorKind::Unknown => {}
                Err(error) if error.kind() == ErrorKind::Exists && end.fork.is_some() => end.fork = None,
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    let actual = error.heads().map_or(end.at, |(_, actual)| actual);
                    Box::pin(self.meet(app, &mut end, actual)).await?;
                }
                Err(error) => return Err(error),
            }
        };
        drop(in_line);
        if let (Some(appended), Some(entry)) = (committed.appended.first(), reply) {
            let slots = vec![Slot::Message(Arc::new(entry))];
            tell(app, &self.tenant, &end.conversation, appended.first, &slots);
            if self.known.take(slots, appended.link, now).is_ok() {
                app.lately.keep(&self.tenant, &end.conversation, self.known);
            }
        } else if end.fork.is_none() {
            app.lately.keep(&self.tenant, &end.conversation, self.known);
        }
        Ok(())
    }

    /// Finds out what somebody else wrote: decisions are taken in, anything said is left on its own branch.
    async fn meet(&mut self, app: &App, end: &mut End, actual: u64) -> Result<(), StoreError> {
        let met = app.store.entries(&self.tenant, &end.conversation, end.at, actual).await?;
        let only_decisions = met.iter().all(|placed| matches!(placed.slot, Slot::Decision(..)));
        if only_decisions && !met.is_empty() {
            let link = met.last().map_or(self.known.link, |placed| placed.link);
            let at = met.last().map_or(app.now(), |placed| placed.slot.created_at());
            let slots = met.into_iter().map(|placed| placed.slot).collect();
            self.known.take(slots, link, at).map_err(|error| disagree(&error))?;
            end.at = actual;
        } else {
            let parent = std::mem::replace(&mut end.conversation, ConversationId::new(app.now()));
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
        now: scrollback_core::Time,
        reply: Option<&Entry>,
        calls: &[Sent],
        response: Option<&str>,
    ) -> Tx {
        let mut tx = Tx::new(tenant, now);
        if let Some(parent) = &self.fork {
            tx.fork(parent, self.at, self.conversation.clone());
        }
        if let Some(reply) = reply {
            tx.append(&self.conversation, Expected::At(self.at), vec![reply.clone().into()]);
        }
        for call in calls {
            tx.sent(Sent { conversation: self.conversation.clone(), ..call.clone() });
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

/// The store did not take it in time.
pub(crate) fn store_is_slow() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", "the store did not answer in time")
        .retry_after(1)
}
