//! What went wrong in a reply, in the provider's own words.

use std::fmt;

use serde::Serialize;

use super::{number, text};
use crate::json::{JsonKind, Raw};

/// What went wrong in a reply: an error the provider reported, or a stream that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamError {
    /// The class of the error in the provider's word (`overloaded_error`), or ours: `malformed_stream`, `no_reply`.
    pub kind: String,
    /// The provider's narrower word, where there is one (`context_length_exceeded`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The provider's own text, or one line of ours.
    pub message: String,
    /// The HTTP status the error would have had outside a stream, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Who noticed it.
    #[serde(skip)]
    pub origin: StreamErrorOrigin,
}

/// Who noticed a [`StreamError`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamErrorOrigin {
    /// The provider reported it.
    #[default]
    Provider,
    /// We did: the stream cannot be read.
    Malformed,
    /// We did: the body holds no reply.
    NoReply,
}

/// The HTTP status of each word a provider has for an error.
const STATUSES: [(&str, u16); 27] = [
    // Anthropic
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
    // OpenAI
    ("invalid_prompt", 400),
    ("context_length_exceeded", 400),
    ("invalid_api_key", 401),
    ("model_not_found", 404),
    ("rate_limit_exceeded", 429),
    ("insufficient_quota", 429),
    ("server_error", 500),
    ("server_is_overloaded", 503),
    ("slow_down", 503),
    // Bedrock
    ("ValidationException", 400),
    ("AccessDeniedException", 403),
    ("ResourceNotFoundException", 404),
    ("ModelTimeoutException", 408),
    ("ThrottlingException", 429),
    ("InternalServerException", 500),
    ("ServiceUnavailableException", 503),
    ("ModelErrorException", 424),
];

impl StreamError {
    /// Reads an error as any of the providers writes it: an object, or just its text.
    pub(super) fn read(error: Raw<'_>) -> Self {
        if error.kind() != JsonKind::Object {
            let message =
                error.string().map_or_else(|| error.text().to_string(), std::borrow::Cow::into_owned);
            let origin = StreamErrorOrigin::Provider;
            return StreamError { kind: "error".into(), code: None, message, status: None, origin };
        }
        let word = |key: &str| text(error.get(key));
        // Anthropic has its narrower words among the details.
        let code = word("code").or_else(|| text(error.get("details")?.get("error_code")));
        let class = word("type").filter(|class| class != "error");
        // Google has its class in `status`, AWS in `__type`, behind the name of a schema.
        let aws = word("__type").map(|name| name.rsplit('#').next().unwrap_or_default().to_string());
        let kind = class.or_else(|| word("status")).or(aws).or_else(|| code.clone());
        let kind = kind.unwrap_or_else(|| "error".into());
        let code = code.filter(|code| *code != kind);
        let numbered = ["code", "status_code", "status"].iter().find_map(|key| number(error.get(key)));
        let status = numbered
            .filter(|status| (400..600).contains(status))
            .map(|status| status as u16)
            .or_else(|| code.as_deref().and_then(status_of))
            .or_else(|| status_of(&kind));
        let message = ["message", "Message", "detail"].iter().find_map(|key| word(key));
        let message = message.unwrap_or_else(|| kind.clone());
        StreamError { kind, code, message, status, origin: StreamErrorOrigin::Provider }
    }

    /// A stream that is not what it should be.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        StreamError {
            kind: "malformed_stream".into(),
            code: None,
            message: message.into(),
            status: None,
            origin: StreamErrorOrigin::Malformed,
        }
    }

    /// A body with nothing in it that could be a reply.
    pub(super) fn no_reply(wire: crate::wire::Wire) -> Self {
        let message = format!("the body holds no reply in the {wire} format");
        let origin = StreamErrorOrigin::NoReply;
        StreamError { kind: "no_reply".into(), code: None, message, status: None, origin }
    }
}

fn status_of(word: &str) -> Option<u16> {
    STATUSES.iter().find(|(known, _)| *known == word).map(|(_, status)| *status)
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for StreamError {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json;

    #[test]
    fn every_providers_error_is_read() {
        let cases = [
            (r#"{"type":"overloaded_error","message":"Overloaded"}"#, "overloaded_error", None, Some(529)),
            (
                r#"{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}"#,
                "invalid_request_error",
                Some("context_length_exceeded"),
                Some(400),
            ),
            (
                r#"{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}"#,
                "RESOURCE_EXHAUSTED",
                None,
                Some(429),
            ),
            (r#"{"code":"server_error","message":"m"}"#, "server_error", None, Some(500)),
            (
                r#"{"type":"not_found_error","message":"m","details":{"error_code":"thread_not_found"}}"#,
                "not_found_error",
                Some("thread_not_found"),
                Some(404),
            ),
            (
                r#"{"__type":"com.amazon#ThrottlingException","message":"m"}"#,
                "ThrottlingException",
                None,
                Some(429),
            ),
            (r#"{"message":"m","type":"x","status_code":418}"#, "x", None, Some(418)),
            (r#""just words""#, "error", None, None),
            ("{}", "error", None, None),
        ];
        for (raw, kind, code, status) in cases {
            let error = StreamError::read(json::check(raw).unwrap());
            assert_eq!(
                (error.kind.as_str(), error.code.as_deref(), error.status),
                (kind, code, status),
                "{raw}"
            );
            assert!(!error.message.is_empty(), "{raw}");
        }
    }
}
