//! What a mission came to.

use std::collections::BTreeMap;

use scrollback_agent::runner::{AttemptUsage, RequestMessage};
use scrollback_lisp::{Memory, Signature, Value};
use serde::Serialize;
use serde_json::{Value as Json, json};
use uuid::Uuid;

use super::compression::{Chosen, Stats};
use super::input::Input;
use super::smaller_requests::Tightened;
use super::turn::{Turn, as_json, spent_json};

/// What a mission came to, with every turn of it.
#[derive(Clone)]
pub struct Step {
    /// What the agent is called.
    pub name: String,
    /// What was returned, or why nothing was.
    pub outcome: Result<Value, Fail>,
    /// The turns, in order.
    pub turns: Vec<Turn>,
    /// The definitions at the end.
    pub memory: Memory,
    /// What it takes and returns.
    pub signature: Option<Signature>,
    /// What names of what was returned mean.
    pub descriptions: BTreeMap<String, String>,
    /// Tokens of all its requests.
    pub usage: AttemptUsage,
    /// Its evaluation.
    pub trace_id: Uuid,
    /// The evaluation of the agent that called it.
    pub parent_trace_id: Option<Uuid>,
    /// The evaluations of agents it called.
    pub children: Vec<Uuid>,
    /// The row of `runs`, where there is a store.
    pub run: Option<String>,
    /// What its requests were made of.
    pub sent: Sent,
    /// What was odd but no error.
    pub warnings: Vec<String>,
}

/// What the requests of a mission were made of, so that they can be made again.
#[derive(Clone)]
pub struct Sent {
    /// What was given.
    pub input: Input,
    /// How history was told.
    pub compression: Chosen,
    /// Each request, in order.
    pub calls: Vec<SentCall>,
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub struct SentCall {
    /// How many turns there were.
    pub turns: usize,
    /// The hash of its messages.
    pub hash: String,
    /// What compression did.
    pub stats: Stats,
    /// Which entries of the record each message is, or stands for.
    pub view: Vec<RequestMessage>,
    /// What was decided by then because requests were too large.
    pub tightened: Tightened,
}

/// Why a mission returned nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    /// The end it came to.
    pub reason: EndReason,
    /// What people read.
    pub message: String,
}

/// How a mission can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// It returned a value that fits.
    Done,
    /// A program called `fail`.
    Failed,
    /// All turns were used.
    MaxTurnsExceeded,
    /// It and the agents it called used all turns they had together.
    TurnBudgetExhausted,
    /// Agents called agents too deeply.
    MaxDepthExceeded,
    /// The time was up.
    MissionTimeout,
    /// The model could not be asked, or did not answer.
    LlmError,
    /// There is no model.
    LlmRequired,
    /// Definitions took too much, and that was to be the end.
    MemoryLimitExceeded,
    /// There was one turn, and no program in its reply.
    NoCodeFound,
    /// The step before failed.
    ChainedFailure,
    /// The caller asked to stop.
    Cancelled,
}

impl EndReason {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            EndReason::Done => "done",
            EndReason::Failed => "failed",
            EndReason::MaxTurnsExceeded => "max_turns_exceeded",
            EndReason::TurnBudgetExhausted => "turn_budget_exhausted",
            EndReason::MaxDepthExceeded => "max_depth_exceeded",
            EndReason::MissionTimeout => "mission_timeout",
            EndReason::LlmError => "llm_error",
            EndReason::LlmRequired => "llm_required",
            EndReason::MemoryLimitExceeded => "memory_limit_exceeded",
            EndReason::NoCodeFound => "no_code_found",
            EndReason::ChainedFailure => "chained_failure",
            EndReason::Cancelled => "cancelled",
        }
    }
}

impl Fail {
    pub(crate) fn new(reason: EndReason, message: impl Into<String>) -> Self {
        Fail { reason, message: message.into() }
    }

    /// As programs read it.
    pub fn to_json(&self) -> Json {
        json!({ "reason": self.reason, "message": self.message })
    }
}

impl Step {
    /// How it ended.
    pub fn end(&self) -> EndReason {
        self.outcome.as_ref().map_or_else(|fail| fail.reason, |_| EndReason::Done)
    }

    /// Everything, as programs read it. Exactly one of `return` and `fail` says something.
    pub fn to_json(&self) -> Json {
        let stats = self.sent.calls.last().map(|call| &call.stats);
        let mut step = json!({
            "return": self.outcome.as_ref().ok().map(as_json),
            "fail": self.outcome.as_ref().err().map(Fail::to_json),
            "turns": self.turns.iter().map(Turn::to_json).collect::<Vec<_>>(),
            "usage": spent_json(&self.usage),
            "compression": stats,
            "run": self.run,
            "trace_id": self.trace_id.to_string(),
            "parent_trace_id": self.parent_trace_id.map(|id| id.to_string()),
            "children": self.children.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        if !self.warnings.is_empty() {
            step["warnings"] = json!(self.warnings);
        }
        step
    }
}

/// The value with floats of so many decimals.
// The depth is that of a value that was printed and read, which the reader limits; deeper parts stay as they are.
pub(crate) fn rounded(value: &Value, decimals: u32, depth: usize) -> Value {
    const DEEPEST: usize = 500;
    if depth > DEEPEST {
        return value.clone();
    }
    let inner = |value: &Value| rounded(value, decimals, depth + 1);
    match value {
        Value::Float(x) if x.is_finite() => {
            Value::Float(format!("{x:.*}", decimals as usize).parse().unwrap_or(*x))
        }
        Value::Vector(items) => Value::vector(items.iter().map(inner)),
        Value::Set(items) => Value::Set(items.iter().map(inner).collect()),
        Value::Map(entries) => {
            Value::Map(entries.iter().map(|(key, value)| (key.clone(), inner(value))).collect())
        }
        other => other.clone(),
    }
}
