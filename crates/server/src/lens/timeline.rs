//! The record as a readable timeline: a call and its results folded into one, reasoning and long texts behind a click.

use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};
use scrollback_core::identity::words_of_person;
use scrollback_core::recall::{Handle, Tail};
use scrollback_core::stream::StopReason;
use scrollback_core::{
    BlockKind, Decision, Entry, LedgerPart, MediaKind, MediaSource, PlanItem, Role, Slot, ToolCall,
};
use scrollback_store::{Conversation, StoredEntry};

use super::media::{is_drawn, media_of};
use super::page;
use super::render::{action, exit_code, speech};
use super::session_tree::Helper;
use super::text::{Eyes, lasting, number, plural, said, short};
use crate::api::shapes::reasoning;
use crate::visibility::{CallVisibility, Fate, Why};

/// One thing on the timeline, and the results that belong to it.
pub(crate) struct TimelineItem<'a> {
    pub(crate) placed: &'a StoredEntry,
    /// Results of its calls that stand on the same page, by call id.
    results: Vec<&'a StoredEntry>,
}

/// Puts results to their calls, as far as both are on the page.
pub(crate) fn fold(places: &[StoredEntry]) -> Vec<TimelineItem<'_>> {
    let mut items: Vec<TimelineItem<'_>> = Vec::new();
    let mut claimed: HashMap<String, usize> = HashMap::new();
    for placed in places {
        if let Slot::Message(entry) = &placed.slot {
            let caller = entry.tool_call_id().and_then(|id| claimed.get(&id).copied());
            if let Some(item) = caller.and_then(|at| items.get_mut(at)) {
                item.results.push(placed);
                continue;
            }
            let at = items.len();
            claimed.extend(
                entry
                    .open_calls()
                    .filter_map(|call| Some((call.call_id.as_ref()?.as_str().into_owned(), at))),
            );
        }
        items.push(TimelineItem { placed, results: Vec::new() });
    }
    items
}

/// What the timeline needs to know about the page it is on.
pub(crate) struct TimelineContext<'a> {
    /// The address of the conversation.
    pub(crate) href: String,
    pub(crate) eyes: Eyes<'a>,
    /// What the chosen call saw, if one is chosen.
    pub(crate) sight: Option<&'a CallVisibility>,
    /// Tokens by position, where they were counted.
    pub(crate) tokens: &'a BTreeMap<u64, u64>,
    /// The calls that were made, by the position their replies got: numbered from 0.
    pub(crate) calls: BTreeMap<u64, usize>,
    /// The sub-agents that were started from here.
    pub(crate) helpers: &'a [Helper],
}

