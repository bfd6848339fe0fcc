//! How many of something are there at once: a bounded number for each key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Seats that are taken, by whom.
#[derive(Clone, Debug)]
pub(crate) struct SlotCounter<K: Eq + Hash>(Arc<Mutex<HashMap<K, usize>>>);

/// One of them; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct OccupiedSlot<K: Eq + Hash> {
    seats: SlotCounter<K>,
    key: K,
}

impl<K: Eq + Hash> Default for SlotCounter<K> {
    fn default() -> Self {
        SlotCounter(Arc::default())
    }
}

impl<K: Clone + Eq + Hash> SlotCounter<K> {
    /// A seat, unless that key has as many as it may have.
    pub(crate) fn take(&self, key: &K, most: usize) -> Option<OccupiedSlot<K>> {
        let mut seats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.get(key).is_some_and(|taken| *taken >= most) {
            return None;
        }
        *seats.entry(key.clone()).or_default() += 1;
        Some(OccupiedSlot { seats: self.clone(), key: key.clone() })
    }
}

impl<K: Eq + Hash> Drop for OccupiedSlot<K> {
    fn drop(&mut self) {
        let mut seats = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = seats.get_mut(&self.key) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_given_back() {
        let seats = SlotCounter::default();
        let seat = seats.take(&"a", 1);
        assert!(seat.is_some() && seats.take(&"a", 1).is_none() && seats.take(&"b", 1).is_some());
        drop(seat);
        assert!(seats.take(&"a", 1).is_some());
        assert!(seats.0.lock().is_ok_and(|seats| seats.is_empty()), "nothing is kept of those who left");
    }
}
