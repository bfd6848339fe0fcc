//! What a reply cost, from each provider's own numbers.
//!
//! | wire | input says | output says |
//! |---|---|---|
//! | chat, Responses | everything, cached and written included | everything, reasoning included |
//! | Anthropic, Bedrock | what was neither read from the cache nor written to it | everything, reasoning included |
//! | Gemini | everything, cached included; prompts of its own tools beside it | the answer; thoughts beside it |
//!
//! A [`Usage`] keeps parts that do not overlap, so that their sum is the whole input on every wire.

use std::collections::BTreeMap;

use super::number;
use crate::entry::Usage;
use crate::json::{JsonKind, Raw};

/// Usage of chat (`prompt_tokens`, `completion_tokens`) and Responses (`input_tokens`, `output_tokens`).
pub(super) fn openai(usage: Raw<'_>) -> Option<Usage> {
    let usage = usage.object().ok().filter(|usage| !usage.members().is_empty())?;
    let either = |chat: &str, responses: &str| usage.get(chat).or_else(|| usage.get(responses));
    let input = either("prompt_tokens_details", "input_tokens_details");
    let of_input = |key: &str| input.and_then(|input| input.get(key));
    let cache_read = number(of_input("cached_tokens")).or(number(usage.get("prompt_cache_hit_tokens")));
    let mut cache_write = BTreeMap::new();
    if let Some(details) = of_input("cache_write_tokens_details") {
        write(&mut cache_write, "30m", number(details.get("ttl_30m")));
        write(&mut cache_write, "12h", number(details.get("ttl_12h")));
    }
    // Writes whose lifetime is not told have the one that is the default.
    let told = cache_write.values().fold(0, |sum: u64, more| sum.saturating_add(*more));
    let rest = number(of_input("cache_write_tokens")).map(|all| all.saturating_sub(told));
    write(&mut cache_write, "30m", rest);
    let cached = cache_write.values().fold(cache_read.unwrap_or(0), |sum, more| sum.saturating_add(*more));
    let output = either("completion_tokens_details", "output_tokens_details");
    Some(Usage {
        input_uncached: number(either("prompt_tokens", "input_tokens")).map(|all| all.saturating_sub(cached)),
        cache_read,
        cache_write,
        output: number(either("completion_tokens", "output_tokens")),
        reasoning: number(output.and_then(|output| output.get("reasoning_tokens"))),
    })
}

/// Usage of Anthropic, which comes twice in a stream: the later report counts, field by field.
#[derive(Clone, Debug, Default)]
pub(super) struct Anthropic {
    input: Option<u64>,
    cache_read: Option<u64>,
    written: Option<u64>,
    written_5m: Option<u64>,
    written_1h: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

impl Anthropic {
    /// Takes in one report.
    pub(super) fn report(&mut self, usage: Raw<'_>) {
        for (key, value) in usage.members() {
            let field = match key.as_ref() {
                "input_tokens" => &mut self.input,
                "cache_read_input_tokens" => &mut self.cache_read,
                "cache_creation_input_tokens" => &mut self.written,
                "output_tokens" => &mut self.output,
                "cache_creation" => {
                    let lifetime = |key| number(value.get(key));
                    self.written_5m = lifetime("ephemeral_5m_input_tokens").or(self.written_5m);
                    self.written_1h = lifetime("ephemeral_1h_input_tokens").or(self.written_1h);
                    continue;
                }
                "output_tokens_details" => {
                    let told = value.get("thinking_tokens").or_else(|| value.get("reasoning_tokens"));
                    self.reasoning = number(told).or(self.reasoning);
                    continue;
                }
                _ => continue,
            };
            *field = number(Some(value)).or(*field);
        }
    }

