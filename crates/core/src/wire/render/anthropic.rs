//! Anthropic Messages.

use super::blocks::{Habit, Joins, Style, changed_parts};
use super::{Cx, media, quote, tools};
use crate::block::{Block, BlockKind, ToolCall, ToolResult};
use crate::entry::{ContentState, Entry};
use crate::json::{Edit, Edits, Raw};
use crate::text::Text;

pub(super) const STYLE: Style = Style {
    key: "content",
    assistant: "assistant",
    text: text_block,
    call: call_block,
    result: result_block,
    media: media::anthropic,
    changed_result,
    call_ids: &["/id"],
    result_ids: &["/tool_use_id"],
    joins: Joins::Results,
    habits: &[Habit::RefusesBlank, Habit::PlainText],
};

fn text_block(text: &Text) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", text.json())
}

fn call_block(call: &ToolCall, id: &str, _: &Cx<'_>) -> String {
    let (id, name) = (quote(id), quote(&tools::fit_name(&call.name.as_str())));
    let input = tools::object_arguments(call);
    format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}}}")
}

fn result_block(result: &ToolResult, id: &str, entry: &Entry, cx: &mut Cx<'_>) -> String {
    let content = match &*result.content {
        [Block { kind: BlockKind::Text(text), .. }] if entry.content_state != ContentState::Parts => {
            text.json().into_owned()
        }
        content => {
            let mut parts = Vec::new();
            for inner in content {
                parts.extend(match &inner.kind {
                    BlockKind::Text(text) if text.is_blank() => cx.lose_blank(entry, inner),
                    BlockKind::Text(text) => Some(text_block(text)),
                    BlockKind::Media(media) => media::anthropic(media, inner, entry, cx),
                    _ => cx.lose_opaque(entry, inner),
                });
            }
            format!("[{}]", parts.join(","))
        }
    };
    let failed = if result.is_error == Some(true) { ",\"is_error\":true" } else { "" };
    format!("{{\"type\":\"tool_result\",\"tool_use_id\":{},\"content\":{content}{failed}}}", quote(id))
}

fn changed_result(_: Raw<'_>, result: &ToolResult, entry: &Entry) -> Edits {
    let content = match (&*result.content, entry.content_state) {
        ([Block { kind: BlockKind::Text(text), .. }], ContentState::Text) => text.json().into_owned(),
        (content, _) => changed_parts(content, text_block),
    };
    Edits::from([("/content".into(), Edit::Put(content))])
}
