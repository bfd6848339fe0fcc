//! The result of a program, for people and for programs.

use std::fmt::Write as _;
use std::io::Write;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_lisp::{Error, Limits, Outcome, Value};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::returned;
use crate::failure::Failure;
use crate::input;

/// Everything about a run as one JSON object.
pub(super) fn json(outcome: Option<&Outcome>, error: Option<&Error>) -> String {
    let limit = Limits::default().value_bytes;
    // After `fail` the value is what it was given.
    let failed = error.and_then(|error| error.value.as_ref());
    let value = outcome.and_then(Outcome::value).or(failed);
    let (text, cut) = value.map_or((None, false), |value| {
        let (text, cut) = value.to_text(limit);
        (Some(text), cut)
    });
    let raw = |value: &Value| {
        let (text, cut) = value.to_json_text(limit);
        let text = if cut { "null".to_string() } else { text };
        RawValue::from_string(text).ok()
    };
    let call = |call: &scrollback_lisp::ToolRecord| CallAnswer {
        name: call.name.clone(),
        args: raw(&Value::Map(call.args.clone())),
        result: call.result.as_ref().ok().and_then(&raw),
        error: call.result.as_ref().err().map(|error| json!(error)),
    };
    let dropped = outcome.map(|outcome| outcome.prints_dropped);
    let answer = Answer {
        value: text,
        json: value.and_then(raw),
        prints: json!(outcome.map_or(&[][..], |outcome| &outcome.prints)),
        tool_calls: outcome.map_or_else(Vec::new, |outcome| outcome.tool_calls.iter().map(call).collect()),
        error: error.map(error_object),
        returned: outcome.is_some_and(returned),
        warnings: json!(outcome.map_or(&[][..], |outcome| &outcome.warnings)),
        usage: outcome.map(|outcome| {
            json!({
                "fuel": outcome.usage.fuel,
                "memory_bytes": outcome.usage.memory_bytes,
                "tool_calls": outcome.usage.tool_calls,
            })
        }),
        truncated: cut.then_some(true),
        prints_dropped: dropped.filter(|dropped| *dropped > 0).map(|dropped| json!(dropped)),
    };
    serde_json::to_string(&answer).unwrap_or_default()
}

/// The answer. Values of the program stay texts: a tree of them may be deeper than a parser of JSON allows.
#[derive(Serialize)]
struct Answer {
    value: Option<String>,
    json: Option<Box<RawValue>>,
    prints: serde_json::Value,
    tool_calls: Vec<CallAnswer>,
    error: Option<serde_json::Value>,
    returned: bool,
    warnings: serde_json::Value,
    usage: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prints_dropped: Option<serde_json::Value>,
}

/// A call of a tool, with its result or its error.
#[derive(Serialize)]
struct CallAnswer {
    name: String,
    args: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<serde_json::Value>,
}

fn error_object(error: &Error) -> serde_json::Value {
    json!({
        "reason": error.reason.as_str(),
        "message": error.message,
        "line": error.at.map(|at| at.line),
        "column": error.at.map(|at| at.column),
        "hint": error.hint,
        "form": error.form,
        "cause": error.cause.as_ref().map(|cause| json!({ "reason": cause.reason.as_str(), "message": cause.message })),
    })
}

/// Prints, then the value; an error goes to standard error with the line it is about.
pub(super) fn plain(source: &str, outcome: Option<&Outcome>, error: Option<&Error>) -> Result<(), Failure> {
    let mut out = String::new();
    if let Some(outcome) = outcome {
        for entry in &outcome.prints {
            out.push_str(entry);
            out.push('\n');
        }
        if outcome.prints_dropped > 0 {
            let _ = writeln!(out, "... {} more not shown", outcome.prints_dropped);
        }
        if let Some(value) = outcome.value() {
            out.push_str(&value.to_text(Limits::default().value_bytes).0);
            out.push('\n');
        }
    }
    input::print(&out)?;
    for warning in outcome.map_or(&[][..], |outcome| &outcome.warnings) {
        input::note(warning);
    }
    if let Some(error) = error {
        show(source, error);
    }
    Ok(())
}

/// `reason: message`, the source line with a caret, and the hint.
pub(super) fn show(source: &str, error: &Error) {
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    let dim = Style::new().dimmed();
    let mut err = anstream::stderr().lock();
    let _ = writeln!(err, "{red}{}{Reset}: {}", error.reason, error.message);
    if let Some(at) = error.at
        && let Some(line) = source.lines().nth(at.line as usize - 1)
        && line.len() < 1000
    {
        let margin = format!("{} | ", at.line);
        let pad = " ".repeat(margin.len() + at.column as usize - 1);
        let _ = writeln!(err, "{dim}{margin}{Reset}{line}\n{pad}{red}^{Reset}");
    }
    if let Some(hint) = &error.hint {
        let _ = writeln!(err, "hint: {hint}");
    }
}
