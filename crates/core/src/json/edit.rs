//! Changing a few values of a text and keeping every other byte.

use std::collections::BTreeMap;

use super::{JsonKind, Raw, escape_pointer, unescape, write_string};

/// What happens to one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// It goes, with its key if it has one.
    Remove,
    /// Another JSON text takes its place; a key that is not there yet is added at the end of its object.
    Put(String),
    /// Another JSON text is put in front of it, as an element of the same list; at the list's length, at its end.
    Before(String),
}

/// Edits by JSON pointer. A pointer below a value that is itself edited has no effect, nor has one that leads nowhere.
pub(crate) type Edits = BTreeMap<String, Edit>;

/// The text with its edits made.
pub(crate) fn edit(value: Raw<'_>, edits: &Edits) -> String {
    let mut out = String::with_capacity(value.text().len());
    write(&mut out, value, "", edits);
    out
}

/// Whether an edit concerns something inside the value at `path`.
fn touches(path: &str, edits: &Edits) -> bool {
    let inside = format!("{path}/");
    edits.range(inside.clone()..).next().is_some_and(|(pointer, _)| pointer.starts_with(&inside))
}

// The depth of the recursion is that of the value, which the check limits to 128.
fn write(out: &mut String, value: Raw<'_>, path: &str, edits: &Edits) {
    if !touches(path, edits) {
        out.push_str(value.text());
        return;
    }
    match value.kind() {
        JsonKind::Array => {
            out.push('[');
            let mut count = 0;
            for element in value.elements() {
                write_element(out, Some(element), &format!("{path}/{count}"), edits);
                count += 1;
            }
            write_element(out, None, &format!("{path}/{count}"), edits);
            out.push(']');
        }
        JsonKind::Object => {
            out.push('{');
            let mut keys = Vec::new();
            for (spelled, member) in value.spelled_members() {
                let key = unescape(spelled.text());
                let pointer = format!("{path}/{}", escape_pointer(&key));
                let put = match edits.get(&pointer) {
                    Some(Edit::Remove) => continue,
                    Some(Edit::Put(text) | Edit::Before(text)) => Some(text.as_str()),
                    None => None,
                };
                separate(out, '{');
                out.push_str(spelled.text());
                out.push(':');
                match put {
                    Some(text) => out.push_str(text),
                    None => write(out, member, &pointer, edits),
                }
                keys.push(pointer);
            }
            let inside = format!("{path}/");
            let added = edits.range(inside.clone()..).take_while(|(pointer, _)| pointer.starts_with(&inside));
            for (pointer, edit) in added {
                let key = pointer.get(inside.len()..).unwrap_or_default();
                if let Edit::Put(text) = edit
                    && !key.contains('/')
                    && !keys.contains(pointer)
                {
                    separate(out, '{');
                    write_string(out, &key.replace("~1", "/").replace("~0", "~"));
                    out.push(':');
                    out.push_str(text);
                }
            }
            out.push('}');
        }
        _ => out.push_str(value.text()),
    }
}

fn write_element(out: &mut String, element: Option<Raw<'_>>, path: &str, edits: &Edits) {
    match (edits.get(path), element) {
        (Some(Edit::Remove), _) | (None, None) => {}
        (Some(Edit::Put(text)), _) | (Some(Edit::Before(text)), None) => {
            separate(out, '[');
            out.push_str(text);
        }
        (Some(Edit::Before(text)), Some(element)) => {
            separate(out, '[');
            out.push_str(text);
            out.push(',');
            out.push_str(element.text());
        }
        (None, Some(element)) => {
            separate(out, '[');
            write(out, element, path, edits);
        }
    }
}

/// A comma, unless this is the first thing in its brackets.
fn separate(out: &mut String, opening: char) {
    if !out.ends_with(opening) {
        out.push(',');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::check;

    #[test]
    fn only_what_is_named_changes() {
        let text = r#"{"a": [1, {"b":"\u00e9"}, 3.0], "c/d": null, "e": {} }"#;
        let cases: [(&str, Edit, &str); 8] = [
            ("/a/1/b", Edit::Put("2".into()), r#"{"a":[1,{"b":2},3.0],"c/d":null,"e":{}}"#),
            ("/a/0", Edit::Remove, r#"{"a":[{"b":"\u00e9"},3.0],"c/d":null,"e":{}}"#),
            ("/a/2", Edit::Before("9".into()), r#"{"a":[1,{"b":"\u00e9"},9,3.0],"c/d":null,"e":{}}"#),
            ("/a/3", Edit::Before("9".into()), r#"{"a":[1,{"b":"\u00e9"},3.0,9],"c/d":null,"e":{}}"#),
            ("/c~1d", Edit::Remove, r#"{"a":[1, {"b":"\u00e9"}, 3.0],"e":{}}"#),
            ("/f~1g", Edit::Put("[]".into()), r#"{"a":[1, {"b":"\u00e9"}, 3.0],"c/d":null,"e":{},"f/g":[]}"#),
            ("/e/x", Edit::Put("1".into()), r#"{"a":[1, {"b":"\u00e9"}, 3.0],"c/d":null,"e":{"x":1}}"#),
            ("/nowhere/x", Edit::Put("1".into()), r#"{"a":[1, {"b":"\u00e9"}, 3.0],"c/d":null,"e":{}}"#),
        ];
        for (pointer, change, expected) in cases {
            let edits = Edits::from([(pointer.to_string(), change)]);
            let edited = edit(check(text).unwrap(), &edits);
            assert_eq!(edited, expected, "{pointer}");
            assert!(check(&edited).is_ok());
        }
        assert_eq!(edit(check(text).unwrap(), &Edits::new()), text);
    }

    #[test]
    fn keys_keep_their_spelling() {
        let text = r#"{"\u0061":{"b":1},"c\/d":2}"#;
        let edits = Edits::from([("/a/b".into(), Edit::Put("3".into()))]);
        assert_eq!(edit(check(text).unwrap(), &edits), r#"{"\u0061":{"b":3},"c\/d":2}"#);
    }
}
