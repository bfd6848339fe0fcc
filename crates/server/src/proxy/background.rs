//! Work on a large request is done beside the threads that serve connections: each of them serves many.

use axum::http::StatusCode;
use scrollback_store::Tenant;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::fair::Turns;
use crate::problem::HttpProblem;

/// Bytes from which reading, hashing, checking or counting them takes longer than another connection should wait: from about
/// a tenth of a millisecond on.
pub(crate) const LARGE: usize = 64 << 10;

/// Does work on so many bytes: on another thread if they are many.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpProblem> {
    if bytes < LARGE { Ok(work()) } else { join_result(spawn_blocking(work)).await }
}

/// The same, when it is the tenant's turn at the machine's cores.
pub(crate) async fn in_turn<T: Send + 'static>(
    turns: &Turns,
    tenant: &Tenant,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpProblem> {
    if bytes < LARGE {
        return Ok(work());
    }
    let turn = turns.take(tenant).await;
    // The turn goes with the work, which goes on if no one waits for it any more.
    let work = move || {
        let _turn = turn;
        work()
    };
    join_result(spawn_blocking(work)).await
}

/// The result of a task that ran in parallel.
pub(crate) async fn join_result<T>(begun: JoinHandle<T>) -> Result<T, HttpProblem> {
    begun.await.map_err(|_| unfinished())
}

/// A background task panicked.
pub(crate) fn unfinished() -> HttpProblem {
    HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request could not be finished")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_large_work_leaves_the_thread() {
        let here = thread::current().id();
        let on = || thread::current().id();
        assert_eq!(offload(LARGE - 1, on).await.unwrap(), here);
        assert_ne!(offload(LARGE, on).await.unwrap(), here);
        let failed: Result<(), HttpProblem> = offload(LARGE, || panic!("as it should")).await;
        assert_eq!(failed.unwrap_err().code, "internal");
    }
}
