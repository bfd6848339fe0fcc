//! `/mcp`: the recall tools over streamable HTTP, with the keys and tenants of the REST API.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::{RecallServer, Whereabouts};
use crate::proxy::session_names;
use crate::secrets::Sees;
use crate::{ApiCaller, App, HttpProblem};

/// Most bytes of a request. Arguments are short; a longer query is refused with a sentence rather than an error of the protocol.
const BODY: usize = 4 * 1024 * 1024;

pub(crate) fn router() -> Router<App> {
    Router::new().route("/mcp", any(take))
}

async fn take(State(app): State<App>, caller: ApiCaller, request: Request) -> Result<Response, HttpProblem> {
    caller.may_read()?;
    let server = RecallServer {
        store: Arc::clone(&app.store),
        tenant: caller.tenant.clone(),
        clock: Arc::clone(&app.clock),
        whereabouts: Whereabouts::Named(names(request.headers())),
        redactor: (Sees::of(&caller) == Sees::Redacted).then(|| Arc::clone(&app.redactor)),
        writes: app.settings.recall_writes && caller.may_write().is_ok(),
    };
    // Host and origin were looked at by the gate, as for every request.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(BODY);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    Ok(service.handle(request).await.into_response())
}

/// What the headers of a client call its session: ours first, then those of clients that the proxy knows.
fn names(headers: &HeaderMap) -> Vec<String> {
    let ours = headers.get("x-scrollback-session").and_then(|value| value.to_str().ok());
    let names = ours.into_iter().chain(session_names(headers));
    names.filter(|name| !name.is_empty()).map(String::from).collect()
}
