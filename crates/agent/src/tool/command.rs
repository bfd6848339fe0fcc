//! Tools that are commands.

use std::path::PathBuf;

use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::output::OutputEnds;
use super::process::{KEPT_ERROR, ProcessGroup, SHOWN_ERROR, ending, program};
use super::{Call, Spec, Tool, ToolOutcome, ToolOutput};
use crate::effects::BoxFuture;

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
    /// The one argument it reads, as a text; all of them as JSON if there is none.
    pub(super) input: Option<String>,
}

impl Command {
    /// A command that runs in a folder.
    pub fn new(spec: Spec, argv: Vec<String>, folder: impl Into<PathBuf>, env: Vec<String>) -> Self {
        Command { spec, argv, folder: folder.into(), env, input: None }
    }

    async fn run(&self, call: Call) -> ToolOutcome {
        let argv: Vec<String> = self.argv.iter().map(|part| fill(part, &call.arguments)).collect();
        let Some((name, rest)) = argv.split_first() else {
            return ToolOutcome::Failed("the tool has no command".into());
        };
        let started =
            program(name, rest, &self.folder, &self.env).env("SCROLLBACK_CALL_ID", &call.id).spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return ToolOutcome::Failed(format!("{name:?} cannot be started: {error}")),
        };
        let group = ProcessGroup(child.id());
        let input = match &self.input {
            None => Value::Object(call.arguments).to_string(),
            Some(name) => match call.arguments.get(name) {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => String::new(),
                Some(other) => other.to_string(),
            },
        };
        let mut stdin = child.stdin.take();
        let feed = async {
            if let Some(stdin) = &mut stdin {
                // A command that does not read its input is no failure.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            drop(stdin.take());
        };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let max = self.spec.max_output;
        let ((), out, err, status) = tokio::join!(feed, read(out, max), read(err, KEPT_ERROR), child.wait());
        drop(group);
        match status {
            Ok(status) if status.success() => ToolOutcome::Done(ToolOutput::Text(out.into_text())),
            Ok(status) => ToolOutcome::Failed(ending(status, &err.end(SHOWN_ERROR))),
            Err(error) => ToolOutcome::Failed(format!("cannot read from the command: {error}")),
        }
    }
}

impl Tool for Command {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, ToolOutcome> {
        Box::pin(self.run(call))
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, max: usize) -> OutputEnds {
    let mut kept = OutputEnds::new(max);
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
