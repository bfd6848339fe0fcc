//! A provider that a client's requests are passed on to: the bytes that came in go out, and those that come back are
//! handed on as they are.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Method, Request, Response, StatusCode, Url};
use scrollback_core::model;
use secrecy::SecretString;

use super::UsedKeys;
use super::error::{ErrorKind, ProviderError};
use super::http::{ConnectPhase, KeyStyle, base_url, key_header, of_transport};
use crate::net::client_within;

/// A provider that requests are passed on to. Where it is comes from the configuration, never from a request.
/// Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Upstream(Arc<ProviderState>);

/// What is known about a provider.
struct ProviderState {
    client: Client,
    provider: model::Provider,
    base: Url,
    stated: bool,
    key: Option<SecretString>,
}

/// A request to be passed on.
#[derive(Clone, Debug)]
pub struct PassedRequest {
    /// The method.
    pub method: Method,
    /// The path below the version, as in `chat/completions`, with the query if there is one. For Gemini, whose clients choose
    /// the version, it begins with that, as in `v1beta/models`.
    pub path: String,
    /// Headers that go along.
    pub headers: HeaderMap,
    /// The body, untouched.
    pub body: Bytes,
    /// Whom the request is sent in the name of.
    pub credential: Credential,
    /// How long the first byte may take.
    pub timeout: Duration,
}

/// Whom a request is sent in the name of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The operator of this process: the configured key, if there is one.
    Ours,
    /// The client: its key is among the request's headers.
    Theirs,
}

/// A reply that is passed on.
#[derive(Debug)]
pub struct Passed {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    response: Response,
}

impl Passed {
    /// The next bytes as they came; none at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, ProviderError>> {
        let next = self.response.chunk().await;
        next.map_err(|error| of_transport(&error, ConnectPhase::Within)).transpose()
    }
}

impl Upstream {
    /// A provider at a base URL, `stated` if the base URL was configured. A key is sent over https only, or to this machine.
    /// A connection that takes longer than `connect` to open is given up.
    pub(super) fn new(
        provider: model::Provider,
        base: &str,
        stated: bool,
        key: Option<SecretString>,
        connect: Duration,
    ) -> Result<Self, ProviderError> {
        let mut base = base_url(base, key.is_some())?;
        if provider == model::Provider::Gemini {
            // The version is part of each request's path; people write it into the base URL all the same.
            let path = base.path().trim_end_matches('/');
            let above = path.strip_suffix("/v1beta").or(path.strip_suffix("/v1")).unwrap_or(path);
            let above = format!("{above}/");
            base.set_path(&above);
        }
        let client = client_within(connect, reqwest::redirect::Policy::none())
            .map_err(|error| ProviderError::new(ErrorKind::Network, error.to_string()))?;
        Ok(Upstream(Arc::new(ProviderState { client, provider, base, stated, key })))
    }

    /// Whether a key for it is configured.
    pub fn has_key(&self) -> bool {
        self.0.key.is_some()
    }

    /// Whether the base URL was configured; otherwise it is the provider's public one.
    pub fn is_stated(&self) -> bool {
        self.0.stated
    }

    /// Who it is.
    pub fn provider(&self) -> model::Provider {
        self.0.provider
    }

    /// The host and port it is at.
    pub fn place(&self) -> (&str, u16) {
        let base = &self.0.base;
        (base.host_str().unwrap_or_default(), base.port_or_known_default().unwrap_or(0))
    }

    /// Its base URL, as people write it. No password can be in it.
    pub fn base_url(&self) -> String {
        let base = self.0.base.as_str();
        base.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/').to_string()
    }

    /// The configured key, to be taken out of what comes back.
    pub fn keys(&self) -> UsedKeys {
        UsedKeys::new(self.0.key.clone())
    }

