//! One call: exactly what was sent, what changed since the call before, how far the provider's cache had it, whether its
//! provider's rules hold, what it used.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use scrollback_core::json;
use scrollback_core::model::ModelName;
use scrollback_core::stream::Assembler;
use scrollback_core::wire::Wire;
use scrollback_core::wire::check::{CheckOptions, Strictness, Violation, check};
use scrollback_store::{Conversation, Sent};

use super::cache::{byte, culprit_class, sentence};
use super::cache_account::{CallAccount, PromptPart, account, read_until};
use super::cache_cause::{Explainer, Explanation, with_inherited};
use super::conversation::reveal;
use super::diff::{self, DiffLine, DiffSide};
use super::long_text::{TextQuery, long_text};
use super::page::{self, NavItem, coded};
use super::panel;
use super::render::folded_json;
use super::session_row::page_title;
use super::text::{Eyes, dollars, lasting, number, plural, said};
use super::timeline::indented;
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;
use crate::known_calls::{self, is_reported};
use crate::usage::{self, Spent};
use crate::visibility::CallVisibility;

/// Most characters of a body shown on the page; the rest is a click away.
const SHOWN: usize = 60_000;
/// Most differing messages listed.
const LINES: usize = 200;

pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Response {
    viewer.answer(made(&viewer, &id).await)
}

async fn made(viewer: &Viewer, id: &str) -> Result<PageContent, HttpProblem> {
    let (store, tenant) = (viewer.store(), viewer.tenant());
    let call = known_calls::call(&viewer.app, tenant, id).await?;
    let conversation = store.conversation(tenant, &call.conversation).await?;
    let session = conversation.session.clone();
    let name = page_title(viewer, &conversation).await?;
    let fared = fared(viewer, &conversation, &call).await?;
    let calls = known_calls::known_calls(&viewer.app, &conversation).await?;
    let place = calls.iter().position(|other| other.id == call.id).unwrap_or(0);
    let before = match place.checked_sub(1).and_then(|before| calls.get(before)) {
        Some(before) => Some(known_calls::call(&viewer.app, tenant, &before.id).await?),
        None => None,
    };
    let sight = crate::recorded_calls::sight(&viewer.app, tenant, &call).await?;
    let neighbour = |place: Option<usize>| {
        place.and_then(|place| calls.get(place)).map(|call| format!("/lens/calls/{}", coded(&call.id)))
    };
    let title = format!("Call {} of {}", place + 1, calls.len());
    let compare = format!("/lens/simulate?conversation={}", conversation.id);
    let conversation = format!("/lens/conversations/{}", call.conversation);
    let is_under_way = call.ended_at.is_none();
    let here = format!("/lens/calls/{}", coded(&call.id));
    let eyes = viewer.eyes();
    let body = html! {
        nav.crumbs aria-label="You are here" { a href="/lens" { "Sessions" } " / " a href=(conversation) { (said(&name)) } " / call" }
        div.head data-fresh="head" {
            h1 { (title) } (page::status(call.status.as_str()))
            nav.pager aria-label="Calls" {
                @if let Some(href) = neighbour(place.checked_sub(1)) { a.button rel="prev" href=(href) { "‹ Call before" } }
                @if let Some(href) = neighbour(Some(place + 1)) { a.button rel="next" href=(href) { "Next call ›" } }
                a.button href=(format!("{conversation}?call={}", place + 1)) { "What it saw of the record" }
                a.button href=(format!("/lens/sessions/{session}/cache")) { "Cost and cache" }
                a.button data-key="c" href=(compare) { "Compare" }
            }
        }
        div data-fresh=[is_under_way.then_some("call")] {
        section.card aria-label="In short" { div.in { dl.facts { (facts(&call)) (attempts(&calls, place)) (reveal(viewer, &here))
            @if !is_reported(&call) { div { dt { "As JSON" } dd { a href=(format!("/api/calls/{}", coded(&call.id))) { "the row" } " " button.copy type="button" data-copy=(curl(viewer, &call)) data-what="Command" { "copy curl" } } } }
        } } }
        (fared)
        (held(&call, &sight, &conversation, eyes))
        @if is_reported(&call) { p.note { "This call is known from an imported transcript: what it used is as the transcript reports it, and the bytes that were sent are not in it." } } @else {
        (rules(&call))
        (difference(before.as_ref(), &call, eyes))
        (bytes(&BodyPart::Request, &call, eyes, &here))
        (bytes(&BodyPart::Response, &call, eyes, &here))
        }
        }
    };
    let live = Some(format!("/api/events?conversation={}", call.conversation));
    Ok(PageContent { title, place: NavItem::Sessions, live, body })
}

