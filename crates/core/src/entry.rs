//! Entries: the things said, one by one, never changed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::block::{Arguments, Block, BlockKind, CallStyle, ToolCall, ToolResult};
use crate::stream::StopReason;
use crate::text::Text;
use crate::wire::Wire;

/// Who speaks. Wire words map onto these four; the original word stays in the raw text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions (`system`, `developer`).
    System,
    /// The person or program the agent works for.
    User,
    /// The model (`assistant`, `model`).
    Assistant,
    /// A tool's answer (`tool`, `function`).
    Tool,
}

impl Role {
    /// The neutral word for the role, also the one whose tokens are counted.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the content was written, so that null, absent, `""` and `[]` survive a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentState {
    /// One string.
    Text,
    /// A list of parts.
    Parts,
    /// `null`.
    Null,
    /// No such key.
    Absent,
}

/// A UTC time in whole milliseconds since 1970; the caller's clock, never ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Reads a time as in RFC 3339; parts of a millisecond are cut off.
    pub fn parse(text: &str) -> Option<Time> {
        text.parse::<jiff::Timestamp>().ok().map(|time| Time(time.as_millisecond()))
    }
}

impl fmt::Display for Time {
    /// RFC 3339 with three decimals and `Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(time) = jiff::Timestamp::from_millisecond(self.0) else { return write!(f, "{}ms", self.0) };
        let time = jiff::tz::Offset::UTC.to_datetime(time);
        if time.year() < 0 {
            return write!(f, "{time:.3}Z");
        }
        // Every row that is stored has a few, and the general way takes three times as long.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [
            (i32::from(time.year()), 3),
            (time.month().into(), 6),
            (time.day().into(), 9),
            (time.hour().into(), 12),
            (time.minute().into(), 15),
            (time.second().into(), 18),
            (time.millisecond().into(), 22),
        ];
        for (mut rest, last) in parts {
            let digits = text.iter_mut().take(last + 1).rev();
            for digit in digits.take_while(|digit| digit.is_ascii_digit()) {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// One thing said.
///
/// Entries are born from a message of some wire: the raw text is kept, and the blocks are a reading of it.
///
/// ```
/// use scrollback_core::{Entry, Role};
/// let entry = Entry::text(Role::User, "What is in my inbox?");
/// assert_eq!(entry.origin.raw.as_ref(), r#"{"role":"user","content":"What is in my inbox?"}"#);
/// assert_eq!(entry.content().as_deref(), Some("What is in my inbox?"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Who speaks.
    pub role: Role,
    /// What is said, part by part; may be empty.
    pub blocks: Box<[Block]>,
    /// How the content was written.
    pub content_state: ContentState,
    /// The evaluation the entry belongs to; all its entries share this.
    pub evaluation_id: Uuid,
    /// Place within the evaluation, from 0 without gaps.
    pub sequence: u64,
    /// When it was said.
    pub created_at: Time,
    /// The speaker's name, where the wire has one; rare, so kept apart.
    pub author: Option<Box<Text>>,
    /// What is known about the call that made it; never sent to a provider.
    pub meta: Option<Box<Meta>>,
    /// The message it was read from.
    pub origin: Origin,
}

/// The message an entry was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The format of `raw`.
    pub wire: Wire,
    /// The message's exact JSON text.
    pub raw: Arc<str>,
    /// Which part of its message the entry is, where one message became several entries.
    pub part: Option<Box<Part>>,
}

/// One of the entries that a single message became. The raw text of such an entry is the message with only its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// From 1.
    pub number: u32,
    /// How many entries the message became.
    pub of: u32,
    /// Where its blocks stood in the message.
    pub indexes: Vec<u32>,
}

/// How a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Whole.
    #[default]
    Complete,
    /// The provider's stream broke off.
    TruncatedUpstream,
    /// The client left.
    TruncatedClient,
    /// The provider reported an error in the stream.
    Error,
}

/// Tokens a provider reported. Providers differ on whether input includes cached tokens, so the parts are kept
/// and totals are derived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens read at full price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_uncached: Option<u64>,
    /// Input tokens read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Input tokens written to the cache, by lifetime (`5m`, `1h`, …).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cache_write: BTreeMap<String, u64>,
    /// Output tokens, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Output tokens spent on reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// All input, cached included; none if nothing about input was reported.
    pub fn input(&self) -> Option<u64> {
        let known =
            self.input_uncached.is_some() || self.cache_read.is_some() || !self.cache_write.is_empty();
        known.then(|| {
            let written = self.cache_write.values().fold(0, |sum: u64, tokens| sum.saturating_add(*tokens));
            self.input_uncached
                .unwrap_or(0)
                .saturating_add(self.cache_read.unwrap_or(0))
                .saturating_add(written)
        })
    }
}

