//! Managers side by side: what each would have cost, against what it would have kept of what the replies used.

use std::fmt::Write;

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_core::Slot;
use scrollback_core::recall::{Handle, Tail};
use scrollback_store::{Conversation, ConversationId, SessionListing};
use serde_json::Value;

use super::page::NavItem;
use super::session_row::{conversation_title, session_title};
use super::text::{Eyes, dollars, number, plural, said, short};
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;
use crate::api::{Candidates, Compared, Losses, MOST_ENTRIES, Replayed};
use crate::known_calls::known_calls;
use crate::simulation_tables::{CallFigures, Figures};
use crate::usage::Spent;

/// Fields for candidates.
const FIELDS: usize = 5;
/// Sessions to choose from.
const CHOICES: usize = 50;
/// Conversations that are replayed together.
pub(crate) const TOGETHER: usize = 40;
/// Lost values that are listed of a candidate.
const LISTED: usize = 40;
/// The smallest bound that is proposed, in tokens.
const SMALLEST: u64 = 4_000;

/// What the address asks for.
struct SimulateQuery {
    conversation: String,
    managers: Vec<String>,
    model: String,
    /// Whether the other conversations of its session are replayed too.
    whole: bool,
    /// The main conversations of the sessions that a filter of the list left.
    of: Vec<String>,
}

impl SimulateQuery {
    /// A name may stand several times, which is why this is not a struct of serde's.
    fn read(query: Option<&str>) -> Self {
        let mut wish = SimulateQuery {
            conversation: String::new(),
            managers: Vec::new(),
            model: String::new(),
            whole: false,
            of: Vec::new(),
        };
        let uri = format!("/?{}", query.unwrap_or("")).parse();
        let pairs =
            uri.ok().and_then(|uri| axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).ok());
        for (name, value) in pairs.map(|pairs| pairs.0).unwrap_or_default() {
            match name.as_str() {
                "conversation" => wish.conversation = value,
                "m" if !value.trim().is_empty() => wish.managers.push(value.trim().into()),
                "model" => wish.model = value,
                "whole" => wish.whole = !value.is_empty(),
                "of" => wish.of.push(value),
                _ => {}
            }
        }
        wish
    }
}

pub(crate) async fn show(viewer: Viewer, RawQuery(query): RawQuery) -> Response {
    viewer.answer(made(&viewer, SimulateQuery::read(query.as_deref())).await)
}

/// What was replayed, and what came of it.
struct Comparison {
    conversations: Vec<Conversation>,
    compared: Vec<Compared>,
    /// Which candidate to take, in words.
    advice: Option<String>,
    /// What there was no room for.
    left_out: Option<String>,
}

async fn made(viewer: &Viewer, mut wish: SimulateQuery) -> Result<PageContent, HttpProblem> {
    let listing = SessionListing { limit: CHOICES, after: None };
    let page = viewer.store().sessions(Some(viewer.tenant()), listing).await?;
    let mut choices: Vec<(String, String)> = Vec::new();
    for tree in &page.sessions {
        if let Some(root) = tree.root() {
            choices.push((root.id.to_string(), session_title(viewer, tree).await?));
        }
    }
    let chosen = match ConversationId::parse(&wish.conversation) {
        Some(id) => viewer.store().conversation(viewer.tenant(), &id).await.ok(),
        None => None,
    };
    if let Some(chosen) = &chosen
        && !choices.iter().any(|(id, _)| *id == wish.conversation)
    {
        choices.insert(0, (wish.conversation.clone(), conversation_title(viewer, chosen).await?));
    }
    let together = filtered(viewer, &wish).await;
    let first = chosen.as_ref().or(together.first());
    if let (Some(first), true) = (first, wish.managers.is_empty()) {
        wish.managers = presets(viewer, first).await?;
    }
    let result = match (together.is_empty(), wish.conversation.is_empty(), chosen) {
        (false, ..) => Some(run(viewer, &wish, together).await),
        (true, true, _) => None,
        (true, false, Some(chosen)) => Some(run(viewer, &wish, vec![chosen]).await),
        (true, false, None) => Some(Err(HttpProblem::not_found("conversation"))),
    };
    let (done, problem) = match result {
        None => (None, None),
        Some(Ok(done)) => (Some(done), None),
        Some(Err(problem)) => (None, Some(problem.detail)),
    };
    let body = html! {
        div.head { h1 { "Compare managers" } }
        p { "Repeats every call of a conversation under each manager, offline: what it would have sent and cost, what a cache would have held, and what the replies used that would not have been there." }
        (form(&wish, &choices))
        @if let Some(problem) = problem { p.note.bad role="alert" { (said(&problem)) } }
        @if let Some(done) = done {
            @if let Some(left_out) = &done.left_out { p.note role="status" { (left_out) } }
            @let figures: Vec<&Figures> = done.compared.iter().map(|one| &one.figures).collect();
            @if let Some(advice) = &done.advice { p.note role="status" { (said(advice)) } }
            (plot(&done.compared)) (table(&done.compared, done.conversations.len())) (losses(&done, viewer.eyes())) (curves(&figures))
        }
    };
    Ok(PageContent { title: "Compare managers".into(), place: NavItem::Simulate, live: None, body })
}

