//! `scrollback validate`: everything that is wrong with a flow, before anything runs.

use std::fmt::Write as _;
use std::process::ExitCode;

use scrollback_flow::settings::Setting;
use scrollback_flow::{Flow, FlowProblem, SCHEMA, StepKind};
use serde_json::{Value, json};

use super::args::ValidateArgs;
use super::load::{LoadedFlow, load};
use super::problem_text;
use crate::failure::{Failure, INVALID};
use crate::input;

pub(crate) fn run(args: &ValidateArgs, json: bool) -> Result<ExitCode, Failure> {
    let Some(file) = &args.file else {
        input::print(SCHEMA)?;
        return Ok(ExitCode::SUCCESS);
    };
    let loaded = load(file)?;
    match loaded.read() {
        Ok(read) => {
            let valid = read.warnings.is_empty() || !args.strict;
            let settings = args.effective.then_some(read.settings.as_slice());
            report(&loaded, valid, &[], &read.warnings, settings, json)?;
            if !json {
                input::print(&summary(&loaded, &read.flow, valid))?;
            }
            Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
        }
        Err(found) => {
            report(&loaded, false, &found.errors, &found.warnings, args.effective.then_some(&[]), json)?;
            Ok(ExitCode::from(INVALID))
        }
    }
}

/// Says what is wrong: one document for programs, marked lines for people.
fn report(
    loaded: &LoadedFlow,
    valid: bool,
    errors: &[FlowProblem],
    warnings: &[FlowProblem],
    settings: Option<&[Setting]>,
    json: bool,
) -> Result<(), Failure> {
    if json {
        let mut document = loaded.document(valid, errors, warnings);
        if let (Some(settings), Some(members)) = (settings, document.as_object_mut()) {
            members.insert("effective".into(), settings.iter().map(setting).collect());
        }
        return input::print(&format!("{document}\n"));
    }
    problem_text::problems(loaded, errors, warnings);
    settings.map_or(Ok(()), |settings| input::print(&table(settings)))
}

fn setting(setting: &Setting) -> Value {
    json!({ "setting": setting.setting, "value": setting.value, "source": setting.from.to_string() })
}

/// One line a setting, in columns.
fn table(settings: &[Setting]) -> String {
    let values: Vec<String> = settings.iter().map(|setting| setting.value.to_string()).collect();
    let first = settings.iter().map(|setting| setting.setting.len()).max().unwrap_or(0);
    let second = values.iter().map(String::len).max().unwrap_or(0).min(40);
    let mut out = String::new();
    for (setting, value) in settings.iter().zip(&values) {
        let _ = writeln!(out, "{:first$}  {value:second$}  {}", setting.setting, setting.from);
    }
    out
}

/// One line about a flow that can be run.
fn summary(loaded: &LoadedFlow, flow: &Flow, valid: bool) -> String {
    let file = loaded.file.display();
    if !valid {
        return format!("{file} has warnings, and --strict counts them\n");
    }
    let steps = flow.all_steps();
    let conversations = steps
        .iter()
        .filter(|step| matches!(&step.kind, StepKind::Loop(inner) if inner.conversation.is_some()))
        .count();
    let talks = match conversations {
        0 => String::new(),
        1 => ", 1 conversation".into(),
        several => format!(", {several} conversations"),
    };
    let plural = if steps.len() == 1 { "" } else { "s" };
    format!("{file} is valid: flow {}, {} step{plural}{talks}\n", flow.name, steps.len())
}
