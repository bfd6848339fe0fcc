//! Who answers a request, and in whose name they are asked.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use scrollback_agent::provider::{Catalog, Credential, NoProvider, Upstream};
use scrollback_core::model::{self, ModelName};

use crate::App;
use crate::auth::GOOGLE_KEY;
use crate::keys;

/// What answers a request.
#[derive(Clone, Debug)]
pub(crate) enum Answerer {
    /// No provider: the last thing the user said comes back.
    Echo,
    /// A provider.
    Upstream(Upstream, Credential),
}

/// The thread an upstream is used on, its provider, and the model if that has a place of its own.
type UpstreamKey = (Option<ThreadId>, &'static str, String);

/// The providers that were asked so far: their connections are kept, each on the thread that opened it and for requests that
/// are served there.
#[derive(Debug)]
pub(crate) struct Upstreams {
    known: Mutex<HashMap<UpstreamKey, Upstream>>,
    /// How long a connection may take to open.
    connect: Duration,
    /// Providers that did not answer when they were asked for their models, and when that was.
    silent: Mutex<HashMap<&'static str, Instant>>,
}

/// How long a provider that did not answer is not asked for its models again.
const SILENT: Duration = Duration::from_secs(30);

impl Upstreams {
    pub(crate) fn new(connect: Duration) -> Self {
        Upstreams { known: Mutex::default(), connect, silent: Mutex::default() }
    }

    /// Whether a provider did not answer just now, so that no client waits for it again.
    pub(crate) fn is_silent(&self, provider: model::Provider) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.get(provider.name()).is_some_and(|since| since.elapsed() < SILENT)
    }

    /// Notes that a provider did not answer.
    pub(crate) fn note_silence(&self, provider: model::Provider) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.insert(provider.name(), Instant::now());
    }

    /// The upstream that is configured for a provider and a model.
    pub(crate) fn get(
        &self,
        catalog: &Catalog,
        provider: model::Provider,
        model: &str,
    ) -> Result<Upstream, NoProvider> {
        let model = if catalog.has_place(model) { model } else { "" };
        let key = (serving_thread(), provider.name(), model.to_string());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(upstream) = known.get(&key) {
            return Ok(upstream.clone());
        }
        let upstream = catalog.upstream(provider, model, self.connect)?;
        known.insert(key, upstream.clone());
        Ok(upstream)
    }
}

/// The thread at work, if it serves connections. Others come and go, so what they use is shared and opens no connections of its
/// own.
fn serving_thread() -> Option<ThreadId> {
    let current = thread::current();
    current.name().is_some_and(|name| name.starts_with(crate::workers::NAME)).then(|| current.id())
}

/// Who answers a request for a model.
///
/// A key that is configured is used; else the client's own, if it has one that may be a provider's; else, where it is not configured
/// where the provider is, there is no one to ask.
pub(crate) fn answerer(
    upstream: Upstream,
    model: Option<&ModelName>,
    headers: &HeaderMap,
    listening: SocketAddr,
) -> Answerer {
    let offline = model.is_some_and(|model| model.provider() == model::Provider::Offline);
    if offline || is_here(&upstream, listening) {
        return Answerer::Echo;
    }
    if upstream.has_key() {
        return Answerer::Upstream(upstream, Credential::Ours);
    }
    let provider = upstream.provider();
    let own = offered(headers, provider)
        .any(|key| !is_ours(key) && (upstream.is_stated() || is_plausible(key, provider)));
    match (own, upstream.is_stated()) {
        (true, _) => Answerer::Upstream(upstream, Credential::Theirs),
        (false, true) => Answerer::Upstream(upstream, Credential::Ours),
        (false, false) => Answerer::Echo,
    }
}

/// Who answers requests that bring no key of their own, in words.
pub(crate) fn who_answers(app: &App, provider: model::Provider) -> String {
    let upstream = match app.upstreams.get(&app.catalog, provider, "") {
        Ok(upstream) => upstream,
        Err(error) => return format!("no provider: {error}"),
    };
    let place = upstream.place().0.to_string();
    match answerer(upstream, None, &HeaderMap::new(), app.address) {
        Answerer::Echo => "offline:echo".into(),
        Answerer::Upstream(..) => place,
    }
}

