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
    let command = wrapped_once(Args::command());
    let listed = listed(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}Options:\n{{options}}{{after-help}}"
    ))
}

/// The texts after the options with one line for each paragraph, so that they are wrapped once: at the width of the terminal.
fn wrapped_once(command: Command) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(paragraphs(&text)),
        None => command,
    };
    command.mut_subcommands(wrapped_once)
}

/// Joins the lines of a paragraph. Indented lines stay as they are, as does what follows a line that ends in a colon.
fn paragraphs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_open = false;
    for line in text.lines() {
        let flows = !line.is_empty() && !line.starts_with(' ');
        if !out.is_empty() {
            out.push(if is_open && flows { ' ' } else { '\n' });
        }
        out.push_str(line);
        is_open = flows && !line.ends_with(':');
    }
    out
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
    clap_mangen::generate_to(wrapped_once(Args::command()), folder).map_err(|error| failed(&error))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &Command) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert_eq!(paragraphs(&text), text, "{}", command.get_name());
        command.get_subcommands().for_each(check);
    }

    #[test]
    fn paragraphs_are_wrapped_by_the_terminal_alone() {
        let text = "One paragraph\nin two lines.\n\nExamples:\n  one\n  two";
        assert_eq!(paragraphs(text), "One paragraph in two lines.\n\nExamples:\n  one\n  two");
        check(&command());
    }
}
