//! A value as its string literals and what stands between them.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::raw::string_end;
use super::string::{unescape, write_string};
use super::{Raw, is_space_char};

/// A stretch of a JSON text.
pub(crate) enum JsonPiece<'a> {
    /// A string literal, quotes included.
    String(&'a str),
    /// Everything up to the next one.
    Between(&'a str),
}

/// Cuts a value into its string literals and what stands between them.
pub(crate) fn pieces(raw: Raw<'_>) -> impl Iterator<Item = JsonPiece<'_>> {
    let mut rest = raw.text();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let quote = memchr(b'"', rest.as_bytes()).unwrap_or(rest.len());
        if quote > 0 {
            let (between, after) = rest.split_at(quote);
            rest = after;
            return Some(JsonPiece::Between(between));
        }
        let (literal, after) = rest.split_at(string_end(rest.as_bytes()));
        rest = after;
        Some(JsonPiece::String(literal))
    })
}

/// The value with other texts in its strings, keys included: `change` is given what each stands for, and says what shall stand
/// there if that is something else. None if nothing changed; all else keeps its spelling.
///
/// ```
/// use scrollback_core::json;
/// let raw = json::check(r#"{"a": [1.50, "\u0073ecret"]}"#)?;
/// let changed = json::map_strings(raw, |text| (text == "secret").then(|| "…".into()));
/// assert_eq!(changed.as_deref(), Some(r#"{"a": [1.50, "…"]}"#));
/// # Ok::<(), json::JsonError>(())
/// ```
pub fn map_strings(raw: Raw<'_>, mut change: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let mut out: Option<String> = None;
    let mut at = 0;
    for piece in pieces(raw) {
        let text = match piece {
            JsonPiece::Between(text) | JsonPiece::String(text) => text,
        };
        let changed = match piece {
            JsonPiece::String(literal) => change(&unescape(literal)),
            JsonPiece::Between(_) => None,
        };
        match (&mut out, changed) {
            (Some(out), None) => out.push_str(text),
            (None, None) => {}
            (out, Some(changed)) => {
                let before = raw.text().get(..at).unwrap_or_default();
                write_string(out.get_or_insert_with(|| before.to_string()), &changed);
            }
        }
        at += text.len();
    }
    out
}

/// How deep lists and objects are nested in a value; 0 for anything else.
pub(crate) fn depth(raw: Raw<'_>) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for piece in pieces(raw) {
        let JsonPiece::Between(text) = piece else { continue };
        for byte in text.bytes() {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => continue,
            }
            deepest = deepest.max(depth);
        }
    }
    deepest
}

/// Drops insignificant white space, so that a value stands on one line; borrowed when there are no line breaks.
pub fn one_line(raw: Raw<'_>) -> Cow<'_, str> {
    if memchr2(b'\n', b'\r', raw.text().as_bytes()).is_none() {
        return Cow::Borrowed(raw.text());
    }
    let mut out = String::with_capacity(raw.text().len());
    for piece in pieces(raw) {
        match piece {
            JsonPiece::String(literal) => out.push_str(literal),
            JsonPiece::Between(text) => out.extend(text.chars().filter(|c| !is_space_char(*c))),
        }
    }
    Cow::Owned(out)
}
