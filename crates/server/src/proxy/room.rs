//! How many requests of one tenant are under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use scrollback_store::Tenant;

use crate::problem::Problem;

/// Requests under way, by tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Arc<Mutex<HashMap<Tenant, usize>>>);

/// One of them; no longer when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Room,
    tenant: Tenant,
}

impl Room {
    /// A seat for another request, or why there is none.
    pub(crate) fn enter(&self, tenant: &Tenant, most: usize) -> Result<Seat, Problem> {
        let mut seats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = seats.entry(tenant.clone()).or_default();
        if *taken >= most {
            let detail = format!("{most} requests are under way already; try again when one has ended");
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail);
            return Err(problem.retry_after(1));
        }
        *taken += 1;
        Ok(Seat { room: self.clone(), tenant: tenant.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.room.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = seats.get_mut(&self.tenant) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn seats_are_given_back() {
        let (room, tenant) = (Room::default(), Tenant::default());
        let seat = room.enter(&tenant, 1).unwrap();
        assert_eq!(room.enter(&tenant, 1).unwrap_err().code, "too_many_requests");
        assert!(room.enter(&Tenant::parse("other").unwrap(), 1).is_ok());
        drop(seat);
        assert!(room.enter(&tenant, 1).is_ok());
        assert!(room.0.lock().unwrap().is_empty());
    }
}
