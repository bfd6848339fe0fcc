//! Messages as programs have them: a list, a request, one message, or a provider's whole reply.

use super::Reply;
use crate::entry::Entry;
use crate::json::{self, JsonKind, Raw};
use crate::wire::{ParseOptions, Wire, WireError};

/// Reads the messages in a JSON value, whatever it is: a list, a request, one message, or the whole reply of a provider, which
/// becomes the message that the next request carries, with its usage and model as metadata.
///
/// ```
/// use scrollback_core::{json, stream::messages_in};
/// let reply = r#"{"type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"hi"}],
///     "stop_reason":"end_turn","usage":{"input_tokens":8,"output_tokens":2}}"#;
/// assert_eq!(messages_in(json::check(reply)?, None)?[0].content().as_deref(), Some("hi"));
/// assert_eq!(messages_in(json::check(r#"{"role":"user","content":"one"}"#)?, None)?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn messages_in(body: Raw<'_>, wire: Option<Wire>) -> Result<Vec<Entry>, WireError> {
    if let Some(answered) = reply_wire(body, wire) {
        let reply = Reply::from_body(answered, body);
        return match (&reply.problem, &reply.raw) {
            (Some(problem), None) => {
                Err(WireError::bad_input(format!("the reply is an error and not a message: {problem}")))
            }
            _ => Ok(vec![reply.entry()?]),
        };
    }
    if body.kind() == JsonKind::Object && !holds_a_list(body) {
        let list = format!("[{}]", body.text());
        let list = json::check(&list).map_err(|error| WireError::bad_input(error.to_string()))?;
        return parsed(list, wire);
    }
    parsed(body, wire)
}

fn parsed(body: Raw<'_>, wire: Option<Wire>) -> Result<Vec<Entry>, WireError> {
    let wire = wire.or_else(|| Wire::detect(body)).ok_or_else(|| {
        WireError::bad_input("no provider's format: give a list of messages, or a request that holds one")
    })?;
    Ok(wire.parse(body, &ParseOptions::default())?.entries)
}

fn holds_a_list(body: Raw<'_>) -> bool {
    let has = |name: &str| body.get(name).is_some();
    // Items of the Responses API have an `input` too: what a tool is called with.
    let input = body.get("input").is_some_and(|input| input.kind() == JsonKind::Array) && !has("type");
    has("messages") || has("contents") || has("entries") || has("items") || has("scrollback") || input
}

/// The wire of a whole reply; none if the body is something else.
fn reply_wire(body: Raw<'_>, wire: Option<Wire>) -> Option<Wire> {
    if body.kind() != JsonKind::Object {
        return None;
    }
    let has = |key: &str| body.get(key).is_some();
    let says = |key: &str, word: &str| body.get(key).and_then(Raw::string).is_some_and(|found| found == word);
    let found = if has("choices") {
        Wire::OpenaiChat
    } else if has("output") && says("object", "response") {
        Wire::OpenaiResponses
    } else if says("type", "message") && says("role", "assistant") && has("stop_reason") {
        Wire::Anthropic
    } else if has("candidates") {
        Wire::Gemini
    } else if body.get("output").is_some_and(|output| output.get("message").is_some()) {
        Wire::Bedrock
    } else {
        return None;
    };
    wire.is_none_or(|wire| wire == found).then_some(found)
}
