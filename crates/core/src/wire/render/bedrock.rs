//! Amazon Bedrock Converse.

use super::blocks::{Habit, Joins, Style};
use super::{Cx, media, quote};
use crate::block::{Block, BlockKind, ToolResult};
use crate::entry::Entry;
use crate::json::{self, Edit, Edits};
use crate::text::Text;

pub(super) const STYLE: Style = Style {
    key: "content",
    assistant: "assistant",
    text: text_block,
    block,
    changed,
    joins: Joins::All,
    habits: &[Habit::RefusesBlank, Habit::CallsLast],
};

fn text_block(text: &Text) -> String {
    let mut out = String::from("{\"text\":");
    text.write_json(&mut out);
    out.push('}');
    out
}

fn block(block: &Block, entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    match &block.kind {
        BlockKind::Text(text) => Some(text_block(text)),
        BlockKind::Refusal(text) => {
            cx.lose(entry, Some(block), "refusal", "it becomes ordinary text");
            (!text.is_blank()).then(|| text_block(text))
        }
        BlockKind::ToolCall(call) if call.style.is_client() => {
            let id = cx.call_id();
            let input = super::tools::object_arguments(call);
            let name = quote(&super::tools::fit_name(&call.name.as_str()));
            cx.lose_call_form(call, entry, block);
            Some(format!(
                "{{\"toolUse\":{{\"toolUseId\":{},\"name\":{name},\"input\":{input}}}}}",
                quote(&id)
            ))
        }
        BlockKind::ToolResult(result) => Some(result_block(result, entry, cx)),
        BlockKind::Media(media) => media::bedrock(media, block, entry, cx),
        BlockKind::Reasoning(_) => cx.lose_reasoning(entry, block),
        BlockKind::ToolCall(_) | BlockKind::Compaction(_) | BlockKind::Opaque(_) => {
            cx.lose_opaque(entry, block)
        }
    }
}

fn result_block(result: &ToolResult, entry: &Entry, cx: &mut Cx<'_>) -> String {
    let id = cx.result_id(result);
    let mut parts = Vec::new();
    for inner in &result.content {
        parts.extend(match &inner.kind {
            BlockKind::Text(text) if text.is_blank() => None,
            BlockKind::Text(text) => Some(text_block(text)),
            BlockKind::Media(media) => media::bedrock(media, inner, entry, cx),
            _ => cx.lose_opaque(entry, inner),
        });
    }
    if parts.is_empty() {
        // The list may be empty only where nothing failed, and some models refuse it even then.
        parts.push("{\"text\":\"(empty)\"}".into());
    }
    let status = match result.is_error {
        Some(true) => ",\"status\":\"error\"",
        Some(false) => ",\"status\":\"success\"",
        None => "",
    };
    format!("{{\"toolResult\":{{\"toolUseId\":{},\"content\":[{}]{status}}}}}", quote(&id), parts.join(","))
}

/// A block of this wire as a view left it.
fn changed(block: &Block, _: &Entry) -> Option<String> {
    let raw = block.raw.as_ref()?.raw();
    match &block.kind {
        BlockKind::ToolResult(result) => {
            let parts: Vec<String> = result.content.iter().filter_map(changed_part).collect();
            let content = format!("[{}]", parts.join(","));
            Some(json::edit(raw, &Edits::from([("/toolResult/content".into(), Edit::Put(content))])))
        }
        _ => Some(json::one_line(raw).into_owned()),
    }
}

fn changed_part(inner: &Block) -> Option<String> {
    match (&inner.kind, &inner.raw) {
        (BlockKind::Text(text @ Text::Own(_)), _) | (BlockKind::Text(text), None) => Some(text_block(text)),
        (_, Some(raw)) => Some(json::one_line(raw.raw()).into_owned()),
        _ => None,
    }
}
