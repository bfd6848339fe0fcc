//! The live display: drawn by a thread of its own, so that a terminal that stands still holds no run up.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use scrollback_core::redact::Redactor;
use scrollback_flow::driver::Telling;

use super::shown::LiveDisplay;
use super::{PATIENCE, WAITING, plain};
use crate::store::width;

/// How often the display is drawn: ten times a second.
const TICK: Duration = Duration::from_millis(100);
/// Columns of what stands before the text.
const SPINNER: usize = 2;

/// The live display.
pub(super) struct Live {
    shown: Arc<Mutex<LiveDisplay>>,
    redactor: Arc<Mutex<Option<Arc<Redactor>>>>,
    orders: SyncSender<Order>,
}

/// What the thread that draws is told.
enum Order {
    /// A line that stays.
    Print(String),
    /// Nothing is drawn until further notice; the sender waits for that.
    Hide(SyncSender<()>),
    /// From here on it is drawn again.
    Show,
}

impl Live {
    pub(super) fn new() -> Self {
        let (orders, told) = sync_channel(WAITING);
        let live = Live { shown: Arc::new(Mutex::new(LiveDisplay::new())), redactor: Arc::default(), orders };
        let (shown, redactor) = (Arc::clone(&live.shown), Arc::clone(&live.redactor));
        std::thread::spawn(move || draw(&shown, &redactor, &told));
        live
    }

    /// What takes secrets out of replies. Without it none are shown.
    pub(super) fn redact_with(&self, redactor: &Arc<Redactor>) {
        *self.redactor.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(redactor));
    }

    fn shown(&self) -> MutexGuard<'_, LiveDisplay> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line that stays. A terminal that stands still misses it.
    pub(super) fn print(&self, line: String) {
        let _ = self.orders.try_send(Order::Print(line));
    }

    /// Takes in an event; some are worth a line that stays.
    pub(super) fn take(&self, told: &Telling) {
        self.shown().take(told);
        let stays = matches!(
            told.kind,
            "step.finished"
                | "step.failed"
                | "history.overflow"
                | "history.summarize_failed"
                | "agent.retry"
                | "quota.exceeded"
        );
        if let Some(line) = plain(told).filter(|_| stays) {
            self.print(line);
        }
    }

    /// Takes in a piece of a reply.
    pub(super) fn observe(&self, key: &str, text: &str) {
        self.shown().observe(key, text);
    }

    /// Takes the display away, and waits for that within reason.
    pub(super) fn hide(&self) {
        let (done, hidden) = sync_channel(1);
        if self.orders.try_send(Order::Hide(done)).is_ok() {
            let _ = hidden.recv_timeout(PATIENCE);
        }
    }

    /// Brings it back.
    pub(super) fn show(&self) {
        let _ = self.orders.try_send(Order::Show);
    }
}

/// Draws until the last sender is dropped.
fn draw(shown: &Mutex<LiveDisplay>, redactor: &Mutex<Option<Arc<Redactor>>>, orders: &Receiver<Order>) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // What a style looks up is drawn when the spinner turns; a message would be drawn whenever it is set, too.
    let said: Arc<Mutex<String>> = Arc::default();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {said}") {
        let said = Arc::clone(&said);
        bar.set_style(style.with_key("said", move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&said.lock().unwrap_or_else(PoisonError::into_inner));
        }));
    }
    let began = Instant::now();
    let (mut drawn, mut hidden) = (Instant::now(), false);
    loop {
        match orders.recv_timeout(TICK.saturating_sub(drawn.elapsed())) {
            Ok(Order::Print(line)) => bar.println(line),
            Ok(Order::Hide(done)) => {
                hidden = true;
                bar.finish_and_clear();
                let _ = done.try_send(());
            }
            Ok(Order::Show) => {
                hidden = false;
                bar.reset();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if drawn.elapsed() < TICK || hidden {
            if hidden {
                drawn = Instant::now();
            }
            continue;
        }
        drawn = Instant::now();
        let redactor = redactor.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let columns = width().saturating_sub(SPINNER);
        let lines = shown.lock().unwrap_or_else(PoisonError::into_inner).lines(
            began.elapsed().as_secs(),
            columns,
            redactor.as_deref(),
        );
        *said.lock().unwrap_or_else(PoisonError::into_inner) = lines;
        bar.tick();
    }
    bar.finish_and_clear();
}
