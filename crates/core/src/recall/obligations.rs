//! Obligations: what a conversation still owes, found without a model.

use std::collections::HashMap;

use super::text::one_line;
use crate::entry::{Entry, Role};
use crate::identity::words_of_person;
use crate::json::{self, JsonKind};
use crate::record::{Record, Slot};

/// Tools that write down what is to be done. The newest call counts.
const TODO_TOOLS: [&str; 6] =
    ["todowrite", "todo_write", "update_plan", "write_todos", "todo", "manage_todo_list"];
/// How a person marks a line that must not be forgotten, at its start.
const MARKS: [&str; 9] =
    ["important", "constraint", "constraints", "remember", "rule", "requirement", "must", "never", "always"];
/// Newest constraints that are kept. A person who marks more than this marks everything.
const CONSTRAINTS: usize = 12;
/// Newest open errors that are kept, each of another tool.
const ERRORS: usize = 4;
/// Entries longer than this hold pasted text; a mark in them is not a person's.
const LONGEST: usize = 8_000;

/// What is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObligationKind {
    /// The person was asked and has not answered.
    Question,
    /// A call that waits for its result, such as an approval.
    Waiting,
    /// The list of what is to be done, in its newest state.
    Todo,
    /// A tool failed and has not succeeded since.
    Error,
    /// The person marked something that must hold.
    Constraint,
}

impl ObligationKind {
    /// The words for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ObligationKind::Question => "unanswered question",
            ObligationKind::Waiting => "waits for an answer",
            ObligationKind::Todo => "todo list",
            ObligationKind::Error => "error without a later success",
            ObligationKind::Constraint => "constraint",
        }
    }
}

/// Something owed, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obligation {
    /// What kind.
    pub kind: ObligationKind,
    /// The entry that makes it one.
    pub position: u64,
    /// It, in one line.
    pub line: String,
}

/// What a record still owes, in the order in which it was said.
pub fn obligations(record: &Record) -> Vec<Obligation> {
    let mut found = Walk::default();
    for (position, slot) in (0_u64..).zip(record.slots()) {
        let Slot::Message(entry) = slot else { continue };
        found.see(position, entry);
    }
    found.finish()
}

/// The obligations while a record is walked from its start.
#[derive(Default)]
struct Walk {
    question: Option<Obligation>,
    /// Calls without a result: name and position, by id.
    open: HashMap<String, (String, u64)>,
    /// Tools of calls, by id.
    called: HashMap<String, (String, u64)>,
    todo: Option<Obligation>,
    /// The last failure of each tool that has not succeeded since.
    errors: HashMap<String, Obligation>,
    constraints: Vec<Obligation>,
}

impl Walk {
    fn see(&mut self, position: u64, entry: &Entry) {
        match entry.role {
            Role::User => self.user(position, entry),
            Role::Assistant => self.assistant(position, entry),
            Role::Tool => self.result(position, entry),
            Role::System => {}
        }
    }

    fn user(&mut self, position: u64, entry: &Entry) {
        let said = words_of_person(entry);
        if said.trim().is_empty() {
            return;
        }
        self.question = None;
        if said.len() > LONGEST {
            return;
        }
        if let Some(line) = said.lines().find(|line| is_marked(line)) {
            let line = one_line(line, 160);
            self.constraints.push(Obligation { kind: ObligationKind::Constraint, position, line });
        }
    }

    fn assistant(&mut self, position: u64, entry: &Entry) {
        for call in entry.tool_calls() {
            let name = call.name.as_str().into_owned();
            if is_todo(&name) {
                let line = todo_line(&call.arguments.as_str());
                self.todo = line.map(|line| Obligation { kind: ObligationKind::Todo, position, line });
            }
            if let Some(id) = &call.call_id {
                let id = id.as_str().into_owned();
                if call.style.is_client() {
                    self.open.insert(id.clone(), (name.clone(), position));
                }
                self.called.insert(id, (name, position));
            }
        }
        if entry.tool_calls().next().is_some() {
            return;
        }
        let said = entry.content().unwrap_or_default();
        let asked = said
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .filter(|line| line.ends_with('?'));
        if let Some(asked) = asked {
            let line = one_line(asked, 160);
            self.question = Some(Obligation { kind: ObligationKind::Question, position, line });
        }
    }

    fn result(&mut self, position: u64, entry: &Entry) {
        let Some(id) = entry.tool_call_id() else { return };
        self.open.remove(&id);
        let Some((tool, _)) = self.called.get(&id).cloned() else { return };
        if failed(entry) {
            let said = entry.content().unwrap_or_default();
            let line = format!("{tool}: {}", one_line(&said, 140));
            self.errors.insert(tool, Obligation { kind: ObligationKind::Error, position, line });
        } else {
            self.errors.remove(&tool);
        }
    }

    fn finish(self) -> Vec<Obligation> {
        let mut found: Vec<Obligation> = self.question.into_iter().chain(self.todo).collect();
        found.extend(self.open.into_values().map(|(tool, position)| Obligation {
            kind: ObligationKind::Waiting,
            position,
            line: tool,
        }));
        let mut errors: Vec<Obligation> = self.errors.into_values().collect();
        errors.sort_by_key(|error| std::cmp::Reverse(error.position));
        errors.truncate(ERRORS);
        found.extend(errors);
        let skipped = self.constraints.len().saturating_sub(CONSTRAINTS);
        found.extend(self.constraints.into_iter().skip(skipped));
        found.sort_by(|a, b| (a.position, a.kind, &a.line).cmp(&(b.position, b.kind, &b.line)));
        found
    }
}

