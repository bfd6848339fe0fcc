//! The outline of a conversation: turns, what was left out of views, obligations, files and identifiers, with handles.

use std::collections::HashMap;
use std::fmt::Write;

use super::handle::{Handle, Tail};
use super::obligations::obligations;
use super::text::one_line;
use crate::decision::Decision;
use crate::entry::Role;
use crate::identity::words_of_person;
use crate::json::{self, JsonKind};
use crate::need::identifiers::identifiers;
use crate::record::{Record, Slot};

/// Turns that are listed at the start and at the end; those between are counted.
const FIRST_TURNS: usize = 10;
const LAST_TURNS: usize = 60;
/// Files and identifiers that are listed, the newest.
const FILES: usize = 60;
const IDENTIFIERS: usize = 30;
/// What was left out that is listed, the newest.
const LEFT_OUT: usize = 20;
/// Arguments that name a file.
const PATHS: [&str; 9] = [
    "path",
    "file_path",
    "filepath",
    "filename",
    "file",
    "notebook_path",
    "target_file",
    "absolute_path",
    "filePath",
];
/// Words in the name of a tool, or in its `command`, that change a file.
const WRITES: [&str; 12] = [
    "write", "edit", "create", "replace", "insert", "patch", "append", "delete", "remove", "save", "update",
    "undo",
];
/// Longer texts are no paths.
const LONGEST_PATH: usize = 300;

/// What an outline says, before it is printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outlined {
    lines: Vec<String>,
}

