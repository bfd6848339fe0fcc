//! Calling: closures, builtins, tools, and every value that works as a function.

use std::sync::Arc;

use super::Machine;
use super::context::{Context, describe};
use super::fiber::{Fiber, Frame};
use super::link::Meaning;
use super::records::Record;
use super::work::WorkNext;
use crate::builtin::{self, Builtin, Implementation};
use crate::error::{Error, Fault, Reason, fault};
use crate::value::{Derived, Function, Value, number};

/// The result of starting a call.
#[derive(Clone, Copy)]
pub(crate) enum Called {
    /// It is over; its result is on the stack.
    Done,
    /// Frames have changed, or the result went to a frame.
    Frames,
    /// A tool has to answer first.
    Waiting,
}

impl Machine {
    /// Calls the function that lies on the stack below its arguments.
    pub(super) fn call_stacked(
        &mut self,
        fiber: &mut Fiber,
        count: usize,
        tail: bool,
    ) -> Result<Called, Fault> {
        let floor = fiber.stack.len().saturating_sub(count + 1);
        let callee = fiber.stack.get_mut(floor).map(std::mem::take).unwrap_or_default();
        self.call(fiber, callee, count, floor, Record::None, tail)
    }

    /// Calls what a free name stands for.
    pub(super) fn call_global(
        &mut self,
        fiber: &mut Fiber,
        links: usize,
        name: u32,
        count: usize,
        tail: bool,
    ) -> Result<Called, Fault> {
        let floor = fiber.stack.len().saturating_sub(count);
        let Some(link) = self.links.get(links).and_then(|links| links.names.get(name as usize)) else {
            return Ok(Called::Done);
        };
        if let Some(index) = link.global
            && let Some(value) = self.definition(fiber, index)
        {
            let callee = value.clone();
            let record = Record::One(index);
            return self
                .call(fiber, callee, count, floor, record, tail)
                .map_err(|error| self.named(error, links, name));
        }
        match &link.otherwise {
            Meaning::Builtin(builtin, _) => {
                let builtin = *builtin;
                self.call_builtin(fiber, builtin, count, floor)
            }
            Meaning::Value(value) | Meaning::Tool(value) => {
                let callee = value.clone();
                self.call(fiber, callee, count, floor, Record::None, tail)
            }
            Meaning::NoData => {
                let message = format!("not callable: data/{} is not there", self.name_text(links, name));
                fault(Reason::NotCallable, message)
            }
            Meaning::Ambiguous => Err(self.ambiguous(links, name)),
            Meaning::Unbound => {
                match self.links.get(links).and_then(|links| links.unit.names.get(name as usize)) {
                    Some(name) => Err(self.unbound(name)),
                    None => Ok(Called::Done),
                }
            }
        }
    }

    /// An arity error of a nameless function gets the name it was called by.
    fn named(&self, mut error: Fault, links: usize, name: u32) -> Fault {
        if error.reason == Reason::ArityMismatch
            && let Some(rest) = error.message.strip_prefix("the function ")
        {
            error.message = format!("{} {rest}", self.name_text(links, name));
        }
        error
    }

    /// Calls a value with the topmost `count` values. When it is over the stack is `floor` high, and the result goes
    /// to the topmost frame.
    pub(super) fn call(
        &mut self,
        fiber: &mut Fiber,
        callee: Value,
        count: usize,
        floor: usize,
        record: Record,
        tail: bool,
    ) -> Result<Called, Fault> {
        let Value::Function(function) = callee else {
            return self.call_data(fiber, &callee, count, floor);
        };
        if function.as_closure().is_some() {
            let (mut floor, mut record) = (floor, record);
            if tail && let Some(Frame::Code(frame)) = fiber.frames.last() {
                // The frame that ends with this call makes room for it.
                let (base, old) = (frame.floor as usize, frame.record);
                let from = fiber.stack.len() - count;
                fiber.stack.drain(base..from);
                fiber.frames.pop();
                record = self.records.both(old, record);
                floor = base;
            }
            self.enter(fiber, function, count, floor, record)?;
            return Ok(Called::Frames);
        }
        if let Some(builtin) = function.as_builtin() {
            return self.call_builtin(fiber, builtin::get(builtin), count, floor);
        }
        if let Some(name) = function.as_tool() {
            let name = name.clone();
            let arguments = fiber.stack.split_off(fiber.stack.len() - count);
            fiber.stack.truncate(floor);
            self.call_tool(fiber, name.as_str(), arguments)?;
            return Ok(Called::Waiting);
        }
        match function.as_derived() {
            Some(derived) => self.call_derived(fiber, derived, count, floor),
            None => Ok(Called::Done),
        }
    }

