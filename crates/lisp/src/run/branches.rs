//! `pmap` and `pcalls`: branches that each run as a fiber of their own.
//!
//! A branch starts when the one before it has ended or waits for a tool, so the calls of all branches can be out at
//! once. Results, prints and calls are joined in the order of the branches, whatever ran first.

use super::Machine;
use super::context::describe;
use super::fiber::{Branches, Fiber, Finished, Frame};
use super::machine::at_frame;
use super::records::Record;
use crate::builtin;
use crate::error::{Error, Fault, Reason, fault};
use crate::value::Value;
use crate::value::text::shorten;

impl Machine {
    /// `(pmap f coll …)`: one branch for every element.
    pub(super) fn start_pmap(&mut self, fiber: &mut Fiber, count: usize) -> Result<(), Fault> {
        let mut arguments = fiber.stack.split_off(fiber.stack.len().saturating_sub(count)).into_iter();
        let function = arguments.next().unwrap_or_default();
        let mut lists = Vec::new();
        for (at, collection) in arguments.enumerate() {
            lists.push(builtin::to_vector(&mut self.context, "pmap", &collection, at + 2)?);
        }
        let length = lists.iter().map(crate::value::Vector::len).min().unwrap_or(0);
        self.context.sequence(length.saturating_mul(lists.len() + 4))?;
        let mut iterators: Vec<_> = lists.iter().map(crate::value::Vector::iter).collect();
        let calls = (0..length)
            .map(|_| (function.clone(), iterators.iter_mut().filter_map(Iterator::next).cloned().collect()))
            .collect();
        self.start_branches(fiber, Reason::PmapError, calls)
    }

    /// `(pcalls f …)`: one branch for every function.
    pub(super) fn start_pcalls(&mut self, fiber: &mut Fiber, count: usize) -> Result<(), Fault> {
        let functions = fiber.stack.split_off(fiber.stack.len().saturating_sub(count));
        for (at, function) in functions.iter().enumerate() {
            match function {
                Value::Function(function) => {
                    if let Some(closure) = function.as_closure()
                        && closure.arity_for(0).is_none()
                    {
                        let message = format!("pcalls calls without arguments; {}", closure.expects());
                        return fault(Reason::ArityMismatch, message);
                    }
                }
                Value::Var(_) => {}
                other => {
                    let message =
                        format!("pcalls: expected function, got {} (argument {})", describe(other), at + 1);
                    return fault(Reason::TypeError, message);
                }
            }
        }
        self.context.sequence(functions.len() * 4)?;
        let calls = functions.into_iter().map(|function| (function, Vec::new())).collect();
        self.start_branches(fiber, Reason::PcallsError, calls)
    }

    fn start_branches(
        &mut self,
        fiber: &mut Fiber,
        reason: Reason,
        calls: Vec<(Value, Vec<Value>)>,
    ) -> Result<(), Fault> {
        self.check_depth(fiber)?;
        let finished = calls.iter().map(|_| None).collect();
        fiber.frames.push(Frame::Branches(Box::new(Branches {
            reason,
            calls,
            next: 0,
            finished,
            failed: None,
            running: Vec::new(),
        })));
        Ok(())
    }

    /// Starts the next branch of a fiber that waits for branches, or ends the waiting.
    pub(super) fn next_branch(&mut self, parent: usize) -> Result<(), Fault> {
        let Some(fiber) = self.fibers.get_mut(parent).and_then(Option::as_mut) else { return Ok(()) };
        let depth = fiber.depth + fiber.frames.len();
        let globals = fiber.globals.share();
        let Some(Frame::Branches(branches)) = fiber.frames.last_mut() else { return Ok(()) };
        let Some((function, arguments)) =
            branches.calls.get_mut(branches.next).filter(|_| branches.failed.is_none()).map(std::mem::take)
        else {
            return if branches.running.is_empty() { self.join(parent) } else { Ok(()) };
        };
        let branch = branches.next;
        branches.next += 1;
        let mut child = Box::new(Fiber::new(globals, depth));
        child.parent = Some((parent, branch));
        let id = self.free_fiber();
        if let Some(Some(fiber)) = self.fibers.get_mut(parent)
            && let Some(Frame::Branches(branches)) = fiber.frames.last_mut()
        {
            branches.running.push((branch, id));
        }
        self.context.meter.reserve(512)?;
        let count = arguments.len();
        child.stack.extend(arguments);
        // A builtin without frames answers at once; a tool waits; a closure has its first frame.
        std::mem::swap(&mut self.context.prints, &mut child.prints);
        let started = self.call(&mut child, function, count, 0, Record::None, false);
        std::mem::swap(&mut self.context.prints, &mut child.prints);
        match started {
            Ok(super::call::Called::Waiting) => {
                if let Some(slot) = self.fibers.get_mut(id) {
                    *slot = Some(child);
                }
                self.waiting.push(id);
                self.starting.push(parent);
            }
            Ok(_) => {
                if let Some(slot) = self.fibers.get_mut(id) {
                    *slot = Some(child);
                }
                self.ready.push(id);
            }
            Err(error) => {
                if let Some(slot) = self.fibers.get_mut(id) {
                    *slot = Some(child);
                }
                self.branch_ended(id, Err(error))?;
            }
        }
        Ok(())
    }

