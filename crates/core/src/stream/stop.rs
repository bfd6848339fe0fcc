//! Why a reply ended: the providers' words, and ours.

/// Our words, each with what the providers say for it. A word that stands nowhere is `other`.
///
/// Responses and Gemini have no word for a reply that waits for its tools, and some hosts of the chat format say
/// `stop` there too: a reply that stopped with calls for the client in it has stopped for them (`tool_calls`).
const WORDS: [(&str, &[&str]); 8] = [
    ("stop", &["stop", "completed", "end_turn", "stop_sequence", "STOP"]),
    ("length", &["length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "MAX_TOKENS"]),
    ("tool_calls", &["tool_calls", "function_call", "tool_use"]),
    (
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
    ("refusal", &["refusal"]),
    ("pause", &["pause_turn"]),
    ("compaction", &["compaction"]),
    (
        ERROR,
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
];

/// The word for a reply that broke on an error of the provider.
pub(super) const ERROR: &str = "error";

/// Whether the message asks the client to run tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Asks {
    #[default]
    Nothing,
    ForTools,
}

/// Our word for the provider's; a reply that ended without one has simply stopped.
pub(super) fn word(raw: Option<&str>, asks: Asks) -> &'static str {
    let word = match raw {
        None => "stop",
        Some(raw) => WORDS.iter().find(|(_, theirs)| theirs.contains(&raw)).map_or("other", |(ours, _)| ours),
    };
    if word == "stop" && asks == Asks::ForTools { "tool_calls" } else { word }
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
            assert_eq!(word(Some(theirs), Asks::Nothing), ours);
        }
        let all: Vec<&str> = WORDS.iter().flat_map(|(_, theirs)| theirs.iter().copied()).collect();
        let unique: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), unique.len(), "no word means two things");
    }

    #[test]
    fn stopping_with_calls_is_waiting_for_them() {
        assert_eq!(word(Some("STOP"), Asks::ForTools), "tool_calls");
        assert_eq!(word(None, Asks::ForTools), "tool_calls");
        assert_eq!(word(Some("length"), Asks::ForTools), "length");
        assert_eq!(word(None, Asks::Nothing), "stop");
    }
}
