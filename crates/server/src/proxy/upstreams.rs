//! Who answers a request, and in whose name they are asked.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use axum::http::header::{self, HeaderMap, HeaderName};
use scrollback_agent::provider::{Catalog, Credential, NoProvider, Upstream};
use scrollback_core::model::{self, ModelName};

use crate::App;
use crate::auth::presented;
use crate::keys;

/// Whoever answers a request.
#[derive(Clone, Debug)]
pub(crate) enum Answerer {
    /// Nobody: the last thing the user said comes back.
    Echo,
    /// A provider.
    Upstream(Upstream, Credential),
}

/// The providers that were asked so far: their connections are kept, each on the thread that opened it and for requests that
/// are served there.
#[derive(Debug)]
pub(crate) struct Upstreams {
    known: Mutex<HashMap<(ThreadId, &'static str, String), Upstream>>,
    /// How long a connection may take to open.
    connect: Duration,
}

impl Upstreams {
    pub(crate) fn new(connect: Duration) -> Self {
        Upstreams { known: Mutex::default(), connect }
    }

    /// Whoever is configured for a provider and a model.
    pub(crate) fn get(
        &self,
        catalog: &Catalog,
        provider: model::Provider,
        model: &str,
    ) -> Result<Upstream, NoProvider> {
        let model = if catalog.has_place(model) { model } else { "" };
        let key = (thread::current().id(), provider.name(), model.to_string());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(upstream) = known.get(&key) {
            return Ok(upstream.clone());
        }
        let upstream = catalog.upstream(provider, model, self.connect)?;
        known.insert(key, upstream.clone());
        Ok(upstream)
    }
}

/// Who answers a request for a model.
///
/// A key that is configured is used; else the client's own, if it has one that may be a provider's; else, where nobody said
/// where the provider is, there is nobody to ask.
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
    let own = presented(headers).any(|key| !is_ours(key) && (upstream.is_stated() || is_plausible(key)));
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
        Err(error) => return format!("nobody: {error}"),
    };
    let place = upstream.place().0.to_string();
    match answerer(upstream, None, &HeaderMap::new(), app.address) {
        Answerer::Echo => "offline:echo".into(),
        Answerer::Upstream(..) => place,
    }
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

/// Whether a text may be a provider's key: people who have none write anything.
fn is_plausible(key: &str) -> bool {
    key.starts_with("sk-") && key.len() >= 20
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

/// The headers of a request that go on to its provider.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
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
        let is_key = *name == header::AUTHORIZATION || text == "x-api-key";
        let shown = value.to_str().unwrap_or_default();
        let bare = shown.split_once(' ').map_or(shown, |(_, key)| key.trim());
        if is_key && (is_ours(shown) || is_ours(bare)) {
            continue;
        }
        let mut value = value.clone();
        value.set_sensitive(is_key);
        passed.append(name.clone(), value);
    }
    passed
}

/// Headers by which a provider would send the client to somebody else, with what it has to say and its key.
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
        match answerer(upstream, Some(&model), &headers(pairs), SocketAddr::from(([127, 0, 0, 1], 8787))) {
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
            who(&[("OPENAI_BASE_URL", "http://localhost:8787/v1")], &[real]),
            "echo",
            "it would ask itself"
        );
    }

    #[test]
    fn headers_about_the_connection_stay_here() {
        let given = headers(&[
            ("host", "127.0.0.1:8787"),
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
        let names: Vec<String> = passed_on(&given).keys().map(ToString::to_string).collect();
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
