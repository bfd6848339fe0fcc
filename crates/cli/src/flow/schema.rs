//! `scrollback schema`: the JSON Schemas of flows, agents and sub-agents, and of the documents that commands print.

use std::process::ExitCode;

use scrollback_agent::agent_file;
use scrollback_core::nearest::nearest_key;
use scrollback_flow::schemas;
use serde_json::json;

use super::args::SchemaArgs;
use crate::failure::{Failure, USAGE};
use crate::input;

/// Files that people write beside flows.
const AGENTS: [(&str, &str, &str); 2] = [
    ("agent", "an agent, as it is written (AGENT.yaml)", agent_file::SCHEMA),
    ("subagent", "a sub-agent, as it is written", scrollback_subagent::SCHEMA),
];

pub(crate) fn run(args: &SchemaArgs, json: bool) -> Result<ExitCode, Failure> {
    match &args.name {
        Some(name) => input::print(&named(name).ok_or_else(|| unknown(name))?)?,
        None if json => {
            let all: Vec<_> = names().map(|(name, about)| json!({ "name": name, "about": about })).collect();
            input::print(&format!("{}\n", json!({ "schemas": all })))?;
        }
        None => {
            let lines = names().map(|(name, about)| format!("{name:<12}  {about}\n"));
            input::print(&lines.collect::<Vec<_>>().concat())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Every schema with what it describes.
fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let agents = AGENTS.iter().map(|(name, about, _)| (*name, *about));
    schemas::NAMES.iter().copied().chain(agents)
}

fn named(name: &str) -> Option<String> {
    let agent = AGENTS.iter().find(|(known, ..)| *known == name).map(|(.., schema)| String::from(*schema));
    agent.or_else(|| schemas::named(name))
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = names().map(|(name, _)| name).collect();
    let message = match nearest_key(name, known.iter().copied()) {
        Some(near) => format!("there is no schema {name:?}; did you mean `{near}`?"),
        None => format!("there is no schema {name:?} (known: {})", known.join(", ")),
    };
    Failure::new(USAGE, "unknown_schema", message).with("known", known)
}
