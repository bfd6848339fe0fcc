//! Why a reply ended: the providers' words, and ours.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// It was finished.
    Stop,
    /// It reached the limit of its length, or of the window.
    Length,
    /// It waits for the results of its tool calls.
    ToolCalls,
    /// A filter of the provider cut it.
    ContentFilter,
    /// The model declined to answer.
    Refusal,
    /// The provider paused it; sending it back goes on.
    Pause,
    /// The provider stopped after it had compacted the history.
    Compaction,
    /// It broke on an error of the provider.
    Error,
    /// A reason of the provider that has no word here; `stop_raw` has the provider's.
    Other,
    /// A word that another program wrote into a record. It is kept as it was, because the hash chain covers it.
    Foreign(Box<str>),
}

/// Each reason, our word for it, and what the providers say.
///
/// Responses and Gemini have no word for a reply that waits for its tools, and some hosts of the chat format say
/// `stop` there too: a reply that stopped with calls for the client in it has stopped for them (`tool_calls`).
static WORDS: [(StopReason, &str, &[&str]); 9] = [
    (StopReason::Stop, "stop", &["stop", "completed", "end_turn", "stop_sequence", "STOP"]),
    (
        StopReason::Length,
        "length",
        &["length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "MAX_TOKENS"],
    ),
    (StopReason::ToolCalls, "tool_calls", &["tool_calls", "function_call", "tool_use"]),
    (
        StopReason::ContentFilter,
        "content_filter",
        &[
            "content_filter",
            "content_filtered",
            "guardrail_intervened",
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ],
    ),
    (StopReason::Refusal, "refusal", &["refusal"]),
    (StopReason::Pause, "pause", &["pause_turn"]),
    (StopReason::Compaction, "compaction", &["compaction"]),
    (
        StopReason::Error,
        "error",
        &[
            "error",
            "failed",
            "insufficient_system_resource",
            "malformed_model_output",
            "malformed_tool_use",
            "MALFORMED_FUNCTION_CALL",
            "MALFORMED_RESPONSE",
            "UNEXPECTED_TOOL_CALL",
            "TOO_MANY_TOOL_CALLS",
            "MISSING_THOUGHT_SIGNATURE",
        ],
    ),
    (StopReason::Other, "other", &[]),
];

impl StopReason {
    /// Our word for it.
    pub fn as_str(&self) -> &str {
        match self {
            StopReason::Foreign(word) => word,
            known => WORDS.iter().find(|(reason, ..)| reason == known).map_or("other", |(_, word, _)| word),
        }
    }

    /// The reason one of our words names; any other word is kept as it is.
    pub fn from_word(word: &str) -> Self {
        let known = WORDS.iter().find(|(_, ours, _)| *ours == word);
        known.map_or_else(|| StopReason::Foreign(word.into()), |(reason, ..)| reason.clone())
    }

    /// The reason for the provider's word; a reply that ended without one has simply stopped.
    pub(super) fn of_provider(raw: Option<&str>, asks: Asks) -> Self {
        let known = raw.map(|raw| WORDS.iter().find(|(.., theirs)| theirs.contains(&raw)));
        let reason = match known {
            None => StopReason::Stop,
            Some(found) => found.map_or(StopReason::Other, |(reason, ..)| reason.clone()),
        };
        if reason == StopReason::Stop && asks == Asks::ForTools { StopReason::ToolCalls } else { reason }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for StopReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(StopReason::from_word(&Cow::<'de, str>::deserialize(deserializer)?))
    }
}

/// Whether the message asks the client to run tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asks {
    #[default]
    Nothing,
    ForTools,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_every_provider_has_one_of_ours() {
        for (theirs, ours) in [
            ("end_turn", "stop"),
            ("max_output_tokens", "length"),
            ("tool_use", "tool_calls"),
            ("SAFETY", "content_filter"),
            ("refusal", "refusal"),
            ("pause_turn", "pause"),
            ("compaction", "compaction"),
            ("MALFORMED_FUNCTION_CALL", "error"),
            ("LANGUAGE", "other"),
            ("invented", "other"),
        ] {
            assert_eq!(StopReason::of_provider(Some(theirs), Asks::Nothing).as_str(), ours);
        }
        let all: Vec<&str> = WORDS.iter().flat_map(|(.., theirs)| theirs.iter().copied()).collect();
        let unique: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), unique.len(), "no word means two things");
    }

    #[test]
    fn stopping_with_calls_is_waiting_for_them() {
        assert_eq!(StopReason::of_provider(Some("STOP"), Asks::ForTools).as_str(), "tool_calls");
        assert_eq!(StopReason::of_provider(None, Asks::ForTools).as_str(), "tool_calls");
        assert_eq!(StopReason::of_provider(Some("length"), Asks::ForTools).as_str(), "length");
        assert_eq!(StopReason::of_provider(None, Asks::Nothing).as_str(), "stop");
    }

    #[test]
    fn every_word_is_read_back_and_foreign_words_are_kept() {
        for (reason, word, _) in &WORDS {
            assert_eq!(&StopReason::from_word(word), reason);
            assert_eq!(serde_json::to_string(reason).unwrap_or_default(), format!("\"{word}\""));
        }
        let foreign: Option<StopReason> = serde_json::from_str("\"eos\"").ok();
        assert_eq!(foreign.as_ref().map(StopReason::as_str), Some("eos"));
    }
}
