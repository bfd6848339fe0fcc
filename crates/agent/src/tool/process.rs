//! Programs of tools: no shell, a clean environment, and no child left behind.

use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

/// What a program inherits of the environment; everything else it must list.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// How many characters of its standard error a failed program shows.
pub(super) const SHOWN_ERROR: usize = 2_000;
/// How many bytes of it are kept for that.
pub(super) const KEPT_ERROR: usize = SHOWN_ERROR * 4;

/// A program in a folder that inherits only the usual variables and those in `env`. All three streams are pipes.
pub(super) fn program(name: &str, arguments: &[String], folder: &Path, env: &[String]) -> Command {
    let inherited = INHERITED.iter().copied().chain(env.iter().map(String::as_str));
    let environment: Vec<(&str, OsString)> =
        inherited.filter_map(|name| Some((name, std::env::var_os(name)?))).collect();
    let mut program = Command::new(name);
    program
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Its children are in its group, so that they end with it.
        .process_group(0)
        .kill_on_drop(true);
    program
}

/// A process group that is killed when its handle is dropped.
pub(super) struct ProcessGroup(pub(super) Option<u32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let pid = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Whatever is left of the group; mostly nothing.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// How a program ended, and the last it said.
pub(super) fn ending(status: ExitStatus, said: &str) -> String {
    let how = match status.code() {
        Some(code) => format!("exit code {code}"),
        None => "it was killed".into(),
    };
    if said.is_empty() { how } else { format!("{how}: {said}") }
}
