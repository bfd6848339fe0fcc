//! What a client asks for: its body, read once and kept as it came.

use std::sync::OnceLock;

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use scrollback_agent::config::ServerLimits;
use scrollback_core::json::{self, JsonKind, Raw};
use scrollback_core::model::{ModelName, Provider};
use scrollback_core::request::{Reference, is_in_thread};
use scrollback_core::wire::{Body, ParseOptions, Wire, WireError};
use scrollback_core::{Entry, Link, Role, Tools, prefixes};
use scrollback_store::Tenant;

use super::background::{LARGE, in_turn};
use super::session::SessionClient;
use crate::fair::Turns;
use crate::problem::HttpProblem;

/// What is asked for at one of the four interfaces that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Chat,
    Responses,
    Compact,
    Messages,
    CountTokens,
    Generate,
    StreamGenerate,
    CountContents,
}

impl Endpoint {
    pub(crate) fn wire(self) -> Wire {
        match self {
            Endpoint::Chat => Wire::OpenaiChat,
            Endpoint::Responses | Endpoint::Compact => Wire::OpenaiResponses,
            Endpoint::Messages | Endpoint::CountTokens => Wire::Anthropic,
            Endpoint::Generate | Endpoint::StreamGenerate | Endpoint::CountContents => Wire::Gemini,
        }
    }

    pub(crate) fn provider(self) -> Provider {
        match self {
            Endpoint::Chat | Endpoint::Responses | Endpoint::Compact => Provider::OpenAi,
            Endpoint::Messages | Endpoint::CountTokens => Provider::Anthropic,
            Endpoint::Generate | Endpoint::StreamGenerate | Endpoint::CountContents => Provider::Gemini,
        }
    }

    /// The path as policies name it.
    pub(crate) fn route(self) -> &'static str {
        match self {
            Endpoint::Chat => "/v1/chat/completions",
            Endpoint::Responses => "/v1/responses",
            Endpoint::Compact => "/v1/responses/compact",
            Endpoint::Messages => "/v1/messages",
            Endpoint::CountTokens => "/v1/messages/count_tokens",
            Endpoint::Generate => "/v1beta/models/{model}:generateContent",
            Endpoint::StreamGenerate => "/v1beta/models/{model}:streamGenerateContent",
            Endpoint::CountContents => "/v1beta/models/{model}:countTokens",
        }
    }
}

/// Where a request was sent: what it asks for, and what its URL says beside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestTarget {
    pub(crate) endpoint: Endpoint,
    /// The path and query its provider knows it by.
    pub(crate) path: String,
    /// The model, where the path names it.
    pub(crate) model: Option<String>,
    /// How the reply shall come, where the URL says so.
    pub(crate) shape: Option<ReplyShape>,
}

impl RequestTarget {
    /// An endpoint whose path says nothing more.
    pub(crate) fn of(endpoint: Endpoint, query: Option<&str>) -> Self {
        let path = endpoint.route().trim_start_matches("/v1/");
        let path = query.map_or_else(|| path.to_string(), |query| format!("{path}?{query}"));
        RequestTarget { endpoint, path, model: None, shape: None }
    }
}

/// How the reply shall come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyShape {
    /// As one JSON text.
    Whole,
    /// As events.
    Events,
    /// As one JSON list that grows by an element with each event.
    List,
}

/// A request, read.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub(crate) endpoint: Endpoint,
    /// The bytes as they came, or as they were unpacked.
    pub(crate) body: Bytes,
    /// The path and query its provider knows it by.
    pub(crate) path: String,
    /// The key under which the request stands in the body, where it is not the body itself.
    pub(crate) inside: Option<&'static str>,
    /// The model as the client names it.
    pub(crate) named: String,
    /// The model; `None` if its name cannot be read.
    pub(crate) model: Option<ModelName>,
    pub(crate) shape: ReplyShape,
    /// What is said, the lead first.
    pub(crate) entries: Vec<Entry>,
    /// Everything around the messages.
    pub(crate) around: Body,
    pub(crate) tools: Option<Tools>,
    /// Tokens the client allows the reply, where it says so.
    pub(crate) output: Option<u64>,
    /// What it goes on from that its provider holds, in whatever way it says so.
    pub(crate) refers: Option<Reference>,
    /// Whether it creates or continues a message thread.
    pub(crate) in_thread: bool,
    /// The session that the body names, and which client writes it there.
    pub(crate) session: Option<(SessionClient, String)>,
    /// The users and devices that the body names.
    pub(crate) user: Vec<String>,
    /// Whether those are the device and account that Anthropic's client names.
    pub(crate) names_device: bool,
    /// Whether the request offers tools.
    pub(crate) tools_offered: ToolsOffered,
    /// Whether the reply is to be an object with a title and nothing else, which is how clients have a session named.
    pub(crate) wants_title: bool,
    prefixes: OnceLock<Vec<Link>>,
}

