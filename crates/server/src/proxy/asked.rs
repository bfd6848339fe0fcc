//! What a client asks for: its body, read once and kept as it came.

use std::sync::OnceLock;

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use scrollback_agent::config::ServerLimits;
use scrollback_core::json::{self, Kind, Raw};
use scrollback_core::model::{ModelName, Provider};
use scrollback_core::wire::{Body, ParseOptions, Wire, WireError};
use scrollback_core::{Entry, Link, Role, Tools, prefixes};

use super::aside::{LARGE, aside};
use crate::problem::Problem;

/// One of the three interfaces that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Chat,
    Responses,
    Compact,
    Messages,
    CountTokens,
}

impl Endpoint {
    pub(crate) fn wire(self) -> Wire {
        match self {
            Endpoint::Chat => Wire::OpenaiChat,
            Endpoint::Responses | Endpoint::Compact => Wire::OpenaiResponses,
            Endpoint::Messages | Endpoint::CountTokens => Wire::Anthropic,
        }
    }

    pub(crate) fn provider(self) -> Provider {
        match self {
            Endpoint::Chat | Endpoint::Responses | Endpoint::Compact => Provider::OpenAi,
            Endpoint::Messages | Endpoint::CountTokens => Provider::Anthropic,
        }
    }

    /// The path below the version.
    pub(crate) fn path(self) -> &'static str {
        self.route().trim_start_matches("/v1/")
    }

    /// The path as policies name it.
    pub(crate) fn route(self) -> &'static str {
        match self {
            Endpoint::Chat => "/v1/chat/completions",
            Endpoint::Responses => "/v1/responses",
            Endpoint::Compact => "/v1/responses/compact",
            Endpoint::Messages => "/v1/messages",
            Endpoint::CountTokens => "/v1/messages/count_tokens",
        }
    }
}

/// How the reply shall come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As one JSON text.
    Whole,
    /// As events.
    Events,
}

/// A request, read.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) endpoint: Endpoint,
    /// The bytes as they came, or as they were unpacked.
    pub(crate) body: Bytes,
    /// The query, as it came.
    pub(crate) query: Option<String>,
    /// The model as the client names it.
    pub(crate) named: String,
    /// The model; none if the name is none we know how to read.
    pub(crate) model: Option<ModelName>,
    pub(crate) shape: Shape,
    /// What is said, the lead first.
    pub(crate) entries: Vec<Entry>,
    /// Everything around the messages.
    pub(crate) around: Body,
    pub(crate) tools: Option<Tools>,
    /// Tokens the client allows the reply, where it says so.
    pub(crate) output: Option<u64>,
    /// The response this one goes on from.
    pub(crate) previous: Option<String>,
    /// The provider's conversation this one is part of.
    pub(crate) thread: Option<String>,
    /// The session that Anthropic's `metadata.user_id` names.
    pub(crate) session: Option<String>,
    prefixes: OnceLock<Vec<Link>>,
}

impl Asked {
    /// Reads a body; a large one on another thread, and with it all that is needed of every byte.
    pub(crate) async fn taken(
        endpoint: Endpoint,
        body: Bytes,
        query: Option<String>,
        limits: ServerLimits,
    ) -> Result<Self, Problem> {
        let bytes = body.len();
        let read = move || {
            let asked = Asked::read(endpoint, body, query, &limits)?;
            if bytes >= LARGE {
                asked.prefixes();
            }
            Ok(asked)
        };
        aside(bytes, read).await?
    }

