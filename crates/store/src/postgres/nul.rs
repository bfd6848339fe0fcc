//! Texts with NUL in them. PostgreSQL keeps none, so it is spelled as a character that means nothing, and a letter.

use std::borrow::Cow;

/// The last character there is; it stands for nothing.
const MARK: char = '\u{10FFFF}';

/// A text as PostgreSQL keeps it. Two texts that differ differ there too.
pub(super) fn hidden(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return text.into();
    }
    text.replace(MARK, "\u{10FFFF}m").replace('\0', "\u{10FFFF}n").into()
}

/// The text that was hidden.
pub(super) fn shown(text: String) -> String {
    if !text.contains(MARK) {
        return text;
    }
    text.replace("\u{10FFFF}n", "\0").replace("\u{10FFFF}m", "\u{10FFFF}")
}

#[cfg(test)]
mod tests {
    use super::{hidden, shown};

    #[test]
    fn every_text_comes_back() {
        for text in ["", "plain", "a\0b", "\0", "\u{10FFFF}", "\u{10FFFF}n\0m\u{10FFFF}m", "\u{10FFFF}\0"] {
            let kept = hidden(text).into_owned();
            assert!(!kept.contains('\0'), "{text:?}");
            assert_eq!(shown(kept), text);
        }
        assert_ne!(hidden("\u{10FFFF}n"), hidden("\0"));
    }
}
