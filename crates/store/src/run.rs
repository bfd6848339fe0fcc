//! Runs, their steps, spans and events; evaluations; what was sent; the server's keys.
//!
//! These rows are written and read as they are: what they mean is the business of flows, agents and the server. Times are
//! the caller's, and values that are JSON are kept as the text they came as.

use scrollback_core::Time;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::{ConversationId, Tenant};
use crate::status::{CallStatus, EvaluationStatus, RunKind, RunStatus, StepStatus, StepType};

/// One execution of a flow or a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub tenant: Tenant,
    /// What is executed.
    pub kind: RunKind,
    /// The name in the file.
    pub name: String,
    /// Hash of the file.
    pub hash: String,
    /// The whole text of the file.
    pub text: String,
    /// The settings in effect, as JSON.
    pub settings: Option<String>,
    /// How it stands.
    pub status: RunStatus,
    /// Its conversation.
    pub conversation: Option<ConversationId>,
    /// What it was given.
    pub input: Option<String>,
    /// Its output.
    pub output: Option<String>,
    /// Why it failed, as JSON.
    pub error: Option<String>,
    /// What it cost, as JSON.
    pub usage: Option<String>,
    /// Who works on it, and until when they may.
    pub lease: Option<Lease>,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
}

/// The right to work on a run or an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who has it: text that tells one process from another.
    pub holder: String,
    /// When it ends unless it is renewed.
    pub until: Time,
}

/// One step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The run.
    pub run: String,
    /// The step's key, unique in its run.
    pub key: String,
    /// What it does.
    pub kind: StepType,
    /// How it stands.
    pub status: StepStatus,
    /// How often it was tried.
    pub attempt: u64,
    /// What it was given, as JSON.
    pub input: Option<String>,
    /// Its output, as JSON.
    pub output: Option<String>,
    /// The evaluation it ran.
    pub evaluation: Option<Uuid>,
    /// What it cost, as JSON.
    pub usage: Option<String>,
    /// When it began.
    pub started_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Why it failed, as JSON.
    pub error: Option<String>,
}

/// A stretch of time within a run, for traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its id, derived from run and key.
    pub id: String,
    /// The run.
    pub run: String,
    /// The span it is part of.
    pub parent: Option<String>,
    /// What it is called.
    pub name: String,
    /// The step it belongs to.
    pub key: Option<String>,
    /// How it ended, or that it has not.
    pub status: Option<StepStatus>,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// What is known about it, as JSON.
    pub attributes: Option<String>,
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The run.
    pub run: String,
    /// Its number within the run.
    pub sequence: u64,
    /// When.
    pub at: Time,
    /// The step it is about.
    pub key: Option<String>,
    /// What happened.
    pub kind: String,
    /// What is known about it, as JSON.
    pub data: Option<String>,
}

/// One run of an agent on one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Its id.
    pub id: Uuid,
    /// The conversation it speaks in.
    pub conversation: ConversationId,
    /// Position of its first entry.
    pub first_position: Option<u64>,
    /// Position of its last entry.
    pub last_position: Option<u64>,
    /// How many entries it has.
    pub count: u64,
    /// How it stands.
    pub status: EvaluationStatus,
    /// Hash of system text and tools.
    pub prompt_identity: Option<String>,
    /// Who works on it, and until when they may.
    pub lease: Option<Lease>,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
}

/// One model call: what it saw, and what came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// Its id.
    pub id: String,
    /// The conversation.
    pub conversation: ConversationId,
    /// The run it was made for.
    pub run: Option<String>,
    /// The step it was made for.
    pub step: Option<String>,
    /// The evaluation it was made for.
    pub evaluation: Option<Uuid>,
    /// The view is that of the record below this position.
    pub upto: u64,
    /// The managers, as canonical JSON.
    pub managers: String,
    /// The wire of the request.
    pub wire: String,
    /// The model asked.
    pub model: String,
    /// The epoch of the view.
    pub epoch: Option<u64>,
    /// Chain over the bytes of the rendered messages.
    pub prefix_hash: Option<Vec<u8>>,
    /// The request's bytes. [`Tx::sent_as`](crate::Tx::sent_as) writes them as what they share with the record.
    pub request: Option<Vec<u8>>,
    /// The response's bytes; kept as a blob.
    pub response: Option<Vec<u8>>,
    /// How it stands.
    pub status: CallStatus,
    /// Which attempt it was.
    pub attempt: u64,
    /// What it cost, as JSON.
    pub usage: Option<String>,
    /// When it was sent.
    pub started_at: Time,
    /// When the answer ended.
    pub ended_at: Option<Time>,
    /// How many tokens were counted in the request, as JSON.
    pub tokens: Option<String>,
    /// What the count was multiplied by, because of what the provider reported about earlier requests.
    pub factor: Option<f64>,
    /// Which process asked: text that tells one process from another.
    pub holder: Option<String>,
}

/// An API key of the server. The key itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What people call it.
    pub name: String,
    /// Whose data it opens.
    pub tenant: Tenant,
    /// What it may do.
    pub scope: String,
    /// Hash of the key.
    pub hash: Vec<u8>,
    /// When it was made.
    pub created_at: Time,
    /// When it ceased to be valid.
    pub revoked_at: Option<Time>,
    /// How much it may be used.
    pub limits: KeyLimits,
}

/// How much a key may be used; without limit where none is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyLimits {
    /// Requests a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u64>,
    /// Tokens a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u64>,
    /// Millionths of a dollar a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microdollars_per_day: Option<u64>,
}

/// What a key was used for within a stretch of time. Shared by all servers on a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    /// The key's name.
    pub key: String,
    /// `minute` or `day`.
    pub window: String,
    /// When the stretch began. A later one takes the place of the one before.
    pub began: Time,
    /// Requests in it.
    pub requests: u64,
    /// Tokens in it.
    pub tokens: u64,
    /// Millionths of a dollar in it.
    pub microdollars: u64,
}

/// A foreign id of a conversation or an entry: import identity, response ids, what clients of the proxy call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Whose it is.
    pub tenant: Tenant,
    /// Who gave the id.
    pub source: String,
    /// The id.
    pub source_id: String,
    /// What it means.
    pub conversation: ConversationId,
    /// Which entry it means, if it means one.
    pub position: Option<u64>,
}
