//! What was said, in the form the conventions have for it, without secrets.

use scrollback_core::Entry;
use scrollback_core::redact::Redactor;
use serde_json::{Value, json};

/// Longest text that is told; collectors refuse spans of megabytes.
const LONGEST_TEXT: usize = 32 << 10;

/// Writes down what was said. It exists only where content was asked for.
#[derive(Debug)]
pub struct ContentWriter(Redactor);

impl ContentWriter {
    /// Content without what a redactor finds.
    #[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "nothing is sent without it"))]
    pub(super) fn new(redactor: Redactor) -> Self {
        ContentWriter(redactor)
    }

    /// A text without secrets, and not too long.
    pub(super) fn text(&self, text: &str) -> String {
        let clean = self.0.text(text).text;
        match clean.char_indices().nth(LONGEST_TEXT) {
            Some((end, _)) => format!("{}…", clean.get(..end).unwrap_or_default()),
            None => clean.into_owned(),
        }
    }

    /// Messages as JSON: a role and parts each.
    pub(super) fn messages<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> String {
        let all: Vec<Value> = entries.map(|entry| self.message(entry)).collect();
        Value::from(all).to_string()
    }

    fn message(&self, entry: &Entry) -> Value {
        let mut parts = Vec::new();
        match entry.tool_result() {
            Some(_) => parts.push(json!({
                "type": "tool_call_response",
                "id": entry.tool_call_id(),
                "response": self.text(&entry.content().unwrap_or_default()),
            })),
            None => {
                if let Some(text) = entry.content().filter(|text| !text.is_empty()) {
                    parts.push(json!({ "type": "text", "content": self.text(&text) }));
                }
            }
        }
        parts.extend(entry.tool_calls().map(|call| {
            json!({
                "type": "tool_call",
                "id": call.call_id.as_ref().map(|id| id.as_str().into_owned()),
                "name": call.name.as_str(),
                "arguments": self.text(&call.arguments.as_str()),
            })
        }));
        json!({ "role": entry.role.as_str(), "parts": parts })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use scrollback_core::Role;
    use scrollback_core::redact::Options;

    use super::*;

    #[test]
    fn secrets_stay_here() {
        let content = ContentWriter(Redactor::new(&Options::default()).unwrap());
        let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH";
        let said = [
            Entry::text(Role::User, &format!("my key is {key}")),
            Entry::calling(Some("Looking."), &[("c1", "read", &format!(r#"{{"key":"{key}"}}"#))]),
            Entry::result("c1", "found"),
        ];
        let told = content.messages(said.iter());
        assert!(!told.contains("abcdefghijklmnop"), "{told}");
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told[0]["role"], "user");
        assert_eq!(told[1]["parts"][0], json!({ "type": "text", "content": "Looking." }));
        assert_eq!(told[1]["parts"][1]["name"], "read");
        assert_eq!(
            told[2]["parts"][0],
            json!({ "type": "tool_call_response", "id": "c1", "response": "found" })
        );
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        let content = ContentWriter(Redactor::new(&Options::default()).unwrap());
        let told = content.text(&"ü".repeat(LONGEST_TEXT + 5));
        assert_eq!(told.chars().count(), LONGEST_TEXT + 1);
    }
}
