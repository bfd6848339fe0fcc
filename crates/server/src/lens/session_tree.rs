//! The tree of a session beside the timeline: its main conversation, the sub-agents it started, side calls and branches.

use std::collections::{BTreeMap, HashMap};

use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use scrollback_core::{Role, Slot};
use scrollback_store::{
    Conversation, ConversationId, ConversationKind, Sent, SessionId, SessionTree, StoredEntry,
};
use serde_json::Value;

use super::session_row::{begins, session_title};
use super::text::{dollars, number, plural, said};
use super::timeline::title;
use super::viewer::Viewer;
use crate::HttpProblem;
use crate::known_calls::known_calls;
use crate::usage::Total;

/// Conversations of the tree that are shown.
const SHOWN: usize = 60;
/// Places of a conversation that are looked through for the calls that started sub-agents.
const LOOKED: u64 = 5_000;
/// Shorter texts than this are not taken for the task of a sub-agent unless they are all of it.
const TELLING: usize = 40;

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

/// A sub-agent that was started from a conversation.
pub(crate) struct Helper {
    /// The position of the call that started it, and the call's number among those of its entry; none where no call has its task.
    pub(crate) started: Option<(u64, usize)>,
    href: String,
    title: String,
    total: Total,
    ended: Option<&'static str>,
}

impl Helper {
    /// That it was started, in few words.
    pub(crate) fn chip(&self) -> Markup {
        html! { span.chip.info { "sub-agent" } @if let Some(word) = self.ended { span.chip.bad { "sub-agent: " (word) } } }
    }

    /// The way to it, with what it did.
    pub(crate) fn line(&self) -> Markup {
        html! {
            p.helper { span.chip.info { "sub-agent" } " " a href=(self.href) { (said(&self.title)) } span.soft.small { " · " (sums(&self.total)) }
                @if let Some(word) = self.ended { " " span.chip.bad { (word) } } }
        }
    }
}

fn sums(total: &Total) -> Markup {
    html! { (plural(total.calls, "call", "calls")) @if let Some(cost) = total.cost_usd { " · " (dollars(cost)) } }
}

/// A conversation of the session as the tree shows it.
struct Branch {
    conversation: Conversation,
    depth: usize,
    title: String,
    calls: Vec<Sent>,
    ended: Option<&'static str>,
    /// Where in its parent it was started, and by which call.
    started: Option<(u64, usize)>,
}

/// The session of a conversation, as its page needs it.
pub(crate) struct SessionAround {
    tree: SessionTree,
    /// Its conversations, of many the first; none where there is only one.
    branches: Vec<Branch>,
    /// What it is called.
    pub(crate) title: String,
    /// What all its conversations used together; none where there is only one, or there are too many to look at.
    pub(crate) total: Option<Total>,
}

impl SessionAround {
    /// Reads the session of a conversation.
    pub(crate) async fn of(viewer: &Viewer, here: &Conversation) -> Result<Self, HttpProblem> {
        let tree = viewer.store().session_tree(viewer.tenant(), &here.session).await?;
        let title = session_title(viewer, &tree).await?;
        if tree.conversations.len() < 2 {
            return Ok(SessionAround { tree, branches: Vec::new(), title, total: None });
        }
        let mut branches = Vec::new();
        let mut tasks: BTreeMap<ConversationId, StartingCalls> = BTreeMap::new();
        for line in tree.lines().into_iter().take(SHOWN) {
            branches.push(branch(viewer, line.conversation, line.depth, &mut tasks).await?);
        }
        let all = tree.total <= branches.len() as u64;
        let total = all.then(|| Total::of(branches.iter().flat_map(|branch| &branch.calls)));
        Ok(SessionAround { tree, branches, title, total })
    }

    /// Whether a conversation is the main one.
    pub(crate) fn is_main(&self, one: &Conversation) -> bool {
        self.tree.root().is_some_and(|root| root.id == one.id)
    }

