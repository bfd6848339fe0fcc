//! One thread of evaluation: its stack of values, its frames, its view of the definitions.

use std::borrow::Cow;
use std::sync::Arc;

use super::definitions::Definitions;
use super::prints::Prints;
use super::records::Record;
use super::work::Work;
use crate::compile::ListPart;
use crate::error::{Fault, Reason};
use crate::outcome::ToolRecord;
use crate::value::{Function, Value};

/// A running program or branch of `pmap`.
pub(crate) struct Fiber {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// The definitions this run made.
    pub(crate) globals: Definitions,
    /// What functions called by name returned last, by global.
    pub(crate) returns: Vec<Option<ValueShape>>,
    /// The first function, when it has ended: another run of the program begins with it.
    pub(crate) ended: Option<Arc<Function>>,
    /// What the call that a work frame asked for answered.
    pub(crate) answer: Option<Value>,
    pub(crate) prints: Prints,
    pub(crate) calls: Vec<ToolRecord>,
    /// The fiber that waits for this one, and which branch this is.
    pub(crate) parent: Option<(usize, usize)>,
    /// Frames below the first of this fiber.
    pub(crate) depth: usize,
}

/// What is being done, innermost last.
pub(crate) enum Frame {
    Code(CodeFrame),
    /// A builtin that calls functions, and how it called its closure last, for the next call of it.
    Work(Box<dyn Work>, Option<RepeatedClosure>),
    /// `pmap` or `pcalls`, waiting for its branches.
    Branches(Box<Branches>),
}

/// A closure that is running.
pub(crate) struct CodeFrame {
    /// Taken out while the code runs, so that a call needs no copy of it.
    pub(crate) function: Option<Arc<Function>>,
    pub(crate) code: ListPart,
    pub(crate) pc: u32,
    /// Where its slots start on the stack.
    pub(crate) base: u32,
    /// How high the stack is when it is gone.
    pub(crate) floor: u32,
    /// The names of its unit, as this run resolved them.
    pub(crate) links: u32,
    /// Which definitions remember what it returns.
    pub(crate) record: Record,
}

/// How a closure is entered with a certain number of arguments.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) code: ListPart,
    /// Parameters before `&`.
    pub(crate) required: u16,
    pub(crate) variadic: bool,
    /// Slots for parameters and locals.
    pub(crate) slots: u16,
    /// The names of its unit, as this run resolved them.
    pub(crate) links: u32,
}

/// A closure that is called for one element after the other.
pub(crate) struct RepeatedClosure {
    pub(crate) function: Arc<Function>,
    pub(crate) entry: Entry,
    /// How many arguments it is called with.
    pub(crate) count: usize,
}

/// The branches of a `pmap` or `pcalls`.
pub(crate) struct Branches {
    pub(crate) reason: Reason,
    /// What each branch calls.
    pub(crate) calls: Vec<(Value, Vec<Value>)>,
    /// The first branch that was not started yet.
    pub(crate) next: usize,
    pub(crate) finished: Vec<Option<Finished>>,
    /// The first branch that failed.
    pub(crate) failed: Option<usize>,
    /// The fibers of branches that have not finished, by branch.
    pub(crate) running: Vec<(usize, usize)>,
}

/// A branch that has ended.
pub(crate) struct Finished {
    pub(crate) result: Result<Value, Fault>,
    pub(crate) prints: Prints,
    pub(crate) calls: Vec<ToolRecord>,
}

/// The kind and size of a value, without the value.
#[derive(Clone)]
pub(crate) enum ValueShape {
    Plain(&'static str),
    Sized(&'static str, usize),
    Function(Arc<Function>),
}

impl ValueShape {
    pub(crate) fn of(value: &Value) -> ValueShape {
        match value {
            Value::Vector(items) => ValueShape::Sized("list", items.len()),
            Value::Map(entries) => ValueShape::Sized("map", entries.len()),
            Value::Set(members) => ValueShape::Sized("set", members.len()),
            Value::Function(function) => ValueShape::Function(Arc::clone(function)),
            other => ValueShape::Plain(other.kind()),
        }
    }

    pub(crate) fn label(&self) -> Cow<'static, str> {
        match self {
            ValueShape::Plain(kind) => (*kind).into(),
            ValueShape::Sized(kind, count) => format!("{kind}[{count}]").into(),
            ValueShape::Function(function) => function.label().into(),
        }
    }
}

impl Fiber {
    pub(crate) fn new(globals: Definitions, depth: usize) -> Self {
        Fiber {
            stack: Vec::new(),
            frames: Vec::new(),
            globals,
            returns: Vec::new(),
            ended: None,
            answer: None,
            prints: Prints::default(),
            calls: Vec::new(),
            parent: None,
            depth,
        }
    }

    /// Hands a result to the frame that asked for it.
    pub(crate) fn deliver(&mut self, value: Value) {
        match self.frames.last() {
            Some(Frame::Code(_)) => self.stack.push(value),
            _ => self.answer = Some(value),
        }
    }

    /// Remembers what a function called by its name returned.
    pub(crate) fn returned(&mut self, index: u32, shape: ValueShape) {
        if self.returns.len() <= index as usize {
            self.returns.resize_with(index as usize + 1, || None);
        }
        if let Some(slot) = self.returns.get_mut(index as usize) {
            *slot = Some(shape);
        }
    }
}
