//! What the three wires with block lists share: Anthropic, Gemini and Bedrock put results into user messages, want
//! them together and first, and (each in its way) want the speakers in turn.

use std::sync::Arc;

use super::draft::{BlockSlot, Draft};
use super::{Binding, Cx, OPENING, Rendered, SYSTEM_NOTE, joined_text, quote};
use crate::block::{Block, BlockKind, Media, ToolCall, ToolResult};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{self, Edit, Edits, JsonKind, Raw};
use crate::model::{ModelLine, ModelName};
use crate::record::positions::changes_tools;
use crate::text::Text;
use crate::view::{Fidelity, ItemSource, Reason, SUMMARY_HEADING, ViewItem};
use crate::wire::Wire;

/// How one of these wires differs from the others.
pub(super) struct Style {
    /// The key of a message's list of blocks.
    pub(super) key: &'static str,
    /// The word for the model's role.
    pub(super) assistant: &'static str,
    /// A text as a block.
    pub(super) text: fn(&Text) -> String,
    /// A call as a block, with the id it is printed with.
    pub(super) call: fn(&ToolCall, &str, &Cx<'_>) -> String,
    /// A result as a block, with the id it is printed with.
    pub(super) result: fn(&ToolResult, &str, &Entry, &mut Cx<'_>) -> String,
    /// Media as a block; none if they cannot be held, which it notes.
    pub(super) media: fn(&Media, &Block, &Entry, &mut Cx<'_>) -> Option<String>,
    /// What to change in a result of this wire whose content a view changed.
    pub(super) changed_result: fn(Raw<'_>, &ToolResult, &Entry) -> Edits,
    /// Where the id is in a call of this wire.
    pub(super) call_ids: &'static [&'static str],
    /// Where the id is in a result of this wire.
    pub(super) result_ids: &'static [&'static str],
    /// Which neighbours must be one message.
    pub(super) joins: Joins,
    /// What else the provider is particular about.
    pub(super) habits: &'static [Habit],
}

/// Something a provider is particular about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// Blank texts are refused.
    RefusesBlank,
    /// Results must stand alone in their message.
    ResultsAlone,
    /// A single text may be written without a list.
    PlainText,
    /// Texts must come before calls.
    CallsLast,
}

impl Style {
    fn has(&self, habit: Habit) -> bool {
        self.habits.contains(&habit)
    }
}

/// Which neighbours of one role a wire wants as one message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Joins {
    /// Only results of one group.
    Results,
    /// Those, and the model's messages.
    ResultsAndReplies,
    /// All.
    All,
}

/// Prints entries as messages of a wire with block lists.
pub(super) fn render(
    style: &Style,
    items: &[ViewItem],
    binding: &Binding,
    cx: &mut Cx<'_>,
    rendered: &mut Rendered,
) {
    let placed = cx.sends().then(|| place_tool_changes(style, items, cx)).flatten();
    let items = placed.as_deref().unwrap_or(items);
    let mut drafts: Vec<Draft> = Vec::new();
    let unchanged = |item: &ViewItem| cx.is_own(&item.entry) && item.fidelity == Fidelity::AsSaid;
    // Messages that all came on this wire stay apart, so that a whole one need not be taken into blocks.
    let kept = !cx.sends() && items.iter().all(unchanged);
    for (index, item) in items.iter().enumerate() {
        cx.enter(item);
        if index == 0
            && let Some((heading, text)) = leading_summary(item)
        {
            drafts.push(Draft::ours(Role::User, (style.text)(&Text::from(heading))));
            drafts.push(Draft::ours(Role::Assistant, (style.text)(&Text::from(text.as_str()))));
            continue;
        }
        if kept && is_whole_message(&item.entry) {
            drafts.push(verbatim(&item.entry, Vec::new()));
            continue;
        }
        // What is left out for the provider's sake is an edit too.
        let broken = binding.is_broken(index) || (binding.binds && !cx.left_out.is_empty());
        let next = items.get(index + 1).map(|item| item.entry.role);
        if let Some(mut draft) = draft(style, item, broken, (drafts.last(), next), cx) {
            draft.sources.extend(cx.position);
            add(style, &mut drafts, draft, cx);
        }
    }
    let opens = |draft: &Draft| draft.role == Role::Assistant && (cx.sends() || !draft.own);
    if drafts.first().is_some_and(opens) && !starts_with_compaction(items, cx) {
        drafts.insert(0, Draft::ours(Role::User, (style.text)(&Text::from(OPENING))));
        rendered.opened = true;
    }
    for draft in &drafts {
        rendered.sources.add(draft.sources.iter().copied());
    }
    rendered.messages = drafts.into_iter().map(|draft| print(style, draft, cx)).collect();
}

