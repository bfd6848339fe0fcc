//! Closures: how they are made, and how a call enters them.

use std::sync::Arc;

use super::Machine;
use super::fiber::{CodeFrame, Fiber, Frame};
use super::machine::local;
use crate::compile::Source;
use crate::error::{Fault, Reason, fault};
use crate::value::{Closure, Function, Value};

/// Values on the stack of one fiber: 16 MB.
const MAX_STACK: usize = 1 << 20;

impl Machine {
    /// A closure over a prototype of the running closure's unit.
    pub(super) fn make_closure(
        &mut self,
        fiber: &Fiber,
        function: &Arc<Function>,
        closure: &Closure,
        base: usize,
        proto: u32,
    ) -> Result<Value, Fault> {
        let sources = closure.unit.captures(closure.unit.proto(proto));
        self.context.meter.reserve(super::context::FUNCTION_BYTES + 16 * sources.len())?;
        let mut captures = Vec::with_capacity(sources.len());
        for capture in sources {
            captures.push(match capture.source {
                Source::Local(slot) => local(fiber, base, slot).clone(),
                Source::Capture(index) => {
                    closure.captures.get(usize::from(index)).cloned().unwrap_or_default()
                }
                Source::SelfFn => Value::Function(Arc::clone(function)),
                Source::Sibling(proto) => self.sibling(closure, proto)?,
            });
        }
        let closure = Closure { unit: Arc::clone(&closure.unit), proto, captures: captures.into() };
        Ok(Value::Function(Arc::new(Function::closure(self.context.fresh_id(), closure))))
    }

    /// Another member of the `letfn` that a closure belongs to: same captures, other code.
    pub(super) fn sibling(&mut self, closure: &Closure, proto: u32) -> Result<Value, Fault> {
        self.context.meter.reserve(super::context::FUNCTION_BYTES)?;
        let (unit, captures) = (Arc::clone(&closure.unit), Arc::clone(&closure.captures));
        Ok(Value::Function(Arc::new(Function::closure(
            self.context.fresh_id(),
            Closure { unit, proto, captures },
        ))))
    }

    /// Starts a closure whose arguments are on top of the stack.
    #[inline]
    pub(super) fn enter(
        &mut self,
        fiber: &mut Fiber,
        function: Arc<Function>,
        count: usize,
        floor: usize,
        record: u32,
    ) -> Result<(), Fault> {
        let Some(closure) = function.as_closure() else { return Ok(()) };
        let Some((which, arity)) = closure.arity_for(count) else {
            return fault(Reason::ArityMismatch, format!("{}, got {count}", closure.expects()));
        };
        self.check_depth(fiber)?;
        let required = usize::from(arity.required);
        if arity.variadic {
            let rest = fiber.stack.split_off(fiber.stack.len().saturating_sub(count - required));
            let rest = if rest.is_empty() { Value::Nil } else { self.context.vector(rest)? };
            fiber.stack.push(rest);
        }
        let parameters = required + usize::from(arity.variadic);
        let base = fiber.stack.len() - parameters;
        let height = base + usize::from(arity.slots);
        if height > MAX_STACK {
            return fault(Reason::DepthExceeded, "the calls hold too many locals");
        }
        if height > fiber.stack.len() {
            fiber.stack.resize_with(height, Value::default);
        }
        let links = match fiber.frames.last() {
            // Most calls stay in their unit.
            Some(Frame::Code(frame))
                if self
                    .links
                    .get(frame.links)
                    .is_some_and(|links| Arc::ptr_eq(&links.unit, &closure.unit)) =>
            {
                frame.links
            }
            _ => self.links_of(&closure.unit),
        };
        let which = which as u32;
        fiber.frames.push(Frame::Code(CodeFrame {
            function: Some(function),
            arity: which,
            pc: 0,
            base,
            floor,
            links,
            record,
        }));
        Ok(())
    }
}