/// Candidates that make sense for a conversation: bounds of a half and a quarter of what its largest call was sent.
async fn presets(viewer: &Viewer, conversation: &Conversation) -> Result<Vec<String>, HttpProblem> {
    let calls = known_calls(&viewer.app, conversation).await?;
    let most = calls.iter().filter_map(|call| Some(Spent::of(call)?.input)).max().unwrap_or(16_000);
    let bound = |part: u64| format!("{}k", (most / part).max(SMALLEST).div_ceil(1_000));
    let mut all: Vec<String> = vec![
        "passthrough".into(),
        format!("auto({})", bound(2)),
        format!("auto({})", bound(4)),
        format!("sticky(token_budget({}))", bound(2)),
        "clear_tool_results(3)".into(),
    ];
    // Of a small conversation both bounds are the smallest.
    all.dedup();
    Ok(all)
}

/// The conversations that a filter of the list left. One that was erased since is left out.
async fn filtered(viewer: &Viewer, wish: &SimulateQuery) -> Vec<Conversation> {
    let mut all = Vec::new();
    for id in wish.of.iter().take(TOGETHER).filter_map(|id| ConversationId::parse(id)) {
        all.extend(viewer.store().conversation(viewer.tenant(), &id).await.ok());
    }
    all
}

async fn run(
    viewer: &Viewer,
    wish: &SimulateQuery,
    chosen: Vec<Conversation>,
) -> Result<Comparison, HttpProblem> {
    let mut wanted = Vec::new();
    for one in chosen {
        if wish.whole {
            let tree = viewer.store().session_tree(viewer.tenant(), &one.session).await?;
            wanted.extend(tree.conversations.into_iter().map(|(conversation, _)| conversation));
        } else {
            wanted.push(one);
        }
    }
    let (all, mut entries_left_out) = (wanted.len(), 0u64);
    let (mut conversations, mut replayed, mut room) = (Vec::new(), Vec::new(), MOST_ENTRIES as u64);
    for conversation in wanted.into_iter().take(TOGETHER) {
        if room == 0 {
            break;
        }
        let below = conversation.head.min(room);
        entries_left_out += conversation.head - below;
        room -= below;
        let places = viewer.store().entries(viewer.tenant(), &conversation.id, 0, below).await?;
        let slots: Vec<Slot> = places.into_iter().map(|placed| placed.slot).collect();
        let newest = crate::recorded_calls::newest(&viewer.app, viewer.tenant(), &conversation.id).await?;
        let call = match newest {
            Some(call) => Some(call),
            None => known_calls(&viewer.app, &conversation).await?.pop(),
        };
        replayed.push(Replayed { slots, call });
        conversations.push(conversation);
    }
    let managers = wish.managers.iter().map(|text| Value::String(text.clone())).collect();
    let model = Some(wish.model.trim()).filter(|model| !model.is_empty());
    let candidates = Candidates { managers, ..Candidates::default() };
    let done = crate::api::compare_all(&viewer.app, replayed, candidates, model, Losses::Listed).await?;
    let left_out = (all > conversations.len() || entries_left_out > 0).then(|| {
        format!(
            "Compared over the first {} of {}{}: at most {} are replayed while you wait. `scrollback simulate` has no such limit.",
            conversations.len(),
            plural(all as u64, "conversation", "conversations"),
            if entries_left_out > 0 { ", the last of them without its newest entries" } else { "" },
            plural(MOST_ENTRIES as u64, "entry", "entries"),
        )
    });
    Ok(Comparison { conversations, compared: done.managers, advice: done.advice, left_out })
}

