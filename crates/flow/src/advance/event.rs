//! What happens to a run, and what follows from it, as values.

use std::sync::Arc;

use scrollback_core::Role;
use scrollback_store::{StepStatus, StepType};
use serde_json::Value;
use uuid::Uuid;

use crate::error::RunError;
use crate::passed_values::{EntryId, Passed};
use crate::quota::AccountId;
use crate::turns::Turn;
use crate::usage::RunUsage;

/// Something that happened. Late or repeated events change nothing, so replay is safe.
#[derive(Clone, Debug)]
pub enum FlowEvent {
    /// The run begins.
    Started,
    /// An agent replied, and what it said is an entry.
    Replied {
        /// The step.
        key: String,
        /// The entry.
        entry: EntryId,
        /// Its text, as the model wrote it.
        text: Arc<str>,
        /// What it means: the text, or the JSON value that was asked for.
        value: Value,
        /// What the step used, all its attempts.
        usage: RunUsage,
    },
    /// An agent step failed for good.
    Failed {
        /// The step.
        key: String,
        /// Why.
        error: RunError,
        /// What it used all the same.
        usage: RunUsage,
    },
    /// A person answered.
    Answered {
        /// The step.
        key: String,
        /// The answer as it was given.
        text: Arc<str>,
        /// What it means.
        value: Value,
    },
    /// The run was not asked to stop meanwhile: a step that could have started, starts.
    Continued {
        /// The step.
        key: String,
    },
    /// The run was asked to stop: nothing new starts.
    Stopping,
    /// The call of a step was cancelled because the run was asked to stop. Not a value and not an error.
    Stopped {
        /// The step.
        key: String,
    },
}

/// What is to be done about it.
#[derive(Clone, Debug)]
pub enum Action {
    /// Write this down. Everything that one event leads to is one commit.
    Write(Write),
    /// Ask an agent, once it is written down.
    Call(Box<AgentCall>),
    /// Go on with this step, by key, once it is written down: it waits for nothing, but much was done at once.
    Continue(String),
    /// The run goes no further, once that is written down.
    End(RunEnd),
}

/// How a run ends, or waits. Neither waiting nor stopping is a value or an error: nothing in a flow can see them.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// With an output.
    Done(Passed),
    /// Without one.
    Failed(RunError),
    /// Until people have answered.
    Paused,
    /// It was asked for; it can go on.
    Stopped,
}

/// An agent that shall be asked.
#[derive(Clone, Debug)]
pub struct AgentCall {
    /// The step's key.
    pub key: String,
    /// What it is shown inside, by key.
    pub within: Option<String>,
    /// The step's name.
    pub step: String,
    /// What it receives.
    pub input: Passed,
    /// The innermost conversational loop, by key.
    pub scope: Option<Arc<str>>,
    /// Turns that only this branch sees.
    pub own: Vec<Arc<Turn>>,
    /// What it is charged to.
    pub account: Option<AccountId>,
    /// The evaluation its entries belong to.
    pub evaluation: Uuid,
}

/// One thing to be written down.
#[derive(Clone, Debug)]
pub enum Write {
    /// A text becomes an entry.
    Entry {
        /// Which it is.
        id: EntryId,
        /// Who says it.
        role: Role,
        /// What.
        text: Arc<str>,
    },
    /// An entry becomes a turn.
    Mark {
        /// The loop, by key.
        scope: Arc<str>,
        /// The turn.
        turn: Arc<Turn>,
    },
    /// What is known about a step, in place of what was written before.
    Step(Box<StepRow>),
    /// A stretch of a run that is shown in traces, and is no step: an iteration.
    Iteration {
        /// Its key: `chat[2]`.
        key: String,
        /// The loop's key.
        of: String,
        /// Whether it begins or ends, and how.
        status: StepStatus,
    },
    /// Something for the trace.
    Event {
        /// The step it is about; none for the run.
        key: Option<String>,
        /// Which event.
        kind: &'static str,
        /// What is known about it; no texts.
        data: Value,
    },
}

/// What is known about a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRow {
    /// Its key.
    pub key: String,
    /// The key of what it is inside: a loop's iteration, or a step; none at the top.
    pub within: Option<String>,
    /// What it does.
    pub kind: StepType,
    /// Whether an agent does it.
    pub asks: bool,
    /// How it stands.
    pub status: StepStatus,
    /// Which try it is.
    pub attempt: u64,
    /// What it was given.
    pub input: Option<Value>,
    /// Its output.
    pub output: Option<Value>,
    /// The evaluation whose last entry is its output.
    pub evaluation: Option<Uuid>,
    /// What it used; none if it calls no model.
    pub usage: Option<RunUsage>,
    /// Why it failed.
    pub error: Option<RunError>,
}
