//! Why a session cost what it did: its calls as bars of what the cache gave back, every break of the prompt's beginning with its
//! cause and its price, and the dearest calls.

use axum::extract::{Path, Query};
use axum::response::Response;
use maud::{Markup, html};
use scrollback_agent::exchange::Prices;
use scrollback_core::model::ModelName;
use scrollback_core::replay::PrefixBreak;
use scrollback_store::{Conversation, ConversationKind, Sent, SessionId};
use serde::Deserialize;

use super::cache_account::{CallAccount, Culprit, account, write_price};
use super::cache_cause::{Explainer, Explanation};
use super::cache_chart::{CacheBar, cache_chart};
use super::page::{self, NavItem, coded};
use super::session_row::{client_chip, session_title, short_model};
use super::session_tree::ids;
use super::text::{Eyes, dollars, lasting, number, plural, said, short};
use super::viewer::{PageContent, Viewer};
use crate::known_calls::{is_reported, known_calls};
use crate::usage::Total;
use crate::{App, HttpProblem};

/// Breaks that are explained, the dearest first.
const EXPLAINED: usize = 40;
/// Dearest calls that are listed.
const DEAREST: usize = 15;
/// Bars of one page.
const BARS: usize = 240;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct CacheQuery {
    /// Page of the bars, from 0; the last one if not said.
    page: Option<usize>,
}

/// The calls of one conversation of the session.
struct Strand {
    conversation: Conversation,
    name: String,
    /// Its calls, behind those of what it was forked from.
    calls: Vec<Sent>,
    /// How many of them are the fork's parent's.
    inherited: usize,
}

/// One call of the session.
struct Line<'s> {
    strand: &'s Strand,
    /// Its number among the calls of its conversation, from 1.
    number: usize,
    account: CallAccount<'s>,
    before: Option<&'s Sent>,
}

impl Line<'_> {
    fn href(&self) -> String {
        format!("/lens/calls/{}", coded(&self.account.call.id))
    }

    fn cost(&self) -> Option<f64> {
        self.account.spent?.cost_usd
    }
}

pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>, Query(wish): Query<CacheQuery>) -> Response {
    viewer.answer(made(&viewer, &id, &wish).await)
}

async fn made(viewer: &Viewer, id: &str, wish: &CacheQuery) -> Result<PageContent, HttpProblem> {
    let session = SessionId::parse(id).ok_or_else(|| HttpProblem::not_found("session"))?;
    let tree = viewer.store().session_tree(viewer.tenant(), &session).await?;
    let root = tree.root().ok_or_else(|| HttpProblem::not_found("session"))?.clone();
    let title = session_title(viewer, &tree).await?;
    let strands = strands(viewer, &tree.conversations, &root).await?;
    let lines = lines(&viewer.app, &strands);
    let breaks = explained(viewer, &lines).await?;
    let total = Total::of(lines.iter().map(|line| line.account.call));
    let own = format!("/lens/sessions/{session}/cache");
    let body = html! {
        nav.crumbs aria-label="You are here" { a href="/lens" { "Sessions" } " / " a href=(format!("/lens/conversations/{}", root.id)) { (said(&title)) } " / cost and cache" }
        span hidden data-live-of=(ids(&tree)) {}
        div.head { h1 { "What it cost, and why" } (client_chip(&tree)) a.button data-key="c" href=(format!("/lens/simulate?conversation={}&whole=1", root.id)) { "Compare managers" } }
        @if tree.total > strands.len() as u64 { p.note { "The session has " (plural(tree.total, "conversation", "conversations")) "; the first " (strands.len()) " are accounted for." } }
        @if lines.is_empty() {
            p.note { "No calls of this session are known: none went through this server, and no transcript says what its replies used." }
        } @else {
            div data-fresh="cache" {
                (summary(viewer, &lines, &total, &breaks))
                (bars(&lines, wish.page, &own))
                (broken(&breaks, &lines, viewer.eyes()))
                (dearest(&lines))
                (by_conversation(&lines))
            }
        }
    };
    let live = Some("/api/events".into());
    Ok(PageContent { title: format!("Cost and cache: {title}"), place: NavItem::Sessions, live, body })
}

