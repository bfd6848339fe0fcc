//! Whether requests can be served: the store takes a write, now.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::problem::HttpProblem;

/// How long the store may take for a heartbeat.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an answer holds, so that asking often costs no more writes.
const HOLDS: Duration = Duration::from_secs(1);

/// The last heartbeat: when it ended, and what went wrong with it.
#[derive(Debug, Default)]
pub(crate) struct LastHeartbeat(tokio::sync::Mutex<Option<(Instant, Option<String>)>>);

/// Answers `/readyz`.
pub(crate) async fn ready(State(app): State<App>) -> Response {
    // Those who ask at once wait for one write together.
    let mut last = app.last_heartbeat.0.lock().await;
    let known = last.as_ref().filter(|(at, _)| at.elapsed() < HOLDS).map(|(_, problem)| problem.clone());
    let problem = if let Some(problem) = known {
        problem
    } else {
        let written = tokio::time::timeout(PATIENCE, app.store.heartbeat(app.now())).await;
        let problem = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("the store takes no writes: {error}")),
            Err(_) => Some(format!("the store took no write within {} s", PATIENCE.as_secs())),
        };
        *last = Some((Instant::now(), problem.clone()));
        problem
    };
    match problem {
        None => "ready\n".into_response(),
        Some(detail) => HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail)
            .retry_after(1)
            .into_response(),
    }
}
