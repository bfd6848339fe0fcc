//! The evaluator: a machine with its own stack, that stops wherever it needs the host and goes on from there.

mod branches;
mod call;
pub(crate) mod caller;
mod closure;
pub(crate) mod context;
mod definitions;
mod execute;
mod fast_closure;
mod fiber;
mod link;
pub(crate) mod live_memory;
mod machine;
mod meter;
mod names;
mod numbers;
mod prints;
mod records;
mod restart;
mod tools;
pub(crate) mod work;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use call::apply_data;
pub(crate) use caller::ClosureCaller;
pub(crate) use context::Context;
use definitions::{Definitions, Global};
use fiber::{CodeFrame, Fiber, Frame, ValueShape};
use link::Links;
use machine::MachineStop;
use numbers::Numbers;
use prints::Prints;
use records::{Record, Records};

use crate::compile::{Quick, Unit};
use crate::env::Granted;
use crate::error::{Error, Fault, Reason};
use crate::memory::{Definition, Memory};
use crate::outcome::{Outcome, ProgramEnd, ProgramUsage, ToolRecord};
use crate::value::{Function, Map, Value};

/// A tool call that waits for its answer.
#[derive(Clone, Debug)]
pub struct PendingCall {
    /// Tells calls of one step apart.
    pub id: usize,
    /// The tool.
    pub name: String,
    /// The arguments: a map with string keys.
    pub args: Map,
}

/// What a run needs next.
pub enum RunStep {
    /// The answers of these calls, in this order. Those of parallel branches come together.
    Call(Vec<PendingCall>),
    /// Nothing: it is over.
    Done(Box<Outcome>),
}

/// The answer of a tool: a value, or the text of its error.
pub type ToolResult = Result<Value, String>;

/// A program that is running: a plain state machine that any executor can drive.
///
/// ```
/// use scrollback_lisp::{Env, Program, RunStep, Tool, Value};
/// let program = Program::compile("(inc (tool/fetch {:id 7}))")?;
/// let mut run = program.start(Env::new().tool(Tool::pending("fetch", None)));
/// let RunStep::Call(calls) = run.resume([]) else { return Ok(()) };
/// assert_eq!(Value::Map(calls[0].args.clone()).to_string(), r#"{"id" 7}"#);
/// let RunStep::Done(outcome) = run.resume([Ok(Value::from(41))]) else { return Ok(()) };
/// assert_eq!(outcome.value(), Some(&Value::from(42)));
/// # Ok::<(), scrollback_lisp::Error>(())
/// ```
pub struct Run {
    machine: Machine,
    /// The fibers whose calls are out, in the order they were handed out.
    out: Vec<usize>,
    handed_out: Option<Duration>,
    /// Why it never started.
    refused: Option<Fault>,
    /// Warnings about the names of the program.
    noticed: Vec<String>,
    over: bool,
    /// How it ended, until the outcome takes it along.
    result: Option<Result<ProgramEnd, Fault>>,
}

/// Everything a run consists of.
pub(crate) struct Machine {
    pub(crate) env: Arc<Granted>,
    pub(crate) context: Context,
    pub(crate) links: Vec<Links>,
    pub(crate) numbers: Numbers,
    /// Definitions as they were before the run, by number; empty if there were none.
    pub(crate) base: Vec<Global>,
    /// Whether a definition has the name of an arithmetic builtin.
    pub(crate) shadowed: bool,
    pub(crate) records: Records,
    /// In boxes: the running one is taken out and put back.
    pub(crate) fibers: Vec<Option<Box<Fiber>>>,
    /// Fibers that can go on.
    ready: Vec<usize>,
    /// Fibers whose tool call was not handed out yet.
    waiting: Vec<usize>,
    /// Fibers that may start another branch.
    starting: Vec<usize>,
    /// The fiber that is running, whose place must stay free.
    running: Option<usize>,
}

/// Whether an earlier definition has the name of an arithmetic builtin.
fn shadows(memory: &Memory) -> bool {
    !memory.is_empty() && Quick::NAMES.iter().any(|name| memory.get(name).is_some())
}

