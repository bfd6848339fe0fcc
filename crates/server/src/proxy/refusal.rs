//! What went wrong, in the form that a provider's client reads.

use axum::http::StatusCode;
use axum::response::Response;
use scrollback_core::wire::Wire;
use serde_json::{Value, json};

use crate::problem::HttpProblem;

/// Whose form of errors a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// That of `OpenAI` and Anthropic: their packages find the message, the kind and the code in one body.
    Common,
    /// Google's.
    Gemini,
}

impl Speaks {
    /// What clients of a wire read.
    pub(crate) fn of(wire: Wire) -> Self {
        if wire == Wire::Gemini { Speaks::Gemini } else { Speaks::Common }
    }
}

/// The response to a client.
pub(crate) fn response(problem: &HttpProblem, speaks: Speaks) -> Response {
    problem.respond("application/json", &body(problem, speaks))
}

/// Its body.
pub(crate) fn body(problem: &HttpProblem, speaks: Speaks) -> Value {
    match speaks {
        Speaks::Common => common(problem),
        Speaks::Gemini => gemini(problem),
    }
}

fn common(problem: &HttpProblem) -> Value {
    let kind = match problem.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    let param = problem.more.get("path").cloned().unwrap_or(Value::Null);
    let mut error = json!({ "type": kind, "code": problem.code, "message": problem.detail, "param": param });
    if let Some(members) = error.as_object_mut() {
        members.extend(*problem.more.clone());
    }
    json!({ "type": "error", "error": error })
}

/// Google's form (`google.rpc.Status`); our own code stands in the details, as the reason.
fn gemini(problem: &HttpProblem) -> Value {
    let status = match problem.status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "PERMISSION_DENIED",
        StatusCode::NOT_FOUND => "NOT_FOUND",
        StatusCode::CONFLICT => "ABORTED",
        StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => "DEADLINE_EXCEEDED",
        StatusCode::INTERNAL_SERVER_ERROR => "INTERNAL",
        status if status.is_server_error() => "UNAVAILABLE",
        _ => "INVALID_ARGUMENT",
    };
    let info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": problem.code.to_ascii_uppercase(), "domain": "scrollback", "metadata": &*problem.more,
    });
    let code = problem.status.as_u16();
    json!({ "error": { "code": code, "message": problem.detail, "status": status, "details": [info] } })
}
