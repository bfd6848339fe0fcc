//! Builtins that call functions: small state machines, so that no call happens on the native stack.

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
pub(crate) enum Next {
    /// Nothing: this is its result.
    Value(Value),
    /// The result of a call is its result.
    Become(Value, Args),
    /// A call, whose result it takes in its next step.
    Call(Value, Args),
    /// To go on as this.
    Work(Box<dyn Work>),
}

/// A builtin in the middle of its work.
pub(crate) trait Work: Send + Sync {
    /// Goes on until it is done or needs a call. `answer` is the result of the call it asked for before.
    fn step(&mut self, cx: &mut Context, answer: Option<Value>) -> Result<Next, Fault>;

    /// Shows every value it holds, to whoever counts memory.
    fn trace(&self, see: &mut dyn FnMut(&Value));
}

impl Args {
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
