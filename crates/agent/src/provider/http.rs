//! Providers over HTTP: `OpenAI`, Anthropic, and everything that speaks like `OpenAI`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use scrollback_core::Time;
use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;
use secrecy::{ExposeSecret, SecretString};

use super::error::{ErrorKind, ProviderError};
use super::reply::{ReplyBytes, ReplyStream};
use super::{ModelInfo, Provider, ReplyDelivery, Request, UsedKeys};
use crate::effects::BoxFuture;
use crate::net::{client, innermost, is_local};

/// Which interface a provider is spoken to by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `OpenAI` Chat Completions.
    Chat,
    /// `OpenAI` Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

impl Api {
    /// The format of its requests.
    pub fn wire(self) -> Wire {
        match self {
            Api::Chat => Wire::OpenaiChat,
            Api::Responses => Wire::OpenaiResponses,
            Api::Messages => Wire::Anthropic,
        }
    }

    /// Where it is, below a base URL.
    fn path(self) -> &'static str {
        match self {
            Api::Chat => "chat/completions",
            Api::Responses => "responses",
            Api::Messages => "v1/messages",
        }
    }
}

/// Longest error text that is read; the rest of a long error text is of no use.
const MAX_ERROR: usize = 64 << 10;

/// Where requests go, and the key they are sent with. The key cannot be printed.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: Url,
    key: Option<SecretString>,
}

impl Endpoint {
    /// An endpoint below a base URL. A key is sent over https only, or to this machine.
    pub fn new(base: &str, api: Api, key: Option<SecretString>) -> Result<Self, ProviderError> {
        let url = base_url(base, key.is_some())?;
        let url = url.join(api.path()).map_err(|error| refused(base, &format!("cannot be read: {error}")))?;
        Ok(Endpoint { url, key })
    }
}

fn refused(base: &str, problem: &str) -> ProviderError {
    ProviderError::new(ErrorKind::InvalidRequest, format!("the base URL {base:?} {problem}"))
}

/// A base URL that requests may be sent below. A key is sent over https only, or to this machine.
pub(super) fn base_url(base: &str, has_key: bool) -> Result<Url, ProviderError> {
    let slashed = if base.ends_with('/') { base.to_string() } else { format!("{base}/") };
    let url = Url::parse(&slashed).map_err(|error| refused(base, &format!("cannot be read: {error}")))?;
    match url.scheme() {
        "https" => {}
        "http" if is_local(&url) || !has_key => {}
        "http" => return Err(refused(base, "is not https, and a key would be sent in the clear")),
        _ => return Err(refused(base, "must begin with https:// or http://")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused(base, "must not hold a password; keys come from the environment"));
    }
    Ok(url)
}

/// A provider over HTTP.
#[derive(Clone)]
pub struct Http {
    client: Client,
    model: ModelName,
    api: Api,
    endpoint: Endpoint,
}

/// How a provider wants its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyStyle {
    /// `x-api-key`, as Anthropic does.
    ApiKey,
    /// `x-goog-api-key`, as Gemini does.
    GoogApiKey,
    /// `Authorization: Bearer`, as everyone else does.
    Bearer,
}

/// The header with a key, which no log prints.
pub(super) fn key_header(
    key: &SecretString,
    style: KeyStyle,
) -> Result<(HeaderName, HeaderValue), ProviderError> {
    let (name, text) = match style {
        KeyStyle::ApiKey => (HeaderName::from_static("x-api-key"), key.expose_secret().to_string()),
        KeyStyle::GoogApiKey => (HeaderName::from_static("x-goog-api-key"), key.expose_secret().to_string()),
        KeyStyle::Bearer => (reqwest::header::AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
    };
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| ProviderError::new(ErrorKind::Auth, "the key has characters that no header can hold"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

impl Api {
    fn key_style(self) -> KeyStyle {
        match self {
            Api::Messages => KeyStyle::ApiKey,
            Api::Chat | Api::Responses => KeyStyle::Bearer,
        }
    }
}

impl Http {
    /// A model at an endpoint.
    pub fn new(model: ModelName, api: Api, endpoint: Endpoint) -> Result<Self, ProviderError> {
        let client = client(reqwest::redirect::Policy::none())
            .map_err(|error| ProviderError::new(ErrorKind::Network, error.to_string()))?;
        Ok(Http { client, model, api, endpoint })
    }

    fn headers(&self) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        headers.insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.api == Api::Messages {
            headers
                .insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &self.endpoint.key {
            let (name, value) = key_header(key, self.api.key_style())?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    async fn send(&self, request: Request) -> Result<ReplyStream, ProviderError> {
        let wire = self.api.wire();
        let sent = self
            .client
            .post(self.endpoint.url.clone())
            .headers(self.headers()?)
            .timeout(request.timeout)
            .body(request.body.to_string())
            .send()
            .await;
        let mut response = sent.map_err(|error| of_transport(&error, ConnectPhase::Before))?;
        let status = response.status();
        if status.is_success() {
            let source = Box::new(ReplyBody(response));
            let stream = match request.delivery {
                ReplyDelivery::Streamed => ReplyStream::events(wire, source)?,
                ReplyDelivery::Whole => ReplyStream::body(wire, source),
            };
            return Ok(stream.asked_with(UsedKeys::new(self.endpoint.key.clone())));
        }
        let retry_after = retry_after(response.headers());
        let mut text = Vec::new();
        while let Ok(Some(bytes)) = response.chunk().await {
            text.extend_from_slice(&bytes);
            if text.len() > MAX_ERROR {
                break;
            }
        }
        let text = String::from_utf8_lossy(&text);
        Err(ProviderError::of_answer(wire, status.as_u16(), retry_after, &text))
    }
}

impl Provider for Http {
    fn describe(&self) -> ModelInfo {
        ModelInfo { model: self.model.clone(), wire: self.api.wire() }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<ReplyStream, ProviderError>> {
        Box::pin(async move {
            let secret = self.endpoint.key.as_ref().map_or("", ExposeSecret::expose_secret);
            self.send(request).await.map_err(|error| error.without(secret))
        })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("model", &self.model.to_string())
            .field("url", &self.endpoint.url.as_str())
            .finish_non_exhaustive()
    }
}

struct ReplyBody(Response);

impl ReplyBytes for ReplyBody {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, ProviderError>>> {
        Box::pin(async move {
            let next = self.0.chunk().await;
            next.map_err(|error| of_transport(&error, ConnectPhase::Within)).transpose()
        })
    }
}

/// When a connection failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectPhase {
    Before,
    Within,
}

pub(super) fn of_transport(error: &reqwest::Error, phase: ConnectPhase) -> ProviderError {
    let (kind, what) = match phase {
        _ if error.is_timeout() => (ErrorKind::Timeout, "the provider took too long"),
        ConnectPhase::Before => (ErrorKind::Network, "the provider cannot be reached"),
        ConnectPhase::Within => (ErrorKind::Truncated, "the connection broke before the end of the reply"),
    };
    ProviderError::new(kind, format!("{what}: {}", innermost(error)))
}

/// What the provider asks for: milliseconds, seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text(&HeaderName::from_static("retry-after-ms")).and_then(|text| text.parse::<f64>().ok());
    if let Some(millis) = millis {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let after = text(&RETRY_AFTER)?;
    if let Ok(seconds) = after.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // A date is relative to the provider's own clock.
    let date =
        |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|date| Time(date.timestamp().as_millisecond()));
    let (until, now) = (date(after)?, date(text(&reqwest::header::DATE)?)?);
    Some(Duration::from_millis(u64::try_from(until.0 - now.0).unwrap_or(0)))
}
