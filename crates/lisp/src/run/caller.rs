//! How a builtin calls its function for one element after the other.

use super::closure::MAX_STACK;
use super::context::Context;
use super::fast_closure::{Short, compute};
use super::fiber::RepeatedClosure;
use crate::compile::Op;
use crate::value::{Closure, Value};

/// Takes the arguments of calls, and answers those of a closure that only computes.
pub(crate) struct ClosureCaller<'a> {
    stack: &'a mut Vec<Value>,
    known: Option<KnownClosure<'a>>,
    /// Where a call came to that needs a frame after all.
    pub(super) stopped: Option<Stopped>,
}

/// A closure that was called before: how to call it is known.
struct KnownClosure<'a> {
    closure: &'a Closure,
    code: &'a [Op],
    /// How many arguments it is called with.
    count: usize,
    /// Slots for parameters and locals.
    slots: usize,
    /// Whether a definition has the name of an arithmetic builtin.
    shadowed: bool,
}

/// How far a call came without a frame.
#[derive(Clone, Copy)]
pub(super) struct Stopped {
    pub(super) pc: usize,
    /// Where its slots begin on the stack.
    pub(super) base: usize,
}

impl<'a> ClosureCaller<'a> {
    #[inline]
    pub(super) fn new(stack: &'a mut Vec<Value>, kept: Option<&'a RepeatedClosure>, shadowed: bool) -> Self {
        ClosureCaller { stack, known: kept.and_then(|kept| KnownClosure::of(kept, shadowed)), stopped: None }
    }

    /// Puts an argument of the next call in its place.
    #[inline]
    pub(crate) fn push(&mut self, argument: Value) {
        self.stack.push(argument);
    }

    /// Where arguments are put.
    pub(crate) fn stack(&mut self) -> &mut Vec<Value> {
        self.stack
    }

    /// The answer of the function that is called for every element, to as many arguments as were just pushed. If there is
    /// none yet, [`WorkNext::Again`](super::work::WorkNext::Again) asks for it.
    #[inline]
    pub(crate) fn call(&mut self, cx: &mut Context, count: usize) -> Option<Value> {
        let known = self.known.as_ref().filter(|known| known.count == count)?;
        let base = self.stack.len().checked_sub(count)?;
        if cx.meter.wants_count() || base + known.slots > MAX_STACK {
            return None;
        }
        if known.slots > count {
            self.stack.resize_with(base + known.slots, Value::default);
        }
        match compute(&mut cx.meter, self.stack, known.closure, known.code, base, known.shadowed) {
            Short::Value(value) => {
                while self.stack.len() > base
                    && let Some(value) = self.stack.pop()
                {
                    value.discard();
                }
                Some(value)
            }
            Short::Frame(pc) => {
                self.stopped = Some(Stopped { pc, base });
                None
            }
        }
    }
}

impl<'a> KnownClosure<'a> {
    fn of(kept: &'a RepeatedClosure, shadowed: bool) -> Option<Self> {
        let closure = kept.function.as_closure().filter(|_| !kept.entry.variadic)?;
        let code = closure.unit.ops(kept.entry.code);
        Some(KnownClosure {
            closure,
            code,
            count: kept.count,
            slots: usize::from(kept.entry.slots),
            shadowed,
        })
    }
}