/// A piece of the log of a run.
enum LogPiece {
    Fiber(Box<Fiber>),
    Log(Prints, Vec<ToolRecord>),
}

impl Machine {
    fn new(env: Arc<Granted>, program: &Arc<Unit>) -> Self {
        Machine {
            context: Context::new(&env),
            links: Vec::new(),
            numbers: Numbers::new(Arc::clone(program)),
            base: Vec::new(),
            shadowed: shadows(&env.memory),
            records: Records::default(),
            fibers: Vec::new(),
            ready: Vec::new(),
            waiting: Vec::new(),
            starting: Vec::new(),
            running: None,
            env,
        }
    }

    /// Gets the program ready.
    fn load(&mut self, main: &Arc<Function>) {
        let Some(closure) = main.as_closure() else { return };
        let unit = &closure.unit;
        self.link_program(unit);
        let mut fiber = Box::new(Fiber::new(Definitions::with_room(unit.globals.len()), 0));
        fiber.stack.reserve(32);
        fiber.frames.reserve(8);
        self.fibers = Vec::with_capacity(1);
        self.fibers.push(Some(fiber));
        self.begin_program(main);
    }

    /// Puts the program on the stack of its fiber, which is empty.
    fn begin_program(&mut self, main: &Arc<Function>) {
        let Some(closure) = main.as_closure() else { return };
        let Some(Some(fiber)) = self.fibers.first_mut() else { return };
        let Some(arity) = closure.arity_for(0) else { return };
        fiber.stack.resize_with(usize::from(arity.slots), Value::default);
        let kept = fiber.ended.take().filter(|ended| Arc::ptr_eq(ended, main));
        fiber.frames.push(Frame::Code(CodeFrame {
            function: Some(kept.unwrap_or_else(|| Arc::clone(main))),
            code: arity.code,
            pc: 0,
            base: 0,
            floor: 0,
            links: 0,
            record: Record::None,
        }));
        self.ready.push(0);
    }

    /// Runs until tools are needed or everything is over. `Ok(None)`: tools are needed.
    fn advance(&mut self) -> Result<Option<ProgramEnd>, Fault> {
        loop {
            if let Some(id) = self.ready.pop() {
                let Some(mut fiber) = self.fibers.get_mut(id).and_then(Option::take) else { continue };
                std::mem::swap(&mut self.context.prints, &mut fiber.prints);
                self.running = Some(id);
                let stop = self.run_fiber(&mut fiber);
                self.running = None;
                std::mem::swap(&mut self.context.prints, &mut fiber.prints);
                let parent = fiber.parent;
                if let Some(slot) = self.fibers.get_mut(id) {
                    *slot = Some(fiber);
                }
                match (stop, parent) {
                    (Ok(MachineStop::Finished(value)), None) => return Ok(Some(ProgramEnd::Value(value))),
                    (Ok(MachineStop::Returned(value)), _) => return Ok(Some(ProgramEnd::Returned(value))),
                    (Ok(MachineStop::Finished(value)), Some(_)) => self.branch_ended(id, Ok(value))?,
                    (Ok(MachineStop::Waiting), parent) => {
                        self.waiting.push(id);
                        self.starting.extend(parent.map(|(parent, _)| parent));
                    }
                    (Ok(MachineStop::Branching), _) => self.starting.push(id),
                    (Err(error), None) => return Err(error),
                    (Err(error), Some(_)) => self.branch_ended(id, Err(error))?,
                }
            } else if let Some(id) = self.starting.pop() {
                self.next_branch(id)?;
            } else if self.waiting.is_empty() {
                let error = Error::new(Reason::RuntimeError, "nothing is left to run");
                return Err(Box::new(error));
            } else {
                return Ok(None);
            }
        }
    }

