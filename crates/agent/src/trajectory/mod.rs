//! Trajectories: the steps of an agent, read from the record. There is no second list.
//!
//! [`steps`] reads them, [`Trajectory`] writes them, [`messages_view`] and [`context_prompt`] show them to models that
//! know nothing of tools.

mod show;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use scrollback_core::{
    BlockKind, Decision, Entry, ItemSource, Record, Role, SUMMARY_HEADING, Slot, Time, ViewItem,
};
use serde::Serialize;
use serde_json::{Value, json};

pub use show::{Current, StepMessage, StepPart, context_prompt, messages_view, recent_for_extract};
pub use write::Trajectory;
pub(crate) use write::thought;

/// What kind of step it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// What the user wants.
    UserQuery,
    /// What the agent thinks before it acts.
    Thought,
    /// What it does.
    ToolCall,
    /// Its result.
    ToolResult,
    /// What it answers.
    FinalAnswer,
    /// What stands for steps that are no longer shown.
    Summary,
}

impl StepKind {
    /// Its word in the messages view.
    pub fn short(self) -> &'static str {
        match self {
            StepKind::UserQuery => "query",
            StepKind::Thought => "thought",
            StepKind::ToolCall => "tool_use",
            StepKind::ToolResult => "tool_result",
            StepKind::FinalAnswer => "answer",
            StepKind::Summary => "summary",
        }
    }

    /// Who takes the step.
    pub fn role(self) -> &'static str {
        match self {
            StepKind::UserQuery => "user",
            StepKind::Summary => "system",
            _ => "assistant",
        }
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What kind.
    pub kind: StepKind,
    /// What it says.
    pub content: String,
    /// The tool and its arguments, or what it answered.
    pub tool_data: Option<Value>,
    /// What ties a result to its call.
    pub tool_use_id: Option<String>,
    /// When it was taken.
    pub timestamp: Time,
    /// The tags of its entry.
    pub metadata: BTreeMap<String, String>,
    /// How often the model had been asked since the last query, this time included; 0 for what is not the model's doing.
    pub iteration: u32,
    /// The entry it is read from.
    pub position: u64,
}

