//! Values read in place: slices of a text that passed the check.

use std::borrow::Cow;

use memchr::memchr2;

use super::string::SHORT;
use super::{is_space, unescape};

/// What kind of JSON value a [`Raw`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
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

impl JsonKind {
    /// The word for it in messages to people.
    pub fn name(self) -> &'static str {
        match self {
            JsonKind::Null => "null",
            JsonKind::Bool => "a boolean",
            JsonKind::Number => "a number",
            JsonKind::String => "a text",
            JsonKind::Array => "a list",
            JsonKind::Object => "an object",
        }
    }
}

/// A JSON value in its own spelling: a slice of a text that passed [`check`](super::check).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw<'a> {
    text: &'a str,
}

impl<'a> Raw<'a> {
    /// What stands for nothing.
    pub(crate) const NULL: Raw<'static> = Raw { text: "null" };

    /// A slice of a text that passed [`check`](super::check) before.
    pub(crate) fn trusted(text: &'a str) -> Self {
        Raw { text }
    }

    /// The value as it was written.
    pub fn text(self) -> &'a str {
        self.text
    }

    /// What kind of value it is.
    pub fn kind(self) -> JsonKind {
        match self.text.as_bytes().first() {
            Some(b'"') => JsonKind::String,
            Some(b'[') => JsonKind::Array,
            Some(b'{') => JsonKind::Object,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') | None => JsonKind::Null,
            Some(_) => JsonKind::Number,
        }
    }

    /// The text a string literal stands for; none for any other kind.
    pub fn string(self) -> Option<Cow<'a, str>> {
        (self.kind() == JsonKind::String).then(|| unescape(self.text))
    }

    /// The value under `key` of an object; the first one if a key appears twice.
    pub fn get(self, key: &str) -> Option<Raw<'a>> {
        self.members().find(|(name, _)| name.as_ref() == key).map(|(_, value)| value)
    }

    /// The elements of an array, in order; nothing for any other kind.
    pub fn elements(self) -> Elements<'a> {
        Elements { rest: RemainingText::inside(self, JsonKind::Array) }
    }

    /// Keys and values of an object, in order; nothing for any other kind.
    pub fn members(self) -> Members<'a> {
        Members { rest: RemainingText::inside(self, JsonKind::Object) }
    }

    /// Keys as they are spelled, and values, in order; nothing for any other kind.
    pub fn spelled_members(self) -> impl Iterator<Item = (Raw<'a>, Raw<'a>)> {
        let mut rest = RemainingText::inside(self, JsonKind::Object);
        std::iter::from_fn(move || Some((rest.value()?, rest.value()?)))
    }

    /// An object taken apart once, to be asked for several keys; the first key that appears twice is the error.
    pub fn object(self) -> Result<Object<'a>, Cow<'a, str>> {
        let object = Object { members: self.members().collect() };
        match object.key_that_stands_twice() {
            Some(key) => Err(Cow::Owned(key.to_string())),
            None => Ok(object),
        }
    }

    /// Where this value lies in `source`, which it must be a slice of.
    pub fn span_in(self, source: &str) -> (u32, u32) {
        let start = (self.text.as_ptr() as usize).saturating_sub(source.as_ptr() as usize);
        (start as u32, (start + self.text.len()) as u32)
    }
}

/// Up to so many members each pair is compared, which needs no memory; beyond that they are sorted.
const FEW_MEMBERS: usize = 16;

/// The members of an object in which no key appears twice.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Raw<'a>)>,
}

impl<'a> Object<'a> {
    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<Raw<'a>> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    /// One of the keys that appear twice.
    fn key_that_stands_twice(&self) -> Option<&str> {
        if self.members.len() <= FEW_MEMBERS {
            let later = |next: usize| self.members.iter().skip(next);
            let mut keys = (1..).zip(&self.members).map(|(next, (key, _))| (next, key.as_ref()));
            return keys.find(|(next, key)| later(*next).any(|(other, _)| other == key)).map(|(_, key)| key);
        }
        let mut keys: Vec<&str> = self.members.iter().map(|(key, _)| key.as_ref()).collect();
        keys.sort_unstable();
        keys.windows(2).find(|pair| pair.first() == pair.last()).and_then(|pair| pair.first().copied())
    }

    /// Keys and values, in order.
    pub fn members(&self) -> &[(Cow<'a, str>, Raw<'a>)] {
        &self.members
    }
}

/// The text between the brackets of a validated array or object.
struct RemainingText<'a> {
    text: &'a str,
}

impl<'a> RemainingText<'a> {
    fn inside(raw: Raw<'a>, kind: JsonKind) -> Self {
        let inner = if raw.kind() == kind { raw.text.get(1..raw.text.len() - 1) } else { None };
        RemainingText { text: inner.unwrap_or_default() }
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
pub(super) fn string_end(bytes: &[u8]) -> usize {
    let mut at = 1;
    // Most literals are keys and other words, which end soon.
    for &byte in bytes.iter().skip(1).take(SHORT) {
        at += 1;
        match byte {
            b'"' => return at,
            b'\\' => {
                at -= 1;
                break;
            }
            _ => {}
        }
    }
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
    rest: RemainingText<'a>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;
    fn next(&mut self) -> Option<Raw<'a>> {
        self.rest.value()
    }
}

/// Iterator of [`Raw::members`].
pub struct Members<'a> {
    rest: RemainingText<'a>,
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Raw<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        let key = self.rest.value()?;
        let value = self.rest.value()?;
        Some((unescape(key.text), value))
    }
}
