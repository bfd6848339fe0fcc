//! A reply: the message, and what is known about it.

use super::{Assembly, ReplyMeta, StreamError, reported};
use super::{anthropic, bedrock, gemini, openai_chat, openai_responses};
use crate::entry::{Entry, Meta, Status};
use crate::json::{self, JsonKind, Raw};
use crate::wire::{Wire, WireError};

/// What a model answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The format of `raw`.
    pub wire: Wire,
    /// The message as the next request would send it back, in the provider's own spelling; a list of items for
    /// Responses. None if no part of a message came.
    pub raw: Option<String>,
    /// How it ended, what it cost, who answered.
    pub meta: Meta,
    /// What went wrong, if something did.
    pub problem: Option<StreamError>,
    /// What was passed over, one line each.
    pub notes: Vec<String>,
    /// What the provider itself left out of the request before the model read it.
    pub applied_edits: Vec<AppliedEdit>,
}

/// Something that a provider did to a request by itself, because the request allows it (`context_management`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedEdit {
    /// The provider's name for it, such as `clear_tool_uses_20250919`.
    pub edit: String,
    /// How many tool uses it cleared, the oldest first.
    pub cleared_tool_uses: u64,
}

impl AppliedEdit {
    /// Reads the edits that a reply reports.
    pub(super) fn read(management: Raw<'_>) -> Vec<Self> {
        let edits = management.get("applied_edits").into_iter().flat_map(Raw::elements);
        let read = |edit: Raw<'_>| {
            let number = |key: &str| edit.get(key).and_then(|value| value.text().parse().ok()).unwrap_or(0);
            let name = edit.get("type")?.string()?.into_owned();
            Some(AppliedEdit { edit: name, cleared_tool_uses: number("cleared_tool_uses") })
        };
        edits.filter_map(read).collect()
    }
}

impl Reply {
    /// Reads a reply that came in one piece, or the error that came instead of one.
    ///
    /// ```
    /// use scrollback_core::{json, stream::Reply, wire::Wire};
    /// let body = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],
    ///     "stop_reason":"end_turn","usage":{"input_tokens":8,"output_tokens":2}}"#;
    /// let reply = Reply::from_body(Wire::Anthropic, json::check(body)?);
    /// assert_eq!(reply.raw.as_deref(), Some(r#"{"role":"assistant","content":[{"type":"text","text":"hi"}]}"#));
    /// assert_eq!(reply.meta.stop, Some(scrollback_core::stream::StopReason::Stop));
    ///
    /// let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    /// let reply = Reply::from_body(Wire::Anthropic, json::check(body)?);
    /// assert_eq!(reply.problem.and_then(|problem| problem.status), Some(529));
    /// # Ok::<(), json::JsonError>(())
    /// ```
    pub fn from_body(wire: Wire, body: Raw<'_>) -> Self {
        // Asked for a stream without `alt=sse`, Gemini sends the events as a list.
        if body.kind() == JsonKind::Array
            && let (Wire::Gemini, Some(mut events)) = (wire, Assembly::new(wire))
        {
            body.elements().for_each(|event| events.take("", event, &mut None));
            return events.reply(Status::TruncatedUpstream);
        }
        let mut told = ReplyMeta { ended: true, ..ReplyMeta::default() };
        let object = body.object();
        let error = object.as_ref().map_or_else(|_| body.get("error"), |object| object.get("error"));
        if let Some(error) = reported(error) {
            told.fail(error);
        }
        let raw = object.ok().and_then(|body| match wire {
            Wire::OpenaiChat => openai_chat::body(&body, &mut told),
            Wire::OpenaiResponses => openai_responses::body(&body, &mut told),
            Wire::Anthropic => anthropic::body(&body, &mut told),
            Wire::Gemini => gemini::body(&body, &mut told),
            Wire::Bedrock => bedrock::body(&body, &mut told),
            Wire::Scrollback => None,
        });
        if raw.is_none() && told.problem.is_none() && told.stop.is_none() && told.ended {
            let worded = body.get("message").or_else(|| body.get("Message")).or_else(|| body.get("detail"));
            told.problem = Some(match worded {
                Some(_) => StreamError::read(body),
                None => StreamError::no_reply(wire),
            });
        }
        told.reply(wire, raw, None, Status::TruncatedUpstream)
    }

    /// The reply as an entry of a record, with what is known about it.
    pub fn entry(&self) -> Result<Entry, WireError> {
        let raw = self.raw.as_deref().ok_or_else(|| WireError::bad_input("the reply holds no message"))?;
        let mut entry = self.wire.read_message(json::check(raw)?)?;
        entry.meta = Some(Box::new(self.meta.clone()));
        Ok(entry)
    }
}
