//! How many requests of one tenant are under way.

use axum::http::StatusCode;
use scrollback_store::Tenant;

use crate::problem::Problem;
use crate::seats::{self, Seats};

/// Requests under way, by tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Seats<Tenant>);

/// One of them; no longer when it is dropped.
pub(crate) type Seat = seats::Seat<Tenant>;

impl Room {
    /// A seat for another request, or why there is none.
    pub(crate) fn enter(&self, tenant: &Tenant, most: usize) -> Result<Seat, Problem> {
        self.0.take(tenant, most).ok_or_else(|| {
            let detail = format!("{most} requests are under way already; try again when one has ended");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail).retry_after(1)
        })
    }
}
