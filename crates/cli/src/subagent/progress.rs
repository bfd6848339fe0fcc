//! What a sub-agent does, told while it does it.

use anstyle::{AnsiColor, Style};
use scrollback_agent::EventBus;
use scrollback_agent::event::ConversationRecorded;
use serde_json::Value;

use crate::agent::progress::{follow_throttling, line};

/// Prints one line per turn, with its name where another agent called it, and one for what goes wrong on the way.
pub(super) fn follow(bus: &EventBus) {
    bus.subscribe::<ConversationRecorded>(|told| {
        let meta = told.event.recorded.entry.meta.as_ref();
        if let Some(turn) = meta.and_then(|meta| meta.turn.as_ref()).filter(|turn| turn["number"] != 0) {
            let style =
                if turn["success"] == true { Style::new().dimmed() } else { AnsiColor::Yellow.on_default() };
            line(&shown(turn), style);
        }
        Ok(())
    });
    follow_throttling(bus);
}

fn shown(turn: &Value) -> String {
    let number = turn["number"].as_u64().unwrap_or(0);
    let calls: Vec<&str> = turn["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|call| call["name"].as_str())
        .collect();
    let calls = if calls.is_empty() { String::new() } else { format!("  [{}]", calls.join(", ")) };
    let what = match turn["error"]["message"].as_str() {
        Some(message) => format!("failed: {message}"),
        None => turn["program"].as_str().unwrap_or_default().to_string(),
    };
    let who = turn["agent"].as_str().map_or_else(String::new, |name| format!("{name}: "));
    format!("{number:>3}  {who}{what}{calls}")
}