impl ClientRequest {
    /// Reads a body; a large one on another thread, and with it all that is needed of every byte.
    pub(crate) async fn taken(
        turns: &Turns,
        tenant: &Tenant,
        target: RequestTarget,
        body: Bytes,
        limits: ServerLimits,
    ) -> Result<Self, HttpProblem> {
        let bytes = body.len();
        let read = move || {
            let asked = ClientRequest::read(target, body, &limits)?;
            if bytes >= LARGE {
                asked.prefixes();
            }
            Ok(asked)
        };
        in_turn(turns, tenant, bytes, read).await?
    }

    /// Reads a body.
    pub(crate) fn read(
        target: RequestTarget,
        body: Bytes,
        limits: &ServerLimits,
    ) -> Result<Self, HttpProblem> {
        let RequestTarget { endpoint, path, model: in_path, shape } = target;
        let raw = json::check_bytes(&body).map_err(|error| bad(&WireError::from(error)))?;
        if limits.json_depth < json::MAX_DEPTH && depth(raw.text()) > limits.json_depth {
            let detail = format!("the body is nested deeper than {} levels", limits.json_depth);
            return Err(HttpProblem::bad_request("bad_json", detail));
        }
        if raw.kind() != JsonKind::Object {
            return Err(HttpProblem::bad_request("bad_input", "the body must be a JSON object"));
        }
        let object = raw.object().map_err(|key| {
            let detail =
                format!("the key {key:?} appears twice; readers would disagree about which one counts");
            HttpProblem::bad_request("bad_json", detail)
        })?;
        // Gemini counts the contents alone, or a whole request under a key of its own.
        let whole = object.get(COUNTED).filter(|_| endpoint == Endpoint::CountContents);
        if let Some(whole) = whole.filter(|whole| whole.kind() == JsonKind::Object) {
            let inner = Bytes::from(whole.text().to_string());
            let target = RequestTarget { endpoint: Endpoint::Generate, path, model: in_path, shape };
            let asked = ClientRequest::read(target, inner, limits)?;
            return Ok(ClientRequest { endpoint, inside: Some(COUNTED), ..asked });
        }
        let text = |key: &str| object.get(key).and_then(Raw::string).map(std::borrow::Cow::into_owned);
        let parsed = endpoint.wire().parse(raw, &ParseOptions::default()).map_err(|error| bad(&error))?;
        if let Some(place) = parsed.entries.iter().position(|entry| entry.blocks.len() > limits.message_parts)
        {
            let detail = format!("message {place} has more than {} parts", limits.message_parts);
            return Err(HttpProblem::bad_request("bad_input", detail));
        }
        let refers = Reference::of(endpoint.wire(), raw);
        let mut entries = parsed.entries;
        if matches!(refers, Some(Reference::Message(_))) {
            // Instructions are those the thread was created with. Clients repeat a part of them, or all.
            entries.retain(|entry| entry.role != Role::System || entry.origin.raw.starts_with('{'));
        }
        let named = in_path.or_else(|| text("model")).unwrap_or_default();
        let streams = object.get("stream").is_some_and(|stream| stream.text() == "true");
        let BodyClaims { session, user, names_device } = BodyClaims::of(endpoint.wire(), raw);
        let most = ["max_output_tokens", "max_completion_tokens", "max_tokens"];
        let generation = ["generationConfig", "generation_config"].iter().find_map(|key| object.get(key));
        let gemini = || {
            let most = ["maxOutputTokens", "max_output_tokens"].iter();
            most.filter_map(|key| generation?.get(key)).find_map(|most| most.text().parse().ok())
        };
        let output = most.iter().find_map(|key| object.get(key)?.text().parse().ok()).or_else(gemini);
        let model = model(endpoint.provider(), &named);
        Ok(ClientRequest {
            endpoint,
            path,
            inside: None,
            model,
            named,
            shape: shape.unwrap_or(if streams { ReplyShape::Events } else { ReplyShape::Whole }),
            entries,
            refers,
            in_thread: is_in_thread(endpoint.wire(), raw),
            around: parsed.body,
            tools: parsed.tools,
            output,
            session,
            user,
            names_device,
            tools_offered: tools_offered(raw),
            wants_title: wants_title(&object),
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

    /// How many entries stand first: the instructions. A request that continues a thread has none: its first messages follow
    /// what was said.
    pub(crate) fn lead(&self) -> usize {
        if matches!(self.refers, Some(Reference::Message(_))) {
            return 0;
        }
        self.entries.iter().take_while(|entry| entry.role == Role::System).count()
    }

    /// What is said after the instructions.
    pub(crate) fn said(&self) -> &[Entry] {
        self.entries.get(self.lead()..).unwrap_or_default()
    }

    /// A request made of this one as its provider reads it: under the key under which this one stood.
    pub(crate) fn as_it_stood(&self, body: Bytes) -> Bytes {
        match self.inside {
            Some(key) => [b"{\"", key.as_bytes(), b"\":", &body, b"}"].concat().into(),
            None => body,
        }
    }
}

/// The key of a whole request whose tokens Gemini is to count.
const COUNTED: &str = "generateContentRequest";

/// The model a client means.
fn model(provider: Provider, named: &str) -> Option<ModelName> {
    // Most clients name no provider, and why such a name is not valid need not be found out.
    let whole = named.contains(':').then(|| ModelName::parse(named).ok()).flatten();
    whole.or_else(|| ModelName::parse(&format!("{}:{named}", provider.name())).ok())
}

/// What a body says about who sends it.
#[derive(Default)]
struct BodyClaims {
    session: Option<(SessionClient, String)>,
    user: Vec<String>,
    names_device: bool,
}

impl BodyClaims {
    fn of(wire: Wire, body: Raw<'_>) -> Self {
        let text = |raw: Option<Raw<'_>>| {
            raw.and_then(Raw::string).filter(|id| !id.is_empty()).map(std::borrow::Cow::into_owned)
        };
        let named = |key: &str| text(body.get(key));
        if wire == Wire::Anthropic {
            let user = text(body.get("metadata").and_then(|metadata| metadata.get("user_id")));
            let Some(user) = user else { return BodyClaims::default() };
            let SplitUser { session, people, kind } = split_user(&user);
            let names_device = kind == UserKind::Device && !people.is_empty();
            let session = session.map(|id| (SessionClient::ClaudeCode, id));
            return BodyClaims { session, user: people, names_device };
        }
        let user = named("safety_identifier").or_else(|| named("user")).into_iter().collect();
        let metadata = body.get("client_metadata").filter(|_| wire == Wire::OpenaiResponses);
        // Codex names the session in two places; other clients use the cache key for other things.
        let session = metadata.and_then(|metadata| {
            let own = text(metadata.get("session_id"));
            let codex = metadata.members().any(|(key, _)| key.starts_with("x-codex-"));
            own.or_else(|| named("prompt_cache_key").filter(|_| codex))
        });
        BodyClaims { session: session.map(|id| (SessionClient::Codex, id)), user, names_device: false }
    }
}

/// Anthropic's `metadata.user_id`, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SplitUser {
    session: Option<String>,
    /// The device and the account, or the user.
    pub(super) people: Vec<String>,
    kind: UserKind,
}

/// Who is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UserKind {
    /// A device of Anthropic's client, and its account.
    Device,
    /// Whatever a program calls a user.
    Other,
}

