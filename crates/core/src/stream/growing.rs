//! A JSON object that arrives in pieces.

use std::collections::BTreeMap;

use crate::json::{self, JsonKind, Raw};

/// Strings that name something rather than continue it: hosts that repeat them mean the same thing again.
const LABELS: [&str; 6] = ["role", "id", "type", "name", "channel", "format"];

/// An object whose members grow. Members keep the order they came in and the spelling of their pieces, and adding a
/// piece copies nothing that came before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Growing {
    /// Every member with its number in the order of arrival.
    members: BTreeMap<String, (usize, GrowingValue)>,
}

#[derive(Clone, Debug)]
enum GrowingValue {
    /// The inside of a string literal: the pieces' own spelling, one after the other.
    Text(String),
    /// The inside of a list.
    List { elements: String, tail: Tail },
    /// An object that grows itself.
    Object(Growing),
    /// Any other value, verbatim.
    Json(String),
}

/// How the elements of a list end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    Closed,
    /// In the middle of the string of a text part of our own.
    InText,
}

/// How objects inside are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inner {
    /// Member by member, as this one.
    Grows,
    /// The last one counts; one level of growing is all that any wire has.
    Replaced,
}

impl GrowingValue {
    fn of(raw: Raw<'_>) -> Self {
        match raw.kind() {
            JsonKind::String => GrowingValue::Text(inside(raw).into()),
            JsonKind::Array => GrowingValue::List { elements: inside(raw).into(), tail: Tail::Closed },
            _ => GrowingValue::Json(raw.text().into()),
        }
    }

    fn add_text(&mut self, literal: Raw<'_>) {
        match self {
            GrowingValue::Text(text) => text.push_str(inside(literal)),
            GrowingValue::List { elements, tail } => {
                if *tail == Tail::Closed {
                    separate(elements);
                    elements.push_str(TEXT_PART);
                    *tail = Tail::InText;
                }
                elements.push_str(inside(literal));
            }
            GrowingValue::Object(_) | GrowingValue::Json(_) => *self = GrowingValue::of(literal),
        }
    }

    /// Adds what stands between the brackets of a list.
    fn add_elements(&mut self, more: &str) {
        match self {
            GrowingValue::List { elements, tail } => {
                close(elements, tail);
                if !more.trim().is_empty() {
                    separate(elements);
                    elements.push_str(more);
                }
            }
            GrowingValue::Text(text) if !text.is_empty() => {
                let elements = format!("{TEXT_PART}{text}");
                *self = GrowingValue::List { elements, tail: Tail::InText };
                self.add_elements(more);
            }
            GrowingValue::Text(_) | GrowingValue::Object(_) | GrowingValue::Json(_) => {
                *self = GrowingValue::List { elements: more.into(), tail: Tail::Closed };
            }
        }
    }

    fn write(&self, out: &mut String) {
        match self {
            GrowingValue::Text(text) => out.extend(["\"", text, "\""]),
            GrowingValue::List { elements, tail: Tail::Closed } => out.extend(["[", elements, "]"]),
            GrowingValue::List { elements, tail: Tail::InText } => out.extend(["[", elements, "\"}]"]),
            // Only one level grows, so this ends.
            GrowingValue::Object(object) => object.write(out),
            GrowingValue::Json(text) => out.push_str(text),
        }
    }
}

/// How a text part of our own begins, up to its text.
const TEXT_PART: &str = r#"{"type":"text","text":""#;

fn close(elements: &mut String, tail: &mut Tail) {
    if std::mem::replace(tail, Tail::Closed) == Tail::InText {
        elements.push_str("\"}");
    }
}

fn separate(elements: &mut String) {
    if !elements.trim().is_empty() {
        elements.push(',');
    }
}

/// What stands between the quotes or brackets of a value.
pub(super) fn inside(raw: Raw<'_>) -> &str {
    raw.text().get(1..raw.text().len().saturating_sub(1)).unwrap_or_default()
}

