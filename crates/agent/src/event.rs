//! What is told while an agent runs.

use std::sync::Arc;

use scrollback_core::stream::StopReason;
use scrollback_core::wire::neutral_entry;
use scrollback_core::{Entry, Epoch, HistoryCurated, Usage};
use scrollback_store::CallStatus;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::bus::Event;
use crate::exchange::AttemptUsage;
use crate::session::{SliceItem, SliceKind};

/// An entry and where it stands. The entry is the record's own, not a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEntry {
    /// What was said.
    pub entry: Arc<Entry>,
    /// Its place in the record.
    pub position: u64,
}

impl SliceItem for RecordedEntry {
    const NAME: &'static str = "ConversationEntry";
    const KIND: SliceKind = SliceKind::Log;
}

impl Serialize for RecordedEntry {
    /// The entry in the neutral form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = neutral_entry(self.position, &self.entry);
        RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RecordedEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let _ = Value::deserialize(deserializer)?;
        Err(D::Error::custom("entries are read from the record, never from a snapshot"))
    }
}

/// Events with the names they are told under.
macro_rules! events {
    ($($event:ident)*) => {
        $(impl Event for $event {
            const NAME: &'static str = stringify!($event);
        })*
    };
}

events! {
    PromptRendered ConversationRecorded HistoryCurated RequestSent ReplyReceived Throttled ContextTightened
    ToolInvoked StateRolledBack SummaryWritten SummaryFailed EvaluationCompleted EvaluationFailed RunChanged
    FollowUpDue
}

/// An evaluation starts.
#[derive(Clone, Debug, Serialize)]
pub struct PromptRendered {
    /// The prompt.
    pub prompt_name: String,
    /// The evaluation.
    pub evaluation_id: Uuid,
    /// The tools on offer, by name.
    pub tools: Vec<String>,
    /// Hash of the system text and the tools.
    pub prompt_identity: String,
}

/// An entry is durable.
#[derive(Clone, Debug, Serialize)]
pub struct ConversationRecorded {
    /// The conversation; none for a record in memory.
    pub conversation: Option<String>,
    /// The entry and its position.
    #[serde(rename = "entry")]
    pub recorded: RecordedEntry,
}

/// An entry is durable, as listeners outside the process are told: where it stands and who spoke, never the text.
#[derive(Clone, Debug, Serialize)]
pub struct EntryRecorded {
    /// Its position.
    pub position: u64,
    /// Who spoke; `decision` for what was not said.
    pub role: &'static str,
    /// The evaluation it is part of, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation_id: Option<Uuid>,
}

impl Event for EntryRecorded {
    const NAME: &'static str = ConversationRecorded::NAME;
}

/// A request was made, as listeners outside the process are told: how much of the record it shows, in numbers.
#[derive(Clone, Debug, Serialize)]
pub struct RequestCurated {
    /// Entries that are recorded.
    pub original_count: usize,
    /// Entries that are shown.
    pub curated_count: usize,
    /// Tokens of everything recorded.
    pub original_tokens: usize,
    /// Tokens of the request.
    pub curated_tokens: usize,
    /// Those of the instructions.
    pub instruction_tokens: usize,
    /// Those of the tool definitions.
    pub tool_tokens: usize,
    /// The managers that did something, or `passthrough`.
    pub by: String,
}

impl Event for RequestCurated {
    const NAME: &'static str = HistoryCurated::NAME;
}

/// A reply came for a client, as listeners outside the process are told.
#[derive(Clone, Debug, Serialize)]
pub struct ReplyPassedOn {
    /// Which try it was, from 1.
    pub attempt: u32,
    /// How it ended.
    pub status: CallStatus,
    /// The model, as the client named it.
    pub model: String,
    /// What it used and cost.
    pub usage: AttemptUsage,
    /// Why it ended.
    pub stop: Option<StopReason>,
    /// How long it took.
    pub milliseconds: u64,
    /// How long the first byte took.
    pub first_byte_milliseconds: Option<u64>,
}

