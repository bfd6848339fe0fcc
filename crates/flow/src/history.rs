//! Bounding a history: which turns stand in front of an input, and which are condensed first. Pure.
//!
//! Bounding walks back from the newest turn and stops where a bound would be exceeded, so it costs what is sent and not
//! what was ever said. Counts are kept with the turns.

use std::sync::Arc;

use scrollback_core::tokens::{Tokenizer, entry_tokens};
use scrollback_core::{Entry, Role, SUMMARY_HEADING};

use crate::passed_values::EntryId;
use crate::turns::{Condensed, LoopScope, Turn};
use crate::{Bounds, Strategy, TurnRole};

/// Shortest ceiling of a summary, in tokens: less says nothing.
const SHORTEST: u64 = 64;
/// The ceiling where no number of tokens is given.
const USUAL_CEILING: u64 = 512;

/// Turns that room is made for at once where no maximum is configured.
const USUAL_TURNS: usize = 64;

/// The turns a call may be sent: those of its loop, and those of its branch.
#[derive(Clone, Copy)]
pub struct AvailableTurns<'s> {
    /// What the loop remembers.
    pub scope: &'s LoopScope,
    /// What only this branch knows yet.
    pub own: &'s [Arc<Turn>],
    /// The entry that is the step's input: it is sent once, as the last message.
    pub input: Option<EntryId>,
}

/// What is put in front of an input.
#[derive(Clone, Debug, Default)]
pub struct ChosenTurns {
    /// What stands for the oldest turns.
    pub summary: Option<Arc<Condensed>>,
    /// The newest turns, in order.
    pub turns: Vec<Arc<Turn>>,
    /// Turns of the history that are not among them and that no summary stands for.
    pub left_out: usize,
    /// Whether even the newest turn was larger than the bound.
    pub newest_too_large: bool,
}

impl ChosenTurns {
    /// How many messages of history there are.
    pub fn len(&self) -> usize {
        self.turns.len() + usize::from(self.summary.is_some())
    }

    /// Whether nothing is put in front of the input.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Leaves the newest turns that have room in a number of tokens; a summary goes last.
    #[must_use]
    pub fn within(mut self, room: usize, tokenizer: Tokenizer) -> Self {
        let mut room = HistoryRoom { tokens: Some(room as u64), turns: None };
        self.summary = self.summary.filter(|summary| room.take(summary.spoken().tokens(tokenizer)));
        let newest = self.turns.iter().rev();
        let fit = newest.take_while(|turn| room.take(turn.spoken().tokens(tokenizer))).count();
        let gone = self.turns.len() - fit;
        self.turns.drain(..gone);
        self.left_out += gone;
        self
    }
}

impl<'s> AvailableTurns<'s> {
    /// Turns that no summary stands for and no overflow cut off, newest first, with their number from the oldest.
    fn newest_first(self) -> impl Iterator<Item = (usize, &'s Arc<Turn>)> {
        self.newest_from(self.first())
    }

    /// The same from a turn on.
    fn newest_from(self, from: usize) -> impl Iterator<Item = (usize, &'s Arc<Turn>)> {
        let marked = self.scope.turns();
        let own = self.own.iter().enumerate().rev().map(move |(number, turn)| (marked.len() + number, turn));
        let of_scope = marked.iter().enumerate().skip(from).rev();
        own.chain(of_scope).filter(move |(_, turn)| Some(turn.entry) != self.input)
    }

    /// The oldest turn that may be sent as it was said.
    fn first(self) -> usize {
        self.scope.cut.max(self.scope.summary.as_ref().map_or(0, |summary| summary.covers))
    }

