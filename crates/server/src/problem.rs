//! What went wrong, as programs and people read it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use scrollback_store::{ErrorKind, StoreError};
use serde_json::{Map, Value, json};

/// What went wrong: `application/problem+json` with a `type` that stays.
#[derive(Clone, Debug)]
pub struct HttpProblem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The word programs act on; the end of `type`.
    pub code: &'static str,
    /// One line that says what, which and what to do next; never the text of a conversation.
    pub detail: String,
    /// Anything else worth knowing.
    pub more: Box<Map<String, Value>>,
    /// When to try again, in seconds.
    pub retry_after: Option<u64>,
}

impl HttpProblem {
    /// A problem of that status and code.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        HttpProblem { status, code, detail: detail.into(), more: Box::default(), retry_after: None }
    }

    /// A request that cannot be meant.
    pub fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        HttpProblem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// Nothing of that name, in this tenant.
    pub fn not_found(what: &str) -> Self {
        HttpProblem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }

    /// The same with another member.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.more.insert(key.into(), value.into());
        self
    }

    /// The same with a time to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The URI that names the kind of problem.
    pub fn kind(&self) -> String {
        format!("urn:scrollback:problem:{}", self.code)
    }

    /// The response with a body of another form.
    pub(crate) fn respond(&self, content_type: &'static str, body: &Value) -> Response {
        let mut response = (self.status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for HttpProblem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": self.kind(),
            "title": self.code.replace('_', " "),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Some(members) = body.as_object_mut() {
            members.extend(*self.more.clone());
        }
        self.respond("application/problem+json", &body)
    }
}

impl From<StoreError> for HttpProblem {
    fn from(error: StoreError) -> Self {
        let status = match error.kind() {
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Erased => StatusCode::GONE,
            ErrorKind::Conflict | ErrorKind::Exists | ErrorKind::Stale | ErrorKind::Busy => {
                StatusCode::CONFLICT
            }
            ErrorKind::SequenceGap | ErrorKind::BadDecision | ErrorKind::BadText | ErrorKind::BadArgument => {
                StatusCode::BAD_REQUEST
            }
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            // The store cannot be opened, read or written.
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut problem = HttpProblem::new(status, error.code(), error.to_string());
        if error.kind() == ErrorKind::Overloaded {
            problem = problem.retry_after(1);
        }
        match error.heads() {
            Some((expected, actual)) => problem.with("expected", expected).with("actual", actual),
            None => problem,
        }
    }
}
