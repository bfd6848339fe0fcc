//! Pauses between the steps of long work, in which others who write take their turn.
//!
//! SQLite has no queue for those who wait for a file: each looks again after some milliseconds. Work that takes the lock again
//! at once is nearly always met by them, however short its steps are; so it waits as long as it worked.

use std::time::{Duration, Instant};

/// Longest pause: a step that took longer was slow because of others.
const LONGEST: Duration = Duration::from_millis(100);

/// A step of long work, from when it began.
pub(crate) struct LongWorkStep(Instant);

impl LongWorkStep {
    pub(crate) fn begin() -> Self {
        LongWorkStep(Instant::now())
    }

    /// How long to wait after it.
    pub(crate) fn pause(&self) -> Duration {
        self.0.elapsed().min(LONGEST)
    }

    /// Waits after it. No runtime is assumed, so a thread does the waiting.
    pub(crate) async fn rest(self) {
        let (woken, waiting) = tokio::sync::oneshot::channel::<()>();
        let pause = self.pause();
        let sleeper = std::thread::Builder::new().name("scrollback-pause".into()).spawn(move || {
            std::thread::sleep(pause);
            let _ = woken.send(());
        });
        if sleeper.is_ok() {
            let _ = waiting.await;
        }
    }
}
