//! What a run does, told while it does it. Telling never holds a run up: what nobody reads in time is dropped.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use scrollback_core::redact::Redactor;
use scrollback_core::stream::Delta;
use scrollback_flow::driver::{Preview, Telling, Watcher};
use serde_json::Value;

use super::args::ProgressArg;
use crate::store::{one_line, width};

/// Lines that wait for a reader before some are dropped.
const WAITING: usize = 1024;
/// How long the last lines may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// Redraws per second of the live display.
const REDRAWS: u8 = 10;
/// How often the live display moves while nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// Characters of a reply's end that are shown.
const TAIL: usize = 400;

/// Tells what happens.
pub(crate) struct Progress {
    how: How,
}

enum How {
    Nothing,
    Lines { form: Form, lines: Mutex<Option<SyncSender<String>>>, written: Mutex<Receiver<()>> },
    Live(Arc<Live>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Json,
}

/// The live display.
struct Live {
    bar: ProgressBar,
    shown: Mutex<Shown>,
}

/// What the live display says.
struct Shown {
    began: Instant,
    step: String,
    tail: String,
    input: u64,
    output: u64,
    turns: Option<(u64, u64)>,
    /// The iteration, and how many there are at most.
    iteration: Option<(u64, u64)>,
}

impl Progress {
    pub(crate) fn new(how: ProgressArg) -> Self {
        let live = how == ProgressArg::Auto && std::io::stderr().is_terminal();
        let how = match how {
            ProgressArg::None => How::Nothing,
            _ if live => How::Live(Arc::new(Live::new())),
            ProgressArg::Json => lines(Form::Json),
            ProgressArg::Auto | ProgressArg::Plain => lines(Form::Plain),
        };
        Progress { how }
    }

    /// Who is told that the run exists.
    pub(crate) fn created(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        let told = match &self.how {
            How::Lines { form, lines, .. } => {
                Some((*form, lines.lock().unwrap_or_else(PoisonError::into_inner).clone()))
            }
            How::Live(live) => {
                let bar = live.bar.clone();
                return Arc::new(move |run| bar.println(format!("run {run}")));
            }
            How::Nothing => None,
        };
        Arc::new(move |run| {
            if let Some((form, Some(lines))) = &told {
                let _ = lines.try_send(match form {
                    Form::Plain => format!("run {run}"),
                    Form::Json => serde_json::json!({ "type": "run.created", "run": run }).to_string(),
                });
            }
        })
    }

    /// Who is told of every event.
    pub(crate) fn watcher(&self, _: &Arc<Redactor>) -> Option<Watcher> {
        match &self.how {
            How::Nothing => None,
            How::Lines { form, lines, .. } => {
                let (form, lines) = (*form, lines.lock().unwrap_or_else(PoisonError::into_inner).clone()?);
                Some(Arc::new(move |told: &Telling| {
                    let line = match form {
                        Form::Plain => plain(told),
                        Form::Json => serde_json::to_string(told).ok(),
                    };
                    // A full pipe drops lines.
                    let _ = line.map(|line| lines.try_send(line));
                }))
            }
            How::Live(live) => {
                let live = Arc::clone(live);
                Some(Arc::new(move |told| live.take(told)))
            }
        }
    }

    /// Who is shown replies as they come.
    pub(crate) fn preview(&self, redactor: &Arc<Redactor>) -> Option<Preview> {
        let How::Live(live) = &self.how else { return None };
        let (live, redactor) = (Arc::clone(live), Arc::clone(redactor));
        Some(Arc::new(move |key, delta| {
            if let Delta::Text(text) = delta {
                live.hear(key, text, &redactor);
            }
        }))
    }

    /// Makes room for a question.
    pub(crate) fn hide(&self) {
        if let How::Live(live) = &self.how {
            live.bar.disable_steady_tick();
            live.bar.finish_and_clear();
        }
    }

