//! `scrollback redact`: a text without its secrets.

use std::collections::BTreeMap;

use scrollback_agent::config;
use scrollback_core::redact::Redactor;
use serde::Serialize;

use crate::args::RedactArgs;
use crate::failure::{Failure, INVALID, USAGE};
use crate::{answer, input};

/// The `--json` object.
#[derive(Serialize)]
struct RedactJson<'t> {
    text: &'t str,
    counts: BTreeMap<&'static str, usize>,
}

pub(crate) fn run(args: &RedactArgs, json: bool) -> Result<(), Failure> {
    let options = config::load()?.redaction();
    let redactor =
        Redactor::new(&options).map_err(|error| Failure::new(USAGE, "bad_config", error.to_string()))?;
    let bytes = input::read(&args.file)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let message =
            format!("{}: not UTF-8 at byte {}; convert it first", args.file.display(), error.valid_up_to());
        Failure::new(INVALID, "bad_input", message)
    })?;
    let redacted = redactor.text(text);
    if json {
        let answer = RedactJson { text: &redacted.text, counts: redacted.counts() };
        return input::print(&format!("{}\n", answer::to_json(&answer)?));
    }
    input::print(&redacted.text)
}
