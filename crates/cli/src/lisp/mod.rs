//! `scrollback lisp`: the interpreter on the command line.

mod answer;
mod args;
mod cases;
mod inputs;
mod repl;

use std::path::Path;
use std::process::ExitCode;

use scrollback_lisp::{Env, Error, Memory, Outcome, Program, ProgramEnd};

pub(crate) use args::LispArgs;
use args::{GivenArgs, LispCommand};

use crate::failure::{FAILED, Failure, INVALID, USAGE};
use crate::input;

/// Runs the command.
pub(crate) fn run(args: &LispArgs, json: bool) -> Result<ExitCode, Failure> {
    match &args.command {
        LispCommand::Eval { expression, given } => evaluate(expression.as_bytes(), given, json),
        LispCommand::Run { cases: Some(file), .. } => cases::run(file),
        LispCommand::Run { file: Some(file), given, .. } => evaluate(&source(file)?, given, json),
        LispCommand::Run { file: None, .. } => {
            Err(Failure::new(USAGE, "usage", "a file or --cases is needed"))
        }
        LispCommand::Repl { given } => repl::run(given),
        LispCommand::Reference { model } => {
            let text = if *model {
                scrollback_lisp::reference::for_models()
            } else {
                scrollback_lisp::reference::for_people()
            };
            input::print(&text).map(|()| ExitCode::SUCCESS)
        }
    }
}

/// What a command shall run; a file that cannot be read is a wrong command line.
fn source(file: &Path) -> Result<Vec<u8>, Failure> {
    input::read(file).map_err(Failure::into_usage)
}

/// Runs one program and prints its result.
fn evaluate(source: &[u8], given: &GivenArgs, json: bool) -> Result<ExitCode, Failure> {
    let mut env = inputs::env(given)?;
    let (outcome, error) = run_program(source, &mut env);
    if let Some(file) = &given.save_memory
        && let Some(outcome) = &outcome
    {
        save(file, &outcome.memory)?;
    }
    let text = String::from_utf8_lossy(source);
    if json {
        input::print(&(answer::json(outcome.as_ref(), error.as_ref()) + "\n"))?;
    } else {
        answer::plain(&text, outcome.as_ref(), error.as_ref())?;
    }
    Ok(exit_code(error.as_ref()))
}

/// Compiles and runs: the outcome if it ran, and the error if there is one.
fn run_program(source: &[u8], env: &mut Env) -> (Option<Outcome>, Option<Error>) {
    match Program::compile_bytes(source) {
        Err(error) => (None, Some(error)),
        Ok(program) => {
            let outcome = program.run(env);
            let error = outcome.result.as_ref().err().cloned();
            (Some(outcome), error)
        }
    }
}

/// 0 done, 1 the program failed, 4 its text is invalid.
fn exit_code(error: Option<&Error>) -> ExitCode {
    match error {
        None => ExitCode::SUCCESS,
        Some(error) if error.reason.is_static() => ExitCode::from(INVALID),
        Some(_) => ExitCode::from(FAILED),
    }
}

fn save(file: &Path, memory: &Memory) -> Result<(), Failure> {
    let saved = memory.to_json();
    for name in saved.skipped {
        input::note(&format!("{name} holds functions inside a collection and was not saved"));
    }
    std::fs::write(file, saved.json + "\n").map_err(|error| Failure::io(&file.display().to_string(), &error))
}

/// Whether the program ended with `(return …)`.
fn returned(outcome: &Outcome) -> bool {
    matches!(outcome.result, Ok(ProgramEnd::Returned(_)))
}
