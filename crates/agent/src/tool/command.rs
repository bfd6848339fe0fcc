//! Tools that are commands: no shell, a clean environment, and no child left behind.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::output::Kept;
use super::{Call, Outcome, Output, Spec, Tool};
use crate::effects::Pending;

/// What a command inherits of the environment; everything else it must list.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// How much of its standard error a failed command shows.
const SHOWN_ERROR: usize = 2_000;

/// A tool that runs a command. Its arguments come as JSON on standard input, and inside the command line where it has
/// `{name}`; each part of the command line stays one argument, whatever is put into it.
pub struct Command {
    spec: Spec,
    /// The program and its arguments.
    argv: Vec<String>,
    /// Where it runs.
    folder: PathBuf,
    /// Variables it gets beside the usual three.
    env: Vec<String>,
}

impl Command {
    /// A command that runs in a folder.
    pub fn new(spec: Spec, argv: Vec<String>, folder: impl Into<PathBuf>, env: Vec<String>) -> Self {
        Command { spec, argv, folder: folder.into(), env }
    }

    async fn run(&self, call: Call) -> Outcome {
        let argv: Vec<String> = self.argv.iter().map(|part| fill(part, &call.arguments)).collect();
        let Some((program, rest)) = argv.split_first() else {
            return Outcome::Failed("the tool has no command".into());
        };
        let inherited = INHERITED.iter().copied().chain(self.env.iter().map(String::as_str));
        let environment: Vec<(&str, OsString)> =
            inherited.filter_map(|name| Some((name, std::env::var_os(name)?))).collect();
        let started = tokio::process::Command::new(program)
            .args(rest)
            .current_dir(&self.folder)
            .env_clear()
            .envs(environment)
            .env("SCROLLBACK_CALL_ID", &call.id)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Its children are in its group, so that they end with it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return Outcome::Failed(format!("{program:?} cannot be started: {error}")),
        };
        let group = Group(child.id());
        let input = Value::Object(call.arguments).to_string();
        let mut stdin = child.stdin.take();
        let feed = async {
            if let Some(stdin) = &mut stdin {
                // A command that does not read its input is no failure.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            drop(stdin.take());
        };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (max, shown) = (self.spec.max_output, SHOWN_ERROR * 4);
        let ((), out, err, status) = tokio::join!(feed, read(out, max), read(err, shown), child.wait());
        drop(group);
        match status {
            Ok(status) if status.success() => Outcome::Done(Output::Text(out.into_text())),
            Ok(status) => {
                let how = match status.code() {
                    Some(code) => format!("exit code {code}"),
                    None => "it was killed".into(),
                };
                let said = err.end(SHOWN_ERROR);
                Outcome::Failed(if said.is_empty() { how } else { format!("{how}: {said}") })
            }
            Err(error) => Outcome::Failed(format!("the command was lost: {error}")),
        }
    }
}

impl Tool for Command {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> Pending<'_, Outcome> {
        Box::pin(self.run(call))
    }
}

/// A process group that is killed when nobody waits for it any more.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Whatever is left of the group; mostly nothing.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, max: usize) -> Kept {
    let mut kept = Kept::new(max);
    let Some(mut from) = from else { return kept };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        kept.take(buffer.get(..count).unwrap_or_default());
    }
    kept
}

/// A text with `{name}` replaced by arguments; names that are none stay as they are.
pub(super) fn fill(text: &str, arguments: &Map<String, Value>) -> String {
    fill_with(text, arguments, |value| value)
}

/// The same, each value written in a way that fits where it stands.
pub(super) fn fill_with(
    text: &str,
    arguments: &Map<String, Value>,
    write: impl Fn(String) -> String,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let named = after.split_once('}').and_then(|(name, after)| Some((arguments.get(name)?, after)));
        if let Some((value, after)) = named {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            out.push_str(&write(value));
            rest = after;
        } else {
            out.push('{');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}
