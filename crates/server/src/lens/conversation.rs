//! One conversation: the record as a timeline, and beside it what the chosen call saw of it.

use std::collections::BTreeMap;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use scrollback_core::model::ModelName;
use scrollback_core::recall::Handle;
use scrollback_core::wire::{Wire, tools_key};
use scrollback_core::{CurationContext, Entry, Slot, Summaries, json, manager};
use scrollback_store::{Conversation, ConversationId, Sent, StoredEntry, recall};
use serde::Deserialize;

use super::cache_account::account;
use super::cache_chart::{CacheBar, cache_chart};
use super::chart::{Bar, chart};
use super::long_text::{TextQuery, long_text};
use super::page::{self, NavItem, coded};
use super::panel::{self, Chosen};
use super::session_row::{conversation_title, page_title};
use super::session_tree::{Helper, SessionAround};
use super::text::{dollars, number, plural, said, short};
use super::timeline::{TimelineContext, fold, indented};
use super::viewer::{PageContent, Viewer};
use crate::known_calls::{is_reported, known_calls, record_at};
use crate::usage::{self, Spent, Total};
use crate::visibility::CallVisibility;
use crate::{HttpProblem, recorded_calls};
use scrollback_core::replay::{RepeatedCall, Seen, course};

/// Places of one page of the timeline.
const PAGE: u64 = 200;
/// Records up to this long are looked at as a whole before the first paint; longer ones after it.
const AT_ONCE: u64 = 1_500;
/// Calls the chart shows at once.
const BARS: usize = 80;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct ConversationQuery {
    /// The call to look at, by number or id.
    call: String,
    /// A manager to try out instead.
    m: String,
    /// A position that shall be on the page.
    at: Option<u64>,
}

/// Everything a page of a conversation is made of.
struct ConversationPage {
    conversation: Conversation,
    calls: Vec<Sent>,
    /// Place of the chosen call among them.
    chosen: Option<usize>,
    tried: Option<String>,
    href: String,
}

async fn load(viewer: &Viewer, id: &str, wish: &ConversationQuery) -> Result<ConversationPage, HttpProblem> {
    let id = ConversationId::parse(id).ok_or_else(|| HttpProblem::not_found("conversation"))?;
    let conversation = viewer.store().conversation(viewer.tenant(), &id).await?;
    let calls = known_calls(&viewer.app, &conversation).await?;
    let chosen = match wish.call.as_str() {
        "" => calls.len().checked_sub(1),
        wanted => {
            let by_number = wanted.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let by_number = by_number.filter(|place| *place < calls.len());
            let found = by_number.or_else(|| calls.iter().position(|call| call.id == wanted));
            Some(found.ok_or_else(|| HttpProblem::not_found("call of this conversation"))?)
        }
    };
    let tried = (!wish.m.trim().is_empty()).then(|| wish.m.trim().to_string());
    let href = format!("/lens/conversations/{id}");
    Ok(ConversationPage { conversation, calls, chosen, tried, href })
}

/// What was worked out from the whole record.
struct Studied {
    sight: Result<CallVisibility, String>,
    tokens: BTreeMap<u64, u64>,
    bars: Vec<Bar>,
    /// The tools that the chosen call offered.
    tools: Vec<OfferedTool>,
}

/// A tool of a request, as far as a person wants to know.
struct OfferedTool {
    name: String,
    description: String,
}

/// The tools of a request, in their order.
fn offered(call: &Sent) -> Vec<OfferedTool> {
    let list = || {
        let wire = Wire::named(&call.wire)?;
        let body = json::check_bytes(call.request.as_deref()?).ok()?;
        let tools = body.get(tools_key(wire))?.elements();
        let text = |tool: json::Raw<'_>, key: &str| {
            let own = tool.get(key).or_else(|| tool.get("function")?.get(key));
            own.and_then(|text| Some(text.string()?.into_owned()))
        };
        let of = |tool: json::Raw<'_>| {
            let name = text(tool, "name").or_else(|| text(tool, "type"));
            let description = text(tool, "description").unwrap_or_default();
            Some(OfferedTool { name: name?, description })
        };
        Some(tools.filter_map(of).collect::<Vec<_>>())
    };
    list().unwrap_or_default()
}

