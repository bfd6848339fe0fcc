//! Who sends a request, and which session of theirs it belongs to: what headers and bodies of clients say about it.

use axum::http::{HeaderMap, header};

use scrollback_agent::config::RecipientField;
use scrollback_store::Recipient;

use super::client_request::{ClientRequest, header as text_of};
use super::recipient;
use crate::auth::{ApiCaller, presented};
use crate::keys;
use crate::problem::HttpProblem;

/// Longest id of a session or sub-agent, in bytes. Real ones have 16 to 70.
pub(super) const MAX_ID: usize = 512;

/// A client that names its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionClient {
    ClaudeCode,
    Codex,
    Opencode,
    /// Any client that sends `x-session-id`.
    Other,
}

impl SessionClient {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SessionClient::ClaudeCode => "claude-code",
            SessionClient::Codex => "codex",
            SessionClient::Opencode => "opencode",
            SessionClient::Other => "other",
        }
    }
}

/// The headers in which clients name their session. The first that is there counts.
const SESSIONS: [(&str, SessionClient); 6] = [
    ("x-claude-code-session-id", SessionClient::ClaudeCode),
    ("session-id", SessionClient::Codex),
    ("session_id", SessionClient::Codex),
    ("x-opencode-session", SessionClient::Opencode),
    ("x-session-affinity", SessionClient::Opencode),
    ("x-session-id", SessionClient::Other),
];

/// What the headers of a request call its session, in the order in which they count.
pub(crate) fn session_names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    SESSIONS.iter().filter_map(|(name, _)| text_of(headers, name))
}

/// The session that a request says it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionClaim {
    pub(crate) client: SessionClient,
    pub(crate) id: String,
    /// The sub-agent that asks, where the client names it.
    pub(crate) agent: Option<String>,
    /// The sub-agent or session that started it, where the client names it.
    pub(crate) parent: Option<String>,
    /// What kind of call it is, where the client says so.
    pub(crate) stated: Option<StatedKind>,
}

/// What kind of call a client says it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatedKind {
    /// A call of the conversation that the person sees.
    Main,
    /// A call of a sub-agent.
    SubAgent,
    /// A title, a suggestion or another call beside the conversation.
    Side,
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub(crate) struct RequestOrigin {
    /// A fingerprint of who calls. It is not a secret, and no key can be found from it.
    pub(crate) caller: String,
    pub(crate) session: Option<SessionClaim>,
    /// Whom conversations that begin with it are with.
    pub(crate) recipient: Option<Recipient>,
    /// The name that `wrap` gave this run of the client, so that a tool the client starts finds the session too.
    pub(crate) run: Option<String>,
}

impl RequestOrigin {
    /// `fields` of the body name the recipient where no header does.
    pub(crate) fn of(
        caller: &ApiCaller,
        headers: &HeaderMap,
        asked: &ClientRequest,
        fields: &[RecipientField],
    ) -> Result<Self, HttpProblem> {
        Ok(RequestOrigin {
            caller: fingerprint(caller, headers, asked),
            session: claim(headers, asked)?,
            recipient: recipient::of(headers, asked, fields)?,
            run: run(headers)?,
        })
    }
}

/// The name that `wrap` gave this run of the client.
fn run(headers: &HeaderMap) -> Result<Option<String>, HttpProblem> {
    let Some(given) = headers.get(super::identity::SESSION) else { return Ok(None) };
    checked(std::str::from_utf8(given.as_bytes()).unwrap_or_default()).map(Some)
}

/// The id of a session or sub-agent, if it is one.
fn checked(id: &str) -> Result<String, HttpProblem> {
    if id.is_empty() || id.len() > MAX_ID || id.chars().any(char::is_control) {
        let detail = format!("the id of a session has 1 to {MAX_ID} bytes and no control characters");
        return Err(HttpProblem::bad_request("bad_session", detail));
    }
    Ok(id.to_string())
}

/// The client that names its session, and the id: in a header, or else in the body.
fn named<'a>(headers: &'a HeaderMap, asked: &'a ClientRequest) -> Option<(SessionClient, &'a str)> {
    let named = SESSIONS.iter().find_map(|(name, client)| Some((*client, text_of(headers, name)?)));
    named.or_else(|| asked.session.as_ref().map(|(client, id)| (*client, id.as_str())))
}

/// The client's own id of its session.
pub(crate) fn session_id<'a>(headers: &'a HeaderMap, asked: &'a ClientRequest) -> Option<&'a str> {
    named(headers, asked).map(|(_, id)| id)
}

