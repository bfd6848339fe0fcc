//! How the server is: its store by kind of bytes, what waits to be written, and whether what is stored is what was written.

use std::sync::{Mutex, PoisonError};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use scrollback_core::Time;
use scrollback_store::Listing;

use super::form::FormFields;
use super::page::{self, NavItem};
use super::text::{bytes, number, plural, said};
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;

/// Problems that are listed.
const LISTED: usize = 100;
/// Conversations that one look verifies: the newest. `scrollback verify` has no limit.
const VERIFIED: usize = 20_000;

/// The last time the store was verified from here.
#[derive(Debug, Default)]
pub(crate) struct LastVerified(Mutex<Option<Found>>);

/// What a look at the whole store found.
#[derive(Clone, Debug)]
struct Found {
    at: Time,
    conversations: u64,
    entries: u64,
    problems: Vec<String>,
    notes: Vec<String>,
}

pub(crate) async fn show(viewer: Viewer) -> Response {
    viewer.answer(made(&viewer).await)
}

async fn made(viewer: &Viewer) -> Result<PageContent, HttpProblem> {
    let app = &viewer.app;
    let used = viewer.store().used().await?;
    let last = app.last_verified.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let waiting = app.waiting.waiting() as u64;
    let body = html! {
        div.head { h1 { "Health" } }
        section.card aria-label="Server" { header { h2 { "Server" } } div.in { dl.facts {
            div { dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) } }
            div { dt { "Store" } dd { (said(&app.store.describe())) } }
            div { dt { "In use" } dd { (bytes(used)) } }
            div { dt { "Entries that wait to be written" } dd { (number(waiting)) small { " of at most " (number(app.settings.limits.waiting_entries as u64)) } } }
        } } }
        section.card aria-label="Room" { header { h2 { "Room by kind" } } div.in {
            div data-part="/lens/health/sizes" { a href="/lens/health/sizes" { "Measure the store" } span.soft { " (it looks at every page of the file)" } }
        } }
        section.card aria-label="Verification" { header { h2 { "Last verified" } @if let Some(last) = &last { (page::ago(last.at)) } } div.in.stack {
            @match &last {
                None => p { "Not since this server started. " span.soft { "A look reads every page and every entry, and checks hashes and links; it changes nothing." } },
                Some(last) => (found(last)),
            }
            form method="post" action="/lens/health/verify" { button { "Verify now" } }
        } }
    };
    Ok(PageContent { title: "Health".into(), place: NavItem::Health, live: None, body })
}

fn found(last: &Found) -> Markup {
    html! {
        p { @if last.problems.is_empty() { span.chip.good { "whole" } } @else { span.chip.bad { (plural(last.problems.len() as u64, "problem", "problems")) } }
            " " (plural(last.entries, "entry", "entries")) " in " (plural(last.conversations, "conversation", "conversations")) " are as they were written." }
        @if !last.problems.is_empty() { ul { @for problem in last.problems.iter().take(LISTED) { li { (said(problem)) } } } }
        @if !last.notes.is_empty() { ul.soft { @for note in last.notes.iter().take(LISTED) { li { (said(note)) } } } }
    }
}

/// Bytes by kind, as a part of the page.
pub(crate) async fn sizes(viewer: Viewer) -> Response {
    let sizes = match viewer.store().sizes().await {
        Ok(sizes) => sizes,
        Err(error) => return HttpProblem::from(error).into_response(),
    };
    let kinds = [
        ("What was said", sizes.entries),
        ("What calls were sent, beyond that", sizes.sent),
        ("Large parts, whole requests and replies", sizes.blobs),
        ("Search index", sizes.index),
        ("Everything else", sizes.other),
        ("Free for what comes next", sizes.free),
    ];
    let all = sizes.total().max(1);
    page::framed(
        StatusCode::OK,
        html! { table.cards {
            thead { tr { th scope="col" { "Kind" } th.n scope="col" { "Bytes" } th.n scope="col" { "Share" } } }
            tbody { @for (kind, size) in kinds { tr { th scope="row" { (kind) } td.n data-l="Bytes" { (bytes(size)) } td.n data-l="Share" { (size * 100 / all) " %" } } } }
        } },
    )
}

pub(crate) async fn verify(viewer: Viewer, headers: HeaderMap, body: Body) -> Response {
    let made = async {
        viewer.caller.may_write()?;
        FormFields::read(&viewer, &headers, body).await?;
        let (store, tenant) = (viewer.store(), viewer.tenant());
        let examined = store.examine().await?;
        let mut found = Found {
            at: viewer.app.now(),
            conversations: 0,
            entries: 0,
            problems: examined.problems.into_iter().map(|(_, line)| line).collect(),
            notes: examined.notes,
        };
        let listing = Listing { limit: VERIFIED, ..Listing::default() };
        let page = store.list(Some(tenant), listing).await?;
        for (row, _) in &page.conversations {
            let verified = store.verify(tenant, &row.id).await?;
            found.conversations += 1;
            found.entries += verified.entries;
            found
                .problems
                .extend(verified.problems.iter().map(|problem| format!("{}: {}", row.id, problem.detail)));
        }
        if page.next.is_some() {
            found.notes.push(format!("only the newest {VERIFIED} conversations were looked at"));
        }
        *viewer.app.last_verified.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        made(&viewer).await
    };
    let made = made.await;
    viewer.answer(made)
}
