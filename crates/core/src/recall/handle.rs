//! Handles: the stable names of places in records.

use std::fmt;
use std::str::FromStr;

/// Letters and digits of a ULID in lower case; those that look alike are not among them.
const LETTERS: &str = "0123456789abcdefghjkmnpqrstvwxyz";
/// Characters of a conversation's id that a handle shows.
const SHOWN: usize = 10;
/// Characters of a whole id.
const WHOLE: usize = 26;
/// Longer texts are no handles; nothing of them is repeated in a message.
const LONGEST: usize = 80;

/// The end of a conversation's id: 10 to 26 letters and digits in lower case. A store issues no id whose last ten
/// characters another conversation of the tenant has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tail(Box<str>);

impl Tail {
    /// The tail that handles show of an id.
    ///
    /// ```
    /// use scrollback_core::recall::Tail;
    /// let tail = Tail::of("01ARZ3NDEKTSV4RRFFQ69G5FAV");
    /// assert_eq!(tail.map(|tail| tail.to_string()), Some("ffq69g5fav".to_string()));
    /// ```
    pub fn of(id: &str) -> Option<Self> {
        Tail::parse(id.get(id.len().checked_sub(SHOWN)?..)?)
    }

    /// Reads a tail, in upper or lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let fits =
            (SHOWN..=WHOLE).contains(&text.len()) && text.chars().all(|letter| LETTERS.contains(letter));
        fits.then(|| Tail(text.into()))
    }

    /// The characters, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last ten characters, by which conversations are found.
    pub fn last(&self) -> &str {
        self.0.get(self.0.len() - SHOWN..).unwrap_or(&self.0)
    }

    /// Whether an id ends with this tail, whatever its case.
    pub fn is_of(&self, id: &str) -> bool {
        id.to_ascii_lowercase().ends_with(&*self.0)
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a conversation, of a place in it, or of several places in a row. Valid for the life of the record.
///
/// ```
/// use scrollback_core::recall::Handle;
/// let handle: Handle = "SB:K7Q2M9X4TD#412-418".parse()?;
/// assert_eq!(handle.to_string(), "sb:k7q2m9x4td#412-418");
/// assert_eq!(handle.positions(), Some((412, 418)));
/// assert_eq!("sb:k7q2m9x4td".parse::<Handle>()?.positions(), None);
/// # Ok::<(), scrollback_core::recall::BadHandle>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    tail: Tail,
    /// First and last position, the first not above the last; none for the whole conversation.
    positions: Option<(u64, u64)>,
}

impl Handle {
    /// The name of a conversation.
    pub fn conversation(tail: Tail) -> Self {
        Handle { tail, positions: None }
    }

    /// The name of one place.
    pub fn at(tail: Tail, position: u64) -> Self {
        Handle { tail, positions: Some((position, position)) }
    }

    /// The name of the places between two, both included, in either order.
    pub fn between(tail: Tail, one: u64, other: u64) -> Self {
        Handle { tail, positions: Some((one.min(other), one.max(other))) }
    }

    /// The conversation.
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// First and last position; none for the whole conversation.
    pub fn positions(&self) -> Option<(u64, u64)> {
        self.positions
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sb:{}", self.tail)?;
        match self.positions {
            Some((first, last)) if first == last => write!(f, "#{first}"),
            Some((first, last)) => write!(f, "#{first}-{last}"),
            None => Ok(()),
        }
    }
}

/// A text that is no handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadHandle(String);

impl fmt::Display for BadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such handle")?;
        if !self.0.is_empty() {
            write!(f, ": {:?}", self.0)?;
        }
        f.write_str("; handles look like sb:k7q2m9x4td#412; search for the words instead")
    }
}

impl std::error::Error for BadHandle {}

impl FromStr for Handle {
    type Err = BadHandle;

    /// Reads a handle in upper or lower case. Quotes, brackets and a full stop around it are passed over, because
    /// models copy them along.
    fn from_str(text: &str) -> Result<Self, BadHandle> {
        let around = |letter: char| letter.is_whitespace() || "`'\"()[]<>.,;:".contains(letter);
        let bare = text.trim_matches(around);
        let read = || {
            let prefix = bare.get(..3).filter(|prefix| prefix.eq_ignore_ascii_case("sb:"))?;
            let rest = bare.get(prefix.len()..)?;
            let (tail, places) = match rest.split_once('#') {
                Some((tail, places)) => (tail, Some(places)),
                None => (rest, None),
            };
            let tail = Tail::parse(tail)?;
            let Some(places) = places else { return Some(Handle::conversation(tail)) };
            let (first, last) = places.split_once('-').unwrap_or((places, places));
            let (first, last) = (number(first)?, number(last.trim_start_matches('#'))?);
            (first <= last).then(|| Handle::between(tail, first, last))
        };
        // A long text is not repeated: it may be anything.
        read().ok_or_else(|| BadHandle(if bare.len() > LONGEST { String::new() } else { bare.to_string() }))
    }
}

/// A position: digits only, so that there is one way to write it.
fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn handles_read_in_any_case_and_with_any_length_of_tail() {
        for (text, printed) in [
            ("sb:k7q2m9x4td#412", "sb:k7q2m9x4td#412"),
            ("SB:K7Q2M9X4TD#412", "sb:k7q2m9x4td#412"),
            ("sb:01arz3ndektsv4rrffq69g5fav#0", "sb:01arz3ndektsv4rrffq69g5fav#0"),
            ("`sb:k7q2m9x4td#3-3`", "sb:k7q2m9x4td#3"),
            ("[sb:k7q2m9x4td#3-9].", "sb:k7q2m9x4td#3-9"),
            (" sb:k7q2m9x4td ", "sb:k7q2m9x4td"),
        ] {
            assert_eq!(text.parse::<Handle>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn what_is_no_handle_is_refused_with_what_to_do_instead() {
        for bad in [
            "",
            "sb:",
            "k7q2m9x4td#4",
            "xx:k7q2m9x4td#4",
            "sb:short#4",
            "sb:k7q2m9x4tu#4",
            "sb:k7q2m9x4td#",
            "sb:k7q2m9x4td#-1",
            "sb:k7q2m9x4td#9-3",
            "sb:k7q2m9x4td#1-2-3",
            "sb:k7q2m9x4td#+4",
            "sb:k7q2m9x4td#99999999999999999999",
            "sb:k7q2m9x4td#٣",
            "sb:\u{0}k7q2m9x4td#1",
            "sb:01arz3ndektsv4rrffq69g5favx#1",
        ] {
            let error = bad.parse::<Handle>().unwrap_err().to_string();
            assert!(
                error.starts_with("no such handle") && error.contains("search for the words"),
                "{bad}: {error}"
            );
        }
        let huge = "sb:".repeat(400_000);
        assert!(huge.parse::<Handle>().unwrap_err().to_string().len() < 200, "a huge text is not repeated");
    }

    proptest! {
        #[test]
        fn every_handle_reads_back_as_itself(tail in "[0-9a-hjkmnp-tv-z]{10,26}", places in any::<Option<(u64, u64)>>()) {
            let tail = Tail::parse(&tail).unwrap();
            let handle = places.map_or_else(
                || Handle::conversation(tail.clone()),
                |(one, other)| Handle::between(tail.clone(), one, other),
            );
            prop_assert_eq!(handle.to_string().parse::<Handle>().unwrap(), handle.clone());
            prop_assert_eq!(handle.to_string().to_uppercase().parse::<Handle>().unwrap(), handle);
        }

        #[test]
        fn no_text_makes_the_parser_fail_otherwise(text in any::<String>()) {
            let _ = text.parse::<Handle>();
        }
    }
}