/// Whether a result says that its tool failed. Only what the wire itself says counts: texts that look like errors are often
/// the contents of files.
fn failed(entry: &Entry) -> bool {
    entry.tool_result().is_some_and(|result| result.is_error == Some(true))
}

fn is_todo(tool: &str) -> bool {
    let bare = tool.rsplit("__").next().unwrap_or(tool).to_ascii_lowercase();
    TODO_TOOLS.contains(&bare.as_str())
}

/// Whether a line begins with a mark: `IMPORTANT: …`, `Constraint: …`, or one of the words in capitals, as in `NEVER …`.
fn is_marked(line: &str) -> bool {
    let line = line.trim_start_matches(|letter: char| letter.is_whitespace() || "*#->!".contains(letter));
    let end = line.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(line.len());
    let (word, rest) = line.split_at(end);
    let known = MARKS.contains(&word.to_ascii_lowercase().as_str());
    let capitals = word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    known && (capitals || rest.trim_start_matches('*').starts_with(':')) && rest.trim().len() > 1
}

/// The open items of a todo list, in one line; none if all of them are done.
fn todo_line(arguments: &str) -> Option<String> {
    let unread = || Some(one_line(arguments, 160));
    let Ok(raw) = json::check(arguments) else { return unread() };
    let Some(list) = raw.members().find_map(|(_, value)| (value.kind() == JsonKind::Array).then_some(value))
    else {
        return unread();
    };
    let mut open = Vec::new();
    let mut all = 0;
    for item in list.elements() {
        all += 1;
        let (mut text, mut done) = (None, false);
        for (key, value) in item.members() {
            let value = value.string().unwrap_or_default();
            match &*key {
                "status" | "state" => done = matches!(&*value, "completed" | "done" | "cancelled"),
                "content" | "step" | "text" | "title" | "task" | "description" if text.is_none() => {
                    text = Some(value.into_owned());
                }
                _ => {}
            }
        }
        if !done {
            open.push(one_line(&text.unwrap_or_default(), 60));
        }
    }
    if open.is_empty() {
        None
    } else {
        Some(format!("{} of {all} open: {}", open.len(), one_line(&open.join("; "), 240)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn found(entries: Vec<Entry>) -> Vec<(ObligationKind, u64, String)> {
        let mut record = Record::new();
        for (sequence, entry) in (0..).zip(entries) {
            record.append(entry.stamped(uuid::Uuid::nil(), sequence, crate::Time(0))).unwrap();
        }
        obligations(&record).into_iter().map(|one| (one.kind, one.position, one.line)).collect()
    }

    #[test]
    fn a_question_is_owed_until_the_person_speaks() {
        let asked = || vec![Entry::user("book it"), Entry::assistant("I can.\nWhich day?\n")];
        assert_eq!(found(asked()), [(ObligationKind::Question, 1, "Which day?".into())]);
        let mut answered = asked();
        answered.push(Entry::user("Monday"));
        assert_eq!(found(answered), []);
    }

    #[test]
    fn the_newest_todo_list_counts_until_all_of_it_is_done() {
        let write = |id: &str, second: &str| {
            let arguments = format!(
                r#"{{"todos":[{{"content":"read","status":"completed"}},{{"content":"test","status":"{second}"}}]}}"#
            );
            Entry::calling(None, &[(id, "TodoWrite", &arguments)])
        };
        let open = vec![
            write("a", "pending"),
            Entry::result("a", "ok"),
            write("b", "in_progress"),
            Entry::result("b", "ok"),
        ];
        assert_eq!(found(open.clone()), [(ObligationKind::Todo, 2, "1 of 2 open: test".into())]);
        let mut done = open;
        done.extend([write("c", "completed"), Entry::result("c", "ok")]);
        assert_eq!(found(done), []);
        let plan = r#"{"plan":[{"step":"look","status":"pending"}]}"#;
        let codex = vec![Entry::calling(None, &[("p", "update_plan", plan)]), Entry::result("p", "ok")];
        assert_eq!(found(codex), [(ObligationKind::Todo, 0, "1 of 1 open: look".into())]);
    }

    #[test]
    fn an_error_is_open_until_the_same_tool_succeeds() {
        let call = |id: &str| Entry::calling(None, &[(id, "build", "{}")]);
        let part = serde_json::json!({ "type": "text", "text": "no such target" });
        let failed = vec![call("a"), Entry::answer("a", &[part], true)];
        assert_eq!(found(failed.clone()), [(ObligationKind::Error, 1, "build: no such target".into())]);
        let mut repaired = failed;
        repaired.extend([call("b"), Entry::result("b", "built")]);
        assert_eq!(found(repaired), []);
    }

    #[test]
    fn marked_lines_of_the_person_are_constraints_and_other_lines_are_not() {
        let kinds = |text: &str| found(vec![Entry::user(text)]).len();
        for marked in [
            "IMPORTANT: keep the API",
            "- **Constraint**: no new crates",
            "please\nNEVER push to main",
            "Rule: two spaces",
        ] {
            assert_eq!(kinds(marked), 1, "{marked}");
        }
        for plain in
            ["never mind", "it is important to me", "must we?", "IMPORTANT", "always: ", "rules are rules"]
        {
            assert_eq!(kinds(plain), 0, "{plain}");
        }
    }

    #[test]
    fn a_call_without_a_result_waits() {
        let waits = vec![Entry::user("go"), Entry::calling(None, &[("a", "ask_person", "{}")])];
        assert_eq!(found(waits), [(ObligationKind::Waiting, 1, "ask_person".into())]);
    }
}
