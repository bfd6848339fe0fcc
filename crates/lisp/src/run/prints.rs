//! What a program printed, in order and within limits.

use crate::limits::Limits;
use crate::value::text::shorten;

/// Printed entries, one per call.
#[derive(Default, Clone)]
pub(crate) struct Prints {
    pub(crate) entries: Vec<String>,
    bytes: usize,
    /// Entries that found no room.
    pub(crate) dropped: usize,
}

impl Prints {
    pub(crate) fn push(&mut self, entry: &str, limits: &Limits) {
        let entry = shorten(entry, limits.print_graphemes);
        if self.entries.len() >= limits.prints || self.bytes + entry.len() > limits.print_bytes {
            self.dropped += 1;
            return;
        }
        self.bytes += entry.len();
        self.entries.push(entry.into_owned());
    }

    /// Adds what a branch printed.
    pub(crate) fn append(&mut self, other: Prints, limits: &Limits) {
        self.dropped += other.dropped;
        for entry in other.entries {
            if self.entries.len() >= limits.prints || self.bytes + entry.len() > limits.print_bytes {
                self.dropped += 1;
                continue;
            }
            self.bytes += entry.len();
            self.entries.push(entry);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
