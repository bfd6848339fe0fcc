//! Clients that would rather speak over a websocket: told at once to use HTTP.
//!
//! Some clients open a websocket first and fall back to HTTP when they are answered 426; Codex does. Any other answer would
//! make them try again, or fail.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::refusal::{self, Speaks};
use crate::problem::HttpProblem;

/// Refuses websockets, before anything is read, asked or recorded.
pub(super) async fn refuse_websockets(request: Request, next: Next) -> Response {
    if wants_websocket(request.headers()) { refused() } else { next.run(request).await }
}

/// Whether a request asks for a websocket.
pub(crate) fn wants_websocket(headers: &HeaderMap) -> bool {
    let stated = headers.get_all(header::UPGRADE).iter().filter_map(|value| value.to_str().ok());
    stated.flat_map(|value| value.split(',')).any(|protocol| {
        protocol.split('/').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("websocket"))
    })
}

/// The answer: this resource is served over HTTP.
pub(crate) fn refused() -> Response {
    let detail = "websockets are not served here: send the request by POST over HTTP, and read the reply as an event stream";
    let problem = HttpProblem::new(StatusCode::UPGRADE_REQUIRED, "no_websocket", detail);
    let mut response = refusal::response(&problem, Speaks::Common);
    let headers = response.headers_mut();
    // What the client is to use instead; such an answer must say so (RFC 9110, 15.5.22).
    headers.insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
