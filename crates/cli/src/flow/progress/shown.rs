//! What the live display says: one line about the run, and the end of the reply that is being written.

use std::fmt::Write as _;

use scrollback_core::redact::Redactor;
use scrollback_flow::MicroDollars;
use scrollback_flow::driver::Telling;
use serde_json::Value;

use crate::amounts::{counted, dollars};

/// Bytes of a reply that are kept for its end to be shown. Enough that what a secret begins with is seen, too.
const KEPT: usize = 16 * 1024;

/// What is known about a run under way.
#[derive(Default)]
pub(super) struct LiveDisplay {
    step: String,
    /// The reply so far, or its end.
    reply: String,
    tokens: u64,
    /// What it cost so far; none if the price of any of it is not known.
    cost: Option<MicroDollars>,
    max_tokens: Option<u64>,
    max_cost: Option<MicroDollars>,
    /// Turns that were sent, and how many there are.
    turns: Option<(u64, u64)>,
    /// The loop by key, its iteration, and how many there are at most.
    iteration: Option<(String, u64, u64)>,
}

impl LiveDisplay {
    pub(super) fn new() -> Self {
        LiveDisplay { cost: Some(MicroDollars(0)), ..LiveDisplay::default() }
    }

    /// Takes in an event.
    pub(super) fn take(&mut self, told: &Telling) {
        let data = &told.data;
        let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        let amount = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_f64).and_then(MicroDollars::from_dollars)
        };
        match told.kind {
            "run.started" | "run.resumed" => {
                let limits = data.get("limits").unwrap_or(&Value::Null);
                self.max_tokens = limits.get("max_tokens").and_then(Value::as_u64);
                self.max_cost = amount(limits, "max_cost_usd");
                if let Some(usage) = data.get("usage") {
                    (self.tokens, self.cost) = (number(usage, "total_tokens"), amount(usage, "cost_usd"));
                }
            }
            "step.started" => {
                self.begin(told.key.as_deref().unwrap_or_default());
                self.turns = None;
            }
            "loop.iteration" => {
                let key = told.key.clone().unwrap_or_default();
                self.iteration = Some((key, number(data, "iteration"), number(data, "of")));
            }
            "agent.prompt" => {
                self.begin(told.key.as_deref().unwrap_or_default());
                self.turns = Some((number(data, "turns_sent"), number(data, "turns_total")));
            }
            "quota.reconciled" => {
                self.tokens = self.tokens.saturating_add(number(data, "tokens"));
                let sum = |one: MicroDollars, more: MicroDollars| MicroDollars(one.0.saturating_add(more.0));
                self.cost = self.cost.zip(amount(data, "cost_usd")).map(|(one, more)| sum(one, more));
            }
            _ => {}
        }
    }

    fn begin(&mut self, step: &str) {
        self.step = step.into();
        self.reply.clear();
    }

    /// Takes in a piece of a reply.
    pub(super) fn observe(&mut self, key: &str, text: &str) {
        if self.step != key {
            self.begin(key);
        }
        self.reply.push_str(text);
        if self.reply.len() > 2 * KEPT {
            // At the end of a word: no secret is cut in two.
            let from = self.reply.len() - KEPT;
            let word = self.reply.char_indices().find(|(at, letter)| *at >= from && letter.is_whitespace());
            let from = word.map_or(self.reply.len(), |(at, _)| at);
            self.reply.drain(..from);
        }
    }

    /// The display, in lines that are no wider than the terminal.
    pub(super) fn lines(&self, seconds: u64, width: usize, redactor: Option<&Redactor>) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(Some(self.step.clone()).filter(|step| !step.is_empty()));
        // Only while a step of that loop is under way.
        let around = self.iteration.as_ref().filter(|(key, ..)| self.step.starts_with(&format!("{key}[")));
        parts.extend(around.map(|(_, number, most)| format!("iteration {number} of {most}")));
        let turns = self.turns.filter(|(_, total)| *total > 0);
        parts.extend(turns.map(|(sent, total)| format!("turns {sent} of {total}")));
        parts.push(match self.max_tokens {
            Some(most) => format!("{} of {most} tokens", self.tokens),
            None => counted(self.tokens, "token"),
        });
        parts.extend(self.money());
        parts.push(elapsed(seconds));
        let mut shown = packed(&parts, width);
        let reply = self.said(redactor);
        if !reply.is_empty() {
            let _ = write!(shown, "\n  {}", fitting(&reply, width.saturating_sub(2), KeptEnd::Last));
        }
        shown
    }

    /// The end of the reply on one line. Its last word is shown once it is whole: half a secret looks like none.
    fn said(&self, redactor: Option<&Redactor>) -> String {
        let whole = self.reply.rfind(char::is_whitespace).and_then(|end| self.reply.get(..end));
        let (Some(whole), Some(redactor)) = (whole, redactor) else { return String::new() };
        redactor.text(whole).text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn money(&self) -> Option<String> {
        match (self.cost, self.max_cost) {
            (Some(cost), Some(most)) => Some(format!("{} of {}", dollars(cost), dollars(most))),
            (None, Some(most)) => Some(format!("unknown cost of {}", dollars(most))),
            (Some(cost), None) if cost.0 > 0 => Some(dollars(cost)),
            _ => None,
        }
    }
}

