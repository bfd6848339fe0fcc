//! The start: sessions with what they cost; with an empty store, what to do first.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use scrollback_store::{
    CallListing, ConversationId, ConversationKind, Cursor, Sent, SessionListing, SessionTree, Status,
};
use serde::Deserialize;

use super::day_strip::day_strip;
use super::page::{self, NavItem, coded};
use super::session_row::{SessionRow, begins, client, session_title, short_model};
use super::simulate::TOGETHER;
use super::text::{dollars, lasting, number, plural, said, short};
use super::viewer::{PageContent, Viewer};
use super::welcome::welcome;
use crate::HttpProblem;
use crate::known_calls::{known_calls, reported};
use crate::usage::Total;

/// Sessions of one page.
const PAGE: usize = 50;
/// Sessions that are added up, sorted and filtered.
const MOST: usize = 10_000;
/// Calls that are added up.
const CALLS: usize = 500_000;
/// Sessions that are read from the store at once.
const BATCH: usize = 500;

#[derive(Clone, Deserialize, Default)]
#[serde(default)]
pub(crate) struct SessionsQuery {
    q: String,
    client: String,
    model: String,
    recipient: String,
    project: String,
    status: String,
    errors: String,
    sort: String,
    page: usize,
}

impl SessionsQuery {
    fn is_filtered(&self) -> bool {
        [&self.q, &self.client, &self.model, &self.recipient, &self.project, &self.status, &self.errors]
            .iter()
            .any(|text| !text.trim().is_empty())
    }

    /// Whether a field beside the words is given.
    fn has_more(&self) -> bool {
        SessionsQuery { q: String::new(), ..self.clone() }.is_filtered()
    }

