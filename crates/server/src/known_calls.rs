//! The calls of a conversation as people look at them: those that went through this server, or else those that an imported
//! transcript reports, one for each reply with its usage.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use scrollback_agent::exchange::{AttemptUsage, Prices};
use scrollback_core::model::ModelName;
use scrollback_core::{Decision, Entry, Record, Role, Slot, Time};
use scrollback_store::{
    CallStatus, Conversation, ConversationId, Sent, Store, StoreError, StoredEntry, Tenant,
};

use crate::{App, usage};

/// What the id of a reported call begins with; the conversation and the position of its reply follow.
const REPORTED: &str = "reported-";
/// Reported calls that are remembered, so that lists do not read whole transcripts each time; some 60 MB.
const REMEMBERED_CALLS: usize = 100_000;
/// Conversations whose calls are remembered. Most have few calls or none.
const REMEMBERED: usize = 50_000;

/// A conversation and the length it had when its calls were read.
type ReadAt = (ConversationId, u64);

/// The reported calls of conversations, by the length they had. Entries never change, so neither do these.
#[derive(Debug, Default)]
pub(crate) struct ReportedCalls(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    by_conversation: HashMap<ReadAt, Arc<Vec<Sent>>>,
    /// How many calls these are.
    held: usize,
}

/// The calls of a conversation, the oldest first, without what was sent and what came back.
pub(crate) async fn known_calls(app: &App, conversation: &Conversation) -> Result<Vec<Sent>, StoreError> {
    let rows = usage::calls_of(app.store.as_ref(), &conversation.tenant, &conversation.id).await?;
    if rows.is_empty() { Ok(reported(app, conversation).await?.to_vec()) } else { Ok(rows) }
}

/// The calls that the replies of a conversation report: of those that are its own, not of what it was forked from.
pub(crate) async fn reported(app: &App, conversation: &Conversation) -> Result<Arc<Vec<Sent>>, StoreError> {
    let key = (conversation.id.clone(), conversation.head);
    let known = || app.reported_calls.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(calls) = known().by_conversation.get(&key) {
        return Ok(Arc::clone(calls));
    }
    let from = conversation.forked_from().map_or(0, |(_, at)| at);
    let store: &dyn Store = app.store.as_ref();
    let before = from.saturating_sub(1);
    let places = store.entries(&conversation.tenant, &conversation.id, before, conversation.head).await?;
    let price = |model: &ModelName| app.catalog.prices(model);
    let calls = Arc::new(calls_in(&conversation.id, &places, from, price));
    let mut all = known();
    if all.by_conversation.len() >= REMEMBERED || all.held > REMEMBERED_CALLS {
        *all = Remembered::default();
    }
    all.held += calls.len();
    all.by_conversation.insert(key, Arc::clone(&calls));
    Ok(calls)
}

/// A call by its id: a row, or one that a transcript reports.
pub(crate) async fn call(app: &App, tenant: &Tenant, id: &str) -> Result<Sent, StoreError> {
    let Some((conversation, position)) = reported_id(id) else {
        return app.store.call(tenant, id).await;
    };
    let conversation = app.store.conversation(tenant, &conversation).await?;
    let calls = reported(app, &conversation).await?;
    match calls.iter().find(|call| call.upto == position) {
        Some(call) => Ok(call.clone()),
        None => app.store.call(tenant, id).await,
    }
}

/// Whether a call is only known from a transcript: its bytes were never here.
pub(crate) fn is_reported(call: &Sent) -> bool {
    call.id.starts_with(REPORTED)
}

/// The record as a reported call saw it: without what was said later, and with the compaction that had happened by then.
/// Imports write decisions behind everything that was said, so their places do not say when they were made.
pub(crate) fn record_at(record: &Record, upto: u64) -> Result<Record, String> {
    let before = record.slots().get(..upto as usize).unwrap_or(record.slots());
    let mut then = Record::restore(before.iter().cloned()).map_err(|error| error.to_string())?;
    let summaries = record.slots().iter().skip(upto as usize).filter_map(|slot| match slot {
        Slot::Decision(decision, at) => Some((compacted_until(decision)?, decision, *at)),
        _ => None,
    });
    // A later compaction stands for what the earlier ones stood for, too.
    if let Some((_, decision, at)) =
        summaries.filter(|(last, ..)| *last < upto).max_by_key(|(last, ..)| *last)
    {
        let mut decision = decision.as_ref().clone();
        if let Decision::Summary { replaces, .. } = &mut decision {
            *replaces = None;
        }
        then.decide(decision, at).map_err(|error| error.to_string())?;
    }
    Ok(then)
}

/// The last position that a compaction stands for.
pub(crate) fn compacted_until(decision: &Decision) -> Option<u64> {
    match decision {
        Decision::Summary { covers, .. } => covers.iter().map(|(_, last)| *last).max(),
        _ => None,
    }
}

fn reported_id(id: &str) -> Option<(ConversationId, u64)> {
    let (conversation, position) = id.strip_prefix(REPORTED)?.split_once('-')?;
    Some((ConversationId::parse(conversation)?, position.parse().ok()?))
}

