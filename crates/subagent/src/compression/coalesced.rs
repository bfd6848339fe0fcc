//! Everything the turns came to, in one user message: definitions, tool calls, output, the last error.

use scrollback_core::Role;
use scrollback_lisp::{Definition, Memory, ToolRecord, Value};

use super::ledger::Sums;
use super::stats::{ShownCount, Stats};
use super::uncompressed::{raw_turns, whole};
use super::{
    Coalescing, Compression, PromptMessage, PromptSource, Rendered, ToolResults, TurnLedger, system_message,
};
use crate::input::{Input, turns_line};
use crate::show::{has_sample, one_line, pad, remark, shorten, type_label};
use crate::turn::Turn;

/// One user message for all turns: the default.
///
/// Nothing that was found out is lost from sight: values have samples or were printed, results of tools that were not
/// printed are shown, and so are calls of turns that failed, because what they did is done.
#[derive(Clone, Debug, Default)]
pub struct SingleUserCoalesced {
    /// How much is shown.
    pub options: Coalescing,
}

impl SingleUserCoalesced {
    /// What it is called.
    pub const NAME: &'static str = "single_user_coalesced";
}

impl Compression for SingleUserCoalesced {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn shown(&self) -> &Coalescing {
        &self.options
    }

    fn render(&self, ledger: &TurnLedger, turns: &[Turn], memory: &Memory, input: &Input) -> Rendered {
        if ledger.cut_before() == 0 && !ledger.triggered(turns, input, &self.options) {
            return whole(self.name(), ledger, turns, input, &self.options);
        }
        let heading = input.heading(&self.options);
        let heading_length = heading.len();
        let sums = ledger.after(turns.len());
        let told = CoalescedTurns { options: &self.options, ledger, sums, turns, memory, input };
        let mut parts = vec![heading];
        parts.extend(told.parts());
        parts.extend(told.error());
        parts.push(turns_line(ledger.turns_left(turns.len(), input)));
        let user = PromptMessage {
            role: Role::User,
            text: parts.join("\n\n"),
            source: PromptSource::Coalesced(turns.len()),
        };
        let failing = turns.last().is_some_and(|turn| !turn.success());
        let (calls, prints) = ledger.showable(sums);
        Rendered {
            messages: vec![system_message(input), user],
            heading: heading_length,
            stats: Stats {
                strategy: self.name(),
                triggered: true,
                turns: turns.len(),
                turns_compressed: turns.len(),
                tool_calls: ShownCount::of(sums.calls, calls.min(self.options.tool_call_limit)),
                printlns: ShownCount::of(sums.prints, prints.min(self.options.println_limit)),
                error_turns_collapsed: sums.failures - usize::from(failing),
                tokens: None,
            },
        }
    }
}

/// Turns that are being told of in one message.
struct CoalescedTurns<'a> {
    options: &'a Coalescing,
    ledger: &'a TurnLedger,
    sums: Sums,
    turns: &'a [Turn],
    memory: &'a Memory,
    input: &'a Input,
}