    /// Whether a client named it, so that more conversations may come.
    pub(crate) fn is_named(&self) -> bool {
        self.tree.named.is_some()
    }

    /// How many conversations it has.
    pub(crate) fn count(&self) -> u64 {
        self.tree.total
    }

    /// The ids of its conversations, as pages that follow it name them.
    pub(crate) fn ids(&self) -> String {
        ids(&self.tree)
    }

    /// The sub-agents that a conversation started.
    pub(crate) fn helpers_of(&self, parent: &ConversationId) -> Vec<Helper> {
        let mine =
            self.branches.iter().filter(|branch| branch.conversation.kind == ConversationKind::SubAgent);
        let mine = mine
            .filter(|branch| parent_of(&self.tree, &branch.conversation).is_some_and(|of| of.id == *parent));
        mine.map(|branch| Helper {
            started: branch.started,
            href: format!("/lens/conversations/{}", branch.conversation.id),
            title: branch.title.clone(),
            total: Total::of(&branch.calls),
            ended: branch.ended,
        })
        .collect()
    }

    /// The conversations as a tree, with where one is; nothing where there is only one.
    pub(crate) fn show(&self, here: &ConversationId) -> Option<Markup> {
        if self.branches.is_empty() {
            return None;
        }
        let hidden = self.tree.total.saturating_sub(self.branches.len() as u64);
        Some(html! {
            nav.card.session-tree aria-label="Conversations of this session" data-fresh="tree" {
                header { h2 { "Session" } span.soft.small { (plural(self.tree.total, "conversation", "conversations")) } }
                ul { @for branch in &self.branches { (self.line(branch, here)) } @if hidden > 0 { li.soft { "and " (number(hidden)) " more" } } }
            }
        })
    }

    fn line(&self, branch: &Branch, here: &ConversationId) -> Markup {
        let one = &branch.conversation;
        let parent = parent_of(&self.tree, one);
        html! {
            li.(format!("depth{}", branch.depth.min(4))) {
                @if one.kind != ConversationKind::Main || branch.depth > 0 { span.chip.info { (one.kind.as_str()) } " " }
                @if let Some(word) = branch.ended { span.chip.bad { (word) } " " }
                a href=(format!("/lens/conversations/{}", one.id)) aria-current=[(one.id == *here).then_some("page")] { (said(&branch.title)) }
                div.sub {
                    (sums(&Total::of(&branch.calls)))
                    @if let Some((parent, at)) = one.forked_from() { " · " a href=(format!("/lens/conversations/{parent}?at={at}#e{at}")) { "forked at #" (at) } }
                    @else if let (Some(parent), Some((at, number))) = (parent, branch.started) { " · " a href=(format!("/lens/conversations/{}?at={at}#c{at}-{number}", parent.id)) { "started at #" (at) } }
                }
            }
        }
    }
}

/// The ids of a session's conversations, as pages that follow it name them.
pub(crate) fn ids(tree: &SessionTree) -> String {
    let ids: Vec<&str> = tree.conversations.iter().map(|(one, _)| one.id.as_str()).collect();
    ids.join(" ")
}

/// The conversation that started another one; the main one where none is named.
fn parent_of<'t>(tree: &'t SessionTree, one: &Conversation) -> Option<&'t Conversation> {
    let named = tree
        .conversations
        .iter()
        .map(|(other, _)| other)
        .find(|other| one.parent.as_ref() == Some(&other.id));
    named.or_else(|| tree.root()).filter(|parent| parent.id != one.id)
}

