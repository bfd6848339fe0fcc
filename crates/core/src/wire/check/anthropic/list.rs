//! The list as such: who begins, who ends, what a message may hold. AN-1, AN-2, AN-10 to AN-15, AN-19, and the
//! marks of compaction, threads and tool changes (AN-42, AN-44, AN-46).

use super::finding::{Findings, RequestPath};
use super::prefix::same;
use super::request::{AnthropicBlock, AnthropicMessage, AnthropicRequest, AnthropicRole, Type, is_blank};
use crate::json::{JsonKind, Raw};

pub(super) fn check(request: &AnthropicRequest<'_>, found: &mut Findings) {
    check_start(request, found);
    check_end(request, found);
    check_members(request, found);
    check_instructions(request, found);
    let advisor = missing_advisor(request);
    let last = request.messages.len().saturating_sub(1);
    let mut summaries = 0;
    let mut before: Option<&AnthropicMessage<'_>> = None;
    for (index, message) in request.messages.iter().enumerate() {
        let place = RequestPath::Message(index);
        if before.is_some_and(|before| before.role == message.role && message.role != AnthropicRole::System) {
            found.add("AN-2", place, "merged with the message before it, which has the same role");
        }
        // A last message of the assistant may be empty: the answer starts there.
        if message.is_empty && !(index == last && message.role == AnthropicRole::Assistant) {
            found.add("AN-11", place, "the message is empty; leave it out");
        }
        if message.role == AnthropicRole::System {
            check_system(message, index, before, request.messages.get(index + 1), request, found);
        }
        for block in &message.blocks {
            check_block(block, message.role, found);
            for inner in &block.inner {
                check_block(inner, message.role, found);
            }
            if advisor && is_advice(block) {
                found.add(
                    "AN-19",
                    block.place,
                    "advice without the advisor tool; offer the tool or leave it out",
                );
            }
            if block.kind == Type::Compaction {
                check_summary(block, message.role, &mut summaries, found);
            }
        }
        before = Some(message);
    }
}

fn check_start(request: &AnthropicRequest<'_>, found: &mut Findings) {
    let Some(first) = request.messages.first() else { return };
    let summarised = first.blocks.first().is_some_and(|block| block.kind == Type::Compaction);
    if first.role == AnthropicRole::Assistant && !summarised && !request.continues_thread() {
        found.add(
            "AN-1",
            RequestPath::Message(0),
            "the list begins with the assistant; put a user message in front",
        );
    }
}

fn check_end(request: &AnthropicRequest<'_>, found: &mut Findings) {
    // A request for a summary may end anywhere.
    let Some(turn) = request.turns.last().filter(|turn| turn.role == AnthropicRole::Assistant) else {
        return;
    };
    if request.get("compaction").is_some() {
        return;
    }
    // A turn in which the provider's own tools ran may have paused, and is then sent back as it is.
    let goes_on = |block: &AnthropicBlock<'_>| block.is_server_tool() || block.kind == Type::Compaction;
    let place = RequestPath::Message(turn.messages.end.saturating_sub(1));
    if !request.blocks(turn).any(goes_on) {
        found.add("AN-12", place, "the list ends with the assistant; end it with a user message");
    }
    let text = request.blocks(turn).next_back().filter(|block| block.kind == Type::Text);
    if let Some(text) = text.and_then(|block| block.text).and_then(Raw::string)
        && text.ends_with(char::is_whitespace)
        && !text.trim().is_empty()
    {
        found.add("AN-13", place, "the last text ends in white space; cut it off");
    }
}

fn check_system(
    message: &AnthropicMessage<'_>,
    index: usize,
    before: Option<&AnthropicMessage<'_>>,
    after: Option<&AnthropicMessage<'_>>,
    request: &AnthropicRequest<'_>,
    found: &mut Findings,
) {
    let place = RequestPath::Message(index);
    found.add("AN-14", place, "the model takes no system messages in the list; say it in a user message");
    let trouble = match before {
        None if request.continues_thread() => None,
        None => Some("a system message cannot come first; use the `system` of the request"),
        Some(before) if before.role == AnthropicRole::System => {
            Some("a system message cannot follow another one; join them")
        }
        Some(before)
            if before.role == AnthropicRole::Assistant
                && !before.blocks.last().is_some_and(AnthropicBlock::is_server_tool) =>
        {
            Some("a system message cannot follow an answer; put it after a user message")
        }
        Some(_) if after.is_some_and(|after| after.role == AnthropicRole::User) => {
            Some("a user message cannot follow a system message; put the system message after it")
        }
        Some(_) => None,
    };
    if let Some(trouble) = trouble {
        found.add("AN-15", place, trouble);
    }
    for block in &message.blocks {
        // Tool changes stand here, and what is unknown may.
        if !matches!(block.kind, Type::Text | Type::ToolChange | Type::Compaction | Type::Other) {
            found.add("AN-15", block.place, "a system message holds text only; move this elsewhere");
        }
    }
}