/// The session a request names, if it names one.
fn claim(headers: &HeaderMap, asked: &ClientRequest) -> Result<Option<SessionClaim>, HttpProblem> {
    let Some((client, id)) = named(headers, asked) else { return Ok(None) };
    let stated = stated(headers, client);
    let from = |name: &str| text_of(headers, name).map(checked).transpose();
    let id = checked(id)?;
    let (agent, parent) = match client {
        SessionClient::ClaudeCode => {
            (from("x-claude-code-agent-id")?, from("x-claude-code-parent-agent-id")?)
        }
        SessionClient::Codex => {
            let thread = from("thread-id")?.filter(|thread| *thread != id);
            let parent = from("x-codex-parent-thread-id")?;
            match (thread, parent) {
                // The session is the thread's own: it belongs to the session of the one that started it.
                (None, Some(parent)) => {
                    let agent = Some(id);
                    return Ok(Some(SessionClaim {
                        client,
                        id: parent.clone(),
                        agent,
                        parent: Some(parent),
                        stated,
                    }));
                }
                other => other,
            }
        }
        SessionClient::Opencode | SessionClient::Other => match from("x-parent-session-id")? {
            // A sub-agent has a session of its own, below that of its parent.
            Some(parent) if parent != id => {
                let agent = Some(id);
                let id = parent.clone();
                return Ok(Some(SessionClaim { client, id, agent, parent: Some(parent), stated }));
            }
            _ => (None, None),
        },
    };
    Ok(Some(SessionClaim { client, id, agent, parent, stated }))
}

/// What kind of call a client says it makes. Claude Code says so to its own provider, and to gateways where
/// `CLAUDE_CODE_GATEWAY_HINT_HEADERS` is set. What asks for a summary belongs to the conversation it sums up, whatever that is.
fn stated(headers: &HeaderMap, client: SessionClient) -> Option<StatedKind> {
    match client {
        SessionClient::ClaudeCode => match text_of(headers, "x-claude-code-request-class") {
            Some("main") => Some(StatedKind::Main),
            Some("subagent" | "workflow") => Some(StatedKind::SubAgent),
            Some("auxiliary" | "side_reply") => Some(StatedKind::Side),
            Some("compaction") => None,
            _ => text_of(headers, "x-claude-code-agent-type").map(|_| StatedKind::SubAgent),
        },
        SessionClient::Codex => match text_of(headers, "x-openai-subagent") {
            None | Some("compact") => None,
            Some(_) => Some(StatedKind::SubAgent),
        },
        SessionClient::Opencode | SessionClient::Other => None,
    }
}

/// A fingerprint of who calls: the key of this server, or else the provider's key; the recipient; the user that the body
/// names. Tokens of a login are renewed while a session goes on: in their place counts the account, or the device that Anthropic's
/// client names, where the client tells it.
fn fingerprint(caller: &ApiCaller, headers: &HeaderMap, asked: &ClientRequest) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("scrollback 2026 caller");
    let mut add = |name: &str, value: &str| {
        hasher.update(&(name.len() as u64).to_be_bytes()).update(name.as_bytes());
        hasher.update(&(value.len() as u64).to_be_bytes()).update(value.as_bytes());
    };
    match &caller.key {
        Some(key) => add("key", keys::family(&key.name)),
        None => {
            for credential in credentials(headers) {
                if !is_renewed(credential) {
                    add("credential", credential);
                } else if let Some(account) = text_of(headers, "chatgpt-account-id") {
                    add("account", account);
                } else if !asked.names_device {
                    // A user that the body names may be the same for everyone behind a gateway.
                    add("credential", credential);
                }
            }
        }
    }
    if let Some(recipient) = recipient::in_header(headers) {
        add("recipient", recipient);
    }
    for user in &asked.user {
        add("user", user);
    }
    let hex = hasher.finalize().to_hex();
    hex.as_str().get(..32).unwrap_or_default().into()
}

/// Everything that may be a provider's key.
fn credentials(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let named = text_of(headers, "api-key");
    let other = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    // What is no bearer token is taken as it is.
    let other = other.filter(|value| !value.to_ascii_lowercase().starts_with("bearer "));
    presented(headers).chain(named).chain(other)
}

