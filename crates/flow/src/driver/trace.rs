//! What a run tells while it runs: to whoever watches, at once; to the store, with the next commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use scrollback_core::Time;
use scrollback_core::redact::Redactor;
use serde::Serialize;
use serde_json::Value;

/// Something that happened in a run. Texts in it are redacted.
#[derive(Clone, Debug, Serialize)]
pub struct Telling {
    /// Its number within the run.
    pub sequence: u64,
    /// When.
    #[serde(serialize_with = "as_text")]
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

/// Who watches a run.
pub type Watcher = Arc<dyn Fn(&Telling) + Send + Sync>;

/// Numbers what happens, takes secrets out, and tells whoever watches.
pub(crate) struct Teller {
    next: AtomicU64,
    redactor: Arc<Redactor>,
    watcher: Option<Watcher>,
}

impl Teller {
    pub(super) fn new(next: u64, redactor: Arc<Redactor>, watcher: Option<Watcher>) -> Self {
        Teller { next: AtomicU64::new(next), redactor, watcher }
    }

    /// What happened, numbered and told.
    pub(super) fn tell(&self, at: Time, key: Option<String>, kind: &'static str, data: Value) -> Telling {
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        let told = Telling { sequence, at, key, kind, data: redacted(&self.redactor, data) };
        if let Some(watcher) = &self.watcher {
            watcher(&told);
        }
        told
    }

    /// A text without its secrets.
    pub(super) fn redact(&self, text: &str) -> String {
        self.redactor.text(text).text.into_owned()
    }
}

/// A value whose texts are without their secrets.
pub(crate) fn redacted(redactor: &Redactor, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redactor.text(&text).text.into_owned()),
        Value::Array(list) => list.into_iter().map(|value| redacted(redactor, value)).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, redacted(redactor, value))).collect()
        }
        other => other,
    }
}

/// The span of a key: the same however often a run is resumed. The run's own has the empty key.
pub(crate) fn span_id(run: &str, key: &str) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(run.as_bytes()).update(b"\n").update(key.as_bytes());
    hash.finalize().to_hex().chars().take(16).collect()
}
