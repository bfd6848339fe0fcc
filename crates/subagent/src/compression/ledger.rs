//! What is known about the turns so far, added up turn by turn, so that rendering costs what it shows.

use std::collections::HashMap;

use scrollback_core::tokens::{OVERHEAD, Tokenizer, entry_tokens};
use scrollback_core::{Entry, Role};

use super::stats::PromptTokens;
use super::uncompressed::{feedback, reply_text, uncompressed_user};
use super::{Coalescing, PromptMessage, PromptSource, Rendered, system_message};
use crate::input::Input;
use crate::turn::Turn;

/// Sums over turns. [`advance`](TurnLedger::advance) looks at each turn once; afterwards every question about the first so many
/// turns has its answer at hand.
#[derive(Clone, Debug, Default)]
pub struct TurnLedger {
    /// The sums after one turn, after two, and so on.
    sums: Vec<Sums>,
    /// The turns that called tools.
    calling: Vec<usize>,
    /// The turns that succeeded and printed.
    printing: Vec<usize>,
    /// Which turns defined a name, in order.
    defined_in: HashMap<String, Vec<usize>>,
    /// Tokens of each turn in the uncompressed form, as far as they were needed.
    tokens: Vec<usize>,
    /// Tokens of the instructions, and of the mission before any turn, once they were counted.
    opening: Option<(usize, usize)>,
    /// How many turns are told by what they defined alone, because a request was too large.
    cut: usize,
}

/// What the first turns come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// How many turns.
    pub(super) turns: usize,
    /// Their tool calls.
    pub(super) calls: usize,
    /// Printed texts of those that succeeded.
    pub(super) prints: usize,
    /// Those that failed.
    pub(super) failures: usize,
    /// The last one that succeeded.
    pub(super) succeeded: Option<usize>,
    /// Those that returned something that did not fit.
    retriable: usize,
    /// Those that called tools.
    calling: usize,
    /// Those that succeeded and printed.
    printing: usize,
}

impl TurnLedger {
    /// A ledger of turns of which the first so many are told by what they defined alone.
    pub(crate) fn cut(turns: usize) -> Self {
        TurnLedger { cut: turns, ..TurnLedger::default() }
    }

    /// How many turns are told by what they defined alone.
    pub(super) fn cut_before(&self) -> usize {
        self.cut
    }

    /// Looks at the turns that are new.
    pub fn advance(&mut self, turns: &[Turn]) {
        for (at, turn) in turns.iter().enumerate().skip(self.sums.len()) {
            self.take(at, turn);
        }
    }

    fn take(&mut self, at: usize, turn: &Turn) {
        let mut sums = self.after(at);
        sums.turns += 1;
        sums.calls += turn.tool_calls.len();
        sums.retriable += usize::from(turn.is_retriable());
        if !turn.tool_calls.is_empty() {
            self.calling.push(at);
        }
        if turn.success() {
            sums.succeeded = Some(at);
            sums.prints += turn.prints.len();
            if !turn.prints.is_empty() {
                self.printing.push(at);
            }
            for name in &turn.defined {
                self.defined_in.entry(name.clone()).or_default().push(at);
            }
        } else {
            sums.failures += 1;
        }
        (sums.calling, sums.printing) = (self.calling.len(), self.printing.len());
        self.sums.push(sums);
    }

    /// What the first so many turns come to.
    pub(super) fn after(&self, turns: usize) -> Sums {
        turns.checked_sub(1).and_then(|at| self.sums.get(at)).copied().unwrap_or_default()
    }

    /// Those of the first turns that called tools, without those before the cut.
    pub(super) fn calling(&self, sums: Sums) -> &[usize] {
        self.calling.get(self.after(self.cut).calling..sums.calling).unwrap_or_default()
    }

    /// Those of the first turns that succeeded and printed, without those before the cut.
    pub(super) fn printing(&self, sums: Sums) -> &[usize] {
        self.printing.get(self.after(self.cut).printing..sums.printing).unwrap_or_default()
    }

