//! Events of a run: sent to watchers at once, and to the store with the next commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scrollback_core::Time;
use scrollback_core::redact::Redactor;
use serde::Serialize;
use serde_json::Value;

use super::Engine;

/// Something that happened in a run. Texts in it are redacted.
#[derive(Clone, Debug, Serialize)]
pub struct Telling {
    /// Its number within the run.
    pub sequence: u64,
    /// When.
    #[serde(rename = "time", serialize_with = "as_text")]
    pub at: Time,
    /// The step it is about.
    pub key: Option<String>,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What is known about it.
    pub data: Value,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape serde asks for")]
fn as_text<S: serde::Serializer>(at: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// Who watches a run, or takes its events elsewhere. What goes wrong there does not concern the run.
pub type Watcher = Arc<dyn Fn(&Telling) + Send + Sync>;

/// Numbers events, takes secrets out, and sends them to the watchers.
pub(crate) struct Teller {
    next: AtomicU64,
    redactor: Arc<Redactor>,
    watcher: Option<Watcher>,
    exporter: Option<Watcher>,
}

impl Teller {
    pub(super) fn new(next: u64, engine: &Engine) -> Self {
        Teller {
            next: AtomicU64::new(next),
            redactor: Arc::clone(&engine.redactor),
            watcher: engine.watcher.clone(),
            exporter: engine.exporter.clone(),
        }
    }

    /// Tells something.
    pub(super) fn tell(&self, at: Time, key: Option<String>, kind: &'static str, data: Value) -> Telling {
        self.tell_with(at, key, kind, data, || None)
    }

    /// The same, with messages that only leave with the event and are not kept in the trace.
    #[allow(clippy::needless_pass_by_value, reason = "the caller has just made the event")]
    pub(super) fn tell_with(
        &self,
        at: Time,
        key: Option<String>,
        kind: &'static str,
        data: Value,
        messages: impl FnOnce() -> Option<Value>,
    ) -> Telling {
        let told = self.number(at, key, kind, &data);
        self.show(&told, messages);
        told
    }

    /// An event with its number and without secrets, not sent yet.
    pub(super) fn number(&self, at: Time, key: Option<String>, kind: &'static str, data: &Value) -> Telling {
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        Telling { sequence, at, key, kind, data: self.redactor.value(data) }
    }

    /// Sends it to the watchers.
    pub(super) fn show(&self, told: &Telling, messages: impl FnOnce() -> Option<Value>) {
        if let Some(watcher) = &self.watcher {
            unharmed(watcher, told);
        }
        if let Some(exporter) = &self.exporter {
            let mut whole = told.clone();
            if let (Some(members), Some(messages)) = (whole.data.as_object_mut(), messages()) {
                members.insert("messages".into(), self.redactor.value(&messages));
            }
            unharmed(exporter, &whole);
        }
    }

    /// A text without its secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        self.redactor.text(text).text.into_owned()
    }
}

/// Calls a watcher, which may panic.
fn unharmed(watcher: &Watcher, told: &Telling) {
    let _ = catch_unwind(AssertUnwindSafe(|| watcher(told)));
}

/// The span of a key: the same however often a run is resumed. The run's own has the empty key.
///
/// It begins with the iterations the key is in, so that what is written together lies together: a loop adds its spans at one
/// place of the table, which moves on with it, and a commit writes one page of them and not one for each.
pub(crate) fn span_id(run: &str, key: &str) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(run.as_bytes()).update(b"\n").update(key.as_bytes());
    let mut id = format!("{:05x}", iterations(key).min(LAST));
    id.extend(hash.finalize().to_hex().chars().take(ID_LENGTH - id.len()));
    id
}

/// Hexadecimal digits of a span's id, as traces want them.
const ID_LENGTH: usize = 16;
/// The largest number of iterations that an id can begin with: ten times what a loop may have.
const LAST: u64 = 0xF_FFFF;

/// The sum of all iterations in a key: it changes by little from one step to the next, in loops inside loops too.
fn iterations(key: &str) -> u64 {
    let numbers = key.split('[').skip(1).filter_map(|rest| rest.split_once(']')?.0.parse::<u64>().ok());
    numbers.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_a_loop_are_told_apart_and_come_in_its_order() {
        let keys: Vec<String> = (1..300)
            .flat_map(|number| ["", "/talk", "/talk#1"].map(|end| format!("chat[{number}]{end}")))
            .collect();
        let ids: Vec<String> = keys.iter().map(|key| span_id("run", key)).collect();
        let mut apart = ids.clone();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!(apart.len(), keys.len());
        assert!(ids.iter().all(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())));
        let first = |id: &String| id.get(..5).map(String::from);
        assert!(ids.iter().map(first).is_sorted());
        assert_eq!(span_id("run", "a[2]/b[3]/c"), span_id("run", "a[2]/b[3]/c"));
        assert_ne!(span_id("run", "a[2]/b[3]/c"), span_id("other", "a[2]/b[3]/c"));
        assert_eq!((iterations("a[2]/b[3]/c"), iterations("plain"), iterations("")), (5, 0, 0));
        let huge = format!("a[{}]/b[{}]", u64::MAX, u64::MAX);
        assert_eq!(span_id("run", &huge).get(..5), Some("fffff"));
    }
}
