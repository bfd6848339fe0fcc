//! Deltas: what an event adds to the reply, for callers that watch it grow. The reply itself is made of the whole events.

use super::{number, text};
use crate::entry::Usage;
use crate::json::{JsonKind, Object, Raw};
use crate::wire::Wire;

/// A piece of a reply, as it comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// More of the text.
    Text(String),
    /// More of the reasoning.
    Reasoning(String),
    /// A call begins.
    CallStarted {
        /// Which of the reply's calls or blocks it is, in the provider's count.
        index: u64,
        /// Its id, where it has one.
        id: Option<String>,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call.
        index: u64,
        /// The next characters.
        text: String,
    },
    /// Tokens so far.
    Usage(Usage),
}

/// Tells what an event adds.
pub(super) fn tell(wire: Wire, kind: &str, event: &Object<'_>, sink: &mut dyn FnMut(Delta)) {
    match wire {
        Wire::OpenaiChat => openai_chat(event, sink),
        Wire::OpenaiResponses => openai_responses(kind, event, sink),
        Wire::Anthropic => anthropic(kind, event, sink),
        Wire::Gemini => gemini(event, sink),
        Wire::Bedrock | Wire::Scrollback => {}
    }
}

fn openai_chat(chunk: &Object<'_>, sink: &mut dyn FnMut(Delta)) {
    let first = |choice: &Raw<'_>| number(choice.get("index")).unwrap_or(0) == 0;
    let choices = chunk.get("choices").into_iter().flat_map(Raw::elements).filter(first);
    for delta in choices.filter_map(|choice| choice.get("delta")) {
        let reasoning = ["reasoning_content", "reasoning"].into_iter().find_map(|key| text(delta.get(key)));
        reasoning.map(Delta::Reasoning).map(&mut *sink);
        text(delta.get("content")).map(Delta::Text).map(&mut *sink);
        for (place, call) in delta.get("tool_calls").into_iter().flat_map(Raw::elements).enumerate() {
            let index = number(call.get("index")).unwrap_or(place as u64);
            let inner = call.get("function").or_else(|| call.get("custom"));
            let of = |key: &str| text(inner.and_then(|inner| inner.get(key)));
            if let Some(name) = of("name") {
                sink(Delta::CallStarted { index, id: text(call.get("id")), name });
            }
            if let Some(text) = of("arguments").or_else(|| of("input")) {
                sink(Delta::CallArguments { index, text });
            }
        }
    }
}

fn openai_responses(kind: &str, event: &Object<'_>, sink: &mut dyn FnMut(Delta)) {
    let index = number(event.get("output_index")).unwrap_or(0);
    let delta = || text(event.get("delta"));
    let told = match kind {
        "response.output_text.delta" | "response.refusal.delta" => delta().map(Delta::Text),
        "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
            delta().map(Delta::Reasoning)
        }
        "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
            delta().map(|text| Delta::CallArguments { index, text })
        }
        "response.output_item.added" => event.get("item").and_then(|item| {
            let name = text(item.get("name"))?;
            let id = text(item.get("call_id"));
            id.is_some().then_some(Delta::CallStarted { index, id, name })
        }),
        _ => None,
    };
    told.map(sink);
}

fn anthropic(kind: &str, event: &Object<'_>, sink: &mut dyn FnMut(Delta)) {
    let index = number(event.get("index")).unwrap_or(0);
    let told = match kind {
        "content_block_start" => event.get("content_block").and_then(|block| {
            let called = text(block.get("type")).as_deref() == Some("tool_use");
            let name = text(block.get("name")).filter(|_| called)?;
            Some(Delta::CallStarted { index, id: text(block.get("id")), name })
        }),
        "content_block_delta" => event.get("delta").and_then(|delta| {
            let piece = |key: &str| text(delta.get(key));
            match piece("type")?.as_str() {
                "text_delta" => piece("text").map(Delta::Text),
                "thinking_delta" => piece("thinking").map(Delta::Reasoning),
                "input_json_delta" => piece("partial_json").map(|text| Delta::CallArguments { index, text }),
                _ => None,
            }
        }),
        _ => None,
    };
    told.map(sink);
}

fn gemini(event: &Object<'_>, sink: &mut dyn FnMut(Delta)) {
    let first = event.get("candidates").and_then(|candidates| candidates.elements().next());
    let parts = first.and_then(|candidate| candidate.get("content")?.get("parts"));
    for (place, part) in parts.into_iter().flat_map(Raw::elements).enumerate() {
        let index = place as u64;
        let thought = part.get("thought").is_some_and(|thought| thought.text() == "true");
        if let Some(text) = text(part.get("text")) {
            sink(if thought { Delta::Reasoning(text) } else { Delta::Text(text) });
        }
        let call = part.get("functionCall").or_else(|| part.get("function_call"));
        if let Some((call, name)) = call.and_then(|call| Some((call, text(call.get("name"))?))) {
            sink(Delta::CallStarted { index, id: text(call.get("id")), name });
            if let Some(args) = call.get("args").filter(|args| args.kind() == JsonKind::Object) {
                sink(Delta::CallArguments { index, text: args.text().into() });
            }
        }
    }
}
