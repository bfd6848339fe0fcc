//! What is counted, as Prometheus reads it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// Upper ends of the buckets of a time, in seconds: half a millisecond is what the proxy may add, minutes what models take.
const BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// Counters and times, by name and labels.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    counters: By<f64>,
    times: By<Times>,
    /// Room for the labels that are looked for: most are there already, and nothing is kept of them.
    written: String,
}

/// Something for every name and its labels as they are written.
type By<T> = BTreeMap<&'static str, BTreeMap<String, T>>;

#[derive(Clone, Debug, Default)]
struct Times {
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    count: u64,
}

/// What each name counts.
const HELP: [(&str, &str); 11] = [
    ("scrollback_requests_total", "Requests answered, by route and status"),
    ("scrollback_upstream_requests_total", "Requests sent to providers, by wire and status"),
    ("scrollback_tokens_total", "Tokens providers reported, by model and kind"),
    ("scrollback_cost_usd_total", "What they cost, where the price is known"),
    ("scrollback_cuts_total", "Views that were cut, by manager"),
    ("scrollback_repairs_total", "Requests mended before they were sent, by wire"),
    ("scrollback_record_failures_total", "Entries that could not be recorded"),
    ("scrollback_truncated_total", "Replies that broke off, by side"),
    ("scrollback_refused_connections_total", "Connections refused because their address had too many"),
    ("scrollback_spans_total", "Spans for the collector, by what became of them"),
    ("scrollback_seconds", "Time spent, by part of a request"),
];

impl Metrics {
    /// Adds to a counter.
    pub fn add(&self, name: &'static str, labels: &[(&str, &str)], amount: f64) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted { counters, written, .. } = &mut *counted;
        change(counters, written, name, labels, |total| *total += amount);
    }

    /// Says where a counter stands that somebody else keeps.
    pub fn set(&self, name: &'static str, labels: &[(&str, &str)], total: f64) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted { counters, written, .. } = &mut *counted;
        change(counters, written, name, labels, |before| *before = total);
    }

    /// Notes a time, in seconds.
    pub fn time(&self, name: &'static str, labels: &[(&str, &str)], seconds: f64) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted { times, written, .. } = &mut *counted;
        change(times, written, name, labels, |times| {
            for (count, end) in times.buckets.iter_mut().zip(BUCKETS) {
                *count += u64::from(seconds <= end);
            }
            times.sum += seconds;
            times.count += 1;
        });
    }

    /// All of it in Prometheus' text format.
    pub fn text(&self) -> String {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        let mut last = "";
        for (name, labels, value) in all(&counted.counters) {
            head(&mut out, &mut last, name, "counter");
            let _ = writeln!(out, "{name}{} {value}", braced(labels));
        }
        for (name, labels, times) in all(&counted.times) {
            head(&mut out, &mut last, name, "histogram");
            let comma = if labels.is_empty() { "" } else { "," };
            for (count, end) in times.buckets.iter().zip(BUCKETS) {
                let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {count}");
            }
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", times.count);
            let _ = writeln!(out, "{name}_sum{} {}", braced(labels), times.sum);
            let _ = writeln!(out, "{name}_count{} {}", braced(labels), times.count);
        }
        out
    }
}

fn head<'n>(out: &mut String, last: &mut &'n str, name: &'n str, kind: &str) {
    if *last != name {
        if let Some((_, help)) = HELP.iter().find(|(known, _)| *known == name) {
            let _ = writeln!(out, "# HELP {name} {help}");
        }
        let _ = writeln!(out, "# TYPE {name} {kind}");
        *last = name;
    }
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

/// Changes what is counted under a name and labels. Its room is given along to write the labels in.
fn change<T: Default>(
    counted: &mut By<T>,
    written: &mut String,
    name: &'static str,
    labels: &[(&str, &str)],
    change: impl FnOnce(&mut T),
) {
    write_labels(written, labels);
    let counted = counted.entry(name).or_default();
    match counted.get_mut(written.as_str()) {
        Some(known) => change(known),
        None => change(counted.entry(written.clone()).or_default()),
    }
}

fn all<T>(counted: &By<T>) -> impl Iterator<Item = (&'static str, &str, &T)> {
    counted
        .iter()
        .flat_map(|(name, by)| by.iter().map(move |(labels, value)| (*name, labels.as_str(), value)))
}

/// The labels as Prometheus reads them, in place of what was written before.
fn write_labels(out: &mut String, labels: &[(&str, &str)]) {
    out.clear();
    for (name, value) in labels {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        if value.contains(['\\', '"', '\n']) {
            out.push_str(&value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
        } else {
            out.push_str(value);
        }
        out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let metrics = Metrics::default();
        metrics.add("scrollback_requests_total", &[("route", "/v1/\"x\""), ("status", "200")], 1.0);
        metrics.add("scrollback_requests_total", &[("route", "/v1/\"x\""), ("status", "200")], 1.0);
        metrics.time("scrollback_seconds", &[("part", "record")], 0.003);
        let text = metrics.text();
        assert!(text.contains("# TYPE scrollback_requests_total counter\n"), "{text}");
        assert!(
            text.contains("scrollback_requests_total{route=\"/v1/\\\"x\\\"\",status=\"200\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("scrollback_seconds_bucket{part=\"record\",le=\"0.0025\"} 0\n"), "{text}");
        assert!(text.contains("scrollback_seconds_bucket{part=\"record\",le=\"0.005\"} 1\n"), "{text}");
        assert!(text.contains("scrollback_seconds_count{part=\"record\"} 1\n"), "{text}");
    }
}
