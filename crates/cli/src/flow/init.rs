//! `scrollback init`.

use std::process::ExitCode;

use super::args::InitArgs;
use crate::failure::Failure;

pub(crate) fn run(_args: &InitArgs, _json: bool) -> Result<ExitCode, Failure> {
    Ok(ExitCode::SUCCESS)
}