/// The conversations of a session with their calls.
async fn strands(
    viewer: &Viewer,
    conversations: &[(Conversation, u64)],
    root: &Conversation,
) -> Result<Vec<Strand>, HttpProblem> {
    let mut strands: Vec<Strand> = Vec::new();
    for (conversation, _) in conversations {
        let own = known_calls(&viewer.app, conversation).await?;
        let inherited: Vec<Sent> = match conversation.forked_from() {
            Some((parent, at)) => {
                let parent = strands.iter().find(|strand| strand.conversation.id == *parent);
                let calls = parent.into_iter().flat_map(|parent| &parent.calls);
                calls.filter(|call| call.upto < at).cloned().collect()
            }
            None => Vec::new(),
        };
        let name = if conversation.id == root.id {
            "main".to_string()
        } else {
            super::session_row::conversation_title(viewer, conversation).await?
        };
        let (count, mut calls) = (inherited.len(), inherited);
        calls.extend(own);
        strands.push(Strand { conversation: conversation.clone(), name, calls, inherited: count });
    }
    Ok(strands)
}

/// All calls of a session, the oldest first.
fn lines<'s>(app: &App, strands: &'s [Strand]) -> Vec<Line<'s>> {
    let mut lines = Vec::new();
    for strand in strands {
        let told = account(&strand.calls, |model: &ModelName| app.catalog.prices(model));
        for (at, account) in told.into_iter().enumerate().skip(strand.inherited) {
            let before = account.before.and_then(|before| strand.calls.get(before));
            lines.push(Line { strand, number: at + 1 - strand.inherited, account, before });
        }
    }
    lines.sort_by_key(|line| line.account.call.started_at);
    lines
}

/// A break, by the place of its call among the lines.
struct Explained {
    line: usize,
    why: Explanation,
}

