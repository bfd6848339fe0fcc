//! `OpenAI` Responses: a flat list of items, several per entry where the model gave several.

use super::{Cx, error_text, media, quote, tools};
use crate::block::{Block, BlockKind, CallStyle, ToolResult};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{self, Edit, Edits, Raw};
use crate::text::{RawJson, Text};
use crate::view::{Fidelity, Item, Source};
use crate::wire::parse::openai_responses::items as raw_items;

/// Prints entries as items.
pub(super) fn render(items: &[Item], cx: &mut Cx<'_>) -> (Vec<String>, Vec<Vec<u64>>) {
    let mut out = Vec::with_capacity(items.len());
    let mut sources: Vec<Vec<u64>> = Vec::with_capacity(items.len());
    for item in items {
        cx.position = match item.source {
            Source::Entry(position) => Some(position),
            _ => None,
        };
        let entry = &item.entry;
        cx.note_calls(entry);
        let raw = Raw::trusted(&entry.origin.raw);
        if !cx.is_own(entry) {
            cx.lose_extras(entry);
            render_foreign(entry, cx, &mut out);
        } else if raw.kind() == json::Kind::String {
            // Instructions from the field, which are not the lead any more.
            out.push(format!("{{\"role\":\"developer\",\"content\":{}}}", raw.text()));
        } else if item.fidelity == Fidelity::Rewritten {
            render_rewritten(entry, &mut out);
        } else {
            out.extend(raw_items(raw).into_iter().map(|item| json::one_line(item).into_owned()));
        }
        sources.resize(out.len(), cx.position.into_iter().collect());
    }
    (out, sources)
}

/// The items of an entry that a view changed: those whose blocks are still there, with their new content.
fn render_rewritten(entry: &Entry, out: &mut Vec<String>) {
    for item in raw_items(Raw::trusted(&entry.origin.raw)) {
        let span = item.span_in(&entry.origin.raw);
        let inside = |raw: &RawJson| {
            let (start, end) = raw.span();
            span.0 <= start && end <= span.1
        };
        let kept: Vec<&Block> = entry.blocks.iter().filter(|block| lies(block, &inside)).collect();
        let Some(first) = kept.first() else { continue };
        match &first.kind {
            BlockKind::ToolResult(result) => {
                let output = changed_output(result, entry.content_state);
                out.push(json::edit(item, &Edits::from([("/output".into(), Edit::Put(output))])));
            }
            // The item of a call or of reasoning is the block itself.
            _ if first.raw.as_ref().is_some_and(|raw| raw.span() == span) => {
                out.push(json::one_line(item).into_owned());
            }
            _ => {
                let parts: Vec<_> =
                    kept.iter().filter_map(|block| Some(json::one_line(block.raw.as_ref()?.raw()))).collect();
                let edits = Edits::from([("/content".into(), Edit::Put(format!("[{}]", parts.join(","))))]);
                let text = item.get("content").is_some_and(|content| content.kind() == json::Kind::String);
                out.push(if text { json::one_line(item).into_owned() } else { json::edit(item, &edits) });
            }
        }
    }
}

/// Whether a block was read from the stretch that `inside` knows.
fn lies(block: &Block, inside: &dyn Fn(&RawJson) -> bool) -> bool {
    match (&block.raw, &block.kind) {
        (Some(raw), _) => inside(raw),
        (None, BlockKind::Text(Text::Raw(raw))) => inside(raw),
        _ => false,
    }
}

fn changed_output(result: &ToolResult, state: ContentState) -> String {
    let mut out = String::new();
    if let ([Block { kind: BlockKind::Text(text), .. }], ContentState::Text) = (&*result.content, state) {
        text.write_json(&mut out);
        return out;
    }
    let parts: Vec<String> = result
        .content
        .iter()
        .filter_map(|inner| match (&inner.kind, &inner.raw) {
            (BlockKind::Text(text @ Text::Own(_)), _) | (BlockKind::Text(text), None) => {
                Some(text_part("input_text", text))
            }
            (_, Some(raw)) => Some(json::one_line(raw.raw()).into_owned()),
            _ => None,
        })
        .collect();
    format!("[{}]", parts.join(","))
}

fn text_part(word: &str, text: &Text) -> String {
    let mut out = format!("{{\"type\":\"{word}\",\"text\":");
    text.write_json(&mut out);
    out.push('}');
    out
}

