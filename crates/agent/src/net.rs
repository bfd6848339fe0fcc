//! What every connection of ours has in common.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};

/// How long a connection may take to open: a place that is there answers in a moment.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection is silent before it is probed: a model may think for minutes, and routers forget such connections.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How often a request may be sent on; more is a circle.
const REDIRECTS: usize = 5;

/// A client that follows redirects as `redirects` says.
pub(crate) fn client(redirects: Policy) -> Result<Client, reqwest::Error> {
    client_within(CONNECT, redirects)
}

/// The same, with another time to connect.
pub(crate) fn client_within(connect: Duration, redirects: Policy) -> Result<Client, reqwest::Error> {
    // The first caller installs the cryptography; any choice will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(connect)
        .tcp_keepalive(KEEPALIVE)
        .redirect(redirects)
        .user_agent(concat!("scrollback/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Which redirects are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// All of them.
    All,
    /// Those that keep method and body.
    Whole,
}

/// Redirects that stay on the host of `url`, and safe.
pub(crate) fn within(url: &Url, follow: Follow) -> Policy {
    let home = url.host_str().map(str::to_string);
    Policy::custom(move |attempt| {
        let whole = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT];
        if attempt.url().host_str() != home.as_deref() {
            attempt.error("a redirect to another host")
        } else if !is_safe(attempt.url()) {
            attempt.error("a redirect away from https")
        } else if attempt.previous().len() > REDIRECTS {
            attempt.error("too many redirects")
        } else if follow == Follow::Whole && !whole.contains(&attempt.status()) {
            attempt.error("a redirect that would lose the request")
        } else {
            attempt.follow()
        }
    })
}

/// A URL that requests may be sent to: https, unless it leads to this machine.
pub(crate) fn safe_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if is_safe(&url) { Ok(url) } else { Err("must be https, unless it is on this machine".into()) }
}

fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || url.scheme() == "http" && is_local(url)
}

/// Headers of a request; their values are never printed.
pub(crate) fn headers(named: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in named {
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is not a valid header"))?;
        let mut value =
            HeaderValue::from_str(value).map_err(|_| format!("the value of {name} is not a valid header"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Whether a URL leads to this machine.
pub(crate) fn is_local(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// The cause behind all others, which says most and repeats nothing of the request.
pub(crate) fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}
