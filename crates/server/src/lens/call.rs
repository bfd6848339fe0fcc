//! One call: exactly what was sent, what changed since the call before, whether its provider's rules hold, what it used.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_core::json;
use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;
use scrollback_core::wire::check::{CheckOptions, Strictness, Violation, check};
use scrollback_store::Sent;

use super::conversation::reveal;
use super::diff::{self, DiffLine, DiffSide};
use super::page::{self, NavItem, coded};
use super::panel;
use super::render::folded_json;
use super::session_row::conversation_title;
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
    let name = conversation_title(viewer, &conversation).await?;
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
    let conversation = format!("/lens/conversations/{}", call.conversation);
    let here = format!("/lens/calls/{}", coded(&call.id));
    let eyes = viewer.eyes();
    let body = html! {
        nav.crumbs aria-label="You are here" { a href="/lens" { "Sessions" } " / " a href=(conversation) { (said(&name)) } " / call" }
        div.head {
            h1 { (title) } (page::status(call.status.as_str()))
            nav.pager aria-label="Calls" {
                @if let Some(href) = neighbour(place.checked_sub(1)) { a.button rel="prev" href=(href) { "‹ Call before" } }
                @if let Some(href) = neighbour(Some(place + 1)) { a.button rel="next" href=(href) { "Next call ›" } }
                a.button href=(format!("{conversation}?call={}", place + 1)) { "What it saw of the record" }
                a.button href=(format!("/lens/sessions/{session}/cache")) { "Cost and cache" }
            }
        }
        section.card aria-label="In short" { div.in { dl.facts { (facts(&call)) (reveal(viewer, &here))
            @if !is_reported(&call) { @let curl = format!("curl http://{}/api/calls/{}", viewer.app.address, coded(&call.id)); div { dt { "As JSON" } dd { a href=(format!("/api/calls/{}", coded(&call.id))) { "the row" } " " button.copy type="button" data-copy=(curl) data-what="Command" { "copy curl" } } } }
        } } }
        (held(&call, &sight, &conversation, eyes))
        @if is_reported(&call) { p.note { "This call is known from an imported transcript: what it used is as the transcript reports it, and the bytes that were sent are not in it." } } @else {
        (rules(&call))
        (difference(before.as_ref(), &call, eyes))
        (bytes("What was sent", call.request.as_deref(), eyes, &here, "The request was erased with what it said, or was never kept."))
        (bytes("What came back", call.response.as_deref(), eyes, &here, "Nothing came back, or not yet."))
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
        div { dt { "Managers" } dd { code { (said(&crate::recorded_calls::spelled(&call.managers))) } } }
        div { dt { "Saw the record below" } dd { "#" (call.upto) } }
        @if bytes > 0 { div { dt { "Bytes sent" } dd { (number(bytes as u64)) } } }
        @if let Some(spent) = spent {
            (panel::input(call, &spent))
            div { dt { "Read from cache" } dd { (number(spent.cache_read)) } }
            @if spent.cache_write > 0 { div { dt { "Written to cache" } dd { (number(spent.cache_write)) } } }
            div { dt { "Output tokens" } dd { (number(spent.output)) } }
            div { dt { "Cost" } dd { @match spent.cost_usd { Some(cost) => (dollars(cost)), None => span.soft { "not known" } } } }
        }
        div { dt { "Sent at" } dd { (page::time(call.started_at)) } }
        div { dt { "Took" } dd { @match call.ended_at { Some(ended) => (lasting(ended.0 - call.started_at.0)), None => span.soft { "under way" } } } }
        @if call.attempt > 1 { div { dt { "Attempt" } dd { (call.attempt) } } }
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
                Some(violations) => div.scroll { table {
                    thead { tr { th scope="col" { "Rule" } th scope="col" { "Where" } th scope="col" { "What" } th scope="col" { "Then" } } }
                    tbody { @for one in violations.iter().take(100) { tr {
                        td { span.chip.(if one.is_fatal(Strictness::Lenient) { "bad" } else { "warn" }) { (one.rule) } }
                        td { code { (said(&one.path)) } }
                        td { (said(&one.message)) }
                        td { @if one.is_fatal(Strictness::Lenient) { "refused" } @else { "accepted" } }
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

fn bytes(title: &str, bytes: Option<&[u8]>, eyes: Eyes<'_>, here: &str, nothing: &str) -> Markup {
    let text = bytes.map(String::from_utf8_lossy);
    let anchor = title.to_lowercase().replace(' ', "-");
    html! {
        section.card id=(anchor) aria-label=(title) {
            header { h2 { (title) } @if let Some(text) = &text { span.soft.small { (number(text.len() as u64)) " bytes, as they were; secrets are hidden unless you asked" } } }
            div.in { @match &text {
                None => p { (nothing) },
                Some(text) => {
                    @let seen = eyes.see(text);
                    @let cut = seen.char_indices().nth(SHOWN).map(|(at, _)| at);
                    @let folds = folded_json(eyes, text);
                    @if let Some(folds) = &folds { (folds) }
                    details.raw-bytes open[folds.is_none()] { summary { "Raw bytes" }
                    div.raw tabindex="0" role="region" aria-label=(title) { pre.said dir="auto" { (said(seen.get(..cut.unwrap_or(seen.len())).unwrap_or(&seen))) @if cut.is_some() { "…" } } } }
                    @if cut.is_some() { p.small { "The first " (number(SHOWN as u64)) " characters. " a href=(format!("/api{}", here.trim_start_matches("/lens"))) { "All of it as JSON" } } }
                }
            } }
        }
    }
}
