//! Whether work is still wanted: until a moment, and while its caller waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::{ErrorKind, StoreError};

/// Whether work is still wanted. Clones are about the same work.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    until: Instant,
    left: Arc<AtomicBool>,
}

/// While this lives, the caller waits.
#[derive(Debug)]
pub(super) struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Wanted {
    /// Work that is wanted until a moment.
    pub(super) fn until(until: Instant) -> Self {
        Wanted { until, left: Arc::default() }
    }

    /// What the caller holds while it waits.
    pub(super) fn guard(&self) -> Guard {
        Guard(Arc::clone(&self.left))
    }

    /// Whether it is not wanted any more.
    pub(super) fn is_over(&self) -> bool {
        self.left.load(Ordering::Acquire) || Instant::now() >= self.until
    }

    /// An error if it is not wanted any more.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.is_over() { Err(too_long()) } else { Ok(()) }
    }
}

/// What a caller is told whose search was given up.
pub(super) fn too_long() -> StoreError {
    let message =
        "the search took too long and was given up: add words, or say in which conversation to look";
    StoreError::new(ErrorKind::Overloaded, message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_ends_with_its_time_and_with_its_caller() {
        let later = Instant::now() + Duration::from_secs(3600);
        let wanted = Wanted::until(later);
        let guard = wanted.guard();
        assert!(!wanted.is_over());
        drop(guard);
        assert!(wanted.is_over() && wanted.check().is_err());
        assert!(Wanted::until(Instant::now()).is_over());
    }
}
