//! Obligations: what a conversation still owes, found without a model.

use std::collections::{HashMap, VecDeque};

use super::text::one_line;
use super::tool::RecallTool;
use crate::decision::Decision;
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
/// Newest calls without a result that are kept.
const WAITING: usize = 8;
/// Requests in which what recall gave stays as it came.
const RECALLED: usize = 3;
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
    let mut index = ObligationIndex::default();
    index.advance(record.slots());
    let mut found = index.open();
    found.sort_by(|a, b| (a.position, a.kind, &a.line).cmp(&(b.position, b.kind, &b.line)));
    found
}

/// Something owed, and the entry that ended it.
#[derive(Clone, Debug)]
struct OwedSpan {
    obligation: Obligation,
    until: Option<u64>,
}

/// What a record owes now and owed at any earlier time, found entry by entry, so that a longer record goes on where a shorter
/// one ended.
///
/// Every obligation is in force for one stretch of the record and never again: what a cut let go does not come back by itself,
/// and a cut that is found anew keeps what it kept when it was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObligationIndex {
    /// Places that were read.
    read: u64,
    /// Position of the newest entry that is no result.
    last_said: u64,
    found: Vec<OwedSpan>,
    /// Numbers among `found` of what is in force.
    question: Option<usize>,
    todo: Option<usize>,
    /// The last failure of each tool that has not succeeded since.
    errors: HashMap<String, usize>,
    constraints: VecDeque<usize>,
    /// Calls that wait for a result, the newest: name and position, by id.
    waiting: HashMap<String, (String, u64)>,
    /// Tools of all calls without a result, by id.
    called: HashMap<String, String>,
    /// Calls of recall and, once it is known, the reply after which their results are old.
    recalled: Vec<(u64, Option<u64>)>,
    /// Replies after each of the newest of them.
    fresh: VecDeque<(usize, usize)>,
}

impl ObligationIndex {
    /// Reads the places that were not read before.
    pub(crate) fn advance(&mut self, slots: &[Slot]) {
        let read = usize::try_from(self.read).unwrap_or(usize::MAX);
        for (position, slot) in (self.read..).zip(slots.get(read..).unwrap_or_default()) {
            match slot {
                Slot::Message(entry) => self.see(position, entry),
                Slot::Decision(decision, _) => {
                    if let Decision::Interrupted { call_ids } = &**decision {
                        for id in call_ids {
                            self.answered(id, position);
                        }
                    }
                }
                Slot::Erased(_) => {}
            }
            self.read = position + 1;
        }
    }

    /// What is owed after the places that were read.
    fn open(&self) -> Vec<Obligation> {
        let spans = self.found.iter().filter(|span| span.until.is_none());
        spans.map(|span| span.obligation.clone()).chain(self.waiting()).collect()
    }

    fn waiting(&self) -> Vec<Obligation> {
        let mut waiting: Vec<&(String, u64)> = self.waiting.values().collect();
        waiting.sort_by_key(|(name, position)| (std::cmp::Reverse(*position), name.clone()));
        let kind = ObligationKind::Waiting;
        waiting
            .into_iter()
            .map(|(name, position)| Obligation { kind, position: *position, line: name.clone() })
            .collect()
    }

    /// Positions of entries that were owed when the first `end` places were there.
    pub(crate) fn owed_at(&self, end: u64) -> Vec<u64> {
        let in_force = |from: u64, until: Option<u64>| from < end && until.is_none_or(|until| until >= end);
        let spans = self.found.iter().map(|span| (span.obligation.position, span.until));
        let owed = spans.filter(|(from, until)| in_force(*from, *until)).map(|(from, _)| from);
        let waiting = self.waiting().into_iter().map(|one| one.position).filter(|from| *from < end);
        owed.chain(waiting).collect()
    }

    /// Positions of calls of recall whose results the model was shown in fewer than three requests when the first `end` places
    /// were there.
    pub(crate) fn recalled_at(&self, end: u64) -> Vec<u64> {
        let fresh =
            |(from, until): &&(u64, Option<u64>)| *from < end && until.is_none_or(|until| until >= end);
        self.recalled.iter().filter(fresh).map(|(from, _)| *from).collect()
    }

    fn see(&mut self, position: u64, entry: &Entry) {
        if entry.role != Role::Tool {
            self.last_said = position;
        }
        match entry.role {
            Role::User => self.user(position, entry),
            Role::Assistant => self.assistant(position, entry),
            Role::Tool => self.result(position, entry),
            Role::System => {}
        }
    }

    fn add(&mut self, kind: ObligationKind, position: u64, line: String) -> usize {
        self.found.push(OwedSpan { obligation: Obligation { kind, position, line }, until: None });
        self.found.len() - 1
    }

