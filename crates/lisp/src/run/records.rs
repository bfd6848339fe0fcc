//! Which definitions remember what a call returns.
//!
//! A call in tail position gives up its frame, but the function that made it is called by a name, too: one frame can
//! answer for several definitions. Sets of them are numbered, so that a frame holds one number.

use std::collections::BTreeMap;

/// A set of definitions, by number: none, one, or several that are listed in [`Records`].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Record {
    #[default]
    None,
    One(u32),
    Several(u32),
}

/// The sets of several definitions.
#[derive(Default)]
pub(crate) struct Records {
    sets: Vec<Vec<u32>>,
    numbers: BTreeMap<Vec<u32>, u32>,
}

impl Records {
    /// Forgets all sets.
    pub(crate) fn clear(&mut self) {
        if !self.sets.is_empty() {
            *self = Records::default();
        }
    }

    /// The set of all members of two sets.
    pub(crate) fn both(&mut self, a: Record, b: Record) -> Record {
        if a == b || b == Record::None {
            return a;
        }
        if a == Record::None {
            return b;
        }
        let mut members = self.members(&a).to_vec();
        members.extend_from_slice(self.members(&b));
        members.sort_unstable();
        members.dedup();
        self.several(members)
    }

    pub(crate) fn members<'r>(&'r self, record: &'r Record) -> &'r [u32] {
        match record {
            Record::None => &[],
            Record::One(index) => std::slice::from_ref(index),
            Record::Several(number) => self.sets.get(*number as usize).map_or(&[], Vec::as_slice),
        }
    }

    fn several(&mut self, members: Vec<u32>) -> Record {
        if let Some(number) = self.numbers.get(&members) {
            return Record::Several(*number);
        }
        let number = self.sets.len() as u32;
        self.sets.push(members.clone());
        self.numbers.insert(members, number);
        Record::Several(number)
    }
}
