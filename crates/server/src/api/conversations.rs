//! Conversations: listed, begun, looked at, forked, erased, and where they stand.

use axum::http::StatusCode;
use schemars::JsonSchema;
use scrollback_store::{
    ConversationId, Cursor, Erase, Listing, NewConversation, Recipient, RecordsExt, Status, Tenant, Which,
};
use serde::{Deserialize, Serialize};

use super::operation::{ApiRequest, Nothing, Operation};
use super::shapes::ConversationShape;
use crate::usage::{self, Total};
use crate::{App, HttpProblem};

/// Most rows of one page: what fits a screen many times over, and costs little.
pub(crate) const MOST: usize = 500;

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/conversations", "listConversations", "Conversations, written last first.", list),
        Operation::post_as(
            StatusCode::CREATED,
            "/conversations",
            "createConversation",
            "Begins a conversation.",
            create,
        )
        .fails(&[409]),
        Operation::get(
            "/conversations/{id}",
            "getConversation",
            "A conversation, and what its calls used.",
            one,
        ),
        Operation::post_as(
            StatusCode::CREATED,
            "/conversations/{id}/fork",
            "forkConversation",
            "Forks a conversation: it shares the entries below a position; later ones are separate.",
            fork,
        ),
        Operation::post(
            "/conversations/{id}/erase",
            "eraseEntries",
            "Erases what was said, for good. Places and hashes stay.",
            erase,
        ),
        Operation::get(
            "/conversations/{id}/status",
            "getStatus",
            "Where a conversation stands, and when to follow up.",
            status,
        ),
        Operation::post(
            "/conversations/{id}/status",
            "setStatus",
            "Sets where a conversation stands.",
            set_status,
        ),
    ]
}

/// Which conversations to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// Only those that stand so: `active`, `awaiting_answer`, `closed` or `idle`.
    status: Option<String>,
    /// Only those with this recipient.
    recipient: Option<String>,
    /// How many; 50 if not said, 500 at most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
}

/// A page of conversations.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Conversations")]
pub(crate) struct ListAnswer {
    /// Written last first.
    conversations: Vec<ConversationShape>,
    /// Where the next page begins; null at the end.
    next: Option<String>,
}

async fn list(asking: ApiRequest, query: ListQuery) -> Result<ListAnswer, HttpProblem> {
    let which = query.recipient.as_deref().map(Recipient::parse).transpose()?.map_or(Which::All, Which::With);
    let listing = Listing {
        status: query.status.as_deref().map(status_named).transpose()?,
        which,
        limit: limit(query.limit)?,
        after: query.after.as_deref().map(Cursor::parse).transpose()?,
    };
    let page = asking.app.store.list(Some(asking.tenant()), listing).await?;
    let conversations = page.conversations.iter().map(|(row, entries)| ConversationShape::of(row, *entries));
    Ok(ListAnswer {
        conversations: conversations.collect(),
        next: page.next.map(|next| next.as_str().to_string()),
    })
}

/// How many rows a page has.
pub(crate) fn limit(asked: Option<usize>) -> Result<usize, HttpProblem> {
    match asked.unwrap_or(50) {
        limit @ 1..=MOST => Ok(limit),
        limit => Err(HttpProblem::bad_request(
            "bad_limit",
            format!("limit must be between 1 and {MOST}, not {limit}"),
        )),
    }
}

pub(crate) fn status_named(name: &str) -> Result<Status, HttpProblem> {
    Status::named(name).ok_or_else(|| {
        let known = Status::ALL.map(Status::name);
        let detail = format!("unknown status {name:?} (known: {})", known.join(", "));
        HttpProblem::bad_request("unknown_status", detail).with("known", known.to_vec())
    })
}

/// A conversation to begin.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewShape {
    /// Whom it is with. It becomes the recipient's current conversation; one that has a current one is a conflict.
    #[serde(default)]
    recipient: Option<String>,
    /// What people call it.
    #[serde(default)]
    title: Option<String>,
}

async fn create(asking: ApiRequest, new: NewShape) -> Result<ConversationShape, HttpProblem> {
    let (app, now) = (&asking.app, asking.app.now());
    let id = ConversationId::new(now);
    if new.title.as_ref().is_some_and(|title| title.len() > 1_000 || title.contains('\0')) {
        return Err(HttpProblem::bad_request("bad_title", "a title has at most 1,000 bytes and no NUL"));
    }
    let mut conversation = match new.recipient.as_deref().map(Recipient::parse).transpose()? {
        Some(recipient) => NewConversation::with(id.clone(), &recipient),
        None => NewConversation::new(id.clone()),
    };
    conversation.title = new.title;
    app.store.write(asking.tenant(), now, |tx| _ = tx.create(conversation)).await?;
    shape(app, asking.tenant(), &id).await
}

async fn shape(app: &App, tenant: &Tenant, id: &ConversationId) -> Result<ConversationShape, HttpProblem> {
    let recent = app.store.recent(tenant, id, 0).await?;
    Ok(ConversationShape::of(&recent.conversation, recent.messages))
}