fn elapsed(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

/// Parts one after the other, in as many lines as they need.
fn packed(parts: &[String], columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if letters(line) + letters(part) + 3 <= columns => {
                line.push_str(" · ");
                line.push_str(part);
            }
            Some(_) => lines.push(format!("  {part}")),
            None => lines.push(part.clone()),
        }
    }
    lines.iter().map(|line| fitting(line, columns, KeptEnd::First)).collect::<Vec<_>>().join("\n")
}

/// Columns of a text.
fn letters(text: &str) -> usize {
    text.chars().map(wide).sum()
}

/// Which end of a text is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptEnd {
    First,
    Last,
}

/// A text within a number of columns.
fn fitting(text: &str, columns: usize, keep: KeptEnd) -> String {
    let clean: Vec<char> =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if clean.iter().map(|letter| wide(*letter)).sum::<usize>() <= columns {
        return clean.into_iter().collect();
    }
    let mut room = columns.saturating_sub(1);
    let mut takes = |letter: &char| {
        let fits = wide(*letter) <= room;
        room = if fits { room - wide(*letter) } else { 0 };
        fits
    };
    match keep {
        KeptEnd::First => clean.into_iter().take_while(&mut takes).chain(['…']).collect(),
        KeptEnd::Last => {
            let mut kept: Vec<char> = clean.into_iter().rev().take_while(&mut takes).collect();
            kept.push('…');
            kept.into_iter().rev().collect()
        }
    }
}