/// The dearest breaks with their causes.
async fn explained(viewer: &Viewer, lines: &[Line<'_>]) -> Result<Vec<Explained>, HttpProblem> {
    let mut broken: Vec<usize> =
        (0..lines.len()).filter(|at| lines.get(*at).is_some_and(|line| line.account.is_break())).collect();
    let heavy = |at: &usize| lines.get(*at).map_or(0.0, weight);
    broken.sort_by(|one, other| heavy(other).total_cmp(&heavy(one)));
    broken.truncate(EXPLAINED);
    let mut explainer = Explainer::default();
    let mut all = Vec::with_capacity(broken.len());
    for at in broken {
        let Some(line) = lines.get(at) else { continue };
        let Some(before) = line.before else { continue };
        let id = &line.strand.conversation.id;
        all.push(Explained { line: at, why: explainer.explain(viewer, id, &line.account, before).await? });
    }
    Ok(all)
}

/// What a break is ordered by: its price, or its tokens where no price is known.
fn weight(line: &Line<'_>) -> f64 {
    line.account.extra_usd.unwrap_or(line.account.lost as f64 / 1e9)
}

/// What calls cost by what was billed.
#[derive(Clone, Copy, Default)]
struct Bill {
    read: f64,
    written: f64,
    uncached: f64,
    output: f64,
}

impl Bill {
    /// The parts of a call's price; none where a price is not known.
    fn of(account: &CallAccount<'_>, price: &Prices) -> Option<Bill> {
        let spent = account.spent?;
        let input = price.input?;
        let part = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
        Some(Bill {
            read: part(spent.cache_read, price.cache_read.unwrap_or(input)),
            written: part(spent.cache_write, write_price(&spent, price)?),
            uncached: part(account.uncached(), input),
            output: part(spent.output, price.output?),
        })
    }

    fn add(self, other: Bill) -> Bill {
        Bill {
            read: self.read + other.read,
            written: self.written + other.written,
            uncached: self.uncached + other.uncached,
            output: self.output + other.output,
        }
    }

    fn parts(self) -> [(&'static str, f64, &'static str); 4] {
        [
            ("output", self.output, "r-output"),
            ("written to the cache", self.written, "r-written"),
            ("read from the cache", self.read, "r-read"),
            ("input beside the cache", self.uncached, "r-uncached"),
        ]
    }
}

fn price_of(viewer: &Viewer, call: &Sent) -> Prices {
    ModelName::parse(&call.model)
        .map_or_else(|_| Prices::default(), |model| viewer.app.catalog.prices(&model))
}

fn summary(viewer: &Viewer, lines: &[Line<'_>], total: &Total, breaks: &[Explained]) -> Markup {
    let bills = lines.iter().filter_map(|line| Bill::of(&line.account, &price_of(viewer, line.account.call)));
    let bill = bills.fold(Bill::default(), Bill::add);
    let known = bill.parts().iter().map(|(_, dollars, _)| dollars).sum::<f64>();
    let extra: f64 = lines.iter().filter_map(|line| line.account.extra_usd).sum();
    let broken = lines.iter().filter(|line| line.account.is_break()).count() as u64;
    let lost: u64 = lines.iter().map(|line| line.account.lost).sum();
    let dearest = lines.iter().filter(|line| line.cost().is_some());
    let dearest =
        dearest.max_by(|one, other| one.cost().unwrap_or(0.0).total_cmp(&other.cost().unwrap_or(0.0)));
    let by = |culprit: Culprit| breaks.iter().filter(|one| one.why.cause.culprit == culprit).count() as u64;
    let culprits = [Culprit::Client, Culprit::Manager, Culprit::Time, Culprit::Provider, Culprit::Unknown];
    html! {
        section.card aria-label="In short" { div.in.stack {
            dl.facts {
                div { dt { "Cost of " (plural(total.calls, "call", "calls")) } dd { @match total.cost_usd { Some(cost) => (dollars(cost)), None => span.soft { "not known: no price for a model" } } } }
                div { dt { "Paid again because the prefix broke" } dd { @if broken == 0 { "nothing" } @else { (dollars(extra)) small { " · " (plural(broken, "break", "breaks")) ", " (short(lost)) " tokens" } } } }
                div { dt { (total.input_word()) } dd { (short(total.input)) small { " tokens · " (share(total.cache_read, total.input)) " from the cache" } } }
                div { dt { "Output" } dd { (short(total.output)) small { " tokens" } } }
                @if let Some(line) = dearest { div { dt { "Dearest call" } dd { a href=(line.href()) { "call " (line.number) } @if line.strand.name != "main" { " of " (said(&line.strand.name)) } small { " · " (dollars(line.cost().unwrap_or(0.0))) } } } }
            }
            @if known > 0.0 {
                div {
                    svg.strip role="img" aria-label="What the money was paid for; the list below has the numbers." viewBox="0 0 1000 1" preserveAspectRatio="none" {
                        @for (class, start, width) in strip(&bill, known) {
                            rect.(class) x=(format!("{start:.1}")) y="0" width=(format!("{width:.1}")) height="1" {}
                        }
                    }
                    ul.legend { @for (word, cost, class) in bill.parts() {
                        li { svg aria-hidden="true" viewBox="0 0 10 10" { rect.(class) width="10" height="10" rx="2" {} } (word) " " strong { (dollars(cost)) } " (" (format!("{:.0}", cost / known * 100.0)) " %)" }
                    } }
                }
            }
            @if broken > 0 { p.small { "Causes" @if broken > breaks.len() as u64 { " of the dearest " (breaks.len()) } ": " @for (place, culprit) in culprits.into_iter().filter(|culprit| by(*culprit) > 0).enumerate() { @if place > 0 { ", " } strong { (by(culprit)) } " × " (culprit.as_str()) } "." } }
            @if lines.iter().any(|line| is_reported(line.account.call)) { p.small.soft { "Tokens are those that the transcript reports; its requests were not sent through this server, so the byte at which a prompt changed is not known, only about which entry. Prices are those of today's list." } }
        } }
    }
}

/// The parts of a bill one behind the other on a strip 1,000 wide: class, start and width.
fn strip(bill: &Bill, known: f64) -> Vec<(&'static str, f64, f64)> {
    let parts = bill.parts().into_iter().scan(0.0, |end, (_, dollars, class)| {
        let (start, width) = (*end, dollars / known * 1000.0);
        *end += width;
        Some((class, start, width))
    });
    parts.collect()
}

fn share(part: u64, whole: u64) -> String {
    (part * 100).checked_div(whole).map_or_else(|| "0 %".into(), |percent| format!("{percent} %"))
}

fn bars(lines: &[Line<'_>], page: Option<usize>, own: &str) -> Markup {
    let pages = lines.len().div_ceil(BARS).max(1);
    let page = page.unwrap_or(pages - 1).min(pages - 1);
    let shown: Vec<CacheBar> = lines
        .iter()
        .skip(page * BARS)
        .take(BARS)
        .filter_map(|line| {
            let spent = line.account.spent?;
            Some(CacheBar {
                name: format!("{} call {}", line.strand.name, line.number),
                href: line.href(),
                read: spent.cache_read,
                written: spent.cache_write,
                uncached: line.account.uncached(),
                lost: line.account.lost,
                cost: spent.cost_usd,
                chosen: false,
            })
        })
        .collect();
    html! {
        section.card aria-label="Calls" {
            header { h2 { "Calls" } span.soft.small { "input tokens of each call, oldest first; a mark above a bar is a break" } }
            div.in { (cache_chart(&shown)) }
            @if pages > 1 { nav.pager.in aria-label="Pages of calls" {
                @if page > 0 { a.button rel="prev" href=(format!("{own}?page={}", page - 1)) { "Earlier calls" } }
                span.soft.small { "Calls " (page * BARS + 1) " to " ((page * BARS + BARS).min(lines.len())) " of " (lines.len()) }
                @if page + 1 < pages { a.button rel="next" href=(format!("{own}?page={}", page + 1)) { "Later calls" } }
            } }
        }
    }
}

fn broken(breaks: &[Explained], lines: &[Line<'_>], eyes: Eyes<'_>) -> Markup {
    let all = lines.iter().filter(|line| line.account.is_break()).count();
    html! {
        section.card #breaks aria-label="Breaks" {
            header { h2 { "Breaks of the prefix" } span.soft.small { "the dearest first: what was cached and had to be read again" @if all > breaks.len() { "; " (breaks.len()) " of " (all) } } }
            @if breaks.is_empty() { p.in { span.chip.good { "none" } " Each prompt began with all of the one before, and the cache had it." } }
            @else { ol.breaks { @for one in breaks { @if let Some(line) = lines.get(one.line) { (broke(one, line, eyes)) } } } }
        }
    }
}

fn broke(one: &Explained, line: &Line<'_>, eyes: Eyes<'_>) -> Markup {
    let account = &line.account;
    let conversation = format!("/lens/conversations/{}", line.strand.conversation.id);
    let cause = &one.why.cause;
    let class = culprit_class(cause.culprit);
    html! {
        li id=(format!("b{}", account.call.id)) {
            div.who {
                a href=(line.href()) { strong { "Call " (line.number) } } @if line.strand.name != "main" { span { "of " (said(&line.strand.name)) } }
                span.chip.(class) { (cause.culprit.as_str()) }
                (page::time(account.call.started_at))
                span.end { strong { @match account.extra_usd { Some(cost) => { (dollars(cost)) " more" }, None => { (short(account.lost)) " tokens more" } } } }
            }
            p { (sentence(&cause.what)) @if let Some(at) = cause.position { " " a href=(format!("{conversation}?at={at}#e{at}")) { "#" (at) } } }
            p.small.soft {
                (number(account.lost)) " of " (number(account.expected)) " cached tokens were read again; "
                (number(account.spent.map_or(0, |spent| spent.cache_read))) " came from the cache. The call cost "
                @match line.cost() { Some(cost) => (dollars(cost)), None => "an unknown amount" } "; the cache had not been used for " (lasting(account.idle_ms)) "."
            }
            @match (&cause.place, one.why.about) {
                (Some(place), _) => (byte(place, &line.href(), eyes)),
                (None, Some(0)) => p.small { "What was read is the instructions and the tools, as far as the tokens tell." },
                (None, Some(about)) => p.small { "What was read ended about at " a href=(format!("{conversation}?at={about}#e{about}")) { "#" (about) } " (estimated from the tokens)." },
                (None, None) => {},
            }
        }
    }
}

/// The colour of who is behind a break; the word beside it says the same.
pub(crate) fn culprit_class(culprit: Culprit) -> &'static str {
    match culprit {
        Culprit::Client | Culprit::Provider => "warn",
        Culprit::Manager => "changed",
        Culprit::Time => "info",
        Culprit::Unknown => "",
    }
}

/// A clause as a sentence of its own.
pub(crate) fn sentence(clause: &str) -> Markup {
    let mut letters = clause.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    html! { (said(&first)) (said(letters.as_str())) "." }
}

/// The first byte that differs, with what stood there and what stands there now.
pub(crate) fn byte(place: &PrefixBreak, call: &str, eyes: Eyes<'_>) -> Markup {
    html! {
        p.small { "The first byte that differs is byte " strong { (number(place.byte as u64)) } " of the request; " a href=(format!("{call}#since")) { "the whole difference" } "." }
        ul.diff.bytes {
            li.gone { span.sign aria-hidden="true" { "−" } code { span.out { "before: " } @if place.before.is_empty() { em { "nothing" } } @else { (eyes.said(&place.before)) } } }
            li.new { span.sign aria-hidden="true" { "+" } code { span.out { "now: " } @if place.after.is_empty() { em { "nothing" } } @else { (eyes.said(&place.after)) } } }
        }
    }
}

fn dearest(lines: &[Line<'_>]) -> Markup {
    let mut dear: Vec<&Line<'_>> = lines.iter().filter(|line| line.cost().is_some()).collect();
    dear.sort_by(|one, other| other.cost().unwrap_or(0.0).total_cmp(&one.cost().unwrap_or(0.0)));
    dear.truncate(DEAREST);
    html! { @if !dear.is_empty() {
        section.card aria-label="Dearest calls" { header { h2 { "Dearest calls" } span.soft.small { "tokens of each, by how they were billed" } }
            div.scroll { table.cards {
                thead { tr { th scope="col" { "Call" } th scope="col" { "Model" } th.n scope="col" { "From cache" } th.n scope="col" { "To cache" } th.n scope="col" { "Beside it" } th.n scope="col" { "Output" } th.n scope="col" { "Of it paid again" } th.n scope="col" { "Cost" } } }
                tbody { @for line in dear { @let spent = line.account.spent.unwrap_or_default(); tr {
                    th scope="row" { a href=(line.href()) { "Call " (line.number) } @if line.strand.name != "main" { div.sub { (said(&line.strand.name)) } } }
                    td data-l="Model" { (said(short_model(&line.account.call.model))) @if line.account.other_model { div.sub { "its first call here: nothing was cached for it" } } }
                    td.n data-l="From cache" { (number(spent.cache_read)) } td.n data-l="To cache" { (number(spent.cache_write)) } td.n data-l="Beside it" { (number(line.account.uncached())) } td.n data-l="Output" { (number(spent.output)) }
                    td.n data-l="Paid again" { @match line.account.extra_usd.filter(|extra| *extra > 0.0) { Some(extra) => { a href=(format!("#b{}", line.account.call.id)) { (dollars(extra)) } }, None => "–" } }
                    td.n data-l="Cost" { (dollars(line.cost().unwrap_or(0.0))) }
                } } }
            } }
        }
    } }
}

/// What each conversation of the session cost, where there are several.
fn by_conversation(lines: &[Line<'_>]) -> Markup {
    let mut sums: Vec<(&Strand, Vec<&Sent>)> = Vec::new();
    for line in lines {
        let id = &line.strand.conversation.id;
        match sums.iter_mut().find(|(strand, _)| strand.conversation.id == *id) {
            Some((_, calls)) => calls.push(line.account.call),
            None => sums.push((line.strand, vec![line.account.call])),
        }
    }
    html! { @if sums.len() > 1 {
        section.card aria-label="By conversation" { header { h2 { "By conversation" } }
            div.scroll { table.cards {
                thead { tr { th scope="col" { "Conversation" } th.n scope="col" { "Calls" } th.n scope="col" { "Input" } th.n scope="col" { "From cache" } th.n scope="col" { "Output" } th.n scope="col" { "Cost" } } }
                tbody { @for (strand, calls) in sums { @let total = Total::of(calls.into_iter()); tr {
                    th scope="row" { @if strand.conversation.kind != ConversationKind::Main { span.chip.info { (strand.conversation.kind.as_str()) } " " } a href=(format!("/lens/conversations/{}", strand.conversation.id)) { (said(&strand.name)) } }
                    td.n data-l="Calls" { (number(total.calls)) } td.n data-l="Input" { (number(total.input)) } td.n data-l="From cache" { (share(total.cache_read, total.input)) } td.n data-l="Output" { (number(total.output)) }
                    td.n data-l="Cost" { @match total.cost_usd { Some(cost) => (dollars(cost)), None => "–" } }
                } } }
            } }
        }
    } }
}