    /// How many tool calls and printed texts of the first turns can be shown: those of turns before the cut cannot.
    pub(super) fn showable(&self, sums: Sums) -> (usize, usize) {
        let before = self.after(self.cut);
        (sums.calls.saturating_sub(before.calls), sums.prints.saturating_sub(before.prints))
    }

    /// Which of the first turns defined a name last.
    pub(super) fn defined_in(&self, name: &str, sums: Sums) -> Option<usize> {
        let turns = self.defined_in.get(name)?;
        let before = turns.partition_point(|at| *at < sums.turns);
        before.checked_sub(1).and_then(|last| turns.get(last)).copied()
    }

    /// How many turns are left after the first so many.
    pub(crate) fn turns_left(&self, after: usize, input: &Input) -> usize {
        input.turns_left(after, self.after(after).retriable)
    }

    /// Whether history is to be compressed.
    pub(crate) fn triggered(&self, turns: &[Turn], input: &Input, options: &Coalescing) -> bool {
        let trigger = options.trigger;
        if turns.is_empty() || input.max_turns == 1 {
            return false;
        }
        if trigger.turns.is_none() && trigger.tokens.is_none() {
            return true;
        }
        trigger.turns.is_some_and(|most| turns.len() >= most)
            || trigger.tokens.is_some_and(|most| self.before(turns, input, options) >= most)
    }

    /// Tokens of the uncompressed request, and of the one that was rendered.
    pub fn tokens(
        &self,
        turns: &[Turn],
        input: &Input,
        options: &Coalescing,
        rendered: &Rendered,
    ) -> PromptTokens {
        let tokenizer = input.counter.tokenizer;
        let (system, _) = self.opening(input, options);
        let after = rendered.messages.iter().map(|message| match message.source {
            PromptSource::System => system,
            _ => message_tokens(tokenizer, message),
        });
        PromptTokens {
            before: self.before(turns, input, options),
            after: OVERHEAD + after.sum::<usize>(),
            counter: input.counter,
        }
    }

    /// Remembers the tokens of turns, so that they are counted once.
    pub(crate) fn weigh(&mut self, turns: &[Turn], input: &Input, options: &Coalescing) {
        self.opening = Some(self.opening(input, options));
        for at in self.tokens.len()..turns.len() {
            let weight = self.weight(at, turns, input);
            self.tokens.push(weight);
        }
    }

    fn before(&self, turns: &[Turn], input: &Input, options: &Coalescing) -> usize {
        let (system, mission) = self.opening(input, options);
        let known: usize = self.tokens.iter().take(turns.len()).sum();
        let rest = (self.tokens.len()..turns.len()).map(|at| self.weight(at, turns, input));
        OVERHEAD + system + mission + known + rest.sum::<usize>()
    }

    /// Tokens of the instructions, and of the mission before any turn.
    fn opening(&self, input: &Input, options: &Coalescing) -> (usize, usize) {
        self.opening.unwrap_or_else(|| {
            let tokenizer = input.counter.tokenizer;
            let mission = uncompressed_user(input, options).0;
            (message_tokens(tokenizer, &system_message(input)), message_tokens(tokenizer, &mission))
        })
    }

    /// Tokens of one turn's reply and feedback.
    fn weight(&self, at: usize, turns: &[Turn], input: &Input) -> usize {
        let Some(turn) = turns.get(at) else { return 0 };
        let tokenizer = input.counter.tokenizer;
        let reply = Entry::text(Role::Assistant, &reply_text(turn));
        let told = Entry::text(Role::User, &feedback(turn, self.turns_left(at + 1, input)));
        entry_tokens(tokenizer, &reply) + entry_tokens(tokenizer, &told)
    }
}

fn message_tokens(tokenizer: Tokenizer, message: &PromptMessage) -> usize {
    entry_tokens(tokenizer, &Entry::text(message.role, &message.text))
}
