//! How many tokens a request would have: those of the view that would be sent. Nothing is recorded.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use scrollback_core::request::{Prepared, RequestTokens};
use scrollback_core::wire::Wire;
use scrollback_core::{Record, View};
use serde_json::json;

use super::background::offload;
use super::call::ProxyCall;
use super::caller::told;
use super::client_request::{ClientRequest, RequestTarget};
use super::identity::{self, Carries, Seeking};
use super::pass_through::{PassedCall, hand_on};
use super::policy::{CallPlan, not_prepared, policy};
use super::prefix_cache::size;
use super::provider_state::ProviderState;
use super::record::news;
use super::session::RequestOrigin;
use super::upstreams::Answerer;
use crate::App;
use crate::problem::HttpProblem;

/// Answers `count_tokens`. The header with the view has the count of the whole record too.
pub(super) async fn answer(
    app: &App,
    target: RequestTarget,
    request: Request,
) -> Result<Response, HttpProblem> {
    let (call, asked) = ProxyCall::begin(app, target, request).await?;
    let origin = RequestOrigin::of(&call.caller, &call.headers, &asked, &app.settings.recipient_from)?;
    let carries = identity::carries(&call.headers, &origin)?;
    let policy = policy(&app.settings, &call.caller.tenant, &call.headers, &asked)?;
    call.owns_previous(&asked).await?;
    let record = as_if_recorded(&call, &asked, &origin, carries).await?;
    let state = ProviderState::of(&call, &asked).await?;
    let plan = Arc::new(CallPlan::new(app, &call.caller.tenant, asked, origin, carries, policy, state));
    let bytes = record.slots().iter().map(size).sum();
    let counting = Arc::clone(&plan);
    let prepared = offload(bytes, move || {
        let mut prepared = counting.prepared_to_count(&record).map_err(|error| not_prepared(&error))?;
        let cx = &counting.cx;
        prepared.tokens.get_or_insert_with(|| RequestTokens::of(&View::of(&record, cx), cx));
        Ok::<_, HttpProblem>(prepared)
    });
    let prepared = prepared.await??;
    let told = told(&call, &plan.asked, None, &prepared);
    match &call.answerer {
        Answerer::Echo => Ok(counted(plan.asked.wire(), &prepared, told)),
        Answerer::Upstream(upstream, credential) => {
            let timeout = app.settings.limits.first_byte;
            let request = call.passed(&plan.asked, &prepared, credential, timeout);
            let (app, upstream) = (app.clone(), upstream.clone());
            let turn = app.upstream_turns.take(&call.caller.tenant).await;
            hand_on(&app, &upstream, request, told, PassedCall { held: (turn, call), usage: None }).await
        }
    }
}

fn counted(wire: Wire, prepared: &Prepared, told: HeaderMap) -> Response {
    let tokens = prepared.tokens.unwrap_or_default();
    let key = if wire == Wire::Gemini { "totalTokens" } else { "input_tokens" };
    let body = json!({ key: tokens.total }).to_string();
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().extend(told);
    response
}

/// The record as it would be.
async fn as_if_recorded(
    call: &ProxyCall,
    asked: &ClientRequest,
    origin: &RequestOrigin,
    carries: Carries,
) -> Result<Record, HttpProblem> {
    let (app, tenant, headers) = (&call.app, &call.caller.tenant, &call.headers);
    let place =
        Seeking { app, tenant, headers, asked, origin, carries, strangers: call.strangers() }.find().await?;
    let now = app.now();
    let known = &place.known.record;
    let new = news(known, asked, &place.alignment, scrollback_store::new_evaluation(), now);
    let mut record = Record::new();
    for slot in known.slots().iter().cloned().chain(new) {
        record.take(slot).map_err(|error| HttpProblem::bad_request("bad_input", error.to_string()))?;
    }
    if matches!(place.start, identity::Precondition::Append { .. }) {
        app.lately.keep(&call.caller.tenant, &place.conversation, place.known);
    }
    Ok(record)
}
