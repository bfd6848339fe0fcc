//! Instructions: on most wires they stand in a field of their own, not among the messages.

use super::{Cx, quote};
use crate::block::BlockKind;
use crate::json::{self, JsonKind, Raw};
use crate::record::positions::changes_tools;
use crate::text::Text;
use crate::view::{Fidelity, ViewItem};
use crate::wire::Wire;

/// The key of the field; none where instructions are messages.
pub(super) fn key(wire: Wire) -> Option<&'static str> {
    names(wire).first().copied()
}

/// The spellings of that key.
pub(super) fn names(wire: Wire) -> &'static [&'static str] {
    match wire {
        Wire::OpenaiResponses => &["instructions"],
        Wire::Anthropic | Wire::Bedrock => &["system"],
        Wire::Gemini => &["systemInstruction", "system_instruction"],
        Wire::OpenaiChat | Wire::Scrollback => &[],
    }
}

/// Whether a value of that field is instructions, and not empty or unreadable.
pub(super) fn holds(wire: Wire, value: Raw<'_>) -> bool {
    match wire {
        Wire::OpenaiResponses => value.kind() == JsonKind::String,
        _ => value.kind() != JsonKind::Null,
    }
}

/// Parts the lead into what belongs into the field and what is an item of the list.
pub(super) fn split(lead: Vec<ViewItem>, cx: &Cx<'_>) -> (Vec<ViewItem>, Vec<ViewItem>) {
    lead.into_iter().partition(|item| {
        let message =
            cx.is_own(&item.entry) && Raw::trusted(&item.entry.origin.raw).kind() == JsonKind::Object;
        let listed = message
            && match cx.wire {
                Wire::OpenaiResponses => true,
                // A provider that refuses instructions in front of the list takes them in the field, but for those that
                // change its tools.
                Wire::Anthropic => !cx.sends() || changes_tools(&item.entry),
                Wire::Bedrock => !cx.sends(),
                _ => false,
            };
        !listed
    })
}

/// Whether the entry was read from the field of this wire.
fn is_field(item: &ViewItem, cx: &Cx<'_>) -> bool {
    let object = Raw::trusted(&item.entry.origin.raw).kind() == JsonKind::Object;
    cx.is_own(&item.entry) && (cx.wire == Wire::Gemini || !object) && item.fidelity == Fidelity::AsSaid
}

/// The value of the field: as it came if that is all there is, else every text, separated by a blank line.
pub(super) fn render(lead: &[ViewItem], cx: &mut Cx<'_>) -> Option<String> {
    if let [only] = lead
        && is_field(only, cx)
    {
        return Some(json::one_line(Raw::trusted(&only.entry.origin.raw)).into_owned());
    }
    let blocks = lead.iter().any(|item| {
        is_field(item, cx) && matches!(Raw::trusted(&item.entry.origin.raw).kind(), JsonKind::Array)
    });
    if blocks { as_blocks(lead, cx) } else { as_text(lead, cx) }
}

/// Texts of the lead beside blocks that stay as they are.
fn as_blocks(lead: &[ViewItem], cx: &mut Cx<'_>) -> Option<String> {
    let mut list = Vec::new();
    for item in lead {
        let raw = Raw::trusted(&item.entry.origin.raw);
        if is_field(item, cx) && raw.kind() == JsonKind::Array {
            list.extend(raw.elements().map(|block| json::one_line(block).into_owned()));
            continue;
        }
        if let Some(text) = texts(item, cx) {
            let text = quote(&text);
            list.push(match cx.wire {
                Wire::Anthropic => format!("{{\"type\":\"text\",\"text\":{text}}}"),
                _ => format!("{{\"text\":{text}}}"),
            });
        }
    }
    (!list.is_empty()).then(|| format!("[{}]", list.join(",")))
}

fn as_text(lead: &[ViewItem], cx: &mut Cx<'_>) -> Option<String> {
    let all: Vec<String> = lead.iter().filter_map(|item| texts(item, cx)).collect();
    if all.is_empty() {
        return None;
    }
    let text = quote(&all.join("\n\n"));
    Some(match cx.wire {
        Wire::Bedrock => format!("[{{\"text\":{text}}}]"),
        Wire::Gemini => format!("{{\"parts\":[{{\"text\":{text}}}]}}"),
        _ => text,
    })
}

/// The texts of one entry of the lead that are not blank; what else it has is lost.
fn texts(item: &ViewItem, cx: &mut Cx<'_>) -> Option<String> {
    if let crate::view::ItemSource::Entry(position) = item.source {
        cx.position = Some(position);
    }
    if !cx.is_own(&item.entry) {
        cx.lose_extras(&item.entry);
    }
    for block in &item.entry.blocks {
        if !matches!(block.kind, BlockKind::Text(_)) {
            cx.lose(&item.entry, Some(block), "content", "instructions are text there");
        }
    }
    let texts: Vec<String> = item.entry.texts().map(Text::as_str).map(std::borrow::Cow::into_owned).collect();
    let text = texts.join("\n");
    (!text.trim().is_empty()).then_some(text)
}