/// The steps of a record, or of part of it.
///
/// ```
/// use scrollback_agent::trajectory::{StepKind, steps};
/// use scrollback_core::{Entry, Record, Role};
/// let mut record = Record::new();
/// let said = [Entry::text(Role::User, "6 x 7?"), Entry::text(Role::Assistant, "42")];
/// for (sequence, entry) in said.into_iter().enumerate() {
///     record.append(entry.stamped(Default::default(), sequence as u64, Default::default()))?;
/// }
/// let kinds: Vec<StepKind> = steps(&record, ..).iter().map(|step| step.kind).collect();
/// assert_eq!(kinds, [StepKind::UserQuery, StepKind::FinalAnswer]);
/// # Ok::<(), scrollback_core::AppendError>(())
/// ```
pub fn steps(record: &Record, range: impl std::ops::RangeBounds<u64>) -> Vec<Step> {
    let slots = record.slots();
    let first = match range.start_bound() {
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    // Iterations count from the query before, wherever the range begins.
    let is_query = |slot: &Slot| matches!(slot, Slot::Message(entry) if entry.role == Role::User);
    let query = slots.get(..first as usize).and_then(|before| before.iter().rposition(is_query)).unwrap_or(0);
    let mut reader = StepReader::default();
    let wanted = (query as u64..).zip(slots.iter().skip(query));
    for (position, slot) in wanted.take_while(|(position, _)| *position < first || range.contains(position)) {
        match slot {
            Slot::Message(entry) => reader.entry(entry, position),
            Slot::Decision(decision, at) => {
                if let Decision::Summary { text, .. } = &**decision {
                    reader.summary(text, position, *at);
                }
            }
            Slot::Erased(_) => {}
        }
    }
    reader.steps.retain(|step| range.contains(&step.position));
    reader.steps
}

/// The steps that a view shows.
pub fn steps_of_view(items: impl IntoIterator<Item = ViewItem>) -> Vec<Step> {
    let mut reader = StepReader::default();
    for item in items {
        match item.source {
            ItemSource::Entry(position) => reader.entry(&item.entry, position),
            ItemSource::Summary { covers } => {
                let text = item.entry.content().unwrap_or_default();
                let text = text.strip_prefix(SUMMARY_HEADING).map_or(text.as_str(), str::trim_start);
                reader.summary(text, covers.first().copied().unwrap_or(0), item.entry.created_at);
            }
            ItemSource::Interrupted { .. } | ItemSource::Ledger { .. } => reader.entry(&item.entry, 0),
        }
    }
    reader.steps
}

/// Whether an entry of the assistant is marked as a thought.
pub(crate) fn is_thought(entry: &Entry) -> bool {
    entry.meta.as_ref().is_some_and(|meta| meta.step.as_deref() == Some("thought"))
}

/// Reads entries one after the other.
#[derive(Default)]
struct StepReader {
    steps: Vec<Step>,
    /// Entries of the assistant since the last query.
    iteration: u32,
    /// The iteration each call was made in.
    called: HashMap<String, u32>,
}

impl StepReader {
    fn entry(&mut self, entry: &Entry, position: u64) {
        let text = entry.content().unwrap_or_default();
        match entry.role {
            Role::System => {}
            Role::User => {
                self.iteration = 0;
                self.push(StepKind::UserQuery, text, entry, position);
            }
            Role::Assistant => {
                self.iteration += 1;
                self.assistant(entry, text, position);
            }
            Role::Tool => self.result(entry, text, position),
        }
    }

    fn assistant(&mut self, entry: &Entry, text: String, position: u64) {
        if entry.tool_calls().next().is_none() && !is_thought(entry) {
            self.push(StepKind::FinalAnswer, text, entry, position);
            return;
        }
        let thought = if text.is_empty() { reasoning(entry) } else { text };
        if !thought.is_empty() {
            self.push(StepKind::Thought, thought, entry, position);
        }
        for call in entry.tool_calls() {
            let name = call.name.as_str().into_owned();
            let raw = call.arguments.as_str();
            let args: Value =
                serde_json::from_str(&raw).unwrap_or_else(|_| Value::String(raw.clone().into_owned()));
            let id = call.call_id.as_ref().map(|id| id.as_str().into_owned());
            if let Some(id) = &id {
                self.called.insert(id.clone(), self.iteration);
            }
            self.push(StepKind::ToolCall, format!("Using tool: {name}"), entry, position);
            self.tool(Some(json!({ "name": name, "args": args })), id);
        }
    }

    fn result(&mut self, entry: &Entry, text: String, position: u64) {
        let failed = entry.tool_result().is_some_and(|result| result.is_error == Some(true));
        let id = entry.tool_call_id();
        let iteration = id.as_ref().and_then(|id| self.called.get(id).copied());
        let data = if failed {
            json!({ "result": null, "error": text })
        } else {
            json!({ "result": text, "error": null })
        };
        let content = if failed { format!("Error: {text}") } else { text };
        self.push(StepKind::ToolResult, content, entry, position);
        self.tool(Some(data), id);
        if let (Some(step), Some(iteration)) = (self.steps.last_mut(), iteration) {
            step.iteration = iteration;
        }
    }

    fn summary(&mut self, text: &str, position: u64, at: Time) {
        self.steps.push(Step {
            kind: StepKind::Summary,
            content: text.into(),
            tool_data: None,
            tool_use_id: None,
            timestamp: at,
            metadata: BTreeMap::new(),
            iteration: 0,
            position,
        });
    }

    fn push(&mut self, kind: StepKind, content: String, entry: &Entry, position: u64) {
        self.steps.push(Step {
            kind,
            content,
            tool_data: None,
            tool_use_id: None,
            timestamp: entry.created_at,
            metadata: entry.meta.as_ref().map(|meta| meta.tags.clone()).unwrap_or_default(),
            iteration: self.iteration,
            position,
        });
    }

    fn tool(&mut self, data: Option<Value>, id: Option<String>) {
        if let Some(step) = self.steps.last_mut() {
            (step.tool_data, step.tool_use_id) = (data, id);
        }
    }
}

/// What an entry says of the model's reasoning.
fn reasoning(entry: &Entry) -> String {
    let said = entry.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Reasoning(reasoning) => Some(reasoning.text.iter().chain(&reasoning.summaries)),
        _ => None,
    });
    let texts: Vec<String> = said.flatten().map(|text| text.as_str().into_owned()).collect();
    texts.join("\n")
}
