//! One walk over a text that decides whether it is JSON we accept.

use std::fmt;

use memchr::memchr2;

use super::string::hex4;
use super::{Raw, escape_pointer, is_space, is_space_char, unescape};

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
        Ok(()) => Ok(Raw::trusted(text.trim_matches(is_space_char))),
        Err(problem) => Err(located(text, checker.at, problem, checker.path(text))),
    }
}

/// Whether a JSON text has so few brackets that it cannot be nested too deeply, not even a few levels down in another.
pub(crate) fn is_shallow(text: &str) -> bool {
    let most = MAX_DEPTH - 4;
    memchr::memchr2_iter(b'[', b'{', text.as_bytes()).take(most + 1).count() <= most
}

fn located(text: &str, offset: usize, problem: String, path: String) -> JsonError {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let line = 1 + memchr::memchr_iter(b'\n', before).count();
    let column = 1 + String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count();
    JsonError { problem, offset, line, column, path }
}

/// Where the checker is inside the document, for the path of an error.
enum PathFrame {
    Array(usize),
    Object { key: (usize, usize) },
}

struct Checker<'a> {
    bytes: &'a [u8],
    at: usize,
    frames: Vec<PathFrame>,
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
                Some(b'[') => self.open(PathFrame::Array(0), b']')?,
                Some(b'{') => self.open(PathFrame::Object { key: (0, 0) }, b'}')?,
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
                    PathFrame::Array(_) => (b']', "`,` or `]`"),
                    PathFrame::Object { .. } => (b'}', "`,` or `}`"),
                };
                let next = self.bytes.get(self.at).copied();
                if next == Some(close) {
                    self.at += 1;
                    self.frames.pop();
                } else if next == Some(b',') {
                    self.at += 1;
                    if let PathFrame::Array(index) = frame {
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
    fn open(&mut self, frame: PathFrame, close: u8) -> Result<bool, String> {
        if self.frames.len() == MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.at += 1;
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        let object = matches!(frame, PathFrame::Object { .. });
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
        if let Some(PathFrame::Object { key }) = self.frames.last_mut() {
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
            let stop = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            let plain = rest.get(..stop).unwrap_or_default();
            // The least of many bytes is found faster than the first that is too small.
            let least = plain.iter().fold(u8::MAX, |least, &byte| least.min(byte));
            if least < b' ' {
                let control = plain.iter().position(|&byte| byte < b' ').unwrap_or_default();
                self.at += control;
                let byte = plain.get(control).copied().unwrap_or_default();
                return Err(format!("control character \\u{byte:04x} in a string must be escaped"));
            }
            self.at += stop;
            match rest.get(stop) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.escape()?,
                None => return Err("string without its closing quote".into()),
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
                PathFrame::Array(index) => path.extend(["/", &index.to_string()]),
                PathFrame::Object { key: (start, end) } => {
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