    pub(super) fn call_builtin(
        &mut self,
        fiber: &mut Fiber,
        builtin: &'static Builtin,
        count: usize,
        floor: usize,
    ) -> Result<Called, Fault> {
        if !builtin.takes(count) {
            return Err(builtin.arity_error(count));
        }
        let at = fiber.stack.len() - count;
        match builtin.implementation {
            Implementation::Pure(run) => {
                let arguments = fiber.stack.get_mut(at..).unwrap_or_default();
                let result = run(&mut self.context, arguments);
                let value = match result {
                    Ok(value) => value,
                    Err(error) => {
                        return Err(builtin::explain(
                            builtin,
                            error,
                            fiber.stack.get(at..).unwrap_or_default(),
                        ));
                    }
                };
                fiber.stack.truncate(floor);
                Ok(self.finish(fiber, value))
            }
            Implementation::Higher(run) => {
                let arguments = fiber.stack.split_off(at);
                fiber.stack.truncate(floor);
                let kept = arguments.clone();
                let next = run(&mut self.context, arguments)
                    .map_err(|error| builtin::explain(builtin, error, &kept))?;
                self.begin(fiber, next)
            }
            Implementation::Reflecting(run) => {
                let arguments = fiber.stack.get(at..).unwrap_or_default();
                let value = run(&|name| self.documentation(fiber, name), arguments);
                fiber.stack.truncate(floor);
                Ok(self.finish(fiber, value))
            }
            Implementation::Constant(value) => {
                fiber.stack.truncate(floor);
                Ok(self.finish(fiber, Value::Float(value)))
            }
        }
    }

    /// Hands over a result.
    fn finish(&self, fiber: &mut Fiber, value: Value) -> Called {
        if let Some(Frame::Code(_)) = fiber.frames.last() {
            fiber.stack.push(value);
            if self.context.meter.wants_count() { Called::Frames } else { Called::Done }
        } else {
            fiber.answer = Some(value);
            Called::Frames
        }
    }

    /// Does what the work in the topmost frame wants next.
    #[inline]
    pub(super) fn follow(&mut self, fiber: &mut Fiber, next: WorkNext) -> Result<Called, Fault> {
        if !matches!(next, WorkNext::Call(..)) {
            fiber.frames.pop();
        }
        self.begin(fiber, next)
    }

    /// Does what a builtin without a frame wants.
    #[inline]
    fn begin(&mut self, fiber: &mut Fiber, next: WorkNext) -> Result<Called, Fault> {
        match next {
            WorkNext::Value(value) => fiber.deliver(value),
            WorkNext::Work(work) => {
                self.check_depth(fiber)?;
                self.context.meter.reserve(256)?;
                fiber.frames.push(Frame::Work(work, None));
            }
            WorkNext::Become(callee, args) | WorkNext::Call(callee, args) => {
                let floor = fiber.stack.len();
                let count = args.push_to(&mut fiber.stack);
                let came = self.call(fiber, callee, count, floor, Record::None, false)?;
                // The caller of the builtin looks at the frames again.
                return Ok(if let Called::Done = came { Called::Frames } else { came });
            }
            // A work that calls again is called again before control comes here.
            WorkNext::Again(_) => {}
        }
        Ok(Called::Frames)
    }

    pub(super) fn check_depth(&self, fiber: &Fiber) -> Result<(), Fault> {
        let limit = self.context.meter.limits().depth;
        if fiber.depth + fiber.frames.len() < limit {
            return Ok(());
        }
        fault(Reason::DepthExceeded, format!("calls are nested deeper than {limit}"))
    }

