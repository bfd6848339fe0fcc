//! Entries that wait for the store: a bounded number, so that a store that is slow cannot fill the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scrollback_store::{ErrorKind, StoreError};

/// How many entries wait for the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteQueue(Arc<AtomicUsize>);

/// Some that wait; no longer when it is dropped.
#[derive(Debug)]
pub(crate) struct QueuedEntries {
    all: WriteQueue,
    entries: usize,
}

impl WriteQueue {
    /// Stands in line with what a client said, unless too much waits already. A client that is alone may bring any number.
    pub(crate) fn enter(&self, entries: usize, most: usize) -> Result<QueuedEntries, StoreError> {
        let waiting = self.0.fetch_add(entries, Ordering::AcqRel);
        let place = QueuedEntries { all: self.clone(), entries };
        if waiting == 0 || waiting.saturating_add(entries) <= most {
            return Ok(place);
        }
        let message = format!("{waiting} entries wait for the store already; try again in a moment");
        Err(StoreError::new(ErrorKind::Overloaded, message))
    }

    /// How many entries wait now.
    pub(crate) fn waiting(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Stands in line with a reply: what was paid for is not thrown away.
    pub(crate) fn join(&self, entries: usize) -> QueuedEntries {
        self.0.fetch_add(entries, Ordering::AcqRel);
        QueuedEntries { all: self.clone(), entries }
    }
}

impl Drop for QueuedEntries {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.entries, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_entries_wait() {
        let waiting = WriteQueue::default();
        let alone = waiting.enter(50, 10);
        assert!(alone.is_ok(), "a long list is let in where nothing else waits");
        let refused = waiting.enter(1, 10).map_err(|error| error.kind());
        assert!(matches!(refused, Err(ErrorKind::Overloaded)));
        drop(alone);
        let (reply, said) = (waiting.join(6), waiting.enter(4, 10));
        assert!(said.is_ok() && waiting.enter(1, 10).is_err());
        drop((reply, said));
        assert_eq!(waiting.0.load(Ordering::Acquire), 0, "nothing is left of those who were refused");
    }
}