    /// What a fiber and its branches printed and called, in order.
    fn collect_log(&mut self, fiber: Box<Fiber>) -> (Prints, Vec<ToolRecord>) {
        if !matches!(fiber.frames.last(), Some(Frame::Branches(_))) {
            return (fiber.prints, fiber.calls);
        }
        let limits = self.context.meter.limits().clone();
        let (mut prints, mut calls) = (Prints::default(), Vec::new());
        // The first piece is the last of the list.
        let mut pieces = vec![LogPiece::Fiber(fiber)];
        while let Some(piece) = pieces.pop() {
            match piece {
                LogPiece::Log(more, made) => {
                    prints.append(more, &limits);
                    calls.extend(made);
                }
                LogPiece::Fiber(mut fiber) => {
                    if let Some(Frame::Branches(branches)) = fiber.frames.pop() {
                        let mut inner = Vec::new();
                        for (branch, finished) in branches.finished.into_iter().enumerate() {
                            let running = branches.running.iter().find(|(running, _)| *running == branch);
                            if let Some(finished) = finished {
                                inner.push(LogPiece::Log(finished.prints, finished.calls));
                            } else if let Some((_, id)) = running
                                && let Some(child) = self.fibers.get_mut(*id).and_then(Option::take)
                            {
                                inner.push(LogPiece::Fiber(child));
                            }
                        }
                        pieces.extend(inner.into_iter().rev());
                    }
                    prints.append(std::mem::take(&mut fiber.prints), &limits);
                    calls.append(&mut fiber.calls);
                }
            }
        }
        (prints, calls)
    }

    /// The memory with what a run defined, and what it learnt of functions it called.
    fn memory_after(&self, fiber: &mut Fiber) -> Memory {
        let mut memory = self.env.memory.clone();
        memory.runs += 1;
        memory.last_id = self.context.next_id;
        let run = memory.runs;
        // Room for just as many: where there were none before, this becomes the memory.
        let mut made = Vec::with_capacity(fiber.globals.iter().count());
        let globals = fiber.globals.own();
        for (index, name) in self.numbers.sorted() {
            let returns = fiber.returns.get(index as usize).and_then(Option::as_ref);
            let global = globals.get_mut(index as usize).and_then(Option::take);
            if let Some(Global { value, doc }) = global {
                let returns = returns.map(ValueShape::label);
                made.push((name.clone(), Definition { value, doc, returns, run }));
            } else if returns.is_some()
                && let Some(old) = self.env.memory.get(name.as_str())
            {
                let returns = returns.map(ValueShape::label);
                made.push((name.clone(), Definition { returns, ..old.clone() }));
            }
        }
        if self.numbers.has_others() {
            made.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        }
        memory.put_sorted(made);
        memory
    }

    fn outcome(&mut self, result: Result<ProgramEnd, Fault>) -> Outcome {
        let mut root = self.fibers.first_mut().and_then(Option::take);
        let memory = match (&result, &mut root) {
            (Ok(_), Some(fiber)) => self.memory_after(fiber),
            _ => self.env.memory.clone(),
        };
        let meter = &self.context.meter;
        let mut outcome = Outcome {
            result: result.map_err(|error| *error),
            memory,
            prints: Vec::new(),
            prints_dropped: 0,
            tool_calls: Vec::new(),
            warnings: std::mem::take(&mut self.context.warnings),
            usage: ProgramUsage {
                fuel: meter.fuel_used(),
                memory_bytes: meter.peak(),
                tool_calls: meter.tool_calls(),
            },
        };
        let Some(mut root) = root else { return outcome };
        let prints;
        if matches!(root.frames.last(), Some(Frame::Branches(_))) {
            (prints, outcome.tool_calls) = self.collect_log(root);
        } else {
            // Where no branches are left, the fiber is kept for the next run.
            root.clear();
            prints = std::mem::take(&mut root.prints);
            outcome.tool_calls = std::mem::take(&mut root.calls);
            if let Some(slot) = self.fibers.first_mut() {
                *slot = Some(root);
            }
        }
        outcome.prints = prints.entries;
        outcome.prints_dropped = prints.dropped;
        outcome
    }
}

impl Run {
    /// A run that is refused unless every name stands for something.
    pub(crate) fn start(unit: &Arc<Unit>, main: &Arc<Function>, env: Arc<Granted>) -> Box<Run> {
        let mut run = Run::start_unchecked(unit, main, env);
        run.refused = run.machine.check_names(unit).err();
        run.noticed.clone_from(&run.machine.context.warnings);
        run
    }

