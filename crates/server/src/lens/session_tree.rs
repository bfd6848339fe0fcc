//! The tree of a session beside the timeline: its main conversation, the sub-agents it started, side calls and branches.

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use scrollback_core::{Role, Slot};
use scrollback_store::{Conversation, ConversationId, ConversationKind, Sent, SessionId, SessionTree};

use super::session_row::conversation_title;
use super::text::{dollars, number, plural, said};
use super::viewer::Viewer;
use crate::HttpProblem;
use crate::known_calls::known_calls;
use crate::usage::Total;

/// Conversations of the tree that are shown.
const SHOWN: usize = 60;

/// How a conversation ended, where that is worth a word.
fn ending(last: Option<&Slot>, calls: &[Sent], kind: ConversationKind) -> Option<&'static str> {
    if calls.last().is_some_and(|call| call.status.error().is_some()) {
        return Some("failed");
    }
    let Some(Slot::Message(entry)) = last else { return None };
    if entry.status() != scrollback_core::Status::Complete {
        return Some("broke off");
    }
    // A helper has done its work when it has said something that asks for nothing more.
    let done = entry.role == Role::Assistant && entry.open_calls().next().is_none();
    (kind == ConversationKind::SubAgent && !done).then_some("no answer")
}

/// The conversations of a session as a tree, with where one is; nothing where there is only one.
pub(crate) async fn tree(viewer: &Viewer, here: &Conversation) -> Result<Option<Markup>, HttpProblem> {
    let tree = viewer.store().session_tree(viewer.tenant(), &here.session).await?;
    if tree.conversations.len() < 2 {
        return Ok(None);
    }
    let mut lines = Vec::new();
    for line in tree.lines().iter().take(SHOWN) {
        let one = line.conversation;
        let calls = known_calls(&viewer.app, one).await?;
        let from = one.head.saturating_sub(1);
        let last = viewer.store().entries(viewer.tenant(), &one.id, from, one.head).await?;
        let ended = ending(last.last().map(|placed| &placed.slot), &calls, one.kind);
        lines.push(branch(viewer, line.depth, one, &calls, ended, one.id == here.id).await?);
    }
    let hidden = tree.total.saturating_sub(lines.len() as u64);
    Ok(Some(html! {
        nav.card.session-tree aria-label="Conversations of this session" data-fresh="tree" {
            header { h2 { "Session" } span.soft.small { (plural(tree.total, "conversation", "conversations")) } }
            ul { @for line in lines { (line) } @if hidden > 0 { li.soft { "and " (number(hidden)) " more" } } }
        }
    }))
}

async fn branch(
    viewer: &Viewer,
    depth: usize,
    one: &Conversation,
    calls: &[Sent],
    ended: Option<&'static str>,
    is_here: bool,
) -> Result<Markup, HttpProblem> {
    let title = conversation_title(viewer, one).await?;
    let total = Total::of(calls);
    let fork = one.forked_from().map(|(parent, at)| (parent.clone(), at));
    Ok(html! {
        li.(format!("depth{}", depth.min(4))) {
            @if one.kind != ConversationKind::Main || depth > 0 { span.chip.info { (one.kind.as_str()) } " " }
            @if let Some(word) = ended { span.chip.bad { (word) } " " }
            a href=(format!("/lens/conversations/{}", one.id)) aria-current=[is_here.then_some("page")] { (said(&title)) }
            div.sub {
                (plural(total.calls, "call", "calls"))
                @if let Some(cost) = total.cost_usd { " · " (dollars(cost)) }
                @if let Some((parent, at)) = fork { " · " a href=(format!("/lens/conversations/{parent}?at={at}#e{at}")) { "forked at #" (at) } }
            }
        }
    })
}

/// A session by its id: its main conversation.
pub(crate) async fn show(viewer: Viewer, Path(id): Path<String>) -> Response {
    let found = async {
        let session = SessionId::parse(&id).ok_or_else(|| HttpProblem::not_found("session"))?;
        let tree: SessionTree = viewer.store().session_tree(viewer.tenant(), &session).await?;
        let root = tree.root().ok_or_else(|| HttpProblem::not_found("session"))?;
        Ok::<ConversationId, HttpProblem>(root.id.clone())
    };
    match found.await {
        Ok(id) => Redirect::to(&format!("/lens/conversations/{id}")).into_response(),
        Err(problem) => viewer.answer(Err(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scrollback_core::Entry;
    use std::sync::Arc;

    #[test]
    fn a_helper_without_a_last_word_did_not_answer() {
        let slot = |entry: Entry| Slot::Message(Arc::new(entry));
        let asked = slot(Entry::calling(None, &[("c1", "ls", "{}")]));
        let (said, result) = (slot(Entry::assistant("done")), slot(Entry::result("c1", "x")));
        let told = |last: &Slot, kind| ending(Some(last), &[], kind);
        assert_eq!(told(&said, ConversationKind::SubAgent), None);
        assert_eq!(told(&asked, ConversationKind::SubAgent), Some("no answer"));
        assert_eq!(told(&result, ConversationKind::SubAgent), Some("no answer"));
        assert_eq!(told(&result, ConversationKind::Main), None, "a main conversation goes on");
    }
}
