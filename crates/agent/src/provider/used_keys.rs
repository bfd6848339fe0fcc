//! The keys that a call is made with, and taking them out of what is written down: a provider may repeat them.

use bytes::Bytes;
use scrollback_core::json;
use scrollback_core::stream::Reply;
use secrecy::{ExposeSecret, SecretString};

/// Shortest text that is taken for a key in what a provider says: a shorter one may well be a word of the reply. Servers on
/// one's own machine take any word for a key, and keys of providers are longer.
const SHORTEST: usize = 12;
/// What stands in the place of a key.
const HIDDEN: &str = "[redacted:configured]";

/// The keys that a call is made with.
#[derive(Clone, Debug, Default)]
pub struct UsedKeys(Vec<SecretString>);

impl UsedKeys {
    /// These keys; what is too short to be one is left out.
    pub fn new(keys: impl IntoIterator<Item = SecretString>) -> Self {
        UsedKeys(keys.into_iter().filter(|key| key.expose_secret().len() >= SHORTEST).collect())
    }

    /// These and others.
    #[must_use]
    pub fn and(mut self, more: impl IntoIterator<Item = String>) -> Self {
        self.0.extend(UsedKeys::new(more.into_iter().map(SecretString::from)).0);
        self
    }

    /// Bytes without any of them.
    pub fn without(&self, bytes: Bytes) -> Bytes {
        self.0.iter().fold(bytes, |bytes, key| {
            let key = key.expose_secret();
            if !bytes.windows(key.len()).any(|part| part == key.as_bytes()) {
                return bytes;
            }
            String::from_utf8_lossy(&bytes).replace(key, HIDDEN).into()
        })
    }

    /// A text without any of them; none where it has none.
    fn hidden_in(&self, text: &str) -> Option<String> {
        let found = self.0.iter().filter(|key| text.contains(key.expose_secret()));
        found.fold(None, |hidden: Option<String>, key| {
            Some(hidden.as_deref().unwrap_or(text).replace(key.expose_secret(), HIDDEN))
        })
    }

    /// Takes them out of a reply, wherever they stand and however its JSON spells them.
    pub fn hide_in(&self, reply: &mut Reply) {
        if self.0.is_empty() {
            return;
        }
        let raw = reply.raw.as_deref();
        let raw = raw.and_then(|raw| json::map_strings(json::check(raw).ok()?, |text| self.hidden_in(text)));
        if raw.is_some() {
            reply.raw = raw;
        }
        let meta = serde_json::to_string(&reply.meta).unwrap_or_default();
        let meta =
            json::check(&meta).ok().and_then(|meta| json::map_strings(meta, |text| self.hidden_in(text)));
        if let Some(meta) = meta.and_then(|meta| serde_json::from_str(&meta).ok()) {
            reply.meta = meta;
        }
        if let Some(problem) = &mut reply.problem
            && let Some(message) = self.hidden_in(&problem.message)
        {
            problem.message = message;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::wire::Wire;

    #[test]
    fn keys_are_hidden_wherever_a_reply_has_them_and_short_words_stay() {
        let key = "sk-operator-0123456789";
        let spelled = key.replacen('o', "\\u006f", 1);
        let body = format!(
            r#"{{"id":"{key}","choices":[{{"message":{{"role":"assistant","content":"{key} {spelled} ollama"}},"finish_reason":"stop"}}]}}"#
        );
        let keys =
            UsedKeys::new([key.to_string().into(), "ollama".to_string().into()]).and(["short".to_string()]);
        let mut reply = Reply::from_body(Wire::OpenaiChat, json::check(&body).unwrap());
        keys.hide_in(&mut reply);
        let entry = reply.entry().unwrap();
        assert_eq!(entry.content().unwrap(), format!("{HIDDEN} {HIDDEN} ollama"));
        assert_eq!(reply.meta.response_id.as_deref(), Some(HIDDEN));
        assert_eq!(keys.without(Bytes::from(format!("a {key}!"))), format!("a {HIDDEN}!"));
        assert!(!format!("{keys:?}").contains(key));
    }
}