fn facts(call: &Sent) -> Markup {
    let spent = Spent::of(call);
    let bytes = call.request.as_ref().map_or(0, Vec::len);
    html! {
        div { dt { "Model" } dd { (said(&call.model)) } }
        div { dt { "Wire" } dd { (said(&call.wire)) } }
        @if !is_reported(call) { div { dt { "Managers" } dd { code { (said(&crate::recorded_calls::spelled(&call.managers))) } } } }
        div { dt { "Saw the record below" } dd { "#" (call.upto) } }
        @if bytes > 0 { div { dt { "Bytes sent" } dd { (number(bytes as u64)) } } }
        @if let Some(spent) = spent {
            (panel::input(call, &spent))
            div { dt { "Read from cache" } dd { (number(spent.cache_read)) } }
            @if spent.cache_write > 0 { div { dt { "Written to cache" } dd { (number(spent.cache_write)) @if spent.cache_write_1h > 0 { small { " · " (number(spent.cache_write_1h)) " of it for an hour, which costs more" } } } } }
            div { dt { "Output tokens" } dd { (number(spent.output)) } }
            div { dt { "Cost" } dd { @match spent.cost_usd { Some(cost) => (dollars(cost)), None => span.soft { "not known" } } } }
        }
        div { dt { "Sent at" } dd { (page::time(call.started_at)) } }
        div { dt { "Took" } dd { @match call.ended_at { Some(ended) => (lasting(ended.0 - call.started_at.0)), None => span.soft { "under way" } } } }
        @if let Some(first) = spent.and_then(|spent| spent.first_byte_ms) { div { dt { "First byte after" } dd { (lasting(i64::try_from(first).unwrap_or(i64::MAX))) } } }
        @if let Some(run) = &call.run { div { dt { "Run" } dd { a href=(format!("/lens/runs/{}", coded(run))) { (said(run)) } @if let Some(step) = &call.step { " " code { (said(step)) } } } } }
        @if let Some(epoch) = call.epoch { div { dt { "Epoch" } dd { (epoch) } } }
    }
}

/// What the request held of the record, and how many tokens that is.
fn held(call: &Sent, sight: &Result<CallVisibility, String>, conversation: &str, eyes: Eyes<'_>) -> Markup {
    let tokens = usage::request_tokens(call);
    let managers = crate::recorded_calls::spelled(&call.managers);
    match sight {
        Ok(sight) => panel::saw(sight, tokens, conversation, &managers, call.upto, eyes),
        Err(why) => html! {
            section.card aria-label="What it saw" { header { h2 { "What it saw" } } div.in {
                @if let Some(tokens) = &tokens { dl.facts { (panel::request_tokens(tokens)) } }
                p { "The request is not kept any more, and the call cannot be repeated: " (said(why)) }
            } }
        },
    }
}

/// Whether the provider's rules hold, as the check sees it.
fn rules(call: &Sent) -> Markup {
    let found = || -> Option<Vec<Violation>> {
        let wire = Wire::named(&call.wire)?;
        let body = json::check_bytes(call.request.as_deref()?).ok()?;
        let model = ModelName::parse(&call.model).ok();
        Some(check(wire, body, CheckOptions { model: model.as_ref(), ..CheckOptions::default() }))
    };
    let found = found();
    html! {
        section.card aria-label="Validity" {
            header { h2 { "Validity" } span.soft.small { "by the rules of " (said(&call.wire)) } }
            @match found {
                None => p.in { "There is no request to check." },
                Some(violations) if violations.is_empty() => p.in { span.chip.good { "valid" } " No rule is broken." },
                Some(violations) => div.scroll { table.cards {
                    thead { tr { th scope="col" { "Rule" } th scope="col" { "Where" } th scope="col" { "What" } th scope="col" { "Then" } } }
                    tbody { @for one in violations.iter().take(100) { tr {
                        td { span.chip.(if one.is_fatal(Strictness::Lenient) { "bad" } else { "warn" }) { (one.rule) } }
                        td data-l="Where" { code { (said(&one.path)) } }
                        td { (said(&one.message)) }
                        td data-l="Then" { @if one.is_fatal(Strictness::Lenient) { "refused" } @else { "accepted" } }
                    } } }
                } },
            }
        }
    }
}

