//! Programs: compiled once, run many times.

use std::sync::Arc;

use crate::compile::{self, Unit};
use crate::env::{Env, Granted, ToolCall, ToolJob};
use crate::error::{Error, Reason};
use crate::outcome::Outcome;
use crate::read;
use crate::run::{PendingCall, Run, ToolResult};
use crate::value::{Closure, Function};

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
    /// The program itself, as a function without parameters.
    main: Arc<Function>,
}

impl Program {
    /// Reads and analyses a source. What its names stand for is decided when it runs.
    pub fn compile(source: &str) -> Result<Program, Error> {
        let unit = compile::compile(source).map_err(|error| *error)?;
        let closure = Closure { unit: Arc::clone(&unit), proto: unit.main, captures: None };
        Ok(Program { unit, main: Arc::new(Function::closure(0, closure)) })
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
        let again = env.spare.take().filter(|run| run.is_of(&self.unit));
        let mut run = match again {
            Some(mut run) => {
                run.restart(&self.main);
                run
            }
            None => Run::start(&self.unit, &self.main, Arc::clone(&env.granted)),
        };
        let mut waiting = run.go_on([]);
        while let Some(calls) = waiting {
            waiting = run.go_on(answer(&env.granted, calls));
        }
        if run.ended_well() { env.spare.insert(run).outcome() } else { run.outcome() }
    }

    /// Runs it although names in it may stand for nothing yet: a function may be restored before what it calls.
    pub(crate) fn run_unchecked(&self, env: &mut Env) -> Outcome {
        let mut run = Run::start_unchecked(&self.unit, &self.main, Arc::clone(&env.granted));
        while run.go_on([]).is_some() {}
        run.outcome()
    }

    /// Starts it, for a host that answers tool calls in its own time.
    pub fn start(&self, env: Env) -> Run {
        *Run::start(&self.unit, &self.main, env.granted)
    }
}

/// Makes the calls that a run waits for.
fn answer(granted: &Granted, calls: Vec<PendingCall>) -> Vec<ToolResult> {
    let jobs = calls.into_iter().map(|PendingCall { name, args, .. }| -> ToolJob {
        match granted.tools.get(name.as_str()).and_then(|tool| tool.callback.clone()) {
            Some(callback) => Box::new(move || callback(ToolCall { name, args })),
            None => Box::new(|| Err("it cannot be called here".into())),
        }
    });
    match &granted.executor {
        Some(executor) if jobs.len() > 1 => executor(jobs.collect()),
        _ => jobs.map(|job| job()).collect(),
    }
}
