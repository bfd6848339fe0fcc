//! A run as the disk saw it: every write and sync of a victim, and what it acknowledged in between, in order. Recorded by
//! strace, which also makes calls fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Dice, inside};

/// The store's file.
pub const FILE: &str = "traced.db";
/// Appends of the victim's mode `few`.
pub const FEW: usize = 12;
/// Appends of the victim's mode `failing`.
pub const FAILING: usize = 30;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// One thing that happened.
#[derive(Debug)]
pub enum Step {
    Write {
        file: String,
        at: usize,
        bytes: Vec<u8>,
    },
    Cut {
        file: String,
        length: usize,
    },
    Remove(String),
    Sync(String),
    /// The folder: what was removed from it stays removed.
    SyncFolder,
    /// A sync of this file failed: the system may have forgotten what it was to write.
    SyncFailed(String),
    /// A place and its link were acknowledged.
    Acked((String, u64), String),
    /// An append was refused, with this kind of error.
    Refused(String),
    /// The last place that could be read right after a refusal.
    Visible(Option<u64>),
}

pub struct Trace {
    pub steps: Vec<Step>,
}

impl Trace {
    /// Runs a victim under strace; none, with a notice, where that cannot be done.
    pub fn record(mode: &str, extra: &[&str]) -> Option<Trace> {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = Command::new("strace");
        let calls = "trace=fsync,fdatasync,write,pwrite64,ftruncate,unlink";
        command.args(["-f", "-y", "-xx", "-s", "1000000", "-e", calls, "-o"]).arg(&log);
        let (faults, words): (Vec<&str>, Vec<&str>) =
            extra.iter().partition(|word| **word == "-e" || word.starts_with("inject="));
        command.args(faults).arg(crate::support::victim());
        command.args([mode, inside(folder.path(), FILE).as_str(), "1"]).args(words);
        let ran = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        // A victim ends when a fault meets it while it makes the store.
        if !ran.is_ok_and(|status| status.success()) && !text.contains("(INJECTED)") {
            crate::support::required::missing("strace, or the right to use it", "what a disk may lose");
            return None;
        }
        let mut begun: HashMap<String, String> = HashMap::new();
        let mut steps = Vec::new();
        for line in text.lines() {
            let (thread, call) = line.split_once(' ').unwrap();
            let call = call.trim_start();
            // A call that takes long is written in two lines.
            if let Some(start) = call.strip_suffix("<unfinished ...>") {
                begun.insert(thread.into(), start.trim_end().into());
            } else if let Some((_, rest)) = call.split_once("resumed>").filter(|_| call.starts_with("<...")) {
                let start = begun.remove(thread).unwrap_or_default();
                steps.extend(step(&format!("{start}{rest}")));
            } else {
                steps.extend(step(call));
            }
        }
        Some(Trace { steps })
    }
}

/// The bytes of a text as strace writes it.
fn bytes(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// What a call did; nothing if it is about another file.
fn step(call: &str) -> Option<Step> {
    let (name, rest) = call.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    let failed = result.starts_with('-');
    if name == "unlink" {
        let path = String::from_utf8(bytes(arguments.trim_matches('"'))).ok()?;
        return Some(Step::Remove(of_store(&path)?)).filter(|_| !failed);
    }
    // A file is shown as its number and its path.
    let (number, rest) = arguments.split_once('<')?;
    let (path, rest) = rest.split_once('>')?;
    if name == "write" && number == "1" {
        return said(&String::from_utf8(bytes(rest.split('"').nth(1)?)).ok()?);
    }
    let plain = if path.starts_with("\\x") { String::from_utf8(bytes(path)).ok()? } else { path.to_string() };
    if name == "fsync" && !failed && of_store(&plain).is_none() {
        return Some(Step::SyncFolder);
    }
    let file = of_store(&plain)?;
    let mut rest = rest.trim_start_matches(", ").split('"');
    Some(match name {
        "fsync" | "fdatasync" if failed => Step::SyncFailed(file),
        "fsync" | "fdatasync" => Step::Sync(file),
        _ if failed => return None,
        "pwrite64" => {
            let bytes = bytes(rest.nth(1)?);
            let at = rest.next()?.rsplit(", ").next()?.parse().ok()?;
            let written: usize = result.split(' ').next()?.parse().ok()?;
            Step::Write { file, at, bytes: bytes[..written].to_vec() }
        }
        "ftruncate" => Step::Cut { file, length: rest.next()?.trim().parse().ok()? },
        _ => return None,
    })
}

/// The name of a file of the store; what is in memory shared by processes is made anew by the next.
fn of_store(path: &str) -> Option<String> {
    let name = Path::new(path).file_name()?.to_str()?;
    (name.starts_with(FILE) && !name.ends_with("-shm")).then(|| name.to_string())
}

fn said(text: &str) -> Option<Step> {
    let words: Vec<&str> = text.trim_end().split(' ').collect();
    match words.as_slice() {
        ["acked", id, position, link] => {
            Some(Step::Acked(((*id).into(), position.parse().unwrap()), (*link).into()))
        }
        ["visible", last] => Some(Step::Visible(last.parse().ok())),
        ["refused", kind] => Some(Step::Refused((*kind).into())),
        _ => None,
    }
}

/// A disk: the files as they were synced, and what was written since.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    files: BTreeMap<String, Vec<u8>>,
    unsynced: Vec<(String, Change)>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
    Remove,
}