    fn free_fiber(&mut self) -> usize {
        match self.fibers.iter().position(Option::is_none) {
            Some(free) if self.running != Some(free) => free,
            _ => {
                self.fibers.push(None);
                self.fibers.len() - 1
            }
        }
    }

    /// A branch has ended. A limit ends everything.
    pub(super) fn branch_ended(&mut self, id: usize, result: Result<Value, Fault>) -> Result<(), Fault> {
        let Some(fiber) = self.fibers.get_mut(id).and_then(Option::take) else { return Ok(()) };
        let Some((parent, branch)) = fiber.parent else { return Ok(()) };
        let failed = result.is_err();
        let limit = result.as_ref().err().filter(|error| error.reason.is_limit()).cloned();
        let finished = Finished { result, prints: fiber.prints, calls: fiber.calls };
        let mut dropped = Vec::new();
        if let Some(Some(parent)) = self.fibers.get_mut(parent)
            && let Some(Frame::Branches(branches)) = parent.frames.last_mut()
        {
            branches.running.retain(|(_, fiber)| *fiber != id);
            if let Some(slot) = branches.finished.get_mut(branch) {
                *slot = Some(finished);
            }
            if failed && branches.failed.is_none_or(|first| branch < first) {
                branches.failed = Some(branch);
                // What comes after the failure cannot matter any more.
                dropped.extend(branches.running.iter().copied().filter(|(other, _)| *other > branch));
                branches.running.retain(|(other, _)| *other < branch);
            }
        }
        for (branch, fiber) in dropped {
            self.abandon(parent, branch, fiber);
        }
        if let Some(error) = limit {
            Err(error)
        } else {
            self.starting.push(parent);
            Ok(())
        }
    }

    /// Ends a branch that no longer matters, keeping what it printed and called.
    fn abandon(&mut self, parent: usize, branch: usize, id: usize) {
        self.ready.retain(|ready| *ready != id);
        self.starting.retain(|starting| *starting != id);
        let unanswered = self.waiting.iter().position(|waiting| *waiting == id);
        if let Some(at) = unanswered {
            self.waiting.remove(at);
        }
        let Some(mut fiber) = self.fibers.get_mut(id).and_then(Option::take) else { return };
        if unanswered.is_some() {
            // The call was never handed out.
            fiber.calls.pop();
        }
        let mut inner = Vec::new();
        if let Some(Frame::Branches(branches)) = fiber.frames.last_mut() {
            inner.append(&mut branches.running);
        }
        let (prints, calls) = self.collect_log(fiber);
        for (_, child) in inner {
            // Branches of branches end with them.
            if let Some(slot) = self.fibers.get_mut(child) {
                *slot = None;
            }
            self.ready.retain(|ready| *ready != child);
            self.waiting.retain(|waiting| *waiting != child);
        }
        let result = fault(Reason::Cancelled, "an earlier branch failed");
        if let Some(Some(parent)) = self.fibers.get_mut(parent)
            && let Some(Frame::Branches(branches)) = parent.frames.last_mut()
            && let Some(slot) = branches.finished.get_mut(branch)
        {
            *slot = Some(Finished { result, prints, calls });
        }
    }

    /// All branches that matter have ended: the form has its value, or its error.
    fn join(&mut self, id: usize) -> Result<(), Fault> {
        let Some(fiber) = self.fibers.get_mut(id).and_then(Option::as_mut) else { return Ok(()) };
        let Some(Frame::Branches(branches)) = fiber.frames.pop() else { return Ok(()) };
        let limits = self.context.meter.limits();
        let mut values = Vec::with_capacity(branches.finished.len());
        let mut failure = None;
        for (branch, finished) in branches.finished.into_iter().enumerate() {
            let Some(finished) = finished else { continue };
            fiber.prints.append(finished.prints, limits);
            fiber.calls.extend(finished.calls);
            match finished.result {
                Ok(value) => values.push(value),
                Err(error) if failure.is_none() => failure = Some((branch, error)),
                Err(_) => {}
            }
        }
        if let Some((branch, cause)) = failure {
            let message = shorten(&format!("branch {branch}: {}", cause.message), 2000).into_owned();
            let mut error = Error::new(branches.reason, message);
            error.hint.clone_from(&cause.hint);
            // Of branches in branches the innermost error is the one to know.
            error.cause = Some(match cause.cause {
                Some(inner) => inner,
                None => cause,
            });
            return self.fiber_failed(id, Box::new(error));
        }
        let result = self.context.vector(values);
        match result {
            Ok(value) => {
                if let Some(Some(fiber)) = self.fibers.get_mut(id) {
                    fiber.deliver(value);
                }
                self.ready.push(id);
                Ok(())
            }
            Err(error) => self.fiber_failed(id, error),
        }
    }

    /// An error in a fiber that is not running now.
    pub(super) fn fiber_failed(&mut self, id: usize, error: Fault) -> Result<(), Fault> {
        let Some(Some(fiber)) = self.fibers.get(id) else { return Err(error) };
        let error = at_frame(fiber, error);
        if fiber.parent.is_none() {
            return Err(error);
        }
        self.branch_ended(id, Err(error))
    }
}
