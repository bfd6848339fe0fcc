//! Keys and tokens have no place in a flow: flows are shared, stored with every run and shown in lens.

use std::sync::OnceLock;

use scrollback_agent::document::Place;
use scrollback_core::redact::{Options, Redactor};

use super::context::{Reading, Spot};
use crate::problem::Code;

/// Notes every key or token in the text, comments included. What it is is said, never the key.
pub(super) fn check(reading: &mut Reading<'_>) {
    // Compiled once; the rules without options always compile.
    static RULES: OnceLock<Option<Redactor>> = OnceLock::new();
    let Some(redactor) = RULES.get_or_init(|| Redactor::new(&Options::default()).ok()) else { return };
    let text = reading.text;
    for span in redactor.text(text).spans {
        let spot = Spot { path: String::new(), at: place(text, span.start) };
        let message = format!(
            "a secret ({}) is written here; keep it in the environment or name its variable in scrollback.toml, \
             and consider it known to others",
            span.kind.name()
        );
        reading.error(Code::SecretInFlow, &spot, message);
    }
}

fn place(text: &str, byte: usize) -> Place {
    let before = text.get(..byte).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    Place { line: 1 + before.matches('\n').count(), column: 1 + line.chars().count() }
}
