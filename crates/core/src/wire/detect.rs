//! Which wire a body is written in, by its shape.

use super::Wire;
use crate::json::{JsonKind, Raw};

/// Messages looked at before the shape is taken for the most common one.
const ENOUGH: usize = 64;

/// The wire of a body; none if it is no list of messages and no object that holds one.
pub(super) fn detect(body: Raw<'_>) -> Option<Wire> {
    if body.kind() == JsonKind::Array {
        return Some(by_messages(body).unwrap_or(Wire::OpenaiChat));
    }
    let has = |key: &str| body.get(key).is_some();
    if has("scrollback") || has("entries") {
        return Some(Wire::Scrollback);
    }
    if has("contents") {
        return Some(Wire::Gemini);
    }
    let Some(messages) = body.get("messages") else {
        return (has("input") || has("items")).then_some(Wire::OpenaiResponses);
    };
    Some(by_request(body).or_else(|| by_messages(messages)).unwrap_or(Wire::OpenaiChat))
}

/// What the members around the messages tell.
fn by_request(body: Raw<'_>) -> Option<Wire> {
    let bedrock =
        ["toolConfig", "inferenceConfig", "additionalModelRequestFields", "guardrailConfig", "modelId"];
    if bedrock.iter().any(|key| body.get(key).is_some()) {
        return Some(Wire::Bedrock);
    }
    match body.get("system").map(|system| (system.kind(), system)) {
        Some((JsonKind::String, _)) => return Some(Wire::Anthropic),
        Some((JsonKind::Array, list)) => {
            let typed = list.elements().next().is_none_or(|block| block.get("type").is_some());
            return Some(if typed { Wire::Anthropic } else { Wire::Bedrock });
        }
        _ => {}
    }
    if body.get("anthropic_version").is_some() {
        return Some(Wire::Anthropic);
    }
    let tool = body.get("tools").and_then(|tools| tools.elements().next())?;
    if tool.get("input_schema").is_some() {
        return Some(Wire::Anthropic);
    }
    tool.get("function").map(|_| Wire::OpenaiChat)
}

/// What the messages themselves tell; none while they could be of several wires.
fn by_messages(list: Raw<'_>) -> Option<Wire> {
    list.elements().take(ENOUGH).find_map(by_message)
}

fn by_message(message: Raw<'_>) -> Option<Wire> {
    let role = message.get("role").and_then(Raw::string);
    if message.get("parts").is_some() || role.as_deref() == Some("model") {
        return Some(Wire::Gemini);
    }
    if message.get("raw").is_some() && message.get("wire").is_some() {
        return Some(Wire::Scrollback);
    }
    // Messages of several wires may say that they are one; only other items are of one wire alone.
    if message.get("type").and_then(Raw::string).is_some_and(|word| word != "message") {
        return Some(Wire::OpenaiResponses);
    }
    let of_chat =
        ["tool_calls", "tool_call_id", "function_call"].iter().any(|key| message.get(key).is_some());
    if of_chat || matches!(role.as_deref(), Some("tool" | "developer" | "function")) {
        return Some(Wire::OpenaiChat);
    }
    let content = message.get("content").filter(|content| content.kind() == JsonKind::Array)?;
    content.elements().take(ENOUGH).find_map(by_block)
}

fn by_block(block: Raw<'_>) -> Option<Wire> {
    let Some(word) = block.get("type").and_then(Raw::string) else {
        let converse =
            ["text", "toolUse", "toolResult", "image", "document", "video", "reasoningContent", "cachePoint"];
        return converse.iter().any(|key| block.get(key).is_some()).then_some(Wire::Bedrock);
    };
    match word.as_ref() {
        "input_text" | "output_text" | "input_image" | "input_file" => Some(Wire::OpenaiResponses),
        "image_url" | "input_audio" | "file" | "refusal" => Some(Wire::OpenaiChat),
        "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image" | "document"
        | "server_tool_use" | "search_result" | "compaction" => Some(Wire::Anthropic),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::check;

    #[test]
    fn shapes_tell_their_wire() {
        let cases = [
            (r#"[{"role":"user","content":"hi"}]"#, Wire::OpenaiChat),
            (r#"{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#, Wire::OpenaiChat),
            (r#"{"system":"s","messages":[]}"#, Wire::Anthropic),
            (r#"{"system":[{"type":"text","text":"s"}],"messages":[]}"#, Wire::Anthropic),
            (r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]"#, Wire::Anthropic),
            (r#"{"messages":[],"tools":[{"name":"f","input_schema":{}}]}"#, Wire::Anthropic),
            (r#"{"system":[{"text":"s"}],"messages":[]}"#, Wire::Bedrock),
            (r#"[{"role":"user","content":[{"text":"hi"}]}]"#, Wire::Bedrock),
            (r#"{"contents":[]}"#, Wire::Gemini),
            (r#"[{"role":"user","parts":[{"text":"hi"}]}]"#, Wire::Gemini),
            (r#"{"input":"hi"}"#, Wire::OpenaiResponses),
            (
                r#"[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]"#,
                Wire::OpenaiResponses,
            ),
            (r#"[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]"#, Wire::OpenaiResponses),
            (r#"{"scrollback":1,"entries":[]}"#, Wire::Scrollback),
            (
                r#"[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"a","content":""}]"#,
                Wire::OpenaiChat,
            ),
        ];
        for (body, wire) in cases {
            assert_eq!(detect(check(body).unwrap()), Some(wire), "{body}");
        }
        assert_eq!(detect(check(r#"{"question":1}"#).unwrap()), None);
        assert_eq!(detect(check("3").unwrap()), None);
    }
}
