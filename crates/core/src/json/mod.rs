//! JSON as text: checked once, then read in place.
//!
//! A record keeps the provider's bytes, so nothing here builds a tree. [`check`] walks a text once and refuses
//! what two readers could read differently (bad grammar, lone surrogates, nesting past the limit). After that
//! a [`Raw`] is a validated slice that can be taken apart without copying, and [`write_string`] is the way back.

mod check;
mod edit;
mod pieces;
mod raw;
mod string;

use std::borrow::Cow;

pub(crate) use check::is_shallow;
pub use check::{JsonError, MAX_DEPTH, check, check_bytes};
pub(crate) use edit::{Edit, Edits, edit};
pub(crate) use pieces::{JsonPiece, depth, pieces};
pub use pieces::{map_strings, one_line};
pub use raw::{Elements, JsonKind, Members, Object, Raw};
pub use string::{quote, unescape, write_string};

/// A key as one step of a JSON pointer.
pub fn escape_pointer(key: &str) -> Cow<'_, str> {
    if key.contains(['~', '/']) {
        Cow::Owned(key.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(key)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_space_char(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn accepts_what_json_allows_and_keeps_its_spelling() {
        for text in [
            "null",
            " [ ] ",
            "{}",
            "-0.10e+5",
            "1e400",
            "12345678901234567890123",
            r#""\u00e9\ud83d\ude00""#,
            r#"{"a":[1,{"b":[]}],"c":"\/"}"#,
            "[[],[[]],{}]",
        ] {
            assert_eq!(check(text).unwrap().text(), text.trim(), "{text}");
        }
    }

    #[test]
    fn refuses_with_position_and_path() {
        let cases = [
            ("", 1, 1, ""),
            ("[1,]", 1, 4, "/1"),
            ("{\"a\":1,}", 1, 8, "/a"),
            ("[1 2]", 1, 4, "/0"),
            ("{\"a\":\n \"\\x\"}", 2, 3, "/a"),
            ("[\"\\ud800x\"]", 1, 3, "/0"),
            ("[\"\\udc00\"]", 1, 3, "/0"),
            ("[\"\u{0}\"]", 1, 3, "/0"),
            ("01", 1, 2, ""),
            ("[tru]", 1, 2, "/0"),
            ("{a:1}", 1, 2, ""),
            ("[\"é\", +1]", 1, 7, "/1"),
            ("nul", 1, 1, ""),
            ("\"abc", 1, 5, ""),
            ("{\"x\":{\"y/z\":[0,?]}}", 1, 16, "/x/y~1z/1"),
        ];
        for (text, line, column, path) in cases {
            let error = check(text).unwrap_err();
            assert_eq!(
                (error.line, error.column, error.path.as_str()),
                (line, column, path),
                "{text}: {error}"
            );
        }
        assert_eq!(check_bytes(b"[\"a\xff\"]").unwrap_err().offset, 3);
        assert!(check("\u{feff}[]").unwrap_err().problem.contains("byte order mark"));
    }

    #[test]
    fn nesting_is_limited_at_128() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(check(&nested(MAX_DEPTH)).is_ok());
        assert!(check(&nested(MAX_DEPTH + 1)).unwrap_err().problem.contains("deeper"));
        assert!(check(&"[".repeat(1_000_000)).is_err());
    }

    #[test]
    fn members_and_elements_are_slices_in_order() {
        let raw = check(r#"{ "b" : [1, "x,]" , {"k":2}], "a\n": -1.50 , "b":null }"#).unwrap();
        let members: Vec<_> = raw.members().map(|(key, value)| (key.into_owned(), value.text())).collect();
        assert_eq!(members[0], ("b".into(), r#"[1, "x,]" , {"k":2}]"#));
        assert_eq!(members[1], ("a\n".into(), "-1.50"));
        assert_eq!(members[2], ("b".into(), "null"));
        let elements: Vec<_> = raw.get("b").unwrap().elements().map(Raw::text).collect();
        assert_eq!(elements, ["1", r#""x,]""#, r#"{"k":2}"#]);
        assert_eq!(raw.object().err().as_deref(), Some("b"));
    }

    #[test]
    fn strings_round_trip() {
        for text in ["", "plain", "a\"b\\c\n\r\t\u{8}\u{c}\u{1}é😀", "\\u0041"] {
            let mut literal = String::new();
            write_string(&mut literal, text);
            assert_eq!(check(&literal).unwrap().string().unwrap(), text);
            assert_eq!(serde_json::from_str::<String>(&literal).unwrap(), text);
        }
        assert_eq!(check(r#""\ud83d\ude00\u0041\/""#).unwrap().string().unwrap(), "😀A/");
    }

    #[test]
    fn one_line_touches_only_space_between_tokens() {
        let raw = check("{\n  \"a b\": [ 1,\r\n \"x \\n y\" ]\n}").unwrap();
        assert_eq!(one_line(raw), r#"{"a b":[1,"x \n y"]}"#);
        assert_eq!(one_line(check(r#"{"a": 1}"#).unwrap()), r#"{"a": 1}"#);
    }
}
