use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{HistoryManager, config_of};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::view::View;
use crate::view::edit::{Edit, EditScope, Rewrite};

/// What marks a cut, unless another text is given.
pub(crate) const DEFAULT_SUFFIX: &str = "\n... [truncated]";
pub(crate) const DEFAULT_MAX_LENGTH: usize = 2000;

/// Which end of a long text stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The start.
    #[default]
    Head,
    /// The end.
    Tail,
    /// Both, the odd character going to the start.
    Both,
}

/// Shortens long texts of tool results; nothing else is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResultTruncator {
    /// Longest text that stays whole, and the length of every shortened one, in Unicode scalar values.
    pub max_length: usize,
    /// What marks the cut; counts towards the length.
    pub suffix: String,
    /// Which end stays.
    pub keep: Keep,
}

impl Default for ToolResultTruncator {
    fn default() -> Self {
        ToolResultTruncator {
            max_length: DEFAULT_MAX_LENGTH,
            suffix: DEFAULT_SUFFIX.into(),
            keep: Keep::Head,
        }
    }
}

impl HistoryManager for ToolResultTruncator {
    fn name(&self) -> &'static str {
        "tool_result_truncator"
    }

    fn curate<'r>(&self, mut view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
        let rewrite = Rewrite::Truncate {
            max_length: self.max_length,
            suffix: self.suffix.as_str().into(),
            keep: self.keep,
        };
        let exempt = view.pinned().union(&view.recalled());
        view.edit(Edit::new(rewrite, EditScope::All { exempt }, self.name()));
        Ok(view)
    }

    fn config(&self) -> Value {
        config_of(
            self.name(),
            json!({ "max_length": self.max_length, "suffix": self.suffix, "keep": self.keep }),
        )
    }
}

/// A text as a recorded `truncate` shows it: at most `max_length` characters, the mark of the cut among them; none if it is short
/// enough.
///
/// ```
/// use scrollback_core::manager::{Keep, shortened};
/// assert_eq!(shortened("short", 10, Keep::Both), None);
/// assert_eq!(shortened(&"x".repeat(5000), 100, Keep::Both).map(|text| text.len()), Some(100));
/// ```
pub fn shortened(text: &str, max_length: usize, keep: Keep) -> Option<String> {
    truncate(text, max_length, DEFAULT_SUFFIX, keep)
}

/// `text` cut to exactly `max_length` characters, the suffix among them; none if it is short enough.
pub(crate) fn truncate(text: &str, max_length: usize, suffix: &str, keep: Keep) -> Option<String> {
    if text.len() <= max_length {
        return None;
    }
    let length = text.chars().count();
    if length <= max_length {
        return None;
    }
    let marked = suffix.chars().count();
    let suffix = if marked > max_length { "" } else { suffix };
    let room = if marked > max_length { max_length } else { max_length - marked };
    let (head, tail) = match keep {
        Keep::Head => (room, 0),
        Keep::Tail => (0, room),
        // Without room for the mark there is one hard cut, at the start.
        Keep::Both if marked > max_length => (room, 0),
        Keep::Both => (room - room / 2, room / 2),
    };
    let mut out = String::with_capacity(head + suffix.len() + tail);
    out.extend(text.chars().take(head));
    out.push_str(suffix);
    out.extend(text.chars().skip(length - tail));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_table() {
        use Keep::{Both, Head, Tail};
        let cases = [
            ("0123456789", 10, "...", Head, None),
            ("0123456789", 6, "...", Head, Some("012...")),
            ("0123456789", 6, "...", Tail, Some("...789")),
            ("0123456789", 6, "...", Both, Some("01...9")),
            ("0123456789", 5, "-", Both, Some("01-89")),
            ("0123456789", 4, "-", Both, Some("01-9")),
            ("0123456789", 3, "...", Head, Some("...")),
            ("0123456789", 3, "...", Tail, Some("...")),
            ("0123456789", 2, "...", Head, Some("01")),
            ("0123456789", 2, "...", Tail, Some("89")),
            ("0123456789", 2, "...", Both, Some("01")),
            ("0123456789", 0, "...", Head, Some("")),
            ("0123456789", 0, "", Both, Some("")),
            ("", 0, "...", Head, None),
            // Combining marks are characters of their own; nothing smaller is ever split.
            ("e\u{301}e\u{301}e\u{301}", 3, "", Head, Some("e\u{301}e")),
            ("e\u{301}e\u{301}e\u{301}", 3, "", Tail, Some("\u{301}e\u{301}")),
            ("😀😁😂😃😄", 3, "…", Head, Some("😀😁…")),
            ("😀😁😂😃😄", 3, "…", Tail, Some("…😃😄")),
            ("😀😁😂😃😄", 4, "…", Both, Some("😀😁…😄")),
            ("😀😁", 7, "…", Both, None),
        ];
        for (text, max_length, suffix, keep, wanted) in cases {
            let got = truncate(text, max_length, suffix, keep);
            assert_eq!(got.as_deref(), wanted, "{text:?} to {max_length} with {suffix:?} {keep:?}");
            if let Some(short) = got {
                assert_eq!(short.chars().count(), max_length);
                assert_eq!(truncate(&short, max_length, suffix, keep), None, "idempotent");
            }
        }
    }
}
