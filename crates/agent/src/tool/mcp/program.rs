//! A server that is a program: watched while it runs, and ended with its children.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;

use crate::tool::output::OutputEnds;
use crate::tool::process::{KEPT_ERROR, ProcessGroup, SHOWN_ERROR, ending, program};

/// How long a program that closed its output may take to end, and to say why: it has nothing left to do.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A running program. Dropping it kills it and its children.
pub(super) struct Program {
    /// Empty once the program has ended: its number may belong to another process by then.
    group: Arc<Mutex<Option<ProcessGroup>>>,
    said: Arc<Mutex<OutputEnds>>,
    /// How it ended, once it has.
    ended: watch::Receiver<Option<String>>,
}

impl Program {
    /// Starts a program; gives its output and input too.
    pub(super) fn start(
        argv: (&str, &[String]),
        folder: &Path,
        env: &[String],
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let (name, arguments) = argv;
        let failed = |problem: String| format!("{name:?} cannot be started: {problem}");
        let mut child =
            program(name, arguments, folder, env).spawn().map_err(|error| failed(error.to_string()))?;
        let group = Arc::new(Mutex::new(Some(ProcessGroup(child.id()))));
        let said = Arc::new(Mutex::new(OutputEnds::new(KEPT_ERROR)));
        let (tell, ended) = watch::channel(None);
        let started = Program { group: Arc::clone(&group), said: Arc::clone(&said), ended };
        let streams = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let (Some(stdout), Some(stdin), Some(stderr)) = streams else {
            return Err(failed("it has no standard streams".into()));
        };
        tokio::spawn(watch_over(child, stderr, group, said, tell));
        Ok((started, stdout, stdin))
    }

    /// How it ended, or what it said last if it runs on; nothing if it is silent.
    pub(super) async fn last_words(&self) -> Option<String> {
        let mut ended = self.ended.clone();
        let told = tokio::time::timeout(LAST_WORDS * 2, ended.wait_for(Option::is_some)).await;
        if let Ok(Ok(how)) = told
            && let Some(how) = &*how
        {
            return Some(how.clone());
        }
        Some(end(&self.said)).filter(|said| !said.is_empty())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(locked(&self.group).take());
    }
}

/// Reads what a program says until it ends, and ends its children then.
async fn watch_over(
    mut child: Child,
    stderr: ChildStderr,
    group: Arc<Mutex<Option<ProcessGroup>>>,
    said: Arc<Mutex<OutputEnds>>,
    tell: watch::Sender<Option<String>>,
) {
    let mut listening = tokio::spawn(listen(stderr, Arc::clone(&said)));
    let status = child.wait().await;
    // Children would hold its pipes open, and the server would not seem gone.
    drop(locked(&group).take());
    let _ = tokio::time::timeout(LAST_WORDS, &mut listening).await;
    listening.abort();
    tell.send_replace(Some(match status {
        Ok(status) => ending(status, &end(&said)),
        Err(error) => format!("lost the connection: {error}"),
    }));
}

async fn listen(mut stderr: ChildStderr, said: Arc<Mutex<OutputEnds>>) {
    let mut buffer = vec![0; 4 << 10];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        locked(&said).take(buffer.get(..count).unwrap_or_default());
    }
}

fn end(said: &Mutex<OutputEnds>) -> String {
    locked(said).end(SHOWN_ERROR).trim_end().to_string()
}

fn locked<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
