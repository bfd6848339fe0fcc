//! Tokens of a record, and the factor that makes estimates honest.

use std::sync::Arc;

use super::{Record, Slot};
use crate::entry::{Entry, Role};
use crate::tokens::{Counter, Method, Tokenizer, entry_tokens};

/// Replies whose reported usage calibrates estimates.
const REPLIES: usize = 20;
/// A reply that reports less than this share of the estimate was not sent the whole record, and says nothing about
/// the estimate.
const LEAST: f64 = 0.5;
/// No estimate is off by more; a larger factor would be a mistake in the usage.
const MOST: f64 = 3.0;

impl Record {
    /// Tokens of everything that was said, as a list of messages without overhead.
    pub fn tokens(&self, counter: Counter) -> u64 {
        if self.is_calibrated(counter) {
            return (0..self.slots.len() as u32).map(|at| self.entry_tokens(counter, at) as u64).sum();
        }
        self.sum(counter.tokenizer, self.slots.len())
    }

    /// The entries that nobody has counted by this tokenizer, with their positions, so that somebody else may.
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

    /// Tokens of the entry at `position` as recorded, calibrated; 0 for decisions and tombstones.
    pub(crate) fn entry_tokens(&self, counter: Counter, position: u32) -> usize {
        self.calibrated(counter, self.raw_tokens(counter.tokenizer, position))
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

    fn is_calibrated(&self, counter: Counter) -> bool {
        counter.method == Method::Estimate && !self.reported.is_empty()
    }

    /// What estimates are multiplied by; 1 for exact counts, and while no reply has reported its input.
    pub(crate) fn factor(&self, counter: Counter) -> f64 {
        if !self.is_calibrated(counter) {
            return 1.0;
        }
        self.cache.calibration(self.slots.len(), counter.tokenizer, || self.calibration(counter.tokenizer))
    }

    /// Scales an estimate by what replies reported; exact counts stay.
    pub(crate) fn calibrated(&self, counter: Counter, tokens: usize) -> usize {
        if !self.is_calibrated(counter) {
            return tokens;
        }
        (tokens as f64 * self.factor(counter)).ceil() as usize
    }

    /// Reported over estimated input of the last replies since the newest cut; 1 if unknown.
    fn calibration(&self, tokenizer: Tokenizer) -> f64 {
        let cut =
            self.decided.cut(None).and_then(|cut| self.groups.get(cut.before)).map_or(0, |group| group.first);
        let leading =
            self.groups.all.iter().take_while(|group| group.role == Role::System && group.first < cut);
        let lead: u64 = leading.map(|group| self.raw_tokens(tokenizer, group.first) as u64).sum();
        let before_cut = self.sum(tokenizer, cut as usize).saturating_sub(lead);
        let (mut reported, mut estimated) = (0.0, 0.0);
        for &(at, input) in self.reported.iter().rev().take(REPLIES).filter(|(at, _)| *at >= cut) {
            let estimate = self.sum(tokenizer, at as usize).saturating_sub(before_cut) as f64;
            if input as f64 >= estimate * LEAST {
                reported += input as f64;
                estimated += estimate;
            }
        }
        if estimated > 0.0 { (reported / estimated).clamp(LEAST, MOST) } else { 1.0 }
    }
}
