//! What every connection of ours has in common.

use std::error::Error;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Url};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);

/// A client that follows redirects as `redirects` says.
pub(crate) fn client(redirects: Policy) -> Result<Client, reqwest::Error> {
    // Whoever asked first decides on the cryptography; any choice will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .connect_timeout(CONNECT)
        .redirect(redirects)
        .user_agent(concat!("scrollback/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Whether a URL leads to this machine.
pub(crate) fn is_local(url: &Url) -> bool {
    matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

/// The cause behind all others, which says most and repeats nothing of the request.
pub(crate) fn innermost(error: &reqwest::Error) -> &dyn Error {
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}
