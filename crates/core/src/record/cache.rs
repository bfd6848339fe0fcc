//! What a record remembers so that nothing is counted or folded twice. Every value here can be computed again
//! from the entries; forgetting one costs time, never a different view.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::manager::auto::PlanFold;
use crate::manager::sticky::Fold;
use crate::need::NeedIndex;
use crate::recall::ObligationIndex;
use crate::record::Slot;
use crate::tokens::Tokenizer;

/// Folds kept at once; a process uses a handful of configurations per record.
const MAX_FOLDS: usize = 32;
/// Rewritten texts whose counts are kept; past that the oldest knowledge is dropped whole.
const MAX_REWRITES: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Tokens of each entry as recorded, one column per tokenizer; 0 means not counted yet.
    columns: [Vec<AtomicU32>; Tokenizer::ALL.len()],
    /// Sums over the first 0, 1, 2, … positions of each column, as far as anyone has asked.
    sums: Mutex<[Vec<u64>; Tokenizer::ALL.len()]>,
    rewrites: Mutex<HashMap<(Tokenizer, u32, u64), u32>>,
    folds: Mutex<HashMap<u64, Fold>>,
    plans: Mutex<HashMap<u64, PlanFold>>,
    /// Identifiers and segments of the entries, as far as a planner has asked.
    index: Mutex<Option<NeedIndex>>,
    /// What is owed, as far as a view has asked.
    obligations: Mutex<ObligationIndex>,
}

impl Cache {
    /// Makes room for so many entries.
    pub(crate) fn reserve(&mut self, entries: usize) {
        for column in &mut self.columns {
            column.reserve(entries);
        }
    }

    pub(crate) fn push(&mut self) {
        for column in &mut self.columns {
            column.push(AtomicU32::new(0));
        }
    }

    /// Whether the entry at `position` was counted.
    pub(crate) fn is_counted(&self, tokenizer: Tokenizer, position: u32) -> bool {
        let column = self.columns.get(tokenizer.index());
        let slot = column.and_then(|column| column.get(position as usize));
        slot.is_some_and(|slot| slot.load(Ordering::Relaxed) > 0)
    }

    /// Tokens of the entry at `position`, counted once.
    pub(crate) fn entry_tokens(
        &self,
        tokenizer: Tokenizer,
        position: u32,
        count: impl FnOnce() -> usize,
    ) -> usize {
        let Some(slot) = self.columns.get(tokenizer.index()).and_then(|column| column.get(position as usize))
        else {
            return count();
        };
        match slot.load(Ordering::Relaxed) {
            0 => {
                let tokens = count();
                slot.store(u32::try_from(tokens).unwrap_or(0), Ordering::Relaxed);
                tokens
            }
            tokens => tokens as usize,
        }
    }

    /// Tokens of a rewritten entry, counted once per way of rewriting it.
    pub(crate) fn rewrite_tokens(
        &self,
        tokenizer: Tokenizer,
        position: u32,
        rewrite: u64,
        count: impl FnOnce() -> usize,
    ) -> usize {
        let key = (tokenizer, position, rewrite);
        if let Some(&tokens) = locked(&self.rewrites).get(&key) {
            return tokens as usize;
        }
        let tokens = count();
        let mut rewrites = locked(&self.rewrites);
        if rewrites.len() >= MAX_REWRITES {
            rewrites.clear();
        }
        rewrites.insert(key, u32::try_from(tokens).unwrap_or(u32::MAX));
        tokens
    }

    /// Sum over the first `end` positions, adding only what was not summed before.
    pub(crate) fn sum(&self, tokenizer: Tokenizer, end: usize, tokens_of: impl Fn(u32) -> usize) -> u64 {
        let mut sums = locked(&self.sums);
        let Some(sums) = sums.get_mut(tokenizer.index()) else { return 0 };
        while sums.len() <= end {
            let next = match sums.last() {
                Some(sum) => sum + tokens_of(sums.len() as u32 - 1) as u64,
                None => 0,
            };
            sums.push(next);
        }
        sums.get(end).copied().unwrap_or_default()
    }

    pub(crate) fn fold(&self, key: u64) -> Option<Fold> {
        locked(&self.folds).get(&key).cloned()
    }

    pub(crate) fn keep_fold(&self, key: u64, fold: Fold) {
        let mut folds = locked(&self.folds);
        if folds.len() >= MAX_FOLDS && !folds.contains_key(&key) {
            folds.clear();
        }
        folds.insert(key, fold);
    }

    pub(crate) fn plan_fold(&self, key: u64) -> Option<PlanFold> {
        locked(&self.plans).get(&key).cloned()
    }

    pub(crate) fn keep_plan_fold(&self, key: u64, fold: PlanFold) {
        let mut plans = locked(&self.plans);
        if plans.len() >= MAX_FOLDS && !plans.contains_key(&key) {
            plans.clear();
        }
        plans.insert(key, fold);
    }

    /// Takes the index out, if it reads no further than the first `end` places; another one is begun where there is none.
    pub(crate) fn take_index(&self, end: usize) -> NeedIndex {
        let mut index = locked(&self.index);
        match &*index {
            Some(known) if known.len() <= end => index.take().unwrap_or_default(),
            _ => NeedIndex::default(),
        }
    }

    /// Puts an index back, unless there is one that reads further.
    pub(crate) fn keep_index(&self, index: NeedIndex) {
        let mut known = locked(&self.index);
        if known.as_ref().is_none_or(|known| known.len() <= index.len()) {
            *known = Some(index);
        }
    }

    /// Asks what is owed in the record with these places.
    pub(crate) fn obligations<T>(&self, slots: &[Slot], ask: impl FnOnce(&ObligationIndex) -> T) -> T {
        let mut index = locked(&self.obligations);
        index.advance(slots);
        ask(&index)
    }

    pub(crate) fn forget_folds(&mut self) {
        locked(&self.folds).clear();
        locked(&self.plans).clear();
    }

    /// An erased entry has no tokens any more.
    pub(crate) fn forget_counts(&mut self, position: u32) {
        for column in &self.columns {
            if let Some(slot) = column.get(position as usize) {
                slot.store(0, Ordering::Relaxed);
            }
        }
        *locked(&self.index) = None;
        *locked(&self.obligations) = ObligationIndex::default();
        *locked(&self.sums) = Default::default();
        locked(&self.rewrites).clear();
    }
}

/// A cache is never left half-written, so a panic elsewhere does not spoil it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
