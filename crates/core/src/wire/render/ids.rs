//! Ids of tool calls on wires that limit them: mapped by a stable hash, the same for a call and its result.

use std::borrow::Cow;

use crate::wire::Wire;

/// What a wire allows as the id of a call.
struct Limit {
    longest: usize,
    allowed: fn(char) -> bool,
}

fn limit(wire: Wire) -> Option<Limit> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    Some(match wire {
        Wire::OpenaiChat => Limit { longest: 40, allowed: |c| !c.is_control() },
        Wire::OpenaiResponses => Limit { longest: 64, allowed: |c| !c.is_control() },
        // The pattern has no length; an id longer than any provider's own is cut all the same.
        Wire::Anthropic => Limit { longest: 256, allowed: word },
        Wire::Bedrock => Limit {
            longest: 64,
            allowed: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'),
        },
        Wire::Gemini | Wire::Scrollback => return None,
    })
}

/// The id as `wire` takes it: unchanged if it fits, else its start with a hash of the whole.
pub(crate) fn fit(wire: Wire, id: &str) -> Cow<'_, str> {
    let Some(limit) = limit(wire) else { return Cow::Borrowed(id) };
    if !id.is_empty() && id.chars().count() <= limit.longest && id.chars().all(limit.allowed) {
        return Cow::Borrowed(id);
    }
    let hash = blake3::hash(id.as_bytes()).to_hex();
    let suffix = hash.get(..8).unwrap_or_default();
    let start: String =
        id.chars().take(limit.longest - 9).map(|c| if (limit.allowed)(c) { c } else { '_' }).collect();
    Cow::Owned(format!("{start}_{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_fit_stay_and_others_keep_their_start() {
        assert_eq!(fit(Wire::Anthropic, "toolu_01-a"), "toolu_01-a");
        assert_eq!(fit(Wire::Bedrock, "functions.Bash:0"), "functions.Bash:0");
        let mapped = fit(Wire::Anthropic, "functions.Bash:0").into_owned();
        assert!(mapped.starts_with("functions_Bash_0_"), "{mapped}");
        assert_eq!(fit(Wire::Anthropic, &mapped), mapped, "mapping twice changes nothing");
        let long = "x".repeat(100);
        assert_eq!(fit(Wire::OpenaiChat, &long).len(), 40);
        assert_eq!(fit(Wire::OpenaiResponses, &long).len(), 64);
        assert_ne!(fit(Wire::OpenaiChat, &long), fit(Wire::OpenaiChat, &"x".repeat(101)));
        assert!(!fit(Wire::Bedrock, "").is_empty());
    }
}
