//! What a run may use, and how a host ends one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What one run may use. Everything but the two times is deterministic: same program, same data, same outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Units of work: one for every instruction, and for every element a builtin looks at. 20 million are about a
    /// second of the slowest programs.
    pub fuel: u64,
    /// Jumps of `recur`. A loop that needs more is meant to be a `reduce`, or never ends.
    pub loop_jumps: u64,
    /// Time spent computing, without the time spent in tools. Needs a clock in the [`Env`](crate::Env).
    pub time: Duration,
    /// Time for everything. Needs a clock, too.
    pub deadline: Duration,
    /// Bytes of values alive, without the data that was granted. Enough for a million elements.
    pub memory: usize,
    /// Calls inside calls that are not in tail position.
    pub depth: usize,
    /// Calls of tools.
    pub tool_calls: usize,
    /// Graphemes of one printed entry; what is longer is cut.
    pub print_graphemes: usize,
    /// Printed entries that are kept.
    pub prints: usize,
    /// Bytes of printed entries that are kept.
    pub print_bytes: usize,
    /// Bytes of a value as text or JSON; what is longer is cut.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            fuel: 20_000_000,
            loop_jumps: 1_000_000,
            time: Duration::from_secs(1),
            deadline: Duration::from_secs(60),
            memory: 64 << 20,
            depth: 10_000,
            tool_calls: 200,
            print_graphemes: 2000,
            prints: 1000,
            print_bytes: 1 << 20,
            value_bytes: 1 << 20,
        }
    }
}

/// Ends runs from outside: every run that holds a copy stops with `cancelled` at its next look.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that has not been used yet.
    pub fn new() -> Self {
        CancelToken::default()
    }

    /// Asks all runs with this token to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Forgets that it was asked, for the next run.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether that was asked.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A clock that only goes forward: the time since some fixed moment. The crate reads no other.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;