impl TimelineContext<'_> {
    fn fate(&self, position: u64) -> Option<&Fate> {
        self.sight.map(|sight| sight.fate(position))
    }

    fn fate_class(&self, position: u64) -> &'static str {
        self.fate(position).map_or("", |fate| match fate {
            Fate::Kept | Fate::MarksMoved | Fate::Held => "fate-kept",
            Fate::Changed(_) => "fate-changed",
            Fate::Dropped(_) => "fate-dropped",
            Fate::Later => "fate-later",
        })
    }

    fn fate_label(&self, position: u64) -> Markup {
        html! { @if let Some(fate) = self.fate(position) { (label(fate)) } }
    }

    fn whole(&self, position: u64) -> String {
        format!("{}/entries/{position}", self.href)
    }

    /// One thing on the timeline.
    pub(crate) fn item(&self, item: &TimelineItem<'_>) -> Markup {
        let at = item.placed.position;
        match &item.placed.slot {
            Slot::Message(entry) => html! {
                li.entry.(self.fate_class(at)) id=(format!("e{at}")) {
                    a.at href=(format!("{}#e{at}", self.here(at))) { "#" (at) }
                    div {
                        (self.who(at, entry))
                        div.body { (self.blocks(at, entry)) (self.calls(at, entry, &item.results)) }
                    }
                }
            },
            Slot::Decision(decision, when) => html! {
                li.entry.decision-row id=(format!("e{at}")) {
                    span.at { "#" (at) }
                    div {
                        div.who { span.role.decision { (kind(decision)) } (page::time(*when)) }
                        (self.decision(decision))
                    }
                }
            },
            Slot::Erased(tombstone) => html! {
                li.entry.(self.fate_class(at)) id=(format!("e{at}")) {
                    span.at { "#" (at) }
                    div {
                        div.who { (page::role(tombstone.role)) (page::time(tombstone.created_at)) span.end { (self.fate_label(at)) } }
                        p.soft { "Erased. Its place and its hash stay." }
                    }
                }
            },
        }
    }

    fn here(&self, at: u64) -> String {
        format!("{}?at={at}", self.href)
    }

    fn who(&self, at: u64, entry: &Entry) -> Markup {
        let meta = entry.meta.as_deref();
        html! {
            div.who {
                (page::role(entry.role))
                @if let Some(author) = &entry.author { span { (self.eyes.said(&author.as_str())) } }
                (page::time(entry.created_at))
                @if let Some(tokens) = self.tokens.get(&at) { span.nowrap { (short(*tokens)) " tokens" } }
                @if let Some(model) = meta.and_then(|meta| meta.model_served.as_ref().or(meta.model_asked.as_ref())) {
                    span { (said(model)) }
                }
                @if let Some(stop) = meta.and_then(|meta| meta.stop.as_ref()).filter(|stop| **stop != StopReason::Stop) {
                    span { "stopped: " (said(stop.as_str())) }
                }
                @if entry.status() != scrollback_core::Status::Complete { span.chip.bad { (status(entry.status())) } }
                @if let (Role::Assistant, Some(call)) = (entry.role, self.calls.get(&at)) {
                    a href=(format!("{}?call={}", self.href, call + 1)) { "call " (call + 1) }
                }
                span.end {
                    (self.fate_label(at))
                    @if let Some(handle) = self.handle(at) { button.copy type="button" data-copy=(handle) data-what="Handle" title=(handle) { "handle" } }
                    button.copy type="button" data-copy-text=(format!("e{at}")) { "copy" }
                }
            }
        }
    }

    /// The handle of a place: `sb:…#412`.
    fn handle(&self, at: u64) -> Option<String> {
        let id = self.href.rsplit('/').next()?;
        Some(Handle::at(Tail::parse(id)?, at).to_string())
    }

    fn blocks(&self, at: u64, entry: &Entry) -> Markup {
        let thought = reasoning(entry);
        let hidden = entry.blocks.iter().any(|block| matches!(&block.kind, BlockKind::Reasoning(_)))
            && thought.is_none();
        html! {
            @if let Some(thought) = thought {
                details.fold.thought id=(format!("r{at}")) {
                    summary { span.soft { "reasoning" } span { (self.eyes.glance(&thought, 90)) } }
                    div.in { (self.eyes.long(&thought, "text", &self.whole(at))) }
                }
            } @else if hidden {
                p.soft.small { "Reasoning that only its provider can read." }
            }
            @for block in &entry.blocks { @match &block.kind {
                BlockKind::Text(text) | BlockKind::Refusal(text) => {
                    @if !text.as_str().trim().is_empty() { (speech(self.eyes, entry.role, &text.as_str(), &self.whole(at))) }
                }
                BlockKind::ToolResult(_) => (self.result(at, entry)),
                BlockKind::Media(media) => (self.media(at, entry, media)),
                BlockKind::Compaction(raw) | BlockKind::Opaque(raw) => {
                    details.fold { summary { span.soft { "kept as it came" } code { (self.eyes.glance(raw.as_str(), 60)) } }
                        div.in { (self.eyes.long(raw.as_str(), "mono", &self.whole(at))) } }
                }
                BlockKind::Reasoning(_) | BlockKind::ToolCall(_) => {}
            } }
        }
    }

    /// The pictures and files of a tool's result.
    fn media_of_result(&self, at: u64, entry: &Entry) -> Markup {
        html! { @for media in media_of(entry) { (self.media(at, entry, media)) } }
    }

    /// What a picture or file is, and the picture where its bytes were said. Nothing said in a conversation is fetched from elsewhere.
    fn media(&self, at: u64, entry: &Entry, media: &scrollback_core::Media) -> Markup {
        let place = media_of(entry).iter().position(|one| std::ptr::eq(*one, media));
        let drawn =
            place.filter(|_| is_drawn(media)).map(|place| format!("{}/media/{place}", self.whole(at)));
        let kind = match media.kind {
            MediaKind::Image => "image",
            MediaKind::Audio => "audio",
            MediaKind::Video => "video",
            MediaKind::Document => "document",
        };
        html! {
            @if let Some(href) = &drawn { a.shot href=(href) { img src=(href) alt=(format!("Picture said at #{at}")) loading="lazy"; } }
            p.small { span.chip { (kind) } " "
                @if let Some(mime) = &media.mime { (said(mime)) " " }
                @if let Some((width, height)) = media.size { (width) " × " (height) " " }
                @if let Some(name) = &media.name { (self.eyes.said(&name.as_str())) " " }
                @match &media.source {
                    Some(MediaSource::Url(url)) => { span.soft { "not fetched: " } code { (self.eyes.glance(&url.as_str(), 120)) } }
                    Some(MediaSource::Inline(bytes)) => span.soft { (number(bytes.as_str().len() as u64)) " characters of data" },
                    Some(MediaSource::File(id)) => code { (self.eyes.glance(&id.as_str(), 60)) },
                    Some(MediaSource::Text(text)) => span.soft { (self.eyes.glance(&text.as_str(), 90)) },
                    None => {}
                }
            }
        }
    }

    /// The calls of an entry, each with its result.
    fn calls(&self, at: u64, entry: &Entry, results: &[&StoredEntry]) -> Markup {
        let mut left: Vec<&StoredEntry> = results.to_vec();
        html! {
            @for (number, call) in entry.tool_calls().enumerate() {
                @let id = call.call_id.as_ref().map(|id| id.as_str().into_owned());
                @let place = left.iter().position(|placed| answers(placed, id.as_deref()));
                @let result = place.map(|place| left.remove(place));
                (self.call(at, number, entry, call, result))
            }
            @for extra in left { @if let Slot::Message(answer) = &extra.slot { (self.result(extra.position, answer)) } }
        }
    }

    fn call(
        &self,
        at: u64,
        number: usize,
        caller: &Entry,
        call: &ToolCall,
        result: Option<&StoredEntry>,
    ) -> Markup {
        let (name, arguments) = (call.name.as_str(), call.arguments.as_str());
        let answer = result.and_then(|placed| match &placed.slot {
            Slot::Message(entry) => Some((placed.position, entry)),
            _ => None,
        });
        let class = answer.map_or("", |(at, _)| self.fate_class(at));
        let action = action(&name, &arguments);
        html! {
            details.fold.result.(class) id=(format!("c{at}-{number}")) {
                summary {
                    strong { (self.eyes.glance(&name, 60)) }
                    @match &action {
                        Some(action) => span.does { (action.glance(self.eyes)) },
                        None => code.soft { (self.eyes.glance(&arguments, 80)) },
                    }
                    (self.outcome(call, answer))
                    @for helper in self.started(at, number) { (helper.chip()) }
                }
                div.in.stack {
                    @for helper in self.started(at, number) { (helper.line()) }
                    @match &action {
                        Some(action) => {
                            (action.show(self.eyes, &self.whole(at)))
                            details.fold { summary { span.soft { "arguments as they came" } } div.in { (self.arguments(at, &arguments)) } }
                        }
                        None => div { div.who { span.soft { "arguments" } } (self.arguments(at, &arguments)) },
                    }
                    @if let Some((at, entry)) = answer {
                        div id=(format!("e{at}")) {
                            div.who { a.at href=(format!("{}#e{at}", self.here(at))) { "#" (at) } span.soft { "result after " (lasting(entry.created_at.0 - caller.created_at.0)) }
                                @if let Some(tokens) = self.tokens.get(&at) { span.nowrap { (short(*tokens)) " tokens" } } }
                            (self.eyes.long(&entry.content().unwrap_or_default(), "mono", &self.whole(at)))
                            (self.media_of_result(at, entry))
                            (self.shown_instead(at))
                        }
                    }
                }
            }
        }
    }

    /// The sub-agents that a call started.
    fn started(&self, at: u64, number: usize) -> impl Iterator<Item = &Helper> {
        self.helpers.iter().filter(move |helper| helper.started == Some((at, number)))
    }

    /// Arguments as they came, JSON over several lines.
    fn arguments(&self, at: u64, arguments: &str) -> Markup {
        self.eyes.long(&indented(arguments), "mono", &self.whole(at))
    }

    /// The result of a call, in a few words.
    fn outcome(&self, call: &ToolCall, answer: Option<(u64, &std::sync::Arc<Entry>)>) -> Markup {
        html! {
            @if let Some((at, entry)) = answer {
                @let said = entry.content().unwrap_or_default();
                @match exit_code(&said) {
                    None => {}
                    Some(0) => span.chip.good { "exit 0" },
                    Some(code) => span.chip.bad { "exit " (code) },
                }
                span.soft { "→ " (self.eyes.glance(&said, 60)) }
                @if entry.tool_result().and_then(|result| result.is_error) == Some(true) { span.chip.bad { "error" } }
                (self.fate_label(at))
            } @else if call.style.is_client() {
                span.chip.warn { "no result on this page" }
            } @else {
                span.chip { "run by the provider" }
            }
        }
    }

    /// A result whose call is not on this page.
    fn result(&self, at: u64, entry: &Entry) -> Markup {
        let id = entry.tool_call_id().unwrap_or_default();
        html! {
            details.fold.result.(self.fate_class(at)) id=(format!("t{at}")) {
                summary { span.soft { "result of" } code { (self.eyes.glance(&id, 40)) } span.soft { (self.eyes.glance(&entry.content().unwrap_or_default(), 80)) } }
                div.in { (self.eyes.long(&entry.content().unwrap_or_default(), "mono", &self.whole(at))) (self.media_of_result(at, entry)) (self.shown_instead(at)) }
            }
        }
    }

    /// What the chosen call was shown in place of an entry, where it was rewritten.
    fn shown_instead(&self, at: u64) -> Markup {
        let text = self.sight.and_then(|sight| sight.rewritten.get(&at));
        html! { @if let Some(text) = text {
            div.more { div.who { span.fate.changed { "as this call saw it" } } (self.eyes.long(text, "mono", &self.whole(at))) }
        } }
    }

    fn decision(&self, decision: &Decision) -> Markup {
        html! { @match decision {
            Decision::Cut { before, held, by, .. } => p {
                "Everything before " a href=(format!("{}?at={before}#e{before}", self.href)) { "#" (before) } " is left out from here on, by " code { (said(by)) }
                @if let Some(held) = held { "; the task at #" (held) " stays" } "."
            },
            Decision::Plan { front, tail, limit, by, .. } => {
                p {
                    "Views begin with " (plural(front.iter().filter_map(PlanItem::entry).count() as u64, "entry", "entries"))
                    " and show everything from #" (tail) " on, within " (number(*limit)) " tokens, planned by " code { (said(by)) } "."
                }
                @for item in front {
                    @if let PlanItem::Ledger { ledger } = item { (self.eyes.long(&ledger_text(ledger), "mono", "#")) }
                }
            }
            Decision::Summary { covers, text, by, .. } => {
                p { "Stands for " (plural(covers.iter().map(|(first, last)| last - first + 1).sum(), "entry", "entries")) ", written by " (said(by)) ":" }
                (self.eyes.long(text, "text", "#"))
            }
            Decision::Pin { positions } | Decision::Unpin { positions } => p { (places(positions)) },
            Decision::Clear { positions, placeholder } => p { (places(positions)) " show " q { (self.eyes.said(placeholder)) } "." },
            Decision::Truncate { positions, max_length, .. } => p { (places(positions)) " are shortened to " (number(*max_length as u64)) " characters." },
            Decision::Lead { positions } => p { "The system entries are now " (places(positions)) "." },
            Decision::SummaryFailed { range, reason } => p { "No summary of #" (range.0) "–#" (range.1) ": " (self.eyes.said(reason)) },
            Decision::Interrupted { call_ids } => p { (plural(call_ids.len() as u64, "call", "calls")) " will not be answered." },
            Decision::Echo { position, body, .. } => {
                p { "The client sent #" (position) " back in a version of its own:" }
                (self.eyes.long(body, "mono", "#"))
            }
            Decision::ProviderEdit { edit, positions } => p { (places(positions)) " are cleared by the provider itself (" code { (said(edit)) } ")." },
            Decision::Superseded { positions } => p { (places(positions)) " broke off, and the client asked again." },
            Decision::Turn { scope, entry, .. } => p { "#" (entry) " is a turn of " code { (said(scope)) } "." },
        } }
    }
}

