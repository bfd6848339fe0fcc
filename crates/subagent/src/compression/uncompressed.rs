//! Every turn as it was: the reply, then what it came to. Each request is a prefix of the next.

use scrollback_core::Role;
use scrollback_lisp::{Memory, Value};

use super::coalesced::told_before;
use super::stats::{ShownCount, Stats};
use super::{Coalescing, Compression, PromptMessage, PromptSource, Rendered, TurnLedger, system_message};
use crate::input::{Input, turns_line};
use crate::show::{Private, Show, graphemes};
use crate::turn::Turn;

/// Graphemes of what one turn printed.
const OUTPUT: usize = 8000;
/// How results are shown.
const RESULT: Show = Show { limit: 50, width: 500, private: Private::Shown };

/// No compression: the whole history.
#[derive(Clone, Debug, Default)]
pub struct Uncompressed {
    /// How the data at the beginning is shown.
    pub shown: Coalescing,
}

impl Compression for Uncompressed {
    fn name(&self) -> &'static str {
        "off"
    }

    fn shown(&self) -> &Coalescing {
        &self.shown
    }

    fn render(&self, ledger: &TurnLedger, turns: &[Turn], _: &Memory, input: &Input) -> Rendered {
        let whole = whole(self.name(), ledger, turns, input, &self.shown);
        let cut = ledger.cut_before();
        // Only a request that was too large leaves turns out.
        let Some((messages, heading)) = told_before(cut, &self.shown, ledger, turns, input) else {
            return whole;
        };
        let gone = ledger.after(cut);
        let shown = |all: usize, gone: usize| ShownCount::of(all, all - gone);
        let stats = Stats {
            turns_compressed: cut,
            tool_calls: shown(whole.stats.tool_calls.total, gone.calls),
            printlns: shown(whole.stats.printlns.total, gone.prints),
            error_turns_collapsed: gone.failures,
            ..whole.stats
        };
        Rendered { messages, heading, stats }
    }
}

/// The whole history, also as what a strategy sends that is not yet at work.
pub(super) fn whole(
    strategy: &'static str,
    ledger: &TurnLedger,
    turns: &[Turn],
    input: &Input,
    options: &Coalescing,
) -> Rendered {
    let (first, heading) = uncompressed_user(input, options);
    let mut messages = vec![system_message(input), first];
    messages.extend(raw_turns(ledger, turns, 0, input));
    Rendered { messages, heading, stats: all_shown(strategy, ledger, turns) }
}

/// Turns from one on, as they were.
pub(super) fn raw_turns<'a>(
    ledger: &'a TurnLedger,
    turns: &'a [Turn],
    from: usize,
    input: &'a Input,
) -> impl Iterator<Item = PromptMessage> + 'a {
    turns.iter().enumerate().skip(from).flat_map(move |(at, turn)| {
        let told = feedback(turn, ledger.turns_left(at + 1, input));
        [
            PromptMessage { role: Role::Assistant, text: reply_text(turn), source: PromptSource::Reply(at) },
            PromptMessage { role: Role::User, text: told, source: PromptSource::Feedback(at) },
        ]
    })
}

/// The numbers where nothing is left out.
fn all_shown(strategy: &'static str, ledger: &TurnLedger, turns: &[Turn]) -> Stats {
    let sums = ledger.after(turns.len());
    Stats {
        strategy,
        triggered: false,
        turns: turns.len(),
        turns_compressed: 0,
        tool_calls: ShownCount::all(sums.calls),
        printlns: ShownCount::all(sums.prints),
        error_turns_collapsed: 0,
        tokens: None,
    }
}

/// The first user message before any turn, and how much of it never changes.
pub(super) fn uncompressed_user(input: &Input, options: &Coalescing) -> (PromptMessage, usize) {
    let heading = input.heading(options);
    let text = format!("{heading}\n\n{}", turns_line(input.turns_left(0, 0)));
    (PromptMessage { role: Role::User, text, source: PromptSource::Mission }, heading.len())
}

/// The reply; where only its program is known, that in a fence.
pub(super) fn reply_text(turn: &Turn) -> String {
    match (&turn.program, turn.raw_response.is_empty()) {
        (Some(program), true) => format!("```clojure\n{program}\n```"),
        _ => turn.raw_response.clone(),
    }
}

/// What a turn came to, as the model is told after it.
pub(crate) fn feedback(turn: &Turn, turns_left: usize) -> String {
    let mut parts = Vec::new();
    if !turn.prints.is_empty() {
        parts.push(output(&turn.prints));
    }
    match (&turn.error, &turn.result) {
        (Some(error), _) => parts.push(format!("Error: {}", error.message)),
        (None, Some(value)) if !matches!(value, Value::Nil | Value::Var(_)) => {
            parts.push(format!("Result: {}", RESULT.value(value)));
        }
        _ => {}
    }
    if !turn.defined.is_empty() {
        parts.push(format!("Stored: {}", turn.defined.join(", ")));
    }
    parts.push(turns_line(turns_left));
    parts.join("\n\n")
}

fn output(prints: &[String]) -> String {
    let mut lines = vec![";; Output:".to_string()];
    let mut room = OUTPUT;
    for (at, entry) in prints.iter().enumerate() {
        let Some(left) = room.checked_sub(graphemes(entry)) else {
            lines.push(format!("; ... {} more not shown", prints.len() - at));
            break;
        };
        room = left;
        lines.push(entry.clone());
    }
    lines.join("\n")
}
