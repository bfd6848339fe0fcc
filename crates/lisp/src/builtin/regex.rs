//! Regular expressions.

use super::collect::{arg, integer, runtime};
use super::replace::all_matches;
use super::strings::{drop_empty_end, strings};
use super::table::{Builtin, pure};
use crate::error::{Error, Fault, Reason};
use crate::run::Context;
use crate::value::pattern::Groups;
use crate::value::{Pattern, Text, Value};

pub(super) const TABLE: &[Builtin] = &[
    pure(
        "re-pattern",
        (1, 1),
        "text",
        "the pattern of this text",
        "(re-find (re-pattern \"b+\") \"abb\") ; => \"bb\"",
        re_pattern,
    ),
    pure(
        "re-find",
        (2, 2),
        "pattern text",
        "the first match, with its groups if it has some, or nil",
        "(re-find #\"(\\d)-(\\w)\" \"1-b\") ; => [\"1-b\" \"1\" \"b\"]",
        re_find,
    ),
    pure(
        "re-matches",
        (2, 2),
        "pattern text",
        "the match of the whole text, or nil",
        "(re-matches #\"a+\" \"aab\") ; => nil",
        re_matches,
    ),
    pure(
        "re-seq",
        (2, 2),
        "pattern text",
        "all matches, or nil if there are none",
        "(re-seq #\"\\d\" \"a1b2\") ; => [\"1\" \"2\"]",
        re_seq,
    ),
    pure(
        "re-split",
        (2, 2),
        "pattern text",
        "the parts between matches",
        "(re-split #\",\" \"a,b\") ; => [\"a\" \"b\"]",
        re_split,
    ),
    pure(
        "extract",
        (2, 3),
        "pattern text group?",
        "the first group of the first match, or the match, or nil",
        "(extract #\"id=(\\d+)\" \"x id=42\") ; => \"42\"",
        extract,
    ),
    pure(
        "extract-int",
        (2, 4),
        "pattern text group? default?",
        "the same as an integer",
        "(extract-int #\"id=(\\d+)\" \"x id=42\") ; => 42",
        extract_int,
    ),
];

/// A pattern and a text; nil as text is no match.
fn subject(cx: &Context, who: &str, args: &[Value]) -> Result<Option<(Pattern, Text)>, Fault> {
    let pattern = match arg(args, 0) {
        Value::Regex(pattern) => pattern.clone(),
        Value::Str(_) if matches!(arg(args, 1), Value::Regex(_)) => {
            let message = format!("{who}: expected pattern, got string (argument 1)");
            let hint = format!("arguments look swapped: ({who} pattern text)");
            return Err(Box::new(Error::new(Reason::TypeError, message).hint(hint)));
        }
        other => return cx.wrong(who, "pattern", other, 1),
    };
    match arg(args, 1) {
        Value::Str(text) => Ok(Some((pattern, text.clone()))),
        Value::Nil => Ok(None),
        other => cx.wrong(who, "string", other, 2),
    }
}

/// A match as programs see it: the text, or a vector of the text and its groups.
pub(super) fn groups_value(text: &str, groups: &Groups) -> Value {
    let part = |group: &Option<(usize, usize)>| {
        group.and_then(|(start, end)| text.get(start..end)).map(Value::from).unwrap_or_default()
    };
    match groups.as_slice() {
        [whole] => part(whole),
        groups => Value::vector(groups.iter().map(part)),
    }
}

/// Pays for the value of a match.
fn found(cx: &mut Context, text: &Text, groups: &Groups) -> Result<Value, Fault> {
    let bytes: usize = groups.iter().flatten().map(|(start, end)| end - start + 64).sum();
    cx.meter.reserve(bytes + 128)?;
    Ok(groups_value(text.as_str(), groups))
}

