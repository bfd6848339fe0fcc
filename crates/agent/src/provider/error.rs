//! What a provider answers instead of a reply, in one vocabulary.

use std::fmt;
use std::time::Duration;

use scrollback_core::json;
use scrollback_core::stream::{Reply, StreamError, StreamErrorOrigin};
use scrollback_core::wire::Wire;

/// What went wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// Which kind it is.
    pub kind: ErrorKind,
    /// One line for people; never a key.
    pub message: String,
    /// The HTTP status, or the one it would have had.
    pub status: Option<u16>,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
    /// What the provider sent, where it sent something; never a key.
    pub raw: Option<String>,
}

/// The kinds of [`ProviderError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Too many requests.
    RateLimit,
    /// The provider cannot cope, or is broken.
    Overloaded,
    /// It took too long.
    Timeout,
    /// There was no answer.
    Network,
    /// There is no money left.
    QuotaExhausted,
    /// The key is missing or wrong.
    Auth,
    /// The request was refused.
    InvalidRequest,
    /// The request is larger than the model's window.
    ContextOverflow(Overflow),
    /// The request goes on from something that the provider no longer holds.
    StateLost,
    /// The request goes on from something, and the provider keeps no such things.
    StateUnsupported,
    /// The request or the reply was held back.
    ContentFilter,
    /// The reply broke off.
    Truncated,
    /// An answer without a message.
    NoReply,
    /// A script expected another request.
    ScriptMismatch,
    /// A script has no more replies.
    ScriptExhausted,
    /// Unknown.
    Unknown,
}

/// Sizes in tokens, where the provider states them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflow {
    /// What the model takes.
    pub limit: Option<u64>,
    /// What it was sent.
    pub size: Option<u64>,
}

impl ErrorKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::RateLimit => "rate_limit",
            ErrorKind::Overloaded => "overloaded",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Network => "network",
            ErrorKind::QuotaExhausted => "quota_exhausted",
            ErrorKind::Auth => "auth",
            ErrorKind::InvalidRequest => "invalid_request",
            ErrorKind::ContextOverflow(_) => "context_overflow",
            ErrorKind::StateLost => "state_lost",
            ErrorKind::StateUnsupported => "state_unsupported",
            ErrorKind::ContentFilter => "content_filter",
            ErrorKind::Truncated => "truncated",
            ErrorKind::NoReply => "no_reply",
            ErrorKind::ScriptMismatch => "script_mismatch",
            ErrorKind::ScriptExhausted => "script_exhausted",
            ErrorKind::Unknown => "unknown",
        }
    }

    /// The kind of that name, as scripts write it.
    pub fn named(name: &str) -> Option<Self> {
        ErrorKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Every kind a provider's error may be of.
    pub const ALL: [ErrorKind; 13] = [
        ErrorKind::RateLimit,
        ErrorKind::Overloaded,
        ErrorKind::Timeout,
        ErrorKind::Network,
        ErrorKind::QuotaExhausted,
        ErrorKind::Auth,
        ErrorKind::InvalidRequest,
        ErrorKind::ContextOverflow(Overflow { limit: None, size: None }),
        ErrorKind::StateLost,
        ErrorKind::StateUnsupported,
        ErrorKind::ContentFilter,
        ErrorKind::Truncated,
        ErrorKind::Unknown,
    ];

    /// Whether the same request may be sent again without doing harm. One that broke off may as long as no one was
    /// shown any of it, which only the caller knows.
    pub fn is_retry_safe(self) -> bool {
        use ErrorKind::{Network, Overloaded, RateLimit, Timeout};
        matches!(self, RateLimit | Overloaded | Timeout | Network)
    }
}

