//! Beside the timeline: the chosen call, what it saw, and the way to the other calls.

use maud::{Markup, html};
use scrollback_core::request::RequestTokens;
use scrollback_store::Sent;

use super::page::{self, coded};
use super::text::{Eyes, dollars, lasting, number, plural, said, short};
use super::timeline::label;
use crate::known_calls::is_reported;
use crate::usage::Spent;
use crate::visibility::{CallVisibility, Fate, Stretch};

/// Stretches listed before the rest is only counted.
const STRETCHES: usize = 60;

/// Which call is looked at, among how many.
pub(crate) struct Chosen<'a> {
    /// The address of the conversation.
    pub(crate) href: &'a str,
    /// The call; none where a manager is only tried out, or there are no calls.
    pub(crate) call: Option<&'a Sent>,
    /// Its number, from 1.
    pub(crate) number: usize,
    pub(crate) of: usize,
    /// The manager that is tried out, as it was typed.
    pub(crate) tried: Option<&'a str>,
}

/// The calls one can go to, and what is known about the chosen one.
pub(crate) fn calls(chosen: &Chosen<'_>) -> Markup {
    let Chosen { href, call, number: at, of, tried } = chosen;
    let to = |number: usize| format!("{href}?call={number}");
    html! {
        section.card aria-label="The chosen call" {
            header {
                h2 {
                    @match (call, tried) {
                        (_, Some(_)) => "What a call would see now",
                        (Some(_), _) => { "Call " (at) " of " (of) },
                        (None, None) => "No calls yet",
                    }
                }
                @if let (Some(call), None) = (call, tried) { (page::status(call.status.as_str())) a href=(format!("/lens/calls/{}", coded(&call.id))) { @if is_reported(call) { "the call" } @else { "exact bytes" } } }
            }
            div.in.stack {
                @if *of > 1 || (*of == 1 && tried.is_some()) {
                    form.slider method="get" action=(href) {
                        @if *at > 1 { a.button rel="prev" href=(to(at - 1)) aria-label="Call before" { "‹" } } @else { span.button.faint aria-hidden="true" { "‹" } }
                        div { label.out for="call" { "Call" } input #call type="range" name="call" min="1" max=(of) value=(at) data-go="1"; }
                        @if at < of { a.button rel="next" href=(to(at + 1)) aria-label="Next call" { "›" } } @else { span.button.faint aria-hidden="true" { "›" } }
                        div.go { noscript { button { "Show this call" } } }
                    }
                }
                @if let (Some(call), None) = (call, tried) { (facts(call)) }
                @if call.is_none() && tried.is_none() { p.soft { "No model was asked yet. Below is what a call would be sent." } }
            }
        }
    }
}

fn facts(call: &Sent) -> Markup {
    let spent = Spent::of(call);
    html! {
        dl.facts {
            div { dt { "Model" } dd { (said(&call.model)) } }
            @if let Some(spent) = spent {
                (input(call, &spent))
                @if spent.cache_read > 0 { div { dt { "From cache" } dd { (number(spent.cache_read)) " " small { (percent(spent.cache_read, spent.input)) } } } }
                div { dt { "Output" } dd { (number(spent.output)) } }
                @if let Some(cost) = spent.cost_usd { div { dt { "Cost" } dd { (dollars(cost)) } } }
            }
            @if let Some(ended) = call.ended_at { div { dt { "Took" } dd { (lasting(ended.0 - call.started_at.0)) } } }
            @if call.attempt > 1 { div { dt { "Attempt" } dd { (call.attempt) } } }
        }
    }
}

fn percent(part: u64, whole: u64) -> String {
    (part * 100).checked_div(whole).map_or_else(String::new, |percent| format!("{percent} %"))
}

/// The tokens of a request as we count them, each number with the part it covers.
pub(crate) fn request_tokens(tokens: &RequestTokens) -> Markup {
    let method = if tokens.exact { "counted" } else { "estimate" };
    html! {
        div { dt { "Request tokens" } dd { (number(tokens.total as u64)) small { " " (method) } } }
        div { dt { "Instructions" } dd { (number(tokens.instructions as u64)) small { " " (method) } } }
        div { dt { "Tools" } dd { (number(tokens.tools as u64)) small { " " (method) } } }
        div { dt { "Messages" } dd { (number(tokens.messages as u64)) small { " " (method) } } }
    }
}

/// The input tokens of a call: as its provider reported them, or, where it reported nothing and the row has no count of the
/// request, as they were counted here.
pub(crate) fn input(call: &Sent, spent: &Spent) -> Markup {
    html! {
        @if !spent.estimated { div { dt { "Reported input" } dd { (number(spent.input)) small { " tokens" } } } }
        @else if crate::usage::request_tokens(call).is_none() { div { dt { "Input" } dd { (number(spent.input)) small { " counted here" } } } }
    }
}

/// What the call saw: how much of the record, which parts, and who left out the rest.
pub(crate) fn saw(
    sight: &CallVisibility,
    sent: Option<RequestTokens>,
    href: &str,
    managers: &str,
    head: u64,
    eyes: Eyes<'_>,
) -> Markup {
    let managers = if managers.is_empty() { "passthrough" } else { managers };
    html! {
        section.card aria-label="What it saw" {
            // What a transcript reports was not sent through a manager of ours.
            header { h2 { "What it saw" } @if sent.or(sight.tokens).is_some() { span.soft.small { "through " code { (said(managers)) } } } }
            div.in {
                dl.facts {
                    div { dt { "Entries" } dd { (number(sight.entries as u64)) small { " of " (number(sight.of as u64)) } } }
                    @if let Some(tokens) = sent.or(sight.tokens) { (request_tokens(&tokens)) div { dt { "Whole record" } dd { (number(sight.tokens_of)) small { " tokens with tools" } } } }
                    @else { div { dt { "What was said until then" } dd { (number(sight.tokens_of)) small { " tokens, estimate; instructions and tools are not in the transcript" } } } }
                    @if let Some(epoch) = sight.epoch { div { dt { "Cuts so far" } dd { (epoch.id) } } }
                }
                (strip(&sight.stretches, head))
                ul.legend {
                    @for (class, word) in [("kept", "sent"), ("changed", "rewritten"), ("dropped", "left out"), ("later", "not yet said")] {
                        li { svg aria-hidden="true" viewBox="0 0 10 10" { rect.(format!("f-{class}")) width="10" height="10" rx="2" {} } (word) }
                    }
                }
                ol.runs-of {
                    @for stretch in sight.stretches.iter().take(STRETCHES) { (line(stretch, href)) }
                    @if sight.stretches.len() > STRETCHES { li { span {} span.soft { "and " (plural((sight.stretches.len() - STRETCHES) as u64, "more stretch", "more stretches")) } } }
                }
                @for (what, text) in &sight.synthetic {
                    details.fold { summary { span.role.summary { "added" } span { (said(what)) } } div.in { (eyes.long(text, "text", "#")) } }
                }
                @if let Some(why) = &sight.unexplained { p.note { "Read from the bytes that were sent. Reasons are not known: " (said(why)) } }
                @for warning in &sight.warnings { p.note.warn { (said(&warning.replace('_', " "))) } }
            }
        }
    }
}

fn line(stretch: &Stretch, href: &str) -> Markup {
    let Stretch { first, last, entries, tokens, fate } = stretch;
    html! {
        li {
            a.span href=(format!("{href}?at={first}#e{first}")) { "#" (first) @if first != last { "–" (last) } }
            (label(fate))
            span.soft.nowrap { (plural(*entries, "entry", "entries")) " · " (short(*tokens)) }
        }
    }
}

/// The whole record as one strip, coloured by what became of each part.
fn strip(stretches: &[Stretch], head: u64) -> Markup {
    let upto = stretches.last().map_or(0, |last| last.last + 1);
    let all = head.max(upto).max(1);
    let left_out: u64 =
        stretches.iter().filter(|one| matches!(one.fate, Fate::Dropped(_))).map(|one| one.entries).sum();
    let told = format!(
        "The record from its beginning to its end; {} left out.",
        plural(left_out, "entry was", "entries were")
    );
    html! {
        svg.strip role="img" aria-label=(told) viewBox=(format!("0 0 {all} 1")) preserveAspectRatio="none" {
            @for one in stretches {
                rect.(format!("f-{}", one.fate.class())) x=(one.first) y="0" width=(one.last - one.first + 1) height="1" {
                    title { "#" (one.first) "–#" (one.last) }
                }
            }
            @if all > upto { rect.f-later x=(upto) y="0" width=(all - upto) height="1" {} }
        }
    }
}

/// A field to try another manager on this record.
pub(crate) fn try_out(href: &str, tried: Option<&str>, problem: Option<&str>) -> Markup {
    html! {
        section.card aria-label="Try a manager" {
            div.in {
                form.fields method="get" action=(href) {
                    div.wide { label for="m" { "Try a manager on this record" }
                        input #m.mono name="m" value=(tried.unwrap_or("")) placeholder="sliding_window(20)" spellcheck="false" autocomplete="off"; }
                    button { "Show" }
                }
                @if let Some(problem) = problem { p.note.bad role="alert" { (said(problem)) } }
            }
        }
    }
}
