//! The keys that a call is made with, and taking them out of what is written down: a provider may repeat them.

use axum::http::HeaderMap;
use bytes::Bytes;
use scrollback_agent::provider::{Upstream, without_secret};
use scrollback_core::json;

use super::tee::ReplyEnd;
use super::upstreams::Answerer;
use crate::auth::presented;

/// Shortest text that is taken for a key in what a provider sends back: a shorter one may well be a word of the reply.
const SHORTEST: usize = 12;

/// The operator's key of the provider that is asked, and those that the client has shown.
pub(crate) struct UsedKeys {
    upstream: Option<Upstream>,
    shown: Vec<String>,
}

impl UsedKeys {
    pub(super) fn of(answerer: &Answerer, headers: &HeaderMap) -> Self {
        let upstream = match answerer {
            Answerer::Upstream(upstream, _) => Some(upstream.clone()),
            Answerer::Echo => None,
        };
        let shown = presented(headers).filter(|key| key.len() >= SHORTEST).map(String::from).collect();
        UsedKeys { upstream, shown }
    }

    /// Bytes without any of them.
    pub(super) fn without(&self, bytes: Bytes) -> Bytes {
        let bytes = self.upstream.as_ref().map_or(bytes.clone(), |upstream| upstream.without_key(bytes));
        self.shown.iter().fold(bytes, |bytes, key| without_secret(bytes, key))
    }

    /// Takes them out of a reply, wherever they stand and however its JSON spells them, before anything of it is written down. The
    /// client gets what came.
    pub(super) fn hide(&self, ended: &mut ReplyEnd) {
        let came = ended.bytes.clone();
        ended.bytes = self.without(came.clone());
        let hidden = |text: &str| {
            let hidden = self.without(Bytes::copy_from_slice(text.as_bytes()));
            (hidden != text.as_bytes()).then(|| String::from_utf8_lossy(&hidden).into_owned())
        };
        let raw = ended.reply.raw.as_deref();
        let raw = raw.and_then(|raw| json::map_strings(json::check(raw).ok()?, hidden));
        if let Some(raw) = raw {
            if ended.bytes == came {
                // A stream has the key in pieces. The message stands for it.
                ended.bytes = Bytes::from(raw.clone());
            }
            ended.reply.raw = Some(raw);
        }
        let meta = serde_json::to_string(&ended.reply.meta).unwrap_or_default();
        let meta = json::check(&meta).ok().and_then(|meta| json::map_strings(meta, hidden));
        if let Some(meta) = meta.and_then(|meta| serde_json::from_str(&meta).ok()) {
            ended.reply.meta = meta;
        }
    }
}
