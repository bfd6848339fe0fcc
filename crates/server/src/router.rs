//! What is where.

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::problem::HttpProblem;
use crate::retention::measure_store;
use crate::{App, api, auth, lens, mcp, origin_check, proxy};

/// Pages and the REST API read, redact and print texts of any length.
macro_rules! off_loop {
    () => {
        middleware::from_fn(crate::off_loop::run)
    };
}

/// Everything the server answers.
///
/// Every request passes the gate (whose page sent it, and for whom it was meant), then says who is calling, and only then
/// is its body read.
pub fn router(app: App) -> Router {
    let known = Router::new()
        .nest("/v1", proxy::router())
        .nest("/v1beta", proxy::gemini_router())
        .nest("/api", api::router().layer(middleware::map_response(with_version)).layer(off_loop!()))
        .merge(lens::router().layer(off_loop!()))
        .merge(mcp::router().layer(off_loop!()))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(app.clone(), auth::identify))
        .layer(middleware::from_fn(auth::take_key_from_query));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(crate::ready::ready))
        .merge(known)
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(app.clone(), origin_check::check))
        .with_state(app)
}

/// Says which program answers, so that another one can tell it from anything else on the port.
async fn with_version(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert("x-scrollback-version", HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    response
}

/// What is nowhere; mostly a base URL that lacks its end.
async fn nothing(State(app): State<App>, uri: Uri, headers: HeaderMap) -> Response {
    if proxy::wants_websocket(&headers) {
        return proxy::websocket_refused();
    }
    let known = ["/chat/completions", "/responses", "/models", "/embeddings"];
    if known.iter().any(|path| uri.path().starts_with(path)) {
        let detail = "the base URL of OpenAI's clients ends in /v1, as in http://127.0.0.1:7275/v1";
        return HttpProblem::new(StatusCode::NOT_FOUND, "bad_base_url", detail).into_response();
    }
    // Who asks is not known here, so no host is named.
    let known: Vec<&str> = proxy::configured(&app).into_iter().map(|(name, _)| name).collect();
    let have = if known.is_empty() {
        "none is configured".to_string()
    } else {
        format!("configured: {}", known.join(", "))
    };
    let detail = format!("there is no such page, and no upstream serves this path; {have}");
    HttpProblem::new(StatusCode::NOT_FOUND, "not_found", detail).with("upstreams", known).into_response()
}

/// What is counted, for Prometheus.
async fn metrics(State(app): State<App>, caller: auth::ApiCaller) -> Result<Response, HttpProblem> {
    caller.may_read()?;
    if app.telemetry().is_on() {
        let counts = app.telemetry().counts();
        for (outcome, total) in [("sent", counts.sent), ("dropped", counts.dropped)] {
            app.metrics.set("scrollback_spans_total", &[("outcome", outcome)], total as f64);
        }
    }
    measure_store(&app).await;
    let text = app.metrics.text();
    Ok(([(header::CONTENT_TYPE, crate::metrics::CONTENT_TYPE)], text).into_response())
}
