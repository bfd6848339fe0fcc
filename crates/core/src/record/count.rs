//! Tokens of a record: each entry is counted once per tokenizer.

use std::sync::Arc;

use super::{Record, Slot};
use crate::entry::Entry;
use crate::tokens::{Counter, Tokenizer, entry_tokens};

impl Record {
    /// Tokens of everything that was said, as a list of messages without overhead.
    pub fn tokens(&self, counter: Counter) -> u64 {
        let plain = self.sum(counter.tokenizer, self.slots.len());
        counter.factor.apply(usize::try_from(plain).unwrap_or(usize::MAX)) as u64
    }

    /// The entries that were not counted by this tokenizer yet, with their positions, so that they can be counted on another thread.
    pub fn uncounted(&self, tokenizer: Tokenizer) -> impl Iterator<Item = (u64, &Arc<Entry>)> {
        let uncounted = (0..).zip(&self.slots).filter(move |(at, _)| !self.cache.is_counted(tokenizer, *at));
        uncounted.filter_map(|(at, slot)| match slot {
            Slot::Message(entry) => Some((u64::from(at), entry)),
            _ => None,
        })
    }

    /// Takes over what [`entry_tokens`](crate::tokens::entry_tokens) says of the entry at `position`.
    pub fn note_tokens(&self, tokenizer: Tokenizer, position: u64, tokens: usize) {
        if let Ok(position) = u32::try_from(position) {
            self.cache.entry_tokens(tokenizer, position, || tokens);
        }
    }

    /// Tokens of the entry at `position` as recorded, corrected by the counter's factor; 0 for decisions and tombstones.
    pub(crate) fn entry_tokens(&self, counter: Counter, position: u32) -> usize {
        counter.factor.apply(self.raw_tokens(counter.tokenizer, position))
    }

    /// Tokens of the entry at `position` as recorded and as counted; 0 for decisions and tombstones.
    pub(crate) fn raw_tokens(&self, tokenizer: Tokenizer, position: u32) -> usize {
        match self.slots.get(position as usize) {
            Some(Slot::Message(entry)) => {
                self.cache.entry_tokens(tokenizer, position, || entry_tokens(tokenizer, entry))
            }
            _ => 0,
        }
    }

    /// Tokens of everything before `end`, as counted.
    fn sum(&self, tokenizer: Tokenizer, end: usize) -> u64 {
        self.cache.sum(tokenizer, end, |at| self.raw_tokens(tokenizer, at))
    }
}
