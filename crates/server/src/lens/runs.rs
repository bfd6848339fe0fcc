//! Runs: flows as a tree of steps; a run that waits for a person shows its question and takes the answer.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{Entry, Time, json};
use scrollback_store::{Cursor, Event, Run, RunListing, RunStatus, Sent, Step, StepStatus, StepType};
use serde::Deserialize;
use serde_json::Value;

use super::form::FormFields;
use super::page::{self, NavItem, coded};
use super::text::{Eyes, dollars, lasting, number, said, short};
use super::timeline::indented;
use super::tree::{RunNode, tree};
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;
use crate::api::run_status_named;
use crate::runs::{self, PersonAnswer};
use crate::usage;

const PAGE: usize = 50;
/// Prompts shown whole on the page of a run: the newest; others are a click away.
const PROMPTS: usize = 20;
/// Events listed on the page of a run.
const EVENTS: usize = 200;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct RunsQuery {
    status: String,
    after: String,
}

pub(crate) async fn list(viewer: Viewer, Query(wish): Query<RunsQuery>) -> Response {
    viewer.answer(listed(&viewer, &wish).await)
}

async fn listed(viewer: &Viewer, wish: &RunsQuery) -> Result<PageContent, HttpProblem> {
    let status = Some(&*wish.status).filter(|word| !word.is_empty()).map(run_status_named).transpose()?;
    let after = if wish.after.is_empty() { None } else { Some(Cursor::parse(&wish.after)?) };
    let page = runs::page(&viewer.app, viewer.tenant(), RunListing { status, limit: PAGE, after }).await?;
    let eyes = viewer.eyes();
    let body = html! {
        div.head { h1 { "Runs" } }
        form.fields method="get" action="/lens/runs" aria-label="Filter" {
            div { label for="status" { "Status" } select #status name="status" data-go="1" {
                option value="" { "any" }
                @for status in RunStatus::ALL { option value=(status) selected[wish.status == status.as_str()] { (status) } }
            } }
            button { "Filter" }
        }
        div.card.scroll data-fresh="runs" {
            @if page.runs.is_empty() {
                div.in { p { "No runs" @if !wish.status.is_empty() { " with this status" } "." } p.soft { "Flows are run with " code { "scrollback run FLOW.yaml" } " on this store." } }
            } @else {
                table.rows.cards {
                    caption.out { "Runs, those that began last first" }
                    thead { tr { th scope="col" { "Run" } th scope="col" { "Status" } th.n scope="col" { "Tokens" } th.n scope="col" { "Took" } th scope="col" { "Began" } } }
                    tbody { @for run in &page.runs { tr id=(format!("r{}", coded(&run.id))) {
                        td { a.name href=(format!("/lens/runs/{}", coded(&run.id))) { (eyes.said(&run.name)) } div.sub { code { (said(&run.id)) } " " @if let Some(input) = &run.input { (eyes.glance(input, 120)) } } }
                        td data-l="Status" { (page::status(run.status.as_str())) }
                        td.n data-l="Tokens" { @match tokens(run.usage.as_deref()) { Some(tokens) => (short(tokens)), None => span.faint { "–" } } }
                        td.n data-l="Took" { @match run.ended_at { Some(ended) => (lasting(ended.0 - run.started_at.0)), None => span.faint { "–" } } }
                        td.nowrap data-l="Began" { (page::ago(run.started_at)) }
                    } } }
                }
            }
        }
        @if let Some(next) = page.next { nav.pager aria-label="Pages" { a.button rel="next" href=(format!("/lens/runs?status={}&after={}", coded(&wish.status), coded(next.as_str()))) { "Older" } } }
    };
    Ok(PageContent { title: "Runs".into(), place: NavItem::Runs, live: Some("/api/events".into()), body })
}

pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Response {
    viewer.answer(shown(&viewer, &id, None).await)
}

pub(crate) async fn answer(
    viewer: Viewer,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let taken = async {
        viewer.caller.may_write()?;
        let run = runs::find(&viewer.app, viewer.tenant(), &id).await?;
        let fields = FormFields::read(&viewer, &headers, body).await?;
        let step = Some(fields.text("step")).filter(|step| !step.is_empty());
        let given =
            PersonAnswer { tenant: viewer.tenant().clone(), run: run.id, step, text: fields.text("text") };
        runs::answer(&viewer.app, given).await
    };
    match taken.await {
        Ok(_) => Redirect::to(&format!("/lens/runs/{}", coded(&id))).into_response(),
        // The question is shown again, with why the answer was not taken.
        Err(problem) => viewer.answer(shown(&viewer, &id, Some(&problem.detail)).await),
    }
}

