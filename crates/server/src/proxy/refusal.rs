//! What went wrong, in the form that a provider's client reads.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::problem::Problem;

/// The response to a client of any provider: both `OpenAI`'s and Anthropic's packages find the message, the kind and the
/// code where they look for them.
pub(crate) fn response(problem: &Problem) -> Response {
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
    problem.respond("application/json", &json!({ "type": "error", "error": error }))
}