    /// The summary that is shown: none if what it stands for was cut off.
    fn summary(self) -> Option<&'s Arc<Condensed>> {
        self.scope.summary.as_ref().filter(|summary| summary.covers > self.scope.cut)
    }

    /// Whether everything that was said fits as it was said. Then no summary is needed, though a branch beside this one may
    /// have had to write one: what is sent does not depend on who was first.
    fn fits_whole(self, bounds: &Bounds, tokenizer: Tokenizer) -> bool {
        let mut room = HistoryRoom::of(bounds);
        self.newest_from(self.scope.cut).all(|(_, turn)| room.take(turn.spoken().tokens(tokenizer)))
    }

    /// How many turns there are from one on.
    fn count(self, first: usize) -> usize {
        let all = self.scope.turns().len() + self.own.len() - first.min(self.scope.turns().len());
        let taken = self.input.is_some_and(|input| self.is_shown(input, first));
        all - usize::from(taken)
    }

    fn is_shown(self, entry: EntryId, first: usize) -> bool {
        // The input is nearly always among the newest; a loop's own input is the oldest.
        let own = self.own.iter().any(|turn| turn.entry == entry);
        let among = || self.scope.turns().iter().skip(first).rev().any(|turn| turn.entry == entry);
        own || self.scope.is_marked(entry) && among()
    }

    /// Everything there is, for managers that look at all of it.
    pub fn everything(self) -> ChosenTurns {
        let mut turns: Vec<Arc<Turn>> = self.newest_first().map(|(_, turn)| Arc::clone(turn)).collect();
        turns.reverse();
        ChosenTurns { summary: self.summary().cloned(), turns, ..ChosenTurns::default() }
    }

    /// The newest turns within the bounds: an unbroken run, no turn cut, no bound exceeded. A summary goes last.
    pub fn bounded(self, bounds: &Bounds, tokenizer: Tokenizer) -> ChosenTurns {
        let mut room = HistoryRoom::of(bounds);
        let written = self.summary().filter(|_| !self.fits_whole(bounds, tokenizer));
        let first = written.map_or(self.scope.cut, |_| self.first());
        let summary = written.filter(|summary| room.take(summary.spoken().tokens(tokenizer)));
        let there = self.count(first);
        let most = bounds.max_turns.and_then(|most| usize::try_from(most).ok());
        let mut turns = Vec::with_capacity(there.min(most.unwrap_or(USUAL_TURNS)));
        let mut newest_too_large = false;
        for (_, turn) in self.newest_from(first) {
            if !room.take(turn.spoken().tokens(tokenizer)) {
                newest_too_large = turns.is_empty() && summary.is_none() && room.turns != Some(0);
                break;
            }
            turns.push(Arc::clone(turn));
        }
        turns.reverse();
        let left_out = there - turns.len();
        ChosenTurns { summary: summary.cloned(), turns, left_out, newest_too_large }
    }

    /// What shall be condensed before the next call; none while the history is within its bounds.
    pub fn plan(self, bounds: &Bounds, tokenizer: Tokenizer) -> Option<Condensing> {
        if bounds.strategy != Strategy::Summarize || self.is_within(bounds, tokenizer) {
            return None;
        }
        // A failed summary is tried again after the next turn.
        if self.scope.failed_at == Some(self.scope.turns().len()) {
            return None;
        }
        let ceiling = ceiling(bounds);
        let summary = self.summary();
        let first = self.first();
        // Only what is marked can be covered; what a branch said is not yet part of the loop's history.
        let marked: Vec<(usize, &Arc<Turn>)> = {
            let mut listed: Vec<_> =
                self.newest_first().filter(|(number, _)| *number < self.scope.turns().len()).collect();
            listed.reverse();
            listed
        };
        let count = self.count(first) + usize::from(summary.is_some());
        let share = ((count as f64) * bounds.summarize_ratio).floor() as usize;
        // The summary before counts as the first of them, and covering it alone would change nothing.
        let before = usize::from(summary.is_some());
        let mut covered = share.max(1).max(before + 1) - before;
        covered = covered.min(marked.len());
        let heading = entry_tokens(tokenizer, &Entry::text(Role::Assistant, &format!("{SUMMARY_HEADING}\n")));
        let own: usize = self.own.iter().map(|turn| turn.spoken().tokens(tokenizer)).sum();
        let mut rest =
            own + marked.iter().skip(covered).map(|(_, turn)| turn.spoken().tokens(tokenizer)).sum::<usize>();
        let fits = |covered: usize, rest: usize| {
            let turns = (self.count(first) - covered) as u64 + 1;
            let tokens = (rest + heading) as u64 + ceiling;
            bounds.max_turns.is_none_or(|most| turns <= most)
                && bounds.max_tokens.is_none_or(|most| tokens <= most)
        };
        while covered < marked.len() && !fits(covered, rest) {
            rest -= marked.get(covered).map_or(0, |(_, turn)| turn.spoken().tokens(tokenizer));
            covered += 1;
        }
        // What stays begins with a user, where there is one.
        let user = marked.iter().skip(covered).position(|(_, turn)| turn.role == TurnRole::User);
        covered += user.unwrap_or(0);
        let until = marked.get(..covered)?.last().map(|(number, _)| number + 1)?;
        Some(Condensing {
            covers: until,
            turns: self.scope.turns().get(first..until)?.to_vec(),
            previous: summary.map(|summary| summary.text.clone()),
            ceiling,
        })
    }

    fn is_within(self, bounds: &Bounds, tokenizer: Tokenizer) -> bool {
        if self.fits_whole(bounds, tokenizer) {
            return true;
        }
        let mut room = HistoryRoom::of(bounds);
        self.summary().is_none_or(|summary| room.take(summary.spoken().tokens(tokenizer)))
            && self.newest_first().all(|(_, turn)| room.take(turn.spoken().tokens(tokenizer)))
    }
}