async fn shown(viewer: &Viewer, id: &str, problem: Option<&str>) -> Result<PageContent, HttpProblem> {
    let run = runs::find(&viewer.app, viewer.tenant(), id).await?;
    let steps = viewer.store().steps(viewer.tenant(), &run.id).await?;
    let events = viewer.store().events(viewer.tenant(), &run.id, 0).await?;
    let waiting: Vec<Step> = steps
        .iter()
        .filter(|step| {
            step.status == StepStatus::Paused && step.kind != StepType::Loop && is_leaf(step, &steps)
        })
        .cloned()
        .collect();
    let injected: BTreeSet<String> =
        events.iter().filter(|event| is_injected(event)).filter_map(|event| event.key.clone()).collect();
    let prompts = prompts(viewer, &run).await?;
    let around = RunContext {
        eyes: viewer.eyes(),
        injected,
        prompts,
        from: run.started_at,
        until: until(&run, &steps),
        conversation: run.conversation.as_ref().map(ToString::to_string),
        all: format!("/api/runs/{}", coded(&run.id)),
    };
    let title = format!("{} · {}", run.name, run.id);
    let body = html! {
        nav.crumbs aria-label="You are here" { a href="/lens/runs" { "Runs" } " / " code { (said(&run.id)) } }
        div.head data-fresh="head" { h1 { (viewer.eyes().said(&run.name)) } (page::status(run.status.as_str())) }
        div data-fresh="run" {
            @for step in &waiting { (question(&run, step, waiting.len(), viewer, problem)) }
            @if let (Some(problem), true) = (problem, waiting.is_empty()) { p.note.bad role="alert" { (said(problem)) } }
            section.card aria-label="In short" { div.in { dl.facts { (facts(&run)) } } }
            (texts(&run, viewer.eyes()))
            section.card aria-label="Steps" { header { h2 { "Steps" } span.soft.small { (steps.len()) " executions" } }
                div.in { @if steps.is_empty() { p { "No step has begun." } } ul.tree { @for node in tree(steps) { (around.node(&node)) } } }
            }
            (happened(&events, viewer.eyes()))
            details.card { summary.in { "The file it was run from" } div.in { pre.said { (viewer.eyes().said(&run.text)) } } }
        }
    };
    Ok(PageContent { title, place: NavItem::Runs, live: Some("/api/events".into()), body })
}

/// Whether a paused step asks itself, rather than something inside it.
fn is_leaf(step: &Step, steps: &[Step]) -> bool {
    let inside = |other: &&Step| {
        let rest = other.key.strip_prefix(&step.key);
        other.status == StepStatus::Paused && rest.is_some_and(|rest| rest.starts_with(['/', '[', '.']))
    };
    !steps.iter().any(|other| inside(&other))
}

fn is_injected(event: &Event) -> bool {
    let data = || event.data.as_deref().and_then(|data| serde_json::from_str::<Value>(data).ok());
    event.kind == "agent.prompt"
        && data().and_then(|data| data.get("conversation_injected")?.as_bool()) == Some(true)
}

/// A prompt that a step sent.
struct Prompt {
    call: Sent,
    /// Who says what in it; none where it is one too many for this page, or was erased.
    messages: Vec<Entry>,
}

/// The prompts of a run by step, as they were sent.
async fn prompts(viewer: &Viewer, run: &Run) -> Result<BTreeMap<String, Vec<Prompt>>, HttpProblem> {
    let mut prompts: BTreeMap<String, Vec<Prompt>> = BTreeMap::new();
    let Some(conversation) = &run.conversation else { return Ok(prompts) };
    let calls = usage::calls_of(viewer.store(), viewer.tenant(), conversation).await?;
    let calls: Vec<Sent> = calls.into_iter().filter(|call| call.run.as_deref() == Some(&run.id)).collect();
    let folded = calls.len().saturating_sub(PROMPTS);
    for (place, call) in calls.into_iter().enumerate() {
        let messages = if place < folded {
            Vec::new()
        } else {
            messages(&viewer.store().call(viewer.tenant(), &call.id).await?)
        };
        prompts.entry(call.step.clone().unwrap_or_default()).or_default().push(Prompt { call, messages });
    }
    Ok(prompts)
}

fn messages(call: &Sent) -> Vec<Entry> {
    let read = || {
        let body = json::check_bytes(call.request.as_deref()?).ok()?;
        Some(Wire::named(&call.wire)?.parse(body, &ParseOptions::default()).ok()?.entries)
    };
    read().unwrap_or_default()
}

