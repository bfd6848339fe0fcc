//! Gemini `generateContent`.

use super::blocks::{Habit, Joins, Style};
use super::{Cx, media, quote, tools};
use crate::block::{Block, BlockKind, ToolCall, ToolResult};
use crate::entry::Entry;
use crate::json::{Edit, Edits, Raw};
use crate::model::{ModelLine, ModelName};
use crate::text::Text;

pub(super) const STYLE: Style = Style {
    key: "parts",
    assistant: "model",
    text: text_part,
    call: call_part,
    result: response_part,
    media: media::gemini,
    changed_result,
    call_ids: &["/functionCall/id", "/function_call/id"],
    result_ids: &["/functionResponse/id", "/function_response/id"],
    joins: Joins::ResultsAndReplies,
    habits: &[Habit::ResultsAlone],
};

/// What stands in for a signature in calls of another provider; accepted as a last resort.
pub(crate) const UNSIGNED: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

fn text_part(text: &Text) -> String {
    format!("{{\"text\":{}}}", text.json())
}

fn call_part(call: &ToolCall, id: &str, cx: &Cx<'_>) -> String {
    let (id, name, args) = (quote(id), quote(&call.name.as_str()), tools::object_arguments(call));
    let signature = if cx.calls_printed == 1 && demands_signature(cx) {
        format!(",\"thoughtSignature\":\"{UNSIGNED}\"")
    } else {
        String::new()
    };
    format!("{{\"functionCall\":{{\"id\":{id},\"name\":{name},\"args\":{args}}}{signature}}}")
}

/// Whether the model refuses calls without a signature.
fn demands_signature(cx: &Cx<'_>) -> bool {
    cx.options
        .model
        .and_then(ModelName::generation)
        .is_some_and(|generation| generation.line == ModelLine::Gemini && generation.version >= (3, 0))
}

fn response_part(result: &ToolResult, id: &str, entry: &Entry, cx: &mut Cx<'_>) -> String {
    let name = quote(&cx.tool_name(id, result));
    let mut parts = Vec::new();
    for inner in &result.content {
        parts.extend(match &inner.kind {
            BlockKind::Text(_) => None,
            BlockKind::Media(media) => media::gemini(media, inner, entry, cx),
            _ => cx.lose_opaque(entry, inner),
        });
    }
    let parts = if parts.is_empty() { String::new() } else { format!(",\"parts\":[{}]", parts.join(",")) };
    let (id, response) = (quote(id), response(result));
    format!("{{\"functionResponse\":{{\"id\":{id},\"name\":{name},\"response\":{response}{parts}}}}}")
}

/// The texts of a result as the object the wire wants.
fn response(result: &ToolResult) -> String {
    let texts: Vec<String> =
        result.content.iter().flat_map(Block::texts).map(|text| text.as_str().into_owned()).collect();
    let key = if result.is_error == Some(true) { "error" } else { "output" };
    format!("{{\"{key}\":{}}}", quote(&texts.join("\n")))
}

fn changed_result(raw: Raw<'_>, result: &ToolResult, _: &Entry) -> Edits {
    let spelled =
        if raw.get("functionResponse").is_some() { "functionResponse" } else { "function_response" };
    let mut edits = Edits::from([(format!("/{spelled}/response"), Edit::Put(response(result)))]);
    if !result.content.iter().any(|inner| matches!(inner.kind, BlockKind::Media(_) | BlockKind::Opaque(_))) {
        edits.insert(format!("/{spelled}/parts"), Edit::Remove);
    }
    edits
}
