//! Running a program again where it has just run: what one run allocated, linked and checked serves the next.

use std::sync::Arc;

use super::fiber::Fiber;
use super::{Run, shadows};
use crate::compile::Unit;
use crate::value::Function;

/// The most values and frames that a stack keeps room for between two runs.
const KEPT_ROOM: usize = 256;

impl Run {
    /// Whether this was a run of the program, with nothing left over.
    pub(crate) fn is_of(&self, unit: &Arc<Unit>) -> bool {
        self.machine.numbers.is_of(unit) && matches!(self.machine.fibers.as_slice(), [Some(_)])
    }

    /// Starts the program again, in the same environment.
    pub(crate) fn restart(&mut self, main: &Arc<Function>) {
        self.over = false;
        let machine = &mut self.machine;
        machine.context.renew(&machine.env);
        machine.context.warnings.extend_from_slice(&self.noticed);
        machine.shadowed = shadows(&machine.env.memory);
        machine.records.clear();
        // What functions of earlier programs brought in stays in their run.
        machine.links.truncate(1);
        machine.numbers.forget_others();
        machine.base.truncate(machine.numbers.count());
        machine.ready.clear();
        machine.waiting.clear();
        machine.starting.clear();
        machine.begin_program(main);
    }
}

impl Fiber {
    /// Lets go of every value that the memory has not taken, keeping room for the next run.
    pub(super) fn clear(&mut self) {
        self.stack.clear();
        self.stack.shrink_to(KEPT_ROOM);
        self.frames.clear();
        self.frames.shrink_to(KEPT_ROOM);
        self.returns.clear();
        self.answer = None;
    }
}