/// Repeats the chosen call, and the ones around it for the chart.
async fn study(viewer: &Viewer, loaded: &ConversationPage) -> Result<Studied, HttpProblem> {
    let (store, tenant) = (viewer.store(), viewer.tenant());
    let record = store.record(tenant, &loaded.conversation.id, None).await?;
    let chosen = loaded.chosen.and_then(|place| loaded.calls.get(place)).filter(|_| loaded.tried.is_none());
    let whole = match chosen {
        Some(call) if is_reported(call) => Some(call.clone()),
        Some(call) => Some(store.call(tenant, &call.id).await?),
        None => None,
    };
    let tools = whole.as_ref().and_then(recorded_calls::tools);
    let listed = whole.as_ref().map(offered).unwrap_or_default();
    let model = loaded.calls.last().and_then(|call| ModelName::parse(&call.model).ok());
    let asked = match (&loaded.tried, chosen) {
        (Some(text), _) => {
            manager::parse(text).map_err(|error| error.to_string()).map(|manager| RepeatedCall {
                upto: record.len() as u64,
                manager,
                cx: CurationContext {
                    summaries: Summaries::InPlace,
                    ..recorded_calls::context(&viewer.app, model.clone())
                },
            })
        }
        (None, Some(call)) => recorded_calls::asked(&viewer.app, call, tools.clone()),
        (None, None) => Ok(RepeatedCall {
            upto: record.len() as u64,
            manager: std::sync::Arc::new(manager::Passthrough),
            cx: recorded_calls::context(&viewer.app, model.clone()),
        }),
    };
    let around = window(loaded.calls.len(), loaded.chosen.unwrap_or(0));
    let shown: Vec<(usize, Sent)> =
        loaded.calls.iter().cloned().enumerate().skip(around.start).take(around.len()).collect();
    let repeated: Vec<(usize, Option<u64>, RepeatedCall)> = shown
        .iter()
        .filter_map(|(place, call)| {
            let asked = recorded_calls::asked(&viewer.app, call, tools.clone()).ok()?;
            Some((*place, Spent::of(call).map(|spent| spent.cache_read), asked))
        })
        .collect();
    let (href, chosen) = (loaded.href.clone(), loaded.chosen.filter(|_| loaded.tried.is_none()));
    crate::blocking(move || {
        let cx = CurationContext::for_model(model);
        let tokens = crate::visibility::tokens(&record, &cx);
        let upto = asked.as_ref().map_or_else(
            |_| whole.as_ref().map_or(record.len() as u64, |call| call.upto),
            |asked| asked.upto,
        );
        let reported = whole.as_ref().is_some_and(is_reported);
        let as_reported = || {
            let then = record_at(&record, upto)?;
            Ok(CallVisibility::of(&then, &asked, None, &tokens)?.reported(upto, &tokens))
        };
        let sight = if reported {
            as_reported()
        } else {
            recorded_calls::record_upto(&record, upto).and_then(|then| {
                let sent = whole.as_ref().and_then(recorded_calls::sent_body);
                CallVisibility::of(then.as_ref().unwrap_or(&record), &asked, sent.as_ref(), &tokens)
            })
        };
        Studied { sight, tokens, bars: bars(record.slots(), repeated, &href, chosen), tools: listed }
    })
    .await
}

fn bars(
    slots: &[Slot],
    calls: Vec<(usize, Option<u64>, RepeatedCall)>,
    href: &str,
    chosen: Option<usize>,
) -> Vec<Bar> {
    let (mut places, mut asked) = (Vec::with_capacity(calls.len()), Vec::with_capacity(calls.len()));
    for (place, cached, call) in calls {
        places.push((place, cached));
        asked.push(call);
    }
    let seen = course(slots, &asked);
    let bar = |((place, cached), seen): ((usize, Option<u64>), Result<Seen, _>)| {
        let seen = seen.ok()?;
        Some(Bar {
            number: place + 1,
            href: format!("{href}?call={}", place + 1),
            tokens: seen.tokens,
            cached,
            cut: seen.cut,
            chosen: chosen == Some(place),
        })
    };
    places.into_iter().zip(seen).filter_map(bar).collect()
}

