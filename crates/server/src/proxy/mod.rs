//! `/v1/*` and `/v1beta/*`: what existing clients speak.
//!
//! One request: who calls and may they (`auth`, `room`), what do they ask (`asked`), under which policy (`plan`), which
//! conversation is it (`identity`), what does its provider hold of it (`provider_state`), where is it written down (`record`), whom to ask (`upstreams`, `echo`), and the reply back
//! to the client while a copy is read for the record (`tee`). The request itself is made by `scrollback_core::request` and
//! asked by `scrollback_agent::exchange`, as for everyone else; `asking` is what differs here, and `call` puts it all in
//! order. `other` has what is passed on without being understood.

mod admission;
mod background;
mod call;
mod call_log;
mod caller;
mod client_request;
mod count;
mod echo;
mod gemini;
mod identity;
mod models;
mod own_headers;
mod owned_objects;
mod pass_through;
mod passed_usage;
mod policy;
mod prefix_cache;
mod provider_state;
mod recipient;
mod record;
mod refusal;
mod responses;
mod session;
mod session_placement;
mod tee;
mod upgrade;
mod upstreams;
mod used_keys;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::Method;
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post};

use crate::App;
use crate::auth::ApiCaller;
use crate::problem::HttpProblem;
use call_log::CallLog;
use client_request::{Endpoint, RequestTarget};
use refusal::Speaks;

pub(crate) use admission::TenantSlots;
pub(crate) use background::join_result;
pub(crate) use owned_objects::KnownObjects;
pub(crate) use prefix_cache::RecentRecords;
pub(crate) use provider_state::ThreadMemory;
pub(crate) use record::CallsUnderWay;
pub(crate) use session::session_names;
pub(crate) use upgrade::{refused as websocket_refused, wants_websocket};
pub(crate) use upstreams::{Upstreams, configured, who_answers};

/// Everything below `/v1`.
pub(crate) fn router() -> Router<App> {
    // Another method at a known path is one more request that is passed on.
    let understood =
        |endpoint: Endpoint| post(move |app, request| at(app, endpoint, request)).fallback(other);
    let router = Router::new()
        .route("/chat/completions", understood(Endpoint::Chat))
        .route("/responses", understood(Endpoint::Responses))
        .route("/responses/compact", understood(Endpoint::Compact))
        .route("/responses/{id}", get(response).fallback(other))
        .route("/messages", understood(Endpoint::Messages))
        .route("/messages/count_tokens", understood(Endpoint::CountTokens))
        .route("/models", get(models).fallback(other))
        .fallback(other);
    watched(router, Version::V1)
}

/// Everything below `/v1beta`, where Gemini's clients are.
pub(crate) fn gemini_router() -> Router<App> {
    watched(Router::new().fallback(beta), Version::V1Beta)
}

/// What every call has: a line in the log, and no websocket.
fn watched(router: Router<App>, version: Version) -> Router<App> {
    router
        .layer(middleware::from_fn(upgrade::refuse_websockets))
        .layer(middleware::from_fn(move |request, next| call_log::log_calls(version.prefix(), request, next)))
}

/// The versions of providers' interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    /// Gemini's.
    V1Beta,
}

impl Version {
    /// The beginning of its paths.
    fn prefix(self) -> &'static str {
        match self {
            Version::V1 => "/v1",
            Version::V1Beta => "/v1beta",
        }
    }

    /// The same without the slash.
    fn name(self) -> &'static str {
        self.prefix().trim_start_matches('/')
    }

    /// What is counted under the name of paths that are not understood.
    fn route(self) -> &'static str {
        match self {
            Version::V1 => "/v1/*",
            Version::V1Beta => "/v1beta/*",
        }
    }
}

async fn at(State(app): State<App>, endpoint: Endpoint, request: Request) -> Response {
    let target = RequestTarget::of(endpoint, request.uri().query());
    call(app, target, request).await
}