/// Columns of a letter: two where East Asian letters and pictures begin, which is never too few.
fn wide(letter: char) -> usize {
    if letter >= '\u{1100}' && !('\u{2000}'..'\u{2E80}').contains(&letter) { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use scrollback_core::Time;
    use scrollback_core::redact::Options;
    use serde_json::json;

    fn told(key: &str, kind: &'static str, data: Value) -> Telling {
        Telling { sequence: 0, at: Time(0), key: Some(key.into()), kind, data }
    }

    fn shown() -> LiveDisplay {
        let mut shown = LiveDisplay::new();
        shown.take(&told(
            "",
            "run.started",
            json!({ "limits": { "max_tokens": 5000, "max_cost_usd": 0.5 } }),
        ));
        shown.take(&told("chat", "loop.iteration", json!({ "iteration": 2, "of": 5 })));
        shown.take(&told("chat[2]/clarify", "step.started", json!({})));
        shown.take(&told("chat[2]/clarify", "agent.prompt", json!({ "turns_sent": 3, "turns_total": 4 })));
        shown.take(&told(
            "chat[2]/clarify",
            "quota.reconciled",
            json!({ "tokens": 120, "cost_usd": 0.00215 }),
        ));
        shown
    }

    #[test]
    fn it_says_where_the_run_is_what_it_cost_and_what_it_may_cost() {
        let mut shown = shown();
        let head = "chat[2]/clarify · iteration 2 of 5 · turns 3 of 4 · 120 of 5000 tokens · $0.00215 of $0.50 · 7 s";
        assert_eq!(shown.lines(7, 200, None), head);
        let redactor = Redactor::new(&Options::default()).unwrap();
        shown.observe("chat[2]/clarify", "Which date\n do you li");
        assert_eq!(shown.lines(7, 200, Some(&redactor)), format!("{head}\n  Which date do you"));
        let narrow = shown.lines(7, 40, Some(&redactor));
        let lines = [
            "chat[2]/clarify · iteration 2 of 5",
            "  turns 3 of 4 · 120 of 5000 tokens",
            "  $0.00215 of $0.50 · 7 s",
        ];
        assert_eq!(narrow, format!("{}\n  Which date do you", lines.join("\n")));
        assert!(shown.lines(7, 9, None).starts_with("chat[2]/…\n  iterat…\n"), "{}", shown.lines(7, 9, None));
        shown.take(&told("x", "quota.reconciled", json!({ "tokens": 1, "cost_usd": null })));
        assert!(shown.lines(0, 200, None).contains("unknown cost of $0.50"));
        shown.take(&told("ask", "step.started", json!({})));
        assert!(!shown.lines(0, 200, None).contains("iteration"), "the loop is over");
        let mut free = LiveDisplay::new();
        free.take(&told("a", "step.started", json!({})));
        assert_eq!(
            free.lines(61, 80, None),
            "a · 0 tokens · 1 min 01 s",
            "what costs nothing is not mentioned"
        );
    }

    #[test]
    fn a_run_that_goes_on_remembers_what_it_used() {
        let mut shown = LiveDisplay::new();
        let usage = json!({ "total_tokens": 900, "cost_usd": 1.5 });
        let limits = json!({ "max_tokens": null, "max_cost_usd": 2.0 });
        shown.take(&told("", "run.resumed", json!({ "limits": limits, "usage": usage })));
        assert_eq!(shown.lines(0, 80, None), "900 tokens · $1.50 of $2.00 · 0 s");
    }

    #[test]
    fn no_part_of_a_secret_is_shown_while_it_is_written() {
        let redactor = Redactor::new(&Options::default()).unwrap();
        let key = format!("sk-proj-{}", "aB3dE5".repeat(8));
        let mut shown = shown();
        shown.observe("chat[2]/clarify", "use ");
        for letter in key.chars() {
            shown.observe("chat[2]/clarify", &letter.to_string());
            assert!(
                !shown.lines(0, 200, Some(&redactor)).contains("sk-"),
                "{}",
                shown.lines(0, 200, Some(&redactor))
            );
        }
        shown.observe("chat[2]/clarify", " now ");
        assert!(shown.lines(0, 200, Some(&redactor)).ends_with("\n  use [redacted:openai] now"));
        // However long the reply is, what is kept of it begins with a whole word.
        for _ in 0..2000 {
            shown.observe("chat[2]/clarify", &format!("{key} and more "));
        }
        assert!(shown.reply.len() <= 2 * KEPT + key.len() + 10);
        assert!(!shown.lines(0, 4000, Some(&redactor)).contains("aB3dE5"));
    }

    #[test]
    fn wide_letters_do_not_break_lines() {
        assert_eq!(fitting("日本語", 6, KeptEnd::First), "日本語");
        assert_eq!(fitting("日本語", 5, KeptEnd::First), "日本…");
        assert_eq!(fitting("日本語", 4, KeptEnd::Last), "…語");
    }
}