fn difference(before: Option<&Sent>, call: &Sent, eyes: Eyes<'_>) -> Markup {
    let text = |call: &Sent| call.request.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let Some(before) = before else {
        return html! { section.card aria-label="Difference" { h2 { "Since the call before" } p.in { "This is the first call of the conversation." } } };
    };
    let (Some(old), Some(new)) = (text(before), text(call)) else {
        return html! { section.card aria-label="Difference" { h2 { "Since the call before" } p.in { "One of the two requests is not kept any more." } } };
    };
    let same_wire = before.wire == call.wire;
    let wire = Wire::named(&call.wire).filter(|_| same_wire);
    let read = wire.and_then(|wire| DiffSide::read(wire, &old).zip(DiffSide::read(wire, &new)));
    let Some((old, new)) = read else {
        return html! { section.card aria-label="Difference" { h2 { "Since the call before" } p.in { "The two requests are on different wires." } } };
    };
    let lines = diff::messages(&old.messages, &new.messages);
    let kept = match lines.first() {
        Some(DiffLine::Same(count)) => *count,
        _ => 0,
    };
    let whole = kept == old.messages.len();
    let count = |gone: bool| {
        lines
            .iter()
            .filter(|line| matches!((line, gone), (DiffLine::Gone(..), true) | (DiffLine::New(..), false)))
            .count() as u64
    };
    let fields = diff::fields(&old, &new);
    html! {
        section.card #since aria-label="Difference" {
            header {
                h2 { "Since the call before" }
                @if whole { span.chip.good { "prefix kept" } } @else { span.chip.warn { "prefix cut after " (plural(kept as u64, "message", "messages")) } }
                span.soft.small { (plural(count(false), "message", "messages")) " new, " (number(count(true))) " gone" }
            }
            ul.diff {
                @for line in lines.iter().take(LINES) { (changed(line, eyes)) }
                @for (name, old, new) in &fields {
                    li { span.sign { "~" } code { (eyes.glance(name, 30)) } span {
                        @if let Some(old) = old { span.soft { (eyes.glance(old, 200)) } } @else { span.soft { "absent" } } " → "
                        @if let Some(new) = new { (eyes.glance(new, 200)) } @else { span.soft { "absent" } }
                    } }
                }
                @if lines.len() > LINES { li { span {} span {} span.soft { "and " (lines.len() - LINES) " more" } } }
            }
        }
    }
}

fn changed(line: &DiffLine<'_>, eyes: Eyes<'_>) -> Markup {
    let (class, sign, at, text) = match line {
        DiffLine::Same(count) => {
            return html! { li.same { span.sign { "=" } span {} span { (plural(*count as u64, "message", "messages")) " the same, byte for byte" } } };
        }
        DiffLine::Gone(at, text) => ("gone", "−", at, text),
        DiffLine::New(at, text) => ("new", "+", at, text),
    };
    let word = if class == "gone" { "left out" } else { "added" };
    html! {
        li.(class) {
            span.sign aria-hidden="true" { (sign) }
            span.mono { span.out { (word) " " } "message " (at) }
            @if text.len() > 400 {
                details { summary { (eyes.glance(text, 160)) } (eyes.long(&indented(text), "mono", "#what-was-sent")) }
            } @else { code { (eyes.said(text)) } }
        }
    }
}

/// The two bodies of a call.
enum BodyPart {
    Request,
    Response,
}

impl BodyPart {
    /// The part by its name in addresses.
    fn named(name: &str) -> Option<Self> {
        match name {
            "request" => Some(BodyPart::Request),
            "response" => Some(BodyPart::Response),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            BodyPart::Request => "request",
            BodyPart::Response => "response",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            BodyPart::Request => "What was sent",
            BodyPart::Response => "What came back",
        }
    }

    fn of<'c>(&self, call: &'c Sent) -> Option<&'c [u8]> {
        match self {
            BodyPart::Request => call.request.as_deref(),
            BodyPart::Response => call.response.as_deref(),
        }
    }

    fn nothing(&self) -> &'static str {
        match self {
            BodyPart::Request => "The request was erased with what it said, or was never kept.",
            BodyPart::Response => "Nothing came back, or not yet.",
        }
    }
}

