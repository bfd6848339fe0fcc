//! Counting what a run uses, before it uses it.

use std::sync::Arc;
use std::time::Duration;

use crate::env::Granted;
use crate::error::{Fault, Reason, fault};
use crate::limits::{CancelToken, Limits};

/// Units of fuel between two looks at the clock and the host's wish to end.
const SLICE: u64 = 1024;

/// Whether fuel is not counted: only in a build that measures what counting costs.
pub(super) const UNMETERED: bool = cfg!(scrollback_unmetered);

/// What is used and what is left.
pub(crate) struct Meter {
    /// Fuel until the next look.
    slice: u64,
    /// Fuel after that.
    rest: u64,
    jumps_left: u64,
    tool_calls: usize,
    /// Bytes alive when they were last counted.
    live: usize,
    /// Bytes asked for since then, some of which may be free again.
    since: usize,
    peak: usize,
    /// What the limits say of it.
    most: usize,
    granted: Arc<Granted>,
    /// When the clock was first looked at: after the first slice of fuel, or before the first tool. Most programs are over
    /// by then; what that slice takes is not counted as time.
    start: Option<Duration>,
    /// Time that tools took.
    away: Duration,
}

impl Meter {
    pub(crate) fn new(granted: &Arc<Granted>) -> Self {
        let mut meter = Meter {
            slice: 0,
            rest: 0,
            jumps_left: 0,
            tool_calls: 0,
            live: 0,
            since: 0,
            peak: 0,
            most: 0,
            granted: Arc::clone(granted),
            start: None,
            away: Duration::ZERO,
        };
        meter.renew();
        meter
    }

    /// Starts again from nothing used.
    pub(crate) fn renew(&mut self) {
        let limits = &self.granted.limits;
        self.slice = limits.fuel.min(SLICE);
        self.rest = limits.fuel - self.slice;
        self.jumps_left = limits.loop_jumps;
        self.most = limits.memory;
        (self.live, self.since, self.peak) = (0, 0, 0);
        self.tool_calls = 0;
        self.start = None;
        self.away = Duration::ZERO;
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.granted.limits
    }

    /// One unit of fuel.
    #[inline]
    pub(crate) fn tick(&mut self) -> Result<(), Fault> {
        if UNMETERED {
            return Ok(());
        }
        if self.slice == 0 {
            self.refill(1)?;
        } else {
            self.slice -= 1;
        }
        Ok(())
    }

    /// So many units of fuel.
    #[inline]
    pub(crate) fn charge(&mut self, units: u64) -> Result<(), Fault> {
        if UNMETERED {
            return Ok(());
        }
        match self.slice.checked_sub(units) {
            Some(left) => {
                self.slice = left;
                Ok(())
            }
            None => self.refill(units),
        }
    }

    /// Fuel that can be had without a look at the clock.
    #[inline]
    pub(crate) fn slice(&self) -> u64 {
        self.slice
    }

    /// What is left of it.
    #[inline]
    pub(crate) fn set_slice(&mut self, left: u64) {
        self.slice = left.min(self.slice);
    }

    /// Fuel for looking at so many elements.
    #[inline]
    pub(crate) fn visit(&mut self, elements: usize) -> Result<(), Fault> {
        self.charge(elements as u64)
    }

    #[cold]
    fn refill(&mut self, units: u64) -> Result<(), Fault> {
        let total = self.slice.saturating_add(self.rest);
        let Some(left) = total.checked_sub(units) else {
            (self.slice, self.rest) = (0, 0);
            return fault(
                Reason::FuelExceeded,
                format!("execution exceeded {} units of fuel", self.limits().fuel),
            );
        };
        self.slice = left.min(SLICE);
        self.rest = left - self.slice;
        self.look()
    }

    /// Looks at the clock and at the host's wish.
    pub(crate) fn look(&mut self) -> Result<(), Fault> {
        self.listen()?;
        if let Some(now) = self.now() {
            let total = now.saturating_sub(self.start.unwrap_or(now));
            let limits = self.limits();
            if total > limits.deadline {
                let message = format!("execution and tools exceeded {} ms", limits.deadline.as_millis());
                return fault(Reason::Timeout, message);
            }
            if total.saturating_sub(self.away) > limits.time {
                let message = format!("execution exceeded {} ms", limits.time.as_millis());
                return fault(Reason::Timeout, message);
            }
        }
        Ok(())
    }

    /// Whether the host wants it to end.
    pub(crate) fn listen(&self) -> Result<(), Fault> {
        if self.granted.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            return fault(Reason::Cancelled, "execution was cancelled");
        }
        Ok(())
    }

    pub(crate) fn now(&mut self) -> Option<Duration> {
        let now = self.granted.clock.as_ref().map(|clock| clock())?;
        self.start.get_or_insert(now);
        Some(now)
    }

    /// Does not count the time between two moments.
    pub(crate) fn exclude(&mut self, time: Duration) {
        self.away += time;
    }

    pub(crate) fn fuel_used(&self) -> u64 {
        self.limits().fuel - self.rest - self.slice
    }

    /// Asks for memory before it is taken.
    #[inline]
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), Fault> {
        let since = self.since.saturating_add(bytes);
        let total = self.live.saturating_add(since);
        if total > self.most {
            return self.out_of_memory();
        }
        self.since = since;
        self.peak = self.peak.max(total);
        Ok(())
    }

    #[cold]
    pub(crate) fn out_of_memory(&self) -> Result<(), Fault> {
        let message = format!("execution exceeded {} MiB of memory", self.most >> 20);
        fault(Reason::MemoryExceeded, message)
    }

    /// Bytes that may still be asked for.
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.live).saturating_sub(self.since)
    }

    /// Whether so much was asked for that what is alive should be counted again.
    #[inline]
    pub(crate) fn wants_count(&self) -> bool {
        self.since > self.most / 8
    }

    /// What is alive has been counted. Room for less than a sixteenth is too little to go on with.
    pub(crate) fn counted(&mut self, live: usize) -> Result<(), Fault> {
        (self.live, self.since) = (live, 0);
        if live.saturating_add(self.most / 16) > self.most {
            return self.out_of_memory();
        }
        Ok(())
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    /// One jump of `recur`.
    #[inline]
    pub(crate) fn jump(&mut self) -> Result<(), Fault> {
        if let Some(left) = self.jumps_left.checked_sub(1) {
            self.jumps_left = left;
            Ok(())
        } else {
            let message = format!("execution exceeded {} loop jumps", self.limits().loop_jumps);
            fault(Reason::LoopLimitExceeded, message)
        }
    }

    /// One call of a tool.
    pub(crate) fn tool_call(&mut self) -> Result<(), Fault> {
        let most = self.limits().tool_calls;
        if self.tool_calls >= most {
            let message = format!("execution exceeded {most} tool calls");
            return fault(Reason::ToolLimitExceeded, message);
        }
        self.tool_calls += 1;
        Ok(())
    }

    pub(crate) fn tool_calls(&self) -> usize {
        self.tool_calls
    }
}
