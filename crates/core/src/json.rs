//! JSON as text: checked once, then read in place.
//!
//! A record keeps the provider's bytes, so nothing here builds a tree. [`check`] walks a text once and refuses
//! what two readers could read differently (bad grammar, lone surrogates, nesting past the limit). After that
//! a [`Raw`] is a validated slice that can be taken apart without copying, and [`write_string`] is the way back.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr2};

/// Deepest nesting accepted: more than any provider's own limit, less than what recursion elsewhere would fear.
pub const MAX_DEPTH: usize = 128;

/// Why a text is not JSON we accept, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// One lower-case line, without the position.
    pub problem: String,
    /// Byte offset of the offending character.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// JSON pointer of the value being read.
    pub path: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.problem, self.line, self.column)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, " (in {})", self.path) }
    }
}

impl std::error::Error for JsonError {}

/// Reads `bytes` as UTF-8 JSON text and checks it; the only way from outside bytes to a [`Raw`].
pub fn check_bytes(bytes: &[u8]) -> Result<Raw<'_>, JsonError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => check(text),
        Err(error) => {
            let good = error.valid_up_to();
            let before = std::str::from_utf8(bytes.get(..good).unwrap_or_default()).unwrap_or_default();
            Err(located(before, good, "not UTF-8".into(), String::new()))
        }
    }
}

/// Checks one JSON text: grammar, nesting of at most [`MAX_DEPTH`], no lone surrogates, nothing after the value.
///
/// ```
/// use scrollback_core::json;
/// let raw = json::check(r#"{"n": 1e400, "s": "\u00e9"}"#)?;
/// assert_eq!(raw.get("n").map(|n| n.text()), Some("1e400"));
/// assert_eq!(json::check(r#"["\ud800"]"#).unwrap_err().path, "/0");
/// # Ok::<(), json::JsonError>(())
/// ```
pub fn check(text: &str) -> Result<Raw<'_>, JsonError> {
    let mut checker = Checker { bytes: text.as_bytes(), at: 0, frames: Vec::new() };
    match checker.document() {
        Ok(()) => Ok(Raw { text: text.trim_matches(is_space_char) }),
        Err(problem) => Err(located(text, checker.at, problem, checker.path(text))),
    }
}

fn located(text: &str, offset: usize, problem: String, path: String) -> JsonError {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let line = 1 + memchr::memchr_iter(b'\n', before).count();
    let column = 1 + String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count();
    JsonError { problem, offset, line, column, path }
}

/// Where the checker is inside the document, for the path of an error.
enum Frame {
    Array(usize),
    Object { key: (usize, usize) },
}

struct Checker<'a> {
    bytes: &'a [u8],
    at: usize,
    frames: Vec<Frame>,
}

impl Checker<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        if self.peek() == Some(wanted) {
            self.at += 1;
            return Ok(());
        }
        Err(self.unexpected(&format!("`{}`", char::from(wanted))))
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.bytes.get(self.at..).and_then(|rest| rest.utf8_chunks().next()) {
            Some(chunk) => match chunk.valid().chars().next() {
                Some('\u{feff}') => "byte order mark (save the file as UTF-8 without one)".into(),
                Some(found) => format!("expected {wanted}, found {found:?}"),
                None => format!("expected {wanted}"),
            },
            None => format!("expected {wanted}, found the end of the text"),
        }
    }

    /// One value after another with an explicit stack: depth is a limit, never a crash.
    fn document(&mut self) -> Result<(), String> {
        self.space();
        loop {
            // A value starts here.
            let opened = match self.peek() {
                Some(b'[') => self.open(Frame::Array(0), b']')?,
                Some(b'{') => self.open(Frame::Object { key: (0, 0) }, b'}')?,
                _ => {
                    self.scalar()?;
                    false
                }
            };
            if opened {
                continue;
            }
            // A value has ended: close what ends with it, or go to the next member.
            loop {
                self.space();
                let Some(frame) = self.frames.last_mut() else {
                    return if self.at == self.bytes.len() {
                        Ok(())
                    } else {
                        Err(self.unexpected("nothing more after the value"))
                    };
                };
                let (close, wanted) = match frame {
                    Frame::Array(_) => (b']', "`,` or `]`"),
                    Frame::Object { .. } => (b'}', "`,` or `}`"),
                };
                let next = self.bytes.get(self.at).copied();
                if next == Some(close) {
                    self.at += 1;
                    self.frames.pop();
                } else if next == Some(b',') {
                    self.at += 1;
                    if let Frame::Array(index) = frame {
                        *index += 1;
                        self.space();
                    } else {
                        self.key()?;
                    }
                    break;
                } else {
                    return Err(self.unexpected(wanted));
                }
            }
        }
    }

    /// Enters an array or object; false when it was empty and is already over.
    fn open(&mut self, frame: Frame, close: u8) -> Result<bool, String> {
        if self.frames.len() == MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.at += 1;
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        let object = matches!(frame, Frame::Object { .. });
        self.frames.push(frame);
        if object {
            self.key()?;
        }
        Ok(true)
    }

    fn key(&mut self) -> Result<(), String> {
        self.space();
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key in double quotes"));
        }
        self.string()?;
        if let Some(Frame::Object { key }) = self.frames.last_mut() {
            *key = (start, self.at);
        }
        self.space();
        self.expect(b':')?;
        self.space();
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), String> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("a value")),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.unexpected("a value"))
    }

    fn digits(&mut self) -> Result<(), String> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.unexpected("a digit"));
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(stop) = rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20)
            else {
                self.at = self.bytes.len();
                return Err("string without its closing quote".into());
            };
            self.at += stop;
            match rest.get(stop) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                byte => {
                    let byte = byte.copied().unwrap_or_default();
                    return Err(format!("control character \\u{byte:04x} in a string must be escaped"));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => match hex4(self.bytes, self.at + 2) {
                None => Err("`\\u` needs four hexadecimal digits".into()),
                Some(0xd800..=0xdbff) => {
                    let low = (self.bytes.get(self.at + 6..self.at + 8) == Some(b"\\u"))
                        .then(|| hex4(self.bytes, self.at + 8))
                        .flatten();
                    if matches!(low, Some(0xdc00..=0xdfff)) {
                        self.at += 12;
                        Ok(())
                    } else {
                        Err("lone surrogate: half of a character cannot be sent to any provider".into())
                    }
                }
                Some(0xdc00..=0xdfff) => {
                    Err("lone surrogate: half of a character cannot be sent to any provider".into())
                }
                Some(_) => {
                    self.at += 6;
                    Ok(())
                }
            },
            _ => Err("unknown escape in a string".into()),
        }
    }

    fn path(&self, text: &str) -> String {
        let mut path = String::new();
        for frame in &self.frames {
            match frame {
                Frame::Array(index) => path.extend(["/", &index.to_string()]),
                Frame::Object { key: (start, end) } => {
                    if let Some(key) = text.get(*start..*end).filter(|key| !key.is_empty()) {
                        path.push('/');
                        path.push_str(&escape_pointer(&unescape(key)));
                    }
                }
            }
        }
        path
    }
}

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

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = std::str::from_utf8(bytes.get(at..at + 4)?).ok()?;
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        u32::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// What kind of JSON value a [`Raw`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// Any number, spelling kept
    Number,
    /// A string literal with its quotes
    String,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