    /// Calls a keyword, map, set, vector or var.
    fn call_data(
        &mut self,
        fiber: &mut Fiber,
        callee: &Value,
        count: usize,
        floor: usize,
    ) -> Result<Called, Fault> {
        if let Value::Var(name) = callee {
            let index = self.global_index(&name.as_str().into());
            let target = self.definition(fiber, index).cloned();
            let target = target.or_else(|| {
                builtin::find(name.as_str()).map(|id| Value::Function(Arc::new(Function::builtin(id))))
            });
            // A var of a var would have to be followed step by step; nothing needs that.
            return match target {
                Some(target) if !matches!(target, Value::Var(_)) => {
                    self.call(fiber, target, count, floor, Record::One(index), false)
                }
                _ => fault(Reason::NotCallable, format!("not callable: {}", describe(callee))),
            };
        }
        let at = fiber.stack.len() - count;
        let arguments = fiber.stack.get(at..).unwrap_or_default();
        let value = apply_data(&mut self.context, callee, arguments)?;
        fiber.stack.truncate(floor);
        Ok(self.finish(fiber, value))
    }

    /// Calls a function made of others.
    fn call_derived(
        &mut self,
        fiber: &mut Fiber,
        derived: &Derived,
        count: usize,
        floor: usize,
    ) -> Result<Called, Fault> {
        let arguments = fiber.stack.split_off(fiber.stack.len() - count);
        fiber.stack.truncate(floor);
        let next = builtin::apply_derived(&mut self.context, derived, arguments)?;
        self.begin(fiber, next)
    }
}

/// The result of calling a value that is no function.
pub(crate) fn apply_data(cx: &mut Context, callee: &Value, arguments: &[Value]) -> Result<Value, Fault> {
    let counted = |kind: &str, most: usize| {
        let expected = if most == 1 { "1 argument" } else { "1 or 2 arguments" };
        let message = format!("a {kind} as a function expects {expected}, got {}", arguments.len());
        fault(Reason::ArityError, message)
    };
    match callee {
        Value::Keyword(keyword) => {
            let (Some(subject), default, true) = (arguments.first(), arguments.get(1), arguments.len() <= 2)
            else {
                let expected = "1 or 2 arguments";
                let message = format!(":{} expects {expected}, got {}", keyword.as_str(), arguments.len());
                return fault(Reason::ArityError, message);
            };
            Ok(match subject {
                Value::Map(map) => {
                    if let Some(value) = map.get(callee) {
                        value.clone()
                    } else {
                        cx.note_missing(callee, map);
                        default.cloned().unwrap_or_default()
                    }
                }
                Value::Set(set) => set.get(callee).or(default).cloned().unwrap_or_default(),
                _ => {
                    cx.note_subject(callee, subject);
                    default.cloned().unwrap_or_default()
                }
            })
        }
        Value::Map(map) => match arguments {
            [key] | [key, _] => {
                cx.key(key)?;
                Ok(if let Some(value) = map.get(key) {
                    value.clone()
                } else {
                    cx.note_missing(key, map);
                    arguments.get(1).cloned().unwrap_or_default()
                })
            }
            _ => counted("map", 2),
        },
        Value::Set(set) => match arguments {
            [member] => {
                cx.key(member)?;
                Ok(set.get(member).cloned().unwrap_or_default())
            }
            _ => counted("set", 1),
        },
        Value::Vector(items) => match arguments {
            [index] => match number::index(index) {
                Some(index) => Ok(usize::try_from(index)
                    .ok()
                    .and_then(|index| items.get(index))
                    .cloned()
                    .unwrap_or_default()),
                None => cx.wrong("a vector as a function", "integer", index, 1),
            },
            _ => counted("vector", 1),
        },
        _ => {
            let mut error = Error::new(Reason::NotCallable, format!("not callable: {}", describe(callee)));
            if matches!(callee, Value::Nil) {
                error.message = "not callable: nil".into();
                error.hint = cx.missing.as_ref().map(|(key, map)| crate::hint::missing_key(key, map));
            }
            Err(Box::new(error))
        }
    }
}
