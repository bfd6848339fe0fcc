//! Chat messages found in a transcript, and how readers write those that are not there as such.

use super::values::JsonAt;
use super::{FoundMessage, ReadConversation, TranscriptError, read_messages};
use crate::entry::{Meta, Usage};
use crate::json::{self, JsonKind, JsonPiece, Raw};
use crate::wire::{Wire, WireError};

/// A message of the chat wire, and the value it was made from.
pub(super) struct ChatMessage<'a> {
    pub(super) found: FoundMessage,
    /// The record that holds it.
    pub(super) record: JsonAt<'a>,
    /// The value itself, or what stands for it.
    pub(super) from: Raw<'a>,
}

/// Reads messages into a conversation; one that cannot be read goes to `failed`, and the others are read.
pub(super) fn conversation(
    messages: Vec<ChatMessage<'_>>,
    failed: &mut Vec<TranscriptError>,
) -> ReadConversation {
    let places: Vec<_> = messages.iter().map(|message| (message.record, message.from)).collect();
    let found: Vec<FoundMessage> = messages.into_iter().map(|message| message.found).collect();
    if let Ok(conversation) = read_messages(Wire::OpenaiChat, &found) {
        return conversation;
    }
    let mut good = Vec::with_capacity(found.len());
    for (message, (record, from)) in found.into_iter().zip(places) {
        let read = json::check(&message.raw)
            .map_err(WireError::from)
            .and_then(|raw| Wire::OpenaiChat.read_message(raw));
        match read {
            Ok(_) => good.push(message),
            Err(error) => failed.push(record.error(from, error.to_string())),
        }
    }
    read_messages(Wire::OpenaiChat, &good).unwrap_or_default()
}

/// An object being written, member by member.
pub(super) struct Writing(String);

impl Writing {
    pub(super) fn new() -> Self {
        Writing("{".into())
    }

    /// A member whose value is JSON text.
    pub(super) fn raw(mut self, key: &str, value: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        json::write_string(&mut self.0, key);
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    /// A member whose value is a text.
    pub(super) fn text(self, key: &str, value: &str) -> Self {
        self.raw(key, &literal(value))
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// A text as a string literal.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    json::write_string(&mut out, text);
    out
}

/// One tool call of the chat wire; `arguments` is a string literal.
pub(super) fn call(id: &str, name: &str, arguments: &str) -> String {
    let function = Writing::new().text("name", name).raw("arguments", arguments).end();
    Writing::new().text("id", id).text("type", "function").raw("function", &function).end()
}

/// The object with one more member at its end, everything else as it was written.
pub(super) fn with_member(object: Raw<'_>, key: &str, value: &str) -> String {
    let open = object.text().strip_suffix('}').unwrap_or(object.text()).trim_end();
    let comma = if open.ends_with('{') { "" } else { "," };
    format!("{open}{comma}{}:{value}}}", literal(key))
}

/// A value without insignificant white space.
pub(super) fn compact(raw: Raw<'_>) -> String {
    let mut out = String::with_capacity(raw.text().len());
    for piece in json::pieces(raw) {
        match piece {
            JsonPiece::String(literal) => out.push_str(literal),
            JsonPiece::Between(text) => out.extend(text.split_ascii_whitespace()),
        }
    }
    out
}

/// What a chat completion says beside its message.
pub(super) fn reply_meta(reply: Raw<'_>) -> Meta {
    let text = |key: &str| reply.get(key).and_then(Raw::string).map(std::borrow::Cow::into_owned);
    let choice = reply.get("choices").and_then(|choices| choices.elements().next());
    let stop = choice.and_then(|choice| choice.get("finish_reason")?.string());
    Meta {
        model_served: text("model"),
        response_id: text("id"),
        stop_raw: stop.map(std::borrow::Cow::into_owned),
        usage: reply.get("usage").filter(|usage| usage.kind() == JsonKind::Object).map(chat_usage),
        ..Meta::default()
    }
}

/// Tokens as chat completions report them: input includes what came from the cache.
fn chat_usage(usage: Raw<'_>) -> Usage {
    let number = |value: Option<Raw<'_>>| value.and_then(|value| value.text().parse::<u64>().ok());
    let cached = number(usage.get("prompt_tokens_details").and_then(|details| details.get("cached_tokens")));
    let input = number(usage.get("prompt_tokens"));
    Usage {
        input_uncached: input.map(|input| input.saturating_sub(cached.unwrap_or(0))),
        cache_read: cached,
        output: number(usage.get("completion_tokens")),
        reasoning: number(
            usage.get("completion_tokens_details").and_then(|details| details.get("reasoning_tokens")),
        ),
        ..Usage::default()
    }
}