impl Outlined {
    /// Its text.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// A file that calls named.
#[derive(Default)]
struct File {
    last: u64,
    action: String,
    read: Option<u64>,
    written: Option<u64>,
}

/// The outline of a record whose handles have this tail.
pub fn outline(record: &Record, tail: &Tail) -> Outlined {
    let at = |position: u64| Handle::at(tail.clone(), position);
    let mut lines =
        vec![format!("conversation {} ({} entries)", Handle::conversation(tail.clone()), record.len())];
    let mut section = |title: &str, found: Vec<String>| {
        if !found.is_empty() {
            lines.push(title.into());
            lines.extend(found.into_iter().map(|line| format!("  {line}")));
        }
    };
    section(
        "open obligations:",
        obligations(record)
            .iter()
            .map(|one| format!("{} {}: {}", at(one.position), one.kind.as_str(), one.line))
            .collect(),
    );
    section("turns:", turns(record, &at));
    section("left out of views:", left_out(record, tail));
    let Touched { files, named } = touched(record);
    let mut files: Vec<(String, File)> = files.into_iter().collect();
    files.sort_by(|(name, a), (other, b)| (b.last, name).cmp(&(a.last, other)));
    files.truncate(FILES);
    let file = |(path, file): &(String, File)| {
        let mut line = format!("{}: {}", one_line(path, LONGEST_PATH), file.action);
        if let Some(read) = file.read {
            let _ = write!(line, ", last read {}", at(read));
        }
        if let Some(written) = file.written {
            let _ = write!(line, ", last write {}", at(written));
        }
        line
    };
    section("files:", files.iter().map(file).collect());
    let mut named: Vec<(String, (u64, u64))> =
        named.into_iter().filter(|(_, (_, times))| *times > 1).collect();
    named.sort_by(|(name, a), (other, b)| (b.0, name).cmp(&(a.0, other)));
    named.truncate(IDENTIFIERS);
    let identifier = |(name, (last, times)): &(String, (u64, u64))| {
        format!("{}: {times} times, last {}", one_line(name, 80), at(*last))
    };
    section("identifiers in calls:", named.iter().map(identifier).collect());
    lines.push("read a handle for the exact text".into());
    Outlined { lines }
}

fn turns(record: &Record, at: &dyn Fn(u64) -> Handle) -> Vec<String> {
    let mut turns = Vec::new();
    for (position, slot) in (0_u64..).zip(record.slots()) {
        match slot {
            Slot::Message(entry) if entry.role == Role::User => {
                let said = words_of_person(entry);
                let said = if said.trim().is_empty() { entry.content().unwrap_or_default() } else { said };
                turns.push(format!("{} {}", at(position), one_line(&said, 120)));
            }
            Slot::Erased(tombstone) if tombstone.role == Role::User => {
                turns.push(format!("{} erased", at(position)));
            }
            _ => {}
        }
    }
    let between = turns.len().saturating_sub(FIRST_TURNS + LAST_TURNS);
    if between > 0 {
        let gap = format!("… {between} turns between");
        turns.splice(FIRST_TURNS..FIRST_TURNS + between, [gap]);
    }
    turns
}

/// Cuts, plans, summaries and placeholders that were recorded.
fn left_out(record: &Record, tail: &Tail) -> Vec<String> {
    let range = |first: u64, last: u64| Handle::between(tail.clone(), first, last);
    let mut found = Vec::new();
    for slot in record.slots() {
        let Slot::Decision(decision, _) = slot else { continue };
        match &**decision {
            Decision::Cut { before, by, .. } if *before > 0 => {
                found.push(format!("{} left out by {by}", range(0, before - 1)));
            }
            Decision::Plan { tail: first, by, .. } if *first > 0 => {
                found.push(format!("{} shortened by {by}", range(0, first - 1)));
            }
            Decision::Summary { covers, text, .. } => {
                let covers = covers.iter().map(|(first, last)| range(*first, *last).to_string());
                let covers = covers.collect::<Vec<_>>().join(", ");
                found.push(format!("{covers} summarised: {}", one_line(text, 120)));
            }
            Decision::Clear { positions, .. } => {
                if let (Some(first), Some(last)) = (positions.iter().min(), positions.iter().max()) {
                    found.push(format!("{} results in {} cleared", positions.len(), range(*first, *last)));
                }
            }
            _ => {}
        }
    }
    let skipped = found.len().saturating_sub(LEFT_OUT);
    found.split_off(skipped)
}

#[derive(Default)]
struct Touched {
    files: HashMap<String, File>,
    /// Where an identifier was last named, and how often.
    named: HashMap<String, (u64, u64)>,
}

/// Files and identifiers that calls named.
fn touched(record: &Record) -> Touched {
    let mut found = Touched::default();
    let results = results(record);
    for (position, slot) in (0_u64..).zip(record.slots()) {
        let Slot::Message(entry) = slot else { continue };
        for call in entry.tool_calls() {
            // What was read stands in the result, what was written in the call.
            let id = call.call_id.as_ref().map(crate::Text::as_str);
            let came = id.and_then(|id| results.get(&*id)?.iter().find(|at| **at > position).copied());
            let (name, arguments) = (call.name.as_str(), call.arguments.as_str());
            let Ok(raw) = json::check(&arguments) else {
                patched(&arguments, position, &name, &mut found.files);
                continue;
            };
            if raw.kind() != JsonKind::Object {
                continue;
            }
            let members: Vec<_> = raw.members().collect();
            let text_of = |wanted: &str| {
                members.iter().find(|(key, _)| key == wanted).and_then(|(_, value)| value.string())
            };
            let command = text_of("command").unwrap_or_default();
            for (key, value) in &members {
                let Some(value) = value.string() else { continue };
                if PATHS.contains(&&**key)
                    && !value.is_empty()
                    && value.len() <= LONGEST_PATH
                    && !value.contains('\n')
                {
                    let file = found.files.entry(value.into_owned()).or_default();
                    touch(file, (position, came.unwrap_or(position)), &name, &command);
                    continue;
                }
                patched(&value, position, &name, &mut found.files);
                if value.len() > 4_000 {
                    continue;
                }
                for identifier in identifiers(&value) {
                    let (last, times) = found.named.entry(identifier.into()).or_default();
                    (*last, *times) = (position, *times + 1);
                }
            }
        }
    }
    found
}

/// Where the results of calls stand, by the id of the call.
fn results(record: &Record) -> HashMap<String, Vec<u64>> {
    let mut results: HashMap<String, Vec<u64>> = HashMap::new();
    for (position, slot) in (0_u64..).zip(record.slots()) {
        if let Slot::Message(entry) = slot
            && let Some(id) = entry.tool_call_id()
        {
            results.entry(id).or_default().push(position);
        }
    }
    results
}

/// The files that the arguments of a call name.
pub(crate) fn files_named(arguments: &str) -> Vec<String> {
    let Ok(raw) = json::check(arguments) else { return Vec::new() };
    let named = raw.members().filter(|(key, _)| PATHS.contains(&&**key));
    let texts = named.filter_map(|(_, value)| value.string());
    texts
        .filter(|text| !text.is_empty() && text.len() <= LONGEST_PATH && !text.contains('\n'))
        .map(std::borrow::Cow::into_owned)
        .collect()
}

/// Notes that a call at the first of two positions, whose result stands at the second, names a file.
fn touch(file: &mut File, (position, came): (u64, u64), tool: &str, command: &str) {
    let word = |text: &str| {
        let text = text.to_ascii_lowercase();
        WRITES.iter().any(|write| text.contains(write))
    };
    // Editors with many commands say in `command` what they do.
    let writes =
        if command == "view" { false } else { word(tool) || word(command.split(' ').next().unwrap_or("")) };
    file.last = position;
    file.action =
        if command.is_empty() || command.len() > 20 { tool.into() } else { format!("{tool} {command}") };
    if writes {
        file.written = Some(position);
    } else {
        file.read = Some(came);
    }
}

/// Files of a patch, as Codex writes them.
fn patched(text: &str, position: u64, tool: &str, files: &mut HashMap<String, File>) {
    if !text.contains("*** ") {
        return;
    }
    for line in text.lines() {
        let named = ["*** Update File: ", "*** Add File: ", "*** Delete File: "]
            .iter()
            .find_map(|start| line.strip_prefix(start));
        if let Some(path) = named.filter(|path| path.len() <= LONGEST_PATH) {
            let file = files.entry(path.trim().into()).or_default();
            (file.last, file.action, file.written) = (position, tool.into(), Some(position));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::entry::{Entry, Time};

    fn record(entries: Vec<Entry>) -> Record {
        let mut record = Record::new();
        for (sequence, entry) in (0..).zip(entries) {
            record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time(0))).unwrap();
        }
        record
    }

    #[test]
    fn turns_files_and_cuts_are_listed_with_handles() {
        let mut record = record(vec![
            Entry::user("repair the parser"),
            Entry::calling(None, &[("a", "read_file", r#"{"path":"src/parse.rs"}"#)]),
            Entry::result("a", "fn parse() {}"),
            Entry::calling(None, &[("b", "edit_file", r#"{"path":"src/parse.rs","new":"x"}"#)]),
            Entry::result("b", "ok"),
            Entry::calling(
                None,
                &[("c", "apply_patch", r#"{"input":"*** Begin Patch\n*** Add File: b.rs\n"}"#)],
            ),
            Entry::result("c", "ok"),
            Entry::user("and now the printer"),
        ]);
        let cut = Decision::Cut {
            before: 3,
            held: None,
            by: "sticky".into(),
            scope: None,
            kept: Vec::new(),
            owed: Vec::new(),
            notice: None,
            factor: None,
        };
        record.decide(cut, Time(0)).unwrap();
        let tail = Tail::parse("k7q2m9x4td").unwrap();
        let text = outline(&record, &tail).text();
        for line in [
            "sb:k7q2m9x4td#0 repair the parser",
            "sb:k7q2m9x4td#7 and now the printer",
            "sb:k7q2m9x4td#0-2 left out by sticky",
            "src/parse.rs: edit_file, last read sb:k7q2m9x4td#2, last write sb:k7q2m9x4td#3",
            "b.rs: apply_patch, last write sb:k7q2m9x4td#5",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_outline_of_a_long_conversation_stays_short() {
        let record = record(
            (0..5_000).map(|number| Entry::user(&format!("question {number} {}", "x".repeat(500)))).collect(),
        );
        let text = outline(&record, &Tail::parse("k7q2m9x4td").unwrap()).text();
        assert!(crate::tokens::Tokenizer::O200kBase.count(&text) < super::super::found::MOST_TOKENS);
        assert!(text.contains("turns between"));
    }
}