    /// What is known; none before anything was reported.
    pub(super) fn usage(&self) -> Option<Usage> {
        let mut cache_write = BTreeMap::new();
        write(&mut cache_write, "5m", self.written_5m);
        write(&mut cache_write, "1h", self.written_1h);
        // The last report often has the total only: what is new in it has the lifetime that is in use.
        let told = cache_write.values().fold(0, |sum: u64, more| sum.saturating_add(*more));
        let only_long = cache_write.contains_key("1h") && !cache_write.contains_key("5m");
        let rest = self.written.map(|all| all.saturating_sub(told));
        write(&mut cache_write, if only_long { "1h" } else { "5m" }, rest);
        let usage = Usage {
            input_uncached: self.input,
            cache_read: self.cache_read,
            cache_write,
            output: self.output,
            reasoning: self.reasoning,
        };
        (usage != Usage::default()).then_some(usage)
    }
}

/// Usage of Gemini (`usageMetadata`).
pub(super) fn gemini(usage: Raw<'_>) -> Option<Usage> {
    let usage = usage.object().ok().filter(|usage| !usage.members().is_empty())?;
    let count = |key: &str| number(usage.get(key));
    let cache_read = count("cachedContentTokenCount");
    let prompt = count("promptTokenCount").map(|all| all.saturating_sub(cache_read.unwrap_or(0)));
    let reasoning = count("thoughtsTokenCount");
    Some(Usage {
        input_uncached: both(prompt, count("toolUsePromptTokenCount")),
        cache_read,
        cache_write: BTreeMap::new(),
        output: both(count("candidatesTokenCount"), reasoning),
        reasoning,
    })
}

/// Usage of Bedrock Converse.
pub(super) fn bedrock(usage: Raw<'_>) -> Option<Usage> {
    let usage = usage.object().ok().filter(|usage| !usage.members().is_empty())?;
    let mut cache_write = BTreeMap::new();
    for detail in usage.get("cacheDetails").into_iter().flat_map(Raw::elements) {
        if let Some(lifetime) = detail.get("ttl").and_then(Raw::string) {
            write(&mut cache_write, &lifetime, number(detail.get("inputTokens")));
        }
    }
    if cache_write.is_empty() {
        write(&mut cache_write, "5m", number(usage.get("cacheWriteInputTokens")));
    }
    Some(Usage {
        input_uncached: number(usage.get("inputTokens")),
        cache_read: number(usage.get("cacheReadInputTokens")),
        cache_write,
        output: number(usage.get("outputTokens")),
        reasoning: None,
    })
}

/// Adds what was written with a lifetime; nothing written is not worth a line.
fn write(written: &mut BTreeMap<String, u64>, lifetime: &str, tokens: Option<u64>) {
    if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
        let sum = written.entry(lifetime.into()).or_default();
        *sum = sum.saturating_add(tokens);
    }
}

fn both(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    }
}

/// A usage object that is there.
pub(super) fn present(usage: Option<Raw<'_>>) -> Option<Raw<'_>> {
    usage.filter(|usage| usage.kind() == JsonKind::Object)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json;

    fn shown(usage: Option<Usage>) -> String {
        serde_json::to_string(&usage.unwrap()).unwrap()
    }

    #[test]
    fn the_parts_of_the_input_add_up_to_all_of_it() {
        let chat = json::check(
            r#"{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60,
            "cache_write_tokens":30,"cache_write_tokens_details":{"ttl_30m":10,"ttl_12h":15}},
            "completion_tokens_details":{"reasoning_tokens":3}}"#,
        );
        let usage = openai(chat.unwrap());
        assert_eq!(usage.as_ref().unwrap().input(), Some(100));
        assert_eq!(
            shown(usage),
            r#"{"input_uncached":10,"cache_read":60,"cache_write":{"12h":15,"30m":15},"output":7,"reasoning":3}"#
        );
        let gemini_raw = r#"{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":5,
            "thoughtsTokenCount":9,"toolUsePromptTokenCount":2,"totalTokenCount":116}"#;
        assert_eq!(
            shown(gemini(json::check(gemini_raw).unwrap())),
            r#"{"input_uncached":62,"cache_read":40,"output":14,"reasoning":9}"#
        );
        let bedrock_raw = r#"{"inputTokens":3,"outputTokens":4,"cacheReadInputTokens":5,"cacheWriteInputTokens":6,
            "cacheDetails":[{"ttl":"1h","inputTokens":6}]}"#;
        assert_eq!(
            shown(bedrock(json::check(bedrock_raw).unwrap())),
            r#"{"input_uncached":3,"cache_read":5,"cache_write":{"1h":6},"output":4}"#
        );
    }

    #[test]
    fn the_later_report_of_anthropic_counts_field_by_field() {
        let mut usage = Anthropic::default();
        assert_eq!(usage.usage(), None);
        let start = r#"{"input_tokens":700,"cache_read_input_tokens":10,"cache_creation_input_tokens":50,
            "cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":50},"output_tokens":1}"#;
        usage.report(json::check(start).unwrap());
        let end = r#"{"input_tokens":900,"cache_creation_input_tokens":60,"output_tokens":42,"cache_read_input_tokens":null}"#;
        usage.report(json::check(end).unwrap());
        assert_eq!(
            shown(usage.usage()),
            r#"{"input_uncached":900,"cache_read":10,"cache_write":{"1h":60},"output":42}"#
        );
    }
}