impl Growing {
    /// The members of an object, to be grown from there.
    pub(super) fn of(object: Raw<'_>) -> Self {
        let mut growing = Growing::default();
        for (key, value) in object.members() {
            growing.set(&key, value);
        }
        growing
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Sets a member to a value, verbatim, in its place if it was there before.
    pub(super) fn set(&mut self, key: &str, value: Raw<'_>) {
        *self.place(key) = GrowingValue::of(value);
    }

    /// Adds a piece to a string.
    pub(super) fn join(&mut self, key: &str, literal: Raw<'_>) {
        if literal.kind() == JsonKind::String {
            self.place(key).add_text(literal);
        }
    }

    /// Adds an element to a list.
    pub(super) fn push(&mut self, key: &str, element: Raw<'_>) {
        self.place(key).add_elements(element.text());
    }

    /// Adds a piece of whatever kind: strings are joined (those in [`LABELS`] are kept as they first came), lists are
    /// appended, objects grow member by member one level down, of anything else the last one counts. Null says
    /// nothing about what is there already.
    pub(super) fn append(&mut self, key: &str, piece: Raw<'_>) {
        self.add(key, piece, Inner::Grows);
    }

    fn add(&mut self, key: &str, piece: Raw<'_>, inner: Inner) {
        let known = self.members.contains_key(key);
        let place = self.place(key);
        match (piece.kind(), &mut *place) {
            (JsonKind::Null, _) if known => {}
            (JsonKind::String, GrowingValue::Text(text))
                if known && LABELS.contains(&key) && !text.is_empty() => {}
            (JsonKind::String, _) => place.add_text(piece),
            (JsonKind::Array, _) if known => place.add_elements(inside(piece)),
            (JsonKind::Object, _) if inner == Inner::Grows => {
                if !matches!(place, GrowingValue::Object(_)) {
                    *place = GrowingValue::Object(Growing::default());
                }
                if let GrowingValue::Object(object) = place {
                    for (key, value) in piece.members() {
                        object.add(&key, value, Inner::Replaced);
                    }
                }
            }
            _ => *place = GrowingValue::of(piece),
        }
    }

    /// The text of a string member; none if it has no such member.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.members.get(key)? {
            (_, GrowingValue::Text(text)) => Some(json::unescape(&format!("\"{text}\"")).into_owned()),
            _ => None,
        }
    }

    /// Whether a member says something: it is there, and neither null nor empty.
    pub(super) fn says(&self, key: &str) -> bool {
        match self.members.get(key) {
            None => false,
            Some((_, GrowingValue::Text(text))) => !text.is_empty(),
            Some((_, GrowingValue::List { elements, .. })) => !elements.trim().is_empty(),
            Some((_, GrowingValue::Object(object))) => !object.is_empty(),
            Some((_, GrowingValue::Json(text))) => {
                let value = Raw::trusted(text);
                match value.kind() {
                    JsonKind::Null => false,
                    JsonKind::Object => value.members().next().is_some(),
                    _ => true,
                }
            }
        }
    }

    /// The members as a JSON object.
    pub(super) fn write(&self, out: &mut String) {
        out.push('{');
        self.write_members(out);
        out.push('}');
    }

    /// The members without the braces around them.
    pub(super) fn write_members(&self, out: &mut String) {
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_unstable_by_key(|(_, (number, _))| *number);
        for (number, (key, (_, value))) in members.into_iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            json::write_string(out, key);
            out.push(':');
            value.write(out);
        }
    }

    /// Where the value of a key is kept; null if it is new.
    fn place(&mut self, key: &str) -> &mut GrowingValue {
        let number = self.members.len();
        let member =
            self.members.entry(key.into()).or_insert_with(|| (number, GrowingValue::Json("null".into())));
        &mut member.1
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn grown(pieces: &[&str]) -> String {
        let mut object = Growing::default();
        for piece in pieces {
            for (key, value) in json::check(piece).unwrap().members() {
                object.append(&key, value);
            }
        }
        let mut out = String::new();
        object.write(&mut out);
        assert!(json::check(&out).is_ok(), "{out}");
        out
    }

    #[test]
    fn every_kind_grows_in_its_own_way() {
        let cases: [(&[&str], &str); 10] = [
            (&[r#"{"a":"x\n"}"#, r#"{"a":"\u00e9"}"#], r#"{"a":"x\n\u00e9"}"#),
            (&[r#"{"a":null}"#, r#"{"a":"x"}"#, r#"{"a":null}"#], r#"{"a":"x"}"#),
            (&[r#"{"id":""}"#, r#"{"id":"c1"}"#, r#"{"id":"c1"}"#], r#"{"id":"c1"}"#),
            (&[r#"{"n":1}"#, r#"{"n":2.50}"#], r#"{"n":2.50}"#),
            (&[r#"{"l":[1]}"#, r#"{"l":[]}"#, r#"{"l":[ {"a":2}, 3]}"#], r#"{"l":[1, {"a":2}, 3]}"#),
            (&[r#"{"l":[]}"#, r#"{"l":[1]}"#], r#"{"l":[1]}"#),
            (
                &[r#"{"f":{"name":"go","args":"{"}}"#, r#"{"f":{"name":"go","args":"}"}}"#],
                r#"{"f":{"name":"go","args":"{}"}}"#,
            ),
            (&[r#"{"f":{"g":{"h":"a"}}}"#, r#"{"f":{"g":{"h":"b"}}}"#], r#"{"f":{"g":{"h":"b"}}}"#),
            (
                &[r#"{"c":""}"#, r#"{"c":[{"type":"thinking"}]}"#, r#"{"c":"Hel"}"#, r#"{"c":"lo"}"#],
                r#"{"c":[{"type":"thinking"},{"type":"text","text":"Hello"}]}"#,
            ),
            (
                &[r#"{"c":"Hello"}"#, r#"{"c":[{"type":"x"}]}"#],
                r#"{"c":[{"type":"text","text":"Hello"},{"type":"x"}]}"#,
            ),
        ];
        for (pieces, expected) in cases {
            assert_eq!(grown(pieces), expected);
        }
    }
}