impl Event for ReplyPassedOn {
    const NAME: &'static str = ReplyReceived::NAME;
}

/// The status of a run changed.
#[derive(Clone, Debug, Serialize)]
pub struct RunChanged {
    /// The run.
    pub run: String,
    /// How it stands now.
    pub status: scrollback_store::RunStatus,
}

/// It is time to get in touch with a recipient.
#[derive(Clone, Debug, Serialize)]
pub struct FollowUpDue {
    /// Whom the conversation is with.
    pub recipient: String,
    /// Where the conversation stands.
    pub status: scrollback_store::Status,
    /// Since when it is due.
    pub due_at: String,
}

/// A request goes out.
#[derive(Clone, Debug, Serialize)]
pub struct RequestSent {
    /// Which try it is, from 1.
    pub attempt: u32,
    /// Tokens of the view.
    pub tokens: usize,
    /// Hash of the messages' bytes.
    pub prefix_hash: String,
    /// The epoch, if a sticky manager is at work.
    pub epoch: Option<Epoch>,
}

/// A reply came, whole or not.
#[derive(Clone, Debug, Serialize)]
pub struct ReplyReceived {
    /// Which try it was, from 1.
    pub attempt: u32,
    /// Tokens as reported.
    pub usage: Option<Usage>,
    /// Why it ended.
    pub stop: Option<StopReason>,
    /// How long it took.
    pub milliseconds: u64,
    /// How long the first byte took.
    pub first_byte_milliseconds: Option<u64>,
}

/// A request is tried again after a wait.
#[derive(Clone, Debug, Serialize)]
pub struct Throttled {
    /// The try that failed, from 1.
    pub attempt: u32,
    /// How it failed.
    pub kind: &'static str,
    /// The wait, in milliseconds.
    pub delay: u64,
    /// What the provider asked for, in milliseconds.
    pub retry_after: Option<u64>,
}

/// A request was too large, and the next is smaller.
#[derive(Clone, Debug, Serialize)]
pub struct ContextTightened {
    /// What was done: `clear`, `cut` or `truncate`.
    pub step: &'static str,
    /// The limit the provider stated, or the one assumed.
    pub limit: Option<u64>,
    /// Tokens of the view before.
    pub before: usize,
    /// Tokens of the view after.
    pub after: usize,
}

/// A tool ended.
#[derive(Clone, Debug, Serialize)]
pub struct ToolInvoked {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// What it was called with.
    pub arguments: String,
    /// What it answered.
    pub result: String,
    /// Whether it failed.
    pub is_error: bool,
    /// How long it took.
    pub milliseconds: u64,
}

/// A reducer failed on what a tool did; the state is as it was before the tool, the result is recorded all the same.
#[derive(Clone, Debug, Serialize)]
pub struct StateRolledBack {
    /// The call.
    pub call_id: String,
    /// What failed.
    pub reason: String,
}

/// A summary was recorded.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryWritten {
    /// What it stands for, first and last position.
    pub range: (u64, u64),
    /// Who wrote it.
    pub by: String,
}

/// A summary could not be written.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryFailed {
    /// What it was to stand for, first and last position.
    pub range: (u64, u64),
    /// Why not.
    pub reason: String,
}

/// An evaluation ended with a reply.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationCompleted {
    /// The evaluation.
    pub evaluation_id: Uuid,
    /// The reply's text.
    pub output: String,
    /// Tokens of all its requests.
    pub usage: Usage,
}

/// An evaluation ended without one.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationFailed {
    /// The evaluation.
    pub evaluation_id: Uuid,
    /// Where it failed: `request`, `response`, `tool`, `budget` or `deadline`.
    pub phase: &'static str,
    /// What programs act on.
    pub code: String,
    /// What people read.
    pub message: String,
}
