//! The executable `scrollback-bin` of the wheel of that name: `uvx scrollback-bin serve` runs what is called like the package.
//! It becomes the program `scrollback` that stands beside it.
#![allow(clippy::print_stderr)] // a program of its own, which says why it cannot start

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The program beside this one; links to this one are followed.
fn beside() -> std::io::Result<PathBuf> {
    let here = std::env::current_exe()?.canonicalize()?;
    let folder = here.parent().unwrap_or(Path::new("."));
    Ok(folder.join(format!("scrollback{}", std::env::consts::EXE_SUFFIX)))
}

fn main() -> ExitCode {
    let program = match beside() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("error: the place of this program is not known: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1));
    let error = match become_it(command) {
        Ok(code) => return code,
        Err(error) => error,
    };
    eprintln!("error: {} cannot be started: {error}", program.display());
    ExitCode::FAILURE
}

/// The same process goes on as the program, so signals and the exit code are its own.
#[cfg(unix)]
fn become_it(mut command: Command) -> std::io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn become_it(mut command: Command) -> std::io::Result<ExitCode> {
    let status = command.status()?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
