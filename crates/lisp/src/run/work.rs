//! Builtins that call functions: small state machines, so that no call happens on the native stack.

use super::caller::ClosureCaller;
use super::context::Context;
use crate::error::Fault;
use crate::value::Value;

/// Arguments of a call. Most calls have one or two.
pub(crate) enum Args {
    One(Value),
    Two(Value, Value),
    Many(Vec<Value>),
}

/// What a builtin wants next.
pub(crate) enum WorkNext {
    /// Nothing: this is its result.
    Value(Value),
    /// The result of a call is its result.
    Become(Value, Args),
    /// A call, whose result it takes in its next step.
    Call(Value, Args),
    /// The same of the function it calls for every element, with so many arguments, which the caller has.
    Again(usize),
    /// To go on as this.
    Work(Box<dyn Work>),
}

/// A builtin in the middle of its work.
pub(crate) trait Work: Send + Sync {
    /// Goes on until it is done or needs a call. `answer` is the result of the call it asked for before; `caller`
    /// takes the arguments of the next, and may answer it at once.
    fn step(
        &mut self,
        cx: &mut Context,
        answer: Option<Value>,
        caller: &mut ClosureCaller<'_>,
    ) -> Result<WorkNext, Fault>;

    /// The function it calls for every element, if there is one.
    fn function(&self) -> Option<&Value> {
        None
    }

    /// Visits every value it holds, for counting memory.
    fn trace(&self, see: &mut dyn FnMut(&Value));
}

impl Args {
    #[inline]
    pub(crate) fn push_to(self, stack: &mut Vec<Value>) -> usize {
        match self {
            Args::One(a) => {
                stack.push(a);
                1
            }
            Args::Two(a, b) => {
                stack.push(a);
                stack.push(b);
                2
            }
            Args::Many(values) => {
                let count = values.len();
                stack.extend(values);
                count
            }
        }
    }
}
