//! Sessions: a client's own units of work, each with its conversations as a tree.

use schemars::JsonSchema;
use scrollback_store::{Cursor, SessionId, SessionListing, SessionTree};
use serde::{Deserialize, Serialize};

use super::conversations::limit;
use super::operation::{ApiRequest, Nothing, Operation};
use super::shapes::ConversationShape;
use crate::HttpProblem;

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/sessions", "listSessions", "Sessions, written last first.", list),
        Operation::get("/sessions/{id}", "getSession", "A session with its conversations.", one),
    ]
}

/// Which sessions to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionsQuery {
    /// How many; 50 if not said, 500 at most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
}

/// A page of sessions.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sessions")]
pub(crate) struct SessionsAnswer {
    /// Written last first.
    sessions: Vec<SessionShape>,
    /// Where the next page begins; null at the end.
    next: Option<String>,
}

/// A session with its conversations.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub(crate) struct SessionShape {
    /// Its id, a ULID. A conversation whose client names no session is one of its own, with the same id.
    id: String,
    /// The client that named it; null if none did.
    client: Option<String>,
    /// The client's own id of it.
    client_id: Option<String>,
    /// The answer of the client's own title call, or else the first words of the person.
    title: Option<String>,
    /// When something was last written.
    updated_at: String,
    /// How many conversations it has; `conversations` has the first 500.
    total: u64,
    /// Its conversations as a tree: parents before what they started.
    conversations: Vec<NodeShape>,
}

/// A conversation in the tree of its session.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SessionConversation")]
pub(crate) struct NodeShape {
    /// How deep it stands; the main conversation is at 0.
    depth: usize,
    /// The conversation.
    conversation: ConversationShape,
}

impl SessionShape {
    fn of(tree: &SessionTree) -> Self {
        let named = tree.named.as_ref();
        let node = |line: &scrollback_store::TreeLine<'_>| NodeShape {
            depth: line.depth,
            conversation: ConversationShape::of(line.conversation, line.messages),
        };
        SessionShape {
            id: tree.id.to_string(),
            client: named.map(|named| named.client.clone()),
            client_id: named.map(|named| named.client_id.clone()),
            title: tree.title().map(String::from),
            updated_at: tree.updated_at.to_string(),
            total: tree.total,
            conversations: tree.lines().iter().map(node).collect(),
        }
    }
}

async fn list(asking: ApiRequest, query: SessionsQuery) -> Result<SessionsAnswer, HttpProblem> {
    let after = query.after.as_deref().map(Cursor::parse).transpose()?;
    let listing = SessionListing { limit: limit(query.limit)?, after };
    let page = asking.app.store.sessions(Some(asking.tenant()), listing).await?;
    Ok(SessionsAnswer {
        sessions: page.sessions.iter().map(SessionShape::of).collect(),
        next: page.next.map(|next| next.as_str().to_string()),
    })
}

async fn one(asking: ApiRequest, _: Nothing) -> Result<SessionShape, HttpProblem> {
    let id = SessionId::parse(asking.part("id")).ok_or_else(|| HttpProblem::not_found("session"))?;
    Ok(SessionShape::of(&asking.app.store.session_tree(asking.tenant(), &id).await?))
}