impl CoalescedTurns<'_> {
    /// Definitions, tool calls and output; what there is of them.
    fn parts(&self) -> impl Iterator<Item = String> {
        [self.definitions(), self.calls(), self.output()].into_iter().flatten()
    }

    /// What was defined: functions, then values, then the last value.
    fn definitions(&self) -> Option<String> {
        let private = self.options.private();
        let shown = || self.memory.iter().filter(|(name, _)| private.shows(name));
        let functions = shown().filter_map(|(name, definition)| {
            let parameters = definition.parameters()?;
            Some(function_line(name, &parameters, definition))
        });
        let values = shown()
            .filter(|(_, definition)| definition.parameters().is_none())
            .map(|(name, definition)| self.value_line(name, definition));
        let mut lines: Vec<String> = functions.chain(values).chain(self.last_value()).collect();
        if lines.is_empty() {
            return None;
        }
        lines.insert(0, ";; === user/ (your prelude) ===".into());
        Some(lines.join("\n"))
    }

    fn value_line(&self, name: &str, definition: &Definition) -> String {
        let nil = Value::Nil;
        let value = definition.value.as_ref().unwrap_or(&nil);
        let doc = documentation(definition).map_or_else(String::new, |doc| format!("\"{doc}\" "));
        let defined_in = self.ledger.defined_in(name, self.sums);
        format!("{}; {doc}= {}", pad(name), self.typed(value, defined_in))
    }

    /// The value of the last turn that succeeded.
    fn last_value(&self) -> Option<String> {
        let at = self.sums.succeeded.filter(|_| self.options.last_result)?;
        let value = self.turns.get(at)?.result.as_ref()?;
        if matches!(value, Value::Nil | Value::Var(_)) {
            return None;
        }
        Some(format!("{}; = {}", pad("*1"), self.typed(value, Some(at))))
    }

    /// The type of a value, and a sample unless the turn that made it printed what there was to see.
    fn typed(&self, value: &Value, made_in: Option<usize>) -> String {
        let printed = made_in.is_some_and(|at| self.printed(at));
        let sample = if has_sample(value) && !printed { self.options.sample(value) } else { String::new() };
        format!("{}{sample}", type_label(value))
    }

    /// Whether what a turn printed can be read in the request, or could be if it were newer.
    fn printed(&self, at: usize) -> bool {
        at >= self.ledger.cut_before() && self.turns.get(at).is_some_and(|turn| !turn.prints.is_empty())
    }

    /// The newest tool calls of all turns.
    fn calls(&self) -> Option<String> {
        if self.turns.is_empty() || (self.input.tools.is_empty() && self.sums.calls == 0) {
            return None;
        }
        if self.sums.calls == 0 {
            return Some(";; No tool calls made".into());
        }
        let newest = newest(self.ledger.calling(self.sums), self.options.tool_call_limit, |at| {
            self.turns.get(at).map_or(&[], |turn| &turn.tool_calls)
        });
        let mut lines = vec![";; Tool calls made:".to_string()];
        lines.extend(self.dropped(self.sums.calls - newest.len(), ";   "));
        lines.extend(newest.into_iter().rev().map(|(at, call)| self.call_line(at, call)));
        Some(lines.join("\n"))
    }

    fn call_line(&self, at: usize, call: &ToolRecord) -> String {
        let failed = self.turns.get(at).filter(|turn| !turn.success());
        let result = match &call.result {
            Err(error) => {
                let error = one_line(error);
                format!(" => error: {}", shorten(&error, self.options.sample_printable_limit))
            }
            Ok(result) => {
                let shown = match self.options.tool_results {
                    ToolResults::Auto => failed.is_some() || !self.printed(at),
                    ToolResults::Never => false,
                    ToolResults::Always => true,
                };
                if shown { format!(" => {}", self.options.show().value(result)) } else { String::new() }
            }
        };
        let mark = failed.map_or_else(String::new, |turn| format!("  ; turn {} failed", turn.number));
        format!(";   {}({}){result}{mark}", call.name, self.options.show_arguments().arguments(&call.args))
    }

    /// The newest texts that successful turns printed.
    fn output(&self) -> Option<String> {
        if self.sums.prints == 0 {
            return None;
        }
        let newest = newest(self.ledger.printing(self.sums), self.options.println_limit, |at| {
            self.turns.get(at).map_or(&[], |turn| &turn.prints)
        });
        let mut lines = vec![";; Output:".to_string()];
        lines.extend(self.dropped(self.sums.prints - newest.len(), "; "));
        lines.extend(newest.into_iter().rev().map(|(_, entry)| self.options.fenced(entry)));
        Some(lines.join("\n"))
    }

    fn dropped(&self, count: usize, margin: &str) -> Option<String> {
        (count > 0 && self.options.note_dropped).then(|| format!("{margin}... {count} earlier not shown"))
    }

    /// The last turn, if it failed: what was tried, and what went wrong.
    fn error(&self) -> Option<String> {
        let turn = self.turns.last()?;
        let error = turn.error.as_ref()?;
        let program = turn.program.as_deref().map(|program| program.trim_end_matches('\n'));
        let program = program.unwrap_or("(no program found in the reply)");
        let mut fence = "```".to_string();
        while program.contains(&fence) {
            fence.push('`');
        }
        let mut lines = vec![
            "---".to_string(),
            "Your previous attempt:".into(),
            format!("{fence}clojure"),
            program.into(),
            fence,
            String::new(),
            format!("Error: {}", error.message),
        ];
        if self.options.failed_output && !turn.prints.is_empty() {
            lines.extend([String::new(), "Output before the error:".into()]);
            let first = turn.prints.len().saturating_sub(self.options.println_limit);
            lines.extend(turn.prints.iter().skip(first).map(|entry| self.options.fenced(entry)));
        }
        lines.push("---".into());
        Some(lines.join("\n"))
    }
}

/// The first turns in one message, the others as they were; and how many bytes of that message never change.
pub(super) fn told_before(
    cut: usize,
    options: &Coalescing,
    ledger: &TurnLedger,
    turns: &[Turn],
    input: &Input,
) -> Option<(Vec<PromptMessage>, usize)> {
    // What stands before the cut is the same until the cut moves, so it is told as it was at the cut.
    let old = turns.get(..cut)?;
    let told = CoalescedTurns {
        options,
        ledger,
        sums: ledger.after(cut),
        turns: old,
        memory: &old.last()?.memory,
        input,
    };
    let heading = input.heading(options);
    let length = heading.len();
    let parts: Vec<String> = [heading].into_iter().chain(told.parts()).collect();
    let user =
        PromptMessage { role: Role::User, text: parts.join("\n\n"), source: PromptSource::Coalesced(cut) };
    let messages = [system_message(input), user].into_iter().chain(raw_turns(ledger, turns, cut, input));
    Some((messages.collect(), length))
}

/// The newest items of the turns that have any, newest first, each with its turn.
fn newest<'t, T>(turns: &[usize], limit: usize, items: impl Fn(usize) -> &'t [T]) -> Vec<(usize, &'t T)> {
    let all = turns.iter().rev().flat_map(|&at| items(at).iter().rev().map(move |item| (at, item)));
    all.take(limit).collect()
}

fn function_line(name: &str, parameters: &str, definition: &Definition) -> String {
    let head = format!("({name} {parameters})");
    let doc = documentation(definition).map(|doc| format!("\"{doc}\""));
    let returns = definition.returns.as_deref().map(|returns| format!("-> {returns}"));
    let remarks: Vec<String> = doc.into_iter().chain(returns).collect();
    if remarks.is_empty() { head } else { format!("{}; {}", pad(&head), remarks.join(" ")) }
}

fn documentation(definition: &Definition) -> Option<String> {
    remark(definition.doc.as_ref()?.as_str())
}
