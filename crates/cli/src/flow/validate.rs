//! `scrollback validate`: everything that is wrong with a flow, an agent or a sub-agent, before anything runs.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use scrollback_agent::agent_file::AgentFile;
use scrollback_agent::document;
use scrollback_flow::settings::Setting;
use scrollback_flow::{Flow, FlowProblem, SCHEMA, StepKind};
use scrollback_subagent::{Overlay, SubagentFile, read_signature};
use serde_json::{Value, json};

use super::args::{KindArg, ValidateArgs};
use super::load::{LoadedFlow, load};
use super::problem_text;
use crate::amounts::counted;
use crate::failure::{Failure, INVALID};
use crate::input;

pub(crate) fn run(args: &ValidateArgs, json: bool) -> Result<ExitCode, Failure> {
    let Some(file) = &args.file else {
        input::print(SCHEMA)?;
        return Ok(ExitCode::SUCCESS);
    };
    let loaded = load(file)?;
    match args.kind.unwrap_or_else(|| kind_of(&loaded.text)) {
        KindArg::Flow => {}
        kind => return agent(&loaded, kind, json),
    }
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

/// What a file describes, told by its keys. What has none of an agent's is a flow, whose reader says best what is missing.
fn kind_of(text: &str) -> KindArg {
    let Ok(node) = document::parse(text) else { return KindArg::Flow };
    let has = |keys: &[&str]| keys.iter().any(|key| node.get(key).is_some());
    if has(&["steps", "agents", "version"]) {
        KindArg::Flow
    } else if has(&["mission", "signature", "compression", "max_turns"]) {
        KindArg::Subagent
    } else if has(&["system", "tools", "react", "model", "tool_choice", "parallel_tools"]) {
        KindArg::Agent
    } else {
        KindArg::Flow
    }
}

/// The same for an agent or a sub-agent.
fn agent(loaded: &LoadedFlow, kind: KindArg, json: bool) -> Result<ExitCode, Failure> {
    let folder = loaded.folder();
    let read = if kind == KindArg::Agent {
        AgentFile::parse(&loaded.text, &folder, &loaded.environment, read_signature)
            .map(|agent| ("agent", agent.name, agent.tools.ready.specs().len() + agent.tools.servers.len()))
    } else {
        // A mission may come from the command line.
        let overlay = Overlay { mission: loaded.is_without("mission").then(|| "…".into()) };
        SubagentFile::parse(&loaded.text, &folder, &overlay, &loaded.environment)
            .map(|file| ("sub-agent", file.name().to_string(), file.tool_count()))
    };
    let (told, problems) = match read {
        Ok(told) => (Some(told), Vec::new()),
        Err(problems) => (None, problems),
    };
    if json {
        let object = |problem: &document::DocumentProblem| {
            let clean = |text: &str| loaded.redactor.text(text).text.into_owned();
            json!({
                "code": problem.code, "message": clean(&problem.message), "path": clean(&problem.path),
                "line": problem.at.line, "column": problem.at.column, "suggestion": problem.suggestion,
            })
        };
        let document = json!({
            "valid": told.is_some(), "file": loaded.file.display().to_string(), "warnings": [],
            "errors": problems.iter().map(object).collect::<Vec<_>>(),
        });
        input::print(&format!("{document}\n"))?;
    } else {
        let text = problem_text::document_problems(&loaded.text, &loaded.file, &loaded.redactor, &problems);
        let _ = write!(anstream::stderr(), "{text}");
    }
    let Some((what, name, tools)) = told else { return Ok(ExitCode::from(INVALID)) };
    if !json {
        let tools = counted(tools as u64, "tool");
        input::print(&format!("{} is valid: {what} {name}, {tools}\n", loaded.file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
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
