//! The help of `scrollback` itself, its commands in groups, and the manual.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Command, CommandFactory};
use serde_json::json;

use crate::args::Args;
use crate::failure::Failure;
use crate::input;

/// The commands most people need first.
const FIRST: [&str; 4] = ["wrap", "serve", "curate", "history"];

/// All others, by what they are for. Those that are in no group are told under the last one.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Record", &["setup", "service", "list", "show", "read", "search", "import", "export", "mcp"]),
    ("Curate", &["check", "convert", "tokens", "simulate", "redact"]),
    ("Serve", &["key"]),
    ("Run", &["chat", "agent", "subagent", "run", "resume", "lens", "validate", "init", "schema", "lisp"]),
    ("Operate", &["doctor", "verify", "backup", "restore", "prune", "erase", "man", "completions"]),
];

/// The command line with its commands in groups.
pub(crate) fn command() -> Command {
    let command = Args::command();
    let listed = listed(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}Options:\n{{options}}{{after-help}}"
    ))
}

fn listed(command: &Command) -> String {
    let about = |name: &str| {
        let found = command.get_subcommands().find(|known| known.get_name() == name)?;
        Some(found.get_about().map(ToString::to_string).unwrap_or_default())
    };
    let mut out = String::new();
    let mut group = |title: &str, names: &[&str]| {
        let rows: Vec<_> = names.iter().filter_map(|name| Some((name, about(name)?))).collect();
        if !rows.is_empty() {
            let _ = writeln!(out, "{title}:");
            for (name, about) in rows {
                let _ = writeln!(out, "  {name:<12} {about}");
            }
            out.push('\n');
        }
    };
    group("First", &FIRST);
    for (title, names) in GROUPS {
        let others = command.get_subcommands().map(Command::get_name).filter(|name| !is_grouped(name));
        let others: Vec<&str> = if title == "Operate" { others.collect() } else { Vec::new() };
        group(title, &[names, &others].concat());
    }
    out
}

fn is_grouped(name: &str) -> bool {
    name == "help" || FIRST.contains(&name) || GROUPS.iter().any(|(_, names)| names.contains(&name))
}

/// Writes the manual.
pub(crate) fn man(folder: &Path, json: bool) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::io(&folder.display().to_string(), error);
    std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    clap_mangen::generate_to(Args::command(), folder).map_err(|error| failed(&error))?;
    let mut pages: Vec<String> = std::fs::read_dir(folder)
        .map_err(|error| failed(&error))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("scrollback") && name.ends_with(".1"))
        .collect();
    pages.sort();
    if json {
        let written: Vec<String> = pages.iter().map(|page| folder.join(page).display().to_string()).collect();
        return input::print(&format!("{}\n", json!({ "written": written })));
    }
    input::print(&format!("{} pages in {}\n", pages.len(), folder.display()))
}
