//! What a run is given: data, tools, memory, limits.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::limits::{CancelToken, Clock, Limits};
use crate::memory::Memory;
use crate::run::live::Addresses;
use crate::signature::Signature;
use crate::value::{Map, Value};

/// A call of a tool, as the tool sees it.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// The arguments: a map with string keys.
    pub args: Map,
}

/// What a tool does when it is called during [`Program::run`](crate::Program::run).
pub(crate) type Callback = Arc<dyn Fn(ToolCall) -> Result<Value, String> + Send + Sync>;

/// A tool that programs can call.
#[derive(Clone)]
pub struct Tool {
    pub(crate) name: Box<str>,
    pub(crate) signature: Option<Signature>,
    pub(crate) callback: Option<Callback>,
}

impl Tool {
    /// A tool that answers at once.
    pub fn new(
        name: &str,
        signature: Option<Signature>,
        callback: impl Fn(ToolCall) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        Tool { name: name.into(), signature, callback: Some(Arc::new(callback)) }
    }

    /// A tool whose calls are handed to whoever drives the [`Run`](crate::Run).
    pub fn pending(name: &str, signature: Option<Signature>) -> Self {
        Tool { name: name.into(), signature, callback: None }
    }
}

/// Everything a run is given. Nothing else is in its reach.
#[derive(Clone, Default)]
pub struct Env {
    pub(crate) data: Arc<BTreeMap<Box<str>, Value>>,
    /// Where the data lies, once a run had to know; the runs of one environment share it.
    pub(crate) granted: Arc<OnceLock<Addresses>>,
    pub(crate) tools: Arc<BTreeMap<Box<str>, Tool>>,
    pub(crate) memory: Memory,
    pub(crate) history: Vec<Value>,
    pub(crate) now: Option<i64>,
    pub(crate) clock: Option<Clock>,
    pub(crate) limits: Limits,
    pub(crate) cancel: CancelToken,
}

impl Env {
    /// Nothing but the language.
    pub fn new() -> Self {
        Env::default()
    }

    /// Grants a value as `data/name`. It is shared, never copied.
    #[must_use]
    pub fn data(mut self, name: &str, value: Value) -> Self {
        Arc::make_mut(&mut self.data).insert(name.into(), value);
        self.granted = Arc::default();
        self
    }

    /// Grants a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        Arc::make_mut(&mut self.tools).insert(tool.name.clone(), tool);
        self
    }

    /// Starts from the definitions of an earlier run.
    #[must_use]
    pub fn memory(mut self, memory: &Memory) -> Self {
        self.memory = memory.clone();
        self
    }

    /// The values of the last programs, newest first: `*1 *2 *3`.
    #[must_use]
    pub fn history(mut self, values: impl IntoIterator<Item = Value>) -> Self {
        self.history = values.into_iter().take(3).collect();
        self
    }

    /// The moment the program takes for now, in milliseconds since 1970.
    #[must_use]
    pub fn now(mut self, ms: i64) -> Self {
        self.now = Some(ms);
        self
    }

    /// A clock, for the limits on time and for the durations of tool calls. Without one only fuel bounds time.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Other limits than the defaults.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A token that can end the run.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = token.clone();
        self
    }

    /// The definitions a run would start from.
    pub fn memory_snapshot(&self) -> Memory {
        self.memory.clone()
    }

    /// How data is written in programs: `data/name`, for every name.
    pub fn data_names(&self) -> Vec<String> {
        self.data.keys().map(|name| format!("data/{name}")).collect()
    }
}