/// The calls around the chosen one.
fn window(of: usize, chosen: usize) -> std::ops::Range<usize> {
    let start = chosen.saturating_sub(BARS / 2).min(of.saturating_sub(BARS));
    start..of.min(start + BARS)
}

pub(crate) async fn show(
    viewer: Viewer,
    Path(id): Path<String>,
    Query(wish): Query<ConversationQuery>,
) -> Response {
    viewer.answer(made(&viewer, &id, &wish).await)
}

async fn made(viewer: &Viewer, id: &str, wish: &ConversationQuery) -> Result<PageContent, HttpProblem> {
    let loaded = load(viewer, id, wish).await?;
    let head = loaded.conversation.head;
    let last = head.saturating_sub(1) / PAGE * PAGE;
    // A call that was asked for is looked at where it was made.
    let call = loaded.chosen.filter(|_| !wish.call.is_empty()).and_then(|at| loaded.calls.get(at));
    let at = wish.at.or_else(|| call.map(|call| call.upto));
    let from = at.map_or(last, |at| at.min(head.saturating_sub(1)) / PAGE * PAGE);
    let below = (from + PAGE).min(head);
    let (store, tenant) = (viewer.store(), viewer.tenant());
    let places = store.entries(tenant, &loaded.conversation.id, from, below).await?;
    let studied = if head <= AT_ONCE { Some(study(viewer, &loaded).await?) } else { None };
    let session = SessionAround::of(viewer, &loaded.conversation).await?;
    let title = if session.is_main(&loaded.conversation) {
        session.title.clone()
    } else {
        conversation_title(viewer, &loaded.conversation).await?
    };
    let messages = store.recent(tenant, &loaded.conversation.id, 0).await?.messages;
    let query = format!("call={}&m={}", coded(&wish.call), coded(&wish.m));
    let tree = session.show(&loaded.conversation.id);
    let helpers = session.helpers_of(&loaded.conversation.id);
    let follows_session = session.count() > 1 || session.is_named();
    let body = html! {
        @if follows_session { span hidden data-live-of=(session.ids()) {} }
        (heading(viewer, &loaded, &session, &title, messages))
        @if let Some(studied) = &studied { (charts(viewer, &loaded, studied)) }
        div.two.with-tree[tree.is_some()] {
            @if let Some(tree) = &tree { (tree) }
            div {
                section.card aria-label="The record" {
                    header { h2 { "The record" } span.soft.small { "everything that was said" @if head > PAGE { ", #" (from) " to #" (below.saturating_sub(1)) } } }
                    (pager(&loaded.href, &query, from, head))
                    @if let Some(studied) = &studied { div data-fresh="tools" { (tools(viewer, &loaded, &studied.tools)) } }
                    div data-fresh="timeline" { (timeline(viewer, &loaded, &places, studied.as_ref(), &helpers)) }
                    (pager(&loaded.href, &query, from, head))
                }
            }
            div.side {
                @match &studied {
                    Some(studied) => (beside(viewer, &loaded, studied)),
                    None => {
                        div data-fresh="calls" { (panel::calls(&chosen(&loaded))) }
                        @let part = format!("{}/sight?{query}", loaded.href);
                        div data-fresh="sight" data-part=(part) { p.card.in { a href=(part) { "Work out what this call saw" } span.soft { " (the record is long)" } } }
                    }
                }
            }
        }
    };
    let live = if follows_session {
        "/api/events".into()
    } else {
        format!("/api/events?conversation={}", loaded.conversation.id)
    };
    Ok(PageContent { title, place: NavItem::Sessions, live: Some(live), body })
}

/// The tools that the chosen call offered, folded.
fn tools(viewer: &Viewer, loaded: &ConversationPage, tools: &[OfferedTool]) -> Markup {
    let call = loaded.chosen.and_then(|place| loaded.calls.get(place));
    html! { @if let (Some(call), false) = (call, tools.is_empty()) {
        div.in { details.fold #tools {
            summary { span.soft { (plural(tools.len() as u64, "tool", "tools")) " that the chosen call offered" } span { (viewer.eyes().glance(&tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", "), 90)) } }
            div.in {
                dl.tools { @for tool in tools { div { dt { code { (viewer.eyes().glance(&tool.name, 80)) } } dd { (viewer.eyes().glance(&tool.description, 200)) } } } }
                p.small { a href=(format!("/lens/calls/{}#what-was-sent", coded(&call.id))) { "Their definitions, as they were sent" } }
            }
        } }
    } }
}

