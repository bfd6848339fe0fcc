//! The people and channels that conversations are with: who waits, how much there is, and a way to take it along or erase it.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_core::{Role, Slot};
use scrollback_store::{Conversation, FollowUp, Listing, Recipient, Which};

use super::form::FormFields;
use super::page::{self, NavItem, coded};
use super::session_row::conversation_title;
use super::text::{number, plural, said};
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;
use crate::api::{EraseRecipientAnswer, erase_recipient};

/// Conversations that are looked through for recipients: the newest.
const LOOKED: usize = 5_000;
/// Recipients of one page.
const SHOWN: usize = 200;
/// Entries at the end of a conversation that are looked at for its last words.
const ENDING: u64 = 4;

/// A recipient with all their conversations, the current one first.
struct Person {
    recipient: Recipient,
    rows: Vec<(Conversation, u64)>,
    follow_up: FollowUp,
}

pub(crate) async fn list(viewer: Viewer) -> Response {
    viewer.answer(listed(&viewer).await)
}

async fn people(viewer: &Viewer, which: Which) -> Result<Vec<Person>, HttpProblem> {
    let listing = Listing { which, limit: LOOKED, ..Listing::default() };
    let page = viewer.store().list(Some(viewer.tenant()), listing).await?;
    let mut found: BTreeMap<String, Vec<(Conversation, u64)>> = BTreeMap::new();
    for (row, entries) in page.conversations {
        if let Some(recipient) = &row.recipient {
            found.entry(recipient.to_string()).or_default().push((row, entries));
        }
    }
    let (app, mut all) = (&viewer.app, Vec::new());
    for (_, mut rows) in found {
        // The current conversation is the one with the recipient's key.
        rows.sort_by_key(|(row, _)| (row.key.is_none(), std::cmp::Reverse(row.updated_at)));
        let Some((current, _)) = rows.first() else { continue };
        let Some(recipient) = current.recipient.clone() else { continue };
        let follow_up = app.settings.follow_ups.of(current, app.now());
        all.push(Person { recipient, rows, follow_up });
    }
    // Who waits longest comes first, then who was spoken with last.
    all.sort_by_key(|person| {
        let due = person.follow_up.at.filter(|_| person.follow_up.due);
        let last = person.rows.iter().map(|(row, _)| row.updated_at).max();
        (due.is_none(), due, std::cmp::Reverse(last))
    });
    Ok(all)
}

async fn listed(viewer: &Viewer) -> Result<PageContent, HttpProblem> {
    let people = people(viewer, Which::All).await?;
    let due = people.iter().filter(|person| person.follow_up.due).count() as u64;
    let mut lines = Vec::new();
    for person in people.iter().take(SHOWN) {
        lines.push(line(viewer, person).await?);
    }
    let body = html! {
        div.head { h1 { "People" } span.soft { (plural(people.len() as u64, "recipient", "recipients")) ", " (plural(due, "follow-up", "follow-ups")) " due" } }
        div.card.scroll data-fresh="people" {
            @if people.is_empty() { p.in { "No conversation has a recipient. A client names one with the header " code { "x-scrollback-recipient" } ", a program with " code { "Store::append" } "." } } @else {
                table.rows.cards {
                    caption.out { "Recipients, longest waiting first" }
                    thead { tr { th scope="col" { "Recipient" } th scope="col" { "Status" } th scope="col" { "Follow-up" } th.n scope="col" { "Turns" } th.n scope="col" { "Entries" } th.n scope="col" { "Conversations" } th scope="col" { "Last said" } } }
                    tbody { @for line in &lines { (line) } }
                }
            }
        }
        @if people.len() > SHOWN { p.soft { "The first " (SHOWN) " are shown." } }
    };
    let live = Some("/api/events".into());
    Ok(PageContent { title: "People".into(), place: NavItem::People, live, body })
}

async fn line(viewer: &Viewer, person: &Person) -> Result<Markup, HttpProblem> {
    let Some((current, _)) = person.rows.first() else { return Ok(html! {}) };
    let last = last_words(viewer, current).await?;
    let turns: u64 = person.rows.iter().map(|(row, _)| row.turns).sum();
    let entries: u64 = person.rows.iter().map(|(_, entries)| entries).sum();
    let name = person.recipient.as_str();
    Ok(html! {
        tr {
            td {
                a.name href=(format!("/lens/people/{}", coded(name))) { (viewer.eyes().said(name)) }
                @if let Some((role, words)) = &last { div.sub { (role.as_str()) ": " (viewer.eyes().glance(words, 140)) } }
            }
            td data-l="Status" { (page::status(current.status().name())) }
            td data-l="Follow-up" { (follow_up(person.follow_up)) }
            td.n data-l="Turns" { (number(turns)) } td.n data-l="Entries" { (number(entries)) } td.n data-l="Conversations" { (number(person.rows.len() as u64)) }
            td.nowrap data-l="Last said" { @match current.last_said_at { Some(at) => (page::ago(at)), None => span.faint { "–" } } }
        }
    })
}

fn follow_up(follow_up: FollowUp) -> Markup {
    html! { @match follow_up {
        FollowUp { due: true, at: Some(at) } => { span.chip.warn { "due" } " since " (page::ago(at)) },
        FollowUp { at: Some(at), .. } => (page::ago(at)),
        FollowUp { .. } => span.faint title="they spoke last, or nothing was said" { "–" },
    } }
}

