//! Strings and keywords. Lengths, indexes and elements of a string are grapheme clusters: what a person counts.

use std::fmt;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

/// An immutable string that is cheap to copy.
#[derive(Clone)]
pub struct Text(Arc<TextBody>);

struct TextBody {
    text: Box<str>,
    /// Every byte is a grapheme: ASCII, and no line end of two bytes.
    plain: bool,
}

impl Text {
    /// The string itself.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Bytes, in UTF-8.
    pub fn bytes(&self) -> usize {
        self.0.text.len()
    }

    pub(crate) fn same(&self, other: &Text) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// How many graphemes there are.
    pub fn count(&self) -> usize {
        if self.0.plain { self.0.text.len() } else { self.0.text.graphemes(true).count() }
    }

    /// The graphemes, in order.
    pub fn graphemes(&self) -> impl DoubleEndedIterator<Item = &str> {
        let text = self.as_str();
        let plain = if self.0.plain { text } else { "" };
        let rest = if self.0.plain { "" } else { text };
        (0..plain.len()).filter_map(|at| plain.get(at..=at)).chain(rest.graphemes(true))
    }

    /// Where the grapheme with this index starts, in bytes; the end of the string if there are not so many.
    pub(crate) fn offset(&self, index: usize) -> usize {
        if self.0.plain {
            return index.min(self.0.text.len());
        }
        self.0.text.grapheme_indices(true).nth(index).map_or(self.0.text.len(), |(at, _)| at)
    }

    /// The index of the grapheme that starts at or holds this byte.
    pub(crate) fn index_of_byte(&self, byte: usize) -> usize {
        if self.0.plain {
            return byte;
        }
        self.0.text.grapheme_indices(true).take_while(|(at, _)| *at < byte).count()
    }

    /// The grapheme with this index.
    pub(crate) fn nth(&self, index: usize) -> Option<&str> {
        if self.0.plain {
            return self.0.text.get(index..=index);
        }
        self.0.text.graphemes(true).nth(index)
    }

    /// The graphemes from `start` up to but not including `end`; both may be past the end.
    pub(crate) fn slice(&self, start: usize, end: usize) -> Text {
        let (from, to) = (self.offset(start), self.offset(end));
        Text::from(self.as_str().get(from..to).unwrap_or_default())
    }
}

/// By bytes, as the string itself.
impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl std::borrow::Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text::from(text.to_string())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        // Most texts have no carriage return at all, which is quicker to see.
        let plain = text.is_ascii() && !(text.as_bytes().contains(&b'\r') && text.contains("\r\n"));
        Text(Arc::new(TextBody { text: text.into_boxed_str(), plain }))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The first `limit` graphemes and `...`, or the text itself if it has no more than that.
pub(crate) fn shorten(text: &str, limit: usize) -> std::borrow::Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    match text.grapheme_indices(true).nth(limit) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// A keyword, kept without its colon.
#[derive(Clone)]
pub struct Keyword(Text);

impl Keyword {
    /// The keyword with this text; a slash parts its namespace from its name.
    pub fn new(text: &str) -> Self {
        Keyword(Text::from(text))
    }

    /// Everything after the colon.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    pub(crate) fn text(&self) -> &Text {
        &self.0
    }

    /// The part after the slash, or all of it.
    pub fn name(&self) -> &str {
        self.parts().map_or(self.as_str(), |(_, name)| name)
    }

    /// The part before the slash.
    pub fn namespace(&self) -> Option<&str> {
        self.parts().map(|(namespace, _)| namespace)
    }

    fn parts(&self) -> Option<(&str, &str)> {
        self.as_str().split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
    }
}

impl fmt::Debug for Keyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ":{}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_parts_are_in_graphemes() {
        let text = Text::from("e\u{301}t\u{e9}👩‍👩‍👧\r\nx");
        assert_eq!(text.count(), 6);
        assert_eq!(text.nth(3), Some("👩‍👩‍👧"));
        assert_eq!(text.slice(1, 3).as_str(), "té");
        assert_eq!(text.slice(5, 99).as_str(), "x");
        assert_eq!(Text::from("a\r\nb").count(), 3);
        assert_eq!(Text::from("abc").graphemes().rev().collect::<String>(), "cba");
    }

    #[test]
    fn a_keyword_has_a_name_and_perhaps_a_namespace() {
        for (text, namespace, name) in [("a", None, "a"), ("a/b", Some("a"), "b"), ("/", None, "/")] {
            let keyword = Keyword::new(text);
            assert_eq!((keyword.namespace(), keyword.name()), (namespace, name));
        }
    }
}
