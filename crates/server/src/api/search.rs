//! Search over everything that was said.

use std::sync::Arc;

use schemars::JsonSchema;
use scrollback_core::recall::{Handle, Tail};
use scrollback_core::{Role, Time};
use scrollback_store::{ConversationId, Cursor, Filter, Query, Recipient};
use serde::{Deserialize, Serialize};

use super::conversations::{limit, status_named};
use super::operation::{ApiRequest, Operation};
use crate::HttpProblem;
use crate::secrets::Sees;

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation::get("/search", "search", "Entries that have all the words, best first.", search)]
}

/// What to look for, and where.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchQuery {
    /// Words that all must be there, `"phrases"`, `prefix*`, `-without`.
    q: String,
    /// Only what was said with this recipient.
    recipient: Option<String>,
    /// Only in this conversation.
    conversation: Option<String>,
    /// Only what this role said: `system`, `user`, `assistant` or `tool`.
    role: Option<String>,
    /// Only results and calls of this tool.
    tool: Option<String>,
    /// Only in conversations that stand so.
    status: Option<String>,
    /// Only from this time on (RFC 3339).
    since: Option<String>,
    /// Only before this time (RFC 3339).
    until: Option<String>,
    /// Only in this run.
    run: Option<String>,
    /// How many; 50 if not said, 500 at most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
}

/// What was found.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Hits")]
pub(crate) struct SearchAnswer {
    /// Best first, then newest.
    hits: Vec<HitShape>,
    /// Where the next page begins; null at the end.
    next: Option<String>,
}

/// An entry that was found.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Hit")]
pub(crate) struct HitShape {
    /// Whom the conversation is with.
    recipient: Option<String>,
    /// The conversation.
    conversation: String,
    /// The session it belongs to.
    session: String,
    /// What it is in its session: `main`, `sub-agent`, `side` or `branch`.
    kind: &'static str,
    /// What people call the conversation.
    title: Option<String>,
    /// The entry.
    position: u64,
    /// The name of the entry, which stays.
    handle: String,
    /// Who said it; a summary is the system's.
    role: &'static str,
    /// When.
    created_at: String,
    /// The words around the first match, matches between `«` and `»`.
    snippet: String,
    /// The turn it is in, from 1; 0 before the first user entry.
    turn: u64,
}

async fn search(asking: ApiRequest, query: SearchQuery) -> Result<SearchAnswer, HttpProblem> {
    let time = |name: &str, text: Option<&str>| {
        let read = |text| {
            Time::parse(text).ok_or_else(|| {
                HttpProblem::bad_request(
                    "bad_time",
                    format!("`{name}` is not a time such as 2026-01-31T12:00:00Z"),
                )
            })
        };
        text.map(read).transpose()
    };
    let conversation = query.conversation.as_deref().map(|id| {
        ConversationId::parse(id).ok_or_else(|| {
            HttpProblem::bad_request("bad_conversation", "`conversation` is not the id of a conversation")
        })
    });
    let filter = Filter {
        recipient: query.recipient.as_deref().map(Recipient::parse).transpose()?,
        role: query.role.as_deref().map(role_named).transpose()?,
        tool: query.tool,
        status: query.status.as_deref().map(status_named).transpose()?,
        since: time("since", query.since.as_deref())?,
        until: time("until", query.until.as_deref())?,
        evaluation: None,
        run: query.run,
        conversation: conversation.transpose()?,
        redactor: (Sees::of(&asking.caller) == Sees::Redacted).then(|| Arc::clone(&asking.app.redactor)),
    };
    let after = query.after.as_deref().map(Cursor::parse).transpose()?;
    let most = limit(query.limit)?;
    let found = asking.app.store.search(asking.tenant(), Query::parse(&query.q), filter, most, after).await?;
    let hits = found.hits.into_iter().map(|hit| HitShape {
        recipient: hit.recipient.map(|recipient| recipient.to_string()),
        conversation: hit.conversation.to_string(),
        session: hit.session.to_string(),
        kind: hit.kind.as_str(),
        title: hit.title,
        handle: handle(&hit.conversation, hit.position),
        position: hit.position,
        role: hit.role.as_str(),
        created_at: hit.created_at.to_string(),
        snippet: hit.snippet,
        turn: hit.turn,
    });
    Ok(SearchAnswer { hits: hits.collect(), next: found.next.map(|next| next.as_str().to_string()) })
}

/// The name of an entry.
fn handle(conversation: &ConversationId, position: u64) -> String {
    let tail = Tail::of(conversation.as_str());
    tail.map_or_else(String::new, |tail| Handle::at(tail, position).to_string())
}

/// A role by its name.
pub(crate) fn role_named(name: &str) -> Result<Role, HttpProblem> {
    let roles = [Role::System, Role::User, Role::Assistant, Role::Tool];
    roles.into_iter().find(|role| role.as_str() == name).ok_or_else(|| {
        HttpProblem::bad_request(
            "unknown_role",
            format!("unknown role {name:?} (known: system, user, assistant, tool)"),
        )
    })
}