impl ProviderError {
    /// An error of our own observation.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ProviderError { kind, message: message.into(), status: None, retry_after: None, raw: None }
    }

    /// The error in an HTTP response with a status other than success.
    pub fn of_answer(wire: Wire, status: u16, retry_after: Option<Duration>, body: &str) -> Self {
        let told = json::check(body).ok().and_then(|body| Reply::from_body(wire, body).problem);
        let told = told.unwrap_or_else(|| StreamError {
            kind: String::new(),
            code: None,
            message: body.trim().chars().take(300).collect(),
            status: None,
            origin: StreamErrorOrigin::Provider,
        });
        let mut error = ProviderError::reported(&StreamError { status: Some(status), ..told });
        error.retry_after = retry_after;
        error.raw = Some(body.to_string()).filter(|body| !body.is_empty());
        error
    }

    /// The error a provider reported inside a reply.
    pub fn reported(told: &StreamError) -> Self {
        let kind = kind_of(told);
        let words = if told.message.is_empty() { &told.kind } else { &told.message };
        let message = match told.status {
            Some(status) if words.is_empty() => format!("the provider answered {status}"),
            Some(status) => format!("the provider answered {status}: {words}"),
            None => format!("the provider reported: {words}"),
        };
        ProviderError { kind, message, status: told.status, retry_after: None, raw: None }
    }

    /// The same without a secret, wherever the provider repeats it.
    #[must_use]
    pub fn without(mut self, secret: &str) -> Self {
        const REDACTED: &str = "[redacted:configured]";
        if !secret.is_empty() {
            self.message = self.message.replace(secret, REDACTED);
            self.raw = self.raw.map(|raw| raw.replace(secret, REDACTED));
        }
        self
    }
}

fn kind_of(told: &StreamError) -> ErrorKind {
    let text = told.message.to_ascii_lowercase();
    let words = [told.kind.as_str(), told.code.as_deref().unwrap_or_default()];
    let is = |word: &str| words.contains(&word);
    if let Some(overflow) = overflow(&text, &words, told.status) {
        return ErrorKind::ContextOverflow(overflow);
    }
    if is("insufficient_quota") || is("billing_error") || told.status == Some(402) {
        return ErrorKind::QuotaExhausted;
    }
    if is("content_filter") || is("content_policy_violation") {
        return ErrorKind::ContentFilter;
    }
    if let Some(kind) = state(&text, &words, told.status) {
        return kind;
    }
    match told.status {
        None if told.origin == StreamErrorOrigin::Malformed => ErrorKind::Truncated,
        None if told.origin == StreamErrorOrigin::NoReply => ErrorKind::NoReply,
        Some(401 | 403) => ErrorKind::Auth,
        Some(408 | 504) => ErrorKind::Timeout,
        Some(429) => ErrorKind::RateLimit,
        Some(500..) => ErrorKind::Overloaded,
        Some(400..) => ErrorKind::InvalidRequest,
        _ => ErrorKind::Unknown,
    }
}

/// The codes with which providers say that they do not hold what a request goes on from.
const LOST: [&str; 2] = ["thread_not_found", "previous_response_not_found"];
/// How they say so in words, where they give no code.
const LOST_WORDS: [(&str, &str); 4] = [
    ("no thread state was found", ""),
    ("previous response with id", "not found"),
    ("item with id", "not found"),
    ("conversation with id", "not found"),
];
/// The members by which a request goes on from something.
const STATEFUL: [&str; 3] = ["thread", "previous_response_id", "item_reference"];
/// How providers say that they do not know a member of a request.
const UNKNOWN_MEMBER: [&str; 8] = [
    "extra inputs are not permitted",
    "extra fields not permitted",
    "unknown parameter",
    "unrecognized",
    "unexpected keyword",
    "unknown field",
    "unsupported parameter",
    "not supported",
];

