//! What a mission did, for people and for programs: turn by turn, and what each call was really sent.

use std::fmt::Write;
use std::time::Duration;

use scrollback_core::tokens::Method;
use scrollback_lisp::ToolRecord;
use serde_json::{Value as Json, json};

use super::compression::{PromptSource, Rendered};
use super::show::{Private, Show, shorten};
use super::step::{Sent, SentCall, Step};
use super::turn::Turn;

/// Graphemes of a block that are shown.
const SHOWN: usize = 200;
/// How arguments are shown.
const ARGUMENTS: Show = Show { limit: 3, width: 60, private: Private::Shown };
/// How results are shown.
const RESULT: Show = Show { limit: 3, width: 80, private: Private::Shown };

/// What is shown of a mission. Views combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "views are asked for one by one, and combine")]
pub struct Views {
    /// Each turn: program, calls, output, result.
    pub turns: bool,
    /// The user text of each call.
    pub compressed: bool,
    /// Whole replies, and every message of each call.
    pub raw: bool,
    /// Tokens and time.
    pub usage: bool,
    /// Whether nothing is shortened.
    pub full: bool,
}

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// What kind of line it is.
    pub kind: LineKind,
    /// What it says.
    pub text: String,
}

/// Kinds of lines, which a terminal may tell apart by colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// The beginning of a turn or call that went well.
    Heading,
    /// The beginning of one that did not.
    Failed,
    /// What the lines below it are.
    Label,
    /// Anything else.
    Plain,
}

/// Whether what is shown is what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentCheck {
    /// It has the hash that was written down when it was sent.
    Same,
    /// It has another one.
    Different,
}

impl Sent {
    /// What a call was sent, made again from what it was made of, and whether it is the same.
    pub fn again(&self, call: &SentCall, turns: &[Turn]) -> (Rendered, SentCheck) {
        let turns = turns.get(..call.turns).unwrap_or(turns);
        let rendered = call.tightened.to_messages(&*self.compression.build(), turns, &self.input);
        let check = if rendered.hash() == call.hash { SentCheck::Same } else { SentCheck::Different };
        (rendered, check)
    }

    /// Every call with its messages, as programs read it.
    pub fn calls_json(&self, turns: &[Turn]) -> Vec<Json> {
        let call = |call: &SentCall| {
            let (rendered, check) = self.again(call, turns);
            let mut told =
                json!({ "messages": rendered.messages_json(), "stats": call.stats, "view": call.view });
            if check == SentCheck::Different {
                told["mismatch"] = json!(true);
            }
            told
        };
        self.calls.iter().map(call).collect()
    }
}

/// The trace of a mission.
pub fn print_trace(turns: &[Turn], sent: &Sent, views: Views) -> Vec<TraceLine> {
    let mut out = Lines(Vec::new());
    if turns.is_empty() && sent.calls.is_empty() {
        out.plain("no turns: the mission ended before the model was asked");
        return out.0;
    }
    let calls = sent.calls.len().max(turns.len());
    for at in 0..calls {
        let call = sent.calls.get(at);
        if views.compressed || views.raw {
            out.call(at, call, turns, sent, views);
        }
        if let Some(turn) = turns.get(at).filter(|_| views.turns || views.raw) {
            out.turn(turn, views);
        }
    }
    if views.usage {
        out.usage(turns, sent);
    }
    out.0
}