    /// Reads a body.
    pub(crate) fn read(
        endpoint: Endpoint,
        body: Bytes,
        query: Option<String>,
        limits: &ServerLimits,
    ) -> Result<Self, Problem> {
        let raw = json::check_bytes(&body).map_err(|error| bad(&WireError::from(error)))?;
        if limits.json_depth < json::MAX_DEPTH && depth(raw.text()) > limits.json_depth {
            let detail = format!("the body is nested deeper than {} levels", limits.json_depth);
            return Err(Problem::bad_request("bad_json", detail));
        }
        if raw.kind() != Kind::Object {
            return Err(Problem::bad_request("bad_input", "the body must be a JSON object"));
        }
        let object = raw.object().map_err(|key| {
            let detail =
                format!("the key {key:?} stands twice; readers would disagree about which one counts");
            Problem::bad_request("bad_json", detail)
        })?;
        let text = |key: &str| object.get(key).and_then(Raw::string).map(std::borrow::Cow::into_owned);
        let parsed = endpoint.wire().parse(raw, &ParseOptions::default()).map_err(|error| bad(&error))?;
        if let Some(place) = parsed.entries.iter().position(|entry| entry.blocks.len() > limits.message_parts)
        {
            let detail = format!("message {place} has more than {} parts", limits.message_parts);
            return Err(Problem::bad_request("bad_input", detail));
        }
        let named = text("model").unwrap_or_default();
        let streams = object.get("stream").is_some_and(|stream| stream.text() == "true");
        let thread = object.get("conversation").and_then(|thread| match thread.kind() {
            Kind::Object => thread.get("id").and_then(Raw::string),
            _ => thread.string(),
        });
        let user = object.get("metadata").and_then(|metadata| metadata.get("user_id")?.string());
        let (thread, session) = (
            thread.map(std::borrow::Cow::into_owned),
            user.as_deref().and_then(session_in).filter(|_| endpoint.wire() == Wire::Anthropic),
        );
        let most = ["max_output_tokens", "max_completion_tokens", "max_tokens"];
        let output = most.iter().find_map(|key| object.get(key)?.text().parse().ok());
        let (previous, model) = (text("previous_response_id"), model(endpoint.provider(), &named));
        Ok(Asked {
            endpoint,
            query,
            model,
            named,
            shape: if streams { Shape::Events } else { Shape::Whole },
            entries: parsed.entries,
            around: parsed.body,
            tools: parsed.tools,
            output,
            previous: previous.filter(|_| endpoint.wire() == Wire::OpenaiResponses),
            thread: thread.filter(|_| endpoint.wire() == Wire::OpenaiResponses),
            session,
            prefixes: OnceLock::new(),
            body,
        })
    }

    /// The chain's value after each entry.
    pub(crate) fn prefixes(&self) -> &[Link] {
        self.prefixes.get_or_init(|| prefixes(&self.entries))
    }

    pub(crate) fn wire(&self) -> Wire {
        self.endpoint.wire()
    }

    /// How many entries stand first: the instructions.
    pub(crate) fn lead(&self) -> usize {
        self.entries.iter().take_while(|entry| entry.role == Role::System).count()
    }

    /// What is said after the instructions.
    pub(crate) fn said(&self) -> &[Entry] {
        self.entries.get(self.lead()..).unwrap_or_default()
    }

    /// The path and query a provider knows it by.
    pub(crate) fn path(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.endpoint.path()),
            None => self.endpoint.path().into(),
        }
    }
}

/// The model a client means.
fn model(provider: Provider, named: &str) -> Option<ModelName> {
    // Most clients name no provider, and why such a name is none need not be found out.
    let whole = named.contains(':').then(|| ModelName::parse(named).ok()).flatten();
    whole.or_else(|| ModelName::parse(&format!("{}:{named}", provider.name())).ok())
}

/// The session inside Anthropic's `metadata.user_id`: a JSON text that has one, or the older `…_session_<uuid>`.
fn session_in(user: &str) -> Option<String> {
    if let Ok(raw) = json::check(user)
        && raw.kind() == Kind::Object
    {
        return raw.get("session_id")?.string().filter(|id| !id.is_empty()).map(std::borrow::Cow::into_owned);
    }
    let (_, session) = user.rsplit_once("_session_")?;
    (!session.is_empty()).then(|| session.to_string())
}

