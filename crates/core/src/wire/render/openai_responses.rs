//! `OpenAI` Responses: a flat list of items, several per entry where the model gave several.

use super::blocks::changed_parts;
use super::{Cx, Own, Sources, error_text, media, quote, tools};
use crate::block::{Block, BlockKind, CallStyle, ToolResult};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{self, Edit, Edits, Raw};
use crate::text::{RawJson, Text};
use crate::view::{Fidelity, Reason, ViewItem};
use crate::wire::parse::openai_responses::items as raw_items;

/// Prints entries as items.
pub(super) fn render(items: &[ViewItem], cx: &mut Cx<'_>) -> (Vec<String>, Sources) {
    let mut out = Vec::with_capacity(items.len());
    let mut sources = Sources::with_room(items.len());
    for item in items {
        cx.enter(item);
        let entry = &item.entry;
        let before = out.len();
        let raw = Raw::trusted(&entry.origin.raw);
        if !cx.is_own(entry) {
            cx.lose_extras(entry);
            render_foreign(entry, cx, &mut out);
            if out.len() == before {
                cx.explain(entry, Reason::Unsupported, 0, true);
                if entry.blocks.is_empty() {
                    cx.lose(entry, None, "empty message", "a reply that says nothing has no items");
                }
            }
        } else if raw.kind() == json::JsonKind::String {
            // Instructions from the field, which are not the lead any more.
            out.push(format!("{{\"role\":\"developer\",\"content\":{}}}", raw.text()));
        } else if item.fidelity == Fidelity::Rewritten {
            render_rewritten(entry, &mut out);
        } else {
            out.extend(raw_items(raw).into_iter().map(|item| json::one_line(item).into_owned()));
        }
        if cx.is_own(entry) {
            give_ids(entry, out.get_mut(before..).unwrap_or_default(), cx);
        }
        sources.fill(out.len(), cx.position);
    }
    (out, sources)
}

/// Gives the calls or the result of an entry ids they can be sent with, where their own would not do.
fn give_ids(entry: &Entry, items: &mut [String], cx: &mut Cx<'_>) {
    if matches!(cx.own, Own::AsSaid) {
        return;
    }
    let mut rest = items;
    for block in &entry.blocks {
        let id = cx.other_id(block);
        let Some(said) = block.call_id().map(Text::as_str) else { continue };
        let has_id =
            |item: &String| Raw::trusted(item).get("call_id").and_then(Raw::string).as_ref() == Some(&said);
        let Some(at) = rest.iter().position(has_id) else { continue };
        let Some((item, after)) = rest.get_mut(at..).and_then(<[String]>::split_first_mut) else { return };
        if let Some(id) = id {
            let edits = Edits::from([("/call_id".into(), Edit::Put(quote(&id)))]);
            *item = json::edit(Raw::trusted(item), &edits);
            cx.explain(entry, Reason::Repaired, entry.chars(), false);
        }
        rest = after;
    }
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
                let text =
                    item.get("content").is_some_and(|content| content.kind() == json::JsonKind::String);
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
    match (&*result.content, state) {
        ([Block { kind: BlockKind::Text(text), .. }], ContentState::Text) => text.json().into_owned(),
        (content, _) => changed_parts(content, text_part),
    }
}

fn text_part(text: &Text) -> String {
    format!("{{\"type\":\"input_text\",\"text\":{}}}", text.json())
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
                    BlockKind::Text(text) => Some(text_part(text)),
                    BlockKind::Media(media) => media::openai_responses(media, block, entry, cx),
                    _ => cx.lose_opaque(entry, block),
                });
            }
            let content = match &*entry.blocks {
                [Block { kind: BlockKind::Text(text), .. }] => text.json().into_owned(),
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
            BlockKind::Text(text) => Some(format!(
                "{{\"type\":\"message\",\"role\":\"assistant\",\"content\":{}}}",
                text.json()
            )),
            BlockKind::Refusal(text) => {
                // Only a list of parts holds a refusal, and only a message with an id holds a list of parts.
                let id = quote(&format!("msg_sb_{}_{number}", cx.position.unwrap_or_default()));
                let refusal = text.json();
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
    let id = cx.result_id(result);
    let mut parts = Vec::new();
    let mut media = false;
    for inner in &result.content {
        parts.extend(match &inner.kind {
            BlockKind::Text(text) => Some(text_part(text)),
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
    let word = if cx.custom.contains(&id) { "custom_tool_call_output" } else { "function_call_output" };
    format!("{{\"type\":\"{word}\",\"call_id\":{},\"output\":{output}}}", quote(&id))
}
