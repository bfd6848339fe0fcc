//! The newest turns as they were, the older ones in one message. The cut moves rarely and far.

use scrollback_lisp::Memory;

use super::coalesced::told_before;
use super::stats::{ShownCount, Stats};
use super::uncompressed::{raw_turns, uncompressed_user, whole};
use super::{Coalescing, Compression, Rendered, TurnLedger, system_message};
use crate::input::Input;
use crate::turn::Turn;

/// The last turns raw, between `keep` and `keep + slack` of them.
///
/// The cut moves only when more than `keep + slack` turns are raw, back to `keep`. In between each request is a prefix of
/// the next, which a provider's cache rewards.
#[derive(Clone, Debug)]
pub struct RollingWindow {
    /// How many turns stay raw at least.
    pub keep: usize,
    /// How many more may gather before the cut moves.
    pub slack: usize,
    /// How much is shown of the older ones.
    pub options: Coalescing,
}

impl Default for RollingWindow {
    fn default() -> Self {
        RollingWindow { keep: 3, slack: 3, options: Coalescing::default() }
    }
}

impl RollingWindow {
    /// What it is called.
    pub const NAME: &'static str = "rolling_window";

    /// How many turns stand before the cut.
    fn cut(&self, turns: usize) -> usize {
        let stride = self.slack + 1;
        turns.saturating_sub(self.keep) / stride * stride
    }
}

impl Compression for RollingWindow {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn shown(&self) -> &Coalescing {
        &self.options
    }

    fn render(&self, ledger: &TurnLedger, turns: &[Turn], _: &Memory, input: &Input) -> Rendered {
        let triggered = ledger.triggered(turns, input, &self.options);
        if ledger.cut_before() == 0 && !triggered {
            return whole(self.name(), ledger, turns, input, &self.options);
        }
        let own = if triggered { self.cut(turns.len()) } else { 0 };
        let cut = own.max(ledger.cut_before());
        let Some((messages, heading)) = told_before(cut, &self.options, ledger, turns, input) else {
            let (first, heading) = uncompressed_user(input, &self.options);
            let messages =
                [system_message(input), first].into_iter().chain(raw_turns(ledger, turns, 0, input));
            return Rendered { messages: messages.collect(), heading, stats: self.stats(ledger, turns, 0) };
        };
        Rendered { messages, heading, stats: self.stats(ledger, turns, cut) }
    }
}

impl RollingWindow {
    fn stats(&self, ledger: &TurnLedger, turns: &[Turn], cut: usize) -> Stats {
        let (old, all) = (ledger.after(cut), ledger.after(turns.len()));
        let (calls, prints) = ledger.showable(old);
        let shown = |old: usize, limit: usize, (before, all): (usize, usize)| {
            ShownCount::of(all, old.min(limit) + (all - before))
        };
        Stats {
            strategy: Self::NAME,
            triggered: true,
            turns: turns.len(),
            turns_compressed: cut,
            tool_calls: shown(calls, self.options.tool_call_limit, (old.calls, all.calls)),
            printlns: shown(prints, self.options.println_limit, (old.prints, all.prints)),
            error_turns_collapsed: old.failures,
            tokens: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_moves_only_when_too_many_turns_are_raw() {
        for (keep, slack) in [(3, 3), (1, 0), (0, 2), (5, 1)] {
            let window = RollingWindow { keep, slack, ..RollingWindow::default() };
            let mut cut = 0;
            for turns in 0..50 {
                if turns - cut > keep + slack {
                    cut = turns - keep;
                }
                assert_eq!(window.cut(turns), cut, "keep {keep}, slack {slack}, {turns} turns");
            }
        }
    }
}
