//! Work of requests that may take long, away from the threads that serve connections: each of those serves many.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::problem::HttpProblem;

/// Answers a request on a thread of its own. A client that leaves ends the work at the next point where it waits.
pub(crate) async fn run(request: Request, next: Next) -> Response {
    let handle = Handle::current();
    // Dropped with this future, when the client leaves.
    let (_waits, left) = oneshot::channel::<()>();
    let answering = tokio::task::spawn_blocking(move || {
        handle.block_on(async {
            tokio::select! {
                response = next.run(request) => Some(response),
                _ = left => None,
            }
        })
    });
    if let Ok(Some(response)) = answering.await {
        return response;
    }
    let detail = "the request could not be finished; the log has more";
    HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response()
}
