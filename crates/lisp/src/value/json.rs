//! JSON in and out, without recursion and without losing integers.

use std::collections::HashMap;
use std::fmt::Write;

use super::tree::Iter;
use super::{Keyword, Map, Set, Value, Vector, number};

/// What the names of an object become.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    Strings,
    Keywords,
}

/// Reads one JSON document; `None` if it is not exactly that.
pub(crate) fn read(text: &str, keys: Keys) -> Option<Value> {
    let mut reader = JsonReader { text, at: 0, names: HashMap::new() };
    let value = reader.document(keys)?;
    reader.skip_space();
    (reader.at == text.len()).then_some(value)
}

enum OpenValue {
    Array(Vec<Value>),
    /// Entries so far, and the key whose value comes next.
    Object(Vec<(Value, Value)>, Option<Value>),
}

/// Names of objects that are kept to be shared: rows of a table have the same few.
const MAX_NAMES: usize = 1024;

struct JsonReader<'t> {
    text: &'t str,
    at: usize,
    /// Keys made so far, by name.
    names: HashMap<String, Value>,
}

impl JsonReader<'_> {
    fn document(&mut self, keys: Keys) -> Option<Value> {
        let mut open: Vec<OpenValue> = Vec::new();
        loop {
            self.skip_space();
            let mut value = match self.peek()? {
                b'[' => {
                    self.at += 1;
                    open.push(OpenValue::Array(Vec::new()));
                    self.skip_space();
                    if self.peek()? != b']' {
                        continue;
                    }
                    self.at += 1;
                    open.pop();
                    Value::Vector(Vector::default())
                }
                b'{' => {
                    self.at += 1;
                    self.skip_space();
                    if self.peek()? == b'}' {
                        self.at += 1;
                        Value::Map(Map::default())
                    } else {
                        let key = self.key(keys)?;
                        open.push(OpenValue::Object(Vec::new(), Some(key)));
                        continue;
                    }
                }
                _ => self.scalar()?,
            };
            // A value is complete; so may be what holds it.
            loop {
                let Some(top) = open.last_mut() else { return Some(value) };
                self.skip_space();
                let next = self.peek()?;
                self.at += 1;
                match (top, next) {
                    (OpenValue::Array(items), b',') => {
                        items.push(value);
                        break;
                    }
                    (OpenValue::Array(items), b']') => {
                        items.push(value);
                        value = Value::vector(std::mem::take(items));
                        open.pop();
                    }
                    (OpenValue::Object(entries, key), b',') => {
                        entries.push((key.take()?, value));
                        self.skip_space();
                        *key = Some(self.key(keys)?);
                        break;
                    }
                    (OpenValue::Object(entries, key), b'}') => {
                        entries.push((key.take()?, value));
                        value = Value::Map(std::mem::take(entries).into_iter().collect());
                        open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    fn key(&mut self, keys: Keys) -> Option<Value> {
        let text = self.string()?;
        self.skip_space();
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        if let Some(key) = self.names.get(&text) {
            return Some(key.clone());
        }
        let key = match keys {
            Keys::Strings => Value::str(text.as_str()),
            Keys::Keywords => Value::Keyword(Keyword::new(&text)),
        };
        if self.names.len() < MAX_NAMES {
            self.names.insert(text, key.clone());
        }
        Some(key)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn scalar(&mut self) -> Option<Value> {
        if self.peek()? == b'"' {
            return self.string().map(Value::str);
        }
        let rest = self.text.get(self.at..)?;
        for (word, value) in
            [("null", Value::Nil), ("true", Value::Bool(true)), ("false", Value::Bool(false))]
        {
            if rest.starts_with(word) {
                self.at += word.len();
                return Some(value);
            }
        }
        let length = rest
            .bytes()
            .take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            .count();
        let text = rest.get(..length)?;
        self.at += length;
        is_number(text).then(|| number::parse(text)).flatten()
    }

    fn string(&mut self) -> Option<String> {
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.text.get(self.at..)?;
            let plain = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < 0x20)?;
            out.push_str(rest.get(..plain)?);
            self.at += plain + 1;
            match rest.as_bytes().get(plain)? {
                b'"' => return Some(out),
                b'\\' => out.push(self.escape()?),
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        Some(match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                if !(0xD800..0xE000).contains(&first) {
                    return char::from_u32(first);
                }
                // Half of a pair; without its other half it is no character.
                if first >= 0xDC00 || self.text.get(self.at..self.at + 2) != Some("\\u") {
                    return Some('\u{FFFD}');
                }
                self.at += 2;
                let second = self.hex()?;
                if !(0xDC00..0xE000).contains(&second) {
                    return Some('\u{FFFD}');
                }
                char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))?
            }
            _ => return None,
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        digits
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(digits, 16).ok())
            .flatten()
    }
}

/// Whether a text is a number by JSON's grammar, which is narrower than that of most parsers.
fn is_number(text: &str) -> bool {
    let rest = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = rest.split_once(['e', 'E']).map_or((rest, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}

/// What was written.
pub(crate) struct JsonText {
    pub(crate) text: String,
    /// Whether the limit cut it.
    pub(crate) truncated: bool,
    /// Names that two keys of one map have; the later in the order of keys won.
    pub(crate) doubled: Vec<String>,
}

enum Closing<'v> {
    Values(Iter<'v, Value>, char),
    Entries(std::vec::IntoIter<(String, &'v Value)>),
}

/// Writes compact JSON of at most about `limit` bytes.
pub(crate) fn write(value: &Value, limit: usize) -> JsonText {
    let mut out = JsonText { text: String::new(), truncated: false, doubled: Vec::new() };
    let mut open: Vec<Closing> = Vec::new();
    let mut next = Some(value);
    let mut first = true;
    loop {
        if out.text.len() > limit {
            out.truncated = true;
            return out;
        }
        if let Some(value) = next.take() {
            first = start(value, &mut out, &mut open);
        }
        match open.last_mut() {
            None => return out,
            Some(Closing::Values(items, close)) => {
                if let Some(item) = items.next() {
                    if !first {
                        out.text.push(',');
                    }
                    next = Some(item);
                } else {
                    out.text.push(*close);
                    open.pop();
                    first = false;
                }
            }
            Some(Closing::Entries(entries)) => {
                if let Some((name, value)) = entries.next() {
                    if !first {
                        out.text.push(',');
                    }
                    quote(&name, &mut out.text);
                    out.text.push(':');
                    next = Some(value);
                } else {
                    out.text.push('}');
                    open.pop();
                    first = false;
                }
            }
        }
    }
}

/// Writes a value without parts, or opens one with parts; whether something was opened.
fn start<'v>(value: &'v Value, out: &mut JsonText, open: &mut Vec<Closing<'v>>) -> bool {
    match value {
        Value::Vector(Vector(items)) | Value::Set(Set(items)) => {
            out.text.push('[');
            open.push(Closing::Values(items.iter(), ']'));
            return true;
        }
        Value::Map(entries) => {
            out.text.push('{');
            open.push(Closing::Entries(named(entries, &mut out.doubled).into_iter()));
            return true;
        }
        Value::Nil => out.text.push_str("null"),
        Value::Float(x) if !x.is_finite() => out.text.push_str("null"),
        Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Float(_) => {
            out.text.push_str(&value.to_string());
        }
        _ => quote(&name(value), &mut out.text),
    }
    false
}

/// The entries of a map under their JSON names, in the order of keys. Of two with one name the later stays.
fn named<'v>(map: &'v Map, doubled: &mut Vec<String>) -> Vec<(String, &'v Value)> {
    let entries: Vec<(String, &Value)> = map.iter().map(|(key, value)| (name(key), value)).collect();
    let mut seen = std::collections::HashMap::with_capacity(entries.len());
    for (at, (name, _)) in entries.iter().enumerate() {
        seen.insert(name.clone(), at);
    }
    if seen.len() == entries.len() {
        return entries;
    }
    let mut kept = Vec::with_capacity(seen.len());
    for (at, (name, value)) in entries.into_iter().enumerate() {
        if seen.get(&name) == Some(&at) {
            kept.push((name, value));
        } else if !doubled.contains(&name) {
            doubled.push(name);
        }
    }
    kept
}

/// The text of a value that stands where JSON has a string.
pub(crate) fn name(value: &Value) -> String {
    match value {
        Value::Keyword(keyword) => keyword.as_str().to_string(),
        _ => super::print::display(value, usize::MAX).text,
    }
}

/// A JSON string, quotes included.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_json_is_read_and_what_is_not_is_not() {
        for (text, printed) in [
            (
                "[1, -2.5e3, 12345678901234567890123, true, null, \"a\\u00e9\\ud83d\\ude00\"]",
                "[1 -2500.0 12345678901234567890123 true nil \"aé😀\"]",
            ),
            ("{\"b\": {}, \"a\": [], \"b\": 2}", "{\"a\" [] \"b\" 2}"),
            (" 0 ", "0"),
            ("1e400", "##Inf"),
        ] {
            assert_eq!(read(text, Keys::Strings).map(|value| value.to_string()).as_deref(), Some(printed));
        }
        for bad in [
            "", "[1,]", "{\"a\"}", "{a: 1}", "01", "+1", ".5", "1.", "nul", "[1 2]", "\"a", "\"\t\"", "1 2",
            "]", "{,}", "\"\\x\"", "-",
        ] {
            assert!(read(bad, Keys::Strings).is_none(), "{bad}");
        }
    }

    #[test]
    fn json_comes_back_as_it_went() {
        for text in
            ["{\"a\":[1,2.5,null,true,{\"b\":{}}],\"c\":\"\\u0001\\\"\\\\\\n\"}", "[[],[[]]]", "\"é\""]
        {
            assert_eq!(read(text, Keys::Strings).map(|value| value.to_json()).as_deref(), Some(text));
        }
    }
}