/// A wish for a summary.
#[derive(Clone, Debug)]
pub struct Condensing {
    /// How many of the oldest turns it shall stand for.
    pub covers: usize,
    /// Those of them that no earlier summary stands for.
    pub turns: Vec<Arc<Turn>>,
    /// The earlier summary, which it takes the place of.
    pub previous: Option<String>,
    /// Most tokens it may have.
    pub ceiling: u64,
}

impl Condensing {
    /// What its writer reads: the earlier summary, then turn after turn.
    pub fn text(&self) -> String {
        let previous = self.previous.iter().map(|text| format!("assistant: {SUMMARY_HEADING}\n{text}"));
        let turns =
            self.turns.iter().map(|turn| format!("{}: {}", crate::turns::role_of(turn.role), turn.text));
        previous.chain(turns).collect::<Vec<_>>().join("\n")
    }
}

/// Most tokens of a summary.
fn ceiling(bounds: &Bounds) -> u64 {
    bounds.max_tokens.map_or(USUAL_CEILING, |most| SHORTEST.max(most / 4))
}

/// What is left of the bounds while a history is gathered.
struct HistoryRoom {
    tokens: Option<u64>,
    turns: Option<u64>,
}

impl HistoryRoom {
    fn of(bounds: &Bounds) -> Self {
        HistoryRoom { tokens: bounds.max_tokens, turns: bounds.max_turns }
    }

    /// Takes one message of so many tokens, if there is room for it.
    fn take(&mut self, tokens: usize) -> bool {
        let turns = self.turns.map(|turns| turns.checked_sub(1));
        let tokens = self.tokens.map(|left| left.checked_sub(tokens as u64));
        if turns == Some(None) || tokens == Some(None) {
            return false;
        }
        (self.turns, self.tokens) = (turns.flatten(), tokens.flatten());
        true
    }
}

