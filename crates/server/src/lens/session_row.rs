//! A session as lists show it: what it is called, by which client, with its conversations folded into one row of sums.

use std::collections::BTreeMap;

use maud::{Markup, html};
use scrollback_core::{Role, Slot, Time};
use scrollback_store::{Conversation, ConversationId, ConversationKind, Sent, SessionTree, StoredEntry};

use super::text::said;
use super::timeline::{first_words, title};
use super::viewer::Viewer;
use crate::HttpProblem;
use crate::known_calls::is_reported;
use crate::usage::{Spent, Total};

/// Entries looked at for how a conversation begins: clients put a few messages of their own first.
const BEGINNING: u64 = 8;

/// A session with the sums of all its conversations.
pub(crate) struct SessionRow {
    pub(crate) tree: SessionTree,
    pub(crate) total: Total,
    /// The models that were asked, the newest last.
    pub(crate) models: Vec<String>,
    /// Calls that failed or broke off.
    pub(crate) errors: u64,
    /// When it began, and when something was last said.
    pub(crate) began: Time,
    pub(crate) last: Time,
    /// Whether it is only known from a transcript.
    pub(crate) imported: bool,
    /// What was spent on each day, in UTC.
    pub(crate) days: BTreeMap<String, f64>,
    pub(crate) turns: u64,
}

impl SessionRow {
    /// Adds up the calls of all conversations of a session.
    pub(crate) fn of(tree: SessionTree, calls: &BTreeMap<ConversationId, Vec<Sent>>) -> Self {
        let own = || {
            let conversations = tree.conversations.iter();
            conversations.flat_map(|(conversation, _)| calls.get(&conversation.id).into_iter().flatten())
        };
        let (mut models, mut days) = (Vec::<String>::new(), BTreeMap::<String, f64>::new());
        let mut ordered: Vec<&Sent> = own().collect();
        ordered.sort_by_key(|call| call.started_at);
        for call in &ordered {
            models.retain(|known| *known != call.model);
            models.push(call.model.clone());
            let day: String = call.started_at.to_string().chars().take(10).collect();
            *days.entry(day).or_default() += Spent::of(call).and_then(|spent| spent.cost_usd).unwrap_or(0.0);
        }
        let imported = ordered.first().is_some_and(|call| is_reported(call));
        let said = tree.conversations.iter().filter_map(|(conversation, _)| conversation.last_said_at);
        let last =
            said.chain(ordered.iter().filter_map(|call| call.ended_at)).max().unwrap_or(tree.updated_at);
        let created = tree.conversations.iter().map(|(conversation, _)| conversation.created_at).min();
        // What was imported began when it was said, not when it came here.
        let began = ordered.first().map(|call| call.started_at).into_iter().chain(created).min();
        SessionRow {
            total: Total::of(own()),
            errors: ordered.iter().filter(|call| call.status.error().is_some()).count() as u64,
            began: began.unwrap_or(last).min(last),
            last,
            imported,
            days,
            models,
            turns: tree.root().map_or(0, |root| root.turns),
            tree,
        }
    }

    /// How many conversations of a kind it has.
    pub(crate) fn count(&self, kind: ConversationKind) -> u64 {
        let root = self.tree.root().map(|root| &root.id);
        let others = self.tree.conversations.iter().filter(|(one, _)| Some(&one.id) != root);
        others.filter(|(one, _)| one.kind == kind).count() as u64
    }

    /// The name of its client; empty if none named it.
    pub(crate) fn client(&self) -> &str {
        self.tree.named.as_ref().map_or("", |named| named.client.as_str())
    }
}

/// The client of a session: a sign and its name.
pub(crate) fn client_chip(tree: &SessionTree) -> Markup {
    html! { @if let Some(named) = &tree.named { (client(&named.client)) } }
}

/// A client's name behind its first letter.
pub(crate) fn client(name: &str) -> Markup {
    let letter: String = name.chars().take(1).flat_map(char::to_uppercase).collect();
    html! { @if !name.is_empty() { span.client { span.badge aria-hidden="true" { (said(&letter)) } (said(name)) } } }
}

/// What a session is called: its client's title, else how the person began.
pub(crate) async fn session_title(viewer: &Viewer, tree: &SessionTree) -> Result<String, HttpProblem> {
    let Some(root) = tree.root() else { return Ok(tree.id.to_string()) };
    match tree.title() {
        Some(given) => Ok(viewer.eyes().brief(given, 90)),
        None => conversation_title(viewer, root).await,
    }
}

/// What the page of a conversation is called: as its session where it is the main one.
pub(crate) async fn page_title(viewer: &Viewer, conversation: &Conversation) -> Result<String, HttpProblem> {
    let tree = viewer.store().session_tree(viewer.tenant(), &conversation.session).await?;
    match tree.root() {
        Some(root) if root.id == conversation.id => session_title(viewer, &tree).await,
        _ => conversation_title(viewer, conversation).await,
    }
}

/// What a conversation is called: its title, how it begins, or its recipient.
pub(crate) async fn conversation_title(
    viewer: &Viewer,
    conversation: &Conversation,
) -> Result<String, HttpProblem> {
    let first = begins(viewer, conversation).await?;
    Ok(title(conversation, first.as_deref(), viewer.eyes()))
}

/// How a conversation begins: the first words of the person. Of a branch, the first that are its own.
pub(crate) async fn begins(
    viewer: &Viewer,
    conversation: &Conversation,
) -> Result<Option<String>, HttpProblem> {
    let from = conversation.forked_from().map_or(0, |(_, at)| at);
    let read = |from: u64| viewer.store().entries(viewer.tenant(), &conversation.id, from, from + BEGINNING);
    let places = read(from).await?;
    let own = first_words(&places);
    if own.is_some() {
        return Ok(own);
    }
    let inherited = if from == 0 { None } else { first_words(&read(0).await?) };
    // Where no person spoke, the first text says more than a date.
    Ok(inherited.or_else(|| places.iter().find_map(spoken)))
}

/// The text of a message; none if it has none, or is an instruction.
fn spoken(placed: &StoredEntry) -> Option<String> {
    match &placed.slot {
        Slot::Message(entry) if entry.role != Role::System => {
            entry.content().filter(|text| !text.trim().is_empty())
        }
        _ => None,
    }
}

/// A model without its provider, which its name tells.
pub(crate) fn short_model(model: &str) -> &str {
    model.split_once(':').map_or(model, |(_, name)| name)
}
