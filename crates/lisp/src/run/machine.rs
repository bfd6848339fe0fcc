//! The loop that executes instructions.

use std::sync::Arc;

use super::Machine;
use super::call::Called;
use super::caller::ClosureCaller;
use super::closure::{Entered, give_frame};
use super::fiber::{Fiber, Frame, RepeatedClosure, ValueShape};
use super::work::WorkNext;
use crate::error::{Fault, Reason, fault};
use crate::value::{Function, Value};

/// Why a fiber stopped.
pub(super) enum MachineStop {
    /// Its last frame is gone; this is its value.
    Finished(Value),
    /// It waits for the answer of a tool.
    Waiting,
    /// It waits for branches.
    Branching,
    /// `(return value)`: the whole program is over.
    Returned(Value),
}

impl Machine {
    /// Runs a fiber until it stops.
    pub(super) fn run_fiber(&mut self, fiber: &mut Fiber) -> Result<MachineStop, Fault> {
        loop {
            match fiber.frames.last_mut() {
                None => return Ok(MachineStop::Finished(fiber.answer.take().unwrap_or_default())),
                Some(Frame::Branches(_)) => return Ok(MachineStop::Branching),
                Some(Frame::Work(..)) => {
                    if let Some(stop) = self.run_work(fiber)? {
                        return Ok(*stop);
                    }
                }
                Some(Frame::Code(frame)) => {
                    let Some(function) = frame.function.take() else {
                        return fault(Reason::RuntimeError, "a function is gone that has not ended");
                    };
                    let at = fiber.frames.len() - 1;
                    let stop = self.run_code(fiber, &function);
                    match fiber.frames.get_mut(at) {
                        Some(Frame::Code(frame)) if frame.function.is_none() => {
                            frame.function = Some(function);
                        }
                        None if at == 0 => fiber.ended = Some(function),
                        // It has ended, or gave its place to what it called last.
                        _ => {}
                    }
                    if let Some(stop) = stop? {
                        return Ok(*stop);
                    }
                }
            }
            if self.context.meter.wants_count() {
                self.count_memory(fiber)?;
            }
        }
    }

    /// Lets the topmost work go on until frames change, or memory has to be counted.
    fn run_work(&mut self, fiber: &mut Fiber) -> Result<Option<Box<MachineStop>>, Fault> {
        while let Some(Frame::Work(work, kept)) = fiber.frames.last_mut() {
            let mut caller = ClosureCaller::new(&mut fiber.stack, kept.as_ref(), self.shadowed);
            let next = work.step(&mut self.context, fiber.answer.take(), &mut caller);
            let came = match (next, caller.stopped) {
                (Ok(WorkNext::Again(count)), stopped) => {
                    let entered = match stopped {
                        Some(at) => give_frame(fiber, at, at.base),
                        None => self.enter_again(fiber, count),
                    };
                    match entered {
                        Ok(Entered::Value(value)) => {
                            fiber.answer = Some(value);
                            if self.context.meter.wants_count() {
                                break;
                            }
                            continue;
                        }
                        Ok(Entered::Frame(kept)) => return self.run_kept(fiber, kept),
                        Err(error) => Err(error),
                    }
                }
                (Ok(next), _) => self.follow(fiber, next),
                (Err(error), _) => Err(error),
            };
            let came = came.map_err(|error| at_frame(fiber, error))?;
            return Ok(matches!(came, Called::Waiting).then(|| Box::new(MachineStop::Waiting)));
        }
        Ok(None)
    }

    /// Executes a closure that a builtin calls for one element after the other.
    fn run_kept(
        &mut self,
        fiber: &mut Fiber,
        kept: RepeatedClosure,
    ) -> Result<Option<Box<MachineStop>>, Fault> {
        let at = fiber.frames.len() - 1;
        let stop = self.run_code(fiber, &kept.function);
        match fiber.frames.get_mut(at) {
            // It has called something that needs a frame of its own.
            Some(Frame::Code(frame)) if frame.function.is_none() => frame.function = Some(kept.function),
            Some(_) => {}
            None => {
                if let Some(Frame::Work(_, place)) = fiber.frames.last_mut() {
                    *place = Some(kept);
                }
            }
        }
        stop
    }

    /// Executes the code of the topmost frame until frames change.
    fn run_code(
        &mut self,
        fiber: &mut Fiber,
        function: &Arc<Function>,
    ) -> Result<Option<Box<MachineStop>>, Fault> {
        let Some(Frame::Code(frame)) = fiber.frames.last() else { return Ok(None) };
        let (mut pc, base) = (frame.pc as usize, frame.base as usize);
        let (links, code) = (frame.links as usize, frame.code);
        let Some(closure) = function.as_closure() else { return Ok(None) };
        let unit = &*closure.unit;
        self.execute(fiber, function, closure, unit.ops(code), links, base, &mut pc)
            .map_err(|error| unit.locate(error, unit.span(code, pc.saturating_sub(1))))
    }

    /// Ends the topmost function with the value on top of the stack.
    pub(super) fn leave(&mut self, fiber: &mut Fiber) {
        let value = fiber.stack.pop().unwrap_or_default();
        if let Some(Frame::Code(frame)) = fiber.frames.last() {
            let (floor, record) = (frame.floor as usize, frame.record);
            fiber.frames.truncate(fiber.frames.len() - 1);
            fiber.stack.truncate(floor);
            for index in self.records.members(&record) {
                fiber.returned(*index, ValueShape::of(&value));
            }
        }
        fiber.deliver(value);
    }
}

/// Says where in the program an error of a builtin happened.
pub(super) fn at_frame(fiber: &Fiber, error: Fault) -> Fault {
    let code = fiber.frames.iter().rev().find_map(|frame| match frame {
        Frame::Code(frame) => Some(frame),
        _ => None,
    });
    match code.and_then(|frame| Some((frame, frame.function.as_ref()?.as_closure()?))) {
        Some((frame, closure)) => {
            let span = closure.unit.span(frame.code, (frame.pc as usize).saturating_sub(1));
            closure.unit.locate(error, span)
        }
        None => error,
    }
}

/// Notes in the frame how far it has come.
#[inline]
pub(super) fn save(fiber: &mut Fiber, pc: usize) {
    if let Some(Frame::Code(frame)) = fiber.frames.last_mut() {
        frame.pc = pc as u32;
    }
}
