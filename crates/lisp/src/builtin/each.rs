//! Calling a function for each element: what `map`, `filter` and their relatives share.

use std::sync::Arc;

use super::collect::{arg, as_pair, to_vector};
use crate::error::Fault;
use crate::run::work::{Args, Work, WorkNext};
use crate::run::{ClosureCaller, Context, apply_data};
use crate::value::tree::TreeNode;
use crate::value::{Value, Vector};

/// The elements of a vector, one after the other.
pub(super) struct Cursor {
    items: Vector,
    /// How many were taken.
    at: usize,
    /// The leaf they are taken from, and how many were taken from it.
    leaf: Option<(Arc<TreeNode<Value>>, usize)>,
}

impl Cursor {
    pub(super) fn new(items: Vector) -> Self {
        Cursor { items, at: 0, leaf: None }
    }

    pub(super) fn next(&mut self) -> Option<Value> {
        self.next_in_place().cloned()
    }

    /// The next element where it lies.
    #[inline]
    pub(super) fn next_in_place(&mut self) -> Option<&Value> {
        let in_leaf = matches!(&self.leaf, Some((leaf, taken)) if *taken < leaf.items().len());
        if !in_leaf {
            self.leaf = self.items.0.leaf(self.at);
        }
        let (leaf, taken) = self.leaf.as_mut()?;
        let item = leaf.items().get(*taken)?;
        *taken += 1;
        self.at += 1;
        Some(item)
    }

    /// The element that was taken last.
    fn last(&self) -> Option<&Value> {
        let (leaf, taken) = self.leaf.as_ref()?;
        leaf.items().get(taken.checked_sub(1)?)
    }

    /// What has not been taken yet, given that one was taken too many.
    pub(super) fn rest_with(&self, extra: usize) -> Vector {
        let from = self.at.saturating_sub(extra);
        self.items.slice(from, self.items.len())
    }

    pub(super) fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&Value::Vector(self.items.clone()));
    }
}

/// Whether a function is a closure, which may need a frame of its own: the caller knows.
#[inline]
pub(super) fn needs_frame(f: &Value) -> bool {
    matches!(f, Value::Function(function) if function.as_closure().is_some())
}

/// The result of a call that needs no frame: a builtin that computes, or data as a function. `Err` gives the
/// arguments back.
pub(super) fn direct(cx: &mut Context, f: &Value, args: &mut [Value]) -> Option<Result<Value, Fault>> {
    match f {
        Value::Function(function) => {
            let builtin = super::get(function.as_builtin()?);
            let super::Implementation::Pure(run) = builtin.implementation else { return None };
            if !builtin.takes(args.len()) {
                return Some(Err(builtin.arity_error(args.len())));
            }
            Some(cx.meter.tick().and_then(|()| run(cx, args)))
        }
        Value::Var(_) => None,
        data => Some(cx.meter.tick().and_then(|()| apply_data(cx, data, args))),
    }
}

/// What follows from one result.
pub(super) enum Flow {
    On,
    /// Enough: the work is done, with what was collected.
    Enough,
    /// This is the value of the whole.
    Answer(Value),
}

/// What happens to one result.
pub(super) type Take = fn(&mut Each, &mut Context, Value) -> Result<Flow, Fault>;
pub(super) type Finish = fn(&mut Context, Vec<Value>, Vector) -> Result<Value, Fault>;

/// What the function is given.
pub(super) enum ElementShape {
    /// The element.
    One,
    /// Its index and the element.
    Indexed(i64),
    /// The elements of several collections.
    Zipped(Vec<Cursor>),
    /// Nothing, so many times.
    Nothing(usize),
    /// The first or second of a pair.
    Part(usize),
}

/// A function called for each element.
pub(super) struct Each {
    f: Value,
    pub(super) cursor: Cursor,
    shape: ElementShape,
    pub(super) out: Vec<Value>,
    take: Take,
    finish: Finish,
}

impl Each {
    pub(super) fn start(
        cx: &mut Context,
        who: &str,
        args: &[Value],
        take: Take,
        finish: Finish,
    ) -> Result<WorkNext, Fault> {
        let items = to_vector(cx, who, arg(args, 1), 2)?;
        Ok(Each::over(arg(args, 0).clone(), items, ElementShape::One, take, finish))
    }

    pub(super) fn over(f: Value, items: Vector, shape: ElementShape, take: Take, finish: Finish) -> WorkNext {
        WorkNext::Work(Box::new(Each { f, cursor: Cursor::new(items), shape, out: Vec::new(), take, finish }))
    }

