//! Amazon Bedrock Converse.

use super::blocks::{Habit, Joins, Style, changed_parts};
use super::{Cx, media, quote, tools};
use crate::block::{BlockKind, ToolCall, ToolResult};
use crate::entry::Entry;
use crate::json::{Edit, Edits, Raw};
use crate::text::Text;

pub(super) const STYLE: Style = Style {
    key: "content",
    assistant: "assistant",
    text: text_block,
    call: call_block,
    result: result_block,
    media: media::bedrock,
    changed_result,
    call_ids: &["/toolUse/toolUseId"],
    result_ids: &["/toolResult/toolUseId"],
    joins: Joins::All,
    habits: &[Habit::RefusesBlank, Habit::CallsLast],
};

fn text_block(text: &Text) -> String {
    format!("{{\"text\":{}}}", text.json())
}

fn call_block(call: &ToolCall, id: &str, _: &Cx<'_>) -> String {
    let (id, name) = (quote(id), quote(&tools::fit_name(&call.name.as_str())));
    let input = tools::object_arguments(call);
    format!("{{\"toolUse\":{{\"toolUseId\":{id},\"name\":{name},\"input\":{input}}}}}")
}

fn result_block(result: &ToolResult, id: &str, entry: &Entry, cx: &mut Cx<'_>) -> String {
    let mut parts = Vec::new();
    for inner in &result.content {
        parts.extend(match &inner.kind {
            BlockKind::Text(text) if text.is_blank() => cx.lose_blank(entry, inner),
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
    format!("{{\"toolResult\":{{\"toolUseId\":{},\"content\":[{}]{status}}}}}", quote(id), parts.join(","))
}

fn changed_result(_: Raw<'_>, result: &ToolResult, _: &Entry) -> Edits {
    let content = changed_parts(&result.content, text_block);
    Edits::from([("/toolResult/content".into(), Edit::Put(content))])
}