fn chosen(loaded: &ConversationPage) -> Chosen<'_> {
    Chosen {
        href: &loaded.href,
        call: loaded.chosen.and_then(|place| loaded.calls.get(place)),
        number: loaded.chosen.map_or(0, |place| place + 1),
        of: loaded.calls.len(),
        tried: loaded.tried.as_deref(),
    }
}

/// The panel beside the timeline.
fn beside(viewer: &Viewer, loaded: &ConversationPage, studied: &Studied) -> Markup {
    let chosen = chosen(loaded);
    let managers = match (&loaded.tried, chosen.call) {
        (Some(tried), _) => tried.clone(),
        (None, Some(call)) => recorded_calls::spelled(&call.managers),
        (None, None) => "passthrough".into(),
    };
    let sent = chosen.call.filter(|_| loaded.tried.is_none()).and_then(usage::request_tokens);
    let (sight, problem) = match &studied.sight {
        Ok(sight) => (Some(sight), None),
        Err(problem) => (None, Some(problem.as_str())),
    };
    html! {
        div data-fresh="side" {
            (panel::calls(&chosen))
            @if let Some(sight) = sight { (panel::saw(sight, sent, &loaded.href, &managers, loaded.conversation.head, viewer.eyes())) }
            (panel::try_out(&loaded.href, loaded.tried.as_deref(), problem))
        }
    }
}

/// The chart of the calls around the chosen one. Of calls that a transcript reports only its own numbers are shown: what their
/// requests held is not in it.
fn charts(viewer: &Viewer, loaded: &ConversationPage, studied: &Studied) -> Markup {
    if !loaded.calls.iter().any(is_reported) {
        return charted(&studied.bars);
    }
    let told = account(&loaded.calls, |model: &ModelName| viewer.app.catalog.prices(model));
    let around = window(told.len(), loaded.chosen.unwrap_or(0));
    let bars: Vec<CacheBar> = told
        .iter()
        .enumerate()
        .skip(around.start)
        .take(around.len())
        .filter_map(|(at, one)| {
            let spent = one.spent?;
            Some(CacheBar {
                name: format!("Call {}", at + 1),
                href: format!("{}?call={}", loaded.href, at + 1),
                read: spent.cache_read,
                written: spent.cache_write,
                uncached: one.uncached(),
                lost: one.lost,
                cost: spent.cost_usd,
                chosen: loaded.chosen == Some(at),
            })
        })
        .collect();
    html! { @if !bars.is_empty() {
        section.card aria-label="Tokens by call" data-fresh="chart" { header { h2 { "Tokens by call" } span.soft.small { "input as the transcript reports it; a mark above a bar is a break" } } div.in { (cache_chart(&bars)) } }
    } }
}

fn charted(bars: &[Bar]) -> Markup {
    html! { @if !bars.is_empty() {
        section.card aria-label="Tokens by call" data-fresh="chart" { header { h2 { "Tokens by call" } span.soft.small { "what each call was sent, by who said it" } } div.in { (chart(bars)) } }
    } }
}

