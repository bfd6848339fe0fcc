//! Search over everything that was said, grouped by session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use scrollback_core::recall::{RecallScope, SearchRequest, TextPattern, Wanted};
use scrollback_core::{Role, Time};
use scrollback_store::recall::{self, Deadline, Here};
use scrollback_store::{ConversationId, Cursor, Filter, Hit, Query as Words, SessionId};
use serde::Deserialize;

use super::page::{self, NavItem, coded};
use super::session_row::session_title;
use super::text::{plural, said};
use super::viewer::{PageContent, Viewer};
use crate::HttpProblem;

const PAGE: usize = 30;
/// How long a search by a regular expression may take: it reads every text.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct SearchQuery {
    q: String,
    role: String,
    tool: String,
    after: String,
}

/// One place that was found.
struct Found {
    conversation: ConversationId,
    position: u64,
    role: Role,
    at: Time,
    snippet: Markup,
}

pub(crate) async fn show(viewer: Viewer, Query(wish): Query<SearchQuery>) -> Response {
    viewer.answer(made(&viewer, &wish).await)
}

/// A regular expression: what stands between two slashes, with an `i` behind them where case does not matter.
fn expression(text: &str) -> Option<&str> {
    let text = text.trim();
    let inside = text.strip_suffix('i').unwrap_or(text).strip_prefix('/')?.strip_suffix('/')?;
    (!inside.is_empty()).then_some(text)
}

async fn made(viewer: &Viewer, wish: &SearchQuery) -> Result<PageContent, HttpProblem> {
    let (found, next, end) = if let Some(pattern) = expression(&wish.q) {
        let (found, end) = matching(viewer, wish, pattern).await?;
        (found, None, end)
    } else {
        let (found, next) = worded(viewer, wish).await?;
        (found, next, SearchEnd::Whole)
    };
    let asked = !wish.q.trim().is_empty();
    let groups = grouped(viewer, found).await?;
    let body = html! {
        div.head { h1 { "Search" } }
        section.card { div.in {
            form.fields method="get" action="/lens/search" {
                div.wide { label for="words" { "Words, \"phrases\", begin*, -without, or /regular expression/" } input #words type="search" name="q" value=(wish.q) autofocus; }
                div { label for="role" { "Said by" } select #role name="role" {
                    option value="" { "anybody" }
                    @for role in ["user", "assistant", "tool", "system"] { option value=(role) selected[wish.role == role] { (role) } }
                } }
                div { label for="tool" { "Tool" } input #tool name="tool" value=(wish.tool) autocomplete="off"; }
                button.first { "Search" }
            }
        } }
        @match end {
            SearchEnd::Whole => {}
            SearchEnd::Stopped => p.note.warn role="status" { "The search stopped after " (PATIENCE.as_secs()) " seconds and did not see every text: what is listed is not all there may be. Choose a role or a tool, or look for words first." },
            SearchEnd::More => p.note role="status" { "There are more places than the " (PAGE) " that are listed. Choose a role or a tool, or a narrower expression." },
        }
        @if asked && groups.is_empty() { section.card aria-label="What was found" { p.in { @match end {
            SearchEnd::Stopped => "Nothing was found in the texts that were seen.",
            _ if expression(&wish.q).is_some() => "Nothing was found: no text matches this expression.",
            _ => "Nothing was found. All words must be in one entry; fewer words find more.",
        } } } }
        @for (session, title, hits) in &groups {
            section.card aria-label=(format!("In {title}")) {
                header { h2 { a href=(format!("/lens/sessions/{session}")) { (said(title)) } } span.soft.small { (plural(hits.len() as u64, "place", "places")) } }
                ol.hits { @for hit in hits { (line(hit)) } }
            }
        }
        @if let Some(next) = next { nav.pager aria-label="Pages" { a.button rel="next" href=(format!("/lens/search?q={}&role={}&tool={}&after={}", coded(&wish.q), coded(&wish.role), coded(&wish.tool), coded(next.as_str()))) { "More" } } }
    };
    Ok(PageContent { title: "Search".into(), place: NavItem::Search, live: None, body })
}

fn some(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.trim().to_string())
}

