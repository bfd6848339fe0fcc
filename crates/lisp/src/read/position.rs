//! Lines and columns for people.

use unicode_segmentation::UnicodeSegmentation;

use crate::error::SourcePosition;

/// The line and column of a byte of the source.
pub(crate) fn position(source: &str, at: usize) -> SourcePosition {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    let before = source.get(..at).unwrap_or_default();
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let own = before.get(start..).unwrap_or_default().trim_start_matches('\u{feff}');
    // A line of a megabyte need not be cut into graphemes to say where something is.
    let column = if own.is_ascii() { own.len() } else { own.graphemes(true).count() } + 1;
    SourcePosition { line: line as u32, column: column as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_what_a_person_counts() {
        let source = "a\nbé👩‍👩‍👧c\r\nd";
        for (part, line, column) in [("a", 1, 1), ("b", 2, 1), ("c", 2, 4), ("d", 3, 1)] {
            let at = source.find(part).unwrap_or_default();
            assert_eq!(position(source, at), SourcePosition { line, column }, "{part}");
        }
    }
}