fn form(wish: &SimulateQuery, choices: &[(String, String)]) -> Markup {
    let shown = |place: usize| wish.managers.get(place).map_or("", String::as_str);
    html! {
        section.card { div.in {
            form.stack method="get" action="/lens/simulate" {
                div.fields {
                    @if wish.of.is_empty() {
                        div.wide { label for="conversation" { "Conversation" } select #conversation name="conversation" {
                            @for (id, name) in choices { option value=(id) selected[*id == wish.conversation] { (said(name)) } }
                        } }
                    } @else {
                        div.wide { strong { (plural(wish.of.len() as u64, "session", "sessions")) " of a filter" } a href="/lens/simulate" { "or choose one conversation" } @for id in &wish.of { input type="hidden" name="of" value=(id); } }
                    }
                    div { label for="model" { "Model, for counting and prices" } input #model name="model" value=(wish.model) placeholder="the one that was asked" autocomplete="off"; }
                    div { label { input type="checkbox" name="whole" value="1" checked[wish.whole]; " with its sub-agents and branches" } }
                }
                div.grid3 { @for place in 0..FIELDS.max(wish.managers.len()) {
                    div.stack.tight { label for=(format!("m{place}")) { "Manager " (place + 1) } input.mono id=(format!("m{place}")) name="m" value=(shown(place)) placeholder=(if place == 0 { "left empty: fitting ones" } else { "" }) spellcheck="false" autocomplete="off"; }
                } }
                div { button.first { "Compare" } " " a href="/lens/import" { "or import a transcript first" } }
            }
        } }
    }
}

/// Cost against what was kept, one numbered point for each candidate.
fn plot(compared: &[Compared]) -> Markup {
    let (width, height, left, right, top, bottom) = (640.0, 260.0, 54.0, 24.0, 18.0, 34.0);
    let points: Vec<(usize, &Figures, f64, f64)> = compared
        .iter()
        .enumerate()
        .filter_map(|(place, one)| Some((place + 1, &one.figures, one.figures.cost_ratio?, one.kept?)))
        .collect();
    let dearest = points.iter().map(|(_, _, cost, _)| *cost).fold(1.0, f64::max);
    let least = points.iter().map(|(_, _, _, kept)| *kept).fold(1.0, f64::min);
    let low = (least * 10.0).floor() / 10.0;
    let low = if low >= 1.0 { 0.9 } else { low };
    let x = |cost: f64| left + (width - left - right) * cost / dearest;
    let y = |kept: f64| height - bottom - (height - top - bottom) * (kept - low) / (1.0 - low);
    let mut told = String::from("Cost against what was kept.");
    for (number, one, cost, kept) in &points {
        let _ =
            write!(told, " {number}, {}: {cost:.2} times the cost, {:.0} % kept.", one.manager, kept * 100.0);
    }
    html! { @if points.len() > 1 {
        section.card aria-label="Cost against retention" { header { h2 { "Cost against retention" } span.soft.small { "what was kept where something was left out; up is better, left is cheaper; each number is a manager of the table" } } div.in {
            div.charted.plotted tabindex="0" { svg.chart role="img" aria-label=(told) viewBox=(format!("0 0 {width} {height}")) {
                @for part in 0..=2u32 {
                    @let kept = low + (1.0 - low) * f64::from(part) / 2.0;
                    line.grid x1=(left) x2=(width - right) y1=(y(kept)) y2=(y(kept)) {}
                    text x=(left - 6.0) y=(y(kept) + 3.0) text-anchor="end" { (format!("{:.0} %", kept * 100.0)) }
                }
                @for part in 0..=4u32 {
                    @let cost = dearest * f64::from(part) / 4.0;
                    text x=(x(cost)) y=(height - bottom + 14.0) text-anchor="middle" { (format!("{cost:.2}")) "×" }
                }
                text x=(width - right) y=(height - 6.0) text-anchor="end" { "cost, in proportion to sending everything" }
                @for (number, one, cost, kept) in &points {
                    g { title { (said(&one.manager)) }
                        circle.dot cx=(format!("{:.1}", x(*cost))) cy=(format!("{:.1}", y(*kept))) r="4.5" {}
                        text.name x=(format!("{:.1}", x(*cost) + 8.0)) y=(format!("{:.1}", y(*kept) + 3.0 + 10.0 * overlap(&points, *number))) { (number) } }
                }
            } }
        } }
    } }
}