fn re_pattern(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match arg(args, 0) {
        pattern @ Value::Regex(_) => Ok(pattern.clone()),
        Value::Str(text) => {
            cx.meter.charge(2000 + text.bytes() as u64 * 500)?;
            cx.meter.reserve(64 << 10)?;
            match Pattern::compile(&literal(text.as_str())) {
                Ok(pattern) => Ok(Value::Regex(pattern)),
                Err(bad) => {
                    let mut error = Error::new(Reason::RuntimeError, format!("re-pattern: {}", bad.message));
                    error.hint = bad.hint.map(Into::into);
                    Err(Box::new(error))
                }
            }
        }
        other => cx.wrong("re-pattern", "string", other, 1),
    }
}

/// The text as it would stand in a literal: quotes escaped, so that the pattern prints as something that reads back.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        if c == '"' && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}

fn re_find(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let Some((pattern, text)) = subject(cx, "re-find", args)? else { return Ok(Value::Nil) };
    match pattern.find(text.as_str(), 0, &mut |units| cx.meter.charge(units))? {
        Some(groups) => found(cx, &text, &groups),
        None => Ok(Value::Nil),
    }
}

fn re_matches(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let Some((pattern, text)) = subject(cx, "re-matches", args)? else { return Ok(Value::Nil) };
    match pattern.matches(text.as_str(), &mut |units| cx.meter.charge(units))? {
        Some(groups) => found(cx, &text, &groups),
        None => Ok(Value::Nil),
    }
}

fn re_seq(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let Some((pattern, text)) = subject(cx, "re-seq", args)? else { return Ok(Value::Nil) };
    let matches = all_matches(cx, &text, &pattern, usize::MAX)?;
    if matches.is_empty() {
        return Ok(Value::Nil);
    }
    let mut values = Vec::with_capacity(matches.len());
    for groups in &matches {
        values.push(found(cx, &text, groups)?);
    }
    cx.vector(values)
}

fn re_split(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match subject(cx, "re-split", args)? {
        Some((pattern, text)) => split_by(cx, &text, &pattern, 0),
        None => Ok(Value::Nil),
    }
}

/// The parts between matches, as Java splits: no empty part before an empty match at the start.
pub(super) fn split_by(cx: &mut Context, text: &Text, pattern: &Pattern, limit: i64) -> Result<Value, Fault> {
    let most = if limit > 0 { limit as usize - 1 } else { usize::MAX };
    let mut parts = Vec::new();
    let mut from = 0;
    if most > 0 {
        // One more than needed: a match at the start may not count.
        for groups in all_matches(cx, text, pattern, most.saturating_add(1))? {
            let Some((start, end)) = groups.first().copied().flatten() else { continue };
            if parts.len() >= most || (end == start && (start == 0 || start >= text.bytes())) {
                continue;
            }
            parts.push(text.as_str().get(from..start).unwrap_or_default());
            from = end;
        }
    }
    parts.push(text.as_str().get(from..).unwrap_or_default());
    let parts = drop_empty_end(parts, limit);
    strings(cx, &parts)
}

/// The text of a group of the first match: the one asked for, else the first, else the whole match.
fn group(cx: &mut Context, who: &str, args: &[Value]) -> Result<Option<String>, Fault> {
    let Some((pattern, text)) = subject(cx, who, args)? else { return Ok(None) };
    let wanted = match arg(args, 2) {
        Value::Nil => usize::from(pattern.has_groups()),
        _ => integer(cx, who, args, 2)?.max(0) as usize,
    };
    let Some(groups) = pattern.find(text.as_str(), 0, &mut |units| cx.meter.charge(units))? else {
        return Ok(None);
    };
    match groups.get(wanted) {
        Some(span) => Ok(span.and_then(|(start, end)| text.as_str().get(start..end)).map(Into::into)),
        None => runtime(format!("{who}: the pattern has no group {wanted}")),
    }
}

fn extract(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    match group(cx, "extract", args)? {
        Some(text) => cx.text(text),
        None => Ok(Value::Nil),
    }
}

fn extract_int(cx: &mut Context, args: &mut [Value]) -> Result<Value, Fault> {
    let found = group(cx, "extract-int", args)?;
    let number = found.and_then(|text| text.replace([',', '_'], "").parse().ok()).map(Value::Int);
    Ok(number.unwrap_or_else(|| arg(args, 3).clone()))
}
