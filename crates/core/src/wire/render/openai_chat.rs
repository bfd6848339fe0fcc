//! `OpenAI` Chat Completions: one message per entry. Results are text only; what else they hold follows in a user
//! message after all results of the group.

use std::borrow::Cow;

use super::{Cx, Sources, error_text, media, quote, tools};
use crate::block::{Block, BlockKind, CallStyle, ToolResult};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{self, Edit, Edits, Raw};
use crate::text::Text;
use crate::view::{Fidelity, ItemSource, Reason, ViewItem};

/// Prints entries as messages.
pub(super) fn render(items: &[ViewItem], cx: &mut Cx<'_>) -> (Vec<String>, Sources) {
    let mut messages = Vec::with_capacity(items.len());
    let mut sources = Sources::with_room(items.len());
    // Media of results, which wait until the group is over.
    let mut waiting: Vec<String> = Vec::new();
    let mut old_call: Option<String> = None;
    for item in items {
        cx.enter(item);
        let entry = &item.entry;
        if entry.role != Role::Tool {
            old_call = old_call_name(entry, cx);
            messages.extend(carried(&mut waiting));
            sources.fill(messages.len(), None);
        }
        let closes_old_call = old_call.is_some() && matches!(item.source, ItemSource::Interrupted { .. });
        if cx.is_own(entry) && !closes_old_call {
            messages.push(render_own(item, cx));
        } else {
            cx.lose_extras(entry);
            match render_foreign(entry, old_call.as_deref(), &mut waiting, cx) {
                Some(message) => messages.push(message),
                None => cx.explain(entry, Reason::Unsupported, 0, true),
            }
        }
        sources.fill(messages.len(), cx.position);
    }
    messages.extend(carried(&mut waiting));
    sources.fill(messages.len(), None);
    (messages, sources)
}

/// The message that carries the media of the results before it.
fn carried(waiting: &mut Vec<String>) -> Option<String> {
    if waiting.is_empty() {
        return None;
    }
    let parts = std::mem::take(waiting).join(",");
    Some(format!("{{\"role\":\"user\",\"content\":[{parts}]}}"))
}

/// The function that a message calls by the old `function_call`. Only a `function` message answers it: a call of that form has no id
/// that a `tool` message could name.
fn old_call_name(entry: &Entry, cx: &Cx<'_>) -> Option<String> {
    // Calls of the old form have no JSON of their own.
    let mut old = entry.blocks.iter().filter(|block| cx.is_own(entry) && block.raw.is_none());
    old.find_map(|block| match &block.kind {
        BlockKind::ToolCall(call) => Some(call.name.as_str().into_owned()),
        _ => None,
    })
}

/// An entry of another wire, or a result that the view added. `old_call` names the function that the result answers by name.
fn render_foreign(
    entry: &Entry,
    old_call: Option<&str>,
    waiting: &mut Vec<String>,
    cx: &mut Cx<'_>,
) -> Option<String> {
    match entry.role {
        Role::Tool => entry.tool_result().map(|result| render_result(result, entry, old_call, waiting, cx)),
        Role::Assistant => render_reply(entry, cx),
        Role::System | Role::User => {
            let role = role_word(entry);
            let mut parts = Vec::new();
            for block in &entry.blocks {
                parts.extend(match &block.kind {
                    BlockKind::Text(text) => Some(text_part(text)),
                    BlockKind::Media(media) if entry.role == Role::User => {
                        media::openai_chat(media, block, entry, cx)
                    }
                    _ => cx.lose_opaque(entry, block),
                });
            }
            let content = match (&*entry.blocks, entry.content_state) {
                ([Block { kind: BlockKind::Text(text), .. }], _) => text.json().into_owned(),
                _ if parts.is_empty() && !entry.blocks.is_empty() => return None,
                _ if parts.is_empty() => "\"\"".into(),
                _ => format!("[{}]", parts.join(",")),
            };
            Some(format!("{{\"role\":\"{role}\",\"content\":{content}{}}}", name(entry)))
        }
    }
}

/// The role's word; a developer stays one between the wires that know the word.
fn role_word(entry: &Entry) -> &'static str {
    let said = Raw::trusted(&entry.origin.raw).get("role").and_then(Raw::string);
    if said.as_deref() == Some("developer") { "developer" } else { entry.role.as_str() }
}

