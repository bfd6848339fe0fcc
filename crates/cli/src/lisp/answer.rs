//! What came of a program, for people and for programs.

use std::fmt::Write as _;
use std::io::Write;

use anstyle::{AnsiColor, Reset, Style};
use scrollback_lisp::{Error, Limits, Outcome, Value};
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
    let calls: Vec<serde_json::Value> = outcome.map_or_else(Vec::new, |outcome| {
        let call = |call: &scrollback_lisp::ToolRecord| {
            let mut object = json!({ "name": call.name, "args": raw(&Value::Map(call.args.clone())) });
            match &call.result {
                Ok(result) => object["result"] = json!(raw(result)),
                Err(error) => object["error"] = json!(error),
            }
            object
        };
        outcome.tool_calls.iter().map(call).collect()
    });
    let mut answer = json!({
        "value": text,
        "json": value.and_then(raw),
        "prints": outcome.map_or(&[][..], |outcome| &outcome.prints),
        "tool_calls": calls,
        "error": error.map(error_object),
        "returned": outcome.is_some_and(returned),
        "warnings": outcome.map_or(&[][..], |outcome| &outcome.warnings),
        "usage": outcome.map(|outcome| json!({
            "fuel": outcome.usage.fuel,
            "memory_bytes": outcome.usage.memory_bytes,
            "tool_calls": outcome.usage.tool_calls,
        })),
    });
    if cut {
        answer["truncated"] = json!(true);
    }
    if let Some(dropped) = outcome.map(|outcome| outcome.prints_dropped).filter(|dropped| *dropped > 0) {
        answer["prints_dropped"] = json!(dropped);
    }
    answer.to_string()
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
