//! One call of a tool, within its time, whatever it does.

use std::sync::Arc;

use tokio::task::{JoinError, JoinSet};

use super::{Call, Tool, ToolOutcome};
use crate::effects::{Clock, later};

/// Calls a tool. One that takes too long is stopped, and one that panics has failed; dropping the answer stops it, too.
pub async fn attempt(tool: Arc<dyn Tool>, call: Call, clock: &dyn Clock) -> ToolOutcome {
    let timeout = tool.spec().timeout;
    let began = clock.now();
    // A task of its own, so that a panic ends nothing but the call.
    let mut work = JoinSet::new();
    work.spawn(async move { tool.call(call).await });
    tokio::select! {
        biased;
        done = work.join_next() => match done {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => ToolOutcome::Failed(panicked(error)),
            None => ToolOutcome::Failed("the tool was not started".into()),
        },
        () = clock.reached(later(began, timeout)) => {
            let seconds = timeout.as_secs_f64();
            ToolOutcome::Failed(format!("the tool took longer than {seconds} s and was stopped"))
        }
    }
}

fn panicked(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => format!("the tool panicked: {}", crate::bus::panic_message(&*panic)),
        Err(_) => "the tool was stopped".into(),
    }
}
