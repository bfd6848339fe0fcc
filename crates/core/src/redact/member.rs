//! Redaction of JSON values, for showing them to people.

use std::fmt::Write;

use serde_json::Value;

use super::{Redactor, label};
use crate::json;

impl Redactor {
    /// A copy of the value without its secrets. A text may be known as one by the name it stands under.
    ///
    /// ```
    /// use scrollback_core::redact::{Options, Redactor};
    /// use serde_json::json;
    /// let redactor = Redactor::new(&Options::default())?;
    /// let shown = redactor.value(&json!({ "user": "ann", "password": "s3same-0pen" }));
    /// assert_eq!(shown, json!({ "user": "ann", "password": "[redacted:assignment]" }));
    /// # Ok::<(), scrollback_core::redact::BadPattern>(())
    /// ```
    // Values are parsed, and their parser limits how deep they go.
    #[must_use]
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text).text.into_owned()),
            Value::Array(list) => list.iter().map(|value| self.value(value)).collect(),
            Value::Object(members) => {
                let shown = members
                    .iter()
                    .map(|(name, value)| (self.text(name).text.into_owned(), self.member(name, value)));
                Value::Object(shown.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn member(&self, name: &str, value: &Value) -> Value {
        if !matches!(value, Value::String(_) | Value::Number(_)) {
            return self.value(value);
        }
        let shown = self.value(value);
        if shown != *value {
            return shown;
        }
        let mut whole = json::quote(name);
        whole.push_str(": ");
        let value_at = whole.len();
        match value {
            Value::String(text) => json::write_string(&mut whole, text),
            other => _ = write!(whole, "{other}"),
        }
        let found = self.text(&whole).spans.into_iter().find(|span| span.end > value_at);
        found.map_or(shown, |span| {
            let mut hidden = String::new();
            label::write(&mut hidden, span.kind);
            Value::String(hidden)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::Options;
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_known_by_their_shape_and_by_the_names_they_stand_under() {
        let options = Options { configured: vec!["plain-words-key".into()], ..Options::default() };
        let redactor = Redactor::new(&options).unwrap();
        let key = format!("sk-proj-{}", "aB3".repeat(14));
        let value = json!({
            "note": format!("use {key}"),
            "list": [{ "api_key": "q9Zk3LmX7vBn" }, "plain-words-key", 7, null],
            "password": 918_273_645,
            key.as_str(): true,
            "count": 918_273_645,
            "title": "q9Zk3LmX7vBn",
        });
        let shown = redactor.value(&value);
        assert_eq!(
            shown,
            json!({
                "note": "use [redacted:openai]",
                "list": [{ "api_key": "[redacted:assignment]" }, "[redacted:configured]", 7, null],
                "password": "[redacted:assignment]",
                "[redacted:openai]": true,
                "count": 918_273_645,
                "title": "q9Zk3LmX7vBn",
            })
        );
        assert_eq!(redactor.value(&shown), shown, "what is redacted stays as it is");
    }
}
