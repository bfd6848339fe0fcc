//! The names of definitions, which every run hands to the memory it leaves behind.

use std::cmp::Ordering;

use super::Text;

/// Bytes of a name that is kept in place.
const SHORT: usize = 15;

/// A name as a program writes it. Most are short and kept in place: they need no memory of their own, and a copy of one
/// counts no references.
#[derive(Clone)]
pub(crate) struct Word(WordBytes);

#[derive(Clone)]
// Whole words, whatever the variant, as in a value: a copy of odd bytes stalls the next read.
#[repr(u64)]
enum WordBytes {
    Short(Short),
    Long(Text),
}

#[derive(Clone, Copy)]
#[repr(align(8))]
struct Short {
    bytes: [u8; SHORT],
    length: u8,
}

impl Word {
    /// The name itself.
    pub(crate) fn as_str(&self) -> &str {
        match &self.0 {
            WordBytes::Short(_) => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            WordBytes::Long(text) => text.as_str(),
        }
    }

    /// Its UTF-8, which is at hand and has the same order.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            WordBytes::Short(short) => short.bytes.get(..usize::from(short.length)).unwrap_or_default(),
            WordBytes::Long(text) => text.as_str().as_bytes(),
        }
    }
}

impl From<&str> for Word {
    fn from(name: &str) -> Self {
        let mut bytes = [0; SHORT];
        Word(match bytes.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name.as_bytes());
                WordBytes::Short(Short { bytes, length: name.len() as u8 })
            }
            None => WordBytes::Long(name.into()),
        })
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Word {}

impl PartialOrd for Word {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Word {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_any_length_is_what_it_was_made_of_and_ordered_like_it() {
        let names = [
            "",
            "a",
            "b",
            "größer-als-null?",
            "größer-als-nul",
            "total-of-all-orders",
            "z".repeat(99).as_str(),
        ]
        .map(str::to_string);
        for a in &names {
            assert_eq!(Word::from(a.as_str()).as_str(), a);
            for b in &names {
                assert_eq!(Word::from(a.as_str()).cmp(&Word::from(b.as_str())), a.cmp(b), "{a} and {b}");
            }
        }
    }
}
