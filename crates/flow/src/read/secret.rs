//! Keys and tokens have no place in a flow: flows are shared, stored with every run and shown in lens.

use std::sync::OnceLock;

use scrollback_agent::document::TextPosition;
use scrollback_core::redact::{Options, Redactor};

use super::Prompts;
use super::context::{FlowReader, Spot};
use crate::problem::Code;

/// A shorter value of a variable is a word that flows may use.
const SHORTEST: usize = 8;

/// Notes every key or token in the text, comments included: what looks like one, and what is the value of a key that the
/// configuration knows. What it is is said, never the key.
pub(super) fn check(reading: &mut FlowReader<'_>) {
    // Compiled once; the rules without patterns always compile.
    static RULES: OnceLock<Option<Redactor>> = OnceLock::new();
    let text = reading.text;
    let mut spans = RULES
        .get_or_init(|| Redactor::new(&Options::default()).ok())
        .as_ref()
        .map_or_else(Vec::new, |rules| rules.text(text).spans);
    let configured = keys(reading);
    if configured.iter().any(|key| text.contains(key)) {
        let all = Redactor::new(&Options { configured, ..Options::default() });
        spans = all.map_or(spans, |rules| rules.text(text).spans);
    }
    for span in spans {
        let spot = Spot { path: String::new(), at: place(text, span.start) };
        let message = format!(
            "a secret ({}) is written here; keep it in the environment or name its variable in scrollback.toml, \
             and consider it known to others",
            span.kind.name()
        );
        reading.error(Code::SecretInFlow, &spot, message);
    }
}

/// The keys that stand in the environment. A flow that a run has kept was judged when the run began, and the
/// environment of today does not change it.
fn keys(reading: &FlowReader<'_>) -> Vec<String> {
    if matches!(reading.source.prompts, Prompts::Kept(_)) {
        return Vec::new();
    }
    let names = reading.source.catalog.key_names();
    let values = names.iter().filter_map(|name| (reading.source.environment)(name));
    values.map(|value| value.trim().to_string()).filter(|value| value.len() >= SHORTEST).collect()
}

fn place(text: &str, byte: usize) -> TextPosition {
    let before = text.get(..byte).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    TextPosition { line: 1 + before.matches('\n').count(), column: 1 + line.chars().count() }
}