/// One call for each reply that says what it used.
fn calls_in(
    id: &ConversationId,
    places: &[StoredEntry],
    from: u64,
    prices: impl Fn(&ModelName) -> Prices,
) -> Vec<Sent> {
    let mut calls = Vec::new();
    let mut asked_at: Option<Time> = None;
    let mut last_response: Option<String> = None;
    for placed in places {
        let Slot::Message(entry) = &placed.slot else { continue };
        let response = entry.meta.as_ref().and_then(|meta| meta.response_id.clone());
        // One reply may have become several entries; it was one call.
        let again = response.is_some() && response == last_response;
        if entry.role == Role::Assistant && placed.position >= from && !again {
            calls.extend(call_of(id, placed.position, entry, asked_at, &prices));
        }
        if entry.role == Role::Assistant {
            last_response = response;
        }
        asked_at = Some(entry.created_at);
    }
    calls
}

fn call_of(
    id: &ConversationId,
    position: u64,
    entry: &Entry,
    asked_at: Option<Time>,
    prices: impl Fn(&ModelName) -> Prices,
) -> Option<Sent> {
    let meta = entry.meta.as_deref()?;
    let used = meta.usage.as_ref()?;
    let name = meta.model_served.as_deref().or(meta.model_asked.as_deref())?;
    // Clients write messages of their own, such as errors, as replies of a model that there is not.
    if used.input().unwrap_or(0) == 0 && used.output.unwrap_or(0) == 0 {
        return None;
    }
    let wire = entry.origin.wire;
    let model = ModelName::resolve(name, wire.provider()).ok();
    let prices = model.as_ref().map_or_else(Prices::default, prices);
    let spent = AttemptUsage::reported(Some(used), (0, 0), prices);
    let status = match entry.status() {
        scrollback_core::Status::Complete => CallStatus::Done,
        scrollback_core::Status::TruncatedUpstream => CallStatus::TruncatedUpstream,
        scrollback_core::Status::TruncatedClient => CallStatus::TruncatedClient,
        scrollback_core::Status::Error => CallStatus::failed("error"),
    };
    Some(Sent {
        id: format!("{REPORTED}{id}-{position}"),
        conversation: id.clone(),
        run: None,
        step: None,
        evaluation: None,
        upto: position,
        managers: "[]".into(),
        wire: wire.name().into(),
        model: model.map_or_else(|| name.to_string(), |model| model.to_string()),
        epoch: None,
        prefix_hash: None,
        request: None,
        response: None,
        status,
        attempt: 1,
        usage: serde_json::to_string(&spent).ok(),
        started_at: asked_at.unwrap_or(entry.created_at),
        ended_at: Some(entry.created_at),
        tokens: None,
        factor: None,
        holder: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::{Link, Meta, Usage};

    #[test]
    fn a_compaction_counts_for_the_calls_after_it_wherever_it_was_written() {
        let mut record = Record::new();
        for number in 0..6u64 {
            let entry = if number % 2 == 0 { Entry::user("hi") } else { Entry::assistant("ok") };
            record.append(entry.stamped(uuid::Uuid::nil(), number, Time(0))).unwrap();
        }
        let summary = Decision::Summary {
            covers: vec![(0, 2)],
            text: "greetings".into(),
            place: scrollback_core::SummaryPlace::System,
            by: "claude-code".into(),
            usage: None,
            replaces: None,
            scope: None,
        };
        record.decide(summary, Time(9)).unwrap();
        assert_eq!(record_at(&record, 2).unwrap().len(), 2, "it had not happened yet");
        let then = record_at(&record, 5).unwrap();
        assert!(then.len() == 6 && matches!(then.slots().last(), Some(Slot::Decision(..))));
    }

    #[test]
    fn every_reply_with_usage_is_one_call() {
        let id = ConversationId::new(Time(1));
        let reply = |response: &str, read: u64| {
            let mut entry = Entry::assistant("ok");
            entry.meta = Some(Box::new(Meta {
                model_served: Some("gpt-4o".into()),
                response_id: Some(response.into()),
                usage: Some(Usage {
                    input_uncached: Some(100),
                    cache_read: Some(read),
                    output: Some(7),
                    ..Usage::default()
                }),
                ..Meta::default()
            }));
            entry
        };
        let entries = [Entry::user("hi"), reply("a", 0), reply("a", 0), Entry::user("go on"), reply("b", 50)];
        let places: Vec<StoredEntry> = (0..)
            .zip(entries)
            .map(|(position, entry)| StoredEntry {
                position,
                slot: Slot::Message(Arc::new(entry)),
                link: Link::default(),
                body_hash: Link::default(),
                prefix: None,
            })
            .collect();
        let calls = calls_in(&id, &places, 0, Prices::of);
        let seen: Vec<(u64, u64)> =
            calls.iter().map(|call| (call.upto, usage::Spent::of(call).unwrap().input)).collect();
        assert_eq!(seen, [(1, 100), (4, 150)]);
        assert!(calls.iter().all(is_reported) && usage::Spent::of(&calls[0]).unwrap().cost_usd.is_some());
        assert_eq!(reported_id(&calls[1].id), Some((id.clone(), 4)));
        assert_eq!(calls_in(&id, &places, 2, Prices::of).len(), 1, "what a fork shares is not its own");
    }
}
