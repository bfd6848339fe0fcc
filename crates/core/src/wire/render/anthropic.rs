//! Anthropic Messages.

use super::blocks::{Habit, Joins, Style};
use super::{Cx, media, quote};
use crate::block::{Block, BlockKind, ToolResult};
use crate::entry::{ContentState, Entry};
use crate::json::{self, Edit, Edits};
use crate::text::Text;

pub(super) const STYLE: Style = Style {
    key: "content",
    assistant: "assistant",
    text: text_block,
    block,
    changed,
    joins: Joins::Results,
    habits: &[Habit::RefusesBlank, Habit::PlainText],
};

fn text_block(text: &Text) -> String {
    let mut out = String::from("{\"type\":\"text\",\"text\":");
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
            Some(format!("{{\"type\":\"tool_use\",\"id\":{},\"name\":{name},\"input\":{input}}}", quote(&id)))
        }
        BlockKind::ToolResult(result) => Some(result_block(result, entry, cx)),
        BlockKind::Media(media) => media::anthropic(media, block, entry, cx),
        BlockKind::Reasoning(_) => cx.lose_reasoning(entry, block),
        BlockKind::ToolCall(_) | BlockKind::Compaction(_) | BlockKind::Opaque(_) => {
            cx.lose_opaque(entry, block)
        }
    }
}

fn result_block(result: &ToolResult, entry: &Entry, cx: &mut Cx<'_>) -> String {
    let id = cx.result_id(result);
    let mut out = format!("{{\"type\":\"tool_result\",\"tool_use_id\":{},\"content\":", quote(&id));
    match &*result.content {
        [Block { kind: BlockKind::Text(text), .. }] if entry.content_state != ContentState::Parts => {
            text.write_json(&mut out);
        }
        content => {
            out.push('[');
            for inner in content {
                let json = match &inner.kind {
                    BlockKind::Text(text) if text.is_blank() => None,
                    BlockKind::Text(text) => Some(text_block(text)),
                    BlockKind::Media(media) => media::anthropic(media, inner, entry, cx),
                    _ => cx.lose_opaque(entry, inner),
                };
                if let Some(json) = json {
                    if !out.ends_with('[') {
                        out.push(',');
                    }
                    out.push_str(&json);
                }
            }
            out.push(']');
        }
    }
    if result.is_error == Some(true) {
        out.push_str(",\"is_error\":true");
    }
    out.push('}');
    out
}

/// A block of this wire as a view left it.
fn changed(block: &Block, entry: &Entry) -> Option<String> {
    let raw = block.raw.as_ref()?.raw();
    match &block.kind {
        BlockKind::Text(text @ Text::Own(_)) => {
            let mut literal = String::new();
            text.write_json(&mut literal);
            Some(json::edit(raw, &Edits::from([("/text".into(), Edit::Put(literal))])))
        }
        BlockKind::ToolResult(result) => {
            let content = changed_content(result, entry.content_state);
            Some(json::edit(raw, &Edits::from([("/content".into(), Edit::Put(content))])))
        }
        _ => Some(json::one_line(raw).into_owned()),
    }
}

fn changed_content(result: &ToolResult, state: ContentState) -> String {
    if let ([Block { kind: BlockKind::Text(text), .. }], ContentState::Text) = (&*result.content, state) {
        let mut out = String::new();
        text.write_json(&mut out);
        return out;
    }
    let parts: Vec<String> = result
        .content
        .iter()
        .filter_map(|inner| match (&inner.kind, &inner.raw) {
            (BlockKind::Text(text), None) => Some(text_block(text)),
            (BlockKind::Text(text @ Text::Own(_)), Some(raw)) => {
                let mut literal = String::new();
                text.write_json(&mut literal);
                Some(json::edit(raw.raw(), &Edits::from([("/text".into(), Edit::Put(literal))])))
            }
            (_, Some(raw)) => Some(json::one_line(raw.raw()).into_owned()),
            _ => None,
        })
        .collect();
    format!("[{}]", parts.join(","))
}
