//! Spans on their way to the collector: a bounded queue and the task that empties it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::content::ContentWriter;
use super::otlp::Collector;
use super::{FinishedSpan, SpanCounts};

/// Spans that may wait: some seconds of a busy server, a few megabytes.
const WAITING: usize = 2048;
/// Spans that are sent together.
const TOGETHER: usize = 512;
/// How long a span waits for others to go with.
const GATHER: Duration = Duration::from_millis(500);
/// How long the process waits at its end for the rest to be sent.
const FLUSH: Duration = Duration::from_secs(3);

/// Takes spans without ever making the caller wait.
pub(super) struct Queue {
    sender: mpsc::Sender<QueueMessage>,
    content: Option<ContentWriter>,
    counted: Arc<QueueCounters>,
}

enum QueueMessage {
    Span(Box<FinishedSpan>),
    /// Tells when everything before it was sent.
    Flush(oneshot::Sender<()>),
}

#[derive(Default)]
struct QueueCounters {
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Queue {
    /// A queue, and a task that sends what is in it.
    pub(super) fn start(collector: Collector, content: Option<ContentWriter>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        let counted = Arc::<QueueCounters>::default();
        tokio::spawn(empty(receiver, collector, Arc::clone(&counted)));
        Queue { sender, content, counted }
    }

    pub(super) fn content(&self) -> Option<&ContentWriter> {
        self.content.as_ref()
    }

    pub(super) fn take(&self, span: FinishedSpan) {
        if self.sender.try_send(QueueMessage::Span(Box::new(span))).is_err() {
            self.counted.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> SpanCounts {
        let QueueCounters { sent, dropped } = &*self.counted;
        SpanCounts { sent: sent.load(Ordering::Relaxed), dropped: dropped.load(Ordering::Relaxed) }
    }

    pub(super) async fn flush(&self) {
        let (done, sent) = oneshot::channel();
        let all = async {
            if self.sender.send(QueueMessage::Flush(done)).await.is_ok() {
                let _ = sent.await;
            }
        };
        // A slow collector does not keep the process from ending.
        let _ = timeout(FLUSH, all).await;
    }
}

/// Sends what is in the queue, some at a time, until the last sender is dropped.
async fn empty(
    mut receiver: mpsc::Receiver<QueueMessage>,
    collector: Collector,
    counted: Arc<QueueCounters>,
) {
    let mut reachable = true;
    while let Some(first) = receiver.recv().await {
        let (mut spans, mut flush) = (Vec::new(), None);
        let until = Instant::now() + GATHER;
        let mut next = Some(first);
        while let Some(message) = next.take() {
            match message {
                QueueMessage::Span(span) => spans.push(*span),
                QueueMessage::Flush(done) => flush = Some(done),
            }
            if spans.len() < TOGETHER && flush.is_none() {
                next = timeout_at(until, receiver.recv()).await.ok().flatten();
            }
        }
        if !spans.is_empty() {
            let result = collector.send(&spans).await;
            let count = if result.is_ok() { &counted.sent } else { &counted.dropped };
            count.fetch_add(spans.len() as u64, Ordering::Relaxed);
            // Said once, not for every batch of a collector that is away for the night.
            if let (true, Err(problem)) = (reachable, &result) {
                tracing::warn!(problem, "spans could not be sent; they are dropped and counted");
            }
            reachable = result.is_ok();
        }
        if let Some(done) = flush {
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use scrollback_core::Time;
    use uuid::Uuid;

    use super::*;
    use crate::config::TelemetrySettings;
    use crate::runner::AttemptUsage;
    use crate::telemetry::{Invoked, SpanContext, SpanId};

    #[tokio::test]
    async fn what_does_not_fit_is_dropped_and_counted_and_nobody_waits() {
        let settings = TelemetrySettings {
            traces: "http://127.0.0.1:9/v1/traces".into(),
            headers: Vec::new(),
            service_name: "test".into(),
            content: false,
        };
        let queue = Queue::start(Collector::new(&settings).unwrap(), None);
        let span = Invoked {
            place: SpanContext { trace: Uuid::from_u128(1), span: SpanId::random(), parent: None },
            time: (Time(1), Time(2)),
            name: "a",
            provider: "offline",
            model: "echo",
            conversation: "c",
            spent: &AttemptUsage::default(),
            error: None,
        };
        // On one thread nothing is taken out meanwhile.
        for _ in 0..WAITING + 7 {
            queue.take(span.span());
        }
        assert_eq!(queue.counts(), SpanCounts { sent: 0, dropped: 7 });
    }
}
