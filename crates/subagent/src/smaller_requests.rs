//! What was decided about a mission because its requests were too large, and requests that follow it.
//!
//! The decisions are those of the record, by the same steps as everywhere: a cut, cleared and shortened results, a shortened
//! task. A mission reads them in its own terms. Turns before a cut are told by what they defined alone; what a turn printed
//! is a result; the mission's text is the task.

use std::borrow::Cow;
use std::collections::BTreeMap;

use scrollback_core::manager::{Keep, shortened};
use scrollback_core::{Decision, Record, Slot};
use scrollback_lisp::Memory;

use super::compression::{Compression, PromptSource, Rendered, TurnLedger};
use super::input::Input;
use super::record::Positions;
use super::turn::Turn;

/// What was decided about the requests of a mission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tightened {
    /// How many turns stand before the newest cut.
    pub(crate) cut: usize,
    /// Turns whose output shows a placeholder.
    cleared: BTreeMap<usize, String>,
    /// Turns whose output is shortened.
    shortened: BTreeMap<usize, Length>,
    /// What stays of the mission's text.
    mission: Option<Length>,
}

/// Characters that stay of a text, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Length {
    most: usize,
    keep: Keep,
}

impl Length {
    fn apply(self, text: &str) -> Cow<'_, str> {
        shortened(text, self.most, self.keep).map_or(Cow::Borrowed(text), Cow::Owned)
    }
}

impl Tightened {
    /// What the decisions of a record say about a mission, those before a position alone.
    pub(crate) fn of(record: &Record, positions: &Positions, before: u64) -> Self {
        let mut tightened = Tightened::default();
        let slots = (0_u64..).zip(record.slots()).skip(positions.mission as usize);
        for (_, slot) in slots.take_while(|(at, _)| *at < before) {
            if let Slot::Decision(decision, _) = slot {
                tightened.take(decision, positions);
            }
        }
        tightened
    }

    fn take(&mut self, decision: &Decision, positions: &Positions) {
        let turn = |at: &u64| positions.turns.iter().position(|(_, told)| told == at);
        match decision {
            Decision::Cut { before, .. } => {
                self.cut = positions.turns.partition_point(|(reply, _)| reply < before);
            }
            Decision::Clear { positions: cleared, placeholder } => {
                self.cleared.extend(cleared.iter().filter_map(turn).map(|turn| (turn, placeholder.clone())));
            }
            Decision::Truncate { positions: listed, max_length, keep } => {
                let length = Length { most: *max_length, keep: *keep };
                self.shortened.extend(listed.iter().filter_map(turn).map(|turn| (turn, length)));
                if listed.contains(&positions.mission) {
                    self.mission = Some(length);
                }
            }
            _ => {}
        }
    }

    /// The messages of a request, as small as was decided. `ledger` is about the turns as they were.
    pub(crate) fn render(
        &self,
        strategy: &dyn Compression,
        ledger: &TurnLedger,
        turns: &[Turn],
        memory: &Memory,
        input: &Input,
    ) -> Rendered {
        if *self == Tightened::default() {
            return strategy.render(ledger, turns, memory, input);
        }
        let (turns, input) = (self.turns(turns), self.input(input));
        let mut ledger = TurnLedger::cut(self.cut);
        ledger.advance(&turns);
        let mut rendered = strategy.render(&ledger, &turns, memory, &input);
        for message in &mut rendered.messages {
            if let PromptSource::Feedback(turn) = message.source
                && let Some(length) = self.shortened.get(&turn)
            {
                // What a turn came to is more than what it printed.
                message.text = length.apply(&message.text).into_owned();
            }
        }
        rendered
    }

    /// The messages that were sent before the turn after these, made again, and what is known about them.
    pub(crate) fn to_messages(&self, strategy: &dyn Compression, turns: &[Turn], input: &Input) -> Rendered {
        let memory = turns.last().map(|turn| turn.memory.clone()).unwrap_or_default();
        let mut ledger = TurnLedger::default();
        ledger.advance(turns);
        let mut rendered = self.render(strategy, &ledger, turns, &memory, input);
        rendered.stats.tokens = Some(ledger.tokens(turns, input, strategy.shown(), &rendered));
        rendered
    }

    /// The turns as they are told.
    pub(crate) fn turns<'t>(&self, turns: &'t [Turn]) -> Cow<'t, [Turn]> {
        if self.cleared.is_empty() && self.shortened.is_empty() {
            return Cow::Borrowed(turns);
        }
        let told = |(at, turn): (usize, &Turn)| {
            let mut turn = turn.clone();
            if let Some(length) = self.shortened.get(&at).filter(|_| !turn.prints.is_empty()) {
                turn.prints = vec![length.apply(&turn.prints.join("\n")).into_owned()];
            }
            if let Some(placeholder) = self.cleared.get(&at) {
                turn.prints = vec![placeholder.clone()];
                turn.result = None;
            }
            turn
        };
        Cow::Owned(turns.iter().enumerate().map(told).collect())
    }

    /// What the mission is given, as it is told.
    pub(crate) fn input<'i>(&self, input: &'i Input) -> Cow<'i, Input> {
        match self.mission {
            None => Cow::Borrowed(input),
            Some(length) => {
                let mission = length.apply(&input.mission).into_owned();
                Cow::Owned(Input { mission, ..input.clone() })
            }
        }
    }
}
