//! Messages as callers have them: a list, a request, one message, or a provider's whole reply.

use scrollback_core::json::{self, Raw};
use scrollback_core::model::{ModelName, Provider};
use scrollback_core::stream::{Assembler, messages_in};
use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Status};

use crate::error::{Error, ErrorKind, Result};

/// Reads messages from JSON text. A reply of a provider becomes the message that the next request carries, with its usage and
/// model as its metadata.
///
/// ```
/// let reply = r#"{"type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"hi"}],
///     "stop_reason":"end_turn","usage":{"input_tokens":8,"output_tokens":2}}"#;
/// assert_eq!(scrollback::read_messages(reply, None)?[0].content().as_deref(), Some("hi"));
/// assert_eq!(scrollback::read_messages(r#"{"role":"user","content":"one message"}"#, None)?.len(), 1);
/// # Ok::<(), scrollback::Error>(())
/// ```
pub fn read_messages(text: &str, wire: Option<Wire>) -> Result<Vec<Entry>> {
    let body =
        json::check(text).map_err(|error| Error::new(ErrorKind::Messages, error).at("bad_json", ""))?;
    Ok(messages_in(body, wire)?)
}

/// The wire of a body: the one that is named, or the one it looks like.
pub(crate) fn wire_of(body: Raw<'_>, wire: Option<Wire>) -> Result<Wire> {
    wire.or_else(|| Wire::detect(body)).ok_or_else(|| {
        let message = "no provider's format: give a list of messages, or a request that holds one";
        Error::new(ErrorKind::Messages, message)
    })
}

/// The model of that name. One without its provider is looked up; what is not known belongs to the provider of the wire.
pub fn model_named(name: &str, wire: Option<Wire>) -> Result<ModelName> {
    Ok(ModelName::resolve(name, wire.and_then(Wire::provider))?)
}

/// The wire a provider speaks unless another is named.
pub(crate) fn wire_for(provider: Provider) -> Wire {
    match provider {
        Provider::Anthropic => Wire::Anthropic,
        Provider::Gemini => Wire::Gemini,
        Provider::Bedrock => Wire::Bedrock,
        _ => Wire::OpenaiChat,
    }
}

/// The model and the wire of a request for a model: its name without its provider, and, where no wire is named, the one that
/// its provider speaks.
///
/// ```
/// use scrollback::{Wire, request_for};
/// assert_eq!(request_for("claude-sonnet-4-5", None)?, ("claude-sonnet-4-5".into(), Wire::Anthropic));
/// assert_eq!(request_for("openai:gpt-4o", Some(Wire::OpenaiResponses))?.0, "gpt-4o");
/// # Ok::<(), scrollback::Error>(())
/// ```
pub fn request_for(model: &str, wire: Option<Wire>) -> Result<(String, Wire)> {
    let model = model_named(model, wire)?;
    Ok((model.model().to_string(), wire.unwrap_or_else(|| wire_for(model.provider()))))
}

/// What the events of a provider's stream amount to: the message that the next request carries, and whether the stream came to
/// its end. None where no part of a message came.
///
/// ```
/// use scrollback::{Wire, message_of_events};
/// let events = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
/// let found = message_of_events(Wire::OpenaiChat, events)?;
/// assert_eq!(found, Some((r#"{"role":"assistant","content":"hi"}"#.into(), true)));
/// # Ok::<(), scrollback::Error>(())
/// ```
pub fn message_of_events(wire: Wire, events: &str) -> Result<Option<(String, bool)>> {
    let mut assembler = Assembler::new(wire)?;
    assembler.feed(events.as_bytes());
    let reply = assembler.finish();
    let ended = reply.meta.status == Status::Complete;
    Ok(reply.raw.map(|message| (message, ended)))
}

/// The wire of that name.
pub fn wire_named(name: &str) -> Result<Wire> {
    Wire::named(name).ok_or_else(|| {
        let known = Wire::ALL.map(Wire::name);
        let near = scrollback_core::nearest::nearest(name, known);
        let meant = near.map_or_else(String::new, |near| format!("did you mean {near:?}? "));
        let message = format!("unknown wire {name:?}; {meant}known: {}", known.join(", "));
        Error::new(ErrorKind::Input, message).at("unknown_wire", "")
    })
}