/// The providers that a key or a base URL is configured for, by name, and where they are.
pub(crate) fn configured(app: &App) -> Vec<(&'static str, String)> {
    let all = [model::Provider::OpenAi, model::Provider::Anthropic, model::Provider::Gemini];
    let known = all.into_iter().filter_map(|provider| {
        let upstream = app.upstreams.get(&app.catalog, provider, "").ok()?;
        let usable = (upstream.has_key() || upstream.is_stated()) && !is_here(&upstream, app.address);
        usable.then(|| (provider.name(), upstream.place().0.to_string()))
    });
    known.collect()
}

/// Whether the place configured is this very server: clients' variables were set where it was started.
fn is_here(upstream: &Upstream, listening: SocketAddr) -> bool {
    let (host, port) = upstream.place();
    let local = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.is_loopback() || ip == listening.ip());
    local && port == listening.port()
}

/// Whether a text is one of this server's keys, whosever it is.
fn is_ours(key: &str) -> bool {
    key.starts_with(keys::PREFIX)
}

/// The keys in a request that may be sent to a provider.
fn offered(headers: &HeaderMap, provider: model::Provider) -> impl Iterator<Item = &str> {
    headers.iter().filter(move |(name, value)| is_key(name) && may_receive(provider, name, value)).filter_map(
        |(name, value)| {
            let text = value.to_str().ok()?;
            if *name == header::AUTHORIZATION { bearer(text) } else { Some(text) }
        },
    )
}

/// Whether a header holds a key.
fn is_key(name: &HeaderName) -> bool {
    *name == header::AUTHORIZATION || name == "x-api-key" || name == GOOGLE_KEY
}

