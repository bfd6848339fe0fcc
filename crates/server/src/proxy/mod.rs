//! `/v1/*`: what existing clients speak.
//!
//! One request: who calls and may they (`auth`, `room`), what do they ask (`asked`), under which policy (`plan`), which
//! conversation is it (`identity`), where is it written down (`record`), whom to ask (`upstreams`, `echo`), and the reply back
//! to the client while a copy is read for the record (`tee`). The request itself is made by `scrollback_core::request` and
//! asked by `scrollback_agent::exchange`, as for everyone else; `asking` is what differs here, and `call` puts it all in
//! order. `other` has what is passed on without being understood.

mod aside;
mod asked;
mod asking;
mod call;
mod count;
mod echo;
mod identity;
mod known;
mod other;
mod plan;
mod record;
mod refusal;
mod responses;
mod room;
mod tee;
mod upstreams;

use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use axum::routing::{get, post};

use crate::App;
use crate::problem::Problem;
use asked::Endpoint;

pub(crate) use aside::join_result;
pub(crate) use known::Lately;
pub(crate) use record::CallsUnderWay;
pub(crate) use room::Room;
pub(crate) use upstreams::{Upstreams, who_answers};

/// Everything below `/v1`.
pub(crate) fn router() -> Router<App> {
    // Another method at a known path is one more request that is passed on.
    let understood =
        |endpoint: Endpoint| post(move |app, request| call(app, endpoint, request)).fallback(other);
    Router::new()
        .route("/chat/completions", understood(Endpoint::Chat))
        .route("/responses", understood(Endpoint::Responses))
        .route("/responses/compact", understood(Endpoint::Compact))
        .route("/responses/{id}", get(response).fallback(other))
        .route("/messages", understood(Endpoint::Messages))
        .route("/messages/count_tokens", understood(Endpoint::CountTokens))
        .route("/models", get(models).fallback(other))
        .fallback(other)
}

async fn call(State(app): State<App>, endpoint: Endpoint, request: Request) -> Response {
    let began = Instant::now();
    let answer = match endpoint {
        Endpoint::CountTokens => count::answer(&app, request).await,
        _ => call::answer(&app, endpoint, request).await,
    };
    told(&app, endpoint.route(), began, answer)
}

async fn response(State(app): State<App>, Path(id): Path<String>, request: Request) -> Response {
    let began = Instant::now();
    told(&app, "/v1/responses/{id}", began, responses::get(&app, &id, request).await)
}

async fn models(State(app): State<App>, request: Request) -> Response {
    let began = Instant::now();
    told(&app, "/v1/models", began, other::models(&app, request).await)
}

async fn other(State(app): State<App>, request: Request) -> Response {
    let began = Instant::now();
    told(&app, "/v1/*", began, other::pass(&app, request).await)
}

/// The answer as the client's package reads it, counted.
fn told(app: &App, route: &str, began: Instant, answer: Result<Response, Problem>) -> Response {
    let response = answer.unwrap_or_else(|problem| {
        tracing::info!(route, code = problem.code, status = problem.status.as_u16(), "refused");
        refusal::response(&problem)
    });
    let status = response.status();
    app.metrics.add("scrollback_requests_total", &[("route", route), ("status", status.as_str())], 1.0);
    app.metrics.time(
        "scrollback_seconds",
        &[("part", "head"), ("route", route)],
        began.elapsed().as_secs_f64(),
    );
    response
}
