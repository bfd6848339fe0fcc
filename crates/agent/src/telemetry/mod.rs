//! Spans of what models, tools and agents are asked, as OpenTelemetry's conventions for generative AI name them.
//!
//! - A [`FinishedSpan`] is one piece of work that ended: [`Chat`] a model, [`ToolUse`] a tool, [`Invoked`] an agent.
//! - [`Telemetry`] takes spans and sends them to a collector in the background: taking one never waits and never
//!   fails. What a collector does not take in time is dropped, and [`SpanCounts`] says how much.
//! - [`names`] has the names of attributes, which are still in development, in one place.
//!
//! What was said is in no span unless the configuration asks for it, and then without secrets. Without the feature `otel`
//! nothing is sent: a [`Telemetry`] that is on cannot be made.

mod content;
pub mod names;
#[cfg(feature = "otel")]
mod otlp;
#[cfg(feature = "otel")]
mod queue;
mod span;

#[cfg(feature = "otel")]
use std::sync::Arc;

use scrollback_core::redact::Redactor;
use uuid::Uuid;

use crate::config::{BadConfig, TelemetrySettings};
pub use content::ContentWriter;
pub use span::{AttributeValue, Chat, FinishedSpan, Invoked, Sampled, SpanContext, SpanId, ToolUse};

/// The outcome of the spans so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Those a collector took.
    pub sent: u64,
    /// Those that were dropped: the queue was full, or the collector could not be reached.
    pub dropped: u64,
}

/// Takes spans for a collector; nothing where it is off, as it is by default. Clones share one queue.
#[derive(Clone, Default)]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    queue: Option<Arc<queue::Queue>>,
    /// The trace that spans belong to, and the span they are part of, where they are part of something larger.
    larger: Option<(Uuid, Option<SpanId>)>,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("is_on", &self.is_on()).finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Begins to send spans as configured. Must be called where tasks can be spawned.
    #[cfg(feature = "otel")]
    pub fn start(settings: &TelemetrySettings, redactor: Redactor) -> Result<Self, BadConfig> {
        let collector = otlp::Collector::new(settings)?;
        let content = settings.content.then(|| ContentWriter::new(redactor));
        Ok(Telemetry { queue: Some(Arc::new(queue::Queue::start(collector, content))), larger: None })
    }

    /// Says that this build sends nothing.
    #[cfg(not(feature = "otel"))]
    pub fn start(_: &TelemetrySettings, _: Redactor) -> Result<Self, BadConfig> {
        Err(BadConfig::without_otel())
    }

    /// The same for spans that are part of something larger: all of them are in one trace.
    #[must_use]
    pub fn within(&self, trace: Uuid, parent: Option<SpanId>) -> Self {
        let mut within = self.clone();
        within.larger = Some((trace, parent));
        within
    }

    /// The same for spans of a run: whichever process goes on with it, they are in one trace.
    #[must_use]
    pub fn of_run(&self, run: &str) -> Self {
        let hash = blake3::hash(run.as_bytes());
        let (half, _) = hash.as_bytes().split_at(16);
        self.within(Uuid::from_slice(half).unwrap_or_default(), None)
    }

    /// Where a span about an evaluation or a call stands: at the beginning of a trace of its own, unless it is part of
    /// something larger.
    pub fn place(&self, own: Uuid, span: SpanId) -> SpanContext {
        let (trace, parent) = self.larger.unwrap_or((own, None));
        SpanContext { trace, span, parent }
    }
}

#[cfg(feature = "otel")]
impl Telemetry {
    /// Whether spans are sent anywhere.
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether what was said is wanted too.
    pub fn wants_content(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.content().is_some())
    }

    /// Takes a span, made only if spans are wanted. What was said goes in where that was asked for.
    pub fn tell(&self, span: impl FnOnce(Option<&ContentWriter>) -> FinishedSpan) {
        if let Some(queue) = &self.queue {
            queue.take(span(queue.content()));
        }
    }

    /// The outcome of the spans so far.
    pub fn counts(&self) -> SpanCounts {
        self.queue.as_ref().map(|queue| queue.counts()).unwrap_or_default()
    }

    /// Sends what is waiting, as long as that takes no more than a moment.
    pub async fn flush(&self) {
        if let Some(queue) = &self.queue {
            queue.flush().await;
        }
    }
}

#[cfg(not(feature = "otel"))]
#[allow(clippy::unused_self, clippy::unused_async, reason = "the shape of the build that sends spans")]
impl Telemetry {
    /// Whether spans are sent anywhere.
    pub fn is_on(&self) -> bool {
        false
    }

    /// Whether what was said is wanted too.
    pub fn wants_content(&self) -> bool {
        false
    }

    /// Takes a span, made only if spans are wanted; without the feature they never are.
    pub fn tell(&self, _: impl FnOnce(Option<&ContentWriter>) -> FinishedSpan) {}

    /// The outcome of the spans so far.
    pub fn counts(&self) -> SpanCounts {
        SpanCounts::default()
    }

    /// Sends what is waiting, as long as that takes no more than a moment.
    pub async fn flush(&self) {}
}
