//! Real sessions of Claude Code: what a naive scan of the lines counts is what the reader finds, and no line is lost.
//!
//! The sessions are other people's and not part of this repository. Without them the test says so and passes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use scrollback_core::Role;
use scrollback_core::transcript::{Format, ReadConversation, Transcript};
use serde_json::Value;

const SETS: [&str; 3] = ["claude-code-fasthooks", "claude-code-session-share", "claude-code-spotter"];

fn sessions() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for set in SETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(set);
        if folder.is_dir() {
            collect(&folder, &mut found);
        } else {
            eprintln!("notice: the sessions of {set} are not here; nothing was checked");
        }
    }
    found.sort();
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            found.push(path);
        }
    }
}

/// What a scan of the lines counts, without any idea of a tree.
#[derive(Default)]
struct Scan {
    /// Lines of users, by number.
    users: BTreeSet<usize>,
    /// Lines of replies, by the line their chain begins at and the id they share.
    replies: BTreeMap<(usize, String), Vec<usize>>,
    summaries: BTreeSet<usize>,
    others: BTreeSet<usize>,
    broken: BTreeSet<usize>,
    calls: usize,
    results: usize,
}

fn scan(text: &str) -> Scan {
    let mut scan = Scan::default();
    let mut lines: BTreeMap<usize, Value> = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(value) => drop(lines.insert(index + 1, value)),
            Err(_) => drop(scan.broken.insert(index + 1)),
        }
    }
    let by_uuid: BTreeMap<&str, usize> =
        lines.iter().filter_map(|(number, line)| Some((line["uuid"].as_str()?, *number))).collect();
    let up = |number: usize| {
        let line = &lines[&number];
        let parent = line["parentUuid"].as_str().or(line["logicalParentUuid"].as_str())?;
        by_uuid.get(parent).copied()
    };
    for (number, line) in &lines {
        let blocks = line["message"]["content"].as_array().cloned().unwrap_or_default();
        let count = |kind: &str| blocks.iter().filter(|block| block["type"] == kind).count();
        match line["type"].as_str() {
            Some("user") if line["isCompactSummary"] == true => drop(scan.summaries.insert(*number)),
            Some("user") => {
                scan.users.insert(*number);
                scan.results += count("tool_result");
            }
            Some("assistant") => {
                let mut root = *number;
                while let Some(above) = up(root) {
                    root = above;
                }
                let id = line["message"]["id"].as_str().unwrap().to_string();
                scan.replies.entry((root, id)).or_default().push(*number);
                scan.calls += count("tool_use");
            }
            _ => drop(scan.others.insert(*number)),
        }
    }
    scan
}

fn lines_of(read: &Transcript, roles: &[Role]) -> BTreeSet<usize> {
    let of = |conversation: &ReadConversation| -> Vec<usize> {
        let pairs = conversation.entries.iter().zip(&conversation.sources);
        pairs.filter(|(entry, _)| roles.contains(&entry.role)).map(|(_, source)| source.line).collect()
    };
    read.conversations.iter().flat_map(of).collect()
}

fn check(path: &Path, text: &str) -> usize {
    let name = path.display();
    assert_eq!(scrollback_core::transcript::detect(text), Some(Format::ClaudeCode), "{name}");
    let read = scrollback_core::transcript::read(Some(Format::ClaudeCode), text)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let scan = scan(text);

    let failed: BTreeSet<usize> = read.failed.iter().map(|failure| failure.line).collect();
    assert_eq!(failed, scan.broken, "{name}: broken lines, and only those, fail");

    let first_lines: BTreeSet<usize> = scan.replies.values().map(|lines| lines[0]).collect();
    assert_eq!(
        lines_of(&read, &[Role::Assistant]),
        first_lines,
        "{name}: one entry a reply, where it begins"
    );
    assert_eq!(lines_of(&read, &[Role::User, Role::Tool]), scan.users, "{name}: every line of a user");

    let entries = || read.conversations.iter().flat_map(|conversation| &conversation.entries);
    assert_eq!(entries().map(|entry| entry.tool_calls().count()).sum::<usize>(), scan.calls, "{name}: calls");
    assert_eq!(entries().filter_map(|entry| entry.tool_result()).count(), scan.results, "{name}: results");

    let whole: BTreeSet<usize> = read
        .conversations
        .iter()
        .flat_map(|conversation| &conversation.notes)
        .filter(|note| note.raw.as_deref() == text.lines().nth(note.line.wrapping_sub(1)))
        .map(|note| note.line)
        .collect();
    let kept: BTreeSet<usize> = scan.others.union(&scan.summaries).copied().collect();
    assert_eq!(whole, kept, "{name}: every other line is a note, whole");
    let decisions: usize = read.conversations.iter().map(|conversation| conversation.decisions.len()).sum();
    assert_eq!(decisions, scan.summaries.len(), "{name}: compactions are summaries");

    let main = &read.conversations[0];
    let mut asked = BTreeSet::new();
    for entry in &main.entries {
        asked
            .extend(entry.tool_calls().filter_map(|call| Some(call.call_id.as_ref()?.as_str().into_owned())));
        if let Some(id) = entry.tool_call_id() {
            assert!(asked.contains(&id), "{name}: no result of the conversation stands before its call");
        }
    }
    read.conversations.len()
}

#[test]
fn real_sessions_are_read_whole() {
    let sessions = sessions();
    for path in &sessions {
        let text = std::fs::read_to_string(path).unwrap();
        let conversations = check(path, &text);
        eprintln!("{}: {conversations} conversations", path.file_name().unwrap().to_string_lossy());
    }
}