/// A conversation, and what its calls used.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConversationWithUsage")]
pub(crate) struct OneAnswer {
    #[serde(flatten)]
    conversation: ConversationShape,
    /// What its calls used.
    usage: Total,
    /// Ids of its forks.
    forks: Vec<String>,
}

async fn one(asking: ApiRequest, _: Nothing) -> Result<OneAnswer, HttpProblem> {
    let id = asking.conversation()?;
    let (app, tenant) = (&asking.app, asking.tenant());
    let conversation = shape(app, tenant, &id).await?;
    let calls = usage::calls_of(app.store.as_ref(), tenant, &id).await?;
    let branches = app.store.branches(tenant, &id).await?;
    let forks = branches.into_iter().filter(|branch| branch.parent.as_ref() == Some(&id));
    Ok(OneAnswer {
        conversation,
        usage: Total::of(&calls),
        forks: forks.map(|fork| fork.conversation.to_string()).collect(),
    })
}

/// Where to fork.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkShape {
    /// The first position that is not shared; at most the next position of the conversation.
    at: u64,
}

async fn fork(asking: ApiRequest, fork: ForkShape) -> Result<ConversationShape, HttpProblem> {
    let (id, now) = (asking.conversation()?, asking.app.now());
    let made = ConversationId::new(now);
    asking.app.store.fork(asking.tenant(), &id, fork.at, made.clone(), now).await?;
    shape(&asking.app, asking.tenant(), &made).await
}

/// What to erase.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EraseShape {
    /// First and last position; everything if not said.
    #[serde(default)]
    positions: Option<(u64, u64)>,
    /// Must be `true` to erase everything.
    #[serde(default)]
    all: bool,
    /// Why, which stays on record.
    #[serde(default)]
    reason: Option<String>,
}

/// What was erased.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Erased")]
pub(crate) struct EraseAnswer {
    /// Entries.
    erased: u64,
    /// Calls whose bodies were emptied, because they held them.
    sent: u64,
    /// Forks that show it too.
    forks: u64,
}

async fn erase(asking: ApiRequest, wish: EraseShape) -> Result<EraseAnswer, HttpProblem> {
    let what = match (wish.positions, wish.all) {
        (Some((first, last)), false) if first <= last => Erase::Positions(vec![(first, last)]),
        (None, true) => Erase::All,
        (Some(_), false) => {
            return Err(HttpProblem::bad_request("bad_range", "the first position lies after the last"));
        }
        _ => {
            let detail = "say which positions to erase, or \"all\": true";
            return Err(HttpProblem::bad_request("bad_range", detail));
        }
    };
    let id = asking.conversation()?;
    let reason = wish.reason.as_deref().unwrap_or("asked for by API");
    let now = asking.app.now();
    let done = asking.app.store.erase(asking.tenant(), &id, what, reason, now).await?;
    Ok(EraseAnswer { erased: done.erased, sent: done.sent, forks: done.forks })
}

/// Where a conversation stands.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Status")]
pub(crate) struct StatusAnswer {
    /// The conversation.
    conversation: String,
    /// Whom it is with.
    recipient: Option<String>,
    /// `active`, `awaiting_answer`, `closed` or `idle`.
    status: &'static str,
    /// When that was set.
    status_at: Option<String>,
    /// Who spoke last.
    last_role: Option<&'static str>,
    /// When they did.
    last_at: Option<String>,
    /// Turns.
    turns: u64,
    /// Whether a follow-up is due.
    follow_up: FollowUpShape,
}

/// Whether a follow-up is due.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FollowUp")]
pub(crate) struct FollowUpShape {
    /// Whether it is time.
    pub(crate) due: bool,
    /// When it is; null if never.
    pub(crate) at: Option<String>,
}

async fn status(asking: ApiRequest, _: Nothing) -> Result<StatusAnswer, HttpProblem> {
    let id = asking.conversation()?;
    let row = asking.app.store.conversation(asking.tenant(), &id).await?;
    let follow_up = asking.app.settings.follow_ups.of(&row, asking.app.now());
    Ok(StatusAnswer {
        conversation: row.id.to_string(),
        recipient: row.recipient.as_ref().map(ToString::to_string),
        status: row.status().name(),
        status_at: row.status_at.map(|at| at.to_string()),
        last_role: row.last_role.map(scrollback_core::Role::as_str),
        last_at: row.last_said_at.map(|at| at.to_string()),
        turns: row.turns,
        follow_up: FollowUpShape { due: follow_up.due, at: follow_up.at.map(|at| at.to_string()) },
    })
}

/// A status to set.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatusShape {
    /// `active`, `awaiting_answer`, `closed` or `idle`.
    status: String,
}

async fn set_status(asking: ApiRequest, wish: StatusShape) -> Result<StatusAnswer, HttpProblem> {
    let (id, status_wanted) = (asking.conversation()?, status_named(&wish.status)?);
    let now = asking.app.now();
    asking.app.store.write(asking.tenant(), now, |tx| _ = tx.status(&id, status_wanted)).await?;
    status(asking, Nothing {}).await
}
