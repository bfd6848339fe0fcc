//! Marks for a provider's cache: behind the instructions, and behind the part of the first message that never changes.

use std::sync::Arc;

use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Role, json};
use serde_json::{Value, json};

use super::compression::{PromptMessage, PromptSource};

/// A message as an entry, with marks where a provider wants to be told what to keep. Others find prefixes by themselves.
pub(crate) fn marked(message: &PromptMessage, heading: usize, wire: Wire) -> Arc<Entry> {
    let plain = || Arc::new(Entry::text(message.role, &message.text));
    if wire != Wire::Anthropic {
        return plain();
    }
    let kept = |text: &str| json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } });
    let content: Vec<Value> = match message.source {
        PromptSource::System if !message.text.is_empty() => vec![kept(&message.text)],
        PromptSource::Mission | PromptSource::Coalesced(_) => {
            let (heading, rest) = message.text.split_at_checked(heading).unwrap_or((&message.text, ""));
            let rest = (!rest.is_empty()).then(|| json!({ "type": "text", "text": rest }));
            [Some(kept(heading)), rest].into_iter().flatten().collect()
        }
        _ => return plain(),
    };
    // Instructions are a field of their own there, which is a list of blocks.
    let text = match message.role {
        Role::System => Value::Array(content).to_string(),
        role => json!({ "role": role.as_str(), "content": content }).to_string(),
    };
    let read = json::check(&text).ok().and_then(|raw| Wire::Anthropic.read_message(raw).ok());
    read.filter(|entry| entry.role == message.role).map_or_else(plain, Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scrollback_core::wire::RenderOptions;
    use scrollback_core::{Fidelity, ViewItem};

    #[test]
    fn instructions_and_the_heading_are_marked_where_marks_count() {
        let system =
            PromptMessage { role: Role::System, text: "Be brief.".into(), source: PromptSource::System };
        let user = PromptMessage {
            role: Role::User,
            text: "Go.\n\nTurns left: 5".into(),
            source: PromptSource::Mission,
        };
        let item = |(at, message): (u64, &PromptMessage)| ViewItem {
            source: scrollback_core::ItemSource::Entry(at),
            entry: marked(message, 3, Wire::Anthropic),
            fidelity: Fidelity::AsSaid,
        };
        let items: Vec<ViewItem> = (0..).zip([&system, &user]).map(item).collect();
        let rendered = Wire::Anthropic.request(items, RenderOptions::default(), None);
        let mark = r#""cache_control":{"type":"ephemeral"}"#;
        assert!(
            rendered.system.as_deref().is_some_and(|system| system.contains(mark)),
            "{:?}",
            rendered.system
        );
        let sent = rendered.messages.concat();
        assert_eq!(sent.matches(mark).count(), 1, "{sent}");
        let first =
            format!(r#"{{"type":"text","text":"Go.",{mark}}},{{"type":"text","text":"\n\nTurns left: 5"}}"#);
        assert!(sent.contains(&first), "{sent}");
        assert!(!marked(&user, 3, Wire::OpenaiChat).origin.raw.contains("cache_control"));
    }
}