/// The key after `Bearer`.
fn bearer(text: &str) -> Option<&str> {
    let (scheme, key) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

/// Whether a header with a key may be sent to a provider. Google's keys have a header of their own, which no other provider is
/// sent; and Gemini is sent no key that is spelled as those of `OpenAI` and Anthropic are.
fn may_receive(provider: model::Provider, name: &HeaderName, value: &HeaderValue) -> bool {
    if provider != model::Provider::Gemini {
        return name != GOOGLE_KEY;
    }
    let text = value.to_str().unwrap_or_default();
    let key = bearer(text).unwrap_or(text);
    // Tokens of people who are logged in with either begin as every signed token does.
    name != "x-api-key" && !["sk-", "eyJ"].iter().any(|start| key.starts_with(start))
}

/// Whether a text may be a provider's key: people who have none write anything.
fn is_plausible(key: &str, provider: model::Provider) -> bool {
    let starts: &[&str] = match provider {
        model::Provider::Gemini => &["AIza", "AQ.", "ya29."],
        _ => &["sk-"],
    };
    starts.iter().any(|start| key.starts_with(start)) && key.len() >= 20
}

/// Headers that say something about one connection only, or about whom to talk to.
const NOT_PASSED: [HeaderName; 14] = [
    header::CONNECTION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::EXPECT,
    header::CONTENT_ENCODING,
    header::COOKIE,
    header::ORIGIN,
    header::REFERER,
];

/// The headers of a request that go on to its provider: no key that is ours or another provider's.
pub(crate) fn passed_on(headers: &HeaderMap, provider: model::Provider) -> HeaderMap {
    let mut passed = HeaderMap::with_capacity(headers.len());
    let named = connection_options(headers);
    for (name, value) in headers {
        let text = name.as_str();
        let stays = NOT_PASSED.contains(name)
            || text == "keep-alive"
            || text == "forwarded"
            || text.starts_with("x-scrollback-")
            || text.starts_with("x-forwarded-")
            || text.starts_with("sec-")
            || text.starts_with("proxy-")
            || named.iter().any(|option| option == text);
        if stays {
            continue;
        }
        let is_key = is_key(name);
        let shown = value.to_str().unwrap_or_default();
        let bare = shown.split_once(' ').map_or(shown, |(_, key)| key.trim());
        if is_key && (is_ours(shown) || is_ours(bare) || !may_receive(provider, name, value)) {
            continue;
        }
        let mut value = value.clone();
        value.set_sensitive(is_key);
        passed.append(name.clone(), value);
    }
    passed
}

/// Headers by which a provider would send the client to another host, with what it has to say and its key.
const ELSEWHERE: [&str; 3] = ["location", "refresh", "alt-svc"];

/// The headers of a reply that go back to the client.
pub(crate) fn passed_back(headers: &HeaderMap) -> HeaderMap {
    let mut passed = HeaderMap::with_capacity(headers.len() + 4);
    let named = connection_options(headers);
    for (name, value) in headers {
        let text = name.as_str();
        let hop = matches!(
            *name,
            header::CONNECTION
                | header::TRANSFER_ENCODING
                | header::TE
                | header::TRAILER
                | header::UPGRADE
                | header::PROXY_AUTHENTICATE
                | header::SET_COOKIE
        );
        let stays = hop || text == "keep-alive" || ELSEWHERE.contains(&text);
        if !stays && !named.iter().any(|option| option == text) {
            passed.append(name.clone(), value.clone());
        }
    }
    passed
}

/// Headers that the sender says are about this connection.
fn connection_options(headers: &HeaderMap) -> Vec<String> {
    let stated = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    stated.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn who(variables: &'static [(&str, &str)], pairs: &[(&'static str, &'static str)]) -> &'static str {
        let catalog = Catalog::default().with_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string())
        });
        let upstream = catalog.upstream(model::Provider::OpenAi, "gpt-4o", Duration::from_secs(5)).unwrap();
        let model = ModelName::parse("openai:gpt-4o").unwrap();
        match answerer(upstream, Some(&model), &headers(pairs), SocketAddr::from(([127, 0, 0, 1], 7275))) {
            Answerer::Echo => "echo",
            Answerer::Upstream(_, Credential::Ours) => "ours",
            Answerer::Upstream(_, Credential::Theirs) => "theirs",
        }
    }

    #[test]
    fn keys_decide_who_is_asked() {
        let real = ("authorization", "Bearer sk-proj-0123456789abcdef");
        assert_eq!(who(&[], &[]), "echo");
        assert_eq!(who(&[], &[("authorization", "Bearer none")]), "echo");
        assert_eq!(who(&[], &[real]), "theirs");
        assert_eq!(who(&[], &[("authorization", "Bearer sb_0123456789abcdef0123456789")]), "echo");
        assert_eq!(who(&[("OPENAI_API_KEY", "sk-x")], &[real]), "ours");
        assert_eq!(who(&[("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")], &[]), "ours");
        assert_eq!(
            who(&[("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")], &[("authorization", "Bearer x")]),
            "theirs"
        );
        assert_eq!(
            who(&[("OPENAI_BASE_URL", "http://localhost:7275/v1")], &[real]),
            "echo",
            "it would ask itself"
        );
    }

    #[test]
    fn no_provider_is_sent_the_key_of_another() {
        let given = headers(&[
            ("authorization", "Bearer sk-proj-0123456789abcdef"),
            ("x-api-key", "sk-ant-0123456789abcdef"),
            ("x-goog-api-key", "AIza0123456789abcdef0123"),
        ]);
        let sent = |provider| passed_on(&given, provider).keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(sent(model::Provider::OpenAi), ["authorization", "x-api-key"]);
        assert_eq!(sent(model::Provider::Anthropic), ["authorization", "x-api-key"]);
        assert_eq!(sent(model::Provider::Gemini), ["x-goog-api-key"]);
        let own = headers(&[("authorization", "Bearer ya29.0123456789abcdef0123")]);
        assert_eq!(passed_on(&own, model::Provider::Gemini).len(), 1);
        let ours = headers(&[("x-goog-api-key", "sb_0123456789abcdef0123")]);
        assert_eq!(passed_on(&ours, model::Provider::Gemini).len(), 0);
    }

    #[test]
    fn headers_about_the_connection_stay_here() {
        let given = headers(&[
            ("host", "127.0.0.1:7275"),
            ("connection", "close, x-private"),
            ("x-private", "1"),
            ("x-scrollback-conversation", "a"),
            ("x-forwarded-host", "evil.example"),
            ("cookie", "scrollback_session=x"),
            ("authorization", "Bearer sb_abc"),
            ("x-api-key", "sk-theirs"),
            ("anthropic-beta", "a,b"),
            ("user-agent", "x"),
        ]);
        let names: Vec<String> =
            passed_on(&given, model::Provider::OpenAi).keys().map(ToString::to_string).collect();
        assert_eq!(names, ["x-api-key", "anthropic-beta", "user-agent"]);
        let back = headers(&[
            ("content-type", "a/b"),
            ("transfer-encoding", "chunked"),
            ("x-request-id", "r"),
            ("location", "https://evil.example"),
            ("alt-svc", "h2=\"evil.example:443\""),
        ]);
        assert_eq!(passed_back(&back).len(), 2);
    }
}
