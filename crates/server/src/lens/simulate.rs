//! Managers side by side on one conversation: tokens, cache, cost, and what each leaves out.

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_core::Slot;
use scrollback_store::{ConversationId, Listing};
use serde_json::Value;

use super::page::NavItem;
use super::text::{dollars, number, said, short};
use super::timeline::title;
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;
use crate::simulation_tables::{CallFigures, Figures};

/// The default candidates.
const USUAL: [&str; 5] =
    ["passthrough", "sliding_window(20)", "clear_tool_results(3)", "sticky(token_budget(8k))", "auto(8k)"];
/// Fields for candidates.
const FIELDS: usize = 5;
/// Conversations to choose from.
const CHOICES: usize = 50;

/// What the address asks for.
struct SimulateQuery {
    conversation: String,
    managers: Vec<String>,
    model: String,
}

impl SimulateQuery {
    /// A name may stand several times, which is why this is not a struct of serde's.
    fn read(query: Option<&str>) -> Self {
        let mut wish =
            SimulateQuery { conversation: String::new(), managers: Vec::new(), model: String::new() };
        let uri = format!("/?{}", query.unwrap_or("")).parse();
        let pairs =
            uri.ok().and_then(|uri| axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
        for (name, value) in pairs.map(|pairs| pairs.0).unwrap_or_default() {
            match name.as_str() {
                "conversation" => wish.conversation = value,
                "m" if !value.trim().is_empty() => wish.managers.push(value.trim().into()),
                "model" => wish.model = value,
                _ => {}
            }
        }
        wish
    }
}

pub(crate) async fn show(viewer: Viewer, RawQuery(query): RawQuery) -> Response {
    viewer.answer(made(&viewer, &SimulateQuery::read(query.as_deref())).await)
}

async fn made(viewer: &Viewer, wish: &SimulateQuery) -> Result<PageContent, HttpProblem> {
    let listing = Listing { limit: CHOICES, ..Listing::default() };
    let page = viewer.store().list(Some(viewer.tenant()), listing).await?;
    let mut choices: Vec<(String, String)> = page
        .conversations
        .iter()
        .map(|(row, _)| (row.id.to_string(), title(row, None, viewer.eyes())))
        .collect();
    if !wish.conversation.is_empty() && !choices.iter().any(|(id, _)| *id == wish.conversation) {
        choices.insert(0, (wish.conversation.clone(), wish.conversation.clone()));
    }
    let result = match (wish.conversation.is_empty(), wish.managers.is_empty()) {
        (true, _) | (_, true) => None,
        _ => Some(run(viewer, wish).await),
    };
    let (figures, problem) = match result {
        None => (None, None),
        Some(Ok(figures)) => (Some(figures), None),
        Some(Err(problem)) => (None, Some(problem.detail)),
    };
    let body = html! {
        div.head { h1 { "Simulate" } }
        p { "Repeats every call of a conversation under each manager, offline: what it would have sent, what a cache would have held, what was left out." }
        (form(wish, &choices))
        @if let Some(problem) = problem { p.note.bad role="alert" { (said(&problem)) } }
        @if let Some(figures) = figures { (table(&figures)) (curves(&figures)) }
    };
    Ok(PageContent { title: "Simulate".into(), place: NavItem::Simulate, live: None, body })
}

async fn run(viewer: &Viewer, wish: &SimulateQuery) -> Result<Vec<Figures>, HttpProblem> {
    let id =
        ConversationId::parse(&wish.conversation).ok_or_else(|| HttpProblem::not_found("conversation"))?;
    let places = viewer.store().entries(viewer.tenant(), &id, 0, u64::MAX).await?;
    let slots: Vec<Slot> = places.into_iter().map(|placed| placed.slot).collect();
    let managers = wish.managers.iter().map(|text| Value::String(text.clone())).collect();
    let call = crate::recorded_calls::newest(&viewer.app, viewer.tenant(), &id).await?;
    let model = (!wish.model.trim().is_empty()).then(|| wish.model.trim().to_string());
    let model = model.or_else(|| call.as_ref().map(|call| call.model.clone()));
    crate::api::compare(&viewer.app, slots, managers, model.as_deref(), call.as_ref()).await
}

fn form(wish: &SimulateQuery, choices: &[(String, String)]) -> Markup {
    let shown = |place: usize| {
        let given = wish.managers.get(place).map(String::as_str);
        let usual = USUAL.get(place).copied().filter(|_| wish.managers.is_empty());
        given.or(usual).unwrap_or("")
    };
    html! {
        section.card { div.in {
            form.stack method="get" action="/lens/simulate" {
                div.fields {
                    div.wide { label for="conversation" { "Conversation" } select #conversation name="conversation" {
                        @for (id, name) in choices { option value=(id) selected[*id == wish.conversation] { (said(name)) } }
                    } }
                    div { label for="model" { "Model, for counting and prices" } input #model name="model" value=(wish.model) placeholder="openai:gpt-4o" autocomplete="off"; }
                }
                div.grid3 { @for place in 0..FIELDS.max(wish.managers.len()) {
                    div.stack.tight { label for=(format!("m{place}")) { "Manager " (place + 1) } input.mono id=(format!("m{place}")) name="m" value=(shown(place)) spellcheck="false" autocomplete="off"; }
                } }
                div { button.first { "Compare" } " " a href="/lens/import" { "or import a transcript first" } }
            }
        } }
    }
}

fn table(figures: &[Figures]) -> Markup {
    html! {
        section.card { header { h2 { "Side by side" } span.soft.small { "over " (figures.iter().map(|one| one.calls).max().unwrap_or(0)) " calls" } }
            div.scroll { table {
                thead { tr {
                    th scope="col" { "Manager" } th.n scope="col" { "Input tokens" } th.n scope="col" { "From cache" } th.n scope="col" { "Cost" } th.n scope="col" { "Against all" }
                    th.n scope="col" { "Peak" } th.n scope="col" { "Cuts" } th.n scope="col" { "Left out" } th.n scope="col" { "Rewritten" } th.n scope="col" { "Task kept" }
                    th.n scope="col" { "Arguments kept" } th.n scope="col" { "Answers grounded" } th.n scope="col" { "ms a view" }
                } }
                tbody { @for one in figures { tr {
                    th scope="row" { code { (said(&one.manager)) } @if let Some(why) = &one.stopped { div.soft { "gave up after " (one.calls) " calls: " (said(why)) } } }
                    td.n { (number(one.input_tokens)) }
                    td.n { @if one.input_tokens > 0 { (one.cache_read * 100 / one.input_tokens) " %" } @else { "–" } }
                    td.n { @match one.cost_usd { Some(cost) => (dollars(cost)), None => span.faint { "–" } } }
                    td.n { @match one.cost_ratio { Some(ratio) => { (format!("{ratio:.2}")) "×" }, None => span.faint { "–" } } }
                    td.n { (number(one.peak)) } td.n { (number(one.cuts)) } td.n { (short(one.dropped_tokens)) } td.n { (number(one.rewritten)) }
                    td.n { (format!("{:.0} %", one.task_kept * 100.0)) }
                    td.n { (kept(one.argument_retention, one.at_cut.argument_retention)) }
                    td.n { (kept(one.answer_grounding, one.at_cut.answer_grounding)) }
                    td.n { (format!("{:.2}", one.ms_p50)) div.soft { (format!("p99 {:.2}", one.ms_p99)) } }
                } } }
            } }
            div.in { p.soft.small { "Arguments kept: of the ids, paths and numbers that tools were called with and that had been said before, those the view still showed; answers grounded: the same for names and numbers in replies. At cut: where the manager's choice decided." } }
        }
    }
}

/// A share of what replies used, and below it the share where something was left out.
fn kept(all: Option<f64>, at_cut: Option<f64>) -> Markup {
    html! {
        @match all { Some(share) => (format!("{:.0} %", share * 100.0)), None => span.faint { "–" } }
        @if let Some(share) = at_cut { div.soft { (format!("at cut {:.0} %", share * 100.0)) } }
    }
}

/// Tokens call by call, one line for each candidate.
fn curves(figures: &[Figures]) -> Markup {
    const CLASSES: [&str; 5] = ["k0", "k1", "k2", "k3", "k4"];
    let (width, height, left) = (960.0, 200.0, 44.0);
    let most = figures.iter().map(|one| one.peak).max().unwrap_or(1).max(1) as f64;
    let line = |one: &Figures| {
        let across = (width - left) / one.per_call.len().max(2).saturating_sub(1) as f64;
        let point = |(place, call): (usize, &CallFigures)| {
            let (x, y) =
                (left + across * place as f64, height - 10.0 - (height - 30.0) * call.tokens as f64 / most);
            format!("{x:.1},{y:.1}")
        };
        one.per_call.iter().enumerate().map(point).collect::<Vec<_>>().join(" ")
    };
    html! {
        section.card { header { h2 { "Tokens sent, call by call" } } div.in {
            div.charted { svg.chart role="img" aria-label="Tokens of each call under each manager; the table above has the sums." viewBox=(format!("0 0 {width} {height}")) {
                line.grid x1=(left) x2=(width) y1=(height - 10.0) y2=(height - 10.0) {}
                line.grid x1=(left) x2=(width) y1="20" y2="20" {}
                text x=(left - 6.0) y="23" text-anchor="end" { (short(most as u64)) } text x=(left - 6.0) y=(height - 7.0) text-anchor="end" { "0" }
                @for (one, class) in figures.iter().zip(CLASSES.iter().cycle()) { polyline.curve.(class) points=(line(one)) { title { (said(&one.manager)) } } }
            } }
            ul.legend { @for (one, class) in figures.iter().zip(CLASSES.iter().cycle()) { li { svg aria-hidden="true" viewBox="0 0 10 10" { polyline.curve.(class) points="0,5 10,5" {} } (said(&one.manager)) } } }
        } }
    }
}