impl Kind {
    /// The word for it in messages to people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Bool => "a boolean",
            Kind::Number => "a number",
            Kind::String => "a text",
            Kind::Array => "a list",
            Kind::Object => "an object",
        }
    }
}

/// A JSON value in its own spelling: a slice of a text that passed [`check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    text: &'a str,
}

impl<'a> Raw<'a> {
    /// A slice of a text that passed [`check`] before.
    pub(crate) fn trusted(text: &'a str) -> Self {
        Raw { text }
    }

    /// The value as it was written.
    pub fn text(self) -> &'a str {
        self.text
    }

    /// What kind of value it is.
    pub fn kind(self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'"') => Kind::String,
            Some(b'[') => Kind::Array,
            Some(b'{') => Kind::Object,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    /// The text a string literal stands for; none for any other kind.
    pub fn string(self) -> Option<Cow<'a, str>> {
        (self.kind() == Kind::String).then(|| unescape(self.text))
    }

    /// The value under `key` of an object; the first one if a key stands twice.
    pub fn get(self, key: &str) -> Option<Raw<'a>> {
        self.members().find(|(name, _)| name.as_ref() == key).map(|(_, value)| value)
    }

    /// The elements of an array, in order; nothing for any other kind.
    pub fn elements(self) -> Elements<'a> {
        Elements { rest: Rest::inside(self, Kind::Array) }
    }

    /// Keys and values of an object, in order; nothing for any other kind.
    pub fn members(self) -> Members<'a> {
        Members { rest: Rest::inside(self, Kind::Object) }
    }

    /// An object taken apart once, to be asked for several keys; the first key that stands twice is the error.
    pub fn object(self) -> Result<Object<'a>, Cow<'a, str>> {
        let members: Vec<(Cow<'a, str>, Raw<'a>)> = self.members().collect();
        let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_ref()).collect();
        keys.sort_unstable();
        match keys.windows(2).find(|pair| pair.first() == pair.last()).and_then(|pair| pair.first()) {
            Some(key) => Err(Cow::Owned((*key).to_string())),
            None => Ok(Object { members }),
        }
    }

    /// Where this value lies in `source`, which it must be a slice of.
    pub fn span_in(self, source: &str) -> (u32, u32) {
        let start = (self.text.as_ptr() as usize).saturating_sub(source.as_ptr() as usize);
        (start as u32, (start + self.text.len()) as u32)
    }
}

/// The members of an object in which no key stands twice.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Raw<'a>)>,
}

impl<'a> Object<'a> {
    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<Raw<'a>> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// Keys and values, in order.
    pub fn members(&self) -> &[(Cow<'a, str>, Raw<'a>)] {
        &self.members
    }
}

/// The text between the brackets of a validated array or object.
struct Rest<'a> {
    text: &'a str,
}

