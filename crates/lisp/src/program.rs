//! Programs: compiled once, run many times.

use std::sync::Arc;

use crate::compile::{self, Unit};
use crate::env::{Env, ToolCall};
use crate::error::{Error, Reason};
use crate::outcome::Outcome;
use crate::read;
use crate::run::{Answer, PendingCall, Run, Step};

/// A compiled program. Copies share the code; any number of them can run at once.
///
/// ```
/// use scrollback_lisp::{Env, Program, Value};
/// let program = Program::compile("(->> data/orders (filter #(> (:total %) 10)) (map :id))")?;
/// let orders = Value::from_json(r#"[{"id": 1, "total": 5}, {"id": 2, "total": 50}]"#).unwrap_or_default();
/// let outcome = program.run(&mut Env::new().data("orders", orders));
/// assert_eq!(outcome.value().map(|value| value.to_string()).as_deref(), Some("[2]"));
/// # Ok::<(), scrollback_lisp::Error>(())
/// ```
#[derive(Clone)]
pub struct Program {
    unit: Arc<Unit>,
}

impl Program {
    /// Reads and analyses a source. What its names stand for is decided when it runs.
    pub fn compile(source: &str) -> Result<Program, Error> {
        compile::compile(source).map(|unit| Program { unit }).map_err(|error| *error)
    }

    /// The same for bytes that may not be text.
    pub fn compile_bytes(source: &[u8]) -> Result<Program, Error> {
        match std::str::from_utf8(source) {
            Ok(source) => Program::compile(source),
            Err(error) => {
                let message =
                    format!("the source is not UTF-8: byte {} belongs to no character", error.valid_up_to());
                Err(Error::new(Reason::ParseError, message))
            }
        }
    }

    /// The source it was compiled from.
    pub fn source(&self) -> &str {
        &self.unit.source
    }

    /// Whether a text ends inside a form, so that more lines could complete it.
    pub fn is_unfinished(source: &str) -> bool {
        read::is_unfinished(source)
    }

    /// Runs it to its end. Tools without a callback fail.
    pub fn run(&self, env: &mut Env) -> Outcome {
        let tools = Arc::clone(&env.tools);
        let mut run = Run::start(&self.unit, env.clone());
        let mut answers: Vec<Answer> = Vec::new();
        loop {
            match run.resume(std::mem::take(&mut answers)) {
                Step::Done(outcome) => return *outcome,
                Step::Call(calls) => {
                    answers.extend(calls.into_iter().map(|PendingCall { name, args, .. }| {
                        match tools.get(name.as_str()).and_then(|tool| tool.callback.as_ref()) {
                            Some(callback) => callback(ToolCall { name, args }),
                            None => Err("it cannot be called here".into()),
                        }
                    }));
                }
            }
        }
    }

    /// Runs it although names in it may stand for nothing yet: a function may be restored before what it calls.
    pub(crate) fn run_unchecked(&self, env: &mut Env) -> Outcome {
        let mut run = Run::start_unchecked(&self.unit, env.clone());
        loop {
            if let Step::Done(outcome) = run.resume([]) {
                return *outcome;
            }
        }
    }

    /// Starts it, for a host that answers tool calls in its own time.
    pub fn start(&self, env: Env) -> Run {
        Run::start(&self.unit, env)
    }
}
