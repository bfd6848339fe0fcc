//! What a run is given: data, tools, memory, limits.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::fit::Validation;
use crate::limits::{CancelToken, Clock, Limits};
use crate::memory::Memory;
use crate::run::live_memory::Addresses;
use crate::run::{Run, ToolResult};
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

/// One tool call that is ready to be made.
pub type ToolJob = Box<dyn FnOnce() -> ToolResult + Send>;

/// Makes the tool calls of parallel branches, in any order and on any threads, and gives the answers in the order of
/// the calls.
pub type Executor = Arc<dyn Fn(Vec<ToolJob>) -> Vec<ToolResult> + Send + Sync>;

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

    /// A tool whose calls are handed to the caller that drives the [`Run`](crate::Run).
    pub fn pending(name: &str, signature: Option<Signature>) -> Self {
        Tool { name: name.into(), signature, callback: None }
    }
}

/// Everything a run is given. Nothing else is in its reach. A copy costs next to nothing, whatever is granted.
#[derive(Default)]
pub struct Env {
    pub(crate) granted: Arc<Granted>,
    /// What the last run leaves for another run of the same program.
    pub(crate) spare: Option<Box<Run>>,
}

impl Clone for Env {
    fn clone(&self) -> Self {
        Env { granted: Arc::clone(&self.granted), spare: None }
    }
}

/// What an environment grants.
#[derive(Clone, Default)]
pub(crate) struct Granted {
    pub(crate) data: Arc<Data>,
    pub(crate) tools: Arc<BTreeMap<Box<str>, Tool>>,
    pub(crate) memory: Memory,
    pub(crate) history: Vec<Value>,
    pub(crate) now: Option<i64>,
    pub(crate) clock: Option<Clock>,
    pub(crate) executor: Option<Executor>,
    pub(crate) limits: Limits,
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) validation: Validation,
}

/// The data of an environment, by name.
#[derive(Default)]
pub(crate) struct Data {
    pub(crate) values: BTreeMap<Box<str>, Value>,
    /// Where it lies, once a run had to know; all runs with this data share it.
    pub(crate) addresses: OnceLock<Addresses>,
}

impl Clone for Data {
    /// A copy is made to be changed, so where it lies is not copied.
    fn clone(&self) -> Self {
        Data { values: self.values.clone(), addresses: OnceLock::new() }
    }
}

impl Env {
    /// What is granted, to be changed.
    fn change(&mut self) -> &mut Granted {
        self.spare = None;
        Arc::make_mut(&mut self.granted)
    }

    /// Nothing but the language.
    pub fn new() -> Self {
        Env::default()
    }

    /// Grants a value as `data/name`. It is shared, never copied.
    #[must_use]
    pub fn data(mut self, name: &str, value: Value) -> Self {
        let data = Arc::make_mut(&mut self.change().data);
        data.values.insert(name.into(), value);
        data.addresses = OnceLock::new();
        self
    }

    /// Grants a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        Arc::make_mut(&mut self.change().tools).insert(tool.name.clone(), tool);
        self
    }

    /// Starts from the definitions of an earlier run.
    #[must_use]
    pub fn memory(mut self, memory: &Memory) -> Self {
        self.change().memory = memory.clone();
        self
    }

    /// The values of the last programs, newest first: `*1 *2 *3`.
    #[must_use]
    pub fn history(mut self, values: impl IntoIterator<Item = Value>) -> Self {
        self.change().history = values.into_iter().take(3).collect();
        self
    }

    /// The moment the program takes for now, in milliseconds since 1970.
    #[must_use]
    pub fn now(mut self, ms: i64) -> Self {
        self.change().now = Some(ms);
        self
    }

    /// A clock, for the limits on time and for the durations of tool calls. Without one only fuel bounds time.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.change().clock = Some(clock);
        self
    }

    /// Who makes the calls that branches of `pmap` and `pcalls` have out at once. Without one they are made one after
    /// the other. Results, prints, records and errors are the same either way; only the waiting is shorter.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use scrollback_lisp::{Env, Program, Tool, Value};
    /// let fetch = Tool::new("fetch", None, |call| Ok(Value::Map(call.args)));
    /// let threads = Arc::new(|jobs: Vec<scrollback_lisp::ToolJob>| {
    ///     let running: Vec<_> = jobs.into_iter().map(std::thread::spawn).collect();
    ///     running.into_iter().map(|job| job.join().unwrap_or_else(|_| Err("it panicked".into()))).collect()
    /// });
    /// let program = Program::compile("(pmap (fn [n] (:n (tool/fetch {:n n}))) [1 2 3])")?;
    /// let outcome = program.run(&mut Env::new().tool(fetch).executor(threads));
    /// assert_eq!(outcome.value().map(|value| value.to_string()).as_deref(), Some("[1 2 3]"));
    /// # Ok::<(), scrollback_lisp::Error>(())
    /// ```
    #[must_use]
    pub fn executor(mut self, executor: Executor) -> Self {
        self.change().executor = Some(executor);
        self
    }

    /// Other limits than the defaults.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.change().limits = limits;
        self
    }

    /// A token that can end the run.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.change().cancel = Some(token.clone());
        self
    }

    /// How arguments of tools are held against their signatures.
    #[must_use]
    pub fn validation(mut self, mode: Validation) -> Self {
        self.change().validation = mode;
        self
    }

    /// The definitions a run would start from.
    pub fn memory_snapshot(&self) -> Memory {
        self.granted.memory.clone()
    }

    /// How data is written in programs: `data/name`, for every name.
    pub fn data_names(&self) -> Vec<String> {
        self.granted.data.values.keys().map(|name| format!("data/{name}")).collect()
    }
}