fn bytes(part: &BodyPart, call: &Sent, eyes: Eyes<'_>, here: &str) -> Markup {
    let text = part.of(call).map(String::from_utf8_lossy);
    let whole = format!("{here}/{}", part.name());
    let title = part.title();
    html! {
        section.card id=(title.to_lowercase().replace(' ', "-")) aria-label=(title) {
            header { h2 { (title) } @if let Some(text) = &text { span.soft.small { (number(text.len() as u64)) " bytes, as they were; secrets are hidden unless you asked" } a.small href=(whole) { "search in it" } } }
            div.in { @match &text {
                None => p { (part.nothing()) },
                Some(text) => {
                    @let seen = eyes.see(text);
                    @let cut = seen.char_indices().nth(SHOWN).map(|(at, _)| at);
                    @let message = put_together(&call.wire, text);
                    @let folds = folded_json(eyes, message.as_deref().unwrap_or(text), &whole);
                    @if message.is_some() { p.small.soft { "The reply came as a stream of events; this is the message they add up to." } }
                    @if let Some(folds) = &folds { (folds) }
                    details.raw-bytes open[folds.is_none()] { summary { "Raw bytes" }
                    div.raw tabindex="0" role="region" aria-label=(title) { pre.said dir="auto" { (said(seen.get(..cut.unwrap_or(seen.len())).unwrap_or(&seen))) @if cut.is_some() { "…" } } } }
                    @if cut.is_some() { p.small { "The first " (number(SHOWN as u64)) " characters. " a href=(whole) { "All of it" } } }
                }
            } }
        }
    }
}

/// The message that a stream of events adds up to; none if the reply came in one piece.
fn put_together(wire: &str, text: &str) -> Option<String> {
    let begins = text.trim_start();
    if !(begins.starts_with("data:") || begins.starts_with("event:") || begins.starts_with(':')) {
        return None;
    }
    let mut assembler = Assembler::new(Wire::named(wire)?).ok()?;
    assembler.feed(text.as_bytes());
    assembler.finish().raw
}

/// All of what was sent or came back, page by page, with a search in it.
pub(crate) async fn body(
    viewer: Viewer,
    Path((id, part)): Path<(String, String)>,
    Query(wish): Query<TextQuery>,
) -> Response {
    viewer.answer(whole_body(&viewer, &id, &part, &wish).await)
}

async fn whole_body(
    viewer: &Viewer,
    id: &str,
    part: &str,
    wish: &TextQuery,
) -> Result<PageContent, HttpProblem> {
    let part = BodyPart::named(part).ok_or_else(|| HttpProblem::not_found("part of a call"))?;
    let call = known_calls::call(&viewer.app, viewer.tenant(), id).await?;
    let bytes = part.of(&call).ok_or_else(|| HttpProblem::not_found("body of this call"))?;
    let text = String::from_utf8_lossy(bytes);
    let here = format!("/lens/calls/{}", coded(&call.id));
    let body = html! {
        nav.crumbs aria-label="You are here" { a href="/lens" { "Sessions" } " / " a href=(here) { "call" } " / " (part.name()) }
        div.head { h1 { (part.title()) } span.soft { (number(bytes.len() as u64)) " bytes" } }
        (long_text(&viewer.eyes().see(&text), wish, &format!("{here}/{}", part.name())))
    };
    Ok(PageContent { title: part.title().into(), place: NavItem::Sessions, live: None, body })
}

/// The command that prints a call, with the reader's own key where the server requires one.
fn curl(viewer: &Viewer, call: &Sent) -> String {
    let key = if viewer.caller.key.is_some() { " -H \"Authorization: Bearer $SCROLLBACK_KEY\"" } else { "" };
    format!("curl{key} http://{}/api/calls/{}", viewer.app.address, coded(&call.id))
}

/// The other attempts at the same request.
fn attempts(calls: &[Sent], place: usize) -> Markup {
    let Some(call) = calls.get(place) else { return html! {} };
    let of_it = |other: &Sent| other.upto == call.upto && other.evaluation == call.evaluation;
    let mut first = place;
    while let (Some(one), Some(next)) = (first.checked_sub(1).and_then(|at| calls.get(at)), calls.get(first))
        && of_it(one)
        && one.attempt + 1 == next.attempt
    {
        first -= 1;
    }
    let mut all: Vec<&Sent> = Vec::new();
    for other in calls.iter().skip(first) {
        let follows = all.last().is_none_or(|last| last.attempt + 1 == other.attempt);
        if !of_it(other) || !follows {
            break;
        }
        all.push(other);
    }
    html! { @if all.len() > 1 {
        div { dt { "Attempts at this request" } dd { @for one in &all {
            @if one.id == call.id { strong { "attempt " (one.attempt) } } @else { a href=(format!("/lens/calls/{}", coded(&one.id))) { "attempt " (one.attempt) } }
            " " (page::status(one.status.as_str())) " "
        } } }
    } @else if call.attempt > 1 { div { dt { "Attempt" } dd { (call.attempt) } } } }
}