fn name(entry: &Entry) -> String {
    entry.author.as_ref().map_or_else(String::new, |name| format!(",\"name\":{}", quote(&name.as_str())))
}

fn text_part(text: &Text) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", text.json())
}

fn render_result(
    result: &ToolResult,
    entry: &Entry,
    old_call: Option<&str>,
    waiting: &mut Vec<String>,
    cx: &mut Cx<'_>,
) -> String {
    let id = cx.result_id(result);
    let mut texts = Vec::new();
    let mut media = Vec::new();
    for inner in &result.content {
        match &inner.kind {
            BlockKind::Text(text) => texts.push(text),
            BlockKind::Media(found) => {
                media.extend(media::openai_chat(found, inner, entry, cx));
            }
            _ => {
                cx.lose_opaque(entry, inner);
            }
        }
    }
    if !media.is_empty() {
        let note = format!("[from the result of {}]", cx.tool_name(&id, result));
        waiting.push(text_part(&Text::from(note.as_str())));
        waiting.extend(media);
    }
    let failed = result.is_error == Some(true);
    if failed {
        cx.lose_error_mark(entry);
    }
    let content = match (texts.as_slice(), entry.content_state) {
        ([text], state) if !failed && state != ContentState::Parts => text.json().into_owned(),
        ([], _) if !failed => "\"\"".into(),
        (texts, ContentState::Parts) if !failed && texts.len() > 1 => {
            let parts: Vec<String> = texts.iter().map(|text| text_part(text)).collect();
            format!("[{}]", parts.join(","))
        }
        (texts, _) => {
            let texts: Vec<Cow<'_, str>> = texts.iter().map(|text| text.as_str()).collect();
            let text = texts.join("\n");
            if failed { quote(&error_text(&text)) } else { quote(&text) }
        }
    };
    match old_call {
        Some(name) => format!("{{\"role\":\"function\",\"name\":{},\"content\":{content}}}", quote(name)),
        None => format!("{{\"role\":\"tool\",\"tool_call_id\":{},\"content\":{content}}}", quote(&id)),
    }
}

fn render_reply(entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    let (mut parts, mut calls, mut refusal) = (Vec::new(), Vec::new(), None);
    let mut mixed = false;
    for block in &entry.blocks {
        match &block.kind {
            BlockKind::Text(text) => {
                mixed |= !calls.is_empty();
                parts.push(text);
            }
            BlockKind::Refusal(text) => match refusal {
                None => refusal = Some(text),
                Some(_) => cx.lose(entry, Some(block), "refusal", "a message has only one there"),
            },
            BlockKind::ToolCall(call) if call.style.is_client() => {
                let id = quote(&cx.call_id());
                let name = quote(&tools::fit_name(&call.name.as_str()));
                cx.lose_call_form(call, entry, block);
                let arguments = quote(&call.arguments.as_str());
                calls.push(if call.style == CallStyle::Custom {
                    format!("{{\"id\":{id},\"type\":\"custom\",\"custom\":{{\"name\":{name},\"input\":{arguments}}}}}")
                } else {
                    format!("{{\"id\":{id},\"type\":\"function\",\"function\":{{\"name\":{name},\"arguments\":{arguments}}}}}")
                });
            }
            BlockKind::Reasoning(_) => {
                cx.lose_reasoning(entry, block);
            }
            _ => {
                cx.lose_opaque(entry, block);
            }
        }
    }
    if mixed {
        cx.lose(entry, None, "order of text and calls", "calls come after the text there");
    }
    if parts.is_empty() && calls.is_empty() && refusal.is_none() && !entry.blocks.is_empty() {
        return None;
    }
    let content = match parts.as_slice() {
        [] if calls.is_empty() && refusal.is_none() => "\"\"".into(),
        [] => "null".into(),
        [text] => text.json().into_owned(),
        texts => {
            let parts: Vec<String> = texts.iter().map(|text| text_part(text)).collect();
            format!("[{}]", parts.join(","))
        }
    };
    let mut out = format!("{{\"role\":\"assistant\",\"content\":{content}");
    if let Some(refusal) = refusal {
        out.push_str(",\"refusal\":");
        out.push_str(&refusal.json());
    }
    if !calls.is_empty() {
        out.push_str(",\"tool_calls\":[");
        out.push_str(&calls.join(","));
        out.push(']');
    }
    out.push_str(&name(entry));
    out.push('}');
    Some(out)
}

