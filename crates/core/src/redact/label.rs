//! The labels `[redacted:KIND]`: written for every hit, and left alone when they are met again.
//!
//! Labels are walls. A hit that touches one is no hit: whatever a rule reads on the second pass it also read,
//! byte for byte, on the first, so redacting a redacted text changes nothing.

use std::ops::Range;

use memchr::{memchr, memmem};

use super::SecretKind;

const OPENING: &str = "[redacted:";

/// Appends the label of a kind.
pub(super) fn write(out: &mut String, kind: SecretKind) {
    out.push_str(OPENING);
    out.push_str(kind.name());
    out.push(']');
}

/// Where the labels of a text are, in order.
pub(super) struct Labels(Vec<Range<usize>>);

impl Labels {
    pub(super) fn of(text: &str) -> Labels {
        // Most texts have none, and preparing to look for one costs more than this.
        if memchr(b'[', text.as_bytes()).is_none() {
            return Labels(Vec::new());
        }
        let label_at = |start: usize| {
            let name = text.get(start + OPENING.len()..)?;
            let kind = SecretKind::ALL
                .into_iter()
                .find(|kind| name.strip_prefix(kind.name()).is_some_and(|rest| rest.starts_with(']')))?;
            Some(start..start + OPENING.len() + kind.name().len() + 1)
        };
        Labels(memmem::find_iter(text.as_bytes(), OPENING).filter_map(label_at).collect())
    }

    /// Whether a label lies inside the range, reaches into it or stands directly beside it.
    pub(super) fn touch(&self, range: &Range<usize>) -> bool {
        let first = self.0.partition_point(|label| label.end < range.start);
        self.0.get(first).is_some_and(|label| label.start <= range.end)
    }

    /// Whether a label shares a byte with the range.
    pub(super) fn overlap(&self, range: &Range<usize>) -> bool {
        let first = self.0.partition_point(|label| label.end <= range.start);
        self.0.get(first).is_some_and(|label| label.start < range.end)
    }

    /// The stretches between labels, of a text of this length.
    pub(super) fn gaps(&self, length: usize) -> impl Iterator<Item = Range<usize>> {
        let starts = std::iter::once(0).chain(self.0.iter().map(|label| label.end));
        let ends = self.0.iter().map(|label| label.start).chain(std::iter::once(length));
        starts.zip(ends).map(|(start, end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_kinds_make_a_label() {
        let text = "a[redacted:aws]b [redacted:nothing] [redacted:card";
        assert_eq!(Labels::of(text).0, vec![1..15]);
    }

    #[test]
    fn touching_is_overlapping_or_standing_beside() {
        let labels = Labels::of("..[redacted:aws]..");
        for (range, touch, overlap) in [
            (0..1, false, false),
            (0..2, true, false),
            (1..3, true, true),
            (16..17, true, false),
            (17..18, false, false),
        ] {
            assert_eq!((labels.touch(&range), labels.overlap(&range)), (touch, overlap), "{range:?}");
        }
    }

    #[test]
    fn gaps_and_labels_together_are_the_text() {
        let text = "x[redacted:npm][redacted:xai]yz";
        let gaps: Vec<_> = Labels::of(text).gaps(text.len()).collect();
        assert_eq!(gaps, vec![0..1, 15..15, 29..31]);
    }
}
