//! Gemini `generateContent`.

use super::blocks::{Habit, Joins, Style};
use super::{Cx, media, quote};
use crate::block::{Block, BlockKind, ToolResult};
use crate::entry::Entry;
use crate::json::{self, Edit, Edits};
use crate::model::{Line, ModelName};
use crate::text::Text;

pub(super) const STYLE: Style = Style {
    key: "parts",
    assistant: "model",
    text: text_part,
    block: part,
    changed,
    joins: Joins::ResultsAndReplies,
    habits: &[Habit::ResultsAlone],
};

/// What stands in for a signature in calls of another provider; accepted as a last resort.
const UNSIGNED: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

fn text_part(text: &Text) -> String {
    let mut out = String::from("{\"text\":");
    text.write_json(&mut out);
    out.push('}');
    out
}

fn part(block: &Block, entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    match &block.kind {
        BlockKind::Text(text) => Some(text_part(text)),
        BlockKind::Refusal(text) => {
            cx.lose(entry, Some(block), "refusal", "it becomes ordinary text");
            Some(text_part(text))
        }
        BlockKind::ToolCall(call) if call.style.is_client() => {
            let id = quote(&cx.call_id());
            cx.lose_call_form(call, entry, block);
            let (name, args) = (quote(&call.name.as_str()), super::tools::object_arguments(call));
            let signature = if cx.calls_printed == 1 && demands_signature(cx) {
                format!(",\"thoughtSignature\":\"{UNSIGNED}\"")
            } else {
                String::new()
            };
            Some(format!("{{\"functionCall\":{{\"id\":{id},\"name\":{name},\"args\":{args}}}{signature}}}"))
        }
        BlockKind::ToolResult(result) => Some(response_part(result, entry, cx)),
        BlockKind::Media(media) => media::gemini(media, block, entry, cx),
        BlockKind::Reasoning(_) => cx.lose_reasoning(entry, block),
        BlockKind::ToolCall(_) | BlockKind::Compaction(_) | BlockKind::Opaque(_) => {
            cx.lose_opaque(entry, block)
        }
    }
}

/// Whether the model refuses calls without a signature.
fn demands_signature(cx: &Cx<'_>) -> bool {
    cx.options
        .model
        .and_then(ModelName::generation)
        .is_some_and(|generation| generation.line == Line::Gemini && generation.version >= (3, 0))
}

fn response_part(result: &ToolResult, entry: &Entry, cx: &mut Cx<'_>) -> String {
    let id = quote(&cx.result_id(result));
    let name = quote(&cx.tool_name(result));
    let response = response(result);
    let mut parts = Vec::new();
    for inner in &result.content {
        parts.extend(match &inner.kind {
            BlockKind::Text(_) => None,
            BlockKind::Media(media) => media::gemini(media, inner, entry, cx),
            _ => cx.lose_opaque(entry, inner),
        });
    }
    let parts = if parts.is_empty() { String::new() } else { format!(",\"parts\":[{}]", parts.join(",")) };
    format!("{{\"functionResponse\":{{\"id\":{id},\"name\":{name},\"response\":{response}{parts}}}}}")
}

/// The texts of a result as the object the wire wants.
fn response(result: &ToolResult) -> String {
    let texts: Vec<String> =
        result.content.iter().flat_map(Block::texts).map(|text| text.as_str().into_owned()).collect();
    let key = if result.is_error == Some(true) { "error" } else { "output" };
    format!("{{\"{key}\":{}}}", quote(&texts.join("\n")))
}

/// A part of this wire as a view left it.
fn changed(block: &Block, _: &Entry) -> Option<String> {
    let raw = block.raw.as_ref()?.raw();
    let BlockKind::ToolResult(result) = &block.kind else { return Some(json::one_line(raw).into_owned()) };
    let outer = ["functionResponse", "function_response"].into_iter().find(|key| raw.get(key).is_some())?;
    let mut edits = Edits::from([(format!("/{outer}/response"), Edit::Put(response(result)))]);
    if !result.content.iter().any(|inner| matches!(inner.kind, BlockKind::Media(_) | BlockKind::Opaque(_))) {
        edits.insert(format!("/{outer}/parts"), Edit::Remove);
    }
    Some(json::edit(raw, &edits))
}