fn heading(
    viewer: &Viewer,
    loaded: &ConversationPage,
    session: &SessionAround,
    title: &str,
    messages: u64,
) -> Markup {
    let conversation = &loaded.conversation;
    let total = Total::of(&loaded.calls);
    let is_one_of_many = session.count() > 1;
    let why = format!("/lens/sessions/{}/cache", conversation.session);
    let id = &conversation.id;
    html! {
        nav.crumbs aria-label="You are here" { a href="/lens" { "Sessions" } " / " @if !session.is_main(conversation) { a href=(format!("/lens/sessions/{}", conversation.session)) { (said(&session.title)) } " / " } (said(title)) }
        div.head { h1 { (said(title)) } (page::status(conversation.status().name()))
            @if let Some(parent) = &conversation.parent { a href=(format!("/lens/conversations/{parent}?at={0}#e{0}", conversation.fork_position.unwrap_or(0))) { "forked at #" (conversation.fork_position.unwrap_or(0)) } }
        }
        section.card aria-label="In short" data-fresh="short" { div.in { dl.facts {
            @if let Some(recipient) = &conversation.recipient { div { dt { "Recipient" } dd { (viewer.eyes().said(recipient.as_str())) } } }
            div { dt { "Turns" } dd { (number(conversation.turns)) } }
            div { dt { "Entries" } dd { (number(messages)) } }
            div { dt { "Calls" } dd { (number(total.calls)) } }
            @if total.calls > 0 {
                div { dt { (total.input_word()) } dd { (short(total.input)) @if total.estimated_calls > 0 && total.reported_calls() > 0 { small { " · " (plural(total.estimated_calls, "call", "calls")) " estimated" } } @if total.cache_read > 0 { small { " · " (short(total.cache_read)) " cached" } } } }
                div { dt { "Output" } dd { (short(total.output)) } }
            }
            @if let Some(cost) = total.cost_usd { div { dt { @if is_one_of_many { "Cost of this conversation" } @else { "Cost" } } dd { (dollars(cost)) @if !is_one_of_many { " " small { a href=(why) { "why" } } } } } }
            @if is_one_of_many { div { dt { "Cost of the session" } dd { @match session.total.and_then(|total| total.cost_usd) { Some(cost) => { (dollars(cost)) " " small { a href=(why) { "why" } } }, None => small { a href=(why) { "cost and cache" } } } } } }
            @if let Some(project) = &conversation.project { div { dt { "Project" } dd { (viewer.eyes().said(project)) } } }
            div { dt { "Last said" } dd { (page::time(conversation.last_said_at.unwrap_or(conversation.updated_at))) } }
            div { dt { "As a file" } dd { a href=(format!("/api/export?conversation={id}")) download=(format!("{id}.jsonl")) { "export" } " · " a data-key="c" href=(format!("/lens/simulate?conversation={id}")) { "compare managers" } } }
            (reveal(viewer, &loaded.href))
        } } }
    }
}

/// A way to see what is redacted, for those who may.
pub(crate) fn reveal(viewer: &Viewer, href: &str) -> Markup {
    html! {
        @if viewer.sees_all() { div { dt { "Secrets" } dd { span.chip.warn { "shown" } " " a href=(href) { "hide" } } } }
        @else if page::may_reveal(&viewer.caller) { div { dt { "Secrets" } dd { "hidden " a href=(format!("{href}?reveal=1")) rel="nofollow" { "show" } } } }
    }
}

fn pager(href: &str, query: &str, from: u64, head: u64) -> Markup {
    let to = |at: u64| format!("{href}?{query}&at={at}");
    html! { @if head > PAGE {
        nav.pager.in aria-label="Pages of the record" {
            @if from > 0 { a.button href=(to(0)) { "First" } a.button href=(to(from - PAGE)) { "Earlier" } }
            span.soft.small { (plural(head, "place", "places")) ", page " (from / PAGE + 1) " of " (head.div_ceil(PAGE)) }
            @if from + PAGE < head { a.button href=(to(from + PAGE)) { "Later" } a.button href=(to(head - 1)) { "Last" } }
        }
    } }
}

fn timeline(
    viewer: &Viewer,
    loaded: &ConversationPage,
    places: &[StoredEntry],
    studied: Option<&Studied>,
    helpers: &[Helper],
) -> Markup {
    let none = BTreeMap::new();
    let calls = loaded.calls.iter();
    // Where calls were made, so that the timeline says what each reply answers.
    let made: BTreeMap<u64, usize> = calls.enumerate().map(|(place, call)| (call.upto, place)).collect();
    let around = TimelineContext {
        href: loaded.href.clone(),
        eyes: viewer.eyes(),
        sight: studied.and_then(|studied| studied.sight.as_ref().ok()),
        tokens: studied.map_or(&none, |studied| &studied.tokens),
        calls: made,
        helpers,
    };
    html! {
        @if places.is_empty() { p.in { "Nothing was said yet." } }
        ol.timeline { @for item in fold(places) { (around.item(&item)) } }
    }
}

