//! `run --cases`: one case a line in, one answer a line out, in order.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use scrollback_lisp::{Env, Value};

use super::{answer, inputs, run_program, source};
use crate::failure::{Failure, INVALID};
use crate::input;

pub(super) fn run(file: &Path) -> Result<ExitCode, Failure> {
    let bytes = source(file)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut out = String::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let answer = case(line).map_err(|trouble| {
            Failure::new(INVALID, "bad_case", format!("{}: line {}: {trouble}", file.display(), at + 1))
        })?;
        let _ = writeln!(out, "{answer}");
    }
    input::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs one case; its answer begins with its id.
fn case(line: &str) -> Result<String, String> {
    let Some(Value::Map(case)) = Value::from_json(line) else {
        return Err("a case is a JSON object with id and program".into());
    };
    let field = |key: &str| case.get_exact(&Value::from(key));
    let Some(Value::Str(program)) = field("program") else { return Err("the case has no program".into()) };
    let id = field("id").cloned().unwrap_or_default().to_json();
    let start = Instant::now();
    let mut env = Env::new().clock(Arc::new(move || start.elapsed()));
    if let Some(Value::Map(data)) = field("data") {
        env = inputs::with_data(env, data);
    }
    if let Some(Value::Map(tools)) = field("tools") {
        env = inputs::with_tools(env, tools).map_err(|failure| failure.to_json()["message"].to_string())?;
    }
    let (outcome, error) = run_program(program.as_str().as_bytes(), &mut env);
    let answer = answer::json(outcome.as_ref(), error.as_ref());
    Ok(format!("{{\"id\":{id},{}", answer.strip_prefix('{').unwrap_or(&answer)))
}
