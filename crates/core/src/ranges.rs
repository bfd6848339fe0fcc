//! Sets of numbers as sorted runs: how a view says which groups it holds without listing them.

use std::ops::Range;

/// A set of `u32` kept as sorted, disjoint, non-empty runs.
///
/// Cost is in the number of runs, not of members: "everything but the first hundred thousand" is one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ranges(Vec<Range<u32>>);

impl Ranges {
    /// The members of one run; empty if the run is.
    pub(crate) fn one(run: Range<u32>) -> Self {
        Ranges(if run.is_empty() { Vec::new() } else { vec![run] })
    }

    /// The given members, in any order, repeats allowed.
    pub(crate) fn of(members: impl IntoIterator<Item = u32>) -> Self {
        let mut members: Vec<u32> = members.into_iter().collect();
        members.sort_unstable();
        let mut set = Ranges::default();
        for member in members {
            set.push(member..member + 1);
        }
        set
    }

    /// Adds a run that starts at or after the start of the last one.
    fn push(&mut self, run: Range<u32>) {
        if run.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => self.0.push(run),
        }
    }

    /// Whether there is no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The runs, ascending.
    pub(crate) fn runs(&self) -> &[Range<u32>] {
        &self.0
    }

    /// Whether `member` is in the set.
    pub(crate) fn contains(&self, member: u32) -> bool {
        let after = self.0.partition_point(|run| run.start <= member);
        after.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|run| run.contains(&member))
    }

    /// The members, ascending; walks from either end.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.0.iter().flat_map(Clone::clone)
    }

    /// Members of either set.
    #[must_use]
    pub(crate) fn union(&self, other: &Ranges) -> Ranges {
        if other.is_empty() {
            return self.clone();
        }
        let mut runs: Vec<Range<u32>> = self.0.iter().chain(&other.0).cloned().collect();
        runs.sort_unstable_by_key(|run| run.start);
        let mut set = Ranges::default();
        for run in runs {
            set.push(run);
        }
        set
    }

    /// Members of both sets.
    #[must_use]
    pub(crate) fn intersect(&self, other: &Ranges) -> Ranges {
        let mut set = Ranges::default();
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            set.push(a.start.max(b.start)..a.end.min(b.end));
            if a.end <= b.end {
                left.next();
            } else {
                right.next();
            }
        }
        set
    }

    /// Members of this set that are not in `other`.
    #[must_use]
    pub(crate) fn minus(&self, other: &Ranges) -> Ranges {
        let mut set = Ranges::default();
        for run in &self.0 {
            let mut start = run.start;
            let first = other.0.partition_point(|hole| hole.end <= run.start);
            for hole in other.0.get(first..).unwrap_or_default() {
                if hole.start >= run.end {
                    break;
                }
                set.push(start..hole.start.max(start));
                start = start.max(hole.end);
            }
            set.push(start..run.end.max(start));
        }
        set
    }

    /// Members from `start` on.
    #[must_use]
    pub(crate) fn from(&self, start: u32) -> Ranges {
        self.intersect(&Ranges::one(start..u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small sets as bit masks are the model; every operation must agree with it.
    #[test]
    fn agrees_with_bit_masks() {
        let of = |mask: u32| Ranges::of((0..8).filter(|bit| mask & (1 << bit) != 0));
        for a in 0..256u32 {
            assert_eq!(of(a).iter().fold(0, |mask, bit| mask | (1 << bit)), a);
            assert!((0..8).all(|bit| of(a).contains(bit) == (a & (1 << bit) != 0)));
            for b in 0..256u32 {
                assert_eq!(of(a).union(&of(b)), of(a | b));
                assert_eq!(of(a).intersect(&of(b)), of(a & b));
                assert_eq!(of(a).minus(&of(b)), of(a & !b));
            }
        }
        assert_eq!(Ranges::of([3, 1, 2, 9, 9]).runs(), [1..4, 9..10]);
        assert_eq!(Ranges::one(0..10).from(7), Ranges::one(7..10));
    }
}
