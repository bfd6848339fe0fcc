//! String literals: what they stand for, and how they are written.

use std::borrow::Cow;

use memchr::memchr;

/// What a string literal (with its quotes) stands for; borrowed when it has no escapes.
pub fn unescape(literal: &str) -> Cow<'_, str> {
    let inner = literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(literal);
    let Some(first) = first_backslash(inner) else { return Cow::Borrowed(inner) };
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

/// Where the first escape begins. Keys and other words are so short that a search made for long texts costs more than it
/// saves.
fn first_backslash(text: &str) -> Option<usize> {
    if text.len() <= SHORT {
        return text.bytes().position(|byte| byte == b'\\');
    }
    memchr(b'\\', text.as_bytes())
}

/// Bytes that are looked at one by one before a search for long texts begins.
pub(super) const SHORT: usize = 16;

/// The character of an escape by number (or of a surrogate pair) and how many bytes of `escape` it took.
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

/// The text as a JSON string literal.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_string(&mut out, text);
    out
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

/// Four hexadecimal digits at a place, as a number.
pub(super) fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = std::str::from_utf8(bytes.get(at..at + 4)?).ok()?;
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        u32::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}