/// A text within a number of tokens, cut at the end of a sentence if one is near, else of a word.
pub fn shortened(text: &str, ceiling: u64, tokenizer: Tokenizer) -> String {
    let text = text.trim();
    if tokenizer.count(text) as u64 <= ceiling {
        return text.into();
    }
    // Places where a word ends, as bytes; the last that fits is found by halving.
    let ends: Vec<usize> =
        text.char_indices().filter(|(_, letter)| letter.is_whitespace()).map(|(at, _)| at).collect();
    let fits = |end: usize| tokenizer.count(text.get(..end).unwrap_or_default()) as u64 <= ceiling;
    let words = ends.partition_point(|end| fits(*end));
    let Some(end) = words.checked_sub(1).and_then(|last| ends.get(last)).copied() else {
        let mut letters: Vec<char> = text.chars().collect();
        while !letters.is_empty() && tokenizer.count(&letters.iter().collect::<String>()) as u64 > ceiling {
            letters.truncate(letters.len() * 3 / 4);
        }
        return letters.into_iter().collect();
    };
    let kept = text.get(..end).unwrap_or_default().trim_end();
    let sentence = kept.rfind(['.', '!', '?', '\n']).map(|at| at + 1).filter(|at| *at * 2 >= kept.len());
    kept.get(..sentence.unwrap_or(kept.len())).unwrap_or(kept).trim_end().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const T: Tokenizer = Tokenizer::Characters;

    fn turn(sequence: u64, role: TurnRole, text: &str) -> Arc<Turn> {
        Arc::new(Turn::new(EntryId { evaluation: Uuid::nil(), sequence }, role, None, text.into()))
    }

    /// Turns of 10 tokens each: 5 for the message around them, 5 for 20 letters. The user begins.
    fn scope(count: u64) -> LoopScope {
        let mut scope = LoopScope::default();
        for number in 0..count {
            let role = if number % 2 == 0 { TurnRole::User } else { TurnRole::Assistant };
            let text = format!("turn {number:>15}");
            let turn = turn(number, role, &text);
            scope.mark(turn);
        }
        scope
    }

    fn bounds(strategy: Strategy, max_tokens: Option<u64>, max_turns: Option<u64>) -> Bounds {
        Bounds { strategy, max_tokens, max_turns, summarizer: None, summarize_ratio: 0.5 }
    }

    fn told(scope: &LoopScope) -> AvailableTurns<'_> {
        AvailableTurns { scope, own: &[], input: None }
    }

    fn numbers(kept: &ChosenTurns) -> Vec<u64> {
        kept.turns.iter().map(|turn| turn.entry.sequence).collect()
    }

    fn size(scope: &LoopScope, number: usize) -> u64 {
        scope.turns()[number].spoken().tokens(T) as u64
    }

    #[test]
    fn bounds_hold_alone_and_together_and_the_newest_stay() {
        let scope = scope(6);
        let (user, assistant) = (size(&scope, 0), size(&scope, 1));
        let two = user + assistant;
        let cut = |tokens, turns| told(&scope).bounded(&bounds(Strategy::TruncateTokens, tokens, turns), T);
        assert_eq!(numbers(&cut(Some(two * 3), None)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(numbers(&cut(Some(two * 3 - 1), None)), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(&cut(None, Some(4))), [2, 3, 4, 5]);
        assert_eq!(numbers(&cut(Some(two), Some(4))), [4, 5]);
        let kept = cut(Some(two * 2), Some(1));
        assert_eq!((numbers(&kept), kept.left_out, kept.newest_too_large), (vec![5], 5, false));
        let none = cut(Some(1), None);
        assert!(none.is_empty() && none.newest_too_large && none.left_out == 6);
    }

    #[test]
    fn the_input_is_taken_out_wherever_it_stands() {
        let scope = scope(4);
        for taken in 0..4 {
            let input = Some(EntryId { evaluation: Uuid::nil(), sequence: taken });
            let kept = AvailableTurns { scope: &scope, own: &[], input }
                .bounded(&bounds(Strategy::TruncateTurns, None, Some(3)), T);
            let expected: Vec<u64> = (0..4).filter(|number| *number != taken).collect();
            assert_eq!((numbers(&kept), kept.left_out), (expected, 0));
        }
    }

    #[test]
    fn a_branch_sees_the_turns_of_the_loop_and_then_its_own() {
        let scope = scope(2);
        let own = [turn(9, TurnRole::Assistant, "mine")];
        let kept = AvailableTurns { scope: &scope, own: &own, input: None }
            .bounded(&bounds(Strategy::TruncateTurns, None, Some(2)), T);
        assert_eq!((numbers(&kept), kept.left_out), (vec![1, 9], 1));
    }

    #[test]
    fn nothing_is_condensed_within_the_bounds() {
        let scope = scope(4);
        let wanted = bounds(Strategy::Summarize, None, Some(4));
        assert!(told(&scope).plan(&wanted, T).is_none());
        assert!(told(&scope).plan(&bounds(Strategy::TruncateTurns, None, Some(1)), T).is_none());
    }

    #[test]
    fn the_oldest_half_is_condensed_up_to_a_user_and_more_if_that_is_not_enough() {
        let scope = scope(6);
        let plan = told(&scope).plan(&bounds(Strategy::Summarize, None, Some(5)), T);
        // Half of six is three; the fourth is an assistant's, so that goes too.
        assert_eq!(plan.as_ref().map(|plan| (plan.covers, plan.turns.len())), Some((4, 4)));
        assert!(plan.is_some_and(|plan| plan.text().starts_with("user: turn") && plan.previous.is_none()));
        let tight = told(&scope).plan(&bounds(Strategy::Summarize, None, Some(2)), T);
        assert_eq!(
            tight.map(|plan| plan.covers),
            Some(5),
            "one turn stays: no user's follows that it could stop before"
        );
        let by_tokens = told(&scope).plan(&bounds(Strategy::Summarize, Some(100), None), T);
        assert!(by_tokens.is_none_or(|plan| plan.ceiling == 64));
    }

    #[test]
    fn a_summary_stands_first_is_covered_by_the_next_and_is_the_last_to_go() {
        let mut scope = scope(8);
        scope.summary = Some(Arc::new(Condensed::new(4, "short".into())));
        let wanted = bounds(Strategy::Summarize, None, Some(4));
        let kept = told(&scope).bounded(&wanted, T);
        assert_eq!((numbers(&kept), kept.summary.is_some()), (vec![5, 6, 7], true));
        let only = told(&scope).bounded(&bounds(Strategy::Summarize, None, Some(1)), T);
        assert_eq!((only.turns.len(), only.summary.is_some(), only.left_out), (0, true, 4));
        let next = told(&scope).plan(&wanted, T);
        assert_eq!(next.as_ref().map(|plan| plan.previous.as_deref()), Some(Some("short")));
        assert!(next.is_some_and(
            |plan| plan.covers > 4 && plan.turns.first().map(|turn| turn.entry.sequence) == Some(4)
        ));
        let huge = "word ".repeat(400);
        scope.summary = Some(Arc::new(Condensed::new(4, huge)));
        let dropped = told(&scope).bounded(&bounds(Strategy::Summarize, Some(60), None), T);
        assert!(dropped.summary.is_none() && !dropped.turns.is_empty());
    }

    #[test]
    fn what_fits_as_it_was_said_is_sent_so_whoever_summarised_it() {
        let mut scope = scope(4);
        let wanted = bounds(Strategy::Summarize, None, Some(4));
        let before = numbers(&told(&scope).bounded(&wanted, T));
        scope.summary = Some(Arc::new(Condensed::new(3, "short".into())));
        let after = told(&scope).bounded(&wanted, T);
        assert_eq!((numbers(&after), after.summary.is_none(), after.left_out), (before, true, 0));
        let tight = told(&scope).bounded(&bounds(Strategy::Summarize, None, Some(3)), T);
        assert_eq!((numbers(&tight), tight.summary.is_some()), (vec![3], true));
    }

    #[test]
    fn what_failed_is_tried_again_when_more_was_said() {
        let mut scope = scope(6);
        scope.failed_at = Some(6);
        let wanted = bounds(Strategy::Summarize, None, Some(2));
        assert!(told(&scope).plan(&wanted, T).is_none());
        scope.mark(turn(6, TurnRole::User, "more"));
        assert!(told(&scope).plan(&wanted, T).is_some());
    }

    #[test]
    fn a_long_summary_is_cut_at_a_sentence_or_a_word() {
        let text = "One sentence here. Another one there. And a third that is long.";
        for ceiling in 1..20 {
            let short = shortened(text, ceiling, T);
            assert!(T.count(&short) as u64 <= ceiling && text.starts_with(&short), "{ceiling}: {short:?}");
        }
        assert_eq!(shortened(text, 10, T), "One sentence here. Another one there.");
        assert_eq!(
            shortened(&"x".repeat(4000), 10, T).len().min(40),
            shortened(&"x".repeat(4000), 10, T).len()
        );
    }
}