/// The message of one item: as it came, but for what the view rewrote and ids that would not do.
fn render_own(item: &ViewItem, cx: &mut Cx<'_>) -> String {
    let entry = &item.entry;
    let raw = Raw::trusted(&entry.origin.raw);
    let message = match item.fidelity {
        Fidelity::AsSaid | Fidelity::Moved => json::one_line(raw).into_owned(),
        Fidelity::Rewritten => render_rewritten(entry, raw),
    };
    let edits = other_ids(entry, cx);
    if edits.is_empty() {
        return message;
    }
    cx.explain(entry, Reason::Repaired, entry.chars(), false);
    json::edit(Raw::trusted(&message), &edits)
}

/// The edits that give calls and results ids they can be sent with.
fn other_ids(entry: &Entry, cx: &mut Cx<'_>) -> Edits {
    let mut edits = Edits::new();
    let mut number = 0;
    // Calls of the old form have no JSON of their own, and no ids.
    for block in entry.blocks.iter().filter(|block| block.raw.is_some() || entry.role == Role::Tool) {
        let is_call = matches!(block.kind, BlockKind::ToolCall(_));
        if let Some(id) = cx.other_id(block) {
            let place = if is_call { format!("/tool_calls/{number}/id") } else { "/tool_call_id".into() };
            edits.insert(place, Edit::Put(quote(&id)));
        }
        number += usize::from(is_call);
    }
    edits
}

/// The message with only those values printed anew that the view changed; key order and all else stay.
fn render_rewritten(entry: &Entry, raw: Raw<'_>) -> String {
    let mut edits = Edits::new();
    let mut set = |key: &str, value: Option<String>| {
        if raw.get(key).is_some() {
            edits.insert(format!("/{key}"), value.map_or(Edit::Remove, Edit::Put));
        }
    };
    set("content", Some(render_content(entry)));
    set("tool_calls", render_calls(entry));
    let has = |wanted: fn(&Block) -> bool| entry.blocks.iter().any(wanted);
    // Calls of the old form have no JSON of their own.
    if !has(|block| matches!(block.kind, BlockKind::ToolCall(_)) && block.raw.is_none()) {
        set("function_call", None);
    }
    if !has(|block| matches!(block.kind, BlockKind::Reasoning(_))) {
        set("reasoning_content", None);
    }
    json::one_line(Raw::trusted(&json::edit(raw, &edits))).into_owned()
}

fn render_content(entry: &Entry) -> String {
    let content: &[Block] = entry.tool_result().map_or(&entry.blocks, |result| &result.content);
    let mut out = String::new();
    match entry.content_state {
        ContentState::Null | ContentState::Absent => out.push_str("null"),
        ContentState::Text => match content.iter().flat_map(Block::texts).next() {
            Some(text) => out.push_str(&text.json()),
            None => out.push_str("null"),
        },
        ContentState::Parts => {
            out.push('[');
            for block in content {
                let Some(raw) = block.raw.as_ref().filter(|_| !matches!(block.kind, BlockKind::ToolCall(_)))
                else {
                    continue;
                };
                if out.len() > 1 {
                    out.push(',');
                }
                match &block.kind {
                    BlockKind::Text(text @ Text::Own(_)) => {
                        let edits = Edits::from([("/text".into(), Edit::Put(text.json().into_owned()))]);
                        out.push_str(&json::one_line(Raw::trusted(&json::edit(raw.raw(), &edits))));
                    }
                    _ => out.push_str(&json::one_line(raw.raw())),
                }
            }
            out.push(']');
        }
    }
    out
}

/// The calls that are left; none when the key has to go, since an empty list is refused by the provider.
fn render_calls(entry: &Entry) -> Option<String> {
    let calls: Vec<Cow<'_, str>> = entry
        .blocks
        .iter()
        .filter(|block| matches!(block.kind, BlockKind::ToolCall(_)))
        .filter_map(|block| Some(json::one_line(block.raw.as_ref()?.raw())))
        .collect();
    (!calls.is_empty()).then(|| format!("[{}]", calls.join(",")))
}
