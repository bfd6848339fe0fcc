//! Reasoning as one body shows it: AN-30 to AN-33 and AN-39.

use super::super::CheckOptions;
use super::finding::Findings;
use super::models::forgets_thinking;
use super::request::{AnthropicBlock, AnthropicRequest, AnthropicRole, RoleRun, Type};
use crate::json::{JsonKind, Raw};

pub(super) fn check(request: &AnthropicRequest<'_>, options: &CheckOptions<'_>, found: &mut Findings) {
    for block in request.messages.iter().flat_map(|message| &message.blocks) {
        match block.kind {
            Type::Thinking => check_thinking(block, found),
            Type::RedactedThinking if !is_text(block.text) || block.has_more || block.signature.is_some() => {
                found.add("AN-30", block.place, "sealed thinking was changed; send it back as it came");
            }
            _ => {}
        }
    }
    check_open_loop(request, found);
    if options.model.is_some_and(forgets_thinking) {
        check_forgotten(request, found);
    }
}

fn is_text(value: Option<Raw<'_>>) -> bool {
    value.is_some_and(|value| value.kind() == JsonKind::String)
}

fn is_empty(value: Option<Raw<'_>>) -> bool {
    value.is_none_or(|value| value.kind() == JsonKind::Null || value.text() == "\"\"")
}

fn check_thinking(block: &AnthropicBlock<'_>, found: &mut Findings) {
    if is_empty(block.text) && is_empty(block.signature) {
        found.add("AN-33", block.place, "empty thinking without a signature; leave it out");
    } else if !is_text(block.text) || block.has_more {
        found.add("AN-30", block.place, "thinking was changed; send it back as it came, or leave it out");
    } else if !is_text(block.signature) || is_empty(block.signature) {
        found.add(
            "AN-31",
            block.place,
            "thinking without its signature; leave it out, or keep what came with it",
        );
    } else if !block.signature.is_some_and(looks_signed) {
        found.add("AN-31", block.place, "the provider did not make this signature; leave the thinking out");
    }
}

/// Whether a literal is written in an alphabet signatures are written in.
fn looks_signed(signature: Raw<'_>) -> bool {
    signature.string().is_some_and(|text| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_'))
    })
}

/// With thinking switched on by hand, the turn that waits for an answer to its results begins with thinking. The
/// model thinks once, and may then call tools in several messages.
fn check_open_loop(request: &AnthropicRequest<'_>, found: &mut Findings) {
    let by_hand = request.get("thinking").and_then(|thinking| thinking.get("type")).and_then(Raw::string);
    if by_hand.as_deref() != Some("enabled") {
        return;
    }
    let Some((end, _)) = request.last_spoken().filter(|(_, turn)| hands_in_results(request, turn)) else {
        return;
    };
    let looped = request.turns.get(..end).unwrap_or_default().iter().rev();
    let mut answers = looped
        .take_while(|turn| turn.role != AnthropicRole::User || hands_in_results(request, turn))
        .filter(|turn| turn.role == AnthropicRole::Assistant);
    let thinks = |turn: &RoleRun| request.blocks(turn).any(AnthropicBlock::is_thinking);
    let Some(last) = answers.next() else { return };
    if let Some(first) = request.blocks(last).next()
        && !thinks(last)
        && !answers.any(thinks)
    {
        let message = "thinking is enabled and this turn has none; switch it off until the tools are done";
        found.add("AN-32", first.place, message);
    }
}

fn hands_in_results(request: &AnthropicRequest<'_>, turn: &RoleRun) -> bool {
    turn.role == AnthropicRole::User && request.blocks(turn).any(|block| block.kind == Type::Result)
}

/// What was thought before the user last spoke is taken out by the provider.
fn check_forgotten(request: &AnthropicRequest<'_>, found: &mut Findings) {
    let spoke = request
        .turns
        .iter()
        .rposition(|turn| turn.role == AnthropicRole::User && !hands_in_results(request, turn));
    let past = request.turns.get(..spoke.unwrap_or_default()).unwrap_or_default();
    for block in past.iter().flat_map(|turn| request.blocks(turn)).filter(|block| block.is_thinking()) {
        found.add("AN-39", block.place, "thinking of an earlier turn, which this model is not shown");
    }
}