fn apply(files: &mut BTreeMap<String, Vec<u8>>, file: &str, change: &Change) {
    match change {
        Change::Write(at, bytes) => {
            let held = files.entry(file.into()).or_default();
            held.resize(held.len().max(at + bytes.len()), 0);
            held[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        Change::Cut(length) => files.entry(file.into()).or_default().resize(*length, 0),
        Change::Remove => drop(files.remove(file)),
    }
}

impl Disk {
    /// Takes what happened to it.
    pub fn take(&mut self, step: &Step) {
        match step {
            Step::Write { file, at, bytes } => {
                self.unsynced.push((file.clone(), Change::Write(*at, bytes.clone())));
            }
            Step::Cut { file, length } => self.unsynced.push((file.clone(), Change::Cut(*length))),
            Step::Remove(file) => self.unsynced.push((file.clone(), Change::Remove)),
            Step::Sync(synced) => {
                let (now, later) =
                    std::mem::take(&mut self.unsynced).into_iter().partition(|(file, _)| file == synced);
                self.unsynced = later;
                let now: Vec<(String, Change)> = now;
                for (file, change) in &now {
                    apply(&mut self.files, file, change);
                }
            }
            Step::SyncFolder => {
                let removed = |(_, change): &(String, Change)| matches!(change, Change::Remove);
                let gone: Vec<String> = self
                    .unsynced
                    .iter()
                    .filter(|change| removed(change))
                    .map(|(file, _)| file.clone())
                    .collect();
                self.unsynced.retain(|(file, _)| !gone.contains(file));
                self.files.retain(|file, _| !gone.contains(file));
            }
            Step::SyncFailed(file) => self.unsynced.retain(|(of, _)| of != file),
            Step::Acked(..) | Step::Refused(_) | Step::Visible(_) => {}
        }
    }

    /// Everything that was written: what a process that ended leaves behind.
    pub fn whole(&self) -> Disk {
        let mut files = self.files.clone();
        for (file, change) in &self.unsynced {
            apply(&mut files, file, change);
        }
        Disk { files, unsynced: Vec::new() }
    }

    /// Nothing but what was synced.
    pub fn synced(&self) -> Disk {
        Disk { files: self.files.clone(), unsynced: Vec::new() }
    }

    /// What may be left after a power loss: of what was not synced some whole, some sectors, some nothing, in any order.
    pub fn after_power_loss(&self, dice: &mut Dice) -> Disk {
        let mut files = self.files.clone();
        let mut left = self.unsynced.clone();
        // Some losses keep nothing, some nearly all.
        let keep = dice.roll(5);
        while !left.is_empty() {
            let (file, change) = left.swap_remove(dice.roll(left.len()));
            if dice.roll(4) >= keep {
                continue;
            }
            match change {
                Change::Write(at, bytes) if dice.roll(3) == 0 => {
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        if dice.roll(2) == 0 {
                            apply(&mut files, &file, &Change::Write(at + number * SECTOR, sector.to_vec()));
                        }
                    }
                }
                change => apply(&mut files, &file, &change),
            }
        }
        Disk { files, unsynced: Vec::new() }
    }

    /// Makes it a folder's content.
    pub fn write(&self, folder: &Path) {
        for entry in std::fs::read_dir(folder).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (name, bytes) in &self.files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
}
