//! `scrollback setup`: a client goes through Scrollback for good, by one setting in its own configuration.

mod dotenv;
pub(crate) mod format;
mod journal;
mod json;
mod plan;
mod toml;

use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use scrollback_agent::config::{self, DEFAULT_PORT};
use serde_json::{Value, json};

use super::args::SetupArgs;
use super::machine::ClientMachine;
use super::running::{AddressState, look};
use super::{Client, reachable};
use crate::failure::{FAILED, Failure, INVALID};
use crate::input;
use format::BadFile;
pub(crate) use journal::write_private;
use journal::{Change, Journal};
use plan::WantedSettings;
pub(crate) use plan::leads_to;

pub(crate) fn run(args: &SetupArgs, json: bool) -> Result<(), Failure> {
    let client = Client::named(&args.client)?;
    let machine = ClientMachine::here()?;
    let journal = Journal::of(client, &machine);
    let address = server_address()?;
    if args.undo {
        return undo(client, &machine, &journal, address, args, json);
    }
    let base = format!("http://{address}");
    let wanted = plan::wanted(client, &machine, &base, served_store(address).as_deref())?;
    let earlier = journal.read()?;
    let mut changes = Vec::new();
    for file in &wanted.files {
        changes.push(change(file, &earlier, args)?);
    }
    if changes.iter().any(Change::is_one) && !args.print {
        journal.write(&earlier, &changes)?;
        for change in &changes {
            journal::replace(&change.path, Some(&change.after))?;
        }
    }
    report(client, &changes, &wanted.notes, address, args, json)
}

/// The address that clients reach the configured server on.
pub(crate) fn server_address() -> Result<SocketAddr, Failure> {
    let listen = config::load()?.server()?.listen;
    Ok(reachable(listen.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)))))
}

/// The store that the server writes: that of the one that runs there, else the one that is configured. None where clients find
/// it without being told, and where its name may hold a password.
fn served_store(address: SocketAddr) -> Option<String> {
    let running = match look(address) {
        AddressState::Server(running) => Some(running.store),
        _ => None,
    };
    let from_environment = || std::env::var("SCROLLBACK_STORE").ok();
    let configured = || config::load().ok().and_then(|config| config.store().map(String::from));
    running.or_else(from_environment).or_else(configured).filter(|url| is_whole_path(url))
}

/// Whether a store is a file that is found from any folder.
pub(crate) fn is_whole_path(url: &str) -> bool {
    url.strip_prefix("sqlite:").is_some_and(|path| std::path::Path::new(path).is_absolute())
}

/// What is to be written into one file; an error if that would overwrite what a person wrote.
fn change(file: &WantedSettings, earlier: &[Change], args: &SetupArgs) -> Result<Change, Failure> {
    let before = journal::read_text(&file.path)?;
    let ours = earlier.iter().find(|change| change.path == file.path);
    let mut after = before.clone().unwrap_or_default();
    let mut settings = Vec::new();
    for setting in &file.settings {
        let bad = |bad: BadFile| bad_file(&file.path, &bad);
        let there = file.format.read(&after, &setting.keys).map_err(bad)?;
        let known = ours.and_then(|change| change.setting(&setting.keys));
        let written_by_us = known.is_some_and(|known| there.as_deref() == Some(known.value.as_str()));
        let other = there.as_deref().filter(|there| *there != setting.value && !written_by_us);
        if let Some(other) = other.filter(|_| !args.force) {
            return Err(taken(&file.path, &setting.keys, other));
        }
        let before = if written_by_us { known.and_then(|known| known.before.clone()) } else { there };
        after = file.format.set(&after, &setting.keys, &setting.value).map_err(bad)?;
        settings.push(journal::Setting { before, ..setting.clone() });
    }
    let folders = journal::missing_folders(&file.path);
    Ok(Change { path: file.path.clone(), format: file.format, before, after, settings, folders })
}

fn taken(path: &Path, keys: &[String], value: &str) -> Failure {
    let name = keys.join(".");
    let message = format!(
        "{}: {name} is set to {value:?} already; --force replaces it (and --undo brings it back), but then tell Scrollback to \
         pass requests on to there, in [providers] of scrollback.toml",
        path.display()
    );
    Failure::new(FAILED, "already_set", message)
        .with("path", path.display().to_string())
        .with("setting", name)
        .with("value", value)
}

fn bad_file(path: &Path, bad: &BadFile) -> Failure {
    let message = format!(
        "{}, line {}, column {}: {}; nothing was changed, correct the file first",
        path.display(),
        bad.line,
        bad.column,
        bad.problem
    );
    Failure::new(INVALID, "bad_file", message)
        .with("path", path.display().to_string())
        .with("line", bad.line)
        .with("column", bad.column)
}

