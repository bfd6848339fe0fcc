//! What the three wires with block lists share: Anthropic, Gemini and Bedrock put results into user messages, want
//! them together and first, and (each in its way) want the speakers in turn.

use std::sync::Arc;

use super::draft::{Draft, Slot};
use super::{Binding, Cx, LeftOut, OPENING, Rendered, SYSTEM_NOTE, joined_text};
use crate::block::{Block, BlockKind};
use crate::entry::{ContentState, Entry, Role};
use crate::json::{Kind, Raw};
use crate::model::{Line, ModelName};
use crate::text::Text;
use crate::view::{Fidelity, Item, Reason, SUMMARY_HEADING, Source};
use crate::wire::Wire;

/// How one of these wires differs from the others.
pub(super) struct Style {
    /// The key of a message's list of blocks.
    pub(super) key: &'static str,
    /// The word for the model's role.
    pub(super) assistant: &'static str,
    /// A text as a block.
    pub(super) text: fn(&Text) -> String,
    /// A block of another wire, or a changed one of this; none if it cannot be held, which it notes.
    pub(super) block: fn(&Block, &Entry, &mut Cx<'_>) -> Option<String>,
    /// A block of this wire whose content a view changed.
    pub(super) changed: fn(&Block, &Entry) -> Option<String>,
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
    items: &[Item],
    binding: &Binding,
    cx: &mut Cx<'_>,
    rendered: &mut Rendered,
) {
    let mut drafts: Vec<Draft> = Vec::new();
    let unchanged = |item: &Item| cx.is_own(&item.entry) && item.fidelity == Fidelity::AsSaid;
    // Messages that all came on this wire stay apart, so that a whole one need not be taken into blocks.
    let kept = !cx.sends() && items.iter().all(unchanged);
    for (index, item) in items.iter().enumerate() {
        cx.position = match item.source {
            Source::Entry(position) => Some(position),
            _ => None,
        };
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
        cx.note_calls(&item.entry);
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
    rendered.sources = drafts.iter().map(|draft| draft.sources.clone()).collect();
    rendered.messages = drafts.into_iter().map(|draft| print(style, draft, cx)).collect();
}

/// A summary that would come first, as its heading and its text.
fn leading_summary(item: &Item) -> Option<(&'static str, String)> {
    if !matches!(item.source, Source::Summary { .. }) || item.entry.role != Role::Assistant {
        return None;
    }
    let text = item.entry.content()?;
    let rest = text.strip_prefix(SUMMARY_HEADING)?.trim_start_matches('\n').to_string();
    Some((SUMMARY_HEADING.trim_end(), rest))
}

/// Whether a signed summary of the provider's own stands first, which may.
fn starts_with_compaction(items: &[Item], cx: &Cx<'_>) -> bool {
    let entry = items.first().map(|item| &item.entry).filter(|entry| cx.is_own(entry));
    let block = entry.and_then(|entry| entry.blocks.first());
    block.is_some_and(|block| matches!(block.kind, BlockKind::Compaction(_)))
}

/// The message of one entry; none if nothing of it can be held.
fn draft(
    style: &Style,
    item: &Item,
    broken: bool,
    (before, after): (Option<&Draft>, Option<Role>),
    cx: &mut Cx<'_>,
) -> Option<Draft> {
    let entry = &item.entry;
    let own = cx.is_own(entry) && is_message(entry);
    if entry.role == Role::System {
        // A message of instructions stays one where the provider takes it: after a user, before a reply or the end.
        let placed = before.is_some_and(|draft| matches!(draft.role, Role::User | Role::Tool))
            && matches!(after, None | Some(Role::Assistant));
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
    let (mut blank, mut unbound) = (false, false);
    let indexes = entry.origin.part.as_ref().map(|part| part.indexes.as_slice());
    for (number, block) in entry.blocks.iter().enumerate() {
        if broken && own && matches!(block.kind, BlockKind::Reasoning(_)) {
            unbound = true;
            continue;
        }
        if style.has(Habit::RefusesBlank) && (cx.sends() || !own) && is_blank(block) {
            blank = true;
            continue;
        }
        let json = match &block.raw {
            _ if !own => (style.block)(block, entry, cx),
            Some(_) if item.fidelity == Fidelity::Rewritten => (style.changed)(block, entry),
            Some(raw) => Some(crate::json::one_line(raw.raw()).into_owned()),
            None => match &block.kind {
                BlockKind::Text(text) => Some((style.text)(text)),
                _ => None,
            },
        };
        let is_call = matches!(block.kind, BlockKind::ToolCall(_));
        let at = indexes.and_then(|indexes| indexes.get(number).copied()).unwrap_or(number as u32);
        let is_result = matches!(block.kind, BlockKind::ToolResult(_));
        slots.extend(json.map(|json| Slot { at, json, is_result, is_call }));
    }
    if !own && style.has(Habit::CallsLast) {
        slots.sort_by_key(|slot| slot.is_call);
    }
    let whole = own && item.fidelity != Fidelity::Rewritten && !blank && !unbound;
    let left = !slots.is_empty() || (whole && !cx.sends());
    for (happened, reason) in [(unbound, Reason::BoundReasoning), (blank || !left, Reason::BlankText)] {
        if happened {
            explain(entry, reason, !left, cx);
        }
    }
    if !left {
        return None;
    }
    let mut draft = if own { verbatim(entry, slots) } else { Draft::of(entry, slots) };
    (draft.whole, draft.own) = (whole, whole);
    draft.plain = !own && entry.content_state == ContentState::Text && entry.role != Role::Tool;
    Some(draft)
}

/// Whether the entry's own text is a message, and not the value of the field for instructions.
fn is_message(entry: &Entry) -> bool {
    Raw::trusted(&entry.origin.raw).kind() == Kind::Object
}

fn is_whole_message(entry: &Entry) -> bool {
    is_message(entry) && entry.origin.part.is_none()
}

fn verbatim(entry: &Entry, slots: Vec<Slot>) -> Draft {
    let mut draft = Draft::of(entry, slots);
    draft.shell = Some(Arc::clone(&entry.origin.raw));
    (draft.whole, draft.own) = (true, true);
    draft
}

/// Whether a model is known to take instructions in the middle of a conversation.
fn takes_system_messages(model: &ModelName) -> bool {
    model.generation().is_some_and(|generation| generation.line == Line::Claude)
        && !crate::wire::check::refuses_system_messages(model)
}

/// Instructions in the middle of a conversation, where the model takes them.
fn system_message(style: &Style, entry: &Entry, cx: &mut Cx<'_>) -> Option<Draft> {
    cx.lose_extras(entry);
    let text = joined_text(entry);
    if text.trim().is_empty() {
        explain(entry, Reason::BlankText, true, cx);
        return None;
    }
    Some(Draft::ours(Role::System, (style.text)(&Text::from(text.as_str()))))
}

/// Instructions in the middle of a conversation, as a user's text with a note.
fn instructions(style: &Style, entry: &Entry, cx: &mut Cx<'_>) -> Option<Draft> {
    let text = joined_text(entry);
    if text.trim().is_empty() {
        explain(entry, Reason::BlankText, true, cx);
        return None;
    }
    cx.lose(entry, None, "system role", "instructions in the middle are sent as a user's text");
    Some(Draft::ours(Role::User, (style.text)(&Text::from(format!("{SYSTEM_NOTE}{text}").as_str()))))
}

/// Notes in the explanation that the provider would refuse an entry, or part of it.
fn explain(entry: &Entry, reason: Reason, whole: bool, cx: &mut Cx<'_>) {
    if !cx.sends() {
        let what = if reason == Reason::BlankText { "blank text" } else { "reasoning" };
        cx.lose(entry, None, what, "the provider refuses it");
        return;
    }
    if let Some(position) = cx.position
        && cx.left_out.last().is_none_or(|last| last.position != position)
    {
        let chars = entry.chars();
        cx.left_out.push(LeftOut { position, reason, whole, chars: (chars, if whole { 0 } else { chars }) });
    }
}

fn is_blank(block: &Block) -> bool {
    matches!(&block.kind, BlockKind::Text(text) if text.is_blank())
}

/// Adds a message, joined to the one before where the wire wants them to be one.
fn add(style: &Style, drafts: &mut Vec<Draft>, next: Draft, cx: &Cx<'_>) {
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
    let join =
        if cx.sends() || !apart { (wanted || parts) && !(mixed && (cx.sends() || !parts)) } else { false };
    if join { last.join(next) } else { drafts.push(next) }
}

fn print(style: &Style, mut draft: Draft, cx: &Cx<'_>) -> String {
    if !draft.whole {
        draft.reorder(cx.sends() && draft.blocks.iter().any(|slot| slot.is_result));
    }
    if style.has(Habit::CallsLast) && !draft.whole && cx.sends() {
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
