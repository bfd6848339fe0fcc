//! Entries: read page by page, appended with the position that was expected.

use axum::http::StatusCode;
use schemars::JsonSchema;
use scrollback_core::recall::found::MOST_PLACES;
use scrollback_core::recall::{BadHandle, Handle, Tail};
use scrollback_core::stream::messages_in;
use scrollback_core::wire::{Wire, WireError};
use scrollback_core::{Entry, json};
use scrollback_store::{Appended, ConversationId, Expected, NewEntry, RecordsExt, follow, hex, recall};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::conversations::limit;
use super::operation::{ApiRequest, Nothing, Operation};
use super::shapes::EntryShape;
use crate::HttpProblem;

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/conversations/{id}/entries",
            "listEntries",
            "The places of a record, by position.",
            list,
        ),
        Operation::post_as(
            StatusCode::CREATED,
            "/conversations/{id}/entries",
            "appendEntries",
            "Appends messages: all of them, durably, or none.",
            append,
        )
        .fails(&[409]),
        Operation::get(
            "/entries/{id}",
            "readHandle",
            "The places that a handle names, such as `sb:k7q2m9x4td#412` (the `#` as `%23`).",
            by_handle,
        ),
    ]
}

/// The places that a handle names.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HandleEntries")]
pub(crate) struct HandleAnswer {
    /// The handle, as it is written.
    handle: String,
    /// The conversation.
    conversation: String,
    /// The session it belongs to.
    session: String,
    /// In order of position; none where the handle names the whole conversation. What was erased has the kind `erased`.
    entries: Vec<EntryShape>,
    /// The handle of the rest, where there are more than one answer holds; null at the end.
    next: Option<String>,
    /// The position the next appended entry gets.
    head: u64,
}

fn no_such_handle(detail: String) -> HttpProblem {
    HttpProblem::new(StatusCode::NOT_FOUND, "no_such_handle", detail)
}

async fn by_handle(asking: ApiRequest, _: Nothing) -> Result<HandleAnswer, HttpProblem> {
    let named = asking.part("id");
    // The whole id of a conversation names it, too.
    let whole =
        ConversationId::parse(named).and_then(|id| Tail::parse(id.as_str())).map(Handle::conversation);
    let handle = match whole {
        Some(handle) => handle,
        None => named.parse().map_err(|error: BadHandle| no_such_handle(error.to_string()))?,
    };
    let (store, tenant) = (&asking.app.store, asking.tenant());
    let conversation = match recall::resolve(&**store, tenant, &handle).await {
        Ok(conversation) => conversation,
        Err(recall::NoAnswer::Store(error)) => return Err(error.into()),
        Err(refused) => {
            return Err(no_such_handle(refused.to_string()));
        }
    };
    let tail = recall::tail_of(&conversation.id)?;
    let (mut entries, mut next) = (Vec::new(), None);
    let shown = match handle.positions() {
        None => Handle::conversation(tail),
        Some((first, last)) => {
            if first >= conversation.head {
                let detail =
                    format!("no entry at {handle}: the conversation has {} entries", conversation.head);
                return Err(no_such_handle(detail));
            }
            let end = last.saturating_add(1).min(conversation.head);
            let below = end.min(first + MOST_PLACES);
            let places = store.entries(tenant, &conversation.id, first, below).await?;
            entries = places.iter().map(EntryShape::of).collect();
            next = (below < end).then(|| Handle::between(tail.clone(), below, end - 1).to_string());
            Handle::between(tail, first, last)
        }
    };
    Ok(HandleAnswer {
        handle: shown.to_string(),
        conversation: conversation.id.to_string(),
        session: conversation.session.to_string(),
        entries,
        next,
        head: conversation.head,
    })
}

/// Which places to read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntriesQuery {
    /// The first position; 0 if not said. The `next` of the page before.
    from: Option<u64>,
    /// How many; 50 if not said, 500 at most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

/// A page of a record.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Entries")]
pub(crate) struct EntriesAnswer {
    /// In order of position.
    entries: Vec<EntryShape>,
    /// The first position of the next page; null at the end.
    next: Option<u64>,
    /// The position the next appended entry gets.
    head: u64,
}

async fn list(asking: ApiRequest, query: EntriesQuery) -> Result<EntriesAnswer, HttpProblem> {
    let id = asking.conversation()?;
    let head = asking.app.store.conversation(asking.tenant(), &id).await?.head;
    let from = query.from.unwrap_or(0).min(head);
    let below = from.saturating_add(limit(query.limit)? as u64).min(head);
    let places = asking.app.store.entries(asking.tenant(), &id, from, below).await?;
    let entries = places.iter().map(EntryShape::of).collect();
    Ok(EntriesAnswer { entries, next: (below < head).then_some(below), head })
}

/// What to append.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppendShape {
    /// A list of messages, a request body that holds one, a single message, or the whole reply of a provider, of any wire.
    #[schemars(with = "serde_json::Value")]
    messages: Box<RawValue>,
    /// The wire of the messages; detected if not said.
    #[serde(default)]
    wire: Option<String>,
    /// The position the first of them shall get; any if not said.
    #[serde(default)]
    expect: Option<u64>,
    /// The list is the caller's own, whole or its newest part: only what the record does not say yet is appended, and the
    /// answer has the position of each message. For conversations with a recipient.
    #[serde(default)]
    follow: bool,
}