fn report(
    client: Client,
    changes: &[Change],
    notes: &[String],
    address: SocketAddr,
    args: &SetupArgs,
    json: bool,
) -> Result<(), Failure> {
    let state = match (changes.iter().any(Change::is_one), args.print) {
        (false, _) => "unchanged",
        (true, true) => "would_write",
        (true, false) => "written",
    };
    let mut notes = notes.to_vec();
    if !matches!(look(address), AddressState::Server(_) | AddressState::Locked { .. }) {
        notes.push(format!(
            "no Scrollback server answers on {address}, and without one {} cannot work: start `scrollback serve`, or have it \
             started at login by `scrollback service install`",
            client.title()
        ));
    }
    if json {
        let files: Vec<Value> = changes.iter().map(Change::to_json).collect();
        let told = json!({ "client": client.name(), "state": state, "files": files, "notes": notes });
        return input::print(&format!("{told}\n"));
    }
    let mut out = String::new();
    for change in changes {
        let _ = writeln!(out, "{}", change.path.display());
        for setting in &change.settings {
            let _ = writeln!(out, "  {} = {}", setting.keys.join("."), setting.value);
        }
    }
    let last = match state {
        "unchanged" => format!("{} was set up already; nothing was changed", client.title()),
        "would_write" => "nothing was written".into(),
        _ => format!(
            "{} goes through Scrollback now; `scrollback setup {} --undo` takes it back",
            client.title(),
            client.name()
        ),
    };
    input::print(&format!("{out}{last}\n"))?;
    for note in &notes {
        input::note(note);
    }
    Ok(())
}

/// Takes back what was written: the very bytes where the file is as it was left, the settings alone where it was edited
/// since.
fn undo(
    client: Client,
    machine: &ClientMachine,
    journal: &Journal,
    address: SocketAddr,
    args: &SetupArgs,
    json: bool,
) -> Result<(), Failure> {
    let mut changes = journal.read()?;
    if changes.is_empty() {
        changes = without_journal(client, machine, address);
    }
    let mut files = Vec::new();
    for change in &changes {
        let (after, how) = taken_back(change)?;
        if how != "unchanged" && !args.print {
            journal::replace(&change.path, after.as_deref())?;
        }
        files.push(json!({ "path": change.path.display().to_string(), "state": how }));
    }
    if !args.print {
        journal.forget(&changes)?;
    }
    let state = match (changes.is_empty(), args.print) {
        (true, _) => "unchanged",
        (false, true) => "would_undo",
        (false, false) => "undone",
    };
    if json {
        return input::print(&format!(
            "{}\n",
            json!({ "client": client.name(), "state": state, "files": files })
        ));
    }
    let mut out = String::new();
    for file in &files {
        let text = |key: &str| file.get(key).and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(out, "{}: {}", text("path"), text("state"));
    }
    out.push_str(match state {
        "unchanged" => "there is nothing to undo\n",
        "would_undo" => "nothing was written\n",
        _ => "",
    });
    input::print(&out)
}

/// What a file shall be again, and how that is found.
fn taken_back(change: &Change) -> Result<(Option<String>, &'static str), Failure> {
    let Some(now) = journal::read_text(&change.path)? else { return Ok((None, "unchanged")) };
    if now == change.after {
        return Ok((change.before.clone(), if change.before.is_some() { "restored" } else { "removed" }));
    }
    let mut text = now.clone();
    for setting in change.settings.iter().rev() {
        let bad = |bad: BadFile| bad_file(&change.path, &bad);
        if change.format.read(&text, &setting.keys).map_err(bad)?.as_deref() != Some(setting.value.as_str()) {
            continue;
        }
        text = match &setting.before {
            Some(before) => change.format.set(&text, &setting.keys, before),
            None => change.format.remove(&text, &setting.keys),
        }
        .map_err(bad)?;
    }
    let how = if text == now { "unchanged" } else { "settings removed" };
    Ok((Some(text), how))
}

/// Settings of ours in a file that no journal tells of, as on a machine that was copied: those that lead to our server.
fn without_journal(client: Client, machine: &ClientMachine, address: SocketAddr) -> Vec<Change> {
    let (base, store) = (format!("http://{address}"), served_store(address));
    let Ok(wanted) = plan::wanted(client, machine, &base, store.as_deref()) else { return Vec::new() };
    let found = wanted.files.into_iter().filter_map(|file| {
        let text = journal::read_text(&file.path).ok().flatten()?;
        let is_set = |setting: &journal::Setting| {
            let there = file.format.read(&text, &setting.keys).ok().flatten();
            there.as_deref() == Some(setting.value.as_str())
                && (setting.value.contains("://") || setting.keys.iter().any(|key| key == "scrollback"))
        };
        let settings: Vec<_> = file.settings.iter().filter(|setting| is_set(setting)).cloned().collect();
        // Never equal to the text of the file: only the settings are taken out.
        let after = String::new();
        let (path, format, folders) = (file.path, file.format, Vec::new());
        let found = !settings.is_empty();
        found.then_some(Change { path, format, before: None, after, settings, folders })
    });
    found.collect()
}
