//! Cache marks.

use serde_json::{Value, json};

/// Marks the last message of an Anthropic body and the user's message before it, as Claude Code does.
pub(super) fn mark_last(body: &mut Value) {
    let Some(messages) = body["messages"].as_array_mut() else { return };
    let users = messages.iter_mut().rev().filter(|message| message["role"] == "user").take(2);
    for message in users {
        if let Some(text) = message["content"].as_str() {
            message["content"] = json!([{ "type": "text", "text": text }]);
        }
        if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut()) {
            block["cache_control"] = json!({ "type": "ephemeral" });
        }
    }
}
