//! Calls of the tools that coding agents have, as people read them: an edit as a difference, a command as a command.
//!
//! Tools are known by the shape of their arguments, not by their names: every client calls its own differently, and most mean
//! the same by `old_string`, `command` and `todos`.

use maud::{Markup, html};
use serde_json::Value;

use super::super::diff::{self, DiffLine};
use super::super::text::{Eyes, number, plural};
use super::code::{Language, code, coloured};

/// Longest arguments that are read again to show them.
const LONGEST: usize = 1024 * 1024;
/// Unchanged lines shown around those that differ.
const CONTEXT: usize = 3;
/// Most lines of a difference or a file on the page; the rest is on the page of the entry.
const LINES: usize = 400;

/// What a call does.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    /// Changes parts of a file.
    Edit { path: String, parts: Vec<(String, String)> },
    /// Writes a file.
    Write { path: String, text: String },
    /// Changes files by a patch.
    Patch(String),
    /// Runs a command.
    Shell(String),
    /// Says what is to be done: the status and the text of each step.
    Plan(Vec<(Progress, String)>),
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    UnderWay,
    Done,
}

/// What a call does, where its arguments say so.
pub(crate) fn action(name: &str, arguments: &str) -> Option<Action> {
    if arguments.len() > LONGEST {
        return None;
    }
    if arguments.trim_start().starts_with("*** Begin Patch") {
        return Some(Action::Patch(arguments.into()));
    }
    let value: Value = serde_json::from_str(arguments).ok()?;
    let text = |keys: &[&str]| keys.iter().find_map(|key| value.get(key)?.as_str()).map(String::from);
    if let Some(todos) = ["todos", "plan"].iter().find_map(|key| value.get(key)?.as_array()) {
        return Some(Action::Plan(todos.iter().filter_map(step).collect()));
    }
    if let Some(patch) = text(&["input", "patch"]).filter(|patch| patch.contains("*** Begin Patch")) {
        return Some(Action::Patch(patch));
    }
    if let Some(path) = text(&["file_path", "filePath", "path", "notebook_path"]) {
        let own = replaced(&value).into_iter();
        let listed = value.get("edits").and_then(Value::as_array).into_iter().flatten().filter_map(replaced);
        let parts: Vec<(String, String)> = own.chain(listed).collect();
        if !parts.is_empty() {
            return Some(Action::Edit { path, parts });
        }
        let written = text(&["content", "file_text", "new_source"])?;
        return Some(Action::Write { path, text: written });
    }
    let is_shell = ["bash", "shell", "exec", "command", "terminal"]
        .iter()
        .any(|word| name.to_ascii_lowercase().contains(word));
    if !is_shell {
        return None;
    }
    let list = value.get("command").and_then(Value::as_array);
    let joined = list.map(|list| list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    joined.or_else(|| text(&["command", "cmd", "script"])).map(Action::Shell)
}

/// What an edit takes away and puts in its place.
fn replaced(edit: &Value) -> Option<(String, String)> {
    let text = |keys: [&str; 3]| keys.iter().find_map(|key| edit.get(key)?.as_str()).map(String::from);
    let old = text(["old_string", "oldString", "old_str"])?;
    Some((old, text(["new_string", "newString", "new_str"]).unwrap_or_default()))
}

fn step(step: &Value) -> Option<(Progress, String)> {
    let text = ["content", "step", "text", "title"].iter().find_map(|key| step.get(key)?.as_str())?;
    let progress = match step.get("status").and_then(Value::as_str) {
        Some("completed" | "done") => Progress::Done,
        Some("in_progress" | "in-progress") => Progress::UnderWay,
        _ => Progress::Waiting,
    };
    Some((progress, text.into()))
}

/// The exit code that the result of a command names.
pub(crate) fn exit_code(result: &str) -> Option<i64> {
    let start = result.get(..200).unwrap_or(result).trim_start();
    if start.starts_with('{') {
        let value: Value = serde_json::from_str(result).ok()?;
        return value.get("metadata").unwrap_or(&value).get("exit_code")?.as_i64();
    }
    let lower = start.to_ascii_lowercase();
    let code = |word: &str| {
        let after = lower.split_once(word)?.1.trim_start_matches([':', ' ']);
        let digits: String = after.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
        digits.parse().ok()
    };
    // Codex says it first, then what the command wrote.
    ["exited with code", "exit code"].into_iter().find_map(code)
}

impl Action {
    /// One line that says what it does.
    pub(crate) fn glance(&self, eyes: Eyes<'_>) -> Markup {
        html! { @match self {
            Action::Edit { path, parts } => {
                code { (eyes.glance(path, 80)) }
                @let (new, gone) = changed(parts);
                " " span.add { "+" (new) } " " span.del { "−" (gone) }
            }
            Action::Write { path, text } => { code { (eyes.glance(path, 80)) } " " span.soft { (plural(text.lines().count() as u64, "line", "lines")) } },
            Action::Patch(patch) => code { (eyes.glance(patch.lines().find(|line| line.contains(" File: ")).unwrap_or("a patch"), 80)) },
            Action::Shell(command) => code { (eyes.glance(command, 100)) },
            Action::Plan(steps) => span.soft { (steps.iter().filter(|(progress, _)| *progress == Progress::Done).count()) " of " (steps.len()) " done" },
        } }
    }

    /// All of it. `whole` is the page with what is too long for this one.
    pub(crate) fn show(&self, eyes: Eyes<'_>, whole: &str) -> Markup {
        html! { @match self {
            Action::Edit { path, parts } => {
                p.file { code { (eyes.said(path)) } }
                @for (old, new) in parts { (difference(&eyes.see(old), &eyes.see(new), Language::of_file(path), whole)) }
            }
            Action::Write { path, text } => {
                p.file { code { (eyes.said(path)) } }
                (first_lines(&eyes.see(text), Language::of_file(path), whole))
            }
            Action::Patch(patch) => (first_lines(&eyes.see(patch), Language::Diff, whole)),
            Action::Shell(command) => (code(Language::Settings, &eyes.see(command))),
            Action::Plan(steps) => ul.plan { @for (progress, text) in steps {
                @let (class, mark, word) = match progress {
                    Progress::Done => ("done", "☑", "done"),
                    Progress::UnderWay => ("now", "▸", "under way"),
                    Progress::Waiting => ("", "☐", "to do"),
                };
                li.(class) { span aria-hidden="true" { (mark) " " } span.out { (word) ": " } (eyes.said(text)) }
            } },
        } }
    }
}

/// How many lines came and went.
fn changed(parts: &[(String, String)]) -> (usize, usize) {
    let (mut new, mut gone) = (0, 0);
    for (old, now) in parts {
        for line in compare(old, now) {
            match line {
                DiffLine::New(..) => new += 1,
                DiffLine::Gone(..) => gone += 1,
                DiffLine::Same(_) => {}
            }
        }
    }
    (new, gone)
}

fn compare<'t>(old: &'t str, new: &'t str) -> Vec<DiffLine<'t>> {
    diff::messages(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>())
}

/// A file, as much of it as the page takes.
fn first_lines(text: &str, language: Language, whole: &str) -> Markup {
    let cut = text.match_indices('\n').nth(LINES).map(|(at, _)| at);
    let Some(cut) = cut else { return code(language, text) };
    let more = text.get(cut..).unwrap_or_default().lines().count() as u64;
    html! {
        (code(language, text.get(..cut).unwrap_or_default()))
        p.small { a href=(whole) { "and " (number(more)) " more lines" } }
    }
}

/// One line of a difference.
enum Row<'t> {
    Kept(&'t str),
    Gone(&'t str),
    New(&'t str),
    /// So many unchanged lines that are not shown.
    Gap(usize),
}

/// The lines that came and went, and a few around them.
fn rows<'t>(old: &'t str, new: &'t str) -> Vec<Row<'t>> {
    let lines = compare(old, new);
    let last = lines.len().saturating_sub(1);
    let mut kept = new.lines();
    let mut rows = Vec::new();
    for (place, line) in lines.into_iter().enumerate() {
        match line {
            DiffLine::Gone(_, line) => rows.push(Row::Gone(line)),
            DiffLine::New(_, line) => {
                kept.next();
                rows.push(Row::New(line));
            }
            DiffLine::Same(count) => {
                let same: Vec<&str> = kept.by_ref().take(count).collect();
                let (head, tail) =
                    (if place == 0 { 0 } else { CONTEXT }, if place == last { 0 } else { CONTEXT });
                if count <= head + tail + 1 {
                    rows.extend(same.into_iter().map(Row::Kept));
                } else {
                    rows.extend(same.iter().take(head).map(|line| Row::Kept(line)));
                    rows.push(Row::Gap(count - head - tail));
                    rows.extend(same.iter().skip(count - tail).map(|line| Row::Kept(line)));
                }
            }
        }
    }
    rows
}

/// Two versions of a text, line by line.
fn difference(old: &str, new: &str, language: Language, whole: &str) -> Markup {
    let rows = rows(old, new);
    html! {
        pre.said.code.changes dir="ltr" tabindex="0" { code {
            @for row in rows.iter().take(LINES) { @match row {
                Row::Kept(line) => (marked("", " ", language, line)),
                Row::Gone(line) => (marked("del", "−", language, line)),
                Row::New(line) => (marked("add", "+", language, line)),
                Row::Gap(count) => span.gap { "⋯ " (plural(*count as u64, "unchanged line", "unchanged lines")) "\n" },
            } }
        } }
        @if rows.len() > LINES { p.small { a href=(whole) { "The rest of this change" } } }
    }
}

fn marked(class: &str, sign: &str, language: Language, line: &str) -> Markup {
    html! { span.line.(class) { span.sign { (sign) } (coloured(language, line)) "\n" } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_by_what_they_are_given() {
        let edit = |old: &str, new: &str| Action::Edit {
            path: "a.rs".into(),
            parts: vec![(old.into(), new.into())],
        };
        for (name, arguments, wanted) in [
            ("Edit", r#"{"file_path":"a.rs","old_string":"x","new_string":"y"}"#, Some(edit("x", "y"))),
            ("edit", r#"{"filePath":"a.rs","oldString":"x","newString":"y"}"#, Some(edit("x", "y"))),
            (
                "str_replace_based_edit_tool",
                r#"{"command":"str_replace","path":"a.rs","old_str":"x"}"#,
                Some(edit("x", "")),
            ),
            (
                "MultiEdit",
                r#"{"file_path":"a.rs","edits":[{"old_string":"x","new_string":"y"}]}"#,
                Some(edit("x", "y")),
            ),
            (
                "Write",
                r#"{"file_path":"a","content":"b"}"#,
                Some(Action::Write { path: "a".into(), text: "b".into() }),
            ),
            ("Bash", r#"{"command":"ls","description":"d"}"#, Some(Action::Shell("ls".into()))),
            ("shell", r#"{"command":["bash","-lc","ls"]}"#, Some(Action::Shell("bash -lc ls".into()))),
            ("exec_command", r#"{"cmd":"ls"}"#, Some(Action::Shell("ls".into()))),
            (
                "update_plan",
                r#"{"plan":[{"step":"a","status":"completed"}]}"#,
                Some(Action::Plan(vec![(Progress::Done, "a".into())])),
            ),
            (
                "apply_patch",
                "*** Begin Patch\n*** End Patch",
                Some(Action::Patch("*** Begin Patch\n*** End Patch".into())),
            ),
            ("Read", r#"{"file_path":"a"}"#, None),
            ("order", r#"{"command":"ls"}"#, None),
            ("Edit", "{broken", None),
        ] {
            assert_eq!(action(name, arguments), wanted, "{name}");
        }
    }

    #[test]
    fn an_edit_is_shown_as_what_came_and_went() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\nlast";
        let shown = difference(old, &old.replace("last", "new"), Language::Plain, "/whole").0;
        assert!(
            shown.contains("<span class=\"line del\"><span class=\"sign\">−</span>last\n</span>"),
            "{shown}"
        );
        assert!(
            shown.contains("<span class=\"line add\"><span class=\"sign\">+</span>new\n</span>"),
            "{shown}"
        );
        assert!(shown.contains("⋯ 5 unchanged lines"), "{shown}");
        let hostile = difference("<script>", "</code><script>", Language::Braces, "/whole").0;
        assert!(!hostile.contains("<script>"), "{hostile}");
    }

    #[test]
    fn exit_codes_are_found_where_clients_write_them() {
        assert_eq!(exit_code("Exit code 2\nnot found"), Some(2));
        assert_eq!(exit_code("Exit code: 0\nWall time: 1 seconds"), Some(0));
        assert_eq!(exit_code(r#"{"output":"x","metadata":{"exit_code":127}}"#), Some(127));
        assert_eq!(
            exit_code("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\n"),
            Some(3)
        );
        assert_eq!(exit_code("fine"), None);
    }
}
