//! Replacing parts of strings, by strings, patterns and functions.

use super::collect::{arg, runtime, text, to_vector};
use super::each;
use super::regex::groups_value;
use super::strings::room;
use crate::error::Fault;
use crate::run::work::{Work, WorkNext};
use crate::run::{ClosureCaller, Context};
use crate::value::pattern::Groups;
use crate::value::{Pattern, Text, Value, Vector};

pub(super) fn replace(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    if let [replacements, collection] = args.as_slice() {
        // (replace smap coll): elements that are keys of the map become its values.
        let Value::Map(replacements) = replacements else {
            return cx.wrong("replace", "map", replacements, 1);
        };
        let items = to_vector(cx, "replace", collection, 2)?;
        cx.sequence(items.len())?;
        let mut out = Vec::with_capacity(items.len());
        for item in items.iter() {
            cx.key(item)?;
            out.push(replacements.get_exact(item).unwrap_or(item).clone());
        }
        return Ok(WorkNext::Value(Value::vector(out)));
    }
    replacing(cx, "replace", &args, usize::MAX)
}

pub(super) fn replace_first(cx: &mut Context, args: Vec<Value>) -> Result<WorkNext, Fault> {
    replacing(cx, "replace-first", &args, 1)
}

/// Replaces up to `most` matches.
fn replacing(cx: &mut Context, who: &'static str, args: &[Value], most: usize) -> Result<WorkNext, Fault> {
    let text = text(cx, who, args, 0)?;
    match (arg(args, 1), arg(args, 2)) {
        (Value::Str(part), Value::Str(replacement)) => {
            cx.meter.visit(text.bytes() / 8)?;
            let hits = text.as_str().matches(part.as_str()).take(most).count();
            cx.meter.reserve(text.bytes() + hits.saturating_mul(replacement.bytes()) + 48)?;
            cx.meter.visit(hits)?;
            Ok(WorkNext::Value(Value::str(text.as_str().replacen(part.as_str(), replacement.as_str(), hits))))
        }
        (Value::Str(_), other) => cx.wrong(who, "string", other, 3),
        (Value::Regex(pattern), replacement) => {
            let matches = all_matches(cx, &text, pattern, most)?;
            match replacement {
                Value::Str(template) => {
                    let mut texts = Vec::with_capacity(matches.len());
                    for groups in &matches {
                        texts.push(expand(text.as_str(), groups, template.as_str())?);
                    }
                    assemble(cx, &text, &matches, &texts).map(WorkNext::Value)
                }
                function => {
                    let found: Vector =
                        matches.iter().map(|groups| groups_value(text.as_str(), groups)).collect();
                    cx.sequence(found.len() * 4)?;
                    // The text and the pattern are needed again when all results are there.
                    let finish = WorkNext::Work(Box::new(ReplaceBy {
                        text,
                        pattern: pattern.clone(),
                        most,
                        calls: match each::calls(function.clone(), found, |cx, out, _| cx.vector(out)) {
                            WorkNext::Work(calls) => calls,
                            other => return Ok(other),
                        },
                    }));
                    Ok(finish)
                }
            }
        }
        (other, _) => cx.wrong(who, "pattern or string", other, 2),
    }
}

/// Replacing by a function whose results are still being computed.
struct ReplaceBy {
    text: Text,
    pattern: Pattern,
    most: usize,
    calls: Box<dyn Work>,
}

impl Work for ReplaceBy {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        caller: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        match self.calls.step(cx, answer, caller)? {
            WorkNext::Value(Value::Vector(results)) => {
                let mut texts = Vec::with_capacity(results.len());
                for result in results.iter() {
                    texts.push(if matches!(result, Value::Nil) {
                        String::new()
                    } else {
                        cx.display(result)?
                    });
                }
                let matches = all_matches(cx, &self.text, &self.pattern, self.most)?;
                assemble(cx, &self.text, &matches, &texts).map(WorkNext::Value)
            }
            other => Ok(other),
        }
    }

    fn function(&self) -> Option<&Value> {
        self.calls.function()
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&Value::Str(self.text.clone()));
        self.calls.trace(see);
    }
}

/// The matches of a pattern that do not overlap.
pub(super) fn all_matches(
    cx: &mut Context,
    text: &Text,
    pattern: &Pattern,
    most: usize,
) -> Result<Vec<Groups>, Fault> {
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() < most && from <= text.bytes() {
        let groups = pattern.find(text.as_str(), from, &mut |units| cx.meter.charge(units))?;
        let Some(groups) = groups else { break };
        let Some((start, end)) = groups.first().copied().flatten() else { break };
        cx.meter.reserve(groups.len() * 24 + 32)?;
        // After an empty match the search goes on behind the next character.
        from = if end > start { end } else { end + next_char(text.as_str(), end) };
        found.push(groups);
    }
    Ok(found)
}

fn next_char(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
}

/// The text with each match replaced.
fn assemble(cx: &mut Context, text: &Text, matches: &[Groups], texts: &[String]) -> Result<Value, Fault> {
    let mut out = String::new();
    let mut from = 0;
    for (groups, replacement) in matches.iter().zip(texts) {
        let Some((start, end)) = groups.first().copied().flatten() else { continue };
        let before = text.as_str().get(from..start).unwrap_or_default();
        room(cx, &out, before.len() + replacement.len())?;
        out.push_str(before);
        out.push_str(replacement);
        from = end;
    }
    out.push_str(text.as_str().get(from..).unwrap_or_default());
    cx.text(out)
}

/// A replacement with `$1` filled in; a backslash takes the next character as it is.
fn expand(text: &str, groups: &Groups, template: &str) -> Result<String, Fault> {
    let mut out = String::new();
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '$' => {
                let Some(first) = chars.next().and_then(|digit| digit.to_digit(10)) else {
                    return runtime(
                        "replace: in a replacement, $ stands before the number of a group; write \\$ for the sign",
                    );
                };
                let mut group = first as usize;
                // As many digits as there are groups for.
                while let Some(digit) = chars.peek().and_then(|digit| digit.to_digit(10)) {
                    let longer = group * 10 + digit as usize;
                    if longer >= groups.len() {
                        break;
                    }
                    group = longer;
                    chars.next();
                }
                match groups.get(group) {
                    Some(Some((start, end))) => out.push_str(text.get(*start..*end).unwrap_or_default()),
                    Some(None) => {}
                    None => return runtime(format!("replace: the pattern has no group {group}")),
                }
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
