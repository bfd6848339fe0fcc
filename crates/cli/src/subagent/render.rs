//! `subagent render`: what a call would be sent, without a model and without a store.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use scrollback_subagent::SubagentError;
use scrollback_subagent::case::Case;
use serde_json::{Value, json};

use crate::failure::{Failure, INVALID};
use crate::input;

pub(super) fn run(file: &Path) -> Result<ExitCode, Failure> {
    let bytes = input::read(file)?;
    let mut out = String::new();
    if file.extension().is_some_and(|ending| ending == "jsonl") {
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let answer = rendered(line).map_err(|error| invalid(file, Some(number + 1), &error))?;
            let _ = writeln!(out, "{answer}");
        }
    } else {
        let answer = rendered(&bytes).map_err(|error| invalid(file, None, &error))?;
        let _ = writeln!(out, "{answer}");
    }
    input::print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// What the call of one case is sent, after the case's id.
fn rendered(case: &[u8]) -> Result<Value, SubagentError> {
    let case = Case::parse(case)?;
    let mut answer = json!({});
    if let Some(id) = &case.id {
        answer["id"] = serde_json::from_str(id).unwrap_or(Value::Null);
    }
    if let (Some(members), Value::Object(told)) = (answer.as_object_mut(), case.render().to_json()) {
        members.extend(told);
    }
    Ok(answer)
}

fn invalid(file: &Path, line: Option<usize>, error: &SubagentError) -> Failure {
    let line = line.map_or_else(String::new, |line| format!("line {line}: "));
    Failure::new(INVALID, "bad_case", format!("{line}{error}")).about(file)
}
