//! The keys that a call of a client is made with: the operator's, and those that the client has shown.

use axum::http::HeaderMap;
use bytes::Bytes;
use scrollback_agent::provider::UsedKeys;

use super::tee::ReplyEnd;
use super::upstreams::Answerer;
use crate::auth::presented;

/// The operator's key of the provider that is asked, and those that the client has shown.
pub(super) fn used_keys(answerer: &Answerer, headers: &HeaderMap) -> UsedKeys {
    let configured = match answerer {
        Answerer::Upstream(upstream, _) => upstream.keys(),
        Answerer::Echo => UsedKeys::default(),
    };
    configured.and(presented(headers).map(String::from))
}

/// Takes keys out of a reply before anything of it is written down. The client gets what came.
pub(super) fn hide(keys: &UsedKeys, ended: &mut ReplyEnd) {
    let came = ended.bytes.clone();
    ended.bytes = keys.without(came.clone());
    let raw = ended.reply.raw.clone();
    keys.hide_in(&mut ended.reply);
    if let Some(hidden) = ended.reply.raw.as_ref().filter(|_| ended.reply.raw != raw)
        && ended.bytes == came
    {
        // A stream has the key in pieces. The message stands for it.
        ended.bytes = Bytes::from(hidden.clone());
    }
}
