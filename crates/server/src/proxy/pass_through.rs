//! What is passed on without being understood.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::Response;
use scrollback_agent::exchange::send_on;
use scrollback_agent::provider::{Credential, ErrorKind, PassedRequest, Upstream};
use scrollback_core::model::Provider;
use tokio::sync::oneshot;

use super::background::unfinished;
use super::call::ResponseSender;
use super::call_log::CallLog;
use super::identity::BY_RESPONSE;
use super::owned_objects::stay_in_account;
use super::passed_usage::PassedUsage;
use super::tee::pipe;
use super::upstreams::{Answerer, answerer, configured, passed_back, passed_on};
use super::{Version, gemini};
use crate::auth::{ApiCaller, GOOGLE_KEY, unknown};
use crate::problem::HttpProblem;
use crate::{App, body, quota};

/// Passes a request on as it is, and its reply back.
pub(super) async fn pass(app: &App, version: Version, request: Request) -> Result<Response, HttpProblem> {
    let (parts, body) = request.into_parts();
    let caller = parts.extensions.get::<ApiCaller>().cloned().ok_or_else(unknown)?;
    caller.may_call()?;
    let seat = app.room.enter(&caller.tenant, app.settings.limits.concurrent)?;
    quota::admit(app, &caller).await?;
    let provider = whose(version, &parts.headers);
    let path = path(version, provider, &parts.uri);
    if path.starts_with("v1/") && provider != Provider::Gemini {
        let detail =
            "the path has /v1 twice: the base URL of Anthropic's clients is this server's without /v1";
        return Err(HttpProblem::new(StatusCode::NOT_FOUND, "bad_base_url", detail));
    }
    // What is not understood is not unpacked either: its provider reads it as it came.
    let mut share = app.memory.share(&caller.tenant);
    let body = body::read_packed(body, &parts.headers, &app.settings.limits, &mut share).await?;
    match who(app, provider, &parts.headers)? {
        Answerer::Echo => {
            let asked = format!("{} {}{}", parts.method, version.prefix(), parts.uri.path());
            Err(no_upstream(app, &asked, provider))
        }
        Answerer::Upstream(upstream, credential) => {
            let ours = credential == Credential::Ours;
            if caller.key.is_some() && ours {
                may_reach(app, &caller, &parts.method, parts.uri.path()).await?;
            }
            let log = parts.extensions.get::<Arc<CallLog>>().cloned();
            let asked = (&parts.method, parts.uri.path(), &body);
            let usage = PassedUsage::of(app, &caller, log, provider, asked).await?;
            if let Some(usage) = usage.as_ref().filter(|_| ours) {
                usage.has_price()?;
            }
            let mut headers = passed_on(&parts.headers, provider);
            if caller.key.is_some() && ours {
                stay_in_account(&mut headers);
            }
            if let Some(coding) = parts.headers.get(header::CONTENT_ENCODING) {
                headers.insert(header::CONTENT_ENCODING, coding.clone());
            }
            let timeout = app.settings.limits.stream;
            let request = PassedRequest { method: parts.method, path, headers, body, credential, timeout };
            let turn = app.upstream_turns.take(&caller.tenant).await;
            let passed = PassedCall { held: (seat, share, turn), usage };
            hand_on(app, &upstream, request, HeaderMap::new(), passed).await
        }
    }
}

/// Paths whose answer depends on the request alone: nothing that another tenant left at the provider is read or changed.
const STATELESS: [&str; 9] = [
    "/embeddings",
    "/moderations",
    "/completions",
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
    "/images/generations",
    "/images/edits",
    "/images/variations",
];
/// Gemini's verbs of which the same is true.
const STATELESS_VERBS: [&str; 3] = [":embedContent", ":batchEmbedContents", ":countTokens"];

/// An error unless a tenant may reach a path under the operator's key. All tenants share that key, so the provider would show each
/// of them what the others keep there: only stateless paths pass, and responses that this tenant was given.
async fn may_reach(app: &App, caller: &ApiCaller, method: &Method, path: &str) -> Result<(), HttpProblem> {
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    let plain = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        !name.is_empty() && name != "." && name != ".." && name.bytes().all(fits)
    };
    let allowed = match segments.as_slice() {
        ["models"] => *method == Method::GET,
        ["models", name] if *method == Method::POST => {
            plain(name) && STATELESS_VERBS.iter().any(|verb| name.ends_with(verb))
        }
        ["models", name] => *method == Method::GET && plain(name),
        ["responses", id] | ["responses", id, "input_items" | "cancel"] => {
            app.store.alias(&caller.tenant, BY_RESPONSE, id).await?.is_some()
        }
        _ => *method == Method::POST && STATELESS.contains(&path),
    };
    if allowed {
        return Ok(());
    }
    let detail = "there is no such object of this tenant: with the operator's provider key, only stateless paths and this \
                  tenant's own responses can be reached";
    Err(HttpProblem::new(StatusCode::NOT_FOUND, "not_found", detail))
}

