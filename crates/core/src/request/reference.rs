//! What the provider holds and the request refers to: a response, a thread, a message.

use std::borrow::Cow;

use crate::json::{JsonKind, Raw};
use crate::record::{Record, Slot};
use crate::wire::{Body, Wire};

/// Members by which a Responses request refers to what its provider holds.
const RESPONSES: [&str; 2] = ["previous_response_id", "conversation"];
/// The member of Anthropic's requests that are part of a thread.
const THREAD: &str = "thread";

/// What a request refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The response with this id: `previous_response_id`.
    Response(String),
    /// The provider's conversation with this id: `conversation`.
    Conversation(String),
    /// The message with this id in a message thread: `thread` with the type `continue`.
    Message(String),
}

/// Whether the provider that is asked keeps message threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// It does, as far as is known.
    #[default]
    Kept,
    /// It does not: requests go out without `thread`, with the whole list.
    NotKept,
}

impl Reference {
    /// What a request goes on from; none if its list is all there is.
    ///
    /// ```
    /// use scrollback_core::{json, request::Reference, wire::Wire};
    /// let body = json::check(r#"{"messages":[],"thread":{"type":"continue","previous_message_id":"msg_1"}}"#)?;
    /// assert_eq!(Reference::of(Wire::Anthropic, body), Some(Reference::Message("msg_1".into())));
    /// # Ok::<(), json::JsonError>(())
    /// ```
    pub fn of(wire: Wire, body: Raw<'_>) -> Option<Self> {
        if body.kind() != JsonKind::Object {
            return None;
        }
        let text = |value: Raw<'_>| value.string().filter(|id| !id.is_empty()).map(Cow::into_owned);
        match wire {
            Wire::Anthropic => {
                let thread = body.get(THREAD)?;
                let continues = thread.get("type")?.string()? == "continue";
                thread.get("previous_message_id").filter(|_| continues).and_then(text).map(Reference::Message)
            }
            Wire::OpenaiResponses => {
                let [previous, conversation] = RESPONSES;
                if let Some(id) = body.get(previous).and_then(text) {
                    return Some(Reference::Response(id));
                }
                let conversation = body.get(conversation)?;
                let id = if conversation.kind() == JsonKind::Object {
                    conversation.get("id")?
                } else {
                    conversation
                };
                text(id).map(Reference::Conversation)
            }
            _ => None,
        }
    }

    /// The id that the provider gave what it refers to.
    pub fn id(&self) -> &str {
        match self {
            Reference::Response(id) | Reference::Conversation(id) | Reference::Message(id) => id,
        }
    }

    /// Whether a record holds what the request goes on from. Looks from the end, where it mostly is.
    pub fn is_in(&self, record: &Record) -> bool {
        record.slots().iter().rev().any(|slot| match (slot, self) {
            (Slot::Message(entry), Reference::Conversation(_)) => entry.meta.is_some(),
            (Slot::Message(entry), Reference::Response(id) | Reference::Message(id)) => {
                entry.meta.as_ref().is_some_and(|meta| meta.response_id.as_ref() == Some(id))
            }
            _ => false,
        })
    }
}

/// What stands around the messages where the whole list is sent: without references to what the provider holds. A thread that
/// was continued is begun anew, so that the next request can continue it.
pub(super) fn without_references(around: &Body, refers: Option<&Reference>, threads: Threads) -> Body {
    let body = match refers {
        Some(Reference::Response(_) | Reference::Conversation(_)) => around.without(&RESPONSES),
        Some(Reference::Message(_)) | None => around.clone(),
    };
    match (threads, refers) {
        (Threads::NotKept, _) => body.without(&[THREAD]),
        (Threads::Kept, Some(Reference::Message(_))) => body.with(THREAD, r#"{"type":"create"}"#),
        (Threads::Kept, _) => body,
    }
}

/// Whether a list may name items (`item_reference`) instead of sending them.
pub fn names_items(wire: Wire, around: &Body) -> bool {
    matches!(around, Body::Object { raw, .. } if wire == Wire::OpenaiResponses && raw.contains("item_reference"))
}

/// Whether a request is part of a message thread, at its beginning or later.
pub fn is_in_thread(wire: Wire, body: Raw<'_>) -> bool {
    let thread = || body.get(THREAD).filter(|thread| thread.kind() == JsonKind::Object);
    wire == Wire::Anthropic && body.kind() == JsonKind::Object && thread().is_some()
}
