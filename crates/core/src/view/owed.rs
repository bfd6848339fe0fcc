//! What stays in a view because something is owed: obligations of the conversation, and what recall has just given.

use std::sync::OnceLock;

use super::View;
use super::edit::signature;
use crate::ranges::Ranges;
use crate::tokens::Counter;

/// The part of a budget that obligations may take, as a divisor. The newest come first; a conversation that owes more than
/// this keeps the rest in its record only.
const SHARE: usize = 4;

/// What a view keeps because it is owed: found when a manager first asks what must stay, which mostly none does.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    /// Whether obligations stay; what recall gave does in any case.
    obligations: bool,
    /// Whether what is owed was given up, whoever asks later.
    forgone: bool,
    groups: OnceLock<Ranges>,
}

impl Owed {
    /// Nothing is kept.
    pub(super) fn nothing() -> Self {
        Owed { obligations: false, forgone: true, groups: OnceLock::from(Ranges::default()) }
    }

    /// Not looked for yet.
    pub(super) fn unknown(obligations: bool) -> Self {
        Owed { obligations, forgone: false, groups: OnceLock::new() }
    }
}

impl View<'_> {
    /// The body's groups that stay because they are owed.
    pub(crate) fn owed(&self) -> &Ranges {
        self.owed.groups.get_or_init(|| self.owed_before(u32::MAX))
    }

    /// The body's groups that were owed before group `end` was there.
    pub(crate) fn owed_before(&self, end: u32) -> Ranges {
        if self.owed.forgone {
            return Ranges::default();
        }
        let record = self.record;
        let end = record.groups.get(end).map_or(record.len() as u64, |group| group.first.into());
        let positions = record.cache.obligations(record.slots(), |index| {
            let mut found = index.recalled_at(end);
            if self.owed.obligations {
                found.extend(index.owed_at(end));
            }
            found
        });
        self.groups_at(&positions)
    }

    /// The body's groups with results that recall has just given.
    pub(crate) fn recalled(&self) -> Ranges {
        let record = self.record;
        let end = record.len() as u64;
        self.groups_at(&record.cache.obligations(record.slots(), |index| index.recalled_at(end)))
    }

    fn groups_at(&self, positions: &[u64]) -> Ranges {
        let group = |position: &u64| self.record.groups.of(u32::try_from(*position).ok()?);
        Ranges::of(positions.iter().filter_map(group)).intersect(&self.body)
    }

    /// The newest of some groups that fit the part of a budget that obligations may take.
    pub(crate) fn within_share(&self, owed: &Ranges, budget: usize, counter: Counter) -> Ranges {
        let mut room = budget / SHARE;
        let fits = |group: &u32| match room.checked_sub(self.group_tokens(counter, *group)) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        Ranges::of(owed.iter().rev().filter(fits))
    }

    /// Keeps of what is owed no more than the part of a budget that it may take.
    pub(crate) fn bound_owed(&mut self, budget: usize, counter: Counter) {
        let most = self.within_share(self.owed(), budget, counter);
        self.stay_owed(most);
    }

    /// From now on these groups are what is owed.
    pub(crate) fn stay_owed(&mut self, groups: Ranges) {
        self.owed.groups = OnceLock::from(groups);
    }

    /// From now on nothing is owed: what must stay besides leaves no room for it.
    pub(crate) fn forgo_owed(&mut self) {
        self.owed = Owed::nothing();
        self.lineage = self.lineage.map(|lineage| signature(&(lineage, "nothing is owed")));
    }
}