fn answers(placed: &StoredEntry, id: Option<&str>) -> bool {
    matches!(&placed.slot, Slot::Message(entry) if id.is_some() && entry.tool_call_id().as_deref() == id)
}

/// A ledger as it was sent, without its first line.
fn ledger_text(parts: &[LedgerPart]) -> String {
    let lines = parts.iter().flat_map(|part| {
        std::iter::once(part.heading.as_str()).chain(part.lines.iter().map(|(_, _, line)| line.as_str()))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn places(positions: &[u64]) -> Markup {
    let shown: Vec<String> = positions.iter().take(12).map(|at| format!("#{at}")).collect();
    html! { (shown.join(", ")) @if positions.len() > 12 { " and " (positions.len() - 12) " more" } }
}

fn status(status: scrollback_core::Status) -> &'static str {
    match status {
        scrollback_core::Status::Complete => "complete",
        scrollback_core::Status::TruncatedUpstream => "broke off upstream",
        scrollback_core::Status::TruncatedClient => "client went away",
        scrollback_core::Status::Error => "error",
    }
}

/// What kind of decision it is, in a word.
pub(crate) fn kind(decision: &Decision) -> &'static str {
    match decision {
        Decision::Lead { .. } => "new lead",
        Decision::Cut { .. } => "cut",
        Decision::Plan { .. } => "plan",
        Decision::Clear { .. } => "results cleared",
        Decision::Truncate { .. } => "results shortened",
        Decision::Pin { .. } => "pinned",
        Decision::Unpin { .. } => "unpinned",
        Decision::Summary { .. } => "summary",
        Decision::SummaryFailed { .. } => "summary failed",
        Decision::Interrupted { .. } => "interrupted",
        Decision::Echo { .. } => "changed by the client",
        Decision::ProviderEdit { .. } => "cleared by the provider",
        Decision::Superseded { .. } => "asked again",
        Decision::Turn { .. } => "turn",
    }
}

/// What became of an entry, in words.
pub(crate) fn label(fate: &Fate) -> Markup {
    html! { @match fate {
        Fate::Kept => span.fate.kept { "sent" },
        Fate::MarksMoved => span.fate.kept { "sent · cache mark moved" },
        Fate::Held => span.fate.kept { "held by the provider" },
        Fate::Changed(why) => span.fate.changed { "rewritten" (because(why.as_ref())) },
        Fate::Dropped(why) => span.fate.dropped { "left out" (because(why.as_ref())) },
        Fate::Later => span.fate.later { "not yet said" },
    } }
}

fn because(why: Option<&Why>) -> Markup {
    html! { @if let Some(Why { manager, reason }) = why { " · " (said(manager)) " · " (reason) } }
}

/// JSON over several lines, if it is JSON and not too long to be read again.
pub(crate) fn indented(text: &str) -> String {
    if text.len() > 100_000 {
        return text.into();
    }
    let value: Result<serde_json::Value, _> = serde_json::from_str(text);
    value.ok().and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.into())
}

/// What a conversation is called: its title, how it begins, or its recipient; else when it began.
pub(crate) fn title(conversation: &Conversation, first: Option<&str>, eyes: Eyes<'_>) -> String {
    let recipient = conversation.recipient.as_ref().map(|who| format!("with {}", who.as_str()));
    let called = [conversation.title.as_deref(), first, recipient.as_deref()];
    let called = called.into_iter().flatten().map(|text| eyes.brief(text, 90)).find(|text| !text.is_empty());
    called.unwrap_or_else(|| {
        let began = conversation.created_at.to_string();
        format!("Conversation of {}", began.get(..16).unwrap_or(&began).replace('T', " "))
    })
}

/// The first words of the person, without what the client wrapped around them.
pub(crate) fn first_words(places: &[StoredEntry]) -> Option<String> {
    let said = |entry: &Entry| Some(words_of_person(entry)).filter(|words| !words.trim().is_empty());
    places.iter().find_map(|placed| match &placed.slot {
        Slot::Message(entry) if entry.role == Role::User => said(entry),
        _ => None,
    })
}