/// Where the messages are.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Appended")]
pub(crate) struct AppendAnswer {
    /// The conversation.
    conversation: String,
    /// Position of the first.
    first: u64,
    /// Position of the last.
    last: u64,
    /// The value of the hash chain at the last.
    link: String,
    /// With `follow`: the position of each message of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    positions: Option<Vec<u64>>,
    /// With `follow`: how many entries were appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    appended: Option<usize>,
    /// With `follow`: whether the list left what was recorded, so that the conversation goes on in a fork, which is the one
    /// named here.
    #[serde(skip_serializing_if = "Option::is_none")]
    branched: Option<bool>,
}

impl From<Appended> for AppendAnswer {
    fn from(appended: Appended) -> Self {
        let Appended { conversation, first, last, link } = appended;
        AppendAnswer {
            conversation: conversation.to_string(),
            first,
            last,
            link: hex(&link),
            positions: None,
            appended: None,
            branched: None,
        }
    }
}

async fn append(asking: ApiRequest, wish: AppendShape) -> Result<AppendAnswer, HttpProblem> {
    let id = asking.conversation()?;
    let entries = messages(wish.messages.get(), wish.wire.as_deref())?;
    if entries.is_empty() {
        return Err(HttpProblem::bad_request("bad_input", "there are no messages to append"));
    }
    if wish.follow {
        return follow_list(asking, &id, &entries, wish.expect).await;
    }
    let now = asking.app.now();
    let expected = wish.expect.map_or(Expected::Any, Expected::At);
    let said = NewEntry::evaluation(entries, now);
    let (tenant, roles): (_, Vec<_>) = (asking.tenant().clone(), said.iter().map(role).collect());
    let appended = asking.app.store.append(&tenant, now, &id, expected, said).await?;
    for (position, role) in (appended.first..).zip(roles) {
        super::events::recorded(&asking.app, &tenant, &id, position, role);
    }
    Ok(appended.into())
}

/// Appends what the record of the recipient's current conversation does not say yet.
async fn follow_list(
    asking: ApiRequest,
    id: &ConversationId,
    list: &[Entry],
    expect: Option<u64>,
) -> Result<AppendAnswer, HttpProblem> {
    let (app, tenant) = (&asking.app, asking.tenant());
    let row = app.store.conversation(tenant, id).await?;
    let Some(recipient) = row.recipient else {
        return Err(HttpProblem::bad_request(
            "bad_request",
            "`follow` needs a conversation with a recipient",
        ));
    };
    if expect.is_some() {
        return Err(HttpProblem::bad_request(
            "bad_request",
            "`follow` finds its position itself; omit `expect`",
        ));
    }
    let current = app.store.current(tenant, &recipient).await?.map_or_else(|| id.clone(), |row| row.id);
    let record = app.store.record(tenant, &current, None).await?;
    let done = follow(app.store.as_ref(), tenant, &recipient, &record, list, app.now()).await?;
    let now = app.store.current(tenant, &recipient).await?;
    let (conversation, head, link) =
        now.map_or((current, 0, String::new()), |row| (row.id, row.head, hex(&row.head_link)));
    let new_from = head.saturating_sub(done.appended as u64);
    for (position, entry) in done.positions.iter().zip(list).filter(|(position, _)| **position >= new_from) {
        super::events::recorded(app, tenant, &conversation, *position, entry.role.as_str());
    }
    Ok(AppendAnswer {
        conversation: conversation.to_string(),
        first: done.positions.first().copied().unwrap_or(0),
        last: done.positions.last().copied().unwrap_or(0),
        link,
        positions: Some(done.positions),
        appended: Some(done.appended),
        branched: Some(done.branched),
    })
}

fn role(entry: &NewEntry) -> &'static str {
    match entry {
        NewEntry::Message(entry) => entry.role.as_str(),
        NewEntry::Decision(_) => "decision",
    }
}

/// Messages of some wire as entries.
pub(crate) fn messages(text: &str, wire: Option<&str>) -> Result<Vec<scrollback_core::Entry>, HttpProblem> {
    let body = json::check(text).map_err(|error| HttpProblem::bad_request("bad_json", error.problem))?;
    let wire = wire.map(wire_named).transpose()?;
    messages_in(body, wire).map_err(|error| refused(&error))
}

/// A wire by its name.
pub(crate) fn wire_named(name: &str) -> Result<Wire, HttpProblem> {
    Wire::named(name).ok_or_else(|| {
        let known = Wire::ALL.map(Wire::name);
        let detail = format!("unknown wire {name:?} (known: {})", known.join(", "));
        HttpProblem::bad_request("unknown_wire", detail).with("known", known.to_vec())
    })
}

fn refused(error: &WireError) -> HttpProblem {
    let code = match error.code() {
        "bad_json" => "bad_json",
        "bad_message" => "bad_message",
        _ => "bad_input",
    };
    HttpProblem::bad_request(code, error.to_string()).with("path", error.path())
}