    /// Sends a request on. An error before the first byte of the reply is returned here.
    pub(crate) async fn pass(&self, request: PassedRequest) -> Result<Passed, ProviderError> {
        let url = self.url(&request.path)?;
        let mut headers = request.headers;
        // Bytes are handed on as they come, so they must be readable as they come.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if request.credential == Credential::Ours {
            headers.remove(AUTHORIZATION);
            headers.remove("x-api-key");
            headers.remove("x-goog-api-key");
            if let Some(key) = &self.0.key {
                let style = match self.0.provider {
                    model::Provider::Anthropic => KeyStyle::ApiKey,
                    model::Provider::Gemini => KeyStyle::GoogApiKey,
                    _ => KeyStyle::Bearer,
                };
                let (name, value) = key_header(key, style)?;
                headers.insert(name, value);
            }
        }
        let mut passed = Request::new(request.method, url);
        *passed.headers_mut() = headers;
        *passed.body_mut() = Some(request.body.into());
        let sent = tokio::time::timeout(request.timeout, self.0.client.execute(passed))
            .await
            .map_err(|_| ProviderError::new(ErrorKind::Timeout, "the provider took too long to answer"))?;
        let mut response = sent.map_err(|error| of_transport(&error, ConnectPhase::Before))?;
        let headers = std::mem::take(response.headers_mut());
        Ok(Passed { status: response.status(), headers, response })
    }

    /// Where a path below the version is. Nothing in it can lead anywhere else.
    fn url(&self, path: &str) -> Result<Url, ProviderError> {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:,+=".contains(&byte);
        let fine = |segment: &str| {
            !segment.is_empty() && segment.bytes().all(plain) && !segment.trim_matches('.').is_empty()
        };
        if !path.split('/').all(fine) {
            let message = "unknown path: no provider serves it";
            return Err(ProviderError::new(ErrorKind::InvalidRequest, message));
        }
        let ProviderState { provider, base, .. } = &*self.0;
        let version = if *provider == model::Provider::Anthropic { "v1/" } else { "" };
        let mut url = base.clone();
        url.set_path(&format!("{}{version}{path}", base.path()));
        url.set_query(query);
        Ok(url)
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("provider", &self.0.provider.name())
            .field("base", &self.0.base.as_str())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::net::CONNECT;

    fn at(base: &str) -> Upstream {
        Upstream::new(
            model::Provider::OpenAi,
            base,
            true,
            Some(SecretString::from("sk-secret-0123456789")),
            CONNECT,
        )
        .unwrap()
    }

    #[test]
    fn paths_stay_below_the_base() {
        let upstream = at("https://api.example/v1");
        assert_eq!(
            upstream.url("chat/completions").unwrap().as_str(),
            "https://api.example/v1/chat/completions"
        );
        assert_eq!(upstream.url("files?limit=2").unwrap().as_str(), "https://api.example/v1/files?limit=2");
        let messages =
            Upstream::new(model::Provider::Anthropic, "https://a.example", false, None, CONNECT).unwrap();
        assert_eq!(
            messages.url("messages?beta=true").unwrap().as_str(),
            "https://a.example/v1/messages?beta=true"
        );
        let gemini =
            Upstream::new(model::Provider::Gemini, "https://g.example/v1beta/", true, None, CONNECT).unwrap();
        assert_eq!(
            gemini.url("v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse").unwrap().as_str(),
            "https://g.example/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
        );
        let escapes = [
            "../admin",
            "a/../../b",
            "/evil.example",
            "//evil.example/x",
            "a//b",
            "a/./b",
            "%2e%2e/x",
            "x%2fy",
            "a\\b",
            "x@evil.example",
            "http://evil.example/",
            "",
            "a b",
            "a\r\nHost: evil",
            "…",
        ];
        for path in escapes {
            assert!(upstream.url(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn keys_do_not_travel_in_the_clear_or_come_back() {
        let key = || Some(SecretString::from("sk-secret-0123456789"));
        assert!(
            Upstream::new(model::Provider::OpenAi, "http://example.com/v1", true, key(), CONNECT).is_err()
        );
        assert!(
            Upstream::new(model::Provider::OpenAi, "http://127.0.0.1:1/v1", true, key(), CONNECT).is_ok()
        );
        assert!(
            Upstream::new(model::Provider::OpenAi, "https://u:p@example.com/v1", true, key(), CONNECT)
                .is_err()
        );
        let text = at("https://api.example/v1").keys().without(Bytes::from("bad key sk-secret-0123456789!"));
        assert_eq!(text, "bad key [redacted:configured]!");
        assert!(!format!("{:?}", at("https://api.example/v1")).contains("secret"));
    }
}