/// How far the prompt was read from the provider's cache, the first byte that differs from the call before, and who put it there.
async fn fared(viewer: &Viewer, conversation: &Conversation, call: &Sent) -> Result<Markup, HttpProblem> {
    let (mut calls, inherited) = with_inherited(viewer, conversation).await?;
    let Some(place) = calls.iter().position(|other| other.id == call.id) else { return Ok(html! {}) };
    calls.truncate(place + 1);
    let told = account(&calls, |model: &ModelName| viewer.app.catalog.prices(model));
    let Some(account) = told.last().filter(|account| account.spent.is_some_and(|spent| spent.input > 0))
    else {
        return Ok(html! {});
    };
    let before = account.before.and_then(|at| Some((at, calls.get(at)?)));
    let mut why = None;
    if let Some((_, before)) = before {
        let found = Explainer::default().explain(viewer, &conversation.id, account, before).await?;
        why = Some(found).filter(|found| account.is_break() || found.cause.place.is_some());
    }
    let before = before.map(|(at, before)| {
        let name = match at.checked_sub(inherited) {
            Some(own) => format!("call {}", own + 1),
            None => "a call before the fork".into(),
        };
        (name, format!("/lens/calls/{}", coded(&before.id)))
    });
    Ok(cache_card(account, call, before.as_ref(), why.as_ref(), viewer.eyes()))
}

fn cache_card(
    account: &CallAccount<'_>,
    call: &Sent,
    before: Option<&(String, String)>,
    why: Option<&Explanation>,
    eyes: Eyes<'_>,
) -> Markup {
    let spent = account.spent.unwrap_or_default();
    let text = call.request.as_deref().map(String::from_utf8_lossy);
    let until = text
        .as_ref()
        .zip(Wire::named(&call.wire))
        .and_then(|(text, wire)| read_until(wire, text, spent.cache_read, spent.input));
    let conversation = format!("/lens/conversations/{}", call.conversation);
    html! {
        section.card #cache aria-label="The cache" {
            header {
                h2 { "The cache" }
                @if account.is_break() { span.chip.bad { "the prefix broke" } }
                span.soft.small { "how much of the prompt the provider had, and where it ended" }
            }
            div.in.stack {
                dl.facts {
                    div { dt { "Read from the cache" } dd { (number(spent.cache_read)) small { " of " (number(spent.input)) " tokens" } } }
                    @if let Some((name, href)) = before { div { dt { "Expected, after " (name) } dd { a href=(href) { (number(account.expected)) } small { " tokens" } } } }
                    @if account.is_break() { div { dt { "Read again at full price" } dd { (number(account.lost)) small { " tokens" @if let Some(extra) = account.extra_usd { ", " (dollars(extra)) " more" } } } } }
                    @if before.is_some() { div { dt { "Cache not used for" } dd { (lasting(account.idle_ms)) } } }
                }
                @if let Some((part, at)) = until {
                    p { "The part that was read ends about at byte " strong { (number(at as u64)) } ", " (place_of(part)) "." span.soft.small { " Estimated: providers report tokens, not bytes." } }
                }
                @match why {
                    Some(why) => {
                        p {
                            @if account.is_break() { span.chip.(culprit_class(why.cause.culprit)) { (why.cause.culprit.as_str()) } " " }
                            (sentence(&why.cause.what))
                            @if let Some(at) = why.cause.position { " " a href=(format!("{conversation}?at={at}#e{at}")) { "#" (at) } }
                        }
                        @match (&why.cause.place, why.about) {
                            (Some(place), _) => (byte(place, "", eyes)),
                            (None, Some(0)) => p.small { "What was read is the instructions and the tools, as far as the tokens tell." },
                            (None, Some(about)) => p.small { "What was read ended about at " a href=(format!("{conversation}?at={about}#e{about}")) { "#" (about) } " (estimated from the tokens)." },
                            (None, None) => {},
                        }
                    },
                    None if account.other_model => p { "The first call of this model here: nothing was cached for it." },
                    None => { @match before {
                        Some((name, href)) => p { span.chip.good { "kept" } " The cache had what it should have had after " a href=(href) { (name) } "." },
                        None => p { "The first call: nothing was cached yet." },
                    } },
                }
            }
        }
    }
}

/// A part of a request in words.
fn place_of(part: PromptPart) -> String {
    match part {
        PromptPart::Tools => "in the tools".into(),
        PromptPart::Instructions => "in the instructions".into(),
        PromptPart::Message(number) => format!("in message {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streamed_reply_is_shown_as_the_message_it_adds_up_to() {
        let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Good \"}}]}\n\n\
                      data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"day\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let message = put_together("openai-chat", stream);
        assert_eq!(message.as_deref(), Some(r#"{"role":"assistant","content":"Good day"}"#));
        assert_eq!(put_together("openai-chat", r#"{"choices":[]}"#), None);
        assert_eq!(put_together("bedrock", stream), None);
    }
}