/// The texts of the system field.
fn check_instructions(request: &AnthropicRequest<'_>, found: &mut Findings) {
    for (index, block) in request.get("system").into_iter().flat_map(Raw::elements).enumerate() {
        if block.get("text").is_some_and(is_blank) {
            found.add("AN-10", RequestPath::Element("system", index), "the text is blank; leave it out");
        }
    }
}

fn check_block(block: &AnthropicBlock<'_>, role: AnthropicRole, found: &mut Findings) {
    match block.kind {
        Type::Text if block.text.is_some_and(is_blank) => {
            found.add("AN-10", block.place, "the text is blank; leave it out");
        }
        Type::ToolChange if role != AnthropicRole::System => {
            found.add("AN-46", block.place, "tools change in a system message only; move it into one");
        }
        _ => {}
    }
}

/// A block that a summary request returned is signed, and stands first, alone, in place of what it summarises. The
/// unsigned ones of automatic compaction follow what they summarise, and there may be many.
fn check_summary(block: &AnthropicBlock<'_>, role: AnthropicRole, signed: &mut usize, found: &mut Findings) {
    if block.content.is_some_and(|content| content.text() == "\"\"") {
        found.add("AN-42", block.place, "an empty summary; leave the block out, or send `null` as it came");
        return;
    }
    let has_content = block.content.is_some_and(|content| content.kind() != JsonKind::Null);
    if block.signature.is_none_or(|signature| signature.kind() == JsonKind::Null) || !has_content {
        return;
    }
    *signed += 1;
    if *signed > 1 {
        found.add("AN-42", block.place, "a second signed summary; send the newest one only");
    } else if block.place != RequestPath::Block(0, 0, None) || role == AnthropicRole::System {
        let message =
            "a signed summary stands first, in place of the messages it summarises; leave those out";
        found.add("AN-42", block.place, message);
    }
}

fn check_members(request: &AnthropicRequest<'_>, found: &mut Findings) {
    let Some(thread) = request.get("thread") else { return };
    let id = thread.get("previous_message_id").map(Raw::kind);
    if request.continues_thread() {
        if id != Some(JsonKind::String) {
            let message = "a thread continues from a message: name it in `previous_message_id`";
            found.add("AN-44", RequestPath::Member("thread"), message);
        }
    } else if id.is_some() {
        let message = "only a thread that is continued has a `previous_message_id`; leave it out";
        found.add("AN-44", RequestPath::Member("thread"), message);
    }
}

/// What a thread was created with stays as it is.
pub(super) fn check_thread(
    request: &AnthropicRequest<'_>,
    previous: &AnthropicRequest<'_>,
    found: &mut Findings,
) {
    for key in ["system", "tools"] {
        if let (Some(now), Some(then)) = (request.get(key), previous.get(key))
            && !same(now, then)
        {
            let message = "it changed within a thread; leave it out, or create a new thread";
            found.add("AN-44", RequestPath::Member(key), message);
        }
    }
}

/// Whether the tools are known, and the advisor is not one of them.
fn missing_advisor(request: &AnthropicRequest<'_>) -> bool {
    if request.is_bare() || request.continues_thread() {
        return false;
    }
    let mut tools = request.get("tools").into_iter().flat_map(Raw::elements);
    let starts = |tool: Raw<'_>, key: &str| {
        tool.get(key).and_then(Raw::string).is_some_and(|value| value.starts_with("advisor"))
    };
    !tools.any(|tool| starts(tool, "type") || starts(tool, "name"))
}

fn is_advice(block: &AnthropicBlock<'_>) -> bool {
    let named = |key: Option<Raw<'_>>, word: &str| key.and_then(Raw::string).as_deref() == Some(word);
    match block.kind {
        Type::ServerCall => named(block.name, "advisor"),
        Type::ServerResult => named(block.raw.get("type"), "advisor_tool_result"),
        _ => false,
    }
}