/// Levels of nesting; brackets inside strings are none.
fn depth(text: &str) -> usize {
    let (mut deepest, mut now, mut quoted, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn bad(error: &WireError) -> Problem {
    let problem = Problem::new(StatusCode::BAD_REQUEST, error.code(), error.to_string());
    if error.path().is_empty() { problem } else { problem.with("path", error.path()) }
}

/// A header as text, if it is there and not blank.
pub(crate) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers
        .get(name)
        .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(endpoint: Endpoint, body: &str) -> Result<Asked, Problem> {
        Asked::read(endpoint, Bytes::from(body.to_string()), None, &ServerLimits::default())
    }

    #[test]
    fn what_matters_is_found() {
        let body = r#"{"model":"claude-opus-4-8","stream":true,"system":"Be brief.","metadata":{"user_id":"user_ab_account_cd_session_12-34"},"messages":[{"role":"user","content":"hi"}],"max_tokens":9}"#;
        let found = asked(Endpoint::Messages, body).unwrap();
        assert_eq!((found.shape, found.lead(), found.entries.len()), (Shape::Events, 1, 2));
        assert_eq!(found.model.unwrap().to_string(), "anthropic:claude-opus-4-8");
        assert_eq!(found.session.as_deref(), Some("12-34"));
        assert_eq!(session_in(r#"{"device_id":"d","session_id":"s-1"}"#).as_deref(), Some("s-1"));
        assert_eq!(session_in("just a user"), None);
        let body = r#"{"model":"gpt-5","input":"hi","conversation":{"id":"conv_1"},"previous_response_id":"resp_1"}"#;
        let found = asked(Endpoint::Responses, body).unwrap();
        assert_eq!((found.thread.as_deref(), found.previous.as_deref()), (Some("conv_1"), Some("resp_1")));
        assert_eq!(
            asked(Endpoint::Chat, r#"{"model":"offline:echo","messages":[]}"#)
                .unwrap()
                .model
                .unwrap()
                .to_string(),
            "offline:echo"
        );
    }

    /// Others on the thread have their turn while a large body is read, and only then.
    #[tokio::test]
    async fn a_large_body_keeps_nobody_waiting() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};
        for (size, waits) in [(1000, true), (LARGE, false)] {
            let served = Arc::new(AtomicBool::new(false));
            tokio::spawn({
                let served = Arc::clone(&served);
                async move { served.store(true, Ordering::Relaxed) }
            });
            let said = "x".repeat(size);
            let body = format!(r#"{{"model":"gpt-5","messages":[{{"role":"user","content":"{said}"}}]}}"#);
            let read =
                Asked::taken(Endpoint::Chat, body.into(), None, ServerLimits::default()).await.unwrap();
            assert_eq!(read.entries.len(), 1);
            assert_eq!(served.load(Ordering::Relaxed), !waits, "{size}");
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let cases = [
            ("", "bad_json"),
            ("[]", "bad_input"),
            (r#"{"model":"m"}"#, "bad_input"),
            (r#"{"model":"m","messages":[{"role":"user","role":"system","content":"x"}]}"#, "bad_json"),
            (r#"{"model":"m","model":"n","messages":[]}"#, "bad_json"),
            (r#"{"model":"m","messages":[{"role":"nobody","content":"x"}]}"#, "bad_message"),
        ];
        for (body, code) in cases {
            assert_eq!(asked(Endpoint::Chat, body).unwrap_err().code, code, "{body}");
        }
        let limits = ServerLimits { json_depth: 5, ..ServerLimits::default() };
        let deep = r#"{"model":"[[[[[[[[","messages":[],"x":[[[[[1]]]]]}"#;
        assert!(Asked::read(Endpoint::Chat, Bytes::from(deep), None, &limits).is_err());
        assert_eq!(depth(r#"{"a":"[[\"[["}"#), 1);
    }
}