/// What is known about an entry beyond what it says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Meta {
    /// The model that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_asked: Option<String>,
    /// The model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_served: Option<String>,
    /// Who served it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The provider's id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The provider's id of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Why the reply ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// Why the reply ended, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_raw: Option<String>,
    /// Tokens the provider reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the reply is whole.
    #[serde(skip_serializing_if = "is_complete")]
    pub status: Status,
    /// Kind of trajectory step, where it is not plain from the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What a sub-agent's turn came to, or what its mission was given; as JSON, because only sub-agents read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<serde_json::Value>,
    /// Whether it was recorded to stand first although others were recorded before it.
    #[serde(skip_serializing_if = "is_false")]
    pub lead: bool,
    /// Anything the application wants to find again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn is_complete(status: &Status) -> bool {
    *status == Status::Complete
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The tag that earlier versions gave an entry in place of [`Meta::lead`]; stores have entries with it.
const LEAD_TAG: (&str, &str) = ("lead", "true");

impl Entry {
    /// A plain message in the `OpenAI` chat form, of the nil evaluation, sequence 0, at time 0; see [`Entry::stamped`].
    pub fn text(role: Role, text: &str) -> Self {
        crate::wire::openai_chat::text_entry(role, text)
    }

    /// Instructions: [`Entry::text`] of the system.
    pub fn system(text: &str) -> Self {
        Entry::text(Role::System, text)
    }

    /// What the person or program said: [`Entry::text`] of the user.
    pub fn user(text: &str) -> Self {
        Entry::text(Role::User, text)
    }

    /// What the model said: [`Entry::text`] of the assistant.
    pub fn assistant(text: &str) -> Self {
        Entry::text(Role::Assistant, text)
    }

    /// A tool's answer to the call `call_id`, as a message in the `OpenAI` chat form.
    pub fn result(call_id: &str, text: &str) -> Self {
        crate::wire::openai_chat::result_entry(call_id, text)
    }

    /// A tool's answer that a plain text cannot be: it failed, or it has images in it. Parts are content blocks in the
    /// form of Anthropic's messages, which holds all of that.
    ///
    /// ```
    /// use scrollback_core::Entry;
    /// let entry = Entry::answer("c1", &[serde_json::json!({ "type": "text", "text": "no such city" })], true);
    /// assert_eq!(entry.tool_result().and_then(|result| result.is_error), Some(true));
    /// assert_eq!(entry.content().as_deref(), Some("no such city"));
    /// ```
    pub fn answer(call_id: &str, parts: &[serde_json::Value], is_error: bool) -> Self {
        let mut result =
            serde_json::json!({ "type": "tool_result", "tool_use_id": call_id, "content": parts });
        if let Some(members) = result.as_object_mut().filter(|_| is_error) {
            members.insert("is_error".into(), true.into());
        }
        let message = serde_json::json!({ "role": "user", "content": [result] }).to_string();
        let read = crate::json::check(&message).ok().and_then(|raw| Wire::Anthropic.read_message(raw).ok());
        read.unwrap_or_else(|| Entry::result(call_id, &message))
    }

    /// An assistant's message that calls tools, each given as id, name and arguments.
    ///
    /// ```
    /// use scrollback_core::Entry;
    /// let entry = Entry::calling(None, &[("c1", "weather", r#"{"city":"Oslo"}"#)]);
    /// assert_eq!(entry.tool_calls().next().map(|call| call.name.as_str().into_owned()).as_deref(), Some("weather"));
    /// ```
    pub fn calling(text: Option<&str>, calls: &[(&str, &str, &str)]) -> Self {
        crate::wire::openai_chat::calling_entry(text, calls)
    }

    /// The entry that a client sent back in a version of its own; none if it cannot be read.
    pub(crate) fn echoed(wire: &str, role: Role, body: &str) -> Option<Entry> {
        let raw: Arc<str> = body.into();
        Entry::kept(Wire::named(wire)?, role, &raw, None, None).ok()
    }

    /// The same entry as number `sequence` of an evaluation, said at `created_at`.
    #[must_use]
    pub fn stamped(mut self, evaluation_id: Uuid, sequence: u64, created_at: Time) -> Self {
        self.evaluation_id = evaluation_id;
        self.sequence = sequence;
        self.created_at = created_at;
        self
    }

    /// The same entry, recorded to stand first from now on although others were recorded before it: a [lead
    /// decision](crate::Decision::Lead) names it, and the chain of what was said passes it over.
    #[must_use]
    pub fn as_lead(mut self) -> Self {
        self.meta.get_or_insert_default().lead = true;
        self
    }