    /// Comes back after it.
    pub(crate) fn show(&self) {
        if let How::Live(live) = &self.how {
            live.bar.reset();
            live.bar.enable_steady_tick(TICK);
        }
    }

    /// Says what is left to say, within reason.
    pub(crate) fn end(&self) {
        match &self.how {
            How::Nothing => {}
            How::Live(live) => live.bar.finish_and_clear(),
            How::Lines { lines, written, .. } => {
                lines.lock().unwrap_or_else(PoisonError::into_inner).take();
                // The watcher of the engine still holds a sender, so the writer is told by an empty line.
                let _ = written.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE);
            }
        }
    }
}

/// Lines that a thread of their own writes, so that a reader that is slow holds nobody up.
fn lines(form: Form) -> How {
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
    How::Lines { form, lines: Mutex::new(Some(sender)), written: Mutex::new(written) }
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
        other => format!("{other} {data}"),
    };
    let key = told.key.as_deref().map_or_else(String::new, |key| format!("{key}: "));
    Some(one_line(&format!("{key}{what}"), width()))
}

impl Live {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(REDRAWS));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        let shown = Shown {
            began: Instant::now(),
            step: String::new(),
            tail: String::new(),
            input: 0,
            output: 0,
            turns: None,
            iteration: None,
        };
        Live { bar, shown: Mutex::new(shown) }
    }

    fn take(&self, told: &Telling) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        match told.kind {
            "step.started" => {
                shown.step = told.key.clone().unwrap_or_default();
                shown.tail.clear();
                shown.turns = None;
            }
            "loop.iteration" => {
                shown.iteration = Some((number(&told.data, "iteration"), number(&told.data, "of")));
            }
            "agent.prompt" => {
                shown.turns = Some((number(&told.data, "turns_sent"), number(&told.data, "turns_total")));
                shown.input += told.data.get("tokens").map_or(0, |tokens| number(tokens, "total"));
            }
            "agent.response" => {
                shown.output += told.data.get("usage").map_or(0, |usage| number(usage, "output"));
            }
            "step.finished" => self.bar.println(plain(told).unwrap_or_default()),
            "step.failed"
            | "history.overflow"
            | "history.summarize_failed"
            | "agent.retry"
            | "quota.exceeded" => {
                self.bar.println(plain(told).unwrap_or_default());
            }
            _ => {}
        }
        self.show(&shown);
    }

    /// The end of a reply, redacted as a whole before it is cut.
    fn hear(&self, key: &str, text: &str, redactor: &Redactor) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.step != key {
            shown.step = key.into();
            shown.tail.clear();
        }
        shown.tail.push_str(text);
        if shown.tail.len() > 4 * TAIL {
            let from = shown.tail.len() - 2 * TAIL;
            let from = (from..shown.tail.len()).find(|at| shown.tail.is_char_boundary(*at)).unwrap_or(0);
            shown.tail = redactor.text(&shown.tail).text.get(from..).unwrap_or_default().to_string();
        }
        shown.tail = redactor.text(&shown.tail).text.into_owned();
        self.show(&shown);
    }

    fn show(&self, shown: &Shown) {
        let seconds = shown.began.elapsed().as_secs();
        let turns = shown.turns.filter(|(_, total)| *total > 0);
        let turns = turns.map_or_else(String::new, |(sent, total)| format!(" · {sent} of {total} turns"));
        let iteration = shown
            .iteration
            .map_or_else(String::new, |(number, most)| format!(" · iteration {number} of {most}"));
        let head = format!(
            "{}{iteration}{turns} · {}+{} tokens · {seconds} s",
            shown.step, shown.input, shown.output
        );
        let room = width().saturating_sub(head.chars().count() + 6);
        let letters: Vec<char> = shown.tail.chars().collect();
        let tail: String = letters.iter().skip(letters.len().saturating_sub(room)).collect();
        self.bar.set_message(format!("{head}  {}", one_line(&tail, room.max(1))));
    }
}