/// The session inside Anthropic's `metadata.user_id`, and what is left of it: a JSON text that has one beside the device
/// and the account, or the older `user_…_account_…_session_…`. Anything else is a user.
pub(super) fn split_user(user: &str) -> SplitUser {
    if let Ok(raw) = json::check(user)
        && raw.kind() == JsonKind::Object
    {
        let text = |key: &str| raw.get(key).and_then(Raw::string).filter(|id| !id.is_empty());
        let rest = ["device_id", "account_uuid"].iter().filter_map(|key| text(key));
        return SplitUser {
            session: text("session_id").map(std::borrow::Cow::into_owned),
            people: rest.map(std::borrow::Cow::into_owned).collect(),
            kind: UserKind::Device,
        };
    }
    match user.rsplit_once("_session_") {
        Some((rest, session)) if !session.is_empty() => {
            let parts = rest.strip_prefix("user_").and_then(|rest| rest.split_once("_account_"));
            let kind = if parts.is_some() { UserKind::Device } else { UserKind::Other };
            let parts = parts.map_or(vec![rest], |(device, account)| vec![device, account]);
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            SplitUser { session: Some(session.into()), people: parts.map(String::from).collect(), kind }
        }
        _ => SplitUser { session: None, people: vec![user.into()], kind: UserKind::Other },
    }
}

/// Whether a request offers tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolsOffered {
    Some,
    None,
}

fn tools_offered(body: Raw<'_>) -> ToolsOffered {
    let offered = ["tools", "functions"].iter().any(|key| {
        body.get(key)
            .is_some_and(|tools| tools.kind() == JsonKind::Array && tools.elements().next().is_some())
    });
    if offered { ToolsOffered::Some } else { ToolsOffered::None }
}

/// Where each wire has the schema of the reply.
const SCHEMAS: [&[&str]; 5] = [
    &["output_config", "format", "schema"],
    &["response_format", "json_schema", "schema"],
    &["text", "format", "schema"],
    &["generationConfig", "responseSchema"],
    &["generationConfig", "responseJsonSchema"],
];

