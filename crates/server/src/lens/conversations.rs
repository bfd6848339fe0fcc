//! The list of conversations; with an empty store, what to do first.

use axum::extract::Query;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_store::{Conversation, Cursor, Listing, Recipient, Status, Which};
use serde::Deserialize;

use super::page::{self, Place, coded};
use super::text::{Eyes, dollars, number, said, short};
use super::timeline::{first_words, title};
use super::viewer::{Shown, Viewer};
use crate::Problem;
use crate::usage::{self, Total};

/// Conversations of one page.
const PAGE: usize = 50;
/// Entries looked at for how a conversation begins.
const BEGINNING: u64 = 4;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Wish {
    status: String,
    recipient: String,
    after: String,
}

/// A conversation as the list shows it.
struct Row {
    conversation: Conversation,
    entries: u64,
    total: Total,
    model: Option<String>,
    begins: Option<String>,
}

pub(crate) async fn show(viewer: Viewer, Query(wish): Query<Wish>) -> Response {
    viewer.answer(made(&viewer, &wish).await)
}

async fn made(viewer: &Viewer, wish: &Wish) -> Result<Shown, Problem> {
    let filtered = !wish.status.is_empty() || !wish.recipient.is_empty();
    let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
    let which =
        some(&wish.recipient).as_deref().map(Recipient::parse).transpose()?.map_or(Which::All, Which::With);
    let listing = Listing {
        status: some(&wish.status).as_deref().map(crate::api::status_named).transpose()?,
        which,
        limit: PAGE,
        after: some(&wish.after).as_deref().map(Cursor::parse).transpose()?,
    };
    let page = viewer.store().list(Some(viewer.tenant()), listing).await?;
    let mut rows = Vec::with_capacity(page.conversations.len());
    for (conversation, entries) in page.conversations {
        let calls = usage::calls_of(viewer.store(), viewer.tenant(), &conversation.id).await?;
        let first =
            viewer.store().entries(viewer.tenant(), &conversation.id, 0, BEGINNING).await.unwrap_or_default();
        rows.push(Row {
            total: Total::of(&calls),
            model: calls.last().map(|call| call.model.clone()),
            begins: first_words(&first),
            conversation,
            entries,
        });
    }
    let nothing = rows.is_empty() && !filtered && wish.after.is_empty();
    let body = html! {
        @if nothing { (welcome(viewer)) } @else {
            div.head { h1 { "Conversations" } }
            (filter(wish))
            (list(&rows, viewer.eyes()))
            @if let Some(next) = page.next {
                nav.pager aria-label="Pages" { a.button rel="next" href=(format!("/lens?status={}&recipient={}&after={}", coded(&wish.status), coded(&wish.recipient), coded(next.as_str()))) { "Older" } }
            }
        }
    };
    Ok(Shown {
        title: "Conversations".into(),
        place: Place::Conversations,
        live: Some("/api/events".into()),
        body,
    })
}

fn filter(wish: &Wish) -> Markup {
    html! {
        form.fields method="get" action="/lens" aria-label="Filter" {
            div { label for="status" { "Status" }
                select #status name="status" data-go="1" {
                    option value="" { "any" }
                    @for status in Status::ALL { option value=(status.name()) selected[wish.status == status.name()] { (status.name().replace('_', " ")) } }
                } }
            div { label for="recipient" { "Recipient" } input #recipient name="recipient" value=(wish.recipient) autocomplete="off"; }
            button { "Filter" }
        }
    }
}

fn list(rows: &[Row], eyes: Eyes<'_>) -> Markup {
    html! {
        div.card.scroll data-fresh="list" {
            @if rows.is_empty() { p.in { "No conversation fits." } } @else {
                table.rows {
                    caption.out { "Conversations, written last first" }
                    thead { tr {
                        th scope="col" { "Conversation" } th scope="col" { "Status" } th.n scope="col" { "Turns" }
                        th.n.wide-only scope="col" { "Entries" } th.n.wide-only scope="col" { "Calls" } th.n scope="col" { "Tokens" }
                        th.n.wide-only scope="col" { "Cached" } th.n scope="col" { "Cost" } th.wide-only scope="col" { "Last activity (UTC)" }
                    } }
                    tbody { @for row in rows { (line(row, eyes)) } }
                }
            }
        }
    }
}

fn line(row: &Row, eyes: Eyes<'_>) -> Markup {
    let Row { conversation, entries, total, model, begins } = row;
    let name = title(conversation, begins.as_deref(), eyes);
    let named = conversation.title.is_some() || conversation.recipient.is_some();
    html! {
        tr id=(format!("c{}", conversation.id)) {
            td {
                a.name href=(format!("/lens/conversations/{}", conversation.id)) { (said(&name)) }
                div.sub {
                    @if let Some(model) = model { (said(model)) " · " }
                    @if conversation.parent.is_some() { span.chip.info { "fork" } " " }
                    @if let (true, Some(begins)) = (named, begins) { (eyes.glance(begins, 140)) }
                }
            }
            td { (page::status(conversation.status().name())) }
            td.n { (number(conversation.turns)) }
            td.n.wide-only { (number(*entries)) }
            td.n.wide-only { (number(total.calls)) }
            td.n { @if total.calls > 0 { span title=(format!("{}: {}; output: {}", total.input_word(), number(total.input), number(total.output))) { (short(total.input + total.output)) } } @else { span.faint { "–" } } }
            td.n.wide-only { @if total.input > 0 { (total.cache_read * 100 / total.input) "%" } @else { span.faint { "–" } } }
            td.n { @match total.cost_usd { Some(cost) => (dollars(cost)), None => span.faint title="no price is known" { "–" } } }
            td.wide-only.nowrap { (page::time(conversation.updated_at)) }
        }
    }
}

/// What somebody sees who has nothing yet: lines to paste, and a conversation to look at.
fn welcome(viewer: &Viewer) -> Markup {
    let base = format!("http://{}", viewer.app.address);
    let codex = format!(
        "[model_providers.scrollback]\nname = \"Scrollback\"\nbase_url = \"{base}/v1\"\nwire_api = \"responses\"\n\n[profiles.scrollback]\nmodel_provider = \"scrollback\""
    );
    let clients = [
        (
            "OpenAI SDKs",
            format!("export OPENAI_BASE_URL={base}/v1"),
            "Python, TypeScript, and whatever speaks their API",
        ),
        (
            "Anthropic SDKs, Claude Code",
            format!("export ANTHROPIC_BASE_URL={base}"),
            "then start your program, or claude",
        ),
        ("Codex", codex, "in ~/.codex/config.toml, then codex --profile scrollback"),
        (
            "Anything else",
            format!(
                "curl {base}/v1/chat/completions -H 'content-type: application/json' \\\n  -d '{{\"model\":\"gpt-4o\",\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'"
            ),
            "without a provider's key an echo answers, and the whole chain works",
        ),
    ];
    html! {
        div data-fresh="list" {
            div.head { h1 { "Nothing was said yet" } }
            p { "Point a client at this server. Everything it says is kept, each call is sent what it needs, and you see here what that was." }
            div.grid2 { @for (name, lines, note) in clients {
                section.card { h2 { (name) } div.in { pre.paste { (said(&lines)) } p.soft.small { (note) } } }
            } }
            section.card { h2 { "Or look first" } div.in {
                p { "A conversation of our own: a support agent looks things up with tools for a while, until its history no longer fits and is cut." }
                form method="post" action="/lens/sample" { button.first { "Load the sample conversation" } }
            } }
            p.soft { "Transcripts of other tools can be " a href="/lens/import" { "imported" } "." }
        }
    }
}
