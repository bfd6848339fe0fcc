//! `scrollback subagent`: a mission answered in PTC-Lisp, what its calls are sent, and strategies compared.

pub(crate) mod args;
mod render;

use std::process::ExitCode;

use crate::failure::{Failure, USAGE};
use args::{SubagentArgs, SubagentCommand};

pub(crate) fn run(args: &SubagentArgs, _json: bool) -> Result<ExitCode, Failure> {
    match &args.command {
        Some(SubagentCommand::Render { file }) => render::run(file),
        None => Err(Failure::new(USAGE, "usage", "name an AGENT.yaml (see --help)")),
    }
}
