//! Turns: what was said, run and found in one cycle of a sub-agent. Appended once, never changed.

use std::time::Duration;

use scrollback_agent::runner::AttemptUsage;
use scrollback_lisp::{Definition, Memory, ToolRecord, Value};
use serde_json::{Map, Value as Json, json};

/// One cycle: a reply, the program in it, and its result.
///
/// A turn that failed changed nothing but the world its tools act on: its memory is that of the turn before.
#[derive(Clone)]
pub struct Turn {
    /// Which it is, from 1.
    pub number: usize,
    /// The whole reply, reasoning included.
    pub raw_response: String,
    /// The program in it, complete; none if there was none.
    pub program: Option<String>,
    /// The value of the program; none if it failed.
    pub result: Option<Value>,
    /// What it printed, one text per call.
    pub prints: Vec<String>,
    /// The tools it called, in the order of the program.
    pub tool_calls: Vec<ToolRecord>,
    /// The definitions after it.
    pub memory: Memory,
    /// Why it failed; none if it did not.
    pub error: Option<TurnError>,
    /// What it used.
    pub usage: TurnUsage,
    /// The names it defined or changed, sorted.
    pub defined: Vec<String>,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnError {
    /// The word for it: a reason of the language, `no_code_found`, `validation_error` or `memory_limit_exceeded`.
    pub reason: String,
    /// What the model is told.
    pub message: String,
}

/// What a turn used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnUsage {
    /// Tokens of its request and reply.
    pub model: AttemptUsage,
    /// Units of work of its program.
    pub fuel: u64,
    /// Most bytes its program held.
    pub memory_bytes: usize,
    /// From the request to the end of the program.
    pub time: Duration,
}

impl Turn {
    /// Whether its program ran to its end.
    pub fn success(&self) -> bool {
        self.error.is_none()
    }

    /// Whether it returned a value that did not fit, so that another turn may be granted.
    pub(crate) fn is_retriable(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.reason == VALIDATION_ERROR)
    }

    /// Every field, as programs read it. Values are written as the language prints them.
    pub fn to_json(&self) -> Json {
        let mut turn = json!({
            "number": self.number,
            "raw_response": self.raw_response,
            "program": self.program,
            "result": self.result.as_ref().map(ToString::to_string),
            "prints": self.prints,
            "tool_calls": self.tool_calls.iter().map(call_json).collect::<Vec<_>>(),
            "memory": memory_json(&self.memory),
            "success": self.success(),
        });
        if let Some(error) = &self.error {
            turn["error"] = json!({ "reason": error.reason, "message": error.message });
        }
        turn["usage"] = self.usage.to_json();
        turn["defined"] = json!(self.defined);
        turn
    }
}

/// The reason of a turn whose return value did not fit the signature.
pub(crate) const VALIDATION_ERROR: &str = "validation_error";
/// The reason of a turn whose reply had no program.
pub(crate) const NO_CODE_FOUND: &str = "no_code_found";
/// The reason of a turn that defined more than may be kept.
pub(crate) const MEMORY_LIMIT_EXCEEDED: &str = "memory_limit_exceeded";

impl TurnUsage {
    fn to_json(&self) -> Json {
        let mut usage = spent_json(&self.model);
        usage["fuel"] = json!(self.fuel);
        usage["memory_bytes"] = json!(self.memory_bytes);
        usage["milliseconds"] = json!(self.time.as_millis() as u64);
        usage
    }
}

/// Tokens and cost, with their sum.
pub(crate) fn spent_json(spent: &AttemptUsage) -> Json {
    let mut usage = json!(spent);
    usage["total"] = json!(spent.total());
    usage
}

/// A tool call as programs read it.
pub(crate) fn call_json(call: &ToolRecord) -> Json {
    let mut object = json!({ "name": call.name, "args": as_json(&Value::Map(call.args.clone())) });
    match &call.result {
        Ok(result) => object["result"] = as_json(result),
        Err(error) => object["error"] = json!(error),
    }
    if let Some(duration) = call.duration {
        object["duration_ms"] = json!(duration.as_millis() as u64);
    }
    object
}

/// A value as JSON.
pub(crate) fn as_json(value: &Value) -> Json {
    serde_json::from_str(&value.to_json()).unwrap_or(Json::Null)
}

/// Definitions as `subagent render` reads them.
fn memory_json(memory: &Memory) -> Json {
    let entry = |(name, definition): (&str, &Definition)| (name.to_string(), definition_json(definition));
    Json::Object(memory.iter().map(entry).collect::<Map<_, _>>())
}

fn definition_json(definition: &Definition) -> Json {
    let text = definition.value.as_ref().map_or_else(|| "nil".into(), ToString::to_string);
    let mut object = match definition.parameters() {
        Some(parameters) => json!({ "params": parameters }),
        None if definition.doc.is_none() => return json!(text),
        None => json!({ "value": text }),
    };
    if let Some(doc) = &definition.doc {
        object["doc"] = json!(doc.as_str());
    }
    if let Some(returns) = definition.returns.as_deref().filter(|_| object.get("params").is_some()) {
        object["returns"] = json!(returns);
    }
    object
}

/// The names whose definitions differ, sorted; what functions returned last does not count.
pub(crate) fn changed(before: &Memory, after: &Memory) -> Vec<String> {
    let is_new = |(name, definition): &(&str, &Definition)| {
        before.get(name).is_none_or(|old| !is_same(old, definition))
    };
    after.iter().filter(is_new).map(|(name, _)| name.to_string()).collect()
}

/// Whether a definition says what it said before.
fn is_same(old: &Definition, new: &Definition) -> bool {
    if old.run == new.run && old.run > 0 {
        return true;
    }
    let label = |definition: &Definition| definition.value.as_ref().map(Value::label);
    old.doc == new.doc && label(old) == label(new) && old.value == new.value
}