/// Whether the reply has to be an object whose only member is a title.
fn wants_title(body: &json::Object<'_>) -> bool {
    SCHEMAS.iter().any(|path| {
        let Some((first, rest)) = path.split_first() else { return false };
        let schema = rest.iter().try_fold(body.get(first), |inside, key| Some(inside?.get(key)));
        let members = schema.flatten().and_then(|schema| schema.get("properties"));
        members.is_some_and(|members| members.members().map(|(key, _)| key).eq(["title"]))
    })
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

fn bad(error: &WireError) -> HttpProblem {
    let problem = HttpProblem::new(StatusCode::BAD_REQUEST, error.code(), error.to_string());
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

    fn asked(endpoint: Endpoint, body: &str) -> Result<ClientRequest, HttpProblem> {
        let target = RequestTarget::of(endpoint, None);
        ClientRequest::read(target, Bytes::from(body.to_string()), &ServerLimits::default())
    }

    #[test]
    fn what_matters_is_found() {
        let body = r#"{"model":"claude-opus-4-8","stream":true,"system":"Be brief.","metadata":{"user_id":"user_ab_account_cd_session_12-34"},"messages":[{"role":"user","content":"hi"}],"max_tokens":9}"#;
        let found = asked(Endpoint::Messages, body).unwrap();
        assert_eq!((found.shape, found.lead(), found.entries.len()), (ReplyShape::Events, 1, 2));
        assert_eq!(found.model.unwrap().to_string(), "anthropic:claude-opus-4-8");
        assert_eq!(found.session, Some((SessionClient::ClaudeCode, "12-34".into())));
        assert_eq!(found.user, ["ab", "cd"]);
        assert_eq!(found.tools_offered, ToolsOffered::None);
        let split = |session: Option<&str>, people: &[&str], kind| {
            let people = people.iter().map(ToString::to_string).collect();
            SplitUser { session: session.map(String::from), people, kind }
        };
        let device = split(Some("s-1"), &["d"], UserKind::Device);
        assert_eq!(split_user(r#"{"device_id":"d","session_id":"s-1"}"#), device);
        assert_eq!(split_user("just a user"), split(None, &["just a user"], UserKind::Other));
        assert_eq!(split_user("gateway_session_1"), split(Some("1"), &["gateway"], UserKind::Other));
        let body = r#"{"model":"gpt-5","input":"hi","tools":[],"prompt_cache_key":"k","client_metadata":{"session_id":"c"}}"#;
        let found = asked(Endpoint::Responses, body).unwrap();
        assert_eq!(found.session, Some((SessionClient::Codex, "c".into())));
        assert_eq!(found.tools_offered, ToolsOffered::None);
        let body = r#"{"model":"gpt-5","input":"hi","prompt_cache_key":"an application"}"#;
        assert_eq!(asked(Endpoint::Responses, body).unwrap().session, None);
        let body = r#"{"model":"gpt-5","input":"hi","previous_response_id":"resp_1"}"#;
        let found = asked(Endpoint::Responses, body).unwrap();
        assert_eq!(found.refers, Some(Reference::Response("resp_1".into())));
        let body = r#"{"model":"gpt-5","input":"hi","conversation":{"id":"conv_1"}}"#;
        let found = asked(Endpoint::Responses, body).unwrap();
        assert_eq!(found.refers, Some(Reference::Conversation("conv_1".into())));
        let body = r#"{"model":"m","max_tokens":9,"system":"x-anthropic-billing-header: 1","messages":[{"role":"system","content":"Use the new tool."},{"role":"user","content":"hi"}],"thread":{"type":"continue","previous_message_id":"msg_1"}}"#;
        let found = asked(Endpoint::Messages, body).unwrap();
        assert_eq!(found.refers, Some(Reference::Message("msg_1".into())));
        assert_eq!((found.lead(), found.entries.len()), (0, 2), "instructions are the thread's");
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
        let (turns, tenant) = (Turns::new(1), Tenant::default());
        for (size, waits) in [(1000, true), (LARGE, false)] {
            let served = Arc::new(AtomicBool::new(false));
            tokio::spawn({
                let served = Arc::clone(&served);
                async move { served.store(true, Ordering::Relaxed) }
            });
            let said = "x".repeat(size);
            let body = format!(r#"{{"model":"gpt-5","messages":[{{"role":"user","content":"{said}"}}]}}"#);
            let target = RequestTarget::of(Endpoint::Chat, None);
            let read = ClientRequest::taken(&turns, &tenant, target, body.into(), ServerLimits::default());
            let read = read.await.unwrap();
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
        assert!(
            ClientRequest::read(RequestTarget::of(Endpoint::Chat, None), Bytes::from(deep), &limits).is_err()
        );
        assert_eq!(depth(r#"{"a":"[[\"[["}"#), 1);
    }
}
