//! What a run does, told while it does it. Printing never holds a run up: lines that are not read in time are dropped.

mod live;
mod shown;

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scrollback_core::redact::Redactor;
use scrollback_core::stream::Delta;
use scrollback_flow::driver::{Preview, Telling, Watcher};
use serde_json::Value;

use self::live::Live;
use super::args::ProgressArg;
use crate::store::{one_line, width};

/// Lines that wait for a reader before some are dropped.
const WAITING: usize = 1024;
/// How long the last lines may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tells what happens.
pub(crate) struct Progress {
    how: ProgressStyle,
}

enum ProgressStyle {
    Nothing,
    Lines { form: ProgressForm, lines: Mutex<Option<SyncSender<String>>>, written: Mutex<Receiver<()>> },
    Live(Arc<Live>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgressForm {
    Plain,
    Json,
}

impl Progress {
    pub(crate) fn new(how: ProgressArg) -> Self {
        let live = how == ProgressArg::Auto && std::io::stderr().is_terminal();
        let how = match how {
            ProgressArg::None => ProgressStyle::Nothing,
            _ if live => ProgressStyle::Live(Arc::new(Live::new())),
            ProgressArg::Json => lines(ProgressForm::Json),
            ProgressArg::Auto | ProgressArg::Plain => lines(ProgressForm::Plain),
        };
        Progress { how }
    }

    /// Who is told that the run exists.
    pub(crate) fn created(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        let told = match &self.how {
            ProgressStyle::Lines { form, lines, .. } => {
                Some((*form, lines.lock().unwrap_or_else(PoisonError::into_inner).clone()))
            }
            ProgressStyle::Live(live) => {
                let live = Arc::clone(live);
                return Arc::new(move |run| live.print(format!("run {run}")));
            }
            ProgressStyle::Nothing => None,
        };
        Arc::new(move |run| {
            if let Some((form, Some(lines))) = &told {
                let _ = lines.try_send(match form {
                    ProgressForm::Plain => format!("run {run}"),
                    ProgressForm::Json => {
                        serde_json::json!({ "type": "run.created", "run": run }).to_string()
                    }
                });
            }
        })
    }

    /// Who is told of every event.
    pub(crate) fn watcher(&self) -> Option<Watcher> {
        match &self.how {
            ProgressStyle::Lines { form: ProgressForm::Plain, lines, .. } => {
                let lines = lines.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
                Some(Arc::new(move |told: &Telling| {
                    // A full pipe drops lines.
                    let _ = plain(told).map(|line| lines.try_send(line));
                }))
            }
            ProgressStyle::Live(live) => {
                let live = Arc::clone(live);
                Some(Arc::new(move |told| live.take(told)))
            }
            ProgressStyle::Nothing | ProgressStyle::Lines { .. } => None,
        }
    }

    /// Who takes events to other programs.
    pub(crate) fn exporter(&self) -> Option<Watcher> {
        let ProgressStyle::Lines { form: ProgressForm::Json, lines, .. } = &self.how else { return None };
        let lines = lines.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Arc::new(move |told: &Telling| {
            let _ = serde_json::to_string(told).map(|line| lines.try_send(line));
        }))
    }

    /// Who is shown replies as they come.
    pub(crate) fn preview(&self, redactor: &Arc<Redactor>) -> Option<Preview> {
        let ProgressStyle::Live(live) = &self.how else { return None };
        live.redact_with(redactor);
        let live = Arc::clone(live);
        Some(Arc::new(move |key, delta| {
            if let Delta::Text(text) = delta {
                live.observe(key, text);
            }
        }))
    }

    /// Makes room for a question.
    pub(crate) fn hide(&self) {
        if let ProgressStyle::Live(live) = &self.how {
            live.hide();
        }
    }

    /// Comes back after it.
    pub(crate) fn show(&self) {
        if let ProgressStyle::Live(live) = &self.how {
            live.show();
        }
    }

    /// Says what is left to say, within reason.
    pub(crate) fn end(&self) {
        match &self.how {
            ProgressStyle::Nothing => {}
            ProgressStyle::Live(live) => live.hide(),
            ProgressStyle::Lines { lines, written, .. } => {
                lines.lock().unwrap_or_else(PoisonError::into_inner).take();
                // The watcher of the engine still holds a sender, so the writer is told by an empty line.
                let _ = written.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE);
            }
        }
    }
}

/// Lines that a thread of their own writes, so that a slow reader holds nothing up.
fn lines(form: ProgressForm) -> ProgressStyle {
    let (sender, receiver) = sync_channel::<String>(WAITING);
    let (done, written) = sync_channel(1);
    std::thread::spawn(move || {
        loop {
            match receiver.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => {
                    if writeln!(anstream::stderr(), "{line}").is_err() {
                        break;
                    }
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    let _ = done.try_send(());
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        let _ = done.try_send(());
    });
    ProgressStyle::Lines { form, lines: Mutex::new(Some(sender)), written: Mutex::new(written) }
}

/// One event on one line; none for what only machines count.
fn plain(told: &Telling) -> Option<String> {
    let data = &told.data;
    let number = |name: &str| data.get(name).and_then(Value::as_u64).unwrap_or(0);
    let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
    let what = match told.kind {
        "run.started" => format!("flow {}", text("flow")),
        "run.resumed" => "resumed".into(),
        "run.paused" if told.key.is_some() => "waits for an answer".into(),
        "run.paused" => return None,
        "run.finished" => format!("run {}", text("status")),
        "step.started" => format!("started ({})", text("kind")),
        "step.finished" => "done".into(),
        "step.skipped" => "skipped".into(),
        "step.failed" => format!("failed: {}", text("code")),
        "loop.iteration" => format!("iteration {} of {}", number("iteration"), number("of")),
        "agent.prompt" => {
            let tokens = data.get("tokens").and_then(|tokens| tokens.get("total")).and_then(Value::as_u64);
            let injected = data.get("conversation_injected").and_then(Value::as_bool) == Some(true);
            let badge = if injected {
                format!(
                    " [conversation injected] {} of {} turns",
                    number("turns_sent"),
                    number("turns_total")
                )
            } else {
                String::new()
            };
            format!("asks {} ({} tokens){badge}", text("model"), tokens.unwrap_or(0))
        }
        "agent.response" => format!("answered after {} ms", number("milliseconds")),
        "history.turn" => format!("{} turn", text("role")),
        "quota.reserved" => format!("reserves {} tokens", number("tokens")),
        "quota.reconciled" => format!("used {} tokens", number("tokens")),
        other => format!("{other} {data}"),
    };
    let key = told.key.as_deref().map_or_else(String::new, |key| format!("{key}: "));
    Some(one_line(&format!("{key}{what}"), width()))
}
