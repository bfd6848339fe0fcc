//! Single messages of `OpenAI` Chat Completions: the form of entries we make ourselves.

use super::parse::{empty_entry, openai_chat::read_message};
use super::{Wire, WireError};
use crate::entry::{Entry, Role};
use crate::json::{self, Raw};

/// One message to one entry; the one-message form of parsing.
///
/// ```
/// use scrollback_core::{json, wire::openai_chat};
/// let message = json::check(r#"{"role":"tool","tool_call_id":"c1","content":"42"}"#)?;
/// let entry = openai_chat::provider_message_to_entry(message)?;
/// assert_eq!(entry.tool_call_id().as_deref(), Some("c1"));
/// assert_eq!(openai_chat::entry_to_provider_message(&entry), message.text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn provider_message_to_entry(message: Raw<'_>) -> Result<Entry, WireError> {
    read_message(message)
}

/// An entry of this wire as the message it came as.
pub fn entry_to_provider_message(entry: &Entry) -> &str {
    &entry.origin.raw
}

/// A plain message of our own making.
pub(crate) fn text_entry(role: Role, text: &str) -> Entry {
    let mut raw = format!("{{\"role\":\"{role}\",\"content\":");
    json::write_string(&mut raw, text);
    raw.push('}');
    own_entry(role, &raw)
}

/// A result of our own making.
pub(crate) fn result_entry(call_id: &str, text: &str) -> Entry {
    let mut raw = String::from("{\"role\":\"tool\",\"tool_call_id\":");
    json::write_string(&mut raw, call_id);
    raw.push_str(",\"content\":");
    json::write_string(&mut raw, text);
    raw.push('}');
    own_entry(Role::Tool, &raw)
}

/// An assistant's message with calls, of our own making.
pub(crate) fn calling_entry(text: Option<&str>, calls: &[(&str, &str, &str)]) -> Entry {
    let mut raw = String::from("{\"role\":\"assistant\",\"content\":");
    match text {
        Some(text) => json::write_string(&mut raw, text),
        None => raw.push_str("null"),
    }
    for (number, (id, name, arguments)) in calls.iter().enumerate() {
        raw.push_str(if number == 0 { ",\"tool_calls\":[" } else { "," });
        raw.push_str("{\"id\":");
        json::write_string(&mut raw, id);
        raw.push_str(",\"type\":\"function\",\"function\":{\"name\":");
        json::write_string(&mut raw, name);
        raw.push_str(",\"arguments\":");
        json::write_string(&mut raw, arguments);
        raw.push_str("}}");
    }
    raw.push_str(if calls.is_empty() { "}" } else { "]}" });
    own_entry(Role::Assistant, &raw)
}

fn own_entry(role: Role, raw: &str) -> Entry {
    // What we print ourselves always reads back; the empty entry is there for the type only.
    provider_message_to_entry(Raw::trusted(raw))
        .unwrap_or_else(|_| empty_entry(Wire::OpenaiChat, role, raw.into()))
}
