//! The memory of bodies and replies under way: one budget for all, of which no tenant has more than half. What finds no room
//! waits for a moment, so that clients and providers are slowed down first, and is then refused.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use scrollback_store::Tenant;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::problem::HttpProblem;

/// What a body takes beside its bytes: the texts and entries made of it, what is sent on, and what waits for the store.
pub(crate) const COPIES: usize = 4;
/// How long a body waits for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// The budget.
#[derive(Clone, Debug)]
pub(crate) struct MemoryBudget(Arc<Claimed>);

#[derive(Debug)]
struct Claimed {
    total: usize,
    /// How long a body waits for room.
    patience: Duration,
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Used {
    all: usize,
    by_tenant: HashMap<Tenant, usize>,
}

/// What one request has of it; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    memory: MemoryBudget,
    tenant: Tenant,
    bytes: usize,
}

impl MemoryBudget {
    /// A budget of so many bytes.
    pub(crate) fn new(total: usize) -> Self {
        MemoryBudget::waiting(total, PATIENCE)
    }

    fn waiting(total: usize, patience: Duration) -> Self {
        MemoryBudget(Arc::new(Claimed { total, patience, used: Mutex::default(), freed: Notify::new() }))
    }

    /// Nothing of it yet.
    pub(crate) fn share(&self, tenant: &Tenant) -> Share {
        Share { memory: self.clone(), tenant: tenant.clone(), bytes: 0 }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many bytes if there is room. What is larger than half of the budget has room while nothing else of its tenant is
    /// under way.
    fn take(&self, tenant: &Tenant, bytes: usize) -> bool {
        let mut used = self.used();
        let own = used.by_tenant.get(tenant).copied().unwrap_or(0);
        let half = self.0.total / 2;
        let fits = used.all.saturating_add(bytes) <= self.0.total;
        if !fits || (own > 0 && own.saturating_add(bytes) > half) {
            return false;
        }
        used.all += bytes;
        *used.by_tenant.entry(tenant.clone()).or_default() += bytes;
        true
    }
}

impl Share {
    /// Takes so many bytes more, when there is room for them and their copies.
    pub(crate) async fn grow(&mut self, bytes: usize) -> Result<(), HttpProblem> {
        let wanted = bytes.saturating_mul(COPIES);
        let memory = self.memory.clone();
        let deadline = Instant::now() + memory.0.patience;
        loop {
            let freed = memory.0.freed.notified();
            let mut freed = std::pin::pin!(freed);
            // From here on nothing that is given back is missed.
            freed.as_mut().enable();
            if memory.take(&self.tenant, wanted) {
                self.bytes += wanted;
                return Ok(());
            }
            // What it has itself is not given back while it waits.
            let most = if self.bytes == 0 { memory.0.total } else { memory.0.total / 2 };
            if self.bytes.saturating_add(wanted) > most || timeout_at(deadline, freed).await.is_err() {
                let detail = "too much is under way: the memory for bodies and replies is used up; try again in a moment";
                return Err(
                    HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1)
                );
            }
        }
    }

    /// Gives back what it has.
    pub(crate) fn give_back(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut used = self.memory.used();
        used.all -= self.bytes;
        if let Some(own) = used.by_tenant.get_mut(&self.tenant) {
            *own -= self.bytes;
            if *own == 0 {
                used.by_tenant.remove(&self.tenant);
            }
        }
        self.bytes = 0;
        drop(used);
        self.memory.0.freed.notify_waiters();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A body that is there already. It gives its share of the memory back when it was sent, or is no longer wanted.
#[derive(Debug)]
pub(crate) struct HeldBody {
    bytes: Option<Bytes>,
    _share: Share,
}

impl HeldBody {
    pub(crate) fn new(bytes: impl Into<Bytes>, share: Share) -> Self {
        HeldBody { bytes: Some(bytes.into()), _share: share }
    }
}

impl Body for HeldBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn no_tenant_has_more_than_half_and_all_together_no_more_than_there_is() {
        let memory = MemoryBudget::waiting(800 * COPIES, Duration::from_millis(200));
        let (anna, bert) = (Tenant::parse("anna").unwrap(), Tenant::parse("bert").unwrap());
        let (mut first, mut second, mut third) =
            (memory.share(&anna), memory.share(&anna), memory.share(&bert));
        first.grow(300).await.unwrap();
        assert_eq!(second.grow(200).await.unwrap_err().code, "overloaded", "anna has her half");
        third.grow(400).await.unwrap();
        second.grow(100).await.unwrap();
        assert!(memory.share(&bert).grow(1).await.is_err(), "there is no more");
        let waiting = {
            let memory = memory.clone();
            tokio::spawn(async move { memory.share(&Tenant::default()).grow(50).await.is_ok() })
        };
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap(), "what is given back goes to who waits");
        drop((second, third));
        assert_eq!(memory.used().all, 0);
        assert!(memory.used().by_tenant.is_empty());
    }
}