/// Whether a credential is replaced by another while its owner stays the same: a token of a login.
fn is_renewed(credential: &str) -> bool {
    credential.starts_with("sk-ant-oat") || credential.starts_with("eyJ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::auth::KeyScope;
    use crate::proxy::client_request::{Endpoint, RequestTarget};
    use axum::http::{HeaderName, HeaderValue};
    use bytes::Bytes;
    use scrollback_agent::config::ServerLimits;
    use scrollback_store::Tenant;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn origin(endpoint: Endpoint, pairs: &[(&str, &str)], body: &str) -> Result<RequestOrigin, HttpProblem> {
        let asked = ClientRequest::read(
            RequestTarget::of(endpoint, None),
            Bytes::from(body.to_string()),
            &ServerLimits::default(),
        )
        .unwrap();
        let caller = ApiCaller { tenant: Tenant::default(), scope: KeyScope::Admin, key: None };
        RequestOrigin::of(&caller, &headers(pairs), &asked, &[])
    }

    const CHAT: &str = r#"{"model":"m","messages":[]}"#;

    fn claimed(pairs: &[(&str, &str)]) -> Option<(&'static str, String, Option<String>, Option<String>)> {
        let claim = origin(Endpoint::Chat, pairs, CHAT).unwrap().session?;
        Some((claim.client.as_str(), claim.id, claim.agent, claim.parent))
    }

    #[test]
    fn sessions_and_sub_agents_are_found_as_each_client_sends_them() {
        let text = |text: &str| Some(text.to_string());
        let cases: [(&[(&str, &str)], _); 8] = [
            (&[], None),
            (&[("x-claude-code-session-id", "s")], Some(("claude-code", "s".into(), None, None))),
            (
                &[
                    ("x-claude-code-session-id", "s"),
                    ("x-claude-code-agent-id", "a"),
                    ("x-claude-code-parent-agent-id", "p"),
                ],
                Some(("claude-code", "s".into(), text("a"), text("p"))),
            ),
            (&[("session-id", "s"), ("thread-id", "s")], Some(("codex", "s".into(), None, None))),
            (
                &[("session-id", "s"), ("thread-id", "t"), ("x-codex-parent-thread-id", "s")],
                Some(("codex", "s".into(), text("t"), text("s"))),
            ),
            (
                &[("session_id", "t"), ("x-codex-parent-thread-id", "s")],
                Some(("codex", "s".into(), text("t"), text("s"))),
            ),
            (
                &[("x-session-id", "c"), ("x-session-affinity", "c"), ("x-parent-session-id", "p")],
                Some(("opencode", "p".into(), text("c"), text("p"))),
            ),
            (&[("x-session-id", "mine")], Some(("other", "mine".into(), None, None))),
        ];
        for (pairs, wanted) in cases {
            assert_eq!(claimed(pairs), wanted, "{pairs:?}");
        }
    }

    #[test]
    fn ids_that_are_too_long_are_refused() {
        let long = "x".repeat(10_000);
        let refused = origin(Endpoint::Chat, &[("session-id", &long)], CHAT).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code), (400, "bad_session"));
        let agent = [("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", long.as_str())];
        assert_eq!(origin(Endpoint::Chat, &agent, CHAT).unwrap_err().code, "bad_session");
    }

    #[test]
    fn callers_differ_by_key_recipient_and_user_and_not_by_a_renewed_token() {
        let of = |pairs: &[(&str, &str)], body: &str| origin(Endpoint::Chat, pairs, body).unwrap().caller;
        let all = [
            of(&[], CHAT),
            of(&[("authorization", "Bearer one")], CHAT),
            of(&[("authorization", "Bearer two")], CHAT),
            of(&[("x-api-key", "three")], CHAT),
            of(&[("x-scrollback-recipient", "anna")], CHAT),
            of(&[], r#"{"model":"m","messages":[],"user":"anna"}"#),
            of(&[], r#"{"model":"m","messages":[],"safety_identifier":"anna"}"#),
            of(&[("authorization", "Bearer eyJ.1"), ("chatgpt-account-id", "a")], CHAT),
        ];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len() - 1, "a user is a user, by whichever name");
        let renewed = of(&[("authorization", "Bearer eyJ.2"), ("chatgpt-account-id", "a")], CHAT);
        assert_eq!(renewed, all[7]);
        let body = r#"{"model":"m","messages":[],"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"s\"}"}}"#;
        let login = |token: &str| {
            origin(Endpoint::Messages, &[("authorization", &format!("Bearer sk-ant-oat01-{token}"))], body)
                .unwrap()
                .caller
        };
        assert_eq!(login("1"), login("2"), "the device stays the same while its token is renewed");
        // A user that a gateway writes into every body says nothing about who calls.
        for (endpoint, body) in [
            (Endpoint::Chat, r#"{"model":"m","messages":[],"user":"gateway"}"#),
            (Endpoint::Messages, r#"{"model":"m","messages":[],"metadata":{"user_id":"gateway"}}"#),
            (
                Endpoint::Messages,
                r#"{"model":"m","messages":[],"metadata":{"user_id":"{\"session_id\":\"s\"}"}}"#,
            ),
        ] {
            for token in ["eyJ", "sk-ant-oat01-"] {
                let of = |person: &str| {
                    origin(endpoint, &[("authorization", &format!("Bearer {token}{person}"))], body)
                        .unwrap()
                        .caller
                };
                assert_ne!(of("anna"), of("bert"), "{body}");
            }
        }
    }
}
