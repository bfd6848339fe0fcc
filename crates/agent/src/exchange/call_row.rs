//! The row about a call: written before the provider is asked, completed when it is known how that ended.

use scrollback_core::Time;
use scrollback_core::request::Prepared;
use scrollback_store::{CallStatus, ConversationId, Sent};
use serde::Serialize;

use super::{AttemptEnd, AttemptUsage, PartOf};

/// What is known when a call begins.
pub(super) struct Opening<'a> {
    pub(super) id: String,
    pub(super) conversation: ConversationId,
    pub(super) part_of: PartOf,
    pub(super) upto: u64,
    pub(super) managers: &'a str,
    pub(super) wire: &'a str,
    pub(super) model: String,
    pub(super) prepared: &'a Prepared,
    pub(super) attempt: u32,
    pub(super) at: Time,
}

/// The row of a call that is about to be made.
pub(super) fn opened(opening: Opening<'_>) -> Sent {
    let Opening { id, conversation, part_of, upto, managers, wire, model, prepared, attempt, at } = opening;
    let keeps_bytes = part_of.wants_view || prepared.template.is_none();
    Sent {
        id,
        conversation,
        run: part_of.run,
        step: None,
        evaluation: part_of.evaluation,
        upto,
        managers: managers.into(),
        wire: wire.into(),
        model,
        epoch: prepared.epoch.map(|epoch| epoch.id),
        prefix_hash: Some(prepared.prefix_hash.to_vec()),
        // A caller that stores the record itself has other positions in it, and is given the bytes.
        request: keeps_bytes.then(|| prepared.body.to_vec()),
        response: None,
        status: CallStatus::Sent,
        attempt: attempt.into(),
        usage: None,
        tokens: prepared.tokens.and_then(|tokens| serde_json::to_string(&tokens).ok()),
        factor: prepared.tokens.map(|tokens| tokens.factor.value()),
        holder: part_of.holder,
        started_at: at,
        ended_at: None,
    }
}

/// What a call used, and when its reply began, as its row keeps it.
#[derive(Serialize)]
struct CallUsage<'a> {
    #[serde(flatten)]
    spent: &'a AttemptUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_ms: Option<u64>,
}

/// The same row once the call has ended.
pub(super) fn closed(
    mut row: Sent,
    prepared: &Prepared,
    ended: &AttemptEnd<'_>,
    response: Option<Vec<u8>>,
    now: Time,
) -> Sent {
    let raw = || ended.reply.and_then(|reply| reply.raw.as_ref()).map(|raw| raw.as_bytes().to_vec());
    row.status = ended.status.clone();
    row.response = response.or_else(raw);
    let used = CallUsage { spent: ended.spent, first_byte_ms: ended.first_byte_milliseconds };
    row.usage = serde_json::to_string(&used).ok();
    row.ended_at = Some(now);
    // The store has the bytes already.
    row.request = None;
    if let Some(tokens) = &prepared.tokens {
        // Of a request that was sent as it came they were counted while it was on its way.
        row.tokens = serde_json::to_string(tokens).ok();
        row.factor = Some(tokens.factor.value());
    }
    row
}
