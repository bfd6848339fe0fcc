//! What is counted, as Prometheus reads it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use scrollback_core::Time;
use scrollback_store::Sizes;

/// Upper ends of the buckets of a time, in seconds: half a millisecond is what the proxy may add, minutes what models take.
const BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// What is counted in whole numbers, and what each name counts. The text has `_total` after each name.
const COUNTERS: [(&str, &str); 9] = [
    ("scrollback_requests", "Requests answered, by route and status"),
    ("scrollback_upstream_requests", "Requests sent to providers, by wire and status"),
    ("scrollback_tokens", "Tokens providers reported, by model and kind"),
    ("scrollback_cuts", "Views that were cut, by manager"),
    ("scrollback_repairs", "Requests repaired before they were sent, by wire"),
    ("scrollback_record_failures", "Entries that could not be recorded"),
    ("scrollback_truncated", "Replies that broke off, by side"),
    ("scrollback_refused_connections", "Connections refused because their address had too many"),
    ("scrollback_spans", "Spans for the collector, by outcome"),
];
/// What is counted in dollars.
const COST: (&str, &str) = ("scrollback_cost_usd", "What they cost, where the price is known");
/// What is timed.
const SECONDS: (&str, &str) = ("scrollback_seconds", "Time spent, by part of a request");
/// What is measured in bytes.
const STORE_BYTES: (&str, &str) = ("scrollback_store_bytes", "Room the store takes, by kind");
/// The same of what is too much of it.
const OVER_BYTES: (&str, &str) =
    ("scrollback_store_over_bytes", "Bytes beyond max_size although nothing is left that may go");
/// What the text has after the name of every counter.
const TOTAL: &str = "_total";

/// How long a measurement of the store holds at least, in milliseconds: it looks at every page.
const MEASURED: i64 = 60_000;
/// How many times as long as it took it holds, so that a large store is not measured for more than a hundredth of the time.
const MEASURED_TIMES: i64 = 100;

/// Names and values, in the order in which they are written.
type Labels = Vec<(String, String)>;
type CounterFamily = Family<Labels, Counter>;
type Sums = Family<Labels, Counter<f64, AtomicU64>>;
type Amounts = Family<Labels, Gauge>;
type Times = Family<Labels, Histogram, fn() -> Histogram>;

/// Counters and times, by name and labels.
pub struct Metrics {
    registry: Registry,
    counters: [CounterFamily; COUNTERS.len()],
    cost: Sums,
    seconds: Times,
    store_bytes: Amounts,
    over_bytes: Amounts,
    /// When the store was measured, and for how long that holds.
    measured: Mutex<Option<(Time, i64)>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let counters = COUNTERS.map(|(name, help)| {
            let counts = CounterFamily::default();
            registry.register(name, help, counts.clone());
            counts
        });
        let cost = Sums::default();
        registry.register(COST.0, COST.1, cost.clone());
        let seconds = Times::new_with_constructor(|| Histogram::new(BUCKETS));
        registry.register(SECONDS.0, SECONDS.1, seconds.clone());
        let store_bytes = Amounts::default();
        registry.register(STORE_BYTES.0, STORE_BYTES.1, store_bytes.clone());
        let over_bytes = Amounts::default();
        registry.register(OVER_BYTES.0, OVER_BYTES.1, over_bytes.clone());
        Metrics { registry, counters, cost, seconds, store_bytes, over_bytes, measured: Mutex::default() }
    }
}

impl Metrics {
    /// Adds to a counter.
    pub fn add(&self, name: &'static str, labels: &[(&str, &str)], amount: f64) {
        if let Some(counts) = self.counter(name) {
            counts.get_or_create(&owned(labels)).inc_by(amount as u64);
        } else if bare(name) == COST.0 {
            self.cost.get_or_create(&owned(labels)).inc_by(amount);
        }
    }

    /// Says where a counter stands that is kept elsewhere.
    pub fn set(&self, name: &'static str, labels: &[(&str, &str)], total: f64) {
        if let Some(counts) = self.counter(name) {
            counts.get_or_create(&owned(labels)).inner().store(total as u64, Ordering::Relaxed);
        }
    }

    /// Notes a time, in seconds.
    pub fn time(&self, name: &'static str, labels: &[(&str, &str)], seconds: f64) {
        if name == SECONDS.0 {
            self.seconds.get_or_create(&owned(labels)).observe(seconds);
        }
    }

    /// Whether it is time to measure the store again; if so, the caller does it.
    pub(crate) fn measures_store(&self, now: Time) -> bool {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let lately = measured.is_some_and(|(at, holds)| (0..holds).contains(&(now.0 - at.0)));
        if !lately {
            *measured = Some((now, MEASURED));
        }
        !lately
    }

    /// Says how long measuring the store took.
    pub(crate) fn measuring_took(&self, milliseconds: i64) {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, holds)) = measured.as_mut() {
            *holds = MEASURED.max(milliseconds.saturating_mul(MEASURED_TIMES));
        }
    }

    /// Says by how much the store is larger than it may be.
    pub(crate) fn set_over(&self, bytes: u64) {
        self.over_bytes.get_or_create(&Vec::new()).set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Says how much room the store takes.
    pub(crate) fn set_sizes(&self, sizes: &Sizes) {
        for (kind, bytes) in sizes.kinds() {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            self.store_bytes.get_or_create(&owned(&[("kind", kind)])).set(bytes);
        }
    }

    /// All of it in the text format of `OpenMetrics`, which Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn counter(&self, name: &str) -> Option<&CounterFamily> {
        let place = COUNTERS.iter().position(|(known, _)| *known == bare(name))?;
        self.counters.get(place)
    }
}

/// The kind of text that [`Metrics::text`] is.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The name of a counter without what the text has after it.
fn bare(name: &str) -> &str {
    name.strip_suffix(TOTAL).unwrap_or(name)
}

fn owned(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let metrics = Metrics::default();
        metrics.add("scrollback_requests_total", &[("route", "/v1/\"x\""), ("status", "200")], 1.0);
        metrics.add("scrollback_requests_total", &[("route", "/v1/\"x\""), ("status", "200")], 1.0);
        metrics.add("scrollback_cost_usd_total", &[("model", "gpt-4o")], 0.25);
        metrics.set("scrollback_spans_total", &[("outcome", "sent")], 7.0);
        metrics.time("scrollback_seconds", &[("part", "record")], 0.003);
        let text = metrics.text();
        let expected = [
            "# TYPE scrollback_requests counter\n",
            "scrollback_requests_total{route=\"/v1/\\\"x\\\"\",status=\"200\"} 2\n",
            "scrollback_cost_usd_total{model=\"gpt-4o\"} 0.25\n",
            "scrollback_spans_total{outcome=\"sent\"} 7\n",
            "scrollback_seconds_bucket{le=\"0.0025\",part=\"record\"} 0\n",
            "scrollback_seconds_bucket{le=\"0.005\",part=\"record\"} 1\n",
            "scrollback_seconds_count{part=\"record\"} 1\n",
        ];
        for line in expected {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn every_name_is_counted_once() {
        // What was never counted is not printed.
        let metrics = Metrics::default();
        for (name, _) in COUNTERS.into_iter().chain([COST]) {
            metrics.add(name, &[], 1.0);
        }
        metrics.time(SECONDS.0, &[], 1.0);
        for (name, _) in COUNTERS.into_iter().chain([COST, SECONDS]) {
            assert_eq!(metrics.text().matches(&format!("# TYPE {name} ")).count(), 1, "{name}");
        }
    }
}
