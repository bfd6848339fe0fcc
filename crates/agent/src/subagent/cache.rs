//! Marks for a provider's cache: behind the instructions, and behind the part of the first message that never changes.

use std::sync::Arc;

use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Role, json};
use serde_json::{Value, json};

use super::compression::{Message, Source};

/// A message as an entry, with marks where a provider wants to be told what to keep. Others find prefixes by themselves.
pub(crate) fn marked(message: &Message, heading: usize, wire: Wire) -> Arc<Entry> {
    let plain = || Arc::new(Entry::text(message.role, &message.text));
    if wire != Wire::Anthropic {
        return plain();
    }
    let kept = |text: &str| json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } });
    let content: Vec<Value> = match message.source {
        Source::System if !message.text.is_empty() => vec![kept(&message.text)],
        Source::Mission | Source::Coalesced(_) => {
            let (heading, rest) = message.text.split_at_checked(heading).unwrap_or((&message.text, ""));
            let rest = (!rest.is_empty()).then(|| json!({ "type": "text", "text": rest }));
            [Some(kept(heading)), rest].into_iter().flatten().collect()
        }
        _ => return plain(),
    };
    let text = json!({ "role": Role::as_str(message.role), "content": content }).to_string();
    let read = json::check(&text).ok().and_then(|raw| Wire::Anthropic.read_message(raw).ok());
    read.filter(|entry| entry.role == message.role).map_or_else(plain, Arc::new)
}