/// Moves changes of tools to where the provider takes them: after what a user said, before a reply or the end. A cut may have
/// left them without what they followed. None if they stand well.
fn place_tool_changes(style: &Style, items: &[ViewItem], cx: &Cx<'_>) -> Option<Vec<ViewItem>> {
    let changes = |item: &ViewItem| {
        item.entry.role == Role::System && cx.is_own(&item.entry) && changes_tools(&item.entry)
    };
    if style.assistant != "assistant" || !items.iter().any(changes) {
        return None;
    }
    let mut placed = Vec::with_capacity(items.len());
    let mut waiting: Vec<ViewItem> = Vec::new();
    let mut rest = items.iter().peekable();
    while let Some(item) = rest.next() {
        if changes(item) {
            waiting.push(item.clone());
        } else {
            placed.push(item.clone());
        }
        let spoken = placed.last().is_some_and(|item| matches!(item.entry.role, Role::User | Role::Tool));
        let answered = rest.peek().is_none_or(|next| next.entry.role == Role::Assistant);
        if spoken && answered {
            placed.append(&mut waiting);
        }
    }
    placed.append(&mut waiting);
    Some(placed)
}

/// A message that changes tools: its blocks, so that it can be joined with the next one.
fn tool_changes(style: &Style, item: &ViewItem, cx: &mut Cx<'_>) -> Option<Draft> {
    let slots: Vec<BlockSlot> = (0..)
        .zip(&item.entry.blocks)
        .filter_map(|(at, block)| {
            let json = own_block(style, block, item, None)?;
            Some(BlockSlot { at, json, is_result: false, is_call: false })
        })
        .collect();
    if slots.is_empty() {
        cx.explain(&item.entry, Reason::Unsupported, 0, true);
        return None;
    }
    let mut draft = verbatim(&item.entry, slots);
    draft.role = Role::System;
    Some(draft)
}

/// A summary that would come first, as its heading and its text.
fn leading_summary(item: &ViewItem) -> Option<(&'static str, String)> {
    if !matches!(item.source, ItemSource::Summary { .. }) || item.entry.role != Role::Assistant {
        return None;
    }
    let text = item.entry.content()?;
    let rest = text.strip_prefix(SUMMARY_HEADING)?.trim_start_matches('\n').to_string();
    Some((SUMMARY_HEADING.trim_end(), rest))
}

/// Whether a signed summary of the provider's own stands first, which may.
fn starts_with_compaction(items: &[ViewItem], cx: &Cx<'_>) -> bool {
    let entry = items.first().map(|item| &item.entry).filter(|entry| cx.is_own(entry));
    let block = entry.and_then(|entry| entry.blocks.first());
    block.is_some_and(|block| matches!(block.kind, BlockKind::Compaction(_)))
}