/// An entry of another wire.
fn render_foreign(entry: &Entry, cx: &mut Cx<'_>, out: &mut Vec<String>) {
    match entry.role {
        Role::Tool => out.extend(entry.tool_result().map(|result| render_result(result, entry, cx))),
        Role::Assistant => render_reply(entry, cx, out),
        Role::System | Role::User => {
            let said = Raw::trusted(&entry.origin.raw).get("role").and_then(Raw::string);
            let developer = said.as_deref() == Some("developer");
            let role = if developer { "developer" } else { entry.role.as_str() };
            let mut parts = Vec::new();
            for block in &entry.blocks {
                parts.extend(match &block.kind {
                    BlockKind::Text(text) => Some(text_part("input_text", text)),
                    BlockKind::Media(media) => media::openai_responses(media, block, entry, cx),
                    _ => cx.lose_opaque(entry, block),
                });
            }
            let content = match &*entry.blocks {
                [Block { kind: BlockKind::Text(text), .. }] => {
                    let mut out = String::new();
                    text.write_json(&mut out);
                    out
                }
                [] => "\"\"".into(),
                _ if parts.is_empty() => return,
                _ => format!("[{}]", parts.join(",")),
            };
            out.push(format!("{{\"role\":\"{role}\",\"content\":{content}}}"));
        }
    }
}

fn render_reply(entry: &Entry, cx: &mut Cx<'_>, out: &mut Vec<String>) {
    for (number, block) in entry.blocks.iter().enumerate() {
        out.extend(match &block.kind {
            BlockKind::Text(text) => {
                let mut item = String::from("{\"type\":\"message\",\"role\":\"assistant\",\"content\":");
                text.write_json(&mut item);
                item.push('}');
                Some(item)
            }
            BlockKind::Refusal(text) => {
                // Only a list of parts holds a refusal, and only a message with an id holds a list of parts.
                let id = quote(&format!("msg_sb_{}_{number}", cx.position.unwrap_or_default()));
                let mut refusal = String::new();
                text.write_json(&mut refusal);
                Some(format!(
                    "{{\"type\":\"message\",\"id\":{id},\"role\":\"assistant\",\"status\":\"completed\",\"content\":[{{\"type\":\"refusal\",\"refusal\":{refusal}}}]}}"
                ))
            }
            BlockKind::ToolCall(call) if call.style.is_client() => {
                let id = quote(&cx.call_id());
                let name = quote(&tools::fit_name(&call.name.as_str()));
                cx.lose_call_form(call, entry, block);
                let arguments = quote(&call.arguments.as_str());
                Some(if call.style == CallStyle::Custom {
                    format!(
                        "{{\"type\":\"custom_tool_call\",\"call_id\":{id},\"name\":{name},\"input\":{arguments}}}"
                    )
                } else {
                    format!(
                        "{{\"type\":\"function_call\",\"call_id\":{id},\"name\":{name},\"arguments\":{arguments}}}"
                    )
                })
            }
            BlockKind::Reasoning(_) => cx.lose_reasoning(entry, block),
            _ => cx.lose_opaque(entry, block),
        });
    }
}

fn render_result(result: &ToolResult, entry: &Entry, cx: &mut Cx<'_>) -> String {
    let id = quote(&cx.result_id(result));
    let custom = result.call_id.as_ref().is_some_and(|id| cx.custom.contains(id.as_str().as_ref()));
    let mut parts = Vec::new();
    let mut media = false;
    for inner in &result.content {
        parts.extend(match &inner.kind {
            BlockKind::Text(text) => Some(text_part("input_text", text)),
            BlockKind::Media(found) => {
                media = true;
                media::openai_responses(found, inner, entry, cx)
            }
            _ => cx.lose_opaque(entry, inner),
        });
    }
    let failed = result.is_error == Some(true);
    if failed {
        cx.lose_error_mark(entry);
    }
    let output = if media || (parts.len() > 1 && !failed) {
        format!("[{}]", parts.join(","))
    } else {
        let texts: Vec<_> = result.content.iter().flat_map(Block::texts).map(Text::as_str).collect();
        let text = texts.join("\n");
        if failed { quote(&error_text(&text)) } else { quote(&text) }
    };
    let word = if custom { "custom_tool_call_output" } else { "function_call_output" };
    format!("{{\"type\":\"{word}\",\"call_id\":{id},\"output\":{output}}}")
}
