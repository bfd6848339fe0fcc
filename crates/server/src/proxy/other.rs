//! What is passed on without being understood, and the list of models.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use scrollback_agent::exchange::send_on;
use scrollback_agent::provider::{ErrorKind, PassedRequest, Upstream};
use scrollback_core::model::Provider;
use serde_json::json;

use super::tee::pipe;
use super::upstreams::{Answerer, answerer, passed_back, passed_on};
use crate::auth::{Caller, unknown};
use crate::problem::Problem;
use crate::{App, body, quota};

/// Passes a request on as it is, and its reply back.
pub(super) async fn pass(app: &App, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(unknown)?;
    caller.may_call()?;
    let _seat = app.room.enter(&caller.tenant, app.settings.limits.concurrent)?;
    quota::admit(app, &caller).await?;
    // The router took the version off.
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let path = path.strip_prefix('/').unwrap_or_default().to_string();
    if path.starts_with("v1/") {
        let detail =
            "the path has /v1 twice: the base URL of Anthropic's clients is this server's without /v1";
        return Err(Problem::new(StatusCode::NOT_FOUND, "bad_base_url", detail));
    }
    let body = body::read(body, &parts.headers, &app.settings.limits).await?;
    match who(app, &parts.headers)? {
        Answerer::Echo => {
            let detail = format!("no provider is configured that would answer {} /v1/{path}", parts.method);
            Err(Problem::new(StatusCode::NOT_FOUND, "no_provider", detail))
        }
        Answerer::Upstream(upstream, credential) => {
            let request = PassedRequest {
                method: parts.method,
                path,
                headers: passed_on(&parts.headers),
                body,
                credential,
                timeout: app.settings.limits.stream,
            };
            hand_on(app, &upstream, request, HeaderMap::new()).await
        }
    }
}

/// Whose client it is: Anthropic's say so.
fn who(app: &App, headers: &HeaderMap) -> Result<Answerer, Problem> {
    let anthropic = headers.contains_key("anthropic-version") || headers.contains_key("x-api-key");
    let provider = if anthropic { Provider::Anthropic } else { Provider::OpenAi };
    let upstream = app.upstreams.get(&app.catalog, provider, "");
    let upstream =
        upstream.map_err(|error| Problem::new(StatusCode::BAD_GATEWAY, error.code(), error.to_string()))?;
    Ok(answerer(upstream, None, headers, app.address))
}

/// Sends a request on and hands back what comes, while it comes.
pub(super) async fn hand_on(
    app: &App,
    upstream: &Upstream,
    request: PassedRequest,
    told: HeaderMap,
) -> Result<Response, Problem> {
    let mut passed = send_on(upstream, request).await.map_err(|error| {
        let (status, code) = match error.kind {
            ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
            ErrorKind::InvalidRequest => (StatusCode::BAD_REQUEST, "bad_path"),
            _ => (StatusCode::BAD_GATEWAY, "upstream_unreachable"),
        };
        Problem::new(status, code, error.to_string())
    })?;
    let (pipe, piped) = pipe();
    let mut response = Response::new(Body::new(piped));
    *response.status_mut() = passed.status;
    *response.headers_mut() = passed_back(&passed.headers);
    response.headers_mut().extend(told);
    let idle = app.settings.limits.stream_idle;
    tokio::spawn(async move {
        loop {
            match tokio::time::timeout(idle, passed.next()).await {
                Ok(Some(Ok(bytes))) => {
                    if !pipe.give(bytes, idle).await {
                        return;
                    }
                }
                Ok(None) => return,
                Ok(Some(Err(_))) | Err(_) => return pipe.cut().await,
            }
        }
    });
    Ok(response)
}

/// The provider's models, or those that are configured here. Both providers' packages read the list.
pub(super) async fn models(app: &App, request: Request) -> Result<Response, Problem> {
    let caller = request.extensions().get::<Caller>().cloned().ok_or_else(unknown)?;
    caller.may_call()?;
    if let Answerer::Upstream(..) = who(app, request.headers())? {
        return pass(app, request).await;
    }
    let now = app.now();
    let names = app.catalog.model_names().into_iter().chain(std::iter::once("offline:echo".to_string()));
    let list: Vec<_> = names
        .map(|name| {
            let id = name.strip_prefix("openai-compatible:").unwrap_or(&name).to_string();
            json!({
                "id": id, "object": "model", "type": "model", "display_name": id, "owned_by": "scrollback",
                "created": now.0 / 1000, "created_at": now.to_string(),
            })
        })
        .collect();
    let ids = |at: Option<&serde_json::Value>| at.map(|model| model["id"].clone());
    let body = json!({
        "object": "list", "has_more": false, "first_id": ids(list.first()), "last_id": ids(list.last()), "data": list,
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response())
}