    pub(crate) fn start_unchecked(unit: &Arc<Unit>, main: &Arc<Function>, env: Arc<Granted>) -> Box<Run> {
        let mut run = Box::new(Run {
            machine: Machine::new(env, unit),
            out: Vec::new(),
            handed_out: None,
            refused: None,
            noticed: Vec::new(),
            over: false,
            result: None,
        });
        run.machine.load(main);
        run
    }

    /// Goes on with the answers of the calls handed out last, in their order. Too few answers are errors of the tools
    /// that got none. A run that is over has nothing more to say: an error says so.
    pub fn resume(&mut self, answers: impl IntoIterator<Item = ToolResult>) -> RunStep {
        match self.go_on(answers) {
            Some(calls) => RunStep::Call(calls),
            None => RunStep::Done(Box::new(self.outcome())),
        }
    }

    /// The calls that have to be answered first, unless it is over.
    pub(crate) fn go_on(
        &mut self,
        answers: impl IntoIterator<Item = ToolResult>,
    ) -> Option<Vec<PendingCall>> {
        if self.over {
            return None;
        }
        let result = match self.refused.take() {
            Some(error) => Err(error),
            None => self.take(answers).and_then(|()| self.machine.advance()),
        };
        self.result = match result {
            Ok(None) => return Some(self.hand_out()),
            Ok(Some(end)) => Some(Ok(end)),
            Err(error) => Some(Err(error)),
        };
        self.over = true;
        None
    }

    /// Whether it is over and gave a value.
    pub(crate) fn ended_well(&self) -> bool {
        matches!(self.result, Some(Ok(_)))
    }

    /// Its result, once it is over.
    pub(crate) fn outcome(&mut self) -> Outcome {
        let result = self.result.take().unwrap_or_else(|| {
            let error = Error::new(Reason::RuntimeError, "the run is over");
            Err(Box::new(error))
        });
        self.machine.outcome(result)
    }

    fn hand_out(&mut self) -> Vec<PendingCall> {
        self.handed_out = self.machine.context.meter.now();
        self.out = std::mem::take(&mut self.machine.waiting);
        let call = |(at, id): (usize, &usize)| {
            let fiber = self.machine.fibers.get(*id)?.as_ref()?;
            let record = fiber.calls.last()?;
            Some(PendingCall { id: at, name: record.name.clone(), args: record.args.clone() })
        };
        self.out.iter().enumerate().filter_map(call).collect()
    }

    /// Gives every waiting fiber its answer.
    fn take(&mut self, answers: impl IntoIterator<Item = ToolResult>) -> Result<(), Fault> {
        let machine = &mut self.machine;
        if self.out.is_empty() {
            return machine.context.meter.listen();
        }
        let now = machine.context.meter.now();
        let took = now.zip(self.handed_out.take()).map(|(now, then)| now.saturating_sub(then));
        machine.context.meter.exclude(took.unwrap_or_default());
        let mut answers = answers.into_iter();
        let mut ready = Vec::new();
        for id in std::mem::take(&mut self.out) {
            let answer = answers.next().unwrap_or_else(|| Err("no answer was given".into()));
            let Some(Some(fiber)) = machine.fibers.get_mut(id) else { continue };
            let mut name = String::new();
            if let Some(record) = fiber.calls.last_mut() {
                name.clone_from(&record.name);
                record.result.clone_from(&answer);
                record.duration = took;
            }
            match answer {
                Ok(value) => {
                    let parts = machine.context.parts(&value)?;
                    machine.context.meter.reserve(parts as usize * 32)?;
                    fiber.deliver(value);
                    ready.push(id);
                }
                Err(text) => {
                    let text = crate::value::text::shorten(&text, 2000).into_owned();
                    let error = Error::new(Reason::ToolError, format!("Tool '{name}' failed: {text}"));
                    machine.fiber_failed(id, Box::new(error))?;
                }
            }
        }
        // The first branch goes on first.
        machine.ready.extend(ready.into_iter().rev());
        machine.context.meter.look()
    }
}