/// The message of one entry; none if nothing of it can be held.
fn draft(
    style: &Style,
    item: &ViewItem,
    broken: bool,
    (before, after): (Option<&Draft>, Option<Role>),
    cx: &mut Cx<'_>,
) -> Option<Draft> {
    let entry = &item.entry;
    let own = cx.is_own(entry) && is_message(entry);
    if entry.role == Role::System {
        // A message of instructions stays one where the provider takes it: after a user, before a reply or the end.
        let follows = before.is_some_and(|draft| matches!(draft.role, Role::User | Role::Tool));
        let placed = follows && matches!(after, None | Some(Role::Assistant));
        if own && cx.sends() && changes_tools(entry) {
            return tool_changes(style, item, cx);
        }
        if own && item.fidelity == Fidelity::AsSaid && (!cx.sends() || (placed && cx.wire != Wire::Gemini)) {
            return Some(verbatim(entry, Vec::new()));
        }
        if !own && placed && cx.wire == Wire::Anthropic && cx.options.model.is_some_and(takes_system_messages)
        {
            return system_message(style, entry, cx);
        }
        return instructions(style, entry, cx);
    }
    if !own {
        cx.lose_extras(entry);
    }
    let mut slots = Vec::with_capacity(entry.blocks.len());
    let (mut blank, mut unbound, mut renamed) = (false, false, false);
    let mut chars = entry.chars();
    let indexes = entry.origin.part.as_ref().map(|part| part.indexes.as_slice());
    for (number, block) in entry.blocks.iter().enumerate() {
        if broken && own && matches!(block.kind, BlockKind::Reasoning(_)) {
            unbound = true;
            continue;
        }
        if style.has(Habit::RefusesBlank) && (cx.sends() || !own) && is_blank(block) {
            blank = true;
            chars -= block.texts().map(Text::chars).sum::<usize>();
            if !cx.sends() {
                cx.lose_blank(entry, block);
            }
            continue;
        }
        let json = if own {
            let other_id = cx.other_id(block);
            renamed |= other_id.is_some();
            own_block(style, block, item, other_id)
        } else {
            foreign_block(style, block, entry, cx)
        };
        let is_call = matches!(block.kind, BlockKind::ToolCall(_));
        let at = indexes.and_then(|indexes| indexes.get(number).copied()).unwrap_or(number as u32);
        let is_result = matches!(block.kind, BlockKind::ToolResult(_));
        slots.extend(json.map(|json| BlockSlot { at, json, is_result, is_call }));
    }
    if !own && style.has(Habit::CallsLast) {
        slots.sort_by_key(|slot| slot.is_call);
    }
    let whole = own && item.fidelity != Fidelity::Rewritten && !blank && !unbound && !renamed;
    let left = !slots.is_empty() || (whole && !cx.sends());
    let reason = match () {
        () if unbound => Some(Reason::BoundReasoning),
        () if blank || (!left && entry.blocks.is_empty()) => Some(Reason::BlankText),
        () if renamed => Some(Reason::Repaired),
        () => (!left).then_some(Reason::Unsupported),
    };
    if let Some(reason) = reason {
        cx.explain(entry, reason, if left { chars } else { 0 }, !left);
    }
    if !left {
        if entry.blocks.is_empty() && !cx.sends() {
            cx.lose(entry, None, "empty message", "the provider refuses it");
        }
        return None;
    }
    let mut draft = if own { verbatim(entry, slots) } else { Draft::of(entry, slots) };
    (draft.whole, draft.own) = (whole, whole);
    draft.plain = !own && entry.content_state == ContentState::Text && entry.role != Role::Tool;
    Some(draft)
}