/// What is wrong with what a request goes on from; none if that is not what is wrong. The codes that ask the client itself to
/// act otherwise (`thread_already_continued` and the like) are the client's.
fn state(text: &str, words: &[&str], status: Option<u16>) -> Option<ErrorKind> {
    if !matches!(status, None | Some(400 | 404 | 409 | 410 | 422)) {
        return None;
    }
    let says = |(start, end): &(&str, &str)| text.contains(start) && text.contains(end);
    if words.iter().any(|word| LOST.contains(word)) || LOST_WORDS.iter().any(says) {
        return Some(ErrorKind::StateLost);
    }
    let of_the_client = words.iter().any(|word| word.starts_with("thread_"));
    let names = STATEFUL.iter().any(|member| text.split(|c: char| !is_name(c)).any(|word| word == *member));
    let unknown = !of_the_client && names && UNKNOWN_MEMBER.iter().any(|sign| text.contains(sign));
    unknown.then_some(ErrorKind::StateUnsupported)
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// How providers say that a request does not fit.
const TOO_LONG: [&str; 9] = [
    "prompt is too long",
    "maximum context length",
    "exceeds the context window",
    "exceed context limit",
    "context window exceeded",
    "too many tokens",
    "input is too long",
    "exceeds the maximum number of tokens",
    "reduce the length of the messages",
];

/// The sizes of a request that does not fit; none if that is not what is wrong.
fn overflow(text: &str, words: &[&str], status: Option<u16>) -> Option<Overflow> {
    let named = words.iter().any(|word| matches!(*word, "context_length_exceeded" | "request_too_large"));
    let refused = status.is_none_or(|status| matches!(status, 400 | 413 | 422));
    let says_so = refused && TOO_LONG.iter().any(|sign| text.contains(sign));
    if !named && !says_so {
        return None;
    }
    Some(Overflow::stated(text))
}

impl Overflow {
    /// The sizes that a provider's words state.
    pub(super) fn stated(text: &str) -> Self {
        let numbers: Vec<u64> = numbers(text);
        // "maximum context length is LIMIT tokens … resulted in SIZE", or "SIZE tokens > LIMIT maximum".
        let (limit, size) = match numbers.as_slice() {
            [] => (None, None),
            [only] => (Some(*only), None),
            [first, second, ..] => (Some(*first.min(second)), Some(*first.max(second))),
        };
        Overflow { limit, size }
    }
}

/// Whole numbers of at least three digits in a text, `128,000` read as one.
fn numbers(text: &str) -> Vec<u64> {
    let digits = |c: char| c.is_ascii_digit() || c == ',';
    text.split(|c| !digits(c))
        .map(|word| word.trim_matches(',').replace(',', ""))
        .filter(|word| word.len() >= 3)
        .filter_map(|word| word.parse().ok())
        .collect()
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProviderError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> ErrorKind {
        ProviderError::of_answer(Wire::OpenaiChat, status, None, body).kind
    }

    #[test]
    fn each_providers_way_of_saying_no_has_its_kind() {
        let overflow = |limit, size| ErrorKind::ContextOverflow(Overflow { limit, size });
        let cases = [
            (429, r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#, ErrorKind::RateLimit),
            (
                429,
                r#"{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                ErrorKind::QuotaExhausted,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                ErrorKind::Overloaded,
            ),
            (500, "oops", ErrorKind::Overloaded),
            (502, "<html>bad gateway</html>", ErrorKind::Overloaded),
            (504, "", ErrorKind::Timeout),
            (408, "", ErrorKind::Timeout),
            (401, r#"{"error":{"message":"no key"}}"#, ErrorKind::Auth),
            (404, r#"{"error":{"message":"no such model"}}"#, ErrorKind::InvalidRequest),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128,000 tokens. However, your messages resulted in 130512 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
                overflow(Some(128_000), Some(130_512)),
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                overflow(Some(200_000), Some(210_000)),
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                overflow(None, None),
            ),
            (400, r#"{"error":{"message":"blocked","code":"content_filter"}}"#, ErrorKind::ContentFilter),
            (
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"m","details":{"error_code":"thread_not_found"}}}"#,
                ErrorKind::StateLost,
            ),
            (
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"No thread state was found for the requested `previous_message_id`."}}"#,
                ErrorKind::StateLost,
            ),
            (
                400,
                r#"{"error":{"message":"Previous response with id 'resp_1' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}"#,
                ErrorKind::StateLost,
            ),
            (
                404,
                r#"{"error":{"message":"Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.","type":"invalid_request_error"}}"#,
                ErrorKind::StateLost,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"thread: Extra inputs are not permitted"}}"#,
                ErrorKind::StateUnsupported,
            ),
            (
                400,
                r#"{"error":{"message":"`previous_response_id` is not supported"}}"#,
                ErrorKind::StateUnsupported,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"thread: not supported with fallbacks","details":{"error_code":"thread_unsupported_request"}}}"#,
                ErrorKind::InvalidRequest,
            ),
            (
                400,
                r#"{"error":{"message":"max_tokens: extra inputs are not permitted"}}"#,
                ErrorKind::InvalidRequest,
            ),
        ];
        for (status, body, kind) in cases {
            assert_eq!(of(status, body), kind, "{status} {body}");
        }
    }

    #[test]
    fn a_key_that_comes_back_is_not_shown() {
        let body = r#"{"error":{"message":"Incorrect API key provided: sk-abc123"}}"#;
        let error = ProviderError::of_answer(Wire::OpenaiChat, 401, None, body).without("sk-abc123");
        assert!(!format!("{error} {error:?}").contains("sk-abc123"));
        assert!(error.message.ends_with("provided: [redacted:configured]"), "{error}");
    }
}