    /// The arguments of the next call.
    fn arguments(&mut self) -> Option<Args> {
        match &mut self.shape {
            ElementShape::One => self.cursor.next().map(Args::One),
            ElementShape::Indexed(index) => {
                let item = self.cursor.next()?;
                *index += 1;
                Some(Args::Two(Value::Int(*index - 1), item))
            }
            ElementShape::Zipped(cursors) => {
                cursors.iter_mut().map(Cursor::next).collect::<Option<_>>().map(Args::Many)
            }
            ElementShape::Nothing(left) => {
                *left = left.checked_sub(1)?;
                Some(Args::Many(Vec::new()))
            }
            ElementShape::Part(which) => {
                let (key, value) = as_pair(self.cursor.next_in_place()?)?;
                Some(Args::One(if *which == 0 { key } else { value }))
            }
        }
    }

    /// Gives the caller the arguments of the next call; how many they are.
    #[inline]
    fn push_arguments(&mut self, caller: &mut ClosureCaller<'_>) -> Option<usize> {
        if let ElementShape::One = self.shape {
            caller.push(self.cursor.next_in_place()?.clone());
            return Some(1);
        }
        self.arguments().map(|args| args.push_to(caller.stack()))
    }

    /// The element whose result this is.
    pub(super) fn item(&self) -> Value {
        self.cursor.last().cloned().unwrap_or_default()
    }

    #[inline]
    pub(super) fn push(&mut self, cx: &mut Context, value: Value) -> Result<Flow, Fault> {
        cx.meter.reserve(2 * crate::run::context::VALUE_BYTES)?;
        self.out.push(value);
        Ok(Flow::On)
    }
}

impl Work for Each {
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        caller: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault> {
        let (mut answer, in_frame) = (answer, needs_frame(&self.f));
        loop {
            if let Some(result) = answer.take() {
                match (self.take)(self, cx, result)? {
                    Flow::On => {}
                    Flow::Enough => break,
                    Flow::Answer(value) => return Ok(WorkNext::Value(value)),
                }
            }
            cx.meter.tick()?;
            if in_frame {
                let Some(count) = self.push_arguments(caller) else { break };
                answer = caller.call(cx, count);
                if answer.is_none() {
                    return Ok(WorkNext::Again(count));
                }
                continue;
            }
            let Some(args) = self.arguments() else { break };
            let result = match args {
                Args::One(a) => {
                    let mut args = [a];
                    if let Some(result) = direct(cx, &self.f, &mut args) {
                        result?
                    } else {
                        let [a] = args;
                        return Ok(WorkNext::Call(self.f.clone(), Args::One(a)));
                    }
                }
                Args::Two(a, b) => {
                    let mut args = [a, b];
                    if let Some(result) = direct(cx, &self.f, &mut args) {
                        result?
                    } else {
                        let [a, b] = args;
                        return Ok(WorkNext::Call(self.f.clone(), Args::Two(a, b)));
                    }
                }
                Args::Many(mut args) => match direct(cx, &self.f, &mut args) {
                    Some(result) => result?,
                    None => return Ok(WorkNext::Call(self.f.clone(), Args::Many(args))),
                },
            };
            answer = Some(result);
        }
        let rest = self.cursor.rest_with(0);
        (self.finish)(cx, std::mem::take(&mut self.out), rest).map(WorkNext::Value)
    }

    fn function(&self) -> Option<&Value> {
        Some(&self.f)
    }

    fn trace(&self, see: &mut dyn FnMut(&Value)) {
        see(&self.f);
        self.cursor.trace(see);
        if let ElementShape::Zipped(cursors) = &self.shape {
            for cursor in cursors {
                cursor.trace(see);
            }
        }
        self.out.iter().for_each(see);
    }
}

pub(super) fn keep_result(each: &mut Each, cx: &mut Context, result: Value) -> Result<Flow, Fault> {
    each.push(cx, result)
}

pub(super) fn keep_pair(each: &mut Each, cx: &mut Context, result: Value) -> Result<Flow, Fault> {
    each.push(cx, each.item())?;
    each.push(cx, result)
}

pub(super) fn as_vector(cx: &mut Context, out: Vec<Value>, _: Vector) -> Result<Value, Fault> {
    cx.vector(out)
}

/// What the `*-by` aggregates share: a function over a collection, and what is made of its results.
pub(super) fn results(
    cx: &mut Context,
    who: &str,
    args: &[Value],
    finish: Finish,
) -> Result<WorkNext, Fault> {
    Each::start(cx, who, args, keep_result, finish)
}

/// The same with elements and results in turn.
pub(super) fn with_results(
    cx: &mut Context,
    who: &str,
    args: &[Value],
    finish: Finish,
) -> Result<WorkNext, Fault> {
    Each::start(cx, who, args, keep_pair, finish)
}

/// A function called with each list of arguments.
pub(super) fn calls(f: Value, items: Vector, finish: Finish) -> WorkNext {
    Each::over(f, items, ElementShape::One, keep_result, finish)
}

/// A function called without arguments, so many times.
pub(super) fn repeat(f: Value, count: usize) -> WorkNext {
    Each::over(f, Vector::default(), ElementShape::Nothing(count), keep_result, as_vector)
}