fn until(run: &Run, steps: &[Step]) -> Time {
    let last = steps.iter().filter_map(|step| step.ended_at.or(step.started_at)).max();
    run.ended_at.or(last).unwrap_or(run.started_at)
}

fn question(run: &Run, step: &Step, of: usize, viewer: &Viewer, problem: Option<&str>) -> Markup {
    let asked = text_of(step.input.as_deref());
    let field = format!("a-{}", coded(&step.key));
    html! {
        section.ask aria-label="A question" {
            h2 { "This run waits for an answer" }
            p.soft.small { "step " code { (viewer.eyes().said(&step.key)) } @if let Some(at) = step.started_at { ", since " (page::time(at)) } }
            (viewer.eyes().long(&asked, "text", "#"))
            @if let Some(problem) = problem { p.note.bad role="alert" { (said(problem)) } }
            form.stack method="post" action=(format!("/lens/runs/{}/answer", coded(&run.id))) {
                @if of > 0 { input type="hidden" name="step" value=(step.key); }
                div { label for=(field) { "Your answer" } textarea id=(field) name="text" required {} }
                div { button.first { "Answer and go on" } }
            }
        }
    }
}

fn facts(run: &Run) -> Markup {
    html! {
        div { dt { "Kind" } dd { (run.kind) } }
        div { dt { "Began" } dd { (page::time(run.started_at)) } }
        @if let Some(ended) = run.ended_at { div { dt { "Took" } dd { (lasting(ended.0 - run.started_at.0)) } } }
        @if let Some(tokens) = tokens(run.usage.as_deref()) { div { dt { "Tokens" } dd { (number(tokens)) } } }
        @if let Some(cost) = field(run.usage.as_deref(), "cost_usd").and_then(|cost| cost.as_f64()) { div { dt { "Cost" } dd { (dollars(cost)) } } }
        @if let Some(conversation) = &run.conversation { div { dt { "Record" } dd { a href=(format!("/lens/conversations/{conversation}")) { "conversation" } } } }
        div { dt { "As JSON" } dd { a href=(format!("/api/runs/{}/trace", coded(&run.id))) { "trace" } } }
    }
}

fn texts(run: &Run, eyes: Eyes<'_>) -> Markup {
    html! {
        @for (name, text) in [("Input", &run.input), ("Output", &run.output), ("Error", &run.error)] {
            @if let Some(text) = text { section.card aria-label=(name) { h2 { (name) } div.in { (eyes.long(&text_of(Some(text)), "text", &format!("/api/runs/{}", coded(&run.id)))) } } }
        }
    }
}

fn happened(events: &[Event], eyes: Eyes<'_>) -> Markup {
    html! {
        details.card { summary.in { "What happened (" (number(events.len() as u64)) " events)" }
            div.scroll { table.cards {
                thead { tr { th.n scope="col" { "No." } th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "Step" } th scope="col" { "More" } } }
                tbody { @for event in events.iter().rev().take(EVENTS) { tr {
                    td.n data-l="No." { (event.sequence) } td.nowrap { (page::time(event.at)) } td { code { (said(&event.kind)) } }
                    td { @if let Some(key) = &event.key { code { (eyes.said(key)) } } }
                    td { @if let Some(data) = &event.data { code { (eyes.glance(data, 200)) } } }
                } } }
            } }
            @if events.len() > EVENTS { p.in.soft { "The newest " (EVENTS) " are listed." } }
        }
    }
}

struct RunContext<'a> {
    eyes: Eyes<'a>,
    /// Steps whose prompts had the conversation put in front.
    injected: BTreeSet<String>,
    /// Prompts by step.
    prompts: BTreeMap<String, Vec<Prompt>>,
    from: Time,
    until: Time,
    conversation: Option<String>,
    /// Where all of it is.
    all: String,
}

