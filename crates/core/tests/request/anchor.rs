//! Totals that start from what a provider reported, so that only what came since is an estimate.

use scrollback_core::tokens::Factor;

/// A request as we estimated it, without a factor, and as its provider reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    estimated: u64,
    reported: u64,
}

/// The first and the newest request of one conversation whose reported input is known.
///
/// Much of a request is often not in the record: instructions, tools and reminders that a client adds. Both requests had
/// that part, so it need not be known: a total is a reported one plus what changed since, which alone is an estimate.
/// Between the two requests the total lies on the line through both, which a wrong estimate of one token does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Anchor {
    ends: Option<(Pair, Pair)>,
    /// Whether the next reply begins anew.
    is_over: bool,
}

impl Anchor {
    /// Takes in one reply: tokens of its request as estimated without a factor, and as its provider reported them.
    pub(super) fn observe(&mut self, estimated: u64, reported: u64) {
        if reported == 0 {
            return;
        }
        let new = Pair { estimated, reported };
        let first = self.ends.filter(|_| !self.is_over).map_or(new, |(first, _)| first);
        self.ends = Some((first, new));
        self.is_over = false;
    }

    /// Says that later requests have little in common with those heard: another model answers, or the conversation was
    /// replaced by a summary. What was heard is used until the next reply, because nothing better is known.
    pub(super) fn restart(&mut self) {
        self.is_over = true;
    }

    /// Whether the next total is the first after a [restart](Anchor::restart), or no reply was heard at all: then it can
    /// be far from what the provider will report, and a page that shows it should say so.
    pub(super) fn is_uncertain(&self) -> bool {
        self.is_over || self.ends.is_none()
    }

    /// Tokens that a provider would report for a request of so many estimated ones.
    pub(super) fn total(&self, estimated: usize, factor: Factor) -> usize {
        let Some((first, newest)) = self.ends else { return factor.apply(estimated) };
        let now = estimated as u64;
        if now >= newest.estimated {
            return newest.moved_to(now, factor);
        }
        if now <= first.estimated {
            return first.moved_to(now, factor);
        }
        // Here first.estimated < now < newest.estimated.
        if newest.reported < first.reported {
            return newest.moved_to(now, factor);
        }
        let rise = u128::from(newest.reported - first.reported) * u128::from(now - first.estimated);
        (u128::from(first.reported) + rise / u128::from(newest.estimated - first.estimated)) as usize
    }
}

impl Pair {
    /// What would be reported for so many estimated tokens, by the factor from here on.
    fn moved_to(self, estimated: u64, factor: Factor) -> usize {
        let by = |tokens: u64| factor.apply(tokens as usize) as u64;
        let total = if estimated >= self.estimated {
            self.reported.saturating_add(by(estimated - self.estimated))
        } else {
            self.reported.saturating_sub(by(self.estimated - estimated))
        };
        total as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pairs: &[(u64, u64)]) -> Anchor {
        let mut anchor = Anchor::default();
        for (estimated, reported) in pairs {
            anchor.observe(*estimated, *reported);
        }
        anchor
    }

    #[test]
    fn totals_follow_the_newest_reply_and_lie_between_both_after_a_cut() {
        type Case = (&'static str, &'static [(u64, u64)], usize, usize);
        let half = Factor::of(1.5);
        let cases: &[Case] = &[
            ("nothing heard", &[], 100, 150),
            ("the same request", &[(100, 1000)], 100, 1000),
            ("it grew", &[(100, 1000)], 200, 1150),
            ("it shrank below the first", &[(100, 1000)], 50, 925),
            ("it grew after the newest", &[(100, 1000), (200, 1200)], 300, 1350),
            ("cut to half way", &[(100, 1000), (200, 1200)], 150, 1100),
            ("as the first", &[(100, 1000), (200, 1200)], 100, 1000),
            ("the reported input fell while ours rose", &[(100, 1000), (200, 900)], 150, 825),
            ("the newest is smaller than the first", &[(200, 1200), (100, 1000)], 150, 1075),
            ("far below", &[(10_000, 100)], 0, 0),
            ("a reply without usage says nothing", &[(100, 1000), (900, 0)], 100, 1000),
        ];
        for (what, pairs, estimated, wanted) in cases {
            assert_eq!(heard(pairs).total(*estimated, half), *wanted, "{what}");
        }
    }

    #[test]
    fn a_restart_forgets_with_the_next_reply() {
        let mut anchor = heard(&[(100, 1000), (200, 1200)]);
        assert!(!anchor.is_uncertain());
        anchor.restart();
        assert_eq!(anchor.total(300, Factor::ONE), 1300, "nothing better is known yet");
        assert!(anchor.is_uncertain());
        anchor.observe(50, 5000);
        assert_eq!(anchor, heard(&[(50, 5000)]));
        assert!(Anchor::default().is_uncertain());
    }

    #[test]
    fn totals_grow_with_the_estimate_and_never_overflow() {
        let anchor = heard(&[(100, 1000), (200, 1250), (u64::MAX / 4, u64::MAX / 2)]);
        let mut before = 0;
        for estimated in [0, 1, 99, 100, 101, 5000, usize::MAX / 8, usize::MAX / 4, usize::MAX] {
            let total = anchor.total(estimated, Factor::of(2.0));
            assert!(total >= before, "{estimated}");
            before = total;
        }
    }
}
