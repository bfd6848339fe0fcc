//! Work that goes on after the request it was for: a server that stops waits for it.

use tokio::sync::watch;

/// How much work goes on.
#[derive(Debug)]
pub(crate) struct Tasks(watch::Sender<usize>);

impl Default for Tasks {
    fn default() -> Self {
        Tasks(watch::Sender::new(0))
    }
}

/// One piece of it; no longer when it is dropped.
#[derive(Debug)]
pub(crate) struct BackgroundTask(watch::Sender<usize>);

impl Tasks {
    /// Another piece of work.
    pub(crate) fn enter(&self) -> BackgroundTask {
        self.0.send_modify(|count| *count += 1);
        BackgroundTask(self.0.clone())
    }

    /// Waits until there is none.
    pub(crate) async fn ended(&self) {
        let mut count = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = count.wait_for(|count| *count == 0).await;
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