/// One line per step of a chain: name, end, turns, time.
pub fn print_chain(steps: &[&Step]) -> Vec<String> {
    let line = |step: &&Step| {
        let time: Duration = step.turns.iter().map(|turn| turn.usage.time).sum();
        let time = time.as_secs_f64();
        format!("{}  {}  {}  {time:.1} s", step.name, step.end().as_str(), counted(step.turns.len(), "turn"))
    };
    steps.iter().map(line).collect()
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

struct Lines(Vec<TraceLine>);

impl Lines {
    fn push(&mut self, kind: LineKind, text: impl Into<String>) {
        self.0.push(TraceLine { kind, text: text.into() });
    }

    fn plain(&mut self, text: impl Into<String>) {
        self.push(LineKind::Plain, text);
    }

    /// A block under its name; nothing if it is empty.
    fn block(&mut self, name: &str, text: &str, views: Views) {
        if text.is_empty() {
            return;
        }
        self.push(LineKind::Label, format!("  {name}"));
        let text = if views.full { text.into() } else { shorten(text, SHOWN) };
        for line in text.lines() {
            self.plain(format!("    {line}"));
        }
    }

    fn turn(&mut self, turn: &Turn, views: Views) {
        let (kind, word) =
            if turn.success() { (LineKind::Heading, "ok") } else { (LineKind::Failed, "failed") };
        let seconds = turn.usage.time.as_secs_f64();
        let calls = counted(turn.tool_calls.len(), "call");
        self.push(kind, format!("turn {}  {word}  {seconds:.1} s  {calls}", turn.number));
        if views.raw {
            self.block("reply", &turn.raw_response, Views { full: true, ..views });
        }
        self.block("program", turn.program.as_deref().unwrap_or("(no program found in the reply)"), views);
        let calls: Vec<String> = turn.tool_calls.iter().map(|call| call_line(call, views)).collect();
        self.block("calls", &calls.join("\n"), views);
        self.block("output", &turn.prints.join("\n"), views);
        if let Some(error) = &turn.error {
            self.block("error", &format!("{}: {}", error.reason, error.message), views);
        } else {
            let result = turn.result.as_ref().map(ToString::to_string).unwrap_or_default();
            self.block("result", &result, views);
        }
    }

    fn call(&mut self, at: usize, call: Option<&SentCall>, turns: &[Turn], sent: &Sent, views: Views) {
        let Some(call) = call else { return };
        let (rendered, check) = sent.again(call, turns);
        let strategy = call.stats.strategy;
        match check {
            SentCheck::Same => self.push(LineKind::Heading, format!("call {}  {strategy}", at + 1)),
            SentCheck::Different => {
                let text = format!("call {}  {strategy}  MISMATCH: this is not what was sent", at + 1);
                self.push(LineKind::Failed, text);
            }
        }
        for message in &rendered.messages {
            let is_user = matches!(
                message.source,
                PromptSource::Mission | PromptSource::Coalesced(_) | PromptSource::Feedback(_)
            );
            if views.raw || is_user {
                self.push(LineKind::Label, format!("  {}", message.role));
                message.text.lines().for_each(|line| self.plain(format!("    {line}")));
            }
        }
    }

    fn usage(&mut self, turns: &[Turn], sent: &Sent) {
        self.push(LineKind::Heading, "usage");
        for (at, call) in sent.calls.iter().enumerate() {
            let turn = turns.get(at);
            let used = turn.map(|turn| turn.usage.model.clone()).unwrap_or_default();
            let how = if used.estimated { "estimated" } else { "reported" };
            let mut line = format!("  call {}  {} in, {} out ({how})", at + 1, used.input, used.output);
            if let Some(tokens) = call.stats.tokens {
                let exact = if tokens.counter.method == Method::Exact { "exact" } else { "estimated" };
                let system = tokens.counter.tokenizer.count(&sent.input.system);
                let _ = write!(
                    line,
                    "; {} tokens before compression, {} after ({}, {exact}); {}% system",
                    tokens.before,
                    tokens.after,
                    tokens.counter.tokenizer.name(),
                    system * 100 / tokens.after.max(1)
                );
            }
            if used.cache_read > 0 {
                let _ = write!(line, "; {} read from cache", used.cache_read);
            }
            if let Some(turn) = turn {
                let (time, memory) = (turn.usage.time.as_secs_f64(), turn.usage.memory_bytes);
                let _ = write!(line, "; {time:.3} s, {memory} bytes");
            }
            self.plain(line);
        }
        if let Some(stats) = sent.calls.last().map(|call| &call.stats) {
            self.plain(format!(
                "  {}: {} of {} turns compressed, {} of {} tool calls and {} of {} prints shown, {} failures collapsed",
                stats.strategy,
                stats.turns_compressed,
                stats.turns,
                stats.tool_calls.shown,
                stats.tool_calls.total,
                stats.printlns.shown,
                stats.printlns.total,
                stats.error_turns_collapsed
            ));
        }
    }
}

fn call_line(call: &ToolRecord, views: Views) -> String {
    let result = match (&call.result, views.full) {
        (Ok(value), true) => value.to_string(),
        (Ok(value), false) => RESULT.value(value),
        (Err(error), _) => format!("error: {error}"),
    };
    format!("{}({}) => {result}", call.name, ARGUMENTS.arguments(&call.args))
}