/// How many points before this one stand so near that their numbers would cover one another.
fn overlap(points: &[(usize, &Figures, f64, f64)], number: usize) -> f64 {
    let Some((_, _, cost, kept)) = points.iter().find(|(own, ..)| *own == number) else { return 0.0 };
    let near = points.iter().filter(|(own, _, other, also)| {
        *own < number && (other - cost).abs() < 0.03 && (also - kept).abs() < 0.03
    });
    near.count() as f64
}

fn table(compared: &[Compared], conversations: usize) -> Markup {
    html! {
        section.card.candidates { header { h2 { "Side by side" } span.soft.small { "over " (plural(compared.iter().map(|one| one.figures.calls).max().unwrap_or(0), "call", "calls")) " of " (plural(conversations as u64, "conversation", "conversations")) } }
            div.scroll tabindex="0" { table.cards {
                thead { tr {
                    th scope="col" { "Manager" } th.n scope="col" { "Cost" } th.n scope="col" { "Against all" } th.n scope="col" { "Arguments kept" } th.n scope="col" { "Answers grounded" }
                    th.n scope="col" { "Input tokens" } th.n scope="col" { "From cache" } th.n scope="col" { "Largest call" } th.n scope="col" { "Cuts" } th.n scope="col" { "Task kept" } th.n scope="col" { "ms a view" }
                } }
                tbody { @for (place, compared) in compared.iter().enumerate() { @let one = &compared.figures; tr {
                    th scope="row" { (place + 1) ". " code { (said(&one.manager)) } @if compared.on_frontier { div.soft { "no other is cheaper and keeps more" } } @if let Some(why) = &one.stopped { div.soft { "gave up after " (one.calls) " calls: " (said(why)) } } }
                    td.n data-l="Cost" { @match one.cost_usd { Some(cost) => (dollars(cost)), None => span.faint { "–" } } }
                    td.n data-l="Against all" { @match one.cost_ratio { Some(ratio) => { (format!("{ratio:.2}")) "×" }, None => span.faint { "–" } } }
                    td.n data-l="Arguments kept" { (kept(one.argument_retention, one.at_cut.argument_retention)) }
                    td.n data-l="Answers grounded" { (kept(one.answer_grounding, one.at_cut.answer_grounding)) }
                    td.n data-l="Input tokens" title=(format!("{} tokens left out, {} entries rewritten", number(one.dropped_tokens), number(one.rewritten))) { (short(one.input_tokens)) }
                    td.n data-l="From cache" { @if one.input_tokens > 0 { (one.cache_read * 100 / one.input_tokens) " %" } @else { "–" } }
                    td.n data-l="Largest call" { (short(one.peak)) } td.n data-l="Cuts" { (number(one.cuts)) }
                    td.n data-l="Task kept" { (format!("{:.0} %", one.task_kept * 100.0)) }
                    td.n data-l="ms a view" { (format!("{:.2}", one.ms_p50)) div.soft { (format!("p99 {:.2}", one.ms_p99)) } }
                } } }
            } }
            div.in { p.soft.small { "Arguments kept: of the ids, paths and numbers that tools were called with and that had been said before, those the view still showed; answers grounded: the same for names and numbers in replies. At cut: where the manager's choice decided." } }
        }
    }
}

/// What each candidate would have lost: the value, the reply that used it, where it stood, and what left it out.
fn losses(done: &Comparison, eyes: Eyes<'_>) -> Markup {
    html! {
        section.card aria-label="What would have been lost" { header { h2 { "What would have been lost" } span.soft.small { "values that a reply used and its view did not show" } } div.in {
            @for (place, one) in done.compared.iter().enumerate() {
                details.fold id=(format!("lost{place}")) {
                    summary { span { (place + 1) ". " } code { (said(&one.figures.manager)) } span.soft { (plural(one.lost.len() as u64, "value", "values")) } }
                    div.in {
                        @if one.lost.is_empty() { p.soft { "Nothing that a reply used." } } @else {
                            div.scroll tabindex="0" { table.cards {
                                thead { tr { th scope="col" { "Value" } th scope="col" { "Used by" } th scope="col" { "Stood at" } th scope="col" { "Left out by" } } }
                                tbody { @for (conversation, lost) in one.lost.iter().take(LISTED) { @if let Some(conversation) = done.conversations.get(*conversation) { tr {
                                    th scope="row" { code { (eyes.glance(&lost.value, 80)) } }
                                    td data-l="Used by" { (lost.needed_by) " of " (place_link(conversation, lost.call)) }
                                    td data-l="Stood at" { (place_link(conversation, lost.stood_at)) }
                                    td data-l="Left out by" { (said(&lost.why)) }
                                } } } }
                            } }
                            @if one.lost.len() > LISTED { p.soft { "and " (one.lost.len() - LISTED) " more" } }
                        }
                    }
                }
            }
        } }
    }
}

