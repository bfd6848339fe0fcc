//! What is where.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::problem::Problem;
use crate::{App, api, auth, gate, lens, proxy};

/// Everything the server answers.
///
/// Every request passes the gate (whose page sent it, and for whom it was meant), then says who is calling, and only then
/// is its body read.
pub fn router(app: App) -> Router {
    let known = Router::new()
        .nest("/v1", proxy::router())
        .nest("/api", api::router())
        .merge(lens::router())
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(app.clone(), auth::identify));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .merge(known)
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(app.clone(), gate::check))
        .with_state(app)
}

/// What is nowhere; mostly a base URL that lacks its end.
async fn nothing(uri: Uri) -> Problem {
    let known = ["/chat/completions", "/responses", "/models", "/embeddings"];
    if known.iter().any(|path| uri.path().starts_with(path)) {
        let detail = "the base URL of OpenAI's clients ends in /v1, as in http://127.0.0.1:8787/v1";
        return Problem::new(StatusCode::NOT_FOUND, "bad_base_url", detail);
    }
    Problem::not_found("page")
}

/// Whether requests can be served: the store answers.
async fn ready(State(app): State<App>) -> Response {
    match app.store.keys().await {
        Ok(_) => "ready\n".into_response(),
        Err(error) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", error.to_string()).into_response()
        }
    }
}

/// What is counted, for Prometheus.
async fn metrics(State(app): State<App>, caller: auth::Caller) -> Result<Response, Problem> {
    caller.may_read()?;
    if app.telemetry().is_on() {
        let counts = app.telemetry().counts();
        for (outcome, total) in [("sent", counts.sent), ("dropped", counts.dropped)] {
            app.metrics.set("scrollback_spans_total", &[("outcome", outcome)], total as f64);
        }
    }
    let text = app.metrics.text();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
