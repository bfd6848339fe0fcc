//! How many tokens a request would have: those of the view that would be sent. Nothing is recorded.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use scrollback_agent::provider::PassedRequest;
use scrollback_core::Record;
use serde_json::json;

use super::aside::aside;
use super::asked::{Asked, Endpoint};
use super::call::Call;
use super::identity::{self, Carries};
use super::known::size;
use super::other::hand_on;
use super::record::{news, slots};
use super::upstreams::{Answerer, passed_on};
use super::view::{Curating, Outgoing, policy};
use crate::App;
use crate::problem::Problem;

/// Answers `count_tokens`. The header with the view has the count of the whole record too.
pub(super) async fn answer(app: &App, request: Request) -> Result<Response, Problem> {
    let (call, asked) = Call::begin(app, Endpoint::CountTokens, request).await?;
    let carries = identity::carries(&call.headers, &asked)?;
    let policy = policy(&app.settings, &call.caller.tenant, &call.headers, &asked)?;
    let record = as_if_recorded(&call, &asked, carries).await?;
    let curating = Arc::new(Curating::new(app, asked, carries, policy));
    let bytes = record.slots().iter().map(size).sum();
    let shown = {
        let curating = Arc::clone(&curating);
        move || {
            let mut outgoing = curating.rendered(&record)?;
            outgoing.told.tokens.get_or_insert_with(|| curating.counted(&record));
            Ok::<_, Problem>(outgoing)
        }
    };
    let (asked, outgoing) = (&curating.asked, aside(bytes, shown).await??);
    let told = call.told(asked, None, &outgoing);
    match &call.answerer {
        Answerer::Echo => Ok(counted(&outgoing, told)),
        Answerer::Upstream(upstream, credential) => {
            let mut headers = passed_on(&call.headers);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let request = PassedRequest {
                method: Method::POST,
                path: asked.path(),
                headers,
                body: outgoing.body.clone(),
                credential: credential.clone(),
                timeout: app.settings.limits.first_byte,
            };
            hand_on(app, upstream, request, told).await
        }
    }
}

fn counted(outgoing: &Outgoing, told: HeaderMap) -> Response {
    let body = json!({ "input_tokens": outgoing.tokens() }).to_string();
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().extend(told);
    response
}

/// The record as it would be.
async fn as_if_recorded(call: &Call, asked: &Asked, carries: Carries) -> Result<Record, Problem> {
    let app = &call.app;
    let place = identity::find(app, &call.caller.tenant, &call.headers, asked, carries).await?;
    let now = app.now();
    let known = &place.known.record;
    let new = news(known, asked, place.covered, scrollback_store::new_evaluation(), now);
    let mut record = Record::new();
    for slot in known.slots().iter().cloned().chain(slots(&new, now)) {
        record.take(slot).map_err(|error| Problem::bad_request("bad_input", error.to_string()))?;
    }
    if matches!(place.start, identity::Start::Append) {
        app.lately.keep(&call.caller.tenant, &place.conversation, place.known);
    }
    Ok(record)
}
