//! Requests that are sent on for a client, byte for byte.

use crate::provider::{Passed, PassedRequest, ProviderError, Upstream};

/// Sends a client's request on to its provider. An error before the first byte of the reply is returned here.
pub async fn send_on(upstream: &Upstream, request: PassedRequest) -> Result<Passed, ProviderError> {
    upstream.pass(request).await
}