/// A block of another wire; none if it cannot be held, which is noted.
fn foreign_block(style: &Style, block: &Block, entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    match &block.kind {
        BlockKind::Text(text) => Some((style.text)(text)),
        BlockKind::Refusal(text) => {
            cx.lose(entry, Some(block), "refusal", "it becomes ordinary text");
            let refused = style.has(Habit::RefusesBlank) && text.is_blank();
            (!refused).then(|| (style.text)(text))
        }
        BlockKind::ToolCall(call) if call.style.is_client() => {
            let id = cx.call_id();
            cx.lose_call_form(call, entry, block);
            Some((style.call)(call, &id, cx))
        }
        BlockKind::ToolResult(result) => {
            let id = cx.result_id(result);
            Some((style.result)(result, &id, entry, cx))
        }
        BlockKind::Media(media) => (style.media)(media, block, entry, cx),
        BlockKind::Reasoning(_) => cx.lose_reasoning(entry, block),
        BlockKind::ToolCall(_) | BlockKind::Compaction(_) | BlockKind::Opaque(_) => {
            cx.lose_opaque(entry, block)
        }
    }
}

/// A block of this wire: as it came, but for what the view changed and an id that would not do.
fn own_block(style: &Style, block: &Block, item: &ViewItem, other_id: Option<String>) -> Option<String> {
    let Some(raw) = &block.raw else {
        let BlockKind::Text(text) = &block.kind else { return None };
        return Some((style.text)(text));
    };
    let raw = raw.raw();
    let mut edits = match &block.kind {
        _ if item.fidelity != Fidelity::Rewritten => Edits::new(),
        BlockKind::Text(text @ Text::Own(_)) => changed_text(text),
        BlockKind::ToolResult(result) => (style.changed_result)(raw, result, &item.entry),
        _ => Edits::new(),
    };
    if let Some(id) = other_id {
        let places =
            if matches!(block.kind, BlockKind::ToolCall(_)) { style.call_ids } else { style.result_ids };
        // Below a member that is not there an edit does nothing.
        edits.extend(places.iter().map(|place| ((*place).to_string(), Edit::Put(quote(&id)))));
    }
    Some(if edits.is_empty() { json::one_line(raw).into_owned() } else { json::edit(raw, &edits) })
}

fn changed_text(text: &Text) -> Edits {
    Edits::from([("/text".into(), Edit::Put(text.json().into_owned()))])
}

/// The content of a result that a view changed: parts as they came, texts as they are now.
pub(super) fn changed_parts(content: &[Block], print: impl Fn(&Text) -> String) -> String {
    let part = |inner: &Block| match (&inner.kind, &inner.raw) {
        (BlockKind::Text(text @ Text::Own(_)), Some(raw)) if raw.raw().get("text").is_some() => {
            Some(json::edit(raw.raw(), &changed_text(text)))
        }
        (BlockKind::Text(text @ Text::Own(_)), _) | (BlockKind::Text(text), None) => Some(print(text)),
        (_, Some(raw)) => Some(json::one_line(raw.raw()).into_owned()),
        _ => None,
    };
    let parts: Vec<String> = content.iter().filter_map(part).collect();
    format!("[{}]", parts.join(","))
}

/// Whether the entry's own text is a message, and not the value of the field for instructions.
fn is_message(entry: &Entry) -> bool {
    Raw::trusted(&entry.origin.raw).kind() == JsonKind::Object
}

fn is_whole_message(entry: &Entry) -> bool {
    is_message(entry) && entry.origin.part.is_none()
}

fn verbatim(entry: &Entry, slots: Vec<BlockSlot>) -> Draft {
    let mut draft = Draft::of(entry, slots);
    draft.shell = Some(Arc::clone(&entry.origin.raw));
    (draft.whole, draft.own) = (true, true);
    draft
}

/// Whether a model is known to take instructions in the middle of a conversation.
fn takes_system_messages(model: &ModelName) -> bool {
    model.generation().is_some_and(|generation| generation.line == ModelLine::Claude)
        && !crate::wire::check::refuses_system_messages(model)
}

/// Instructions in the middle of a conversation, where the model takes them.
fn system_message(style: &Style, entry: &Entry, cx: &mut Cx<'_>) -> Option<Draft> {
    cx.lose_extras(entry);
    let text = spoken_instructions(entry, cx)?;
    Some(Draft::ours(Role::System, (style.text)(&Text::from(text.as_str()))))
}

