//! Messages printed anew, where the source has another shape than the wire that holds them.

use crate::json::{self, JsonPiece, Raw};

/// A JSON object while it is printed, member by member.
pub(super) struct PrintedObject {
    out: String,
}

impl PrintedObject {
    pub(super) fn new() -> Self {
        PrintedObject { out: String::from("{") }
    }

    /// A message of a role.
    pub(super) fn message(role: &str) -> Self {
        PrintedObject::new().text("role", role)
    }

    /// A member whose value is JSON already.
    pub(super) fn raw(mut self, key: &str, value: &str) -> Self {
        self.key(key);
        self.out.push_str(value);
        self
    }

    /// A member whose value is a text.
    pub(super) fn text(mut self, key: &str, value: &str) -> Self {
        self.key(key);
        json::write_string(&mut self.out, value);
        self
    }

    /// A member that is there only if its value is.
    pub(super) fn maybe(self, key: &str, value: Option<Raw<'_>>) -> Self {
        match value {
            Some(value) => self.raw(key, value.text()),
            None => self,
        }
    }

    pub(super) fn end(mut self) -> String {
        self.out.push('}');
        self.out
    }

    fn key(&mut self, key: &str) {
        if self.out.len() > 1 {
            self.out.push(',');
        }
        json::write_string(&mut self.out, key);
        self.out.push(':');
    }
}

/// A list of values that are JSON already.
pub(super) fn list<T: AsRef<str>>(values: &[T]) -> String {
    let mut out = String::from("[");
    for (number, value) in values.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        out.push_str(value.as_ref());
    }
    out.push(']');
    out
}

/// A value without the white space between its tokens; numbers and texts keep their spelling.
pub(super) fn compact(raw: Raw<'_>) -> String {
    let mut out = String::with_capacity(raw.text().len());
    for piece in json::pieces(raw) {
        match piece {
            JsonPiece::String(literal) => out.push_str(literal),
            JsonPiece::Between(text) => out.extend(text.chars().filter(|c| !c.is_ascii_whitespace())),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn compact_keeps_every_spelling() {
        let raw = json::check("{ \"a b\" : [1.50, \"x \\u00e9\"],\n\t\"n\": 1e400 }").unwrap();
        assert_eq!(compact(raw), "{\"a b\":[1.50,\"x \\u00e9\"],\"n\":1e400}");
    }

    #[test]
    fn members_stand_in_the_order_they_were_given() {
        let printed =
            PrintedObject::message("user").raw("content", &list(&["1", "null"])).text("name", "A\"B").end();
        assert_eq!(printed, r#"{"role":"user","content":[1,null],"name":"A\"B"}"#);
    }
}
