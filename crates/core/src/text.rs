//! Texts that stay where they came from: a slice of a message's raw JSON, decoded only when read.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::json::{self, Raw};

/// One JSON value inside the raw text of a message, verbatim.
///
/// The text it points into passed [`json::check`], and is shared, so a clone copies no characters.
#[derive(Clone)]
pub struct RawJson {
    source: Arc<str>,
    start: u32,
    end: u32,
}

impl RawJson {
    /// Points at `raw`, which must be a slice of `source`.
    pub(crate) fn new(source: &Arc<str>, raw: Raw<'_>) -> Self {
        let (start, end) = raw.span_in(source);
        RawJson { source: Arc::clone(source), start, end }
    }

    /// Where the value lies in the text it came in.
    pub(crate) fn span(&self) -> (u32, u32) {
        (self.start, self.end)
    }

    /// The value as it was written.
    pub fn as_str(&self) -> &str {
        self.source.get(self.start as usize..self.end as usize).unwrap_or("null")
    }

    /// The value, to be taken apart.
    pub fn raw(&self) -> Raw<'_> {
        Raw::trusted(self.as_str())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// A text of a conversation: what was said, as it came or as a view rewrote it.
#[derive(Clone)]
pub enum Text {
    /// A string literal of the message it came in.
    Raw(RawJson),
    /// A JSON value of the message it came in, as the text it is written as: arguments that are an object there.
    Json(RawJson),
    /// A text of our own making: a rewrite, a placeholder, a summary.
    Own(Arc<str>),
}

impl Text {
    /// The characters; borrowed unless the literal has escapes.
    pub fn as_str(&self) -> Cow<'_, str> {
        match self {
            Text::Raw(raw) => json::unescape(raw.as_str()),
            Text::Json(raw) => Cow::Borrowed(raw.as_str()),
            Text::Own(text) => Cow::Borrowed(text),
        }
    }

    /// Whether it is of our own making, and no part of the message it stands in.
    pub fn is_own(&self) -> bool {
        matches!(self, Text::Own(_))
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            // No escape stands for nothing.
            Text::Raw(raw) => raw.as_str().len() <= 2,
            Text::Json(raw) => raw.as_str().is_empty(),
            Text::Own(text) => text.is_empty(),
        }
    }

    /// Whether there is nothing but white space in it.
    pub fn is_blank(&self) -> bool {
        if let Text::Raw(raw) = self {
            // Most literals show with their first letter that they are not; only escapes have to be read.
            let start = raw.as_str().trim_start_matches('"').trim_start();
            if start.starts_with(|first| first != '\\' && first != '"') {
                return false;
            }
        }
        self.as_str().trim().is_empty()
    }

    /// Length in Unicode scalar values.
    pub fn chars(&self) -> usize {
        self.as_str().chars().count()
    }

    /// The text as a JSON string literal, in its own spelling where it has one.
    pub(crate) fn json(&self) -> Cow<'_, str> {
        match self {
            Text::Raw(raw) => Cow::Borrowed(raw.as_str()),
            Text::Json(raw) => Cow::Owned(json::quote(raw.as_str())),
            Text::Own(text) => Cow::Owned(json::quote(text)),
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text::Own(Arc::from(text))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_str(), f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_is_what_has_only_white_space_however_it_is_spelled() {
        let cases = [
            (r#""""#, true),
            (r#"" \n\t""#, true),
            (r#""\u0020\u00a0""#, true),
            (r#""  x""#, false),
            (r#""\u0041""#, false),
            (r#""\"""#, false),
            (r#""\\""#, false),
        ];
        for (literal, blank) in cases {
            let source: Arc<str> = literal.into();
            let text = Text::Raw(RawJson::new(&source, Raw::trusted(&source)));
            assert_eq!(text.is_blank(), blank, "{literal}");
            assert_eq!(Text::from(text.as_str().as_ref()).is_blank(), blank, "{literal}");
        }
    }
}