impl<'a> Rest<'a> {
    fn inside(raw: Raw<'a>, kind: Kind) -> Self {
        let inner = if raw.kind() == kind { raw.text.get(1..raw.text.len() - 1) } else { None };
        Rest { text: inner.unwrap_or_default() }
    }

    /// Takes the next value off the front, with the space and separator before it.
    fn value(&mut self) -> Option<Raw<'a>> {
        let start = self.text.bytes().position(|byte| !is_space(byte) && byte != b',' && byte != b':')?;
        let text = self.text.get(start..)?;
        let (value, rest) = text.split_at_checked(value_end(text.as_bytes()))?;
        self.text = rest;
        Some(Raw { text: value })
    }
}

/// Length of the value at the start of `bytes`, which passed [`check`].
fn value_end(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut depth = 0usize;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at += string_end(bytes.get(at..).unwrap_or_default()),
            b'[' | b'{' => {
                depth += 1;
                at += 1;
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

/// Length of the string literal at the start of `bytes`, both quotes included.
fn string_end(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(stop) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += stop;
        if bytes.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Iterator of [`Raw::elements`].
pub struct Elements<'a> {
    rest: Rest<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;
    fn next(&mut self) -> Option<Raw<'a>> {
        self.rest.value()
    }
}

/// Iterator of [`Raw::members`].
pub struct Members<'a> {
    rest: Rest<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Raw<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        let key = self.rest.value()?;
        let value = self.rest.value()?;
        Some((unescape(key.text), value))
    }
}

/// What a string literal (with its quotes) stands for; borrowed when it has no escapes.
pub fn unescape(literal: &str) -> Cow<'_, str> {
    let inner = literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(literal);
    let Some(first) = memchr(b'\\', inner.as_bytes()) else { return Cow::Borrowed(inner) };
    let mut out = String::with_capacity(inner.len());
    let (head, mut rest) = inner.split_at(first);
    out.push_str(head);
    while let Some(escape) = rest.strip_prefix('\\') {
        let mut chars = escape.chars();
        match chars.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let (c, used) = unescape_unicode(escape.as_bytes());
                out.push(c);
                chars = escape.get(used..).unwrap_or_default().chars();
            }
            Some(plain) => out.push(plain),
            None => {}
        }
        let text = chars.as_str();
        let next = memchr(b'\\', text.as_bytes()).unwrap_or(text.len());
        let (plain, after) = text.split_at(next);
        out.push_str(plain);
        rest = after;
    }
    Cow::Owned(out)
}

/// The character of `uXXXX` (or of a surrogate pair) and how many bytes of `escape` it took.
fn unescape_unicode(escape: &[u8]) -> (char, usize) {
    let Some(high) = hex4(escape, 1) else { return (char::REPLACEMENT_CHARACTER, 1) };
    if (0xd800..0xdc00).contains(&high)
        && escape.get(5..7) == Some(b"\\u")
        && let Some(low @ 0xdc00..=0xdfff) = hex4(escape, 7)
    {
        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11);
    }
    (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 5)
}

/// Appends `text` as a JSON string literal, escaping only what JSON requires.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(stop) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        let (plain, special) = rest.split_at(stop);
        out.push_str(plain);
        match special.as_bytes().first() {
            Some(b'"') => out.push_str("\\\""),
            Some(b'\\') => out.push_str("\\\\"),
            Some(b'\n') => out.push_str("\\n"),
            Some(b'\r') => out.push_str("\\r"),
            Some(b'\t') => out.push_str("\\t"),
            Some(0x08) => out.push_str("\\b"),
            Some(0x0c) => out.push_str("\\f"),
            Some(byte) => out.extend(["\\u00", &format!("{byte:02x}")]),
            None => {}
        }
        rest = special.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    out.push('"');
}

/// A stretch of a JSON text.
pub(crate) enum Piece<'a> {
    /// A string literal, quotes included.
    String(&'a str),
    /// Everything up to the next one.
    Between(&'a str),
}

/// Cuts a value into its string literals and what stands between them.
pub(crate) fn pieces(raw: Raw<'_>) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = raw.text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let quote = memchr(b'"', rest.as_bytes()).unwrap_or(rest.len());
        if quote > 0 {
            let (between, after) = rest.split_at(quote);
            rest = after;
            return Some(Piece::Between(between));
        }
        let (literal, after) = rest.split_at(string_end(rest.as_bytes()));
        rest = after;
        Some(Piece::String(literal))
    })
}

/// Drops insignificant white space, so that a value stands on one line; borrowed when there are no line breaks.
pub fn one_line(raw: Raw<'_>) -> Cow<'_, str> {
    if memchr2(b'\n', b'\r', raw.text.as_bytes()).is_none() {
        return Cow::Borrowed(raw.text);
    }
    let mut out = String::with_capacity(raw.text.len());
    for piece in pieces(raw) {
        match piece {
            Piece::String(literal) => out.push_str(literal),
            Piece::Between(text) => out.extend(text.chars().filter(|c| !is_space_char(*c))),
        }
    }
    Cow::Owned(out)
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