/// What has the words, best first.
async fn worded(viewer: &Viewer, wish: &SearchQuery) -> Result<(Vec<Found>, Option<Cursor>), HttpProblem> {
    let role = some(&wish.role).as_deref().map(crate::api::role_named).transpose()?;
    let after = some(&wish.after).as_deref().map(Cursor::parse).transpose()?;
    // What is looked through, cut and marked is what the viewer may see.
    let redactor = (!viewer.sees_all()).then(|| Arc::clone(&viewer.app.redactor));
    let filter = Filter { role, tool: some(&wish.tool), redactor, ..Filter::default() };
    let found = viewer.store().search(viewer.tenant(), Words::parse(&wish.q), filter, PAGE, after).await?;
    let hit = |hit: &Hit| Found {
        conversation: hit.conversation.clone(),
        position: hit.position,
        role: hit.role,
        at: hit.created_at,
        snippet: marked(&viewer.eyes().see(&hit.snippet)),
    };
    Ok((found.hits.iter().map(hit).collect(), found.next))
}

/// How far a search went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchEnd {
    /// It saw everything, or the next page goes on.
    Whole,
    /// Its time was up before it had seen everything.
    Stopped,
    /// It saw more than it lists.
    More,
}

/// What an expression matches. It looks at texts as they were said, so only who may see all of them can ask: else it would
/// tell, match by match, what a secret is.
async fn matching(
    viewer: &Viewer,
    wish: &SearchQuery,
    pattern: &str,
) -> Result<(Vec<Found>, SearchEnd), HttpProblem> {
    if !page::may_reveal(&viewer.caller) {
        let detail =
            "regular expressions look at texts with their secrets; that takes a key with scope admin";
        return Err(HttpProblem::new(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    let pattern = TextPattern::parse(pattern)
        .map_err(|error| HttpProblem::bad_request("bad_pattern", error.to_string()))?;
    let request = SearchRequest {
        wanted: Wanted::Pattern(pattern),
        scope: RecallScope::All,
        role: some(&wish.role).as_deref().map(crate::api::role_named).transpose()?,
        tool: some(&wish.tool),
        since: None,
        before: None,
        limit: PAGE,
    };
    let until = Instant::now() + PATIENCE;
    let deadline = Deadline::new(move || Instant::now() > until);
    let found =
        viewer.store().find_for_recall(viewer.tenant(), &Here::default(), &request, &deadline).await?;
    let end = match &found {
        Some(found) if found.stopped => SearchEnd::Stopped,
        Some(found) if found.more => SearchEnd::More,
        _ => SearchEnd::Whole,
    };
    let mut all = Vec::new();
    for hit in found.map(|found| found.hits).unwrap_or_default() {
        let Ok(conversation) = recall::resolve(viewer.store(), viewer.tenant(), &hit.handle).await else {
            continue;
        };
        let Some((position, _)) = hit.handle.positions() else { continue };
        all.push(Found {
            conversation: conversation.id,
            position,
            role: hit.role,
            at: hit.at,
            snippet: marked(&viewer.eyes().see(&hit.snippet)),
        });
    }
    Ok((all, end))
}

/// A session: its id, its title, and the places in it.
type Group = (SessionId, String, Vec<Found>);

/// Hits by session, in the order of the best one of each.
async fn grouped(viewer: &Viewer, found: Vec<Found>) -> Result<Vec<Group>, HttpProblem> {
    let mut groups: Vec<Group> = Vec::new();
    for hit in found {
        let conversation = viewer.store().conversation(viewer.tenant(), &hit.conversation).await?;
        let known = groups.iter_mut().find(|(session, ..)| *session == conversation.session);
        if let Some((_, _, hits)) = known {
            hits.push(hit);
        } else {
            let tree = viewer.store().session_tree(viewer.tenant(), &conversation.session).await?;
            groups.push((conversation.session, session_title(viewer, &tree).await?, vec![hit]));
        }
    }
    Ok(groups)
}

fn line(hit: &Found) -> Markup {
    let to = format!("/lens/conversations/{}?at={1}#e{1}", hit.conversation, hit.position);
    html! {
        li {
            div.who { (page::role(hit.role)) a href=(to) { "#" (hit.position) } (page::time(hit.at)) }
            p.said dir="auto" { (hit.snippet) }
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
    fn an_expression_stands_between_slashes() {
        assert_eq!((expression(" /a b+/ "), expression("/a/i")), (Some("/a b+/"), Some("/a/i")));
        assert_eq!((expression("/"), expression("//"), expression("src/main.rs")), (None, None, None));
    }

    #[test]
    fn matches_are_marked_and_everything_else_is_text() {
        assert_eq!(marked("a «b» <i> «c»").0, "a <mark>b</mark> &lt;i&gt; <mark>c</mark>");
        assert_eq!(marked("a « b").0, "a « b");
        assert_eq!(marked("").0, "");
    }
}