impl RunContext<'_> {
    fn node(&self, node: &RunNode) -> Markup {
        let step = node.step.as_ref();
        let own = step.map(|step| step.status);
        html! {
            li {
                div.line {
                    strong { (self.eyes.said(&node.name)) }
                    @if let Some(step) = step { span.soft.small { (step.kind.as_str()) } (page::status(step.status.as_str())) }
                    @if let Some(step) = step.filter(|step| step.attempt > 1) { span.chip.warn { "attempt " (step.attempt) } }
                    @if self.injected.contains(&node.key) { span.chip.info { "conversation injected" } }
                    (self.bar(node, own))
                    @if let (Some(began), Some(ended)) = (node.began(), node.ended()) { span.soft.small.nowrap { (lasting(ended.0 - began.0)) } }
                    @if let Some(tokens) = step.and_then(|step| tokens(step.usage.as_deref())) { span.soft.small.nowrap { (short(tokens)) " tokens" } }
                }
                @if let Some(step) = step { (self.values(step)) }
                @for prompt in self.prompts.get(&node.key).into_iter().flatten() { (self.prompt(prompt, self.injected.contains(&node.key))) }
                @if !node.inside.is_empty() { ul { @for inner in &node.inside { (self.node(inner)) } } }
            }
        }
    }

    /// What a model was sent for a step.
    fn prompt(&self, prompt: &Prompt, injected: bool) -> Markup {
        let Prompt { call, messages } = prompt;
        let spent = usage::Spent::of(call);
        html! {
            details.fold id=(format!("p-{}", coded(&call.id))) {
                summary {
                    span.soft { "prompt" } span { (said(&call.model)) }
                    @if injected { span.chip.info { "conversation injected" } }
                    @if let Some(spent) = spent { span.soft { (number(spent.input)) " input tokens, " @if spent.estimated { "estimate" } @else { "reported" } } }
                    @if call.attempt > 1 { span.chip.warn { "attempt " (call.attempt) } }
                }
                div.in.stack {
                    p.small { a href=(format!("/lens/calls/{}", coded(&call.id))) { "The call, with its exact bytes" } }
                    @if messages.is_empty() { p.soft { "Its messages are on the page of the call." } }
                    @for message in messages { div {
                        div.who { (page::role(message.role)) @for call in message.tool_calls() { code { (self.eyes.glance(&call.name.as_str(), 60)) } } }
                        (self.eyes.long(&message.content().unwrap_or_default(), "text", &format!("/lens/calls/{}", coded(&call.id))))
                    } }
                }
            }
        }
    }

    /// When it ran, in proportion to the whole run.
    fn bar(&self, node: &RunNode, status: Option<StepStatus>) -> Markup {
        let whole = (self.until.0 - self.from.0).max(1) as f64;
        let part = |at: Time| ((at.0 - self.from.0) as f64 / whole * 100.0).clamp(0.0, 100.0);
        let Some(began) = node.began().map(part) else { return html! {} };
        let ended = node.ended().map_or(100.0, part);
        let class = match status {
            Some(status @ (StepStatus::Failed | StepStatus::Paused)) => status.as_str(),
            _ => "ran",
        };
        html! {
            svg.bar aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none" {
                rect.rail width="100" height="8" rx="2" {}
                rect.(class) x=(format!("{began:.1}")) width=(format!("{:.1}", (ended - began).max(1.0))) height="8" rx="2" {}
            }
        }
    }

    fn values(&self, step: &Step) -> Markup {
        let some = step.input.is_some() || step.output.is_some() || step.error.is_some();
        html! { @if some {
            details.fold id=(format!("s-{}", coded(&step.key))) {
                summary { @match (&step.error, &step.output, &step.input) {
                    (Some(error), _, _) => { span.chip.bad { "error" } span { (self.eyes.glance(&text_of(Some(error)), 100)) } },
                    (None, Some(output), _) => { span.soft { "output" } span { (self.eyes.glance(&text_of(Some(output)), 100)) } },
                    (None, None, input) => { span.soft { "input" } span { (self.eyes.glance(&text_of(input.as_deref()), 100)) } },
                } }
                div.in.stack {
                    @for (name, text) in [("input", &step.input), ("output", &step.output), ("error", &step.error)] {
                        @if let Some(text) = text { div { div.who { span.soft { (name) } } (self.eyes.long(&text_of(Some(text)), "mono", &self.all)) } }
                    }
                    @if let (Some(conversation), Some(evaluation)) = (&self.conversation, step.evaluation) {
                        p.small { a href=(format!("/lens/conversations/{conversation}")) { "in the record" } span.soft { " (evaluation " (evaluation) ")" } }
                    }
                }
            }
        } }
    }
}

/// A JSON value as people read it: a text as it is, anything else over several lines.
fn text_of(json: Option<&str>) -> String {
    let Some(json) = json else { return String::new() };
    match serde_json::from_str(json) {
        Ok(Value::String(text)) => text,
        Ok(_) => indented(json),
        Err(_) => json.into(),
    }
}

fn field(json: Option<&str>, name: &str) -> Option<Value> {
    serde_json::from_str::<Value>(json?).ok()?.get(name).cloned()
}

/// All tokens that usage of any shape speaks of.
fn tokens(usage: Option<&str>) -> Option<u64> {
    let number = |name: &str| field(usage, name).and_then(|value| value.as_u64());
    number("total_tokens")
        .or_else(|| number("total"))
        .or_else(|| Some(number("input")? + number("output").unwrap_or(0)))
}
