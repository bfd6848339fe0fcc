//! Closures: how they are made, and how a call enters them.

use std::sync::Arc;

use super::Machine;
use super::caller::Stopped;
use super::execute::local;
use super::fast_closure::{Short, compute};
use super::fiber::{CodeFrame, Entry, Fiber, Frame, RepeatedClosure};
use super::records::Record;
use crate::compile::CaptureSource;
use crate::error::{Fault, Reason, fault};
use crate::value::{Closure, Function, Value};

/// Values on the stack of one fiber: 16 MB.
pub(super) const MAX_STACK: usize = 1 << 20;

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
        if sources.is_empty() {
            return Ok(self.closure(Closure { unit: Arc::clone(&closure.unit), proto, captures: None }));
        }
        let mut captures = Vec::with_capacity(sources.len());
        for capture in sources {
            captures.push(match capture.source {
                CaptureSource::Local(slot) => local(fiber, base, slot).clone(),
                CaptureSource::Capture(index) => {
                    closure.captures().get(usize::from(index)).cloned().unwrap_or_default()
                }
                CaptureSource::SelfFn => Value::Function(Arc::clone(function)),
                CaptureSource::Sibling(proto) => self.sibling(closure, proto)?,
            });
        }
        let captures = Some(captures.into());
        Ok(self.closure(Closure { unit: Arc::clone(&closure.unit), proto, captures }))
    }

    fn closure(&mut self, closure: Closure) -> Value {
        Value::Function(Arc::new(Function::closure(self.context.fresh_id(), closure)))
    }

    /// Another member of the `letfn` that a closure belongs to: same captures, other code.
    pub(super) fn sibling(&mut self, closure: &Closure, proto: u32) -> Result<Value, Fault> {
        self.context.meter.reserve(super::context::FUNCTION_BYTES)?;
        let (unit, captures) = (Arc::clone(&closure.unit), closure.captures.clone());
        Ok(self.closure(Closure { unit, proto, captures }))
    }

    /// How a closure is entered with so many arguments.
    #[inline]
    fn entry(&mut self, fiber: &Fiber, closure: &Closure, count: usize) -> Result<Entry, Fault> {
        let Some(arity) = closure.arity_for(count) else {
            return fault(Reason::ArityMismatch, format!("{}, got {count}", closure.expects()));
        };
        let links = match fiber.frames.last() {
            // Most calls stay in their unit.
            Some(Frame::Code(frame))
                if self
                    .links
                    .get(frame.links as usize)
                    .is_some_and(|links| Arc::ptr_eq(&links.unit, &closure.unit)) =>
            {
                frame.links
            }
            _ => self.links_of(&closure.unit) as u32,
        };
        Ok(Entry {
            code: arity.code,
            required: arity.required,
            variadic: arity.variadic,
            slots: arity.slots,
            links,
        })
    }

    /// Starts a closure whose arguments are on top of the stack.
    #[inline]
    pub(super) fn enter(
        &mut self,
        fiber: &mut Fiber,
        function: Arc<Function>,
        count: usize,
        floor: usize,
        record: Record,
    ) -> Result<(), Fault> {
        let Some(closure) = function.as_closure() else { return Ok(()) };
        let entry = self.entry(fiber, closure, count)?;
        self.push_frame(fiber, function, entry, count, floor, record)
    }

    /// Starts the closure of the topmost work once more. It is neither looked up nor counted up and down again, and has a
    /// frame only from the first instruction on that needs one.
    #[inline]
    pub(super) fn enter_again(&mut self, fiber: &mut Fiber, count: usize) -> Result<Entered, Fault> {
        let known = matches!(fiber.frames.last(), Some(Frame::Work(_, Some(kept))) if kept.count == count);
        if !known {
            self.keep(fiber, count)?;
        }
        let Some(Frame::Work(_, Some(kept))) = fiber.frames.last() else { return not_a_closure() };
        let (floor, entry) = (fiber.stack.len() - count, kept.entry);
        let base = self.make_room(fiber, entry, count)?;
        let Some(Frame::Work(_, Some(kept))) = fiber.frames.last() else { return not_a_closure() };
        let Some(closure) = kept.function.as_closure() else { return not_a_closure() };
        let code = closure.unit.ops(entry.code);
        match compute(&mut self.context.meter, &mut fiber.stack, closure, code, base, self.shadowed) {
            Short::Value(value) => {
                fiber.stack.truncate(floor);
                Ok(Entered::Value(value))
            }
            Short::Frame(pc) => give_frame(fiber, Stopped { pc, base }, floor),
        }
    }

    /// Finds out how the topmost work calls its closure.
    fn keep(&mut self, fiber: &mut Fiber, count: usize) -> Result<(), Fault> {
        let Some(Frame::Work(work, _)) = fiber.frames.last() else { return Ok(()) };
        let Some(Value::Function(function)) = work.function().cloned() else { return Ok(()) };
        let Some(closure) = function.as_closure() else { return Ok(()) };
        let entry = self.entry(fiber, closure, count)?;
        if let Some(Frame::Work(_, place)) = fiber.frames.last_mut() {
            *place = Some(RepeatedClosure { function, entry, count });
        }
        Ok(())
    }

    #[inline]
    fn push_frame(
        &mut self,
        fiber: &mut Fiber,
        function: Arc<Function>,
        entry: Entry,
        count: usize,
        floor: usize,
        record: Record,
    ) -> Result<(), Fault> {
        let base = self.make_room(fiber, entry, count)?;
        let (code, links, function) = (entry.code, entry.links, Some(function));
        let (base, floor) = (base as u32, floor as u32);
        fiber.frames.push(Frame::Code(CodeFrame { function, code, pc: 0, base, floor, links, record }));
        Ok(())
    }

    /// Makes the arguments on top of the stack the slots of a call; where they begin.
    #[inline]
    fn make_room(&mut self, fiber: &mut Fiber, entry: Entry, count: usize) -> Result<usize, Fault> {
        self.check_depth(fiber)?;
        if entry.variadic {
            let rest =
                fiber.stack.split_off(fiber.stack.len().saturating_sub(count - usize::from(entry.required)));
            let rest = if rest.is_empty() { Value::Nil } else { self.context.vector(rest)? };
            fiber.stack.push(rest);
        }
        let base = fiber.stack.len() - usize::from(entry.required) - usize::from(entry.variadic);
        let height = base + usize::from(entry.slots);
        if height > MAX_STACK {
            return fault(Reason::DepthExceeded, "the calls hold too many locals");
        }
        if height > fiber.stack.len() {
            fiber.stack.resize_with(height, Value::default);
        }
        Ok(base)
    }
}

/// Lets the closure of the topmost work go on in a frame, from where it came to without one.
pub(super) fn give_frame(fiber: &mut Fiber, at: Stopped, floor: usize) -> Result<Entered, Fault> {
    let Some(Frame::Work(_, place)) = fiber.frames.last_mut() else { return not_a_closure() };
    let Some(kept) = place.take() else { return not_a_closure() };
    let Entry { code, links, .. } = kept.entry;
    let (function, record) = (None, Record::None);
    let (pc, base, floor) = (at.pc as u32, at.base as u32, floor as u32);
    fiber.frames.push(Frame::Code(CodeFrame { function, code, pc, base, floor, links, record }));
    Ok(Entered::Frame(kept))
}

/// How the closure of a work was called once more.
pub(super) enum Entered {
    /// It is over.
    Value(Value),
    /// It has a frame, and goes on there.
    Frame(RepeatedClosure),
}

#[cold]
fn not_a_closure<T>() -> Result<T, Fault> {
    fault(Reason::RuntimeError, "a builtin calls something that is not a function")
}
