//! Which definitions remember what a call returns.
//!
//! A call in tail position gives up its frame, but the function that made it is called by a name, too: one frame can
//! answer for several definitions. Sets of them are numbered, so that a frame holds one number.

use std::collections::BTreeMap;

/// Numbered sets of definitions. Number 0 is the empty set.
#[derive(Default)]
pub(crate) struct Records {
    sets: Vec<Vec<u32>>,
    numbers: BTreeMap<Vec<u32>, u32>,
    /// The number of the set of one definition, by definition.
    singles: Vec<u32>,
}

impl Records {
    /// The set of one definition.
    pub(crate) fn single(&mut self, index: u32) -> u32 {
        if let Some(number) = self.singles.get(index as usize)
            && *number != 0
        {
            return *number;
        }
        // No other way leads to a set of one.
        self.sets.push(vec![index]);
        let number = self.sets.len() as u32;
        if self.singles.len() <= index as usize {
            self.singles.resize(index as usize + 1, 0);
        }
        if let Some(slot) = self.singles.get_mut(index as usize) {
            *slot = number;
        }
        number
    }

    /// The set of all members of two sets.
    pub(crate) fn both(&mut self, a: u32, b: u32) -> u32 {
        if a == b || b == 0 {
            return a;
        }
        if a == 0 {
            return b;
        }
        let mut members: Vec<u32> = self.members(a).iter().chain(self.members(b)).copied().collect();
        members.sort_unstable();
        members.dedup();
        self.number(members)
    }

    pub(crate) fn members(&self, number: u32) -> &[u32] {
        (number as usize).checked_sub(1).and_then(|at| self.sets.get(at)).map_or(&[], Vec::as_slice)
    }

    fn number(&mut self, members: Vec<u32>) -> u32 {
        if let Some(number) = self.numbers.get(&members) {
            return *number;
        }
        self.sets.push(members.clone());
        let number = self.sets.len() as u32;
        self.numbers.insert(members, number);
        number
    }
}
