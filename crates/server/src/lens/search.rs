//! Search over everything that was said.

use std::sync::Arc;

use axum::extract::Query;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_store::{ConversationKind, Cursor, Filter, Hit, Query as Words};
use serde::Deserialize;

use super::page::{self, NavItem, coded};
use super::text::{Eyes, said};
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;

const PAGE: usize = 30;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct SearchQuery {
    q: String,
    role: String,
    after: String,
}

pub(crate) async fn show(viewer: Viewer, Query(wish): Query<SearchQuery>) -> Response {
    viewer.answer(made(&viewer, &wish).await)
}

async fn made(viewer: &Viewer, wish: &SearchQuery) -> Result<PageContent, HttpProblem> {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
    let role = some(&wish.role).as_deref().map(crate::api::role_named).transpose()?;
    let after = some(&wish.after).as_deref().map(Cursor::parse).transpose()?;
    // What is looked through, cut and marked is what the viewer may see.
    let redactor = (!viewer.sees_all()).then(|| Arc::clone(&viewer.app.redactor));
    let filter = Filter { role, redactor, ..Filter::default() };
    let words = Words::parse(&wish.q);
    let asked = !words.is_empty();
    let found = viewer.store().search(viewer.tenant(), words, filter, PAGE, after).await?;
    let body = html! {
        div.head { h1 { "Search" } }
        section.card { div.in {
            form.fields method="get" action="/lens/search" {
                div.wide { label for="words" { "Words, \"phrases\", begin*, -without" } input #words type="search" name="q" value=(wish.q) autofocus; }
                div { label for="role" { "Said by" } select #role name="role" {
                    option value="" { "anybody" }
                    @for role in ["user", "assistant", "tool", "system"] { option value=(role) selected[wish.role == role] { (role) } }
                } }
                button.first { "Search" }
            }
        } }
        @if asked {
            section.card aria-label="What was found" {
                @if found.hits.is_empty() { p.in { "Nothing was found. All words must be in one entry; fewer words find more." } }
                ol.hits { @for hit in &found.hits { (line(hit, viewer.eyes())) } }
            }
            @if let Some(next) = found.next { nav.pager aria-label="Pages" { a.button rel="next" href=(format!("/lens/search?q={}&role={}&after={}", coded(&wish.q), coded(&wish.role), coded(next.as_str()))) { "More" } } }
        }
    };
    Ok(PageContent { title: "Search".into(), place: NavItem::Search, live: None, body })
}

fn line(hit: &Hit, eyes: Eyes<'_>) -> Markup {
    let to = format!("/lens/conversations/{}?at={1}#e{1}", hit.conversation, hit.position);
    html! {
        li {
            div.who {
                (page::role(hit.role))
                a href=(to) { @match &hit.recipient { Some(recipient) => (eyes.said(recipient.as_str())), None => @match &hit.title { Some(title) => (said(&eyes.brief(title, 90))), None => code { (hit.conversation.as_str()) } } } " #" (hit.position) }
                @if hit.kind != ConversationKind::Main { span.chip.info { (hit.kind.as_str()) } }
                (page::time(hit.created_at)) span { "turn " (hit.turn) }
            }
            p.said dir="auto" { (marked(&eyes.see(&hit.snippet))) }
        }
    }
}

/// A snippet with its matches marked. The marks of the store are ordinary letters, so only whole pairs count.
fn marked(snippet: &str) -> Markup {
    let mut pieces = Vec::new();
    let mut rest = snippet;
    while let Some((before, word, after)) = pair(rest) {
        pieces.push((before, word));
        rest = after;
    }
    html! {
        @for (before, word) in pieces { (said(before)) mark { (said(word)) } }
        (said(rest))
    }
}

fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_once('«')?;
    let (word, after) = after.split_once('»')?;
    Some((before, word, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_marked_and_everything_else_is_text() {
        assert_eq!(marked("a «b» <i> «c»").0, "a <mark>b</mark> &lt;i&gt; <mark>c</mark>");
        assert_eq!(marked("a « b").0, "a « b");
        assert_eq!(marked("").0, "");
    }
}
