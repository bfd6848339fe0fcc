//! Finds the known word that was probably meant.

/// The known word closest to `word`, if it is close enough to be a slip of the keyboard.
///
/// Case is ignored. Up to a third of the known word's letters may be missing, added, wrong or in each
/// other's place; of equally close words the first is taken.
///
/// ```
/// use scrollback_core::nearest::nearest;
/// assert_eq!(nearest("slidng_window", ["passthrough", "sliding_window"]), Some("sliding_window"));
/// assert_eq!(nearest("compress", ["passthrough", "sliding_window"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    within(word, known, |candidate| candidate.len() / 3)
}

/// The same for documents that people write at length: two slips are allowed in short words too, as long as something
/// of the word is left.
///
/// ```
/// use scrollback_core::nearest::nearest_key;
/// assert_eq!(nearest_key("nmae", ["kind", "name"]), Some("name"));
/// assert_eq!(nearest_key("conversaton", ["body", "conversation"]), Some("conversation"));
/// assert_eq!(nearest_key("xy", ["or", "in"]), None);
/// ```
pub fn nearest_key<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let left = |candidate: &str| candidate.len().min(word.len()).saturating_sub(1);
    within(word, known, |candidate| (candidate.len() / 3).max(2).min(left(candidate)))
}

fn within<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    allowed: impl Fn(&str) -> usize,
) -> Option<&'a str> {
    known
        .into_iter()
        .filter_map(|candidate| {
            let allowed = allowed(candidate);
            // Edits are at least the difference in length, so a huge word costs nothing.
            if word.len().abs_diff(candidate.len()) > allowed {
                return None;
            }
            let edits = edits(word.as_bytes(), candidate.as_bytes());
            (edits <= allowed).then_some((edits, candidate))
        })
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance over bytes with neighbours that changed places as one edit, ignoring ASCII case, a row of the
/// table at a time.
fn edits(from: &[u8], to: &[u8]) -> usize {
    let same = |a: Option<&u8>, b: Option<&u8>| match (a, b) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        _ => false,
    };
    let (mut before, mut above): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=to.len()).collect());
    for (i, a) in from.iter().enumerate() {
        let mut row = Vec::with_capacity(above.len());
        row.push(i + 1);
        let mut left = i + 1;
        for (j, (b, around)) in to.iter().zip(above.windows(2)).enumerate() {
            let &[diagonal, up] = around else { continue };
            left = (diagonal + usize::from(!a.eq_ignore_ascii_case(b))).min(left + 1).min(up + 1);
            let swapped = i > 0 && j > 0 && same(from.get(i - 1), Some(b)) && same(Some(a), to.get(j - 1));
            if let Some(two_before) = before.get(j.wrapping_sub(1)).filter(|_| swapped) {
                left = left.min(two_before + 1);
            }
            row.push(left);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_as_on_paper() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("OpenAI", "openai", 0),
            ("modle", "model", 1),
            ("omdle", "model", 2),
            ("ab", "ba", 1),
        ] {
            assert_eq!(edits(from.as_bytes(), to.as_bytes()), expected, "{from} to {to}");
        }
    }

    #[test]
    fn a_slip_finds_its_word_and_another_word_does_not() {
        let known = ["openai", "anthropic", "gemini", "bedrock"];
        for (word, expected) in [
            ("opnai", Some("openai")),
            ("Anthropic", Some("anthropic")),
            ("antrophic", Some("anthropic")),
            ("gemmini", Some("gemini")),
            ("", None),
            ("mistral", None),
            ("é", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}