/// A request that is understood.
async fn call(app: App, target: RequestTarget, request: Request) -> Response {
    let speaks = Speaks::of(target.endpoint.wire());
    let answering = match RequestGuard::begin(&app, target.endpoint.route(), speaks, &request) {
        Ok(answering) => answering,
        Err(refused) => return *refused,
    };
    let answer = match target.endpoint {
        Endpoint::CountTokens | Endpoint::CountContents => count::answer(&app, target, request).await,
        _ => call::answer(&app, target, request).await,
    };
    answering.end(answer)
}

async fn response(State(app): State<App>, Path(id): Path<String>, request: Request) -> Response {
    match RequestGuard::begin(&app, "/v1/responses/{id}", Speaks::Common, &request) {
        Ok(answering) => answering.end(responses::get(&app, &id, request).await),
        Err(refused) => *refused,
    }
}

async fn models(State(app): State<App>, request: Request) -> Response {
    match RequestGuard::begin(&app, "/v1/models", Speaks::Common, &request) {
        Ok(answering) => answering.end(models::answer(&app, Version::V1, request).await),
        Err(refused) => *refused,
    }
}

async fn other(State(app): State<App>, request: Request) -> Response {
    below(app, Version::V1, request).await
}

async fn beta(State(app): State<App>, request: Request) -> Response {
    below(app, Version::V1Beta, request).await
}

/// A path that stands in no table: Gemini's, in which the model is part of the path, or one that is passed on.
async fn below(app: App, version: Version, request: Request) -> Response {
    if *request.method() == Method::POST
        && let Some(target) = gemini::target(version.name(), request.uri())
    {
        return call(app, target, request).await;
    }
    let speaks = if version == Version::V1Beta { Speaks::Gemini } else { Speaks::Common };
    let answering = match RequestGuard::begin(&app, version.route(), speaks, &request) {
        Ok(answering) => answering,
        Err(refused) => return *refused,
    };
    let is_list = version == Version::V1Beta && request.uri().path() == "/models";
    let answer = if is_list && *request.method() == Method::GET {
        models::answer(&app, version, request).await
    } else {
        pass_through::pass(&app, version, request).await
    };
    answering.end(answer)
}

/// A request that is being answered: counted, and told in the form that its client reads.
struct RequestGuard {
    app: App,
    route: &'static str,
    speaks: Speaks,
    log: Option<Arc<CallLog>>,
    began: Instant,
}

impl RequestGuard {
    /// Starts to answer; or the refusal of a request with a header that would do nothing.
    fn begin(
        app: &App,
        route: &'static str,
        speaks: Speaks,
        request: &Request,
    ) -> Result<Self, Box<Response>> {
        let log = request.extensions().get::<Arc<CallLog>>().cloned();
        if let (Some(log), Some(caller)) = (&log, request.extensions().get::<ApiCaller>()) {
            log.note(|facts| facts.tenant = Some(caller.tenant.as_str().to_string()));
        }
        let answering = RequestGuard { app: app.clone(), route, speaks, log, began: Instant::now() };
        match own_headers::check(request.headers()) {
            Ok(()) => Ok(answering),
            Err(problem) => Err(Box::new(answering.end(Err(problem)))),
        }
    }

    fn end(self, answer: Result<Response, HttpProblem>) -> Response {
        let response = answer.unwrap_or_else(|problem| {
            if let Some(log) = &self.log {
                log.note(|facts| facts.code = Some(problem.code));
            }
            refusal::response(&problem, self.speaks)
        });
        let (status, metrics) = (response.status(), &self.app.metrics);
        let labels = [("route", self.route), ("status", status.as_str())];
        metrics.add("scrollback_requests_total", &labels, 1.0);
        let labels = [("part", "head"), ("route", self.route)];
        metrics.time("scrollback_seconds", &labels, self.began.elapsed().as_secs_f64());
        response
    }
}