    /// Whether it was recorded to stand first.
    pub fn is_lead(&self) -> bool {
        let (tag, value) = LEAD_TAG;
        let tagged =
            |meta: &Meta| self.role == Role::System && meta.tags.get(tag).is_some_and(|found| found == value);
        self.meta.as_ref().is_some_and(|meta| meta.lead || tagged(meta))
    }

    /// The texts of the entry joined by line breaks; none when the content is null or absent.
    pub fn content(&self) -> Option<String> {
        let mut texts = self.texts().peekable();
        if texts.peek().is_none() && matches!(self.content_state, ContentState::Null | ContentState::Absent) {
            return None;
        }
        Some(texts.map(|text| text.as_str().into_owned()).collect::<Vec<_>>().join("\n"))
    }

    /// Every text a reader would see, in order.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.blocks.iter().flat_map(Block::texts)
    }

    /// Length of all texts in Unicode scalar values.
    pub fn chars(&self) -> usize {
        self.texts().map(Text::chars).sum()
    }

    /// The calls in the entry, run by the client or by the provider.
    pub fn tool_calls(&self) -> impl DoubleEndedIterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match &block.kind {
            BlockKind::ToolCall(call) => Some(call.as_ref()),
            _ => None,
        })
    }

    /// The ids of those calls, as they were said.
    pub fn call_ids(&self) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
        self.tool_calls().filter_map(|call| Some(call.call_id.as_ref()?.as_str()))
    }

    /// The result in the entry. There is at most one: every wire gives one entry per result.
    pub fn tool_result(&self) -> Option<&ToolResult> {
        self.blocks.iter().find_map(|block| match &block.kind {
            BlockKind::ToolResult(result) => Some(result.as_ref()),
            _ => None,
        })
    }

    /// Id of the call this entry answers.
    pub fn tool_call_id(&self) -> Option<String> {
        self.tool_result()?.call_id.as_ref().map(|id| id.as_str().into_owned())
    }

    /// Name of the tool that answered, where the wire states it.
    pub fn tool_name(&self) -> Option<String> {
        self.tool_result()?.name.as_ref().map(|name| name.as_str().into_owned())
    }

    /// How the reply ended; complete for everything that is not a reply.
    pub fn status(&self) -> Status {
        self.meta.as_ref().map_or(Status::Complete, |meta| meta.status)
    }

    /// The calls the client must answer: client-style, and whole even if the stream broke.
    pub fn open_calls(&self) -> impl DoubleEndedIterator<Item = &ToolCall> {
        let broken = self.status() != Status::Complete;
        let last = self.tool_calls().next_back();
        self.tool_calls().filter(move |call| call.style.is_client() && !(broken && call_is_cut(call, last)))
    }

    /// What is left of the entry in a view when its stream broke: cut calls and unsigned reasoning go.
    /// None if nothing has to go.
    pub(crate) fn without_cut_parts(&self) -> Option<Entry> {
        if self.status() == Status::Complete {
            return None;
        }
        let last = self.tool_calls().next_back();
        let kept: Box<[Block]> =
            self.blocks.iter().filter(|block| !block_is_cut(block, last)).cloned().collect();
        (kept.len() < self.blocks.len()).then(|| Entry { blocks: kept, ..self.clone() })
    }

    /// Whether the entry says nothing at all.
    pub(crate) fn is_silent(&self) -> bool {
        self.blocks.iter().all(|block| matches!(&block.kind, BlockKind::Text(text) if text.is_empty()))
    }

    /// Steps of a trajectory: one for text or reasoning, one per call, at least one.
    pub(crate) fn steps(&self) -> u32 {
        if self.role != Role::Assistant {
            return 1;
        }
        let speaks = self.blocks.iter().any(|block| match &block.kind {
            BlockKind::Text(text) => !text.is_empty(),
            BlockKind::Reasoning(reasoning) => {
                let readable = reasoning.text.iter().chain(&reasoning.summaries).any(|text| !text.is_empty());
                readable || reasoning.signature.is_some() || reasoning.encrypted.is_some()
            }
            _ => false,
        });
        (u32::from(speaks) + self.tool_calls().count() as u32).max(1)
    }
}

fn block_is_cut(block: &Block, last: Option<&ToolCall>) -> bool {
    match &block.kind {
        BlockKind::ToolCall(call) => call.style.is_client() && call_is_cut(call, last),
        BlockKind::Reasoning(reasoning) => reasoning.signature.is_none() && reasoning.encrypted.is_none(),
        _ => false,
    }
}

/// Whether the stream broke inside a call: its arguments are no whole JSON, or, where they need not be JSON, it is the
/// last call there is.
fn call_is_cut(call: &ToolCall, last: Option<&ToolCall>) -> bool {
    match call.style {
        CallStyle::Custom => last.is_some_and(|last| std::ptr::eq(last, call)),
        _ => call.arguments_json() == Arguments::NotJson,
    }
}