/// No provider serves a path.
fn no_upstream(app: &App, asked: &str, provider: Provider) -> HttpProblem {
    let known: Vec<String> =
        configured(app).into_iter().map(|(name, place)| format!("{name} at {place}")).collect();
    let have = if known.is_empty() {
        "none is configured".into()
    } else {
        format!("configured: {}", known.join(", "))
    };
    let detail =
        format!("no upstream serves {asked}; {have}; set a key or a base URL for {}", provider.name());
    HttpProblem::new(StatusCode::NOT_FOUND, "no_provider", detail).with("upstreams", known)
}

/// The path and query that a provider knows a request by. The router took the version off.
pub(super) fn path(version: Version, provider: Provider, uri: &Uri) -> String {
    if provider == Provider::Gemini {
        return gemini::below(version.name(), uri);
    }
    let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    path.strip_prefix('/').unwrap_or(&path).to_string()
}

/// Whose client it is: Gemini's and Anthropic's say so.
pub(super) fn whose(version: Version, headers: &HeaderMap) -> Provider {
    if version == Version::V1Beta || headers.contains_key(GOOGLE_KEY) {
        Provider::Gemini
    } else if headers.contains_key("anthropic-version") || headers.contains_key("x-api-key") {
        Provider::Anthropic
    } else {
        Provider::OpenAi
    }
}

/// Who answers clients of a provider.
pub(super) fn who(app: &App, provider: Provider, headers: &HeaderMap) -> Result<Answerer, HttpProblem> {
    let upstream = app.upstreams.get(&app.catalog, provider, "");
    let upstream = upstream
        .map_err(|error| HttpProblem::new(StatusCode::BAD_GATEWAY, error.code(), error.to_string()))?;
    Ok(answerer(upstream, None, headers, app.address))
}

/// What goes with a request that is passed on.
pub(super) struct PassedCall<H> {
    /// What is given back when its reply has ended.
    pub(super) held: H,
    /// Where what it uses is added up.
    pub(super) usage: Option<PassedUsage>,
}

/// Sends a request on and hands back what comes, while it comes.
///
/// It is work of its own, because the client may go away: what its provider was made to do is counted all the same.
pub(super) async fn hand_on<H: Send + 'static>(
    app: &App,
    upstream: &Upstream,
    request: PassedRequest,
    told: HeaderMap,
    call: PassedCall<H>,
) -> Result<Response, HttpProblem> {
    let (client, response) = oneshot::channel();
    let (app, upstream, task) = (app.clone(), upstream.clone(), app.tasks.enter());
    tokio::spawn(async move {
        let _task = task;
        let PassedCall { held, usage } = call;
        tokio::select! {
            () = pass_between(&app, &upstream, request, told, usage, client) => {}
            () = app.time_is_up.asked() => {}
        }
        drop(held);
    });
    response.await.unwrap_or_else(|_| Err(unfinished()))
}

async fn pass_between(
    app: &App,
    upstream: &Upstream,
    request: PassedRequest,
    told: HeaderMap,
    mut usage: Option<PassedUsage>,
    client: ResponseSender,
) {
    let mut passed = match send_on(upstream, request).await {
        Ok(passed) => passed,
        Err(error) => {
            let (status, code) = match error.kind {
                ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
                ErrorKind::InvalidRequest => (StatusCode::BAD_REQUEST, "bad_path"),
                _ => (StatusCode::BAD_GATEWAY, "upstream_unreachable"),
            };
            let _ = client.send(Err(HttpProblem::new(status, code, error.to_string())));
            return;
        }
    };
    // What was refused is not billed.
    usage = usage.filter(|_| passed.status.is_success());
    let (pipe, piped) = pipe();
    let mut response = Response::new(Body::new(piped));
    *response.status_mut() = passed.status;
    *response.headers_mut() = passed_back(&passed.headers);
    response.headers_mut().extend(told);
    let mut pipe = client.send(Ok(response)).is_ok().then_some(pipe);
    let idle = app.settings.limits.stream_idle;
    // Where use is counted, a reply is read to its end: a client that leaves early has it all the same.
    while pipe.is_some() || usage.is_some() {
        match tokio::time::timeout(idle, passed.next()).await {
            Ok(Some(Ok(bytes))) => {
                if let Some(usage) = &mut usage {
                    usage.read(&bytes);
                }
                if let Some(open) = &pipe
                    && !open.give(bytes, idle).await
                {
                    pipe = None;
                }
            }
            Ok(None) => break,
            Ok(Some(Err(_))) | Err(_) => {
                if let Some(open) = pipe.take() {
                    open.cut().await;
                }
                break;
            }
        }
    }
    if let Some(usage) = usage {
        usage.charge().await;
    }
}
