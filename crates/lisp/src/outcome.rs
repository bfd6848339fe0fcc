//! The result of a run.

use std::time::Duration;

use crate::error::Error;
use crate::memory::Memory;
use crate::value::{Map, Value};

/// How a program ended well.
#[derive(Clone, Debug)]
pub enum ProgramEnd {
    /// With the value of its last form.
    Value(Value),
    /// With `(return value)`.
    Returned(Value),
}

/// A call of a tool that was made.
#[derive(Clone, Debug)]
pub struct ToolRecord {
    /// The tool.
    pub name: String,
    /// The arguments it was given.
    pub args: Map,
    /// What it answered, or the text of its error.
    pub result: Result<Value, String>,
    /// How long it took, if there was a clock.
    pub duration: Option<Duration>,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramUsage {
    /// Units of fuel.
    pub fuel: u64,
    /// The most bytes in use, as far as they were counted: an upper bound.
    pub memory_bytes: usize,
    /// Tools called.
    pub tool_calls: usize,
}

/// The complete result of a run. Prints and tool calls are there also when it failed.
#[derive(Clone)]
pub struct Outcome {
    /// The value, or why there is none.
    pub result: Result<ProgramEnd, Error>,
    /// The definitions after the run; after an error those before it.
    pub memory: Memory,
    /// One entry per printing call, in the order of the program.
    pub prints: Vec<String>,
    /// How many entries found no room.
    pub prints_dropped: usize,
    /// The tools that were called, in the order of the program.
    pub tool_calls: Vec<ToolRecord>,
    /// What was odd but no error.
    pub warnings: Vec<String>,
    /// What was used.
    pub usage: ProgramUsage,
}

impl Outcome {
    /// The value the program ended with, returned or not.
    pub fn value(&self) -> Option<&Value> {
        match &self.result {
            Ok(ProgramEnd::Value(value) | ProgramEnd::Returned(value)) => Some(value),
            Err(_) => None,
        }
    }
}
