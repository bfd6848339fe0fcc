//! The list of sessions with their conversations as trees; with an empty store, what to do first.

use axum::extract::Query;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_store::{
    Conversation, ConversationKind, Cursor, Listing, Recipient, SessionListing, Status, Which,
};
use serde::Deserialize;

use super::page::{self, NavItem, coded};
use super::text::{Eyes, dollars, number, said, short};
use super::timeline::{first_words, title};
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;
use crate::usage::{self, Total};

/// Conversations of one page.
const PAGE: usize = 50;
/// Most conversations of one session that the list shows; the page of a conversation has the others.
const SHOWN: usize = 20;
/// Entries looked at for how a conversation begins.
const BEGINNING: u64 = 4;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct ConversationsQuery {
    status: String,
    recipient: String,
    after: String,
}

/// A conversation as the list shows it.
struct ConversationRow {
    /// How deep it stands in the tree of its session.
    depth: usize,
    /// Conversations of its session that the list leaves out after it.
    hidden: u64,
    conversation: Conversation,
    entries: u64,
    total: Total,
    model: Option<String>,
    begins: Option<String>,
}

pub(crate) async fn show(viewer: Viewer, Query(wish): Query<ConversationsQuery>) -> Response {
    viewer.answer(made(&viewer, &wish).await)
}

async fn made(viewer: &Viewer, wish: &ConversationsQuery) -> Result<PageContent, HttpProblem> {
    let filtered = !wish.status.is_empty() || !wish.recipient.is_empty();
    let (rows, next) = if filtered { fitting(viewer, wish).await? } else { sessions(viewer, wish).await? };
    let nothing = rows.is_empty() && !filtered && wish.after.is_empty();
    let body = html! {
        @if nothing { (welcome(viewer)) } @else {
            div.head { h1 { "Conversations" } }
            (filter(wish))
            (list(&rows, viewer.eyes()))
            @if let Some(next) = next {
                nav.pager aria-label="Pages" { a.button rel="next" href=(format!("/lens?status={}&recipient={}&after={}", coded(&wish.status), coded(&wish.recipient), coded(next.as_str()))) { "Older" } }
            }
        }
    };
    Ok(PageContent {
        title: "Conversations".into(),
        place: NavItem::Conversations,
        live: Some("/api/events".into()),
        body,
    })
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_string())
}

/// Sessions, written last first: the main conversation of each, and below it the others.
async fn sessions(
    viewer: &Viewer,
    wish: &ConversationsQuery,
) -> Result<(Vec<ConversationRow>, Option<Cursor>), HttpProblem> {
    let after = some(&wish.after).as_deref().map(Cursor::parse).transpose()?;
    let page = viewer.store().sessions(Some(viewer.tenant()), SessionListing { limit: PAGE, after }).await?;
    let mut rows = Vec::new();
    for tree in &page.sessions {
        let lines = tree.lines();
        let shown = lines.len().min(SHOWN);
        for (number, line) in lines.iter().take(SHOWN).enumerate() {
            let mut conversation = line.conversation.clone();
            if line.depth == 0 {
                conversation.title = tree.title().map(String::from);
                conversation.updated_at = tree.updated_at;
            }
            let hidden = if number + 1 == shown { tree.total.saturating_sub(shown as u64) } else { 0 };
            rows.push(ConversationRow {
                depth: line.depth,
                hidden,
                ..row(viewer, conversation, line.messages).await?
            });
        }
    }
    Ok((rows, page.next))
}

/// The conversations that a filter leaves, written last first.
async fn fitting(
    viewer: &Viewer,
    wish: &ConversationsQuery,
) -> Result<(Vec<ConversationRow>, Option<Cursor>), HttpProblem> {
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
        rows.push(row(viewer, conversation, entries).await?);
    }
    Ok((rows, page.next))
}

async fn row(
    viewer: &Viewer,
    conversation: Conversation,
    entries: u64,
) -> Result<ConversationRow, HttpProblem> {
    let calls = usage::calls_of(viewer.store(), viewer.tenant(), &conversation.id).await?;
    let first =
        viewer.store().entries(viewer.tenant(), &conversation.id, 0, BEGINNING).await.unwrap_or_default();
    Ok(ConversationRow {
        depth: 0,
        hidden: 0,
        total: Total::of(&calls),
        model: calls.last().map(|call| call.model.clone()),
        begins: first_words(&first),
        conversation,
        entries,
    })
}

fn filter(wish: &ConversationsQuery) -> Markup {
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

fn list(rows: &[ConversationRow], eyes: Eyes<'_>) -> Markup {
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

fn line(row: &ConversationRow, eyes: Eyes<'_>) -> Markup {
    let ConversationRow { depth, hidden, conversation, entries, total, model, begins } = row;
    let name = title(conversation, begins.as_deref(), eyes);
    let named = conversation.title.is_some() || conversation.recipient.is_some();
    html! {
        tr id=(format!("c{}", conversation.id)) {
            td data-depth=(depth) {
                @if *depth > 0 { span.faint aria-hidden="true" { @for _ in 0..*depth { "\u{2003}" } "└ " } }
                @if conversation.kind != ConversationKind::Main { span.chip.info { (conversation.kind.as_str()) } " " }
                a.name href=(format!("/lens/conversations/{}", conversation.id)) { (said(&name)) }
                div.sub {
                    @if let Some(model) = model { (said(model)) " · " }
                    @if let (true, Some(begins)) = (named, begins) { (eyes.glance(begins, 140)) }
                }
                @if *hidden > 0 { div.sub { "and " (number(*hidden)) " more conversations of this session" } }
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

/// What a new user sees: lines to paste, and a conversation to look at.
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