/// The last thing that was said in a conversation, and by whom.
async fn last_words(viewer: &Viewer, row: &Conversation) -> Result<Option<(Role, String)>, HttpProblem> {
    let from = row.head.saturating_sub(ENDING);
    let places = viewer.store().entries(viewer.tenant(), &row.id, from, row.head).await?;
    Ok(places.iter().rev().find_map(|placed| match &placed.slot {
        Slot::Message(entry) if matches!(entry.role, Role::User | Role::Assistant) => {
            Some((entry.role, entry.content().filter(|text| !text.is_empty())?))
        }
        _ => None,
    }))
}

pub(crate) async fn show(viewer: Viewer, Path(recipient): Path<String>) -> Response {
    viewer.answer(one(&viewer, &recipient, None).await)
}

async fn one(
    viewer: &Viewer,
    named: &str,
    erased: Option<&EraseRecipientAnswer>,
) -> Result<PageContent, HttpProblem> {
    let unknown = || HttpProblem::not_found("conversation with this recipient");
    let recipient = Recipient::parse(named).map_err(|_| unknown())?;
    let person = people(viewer, Which::With(recipient)).await?.into_iter().next().ok_or_else(unknown)?;
    let name = viewer.eyes().see(person.recipient.as_str()).into_owned();
    let mut lines = Vec::new();
    for (row, entries) in person.rows.iter().take(SHOWN) {
        let title = super::session_row::begins(viewer, row).await?;
        let title = title.map(|words| viewer.eyes().brief(&words, 90));
        let title = match (&row.title, title) {
            (Some(given), _) => viewer.eyes().brief(given, 90),
            (None, Some(words)) => words,
            (None, None) => conversation_title(viewer, row).await?,
        };
        lines.push(html! { tr {
            td { a.name href=(format!("/lens/conversations/{}", row.id)) { (said(&title)) } @if row.key.is_some() { " " span.chip.info { "current" } } }
            td data-l="Status" { (page::status(row.status().name())) } td.n data-l="Turns" { (number(row.turns)) } td.n data-l="Entries" { (number(*entries)) }
            td.nowrap data-l="Last written" { (page::ago(row.updated_at)) }
        } });
    }
    let coded_name = coded(person.recipient.as_str());
    let body = html! {
        nav.crumbs aria-label="You are here" { a href="/lens/people" { "People" } " / " (said(&name)) }
        div.head { h1 { (said(&name)) } @if let Some((current, _)) = person.rows.first() { (page::status(current.status().name())) } }
        @if let Some(report) = erased { (told(report)) }
        section.card aria-label="In short" { div.in { dl.facts {
            div { dt { "Follow-up" } dd { (follow_up(person.follow_up)) } }
            div { dt { "Conversations" } dd { (number(person.rows.len() as u64)) } }
            div { dt { "Entries" } dd { (number(person.rows.iter().map(|(_, entries)| entries).sum())) } }
            div { dt { "Everything as a file" } dd { a href=(format!("/api/recipients/{coded_name}/export")) download="recipient.jsonl" { "export" } } }
        } } }
        section.card aria-label="Conversations" { header { h2 { "Conversations" } } div.scroll { table.rows.cards {
            thead { tr { th scope="col" { "Conversation" } th scope="col" { "Status" } th.n scope="col" { "Turns" } th.n scope="col" { "Entries" } th scope="col" { "Last written" } } }
            tbody { @for line in &lines { (line) } }
        } } }
        section.card aria-label="Erase" { header { h2 { "Erase" } } div.in {
            p { "Erases what was said in all conversations with this recipient, and what calls were sent of it. Places and hashes stay, so that it can be shown that nothing else changed. It cannot be undone." }
            form.fields method="post" action=(format!("/lens/people/{coded_name}/erase")) {
                div { label for="why" { "Reason, which stays on record" } input #why name="reason" autocomplete="off"; }
                div { label for="sure" { "Write " strong { "erase" } " to confirm" } input #sure name="sure" autocomplete="off"; }
                button name="dry" value="1" { "Only say what would be erased" } button.danger { "Erase" }
            }
        } }
    };
    Ok(PageContent { title: format!("With {name}"), place: NavItem::People, live: None, body })
}

/// What was erased, or would be.
fn told(report: &EraseRecipientAnswer) -> Markup {
    html! {
        div.note.good role="status" {
            p { (plural(report.erased, "entry", "entries")) " in " (plural(report.conversations, "conversation", "conversations")) "; "
                (plural(report.sent, "call was", "calls were")) " emptied, " (plural(report.runs, "run", "runs")) ", " (plural(report.forks, "fork shows", "forks show")) " it too." }
            @if report.pending { p { "Copies that others still read are removed when those readers finish." } }
        }
    }
}

pub(crate) async fn erase(
    viewer: Viewer,
    Path(recipient): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let made = async {
        viewer.caller.may_write()?;
        let fields = FormFields::read(&viewer, &headers, body).await?;
        let unknown = || HttpProblem::not_found("conversation with this recipient");
        let who = Recipient::parse(&recipient).map_err(|_| unknown())?;
        let dry = !fields.text("dry").is_empty();
        if !dry && fields.text("sure").trim() != "erase" {
            let detail = "what is erased cannot be brought back; write `erase` into the field to confirm";
            return Err(HttpProblem::bad_request("not_confirmed", detail));
        }
        let reason = fields.text("reason");
        let reason = if reason.trim().is_empty() { "asked for in the lens" } else { reason.trim() };
        let report = erase_recipient(&viewer.app, viewer.tenant(), &who, (!dry).then_some(reason)).await?;
        // What was erased is shown under the name that it has from now on.
        let shown = report.pseudonym.clone().filter(|_| !dry).unwrap_or(recipient);
        one(&viewer, &shown, Some(&report)).await
    };
    let made = made.await;
    viewer.answer(made)
}
