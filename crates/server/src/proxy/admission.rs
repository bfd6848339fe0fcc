//! How many requests of one tenant are under way.

use axum::http::StatusCode;
use scrollback_store::Tenant;

use crate::connection_limits::{self, SlotCounter};
use crate::problem::HttpProblem;

/// Requests under way, by tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct TenantSlots(SlotCounter<Tenant>);

/// One of them; no longer when it is dropped.
pub(crate) type TenantSlot = connection_limits::OccupiedSlot<Tenant>;

impl TenantSlots {
    /// A seat for another request, or why there is none.
    pub(crate) fn enter(&self, tenant: &Tenant, most: usize) -> Result<TenantSlot, HttpProblem> {
        self.0.take(tenant, most).ok_or_else(|| {
            let detail = format!("{most} requests are under way already; try again when one has ended");
            HttpProblem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", detail).retry_after(1)
        })
    }
}