async fn branch(
    viewer: &Viewer,
    one: &Conversation,
    depth: usize,
    tasks: &mut BTreeMap<ConversationId, StartingCalls>,
) -> Result<Branch, HttpProblem> {
    let calls = known_calls(&viewer.app, one).await?;
    let from = one.head.saturating_sub(1);
    let last = viewer.store().entries(viewer.tenant(), &one.id, from, one.head).await?;
    let ended = ending(last.last().map(|placed| &placed.slot), &calls, one.kind);
    let first = begins(viewer, one).await?;
    let title = title(one, first.as_deref(), viewer.eyes());
    let mut started = None;
    if let (ConversationKind::SubAgent, Some(parent), Some(task)) = (one.kind, &one.parent, &first) {
        if !tasks.contains_key(parent) {
            let places = viewer.store().entries(viewer.tenant(), parent, 0, LOOKED).await?;
            tasks.insert(parent.clone(), StartingCalls::of(&places));
        }
        started = tasks.get_mut(parent).and_then(|calls| calls.take(task));
    }
    Ok(Branch { conversation: one.clone(), depth, title, calls, ended, started })
}

/// Calls by the texts they were given: a sub-agent begins with the task that its call names.
#[derive(Default)]
struct StartingCalls {
    by_task: HashMap<String, Vec<(u64, usize)>>,
}

impl StartingCalls {
    fn of(places: &[StoredEntry]) -> Self {
        let mut found = StartingCalls::default();
        for placed in places.iter().rev() {
            let Slot::Message(entry) = &placed.slot else { continue };
            let calls: Vec<_> = entry.tool_calls().enumerate().collect();
            for (number, call) in calls.into_iter().rev() {
                let Ok(value) = serde_json::from_str::<Value>(&call.arguments.as_str()) else { continue };
                let mut texts = Vec::new();
                gather(&value, 0, &mut texts);
                for text in texts {
                    let calls = found.by_task.entry(text.trim().to_string()).or_default();
                    calls.push((placed.position, number));
                }
            }
        }
        found
    }

    /// The call that has a task, the first that has not been taken yet.
    fn take(&mut self, task: &str) -> Option<(u64, usize)> {
        let task = task.trim();
        if let Some(call) = self.by_task.get_mut(task).and_then(Vec::pop) {
            return Some(call);
        }
        // Clients put words of their own around the task.
        let within = |text: &str| text.len() >= TELLING && task.contains(text);
        let longest = self.by_task.iter_mut().filter(|(text, calls)| !calls.is_empty() && within(text));
        longest.max_by_key(|(text, _)| text.len()).and_then(|(_, calls)| calls.pop())
    }
}

/// All texts of a value.
fn gather(value: &Value, depth: usize, texts: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.trim().is_empty() => texts.push(text.clone()),
        Value::Array(list) if depth < 3 => list.iter().for_each(|one| gather(one, depth + 1, texts)),
        Value::Object(members) if depth < 3 => {
            members.values().for_each(|one| gather(one, depth + 1, texts));
        }
        _ => {}
    }
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
    use scrollback_core::{Entry, Link};
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

    #[test]
    fn a_sub_agent_belongs_to_the_call_that_has_its_task() {
        let task = r#"{"description":"look","prompt":"find every caller of the old function in the server"}"#;
        let asked = Entry::calling(None, &[("c1", "Task", task), ("c2", "Task", task)]);
        let later =
            Entry::calling(None, &[("c3", "spawn_agent", r#"{"items":[{"text":"write the tests"}]}"#)]);
        let place = |(position, entry): (u64, Entry)| StoredEntry {
            position,
            slot: Slot::Message(Arc::new(entry)),
            link: Link::default(),
            body_hash: Link::default(),
            prefix: None,
        };
        let places: Vec<StoredEntry> = [(3, asked), (9, later)].into_iter().map(place).collect();
        let mut calls = StartingCalls::of(&places);
        assert_eq!(calls.take("write the tests"), Some((9, 0)));
        assert_eq!(calls.take("find every caller of the old function in the server\n"), Some((3, 0)));
        assert_eq!(
            calls.take("Context.\nfind every caller of the old function in the server\nBe brief."),
            Some((3, 1))
        );
        assert_eq!(
            calls.take("find every caller of the old function in the server"),
            None,
            "each call starts one"
        );
    }
}
