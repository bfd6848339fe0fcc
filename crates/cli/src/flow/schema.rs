//! `scrollback schema`: the JSON Schemas of flows and of the documents that commands about them print.

use std::process::ExitCode;

use scrollback_core::nearest::nearest_key;
use scrollback_flow::schemas;
use serde_json::json;

use super::args::SchemaArgs;
use crate::failure::{Failure, USAGE};
use crate::input;

pub(crate) fn run(args: &SchemaArgs, json: bool) -> Result<ExitCode, Failure> {
    match &args.name {
        Some(name) => input::print(&schemas::named(name).ok_or_else(|| unknown(name))?)?,
        None if json => {
            let all: Vec<_> =
                schemas::NAMES.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
            input::print(&format!("{}\n", json!({ "schemas": all })))?;
        }
        None => {
            let lines = schemas::NAMES.iter().map(|(name, about)| format!("{name:<12}  {about}\n"));
            input::print(&lines.collect::<Vec<_>>().concat())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = schemas::NAMES.iter().map(|(name, _)| *name).collect();
    let message = match nearest_key(name, known.iter().copied()) {
        Some(near) => format!("there is no schema {name:?}; did you mean `{near}`?"),
        None => format!("there is no schema {name:?} (known: {})", known.join(", ")),
    };
    Failure::new(USAGE, "unknown_schema", message).with("known", known)
}
