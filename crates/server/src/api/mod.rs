//! The REST API: one table of operations, from which both the router and the `OpenAPI` document are made.
//!
//! An `Operation` is a row: verb, path, what is asked, what is answered, who answers. Shapes are Rust types, so the
//! document cannot say anything else than what is sent. Everything is looked up inside the caller's tenant.

mod calls;
mod conversations;
mod entries;
mod events;
mod openapi;
mod operation;
mod recipients;
mod runs;
mod search;
mod server;
mod sessions;
pub(crate) mod shapes;
mod simulate;
mod transfer;
mod views;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get};
use serde_json::Value;

use crate::secrets::{self, Sees};
use crate::{ApiCaller, App, HttpProblem};
pub(crate) use conversations::status_named;
use operation::{ApiRequest, Operation, RequestBody, Right, Verb};
pub(crate) use recipients::{EraseRecipientAnswer, erase_recipient};
pub(crate) use runs::run_status_named;
pub(crate) use search::role_named;
pub(crate) use simulate::{Candidates, Compared, Losses, MOST_ENTRIES, Replayed, compare_all};

/// Everything the API does.
pub(crate) fn operations() -> Vec<Operation> {
    [conversations::operations(), entries::operations(), views::operations(), calls::operations()]
        .into_iter()
        .chain([search::operations(), runs::operations(), transfer::operations(), simulate::operations()])
        .chain([events::operations(), server::operations(), sessions::operations(), recipients::operations()])
        .flatten()
        .collect()
}

/// The `OpenAPI` document of the API.
pub fn document() -> Value {
    openapi::document(&operations())
}

/// Everything below `/api`.
pub fn router() -> Router<App> {
    let document = document().to_string();
    let mut paths: BTreeMap<&'static str, MethodRouter<App>> = BTreeMap::new();
    for operation in operations() {
        let filter = match operation.verb {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
        };
        let (path, operation) = (operation.path, Arc::new(operation));
        let handler = move |state: State<App>,
                            caller: ApiCaller,
                            path: Path<HashMap<String, String>>,
                            request: Request<Body>| {
            answer(Arc::clone(&operation), state, caller, path, request)
        };
        let methods = paths.remove(path).unwrap_or_default();
        paths.insert(path, methods.on(filter, handler));
    }
    let mut router = Router::new().route(
        "/openapi.json",
        get(move || async move { ([(header::CONTENT_TYPE, "application/json")], document) }),
    );
    for (path, methods) in paths {
        router = router.route(path, methods.fallback(not_so));
    }
    router.fallback(|| async { HttpProblem::not_found("path in the API; /api/openapi.json lists them all") })
}

async fn not_so() -> HttpProblem {
    HttpProblem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path does not take that method",
    )
}

/// Lets the caller in, reads the body, and has the operation answer.
async fn answer(
    operation: Arc<Operation>,
    State(app): State<App>,
    caller: ApiCaller,
    Path(path): Path<HashMap<String, String>>,
    request: Request<Body>,
) -> Response {
    let answered = async {
        match operation.right {
            Right::Read => caller.may_read()?,
            Right::Write => caller.may_write()?,
        }
        let _seat = app.api_room.enter(&caller.tenant, app.settings.limits.concurrent)?;
        let (mut parts, body) = request.into_parts();
        parts.uri = secrets::take_reveal(&caller, parts.uri)?;
        let mut share = app.memory.share(&caller.tenant);
        let body = match operation.given {
            RequestBody::Nothing => axum::body::Bytes::new(),
            RequestBody::Json(_) | RequestBody::Bytes => {
                crate::body::read(body, &parts.headers, &app.settings.limits, &mut share).await?
            }
        };
        let (redactor, sees) = (Arc::clone(&app.redactor), Sees::of(&caller));
        let asking = ApiRequest { app, caller, path, uri: parts.uri, headers: parts.headers, body };
        let answer = (operation.run)(asking).await?;
        Ok::<_, HttpProblem>(match sees {
            Sees::All => answer,
            Sees::Redacted => secrets::redacted(answer, &redactor).await,
        })
    };
    answered.await.unwrap_or_else(IntoResponse::into_response)
}