/// A place of a conversation by its handle.
fn place_link(conversation: &Conversation, at: u64) -> Markup {
    let handle = Tail::parse(conversation.id.as_str()).map(|tail| Handle::at(tail, at).to_string());
    let shown = handle.unwrap_or_else(|| format!("#{at}"));
    html! { a.handle href=(format!("/lens/conversations/{}?at={at}#e{at}", conversation.id)) { (shown) } }
}

/// A share of what replies used, and below it the share where something was left out.
fn kept(all: Option<f64>, at_cut: Option<f64>) -> Markup {
    html! {
        @match all { Some(share) => (format!("{:.0} %", share * 100.0)), None => span.faint { "–" } }
        @if let Some(share) = at_cut { div.soft { (format!("at cut {:.0} %", share * 100.0)) } }
    }
}

/// Where the curves end, each with its number, those that end at the same place one below the other.
fn ends(figures: &[&Figures], height: f64, most: f64) -> Vec<(usize, f64)> {
    let of = |(place, one): (usize, &&Figures)| {
        let last = one.per_call.last()?;
        Some((place + 1, height - 7.0 - (height - 30.0) * last.tokens as f64 / most))
    };
    let mut all: Vec<(usize, f64)> = figures.iter().enumerate().filter_map(of).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut below = f64::INFINITY;
    for (_, y) in &mut all {
        *y = y.min(below - 10.0);
        below = *y;
    }
    all
}

/// Tokens call by call, one line for each candidate.
fn curves(figures: &[&Figures]) -> Markup {
    // Colours come again after five; the dashes and the numbers at the ends tell them apart.
    const CLASSES: [&str; 5] = ["k0", "k1", "k2", "k3", "k4"];
    const DASHES: [&str; 3] = ["none", "6 3", "2 3"];
    let (width, height, left) = (960.0, 200.0, 44.0);
    let right = 22.0;
    let dash = |place: usize| DASHES.get(place % DASHES.len()).copied().unwrap_or("none");
    let most = figures.iter().map(|one| one.peak).max().unwrap_or(1).max(1) as f64;
    let line = |one: &Figures| {
        let across = (width - left - right) / one.per_call.len().max(2).saturating_sub(1) as f64;
        let point = |(place, call): (usize, &CallFigures)| {
            let (x, y) =
                (left + across * place as f64, height - 10.0 - (height - 30.0) * call.tokens as f64 / most);
            format!("{x:.1},{y:.1}")
        };
        one.per_call.iter().enumerate().map(point).collect::<Vec<_>>().join(" ")
    };
    if figures.iter().all(|one| one.per_call.is_empty()) {
        return html! {};
    }
    html! {
        section.card { header { h2 { "Tokens sent, call by call" } } div.in {
            div.charted tabindex="0" { svg.chart role="img" aria-label="Tokens of each call under each manager; the table above has the sums." viewBox=(format!("0 0 {width} {height}")) {
                line.grid x1=(left) x2=(width) y1=(height - 10.0) y2=(height - 10.0) {}
                line.grid x1=(left) x2=(width) y1="20" y2="20" {}
                text x=(left - 6.0) y="23" text-anchor="end" { (short(most as u64)) } text x=(left - 6.0) y=(height - 7.0) text-anchor="end" { "0" }
                @for (place, (one, class)) in figures.iter().zip(CLASSES.iter().cycle()).enumerate() { polyline.curve.(class) stroke-dasharray=(dash(place)) points=(line(one)) { title { (place + 1) ". " (said(&one.manager)) } } }
                @for (number, y) in ends(figures, height, most) { text.name x=(width - right + 6.0) y=(format!("{y:.1}")) { (number) } }
            } }
            ul.legend { @for (place, (one, class)) in figures.iter().zip(CLASSES.iter().cycle()).enumerate() { li { svg.line aria-hidden="true" viewBox="0 0 24 10" { polyline.curve.(class) stroke-dasharray=(dash(place)) points="0,5 24,5" {} } (place + 1) ". " (said(&one.manager)) } } }
        } }
    }
}