/// Instructions in the middle of a conversation, as a user's text with a note.
fn instructions(style: &Style, entry: &Entry, cx: &mut Cx<'_>) -> Option<Draft> {
    if !cx.is_own(entry) {
        cx.lose_extras(entry);
    }
    let text = spoken_instructions(entry, cx)?;
    cx.lose(entry, None, "system role", "instructions in the middle are sent as a user's text");
    Some(Draft::ours(Role::User, (style.text)(&Text::from(format!("{SYSTEM_NOTE}{text}").as_str()))))
}

/// The text of instructions in the middle of a conversation; none if it is blank. All else of them is lost.
fn spoken_instructions(entry: &Entry, cx: &mut Cx<'_>) -> Option<String> {
    for block in entry.blocks.iter().filter(|block| !matches!(block.kind, BlockKind::Text(_))) {
        cx.lose(entry, Some(block), "content", "instructions are text there");
    }
    let text = joined_text(entry);
    if !text.trim().is_empty() {
        return Some(text);
    }
    cx.explain(entry, Reason::BlankText, 0, true);
    if !cx.sends() {
        cx.lose(entry, None, "blank text", "the provider refuses it");
    }
    None
}

fn is_blank(block: &Block) -> bool {
    matches!(&block.kind, BlockKind::Text(text) if text.is_blank())
}

/// Adds a message, joined to the one before where the wire wants them to be one.
fn add(style: &Style, drafts: &mut Vec<Draft>, next: Draft, cx: &mut Cx<'_>) {
    let Some(last) = drafts.last_mut() else { return drafts.push(next) };
    let results = last.role == Role::Tool && next.role == Role::Tool;
    let parts = last.continues(&next) && last.shell.is_some() && next.shell.is_some();
    // Messages that came apart and may stay apart do.
    let apart = last.own && next.own && !parts;
    let same_side = (last.role == Role::Assistant) == (next.role == Role::Assistant)
        && last.role != Role::System
        && next.role != Role::System;
    let wanted = match style.joins {
        Joins::Results => results && !apart,
        Joins::ResultsAndReplies => results || (last.role == Role::Assistant && next.role == Role::Assistant),
        Joins::All => same_side,
    };
    let mixed = style.has(Habit::ResultsAlone) && (last.role == Role::Tool) != (next.role == Role::Tool);
    let both_instructions = cx.sends() && last.role == Role::System && next.role == Role::System;
    if both_instructions && !last.blocks.is_empty() && !next.blocks.is_empty() {
        return last.join(next);
    }
    let join =
        if cx.sends() || !apart { (wanted || parts) && !(mixed && (cx.sends() || !parts)) } else { false };
    if !join {
        return drafts.push(next);
    }
    if let (false, Some(_), Some(shell)) = (parts, &last.shell, &next.shell) {
        cx.lose_unknown(Raw::trusted(shell), &|_| String::new(), |key| key == "role" || key == style.key);
    }
    last.join(next);
}

fn print(style: &Style, mut draft: Draft, cx: &Cx<'_>) -> String {
    if !draft.whole {
        draft.reorder(cx.sends() && draft.blocks.iter().any(|slot| slot.is_result));
    }
    if style.has(Habit::CallsLast) && !draft.whole && (cx.sends() || !draft.own) {
        draft.blocks.sort_by_key(|slot| slot.is_call);
    }
    let role = match draft.role {
        Role::Assistant => style.assistant,
        Role::System => "system",
        Role::User | Role::Tool => "user",
    };
    if let (true, true, [only]) = (style.has(Habit::PlainText), draft.plain, draft.blocks.as_slice())
        && let Some(text) = Raw::trusted(&only.json).get("text")
    {
        return format!("{{\"role\":\"{role}\",\"{}\":{}}}", style.key, text.text());
    }
    draft.print(role, style.key)
}
