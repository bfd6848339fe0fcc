//! Writing a trajectory step by step, for loops that are not ours.

use scrollback_core::{Entry, Meta, Record, Role, Time};
use scrollback_store::new_evaluation;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::{AgentError, AgentErrorKind};

/// A record written as steps. A thought and the tool uses after it are one entry, written when something else follows.
///
/// ```
/// use scrollback_agent::trajectory::{StepKind, Trajectory, steps};
/// use scrollback_core::{Record, Time};
/// let mut trajectory = Trajectory::new(Record::new());
/// trajectory.add_user_query("What's the weather in Paris?", Time(0))?;
/// trajectory.add_thought("I need to check the weather", Time(1))?;
/// let id = trajectory.add_tool_use("get_weather", &serde_json::json!({ "city": "Paris" }), Time(1))?;
/// trajectory.add_tool_result(&id, Ok("72°F, sunny"), Time(2))?;
/// trajectory.add_answer("It is 72°F and sunny.", Time(3))?;
/// assert_eq!(steps(trajectory.record(), ..).len(), 5);
/// # Ok::<(), scrollback_agent::AgentError>(())
/// ```
#[derive(Debug)]
pub struct Trajectory {
    record: Record,
    evaluation: Uuid,
    sequence: u64,
    draft: Option<EntryDraft>,
    /// Calls that have no result yet, and those that have.
    open: Vec<String>,
    answered: Vec<String>,
}

/// An entry that more may be added to.
#[derive(Debug)]
struct EntryDraft {
    thought: Option<String>,
    /// Id, name and arguments.
    calls: Vec<(String, String, String)>,
    at: Time,
}

impl Trajectory {
    /// Goes on from a record.
    pub fn new(record: Record) -> Self {
        Trajectory {
            record,
            evaluation: new_evaluation(),
            sequence: 0,
            draft: None,
            open: Vec::new(),
            answered: Vec::new(),
        }
    }

    /// What was written so far; a thought or tool use that something may still be added to is not.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The record, with everything in it.
    pub fn into_record(mut self) -> Result<Record, AgentError> {
        self.flush()?;
        Ok(self.record)
    }

    /// The user asks.
    pub fn add_user_query(&mut self, text: &str, at: Time) -> Result<u64, AgentError> {
        self.append(Entry::text(Role::User, text), at)
    }

    /// The agent thinks.
    pub fn add_thought(&mut self, text: &str, at: Time) -> Result<(), AgentError> {
        self.flush()?;
        self.draft = Some(EntryDraft { thought: Some(text.into()), calls: Vec::new(), at });
        Ok(())
    }

    /// The agent uses a tool; the id ties the result to it, and is unique in the record for ever.
    pub fn add_tool_use(&mut self, name: &str, arguments: &Value, at: Time) -> Result<String, AgentError> {
        let position = self.record.len();
        let draft = self.draft.get_or_insert(EntryDraft { thought: None, calls: Vec::new(), at });
        let id = format!("call_{position}_{}", draft.calls.len());
        draft.calls.push((id.clone(), name.into(), arguments.to_string()));
        self.open.push(id.clone());
        Ok(id)
    }

    /// The tool answers, or fails.
    pub fn add_tool_result(
        &mut self,
        id: &str,
        result: Result<&str, &str>,
        at: Time,
    ) -> Result<u64, AgentError> {
        let Some(place) = self.open.iter().position(|open| open == id) else {
            let before = self.answered.iter().any(|answered| answered == id);
            return Err(if before {
                let message = format!("tool use {id:?} has its result already");
                AgentError::new(AgentErrorKind::AnsweredBefore, message)
            } else {
                AgentError::new(AgentErrorKind::UnknownCall, format!("no tool use has the id {id:?}"))
            });
        };
        let entry = match result {
            Ok(text) => Entry::result(id, text),
            Err(problem) => Entry::answer(id, &[json!({ "type": "text", "text": problem })], true),
        };
        let position = self.append(entry, at)?;
        self.answered.push(self.open.remove(place));
        Ok(position)
    }

    /// The agent answers.
    pub fn add_answer(&mut self, text: &str, at: Time) -> Result<u64, AgentError> {
        self.append(Entry::text(Role::Assistant, text), at)
    }

    fn append(&mut self, entry: Entry, at: Time) -> Result<u64, AgentError> {
        self.flush()?;
        self.put(entry, at)
    }

    fn flush(&mut self) -> Result<(), AgentError> {
        let Some(draft) = self.draft.take() else { return Ok(()) };
        let calls: Vec<(&str, &str, &str)> =
            draft.calls.iter().map(|(id, name, args)| (id.as_str(), name.as_str(), args.as_str())).collect();
        let entry = match calls.as_slice() {
            [] => thought(draft.thought.as_deref().unwrap_or_default(), Meta::default()),
            calls => Entry::calling(draft.thought.as_deref(), calls),
        };
        self.put(entry, draft.at)?;
        Ok(())
    }

    fn put(&mut self, entry: Entry, at: Time) -> Result<u64, AgentError> {
        let appended = self.record.append(entry.stamped(self.evaluation, self.sequence, at));
        let position = appended.map_err(|error| AgentError::caused(AgentErrorKind::Append, error))?;
        self.sequence += 1;
        Ok(position)
    }
}

/// A thought that no tool use follows, with what is known about it.
pub(crate) fn thought(text: &str, meta: Meta) -> Entry {
    let mut entry = Entry::text(Role::Assistant, text);
    entry.meta = Some(Box::new(Meta { step: Some("thought".into()), ..meta }));
    entry
}
