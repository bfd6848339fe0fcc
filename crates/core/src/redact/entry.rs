//! Redaction of whole entries, for showing a conversation to people.

use super::Redactor;
use crate::entry::Entry;
use crate::json::{self, Raw};

impl Redactor {
    /// A copy of the entry without its secrets, raw text and tags included. For showing only: never record or send it.
    ///
    /// ```
    /// use scrollback_core::{Entry, Role, redact::{Options, Redactor}};
    /// let redactor = Redactor::new(&Options::default())?;
    /// let entry = Entry::text(Role::User, "my password=hunter2, quick");
    /// assert_eq!(redactor.entry(&entry).content().as_deref(), Some("my password=[redacted:assignment], quick"));
    /// # Ok::<(), scrollback_core::redact::BadPattern>(())
    /// ```
    #[must_use]
    pub fn entry(&self, entry: &Entry) -> Entry {
        let raw = self.json(Raw::trusted(&entry.origin.raw));
        let read = json::check(&raw).ok().and_then(|raw| entry.origin.wire.read_entry(entry.role, raw).ok());
        // A message whose strings are redacted is still a message; the other branch is there for the type only.
        let mut shown = read
            .unwrap_or_else(|| Entry::text(entry.role, &self.text(&entry.content().unwrap_or_default()).text))
            .stamped(entry.evaluation_id, entry.sequence, entry.created_at);
        shown.meta.clone_from(&entry.meta);
        shown.origin.part.clone_from(&entry.origin.part);
        if let Some(meta) = &mut shown.meta {
            for value in meta.tags.values_mut() {
                *value = self.text(value).text.into_owned();
            }
            meta.turn = meta.turn.take().map(|turn| {
                let hidden = self.json(Raw::trusted(&turn.to_string()));
                serde_json::from_str(&hidden).unwrap_or_default()
            });
        }
        shown
    }

    /// A JSON text with secrets replaced inside its strings, so that it stays JSON.
    fn json(&self, value: Raw<'_>) -> String {
        // A secret may be known by the key it stands under, which only the whole text shows.
        let whole = self.text(value.text()).text;
        let text = if json::check(&whole).is_ok() { whole.as_ref() } else { value.text() };
        let mut out = String::with_capacity(text.len());
        for piece in json::pieces(Raw::trusted(text)) {
            match piece {
                json::JsonPiece::Between(text) => out.push_str(text),
                json::JsonPiece::String(literal) => {
                    let said = json::unescape(literal);
                    let redacted = self.text(&said);
                    if redacted.spans.is_empty() {
                        out.push_str(literal);
                    } else {
                        json::write_string(&mut out, &redacted.text);
                    }
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Options;
    use super::*;
    use crate::entry::{Meta, Role};

    #[test]
    fn no_part_of_an_entry_keeps_a_secret() {
        let key = concat!("sk", "-ant-", "api03-0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T");
        let message = serde_json::json!({
            "role": "assistant", "content": format!("use {key} é"), "x_note": { "password": "hunter2" },
            "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "f", "arguments": format!("{{\"api_key\": \"{key}\"}}") } }],
        });
        let message = message.to_string();
        let mut entry =
            crate::wire::openai_chat::provider_message_to_entry(json::check(&message).unwrap()).unwrap();
        entry.meta = Some(Box::new(Meta {
            tags: [("k".into(), key.into())].into(),
            turn: Some(serde_json::json!({ "prints": [format!("use {key}")] })),
            ..Meta::default()
        }));
        let redactor = Redactor::new(&Options::default()).unwrap();
        let shown = redactor.entry(&entry);
        let printed = format!("{shown:?}");
        assert!(!printed.contains("api03") && !printed.contains("hunter2"), "{printed}");
        assert_eq!(shown.content().unwrap(), "use [redacted:anthropic] é");
        assert_eq!(shown.tool_calls().next().unwrap().name.as_str(), "f");
        let plain = Entry::text(Role::User, "nothing here");
        assert_eq!(redactor.entry(&plain), plain);
    }
}