/// The place that a handle names, on the page of its conversation.
pub(crate) async fn handle(viewer: Viewer, Path(handle): Path<String>) -> Response {
    let found = async {
        let named: Handle = handle.parse().map_err(|_| HttpProblem::not_found("handle"))?;
        let conversation = recall::resolve(viewer.store(), viewer.tenant(), &named).await;
        let conversation = conversation.map_err(|no_answer| match no_answer {
            recall::NoAnswer::Store(error) => error.into(),
            recall::NoAnswer::Refused(_) => HttpProblem::not_found("handle"),
        })?;
        let id = conversation.id;
        Ok::<_, HttpProblem>(match named.positions() {
            Some((first, _)) => format!("/lens/conversations/{id}?at={first}#e{first}"),
            None => format!("/lens/conversations/{id}"),
        })
    };
    match found.await {
        Ok(to) => Redirect::to(&to).into_response(),
        Err(problem) => viewer.answer(Err(problem)),
    }
}

/// The part that is worked out after the first paint of a long record.
pub(crate) async fn sight(
    viewer: Viewer,
    Path(id): Path<String>,
    Query(wish): Query<ConversationQuery>,
) -> Response {
    let made = async {
        let loaded = load(&viewer, &id, &wish).await?;
        let studied = study(&viewer, &loaded).await?;
        let chosen = chosen(&loaded);
        let managers = chosen.call.map_or_else(String::new, |call| recorded_calls::spelled(&call.managers));
        let managers = loaded.tried.clone().unwrap_or(managers);
        let sent = chosen.call.filter(|_| loaded.tried.is_none()).and_then(usage::request_tokens);
        let problem = studied.sight.as_ref().err().map(String::as_str);
        Ok::<_, HttpProblem>(html! {
            @if let Ok(sight) = &studied.sight { (panel::saw(sight, sent, &loaded.href, &managers, loaded.conversation.head, viewer.eyes())) }
            (charts(&viewer, &loaded, &studied))
            (panel::try_out(&loaded.href, loaded.tried.as_deref(), problem))
        })
    };
    match made.await {
        Ok(markup) => page::framed(StatusCode::OK, markup),
        Err(problem) => problem.into_response(),
    }
}

/// All texts of an entry: its reasoning, what it says, the arguments of its calls.
fn everything(entry: &Entry) -> String {
    let reasoning = crate::api::shapes::reasoning(entry);
    let calls = entry
        .tool_calls()
        .map(|call| format!("{}\n{}", call.name.as_str(), indented(&call.arguments.as_str())));
    let said = entry.content().filter(|said| !said.is_empty());
    reasoning.into_iter().chain(said).chain(calls).collect::<Vec<_>>().join("\n\n")
}

/// One entry, all of it: a text of any length, page by page.
pub(crate) async fn entry(
    viewer: Viewer,
    Path((id, position)): Path<(String, u64)>,
    Query(wish): Query<TextQuery>,
) -> Response {
    viewer.answer(whole(&viewer, &id, position, &wish).await)
}

async fn whole(
    viewer: &Viewer,
    id: &str,
    position: u64,
    wish: &TextQuery,
) -> Result<PageContent, HttpProblem> {
    let id = ConversationId::parse(id).ok_or_else(|| HttpProblem::not_found("conversation"))?;
    let places = viewer.store().entries(viewer.tenant(), &id, position, position.saturating_add(1)).await?;
    let found = places.first().ok_or_else(|| HttpProblem::not_found("entry"))?;
    let Slot::Message(entry) = &found.slot else {
        return Err(HttpProblem::not_found("message at this position"));
    };
    let conversation = viewer.store().conversation(viewer.tenant(), &id).await?;
    let name = page_title(viewer, &conversation).await?;
    let text = viewer.eyes().see(&everything(entry)).into_owned();
    let here = format!("/lens/conversations/{id}/entries/{position}");
    let body = html! {
        nav.crumbs aria-label="You are here" { a href="/lens" { "Sessions" } " / " a href=(format!("/lens/conversations/{id}?at={position}#e{position}")) { (said(&name)) } " / #" (position) }
        div.head { h1 { "Entry #" (position) } (page::role(entry.role)) (page::time(entry.created_at)) }
        (long_text(&text, wish, &here))
    };
    Ok(PageContent { title: format!("Entry #{position}"), place: NavItem::Sessions, live: None, body })
}
