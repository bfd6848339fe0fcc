//! Secrets in what the REST API answers: hidden from callers who may only read, shown to administrators who ask, which is logged.

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use scrollback_core::json;
use scrollback_core::redact::Redactor;

use crate::auth::{ApiCaller, KeyScope};
use crate::problem::HttpProblem;

/// What a caller sees of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// Their kinds.
    Redacted,
    /// Everything.
    All,
}

impl Sees {
    /// What a caller sees who asks for nothing special.
    pub(crate) fn of(caller: &ApiCaller) -> Self {
        if caller.scope == KeyScope::Admin { Sees::All } else { Sees::Redacted }
    }
}

/// Takes `reveal` out of the query of a request to the API; an error if the caller may not ask for it.
pub(crate) fn take_reveal(caller: &ApiCaller, uri: Uri) -> Result<Uri, HttpProblem> {
    let Some(query) = uri.query() else { return Ok(uri) };
    let is_reveal = |pair: &&str| *pair == "reveal" || pair.starts_with("reveal=");
    let Some(wish) = query.split('&').find(is_reveal) else { return Ok(uri) };
    if !matches!(wish, "reveal=0" | "reveal=false") {
        if caller.scope != KeyScope::Admin {
            let detail = "only a key with scope admin may see secrets: leave `reveal` out";
            return Err(HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", detail));
        }
        log_reveal(caller, uri.path());
    }
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_reveal(pair)).collect();
    let path = uri.path();
    let left = if rest.is_empty() { path.to_string() } else { format!("{path}?{}", rest.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = left.parse().ok();
    Ok(Uri::from_parts(parts).unwrap_or(uri))
}

/// Notes who asked to see secrets, and where.
pub(crate) fn log_reveal(caller: &ApiCaller, path: &str) {
    let key = caller.key.as_ref().map_or("none", |key| key.name.as_str());
    tracing::info!(tenant = caller.tenant.as_str(), key, path, "secrets were revealed");
}

/// An answer without secrets.
pub(crate) async fn redacted(response: Response, redactor: &Redactor) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    // Events name conversations and positions, never texts, and have no end.
    if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        let detail = "the answer could not be finished";
        return HttpProblem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response();
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(without_secrets(bytes, redactor)))
}

/// A text of one JSON value, or of one a line, without the secrets in its strings.
fn without_secrets(bytes: Bytes, redactor: &Redactor) -> Bytes {
    let Ok(text) = std::str::from_utf8(&bytes) else { return bytes };
    let change = |text: &str| {
        let redacted = redactor.text(text);
        (!redacted.spans.is_empty()).then(|| redacted.text.into_owned())
    };
    if let Ok(raw) = json::check(text) {
        return json::map_strings(raw, change).map_or(bytes.clone(), Bytes::from);
    }
    let line = |line: &str| match json::check(line) {
        Ok(raw) => json::map_strings(raw, change).unwrap_or_else(|| line.to_string()),
        Err(_) => redactor.text(line).text.into_owned(),
    };
    let lines: Vec<String> = text.split('\n').map(line).collect();
    Bytes::from(lines.join("\n"))
}