    /// The address of a page of the list that is filtered and sorted in this way.
    fn href(&self, path: &str, sort: &str, page: usize) -> String {
        let fields = [
            ("q", self.q.as_str()),
            ("client", &self.client),
            ("model", &self.model),
            ("recipient", &self.recipient),
            ("project", &self.project),
            ("status", &self.status),
            ("errors", &self.errors),
            ("sort", sort),
        ];
        let given = fields.iter().filter(|(_, value)| !value.trim().is_empty());
        let mut pairs: Vec<String> = given.map(|(name, value)| format!("{name}={}", coded(value))).collect();
        if page > 0 {
            pairs.push(format!("page={page}"));
        }
        if pairs.is_empty() { path.into() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

/// A column of the list: its name in addresses, its heading, and how rows are ordered by it, the largest first.
type Column = (&'static str, &'static str, fn(&SessionRow, &SessionRow) -> Ordering);

const COLUMNS: [Column; 11] = [
    ("title", "Session", |one, other| name(other).cmp(name(one))),
    ("client", "Client", |one, other| other.client().cmp(one.client())),
    ("model", "Model", |one, other| other.models.last().cmp(&one.models.last())),
    ("turns", "Turns", |one, other| one.turns.cmp(&other.turns)),
    ("calls", "Calls", |one, other| one.total.calls.cmp(&other.total.calls)),
    ("tokens", "Tokens", |one, other| tokens(one).cmp(&tokens(other))),
    ("cached", "Cached", |one, other| cached(one).cmp(&cached(other))),
    ("cost", "Cost", |one, other| cost(one).total_cmp(&cost(other))),
    ("errors", "Errors", |one, other| one.errors.cmp(&other.errors)),
    ("duration", "Duration", |one, other| duration(one).cmp(&duration(other))),
    ("last", "Last activity", |one, other| one.last.cmp(&other.last)),
];

/// The column by which the list is ordered if no other is chosen.
const LAST: Column = COLUMNS[COLUMNS.len() - 1];

fn name(row: &SessionRow) -> &str {
    row.tree.title().unwrap_or_default()
}

fn tokens(row: &SessionRow) -> u64 {
    row.total.input + row.total.output
}

fn cached(row: &SessionRow) -> u64 {
    (row.total.cache_read * 10_000).checked_div(row.total.input).unwrap_or(0)
}

fn cost(row: &SessionRow) -> f64 {
    row.total.cost_usd.unwrap_or(-1.0)
}

fn duration(row: &SessionRow) -> i64 {
    row.last.0 - row.began.0
}

pub(crate) async fn show(viewer: Viewer, Query(wish): Query<SessionsQuery>) -> Response {
    viewer.answer(made(&viewer, &wish).await)
}

/// The sums above the list, fetched after the first paint where there are many sessions.
pub(crate) async fn sums(viewer: Viewer, Query(wish): Query<SessionsQuery>) -> Response {
    let made = async {
        let (trees, more) = trees(&viewer, MOST).await?;
        let rows = rows_of(&viewer, trees).await?;
        let rows = fitting(&viewer, rows, &wish).await?;
        Ok::<_, HttpProblem>(totals(&rows, more))
    };
    match made.await {
        Ok(markup) => page::framed(StatusCode::OK, markup),
        Err(problem) => problem.into_response(),
    }
}

async fn made(viewer: &Viewer, wish: &SessionsQuery) -> Result<PageContent, HttpProblem> {
    if !wish.status.is_empty() {
        crate::api::status_named(&wish.status)?;
    }
    let plain = !wish.is_filtered() && wish.sort.is_empty();
    // In the order of the store only the sessions up to this page are read; their sums come after the first paint, where there are
    // more. A filter and another order look at everything.
    let upto = if plain { wish.page.saturating_add(1).saturating_mul(PAGE).min(MOST) } else { MOST };
    let (first, more) = trees(viewer, upto).await?;
    let mut together = None;
    let (rows, sums, pages) = if more && plain {
        let shown: Vec<SessionTree> = first.into_iter().skip(wish.page * PAGE).take(PAGE).collect();
        (rows_of(viewer, shown).await?, None, None)
    } else {
        let rows = rows_of(viewer, first).await?;
        let mut rows = fitting(viewer, rows, wish).await?;
        sort(&mut rows, &wish.sort);
        together = compare_these(&rows).filter(|_| wish.is_filtered());
        let (sums, pages) = (totals(&rows, more), rows.len().div_ceil(PAGE));
        (rows.into_iter().skip(wish.page * PAGE).take(PAGE).collect(), Some(sums), Some(pages))
    };
    let nothing = rows.is_empty() && plain && wish.page == 0;
    let next = pages.map_or(rows.len() == PAGE, |pages| wish.page + 1 < pages);
    let body = html! {
        @if nothing { (welcome(viewer)) } @else {
            div.head { h1 { "Sessions" } }
            (filter(wish))
            @match sums {
                Some(sums) => div data-fresh="sums" { (sums) },
                None => { @let part = wish.href("/lens/sums", "", 0); div data-fresh="sums" data-part=(part) { p.card.in { a href=(part) { "Add up all sessions" } } } }
            }
            @if let Some(together) = &together { p { (together) } }
            (list(viewer, &rows, wish).await?)
            @if wish.page > 0 || next { nav.pager aria-label="Pages" {
                @if wish.page > 0 { a.button rel="prev" href=(wish.href("/lens", &wish.sort, wish.page - 1)) { "Newer" } }
                @if next { a.button rel="next" href=(wish.href("/lens", &wish.sort, wish.page + 1)) { "Older" } }
            } }
        }
    };
    let live = Some("/api/events".into());
    Ok(PageContent { title: "Sessions".into(), place: NavItem::Sessions, live, body })
}

/// The way to compare managers over the sessions of a filter.
fn compare_these(rows: &[SessionRow]) -> Option<Markup> {
    let roots = rows.iter().filter_map(|row| row.tree.root());
    let ids: Vec<String> = roots.take(TOGETHER).map(|root| format!("of={}", root.id)).collect();
    (ids.len() > 1).then(|| {
        html! {
            a data-key="c" href=(format!("/lens/simulate?{}", ids.join("&"))) { "Compare managers over " @if rows.len() > ids.len() { "the first " (ids.len()) " of these" } @else { "these " (ids.len()) " sessions" } }
        }
    })
}

/// The sessions that were written last, and whether there are more.
async fn trees(viewer: &Viewer, most: usize) -> Result<(Vec<SessionTree>, bool), HttpProblem> {
    let (mut all, mut after): (Vec<SessionTree>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let listing = SessionListing { limit: BATCH.min(most - all.len()), after };
        let page = viewer.store().sessions(Some(viewer.tenant()), listing).await?;
        all.extend(page.sessions);
        match page.next {
            Some(next) if all.len() < most => after = Some(next),
            next => return Ok((all, next.is_some())),
        }
    }
}

/// Sessions with the sums of their calls.
async fn rows_of(viewer: &Viewer, trees: Vec<SessionTree>) -> Result<Vec<SessionRow>, HttpProblem> {
    let mut calls: BTreeMap<ConversationId, Vec<Sent>> = BTreeMap::new();
    let many = trees.len() > PAGE;
    if many {
        // One question for all of them.
        let listing = CallListing { conversation: None, limit: CALLS, after: None };
        for call in viewer.store().calls(viewer.tenant(), listing).await?.calls {
            calls.entry(call.conversation.clone()).or_default().push(call);
        }
    }
    for (conversation, _) in trees.iter().flat_map(|tree| &tree.conversations) {
        if !many {
            calls.insert(conversation.id.clone(), known_calls(&viewer.app, conversation).await?);
        } else if !calls.contains_key(&conversation.id) {
            let found = reported(&viewer.app, conversation).await?;
            if !found.is_empty() {
                calls.insert(conversation.id.clone(), found.to_vec());
            }
        }
    }
    Ok(trees.into_iter().map(|tree| SessionRow::of(tree, &calls)).collect())
}

/// The sessions that a filter leaves.
async fn fitting(
    viewer: &Viewer,
    rows: Vec<SessionRow>,
    wish: &SessionsQuery,
) -> Result<Vec<SessionRow>, HttpProblem> {
    if !wish.is_filtered() {
        return Ok(rows);
    }
    let has = |text: &str, part: &str| text.to_lowercase().contains(&part.trim().to_lowercase());
    let mut left = Vec::new();
    for row in rows {
        let any = |fits: &dyn Fn(&scrollback_store::Conversation) -> bool| {
            row.tree.conversations.iter().any(|(conversation, _)| fits(conversation))
        };
        let fits = (wish.client.is_empty() || row.client() == wish.client)
            && (wish.model.is_empty() || row.models.iter().any(|model| has(model, &wish.model)))
            && (wish.recipient.is_empty()
                || any(&|one| one.recipient.as_ref().is_some_and(|who| has(who.as_str(), &wish.recipient))))
            && (wish.project.is_empty()
                || any(&|one| one.project.as_ref().is_some_and(|project| has(project, &wish.project))))
            && (wish.status.is_empty()
                || row.tree.root().is_some_and(|root| root.status().name() == wish.status))
            && (wish.errors.is_empty() || row.errors > 0);
        if !fits {
            continue;
        }
        if !wish.q.trim().is_empty() {
            let title = session_title(viewer, &row.tree).await?;
            let begins = match row.tree.root() {
                Some(root) => begins(viewer, root).await?.unwrap_or_default(),
                None => String::new(),
            };
            if !has(&title, &wish.q) && !has(&viewer.eyes().see(&begins), &wish.q) {
                continue;
            }
        }
        left.push(row);
    }
    Ok(left)
}

/// Puts rows in the order of a column; a minus in front turns it around.
fn sort(rows: &mut [SessionRow], by: &str) {
    let (column, turned) = by.strip_prefix('-').map_or((by, false), |column| (column, true));
    let found = COLUMNS.iter().find(|(known, ..)| *known == column);
    let (_, _, order) = found.unwrap_or(&LAST);
    rows.sort_by(|one, other| {
        let by_column = if turned { order(one, other) } else { order(other, one) };
        by_column.then(other.last.cmp(&one.last))
    });
}

/// The sums of sessions; `more` if there are older ones that were not looked at.
fn totals(rows: &[SessionRow], more: bool) -> Markup {
    let mut total = Total::default();
    let (mut cost, mut unpriced, mut errors) = (0.0, 0u64, 0u64);
    let mut days: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows {
        total.calls += row.total.calls;
        total.input += row.total.input;
        total.output += row.total.output;
        total.cache_read += row.total.cache_read;
        errors += row.errors;
        match row.total.cost_usd {
            Some(more) => cost += more,
            None => unpriced += u64::from(row.total.calls > 0),
        }
        for (day, spent) in &row.days {
            *days.entry(day.clone()).or_default() += spent;
        }
    }
    html! {
        section.card aria-label="Sums" { div.in.stack {
            dl.facts {
                div { dt { "Sessions" } dd { (number(rows.len() as u64)) } }
                div { dt { "Calls" } dd { (number(total.calls)) @if errors > 0 { small { " · " (number(errors)) " failed" } } } }
                div { dt { "Input tokens" } dd { (short(total.input)) @if total.input > 0 { small { " · " (total.cache_read * 100 / total.input) " % from the cache" } } } }
                div { dt { "Output tokens" } dd { (short(total.output)) } }
                div { dt { "Cost" } dd { (dollars(cost)) @if unpriced > 0 { small { " · without " (plural(unpriced, "session", "sessions")) " whose price is not known" } } } }
            }
            @if more { p.small.soft { "Of the " (number(MOST as u64)) " sessions that were written last; older ones are not looked at." } }
            (day_strip(&days))
        } }
    }
}

fn filter(wish: &SessionsQuery) -> Markup {
    let fields = [
        ("q", "words", "Words of the beginning", wish.q.as_str()),
        ("client", "client", "Client", &wish.client),
        ("model", "model", "Model", &wish.model),
        ("recipient", "recipient", "Recipient", &wish.recipient),
        ("project", "project", "Project", &wish.project),
    ];
    html! {
        form.fields.filter method="get" action="/lens" aria-label="Filter" {
            @for (name, id, label, value) in fields.iter().take(1) { div { label for=(id) { (label) } input id=(id) name=(name) value=(value) autocomplete="off"; } }
            details.more-fields open[wish.has_more()] { summary { "More filters" } div.fields {
            @for (name, id, label, value) in fields.iter().skip(1) { div { label for=(id) { (label) } input id=(id) name=(name) value=(value) autocomplete="off"; } }
            div { label for="status" { "Status" }
                select #status name="status" data-go="1" {
                    option value="" { "any" }
                    @for status in Status::ALL { option value=(status.name()) selected[wish.status == status.name()] { (status.name().replace('_', " ")) } }
                } }
            div { label for="errors" { "Errors" } select #errors name="errors" data-go="1" { option value="" { "any" } option value="1" selected[!wish.errors.is_empty()] { "some" } } }
            } }
            @if !wish.sort.is_empty() { input type="hidden" name="sort" value=(wish.sort); }
            button { "Filter" }
            @if wish.is_filtered() { a.button href="/lens" { "All" } }
        }
    }
}

async fn list(viewer: &Viewer, rows: &[SessionRow], wish: &SessionsQuery) -> Result<Markup, HttpProblem> {
    let mut lines = Vec::with_capacity(rows.len());
    for row in rows {
        lines.push(line(viewer, row).await?);
    }
    Ok(html! {
        div.card.scroll data-fresh="list" {
            @if rows.is_empty() { p.in { "No session matches." } } @else {
                table.rows.cards {
                    caption.out { "Sessions; choose a heading to sort by it" }
                    thead { tr { @for (place, (column, heading, _)) in COLUMNS.iter().enumerate() { (heading_of(wish, column, heading, place >= 3)) } } }
                    tbody { @for line in &lines { (line) } }
                }
            }
        }
    })
}

fn heading_of(wish: &SessionsQuery, column: &str, heading: &str, is_number: bool) -> Markup {
    let now = if wish.sort.is_empty() { "last" } else { wish.sort.as_str() };
    let (sorted, turned) = (now.trim_start_matches('-') == column, now.starts_with('-'));
    let to = if sorted && !turned { format!("-{column}") } else { column.to_string() };
    let order = sorted.then_some(if turned { "ascending" } else { "descending" });
    html! {
        th.n[is_number] scope="col" aria-sort=[order] {
            a.sort href=(wish.href("/lens", &to, 0)) { (heading) @if sorted { span aria-hidden="true" { @if turned { " ↑" } @else { " ↓" } } } }
        }
    }
}

async fn line(viewer: &Viewer, row: &SessionRow) -> Result<Markup, HttpProblem> {
    let title = session_title(viewer, &row.tree).await?;
    let Some(root) = row.tree.root() else { return Ok(html! {}) };
    let total = &row.total;
    let kinds = [
        (ConversationKind::SubAgent, "sub-agent", "sub-agents"),
        (ConversationKind::Side, "side call", "side calls"),
        (ConversationKind::Branch, "branch", "branches"),
        (ConversationKind::Main, "more conversation", "more conversations"),
    ];
    let status = root.status();
    Ok(html! {
        tr id=(format!("s{}", row.tree.id)) {
            td {
                a.name href=(format!("/lens/conversations/{}", root.id)) { (said(&title)) }
                div.sub {
                    @if let Some(recipient) = &root.recipient { span { "with " (viewer.eyes().said(recipient.as_str())) } " " }
                    @if let Some(project) = &root.project { span { (viewer.eyes().glance(project, 80)) } " " }
                    @for (kind, one, many) in kinds { @let count = row.count(kind); @if count > 0 { span.chip { (plural(count, one, many)) } " " } }
                    @if status == Status::AwaitingAnswer || status == Status::Closed { (page::status(status.name())) }
                }
            }
            td data-l="Client" { @if !row.client().is_empty() { (client(row.client())) } @else if row.imported { span.soft { "imported" } } @else { span.faint { "–" } } }
            td data-l="Model" { @match row.models.last() { Some(model) => { (viewer.eyes().glance(short_model(model), 40)) @if row.models.len() > 1 { span.soft title=(row.models.join(", ")) { " +" (row.models.len() - 1) } } }, None => span.faint { "–" } } }
            td.n data-l="Turns" { (number(row.turns)) }
            td.n data-l="Calls" { (number(total.calls)) }
            td.n data-l="Tokens" { @if total.calls > 0 { span title=(format!("{}: {}; output: {}", total.input_word(), number(total.input), number(total.output))) { (short(total.input + total.output)) } } @else { span.faint { "–" } } }
            td.n data-l="Cached" { @if total.input > 0 { (total.cache_read * 100 / total.input) " %" } @else { span.faint { "–" } } }
            td.n data-l="Cost" { @match total.cost_usd { Some(cost) => a href=(format!("/lens/sessions/{}/cache", row.tree.id)) aria-label=(format!("{}: cost and cache", dollars(cost))) { (dollars(cost)) }, None => span.faint title="no price is known" { "–" } } }
            td.n data-l="Errors" { @if row.errors > 0 { span.chip.bad { (number(row.errors)) } } @else { span.faint { "0" } } }
            td.n data-l="Duration" { @if duration(row) > 0 { (lasting(duration(row))) } @else { span.faint { "–" } } }
            td.n.nowrap data-l="Last activity" { (page::ago(row.last)) }
        }
    })
}