    fn end(&mut self, number: Option<usize>, position: u64) {
        if let Some(span) = number.and_then(|number| self.found.get_mut(number)) {
            span.until.get_or_insert(position);
        }
    }

    fn user(&mut self, position: u64, entry: &Entry) {
        if self.question.is_none() && !could_be_marked(entry) {
            return;
        }
        let said = words_of_person(entry);
        if said.trim().is_empty() {
            return;
        }
        let answered = self.question.take();
        self.end(answered, position);
        if said.len() > LONGEST {
            return;
        }
        if let Some(line) = said.lines().find(|line| is_marked(line)) {
            let number = self.add(ObligationKind::Constraint, position, one_line(line, 160));
            self.constraints.push_back(number);
            if self.constraints.len() > CONSTRAINTS {
                let oldest = self.constraints.pop_front();
                self.end(oldest, position);
            }
        }
    }

    fn assistant(&mut self, position: u64, entry: &Entry) {
        self.count_reply(position);
        let (mut calls, mut recalls) = (false, false);
        for call in entry.tool_calls() {
            calls = true;
            let name = call.name.as_str();
            recalls |= RecallTool::called(&name).is_some();
            if is_todo(&name) {
                let before = self.todo.take();
                self.end(before, position);
                let line = todo_line(&call.arguments.as_str());
                self.todo = line.map(|line| self.add(ObligationKind::Todo, position, line));
            }
            if let Some(id) = call.call_id.as_ref().filter(|_| call.style.is_client()) {
                self.wait(id.as_str().into_owned(), name.into_owned(), position);
            }
        }
        if recalls {
            self.recalled.push((position, None));
            self.fresh.push_back((self.recalled.len() - 1, 0));
        }
        if calls {
            return;
        }
        let said = entry.content().unwrap_or_default();
        let asked = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let Some(asked) = asked.filter(|line| line.ends_with(['?', '？'])) else { return };
        let before = self.question.take();
        self.end(before, position);
        self.question = Some(self.add(ObligationKind::Question, position, one_line(asked, 160)));
    }

    /// One more request was answered: what recall gave is old after the third.
    fn count_reply(&mut self, position: u64) {
        for (_, replies) in &mut self.fresh {
            *replies += 1;
        }
        while let Some((number, _)) = self.fresh.front().copied().filter(|(_, replies)| *replies >= RECALLED)
        {
            self.fresh.pop_front();
            if let Some(recalled) = self.recalled.get_mut(number) {
                recalled.1 = Some(position);
            }
        }
    }

    fn result(&mut self, position: u64, entry: &Entry) {
        let Some(id) = entry.tool_call_id() else { return };
        let Some(tool) = self.called.remove(&id) else { return };
        self.answered(&id, position);
        let before = self.errors.remove(&tool);
        self.end(before, position);
        if failed(entry) {
            let said = entry.content().unwrap_or_default();
            let line = format!("{tool}: {}", one_line(&said, 140));
            let number = self.add(ObligationKind::Error, position, line);
            self.errors.insert(tool, number);
            if self.errors.len() > ERRORS {
                let oldest = self.errors.iter().min_by_key(|(_, number)| **number);
                if let Some((tool, number)) = oldest.map(|(tool, number)| (tool.clone(), *number)) {
                    self.errors.remove(&tool);
                    self.end(Some(number), position);
                }
            }
        }
    }

    /// A call waits from now on. One of the same id does no longer, nor does the oldest of too many.
    fn wait(&mut self, id: String, tool: String, position: u64) {
        self.called.insert(id.clone(), tool.clone());
        if let Some((tool, from)) = self.waiting.insert(id, (tool, position)) {
            self.waited(tool, from, position);
        }
        if self.waiting.len() > WAITING {
            let oldest = self.waiting.iter().min_by_key(|(id, (_, from))| (*from, (*id).clone()));
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.answered(&oldest, position);
            }
        }
    }

    /// A call waits no longer.
    fn answered(&mut self, id: &str, position: u64) {
        if let Some((tool, from)) = self.waiting.remove(id) {
            self.waited(tool, from, position);
        }
    }

    /// A call that others spoke after was owed meanwhile.
    fn waited(&mut self, tool: String, from: u64, position: u64) {
        if self.last_said > from {
            let number = self.add(ObligationKind::Waiting, from, tool);
            self.end(Some(number), position);
        }
    }
}

/// Whether a text may begin a line with a mark. Cheap, and never wrongly no.
fn could_be_marked(entry: &Entry) -> bool {
    entry.texts().any(|text| {
        let text = text.as_str();
        text.len() > LONGEST || text.lines().any(is_marked)
    })
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
