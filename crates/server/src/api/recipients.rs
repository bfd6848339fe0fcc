//! Recipients: the people and channels that conversations are with, whatever door they came through.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use scrollback_agent::config::read_span;
use scrollback_core::wire::Wire;
use scrollback_core::{ItemSource, Time};
use scrollback_store::erasure::{Certificate, ErasureMode};
use scrollback_store::{
    Between, Conversation, ConversationId, ErrorKind, Listing, Recipient, RecordsExt, Store, Tenant, Which,
    due, hex, history,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::conversations::{FollowUpShape, MOST, limit, status_named};
use super::entries::wire_named;
use super::operation::{ApiRequest, Nothing, Operation};
use super::shapes::{ConversationShape, HeadShape};
use crate::transfer::{self, ExportForm};
use crate::{App, HttpProblem};

/// Conversations with one recipient that one answer covers: far more than anyone has.
const ALL: usize = 100_000;

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/recipients",
            "listRecipients",
            "Recipients whose follow-up is due, the earliest first.",
            list,
        ),
        Operation::get(
            "/recipients/{recipient}",
            "getRecipient",
            "Where things stand with a recipient.",
            one,
        ),
        Operation::get(
            "/recipients/{recipient}/history",
            "getHistory",
            "What a model would be told about a recipient: the lead, the summary, the newest turns.",
            told,
        ),
        Operation::get(
            "/recipients/{recipient}/conversations",
            "listConversationsWith",
            "The conversations with a recipient, written last first.",
            conversations,
        ),
        Operation::get(
            "/recipients/{recipient}/status",
            "getRecipientStatus",
            "Where the current conversation with a recipient stands, and when to follow up.",
            one,
        ),
        Operation::post(
            "/recipients/{recipient}/status",
            "setRecipientStatus",
            "Sets where the current conversation with a recipient stands.",
            set_status,
        ),
        Operation::text(
            "application/x-ndjson",
            "/recipients/{recipient}/export",
            "exportRecipient",
            "All conversations with a recipient, in our own form, which loses nothing, or one body a line.",
            export,
        )
        .fails(&[404]),
        Operation::post(
            "/recipients/{recipient}/erase",
            "eraseRecipient",
            "Erases a recipient, for good: what was said in all conversations with them, and their name. Places and hashes stay.",
            erase,
        ),
    ]
}

impl ApiRequest {
    /// The recipient the path names.
    fn recipient(&self) -> Result<Recipient, HttpProblem> {
        // What cannot be a recipient is not found, like one that is not there.
        Recipient::parse(self.part("recipient"))
            .map_err(|_| HttpProblem::not_found("conversation with this recipient"))
    }
}

/// The conversation that stands for a recipient: the current one, else the one written last, or the one that is named.
async fn conversation_with(
    asking: &ApiRequest,
    recipient: &Recipient,
    named: Option<&str>,
) -> Result<Conversation, HttpProblem> {
    let (store, tenant) = (&asking.app.store, asking.tenant());
    if let Some(named) = named {
        let id = ConversationId::parse(named).ok_or_else(|| HttpProblem::not_found("conversation"))?;
        let found = store.conversation(tenant, &id).await?;
        return if found.recipient.as_ref() == Some(recipient) {
            Ok(found)
        } else {
            Err(HttpProblem::not_found("conversation with this recipient"))
        };
    }
    if let Some(current) = store.current(tenant, recipient).await? {
        return Ok(current);
    }
    let last = all_with(store.as_ref(), tenant, recipient, 1).await?.into_iter().next();
    last.map(|(row, _)| row).ok_or_else(|| HttpProblem::not_found("conversation with this recipient"))
}

/// All conversations with a recipient, of which there must be one.
async fn some_with(
    asking: &ApiRequest,
    recipient: &Recipient,
) -> Result<Vec<(Conversation, u64)>, HttpProblem> {
    let all = all_with(asking.app.store.as_ref(), asking.tenant(), recipient, ALL).await?;
    if all.is_empty() { Err(HttpProblem::not_found("conversation with this recipient")) } else { Ok(all) }
}

async fn all_with(
    store: &dyn Store,
    tenant: &Tenant,
    recipient: &Recipient,
    limit: usize,
) -> Result<Vec<(Conversation, u64)>, HttpProblem> {
    let listing = Listing { which: Which::With(recipient.clone()), limit, ..Listing::default() };
    Ok(store.list(Some(tenant), listing).await?.conversations)
}

/// Which recipients to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DueQuery {
    /// `now`, or a span of time such as `1h`: those whose follow-up is due until then.
    due: String,
    /// How many; 50 if not said, 500 at most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
}

/// Recipients to get in touch with.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Recipients")]
pub(crate) struct DueAnswer {
    /// The earliest first.
    recipients: Vec<RecipientShape>,
    /// How many there are beyond these.
    more: usize,
}

/// Where things stand with a recipient.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Recipient")]
pub(crate) struct RecipientShape {
    /// Who.
    recipient: String,
    /// The key of their current conversation.
    key: String,
    /// Their current conversation, or the one written last.
    conversation: String,
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
    /// How many conversations there are with them; not counted in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversations: Option<usize>,
}

impl RecipientShape {
    fn of(app: &App, recipient: &Recipient, row: &Conversation, conversations: Option<usize>) -> Self {
        let follow_up = app.settings.follow_ups.of(row, app.now());
        RecipientShape {
            recipient: recipient.to_string(),
            key: recipient.key(),
            conversation: row.id.to_string(),
            status: row.status().name(),
            status_at: row.status_at.map(|at| at.to_string()),
            last_role: row.last_role.map(scrollback_core::Role::as_str),
            last_at: row.last_said_at.map(|at| at.to_string()),
            turns: row.turns,
            follow_up: FollowUpShape { due: follow_up.due, at: follow_up.at.map(|at| at.to_string()) },
            conversations,
        }
    }
}

async fn list(asking: ApiRequest, query: DueQuery) -> Result<DueAnswer, HttpProblem> {
    let (app, now) = (&asking.app, asking.app.now());
    let within = match query.due.as_str() {
        "now" => 0,
        span => {
            let span = read_span(span).map_err(|error| {
                HttpProblem::bad_request("bad_query", format!("due must be `now` or a span: {error}"))
            })?;
            i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
        }
    };
    let most = limit(query.limit)?;
    let between = Between::until(Time(now.0.saturating_add(within)));
    let found = due(app.store.as_ref(), Some(asking.tenant()), &app.settings.follow_ups, between).await?;
    let more = found.len().saturating_sub(most);
    let shape = |due: &scrollback_store::Due| {
        let recipient = due.conversation.recipient.as_ref()?;
        Some(RecipientShape::of(app, recipient, &due.conversation, None))
    };
    Ok(DueAnswer { recipients: found.iter().take(most).filter_map(shape).collect(), more })
}

async fn one(asking: ApiRequest, _: Nothing) -> Result<RecipientShape, HttpProblem> {
    let recipient = asking.recipient()?;
    let row = conversation_with(&asking, &recipient, None).await?;
    let all = all_with(asking.app.store.as_ref(), asking.tenant(), &recipient, ALL).await?;
    Ok(RecipientShape::of(&asking.app, &recipient, &row, Some(all.len())))
}

/// How much to tell, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// How many turns; the conversation's setting if not said.
    turns: Option<usize>,
    /// The wire to print messages in; `openai-chat` if not said.
    to: Option<String>,
    /// One of their conversations; the current one if not said.
    conversation: Option<String>,
}

/// What a model would be told.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub(crate) struct HistoryAnswer {
    recipient: String,
    key: String,
    conversation: String,
    status: &'static str,
    /// The summary that stands for the older turns.
    summary: Option<String>,
    /// Instructions, where the wire has a field for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    system: Option<Box<RawValue>>,
    #[schemars(with = "Vec<Value>")]
    messages: Vec<Box<RawValue>>,
    /// The positions of what is told, in order.
    positions: Vec<u64>,
    head: HeadShape,
}

async fn told(asking: ApiRequest, query: HistoryQuery) -> Result<HistoryAnswer, HttpProblem> {
    let wire = query.to.as_deref().map(wire_named).transpose()?.unwrap_or(Wire::OpenaiChat);
    let recipient = asking.recipient()?;
    let row = conversation_with(&asking, &recipient, query.conversation.as_deref()).await?;
    let turns = query.turns.unwrap_or(row.settings.unwrap_or_default().max_recent_turns);
    let told = history(asking.app.store.as_ref(), asking.tenant(), &row.id, turns).await?;
    let positions = told.items.iter().filter_map(|item| match item.source {
        ItemSource::Entry(position) => Some(position),
        _ => None,
    });
    let positions = positions.collect();
    let rendered = told.render(wire);
    let raw = |text: String| RawValue::from_string(text).ok();
    Ok(HistoryAnswer {
        recipient: recipient.to_string(),
        key: recipient.key(),
        conversation: row.id.to_string(),
        status: row.status().name(),
        summary: told.summary,
        system: rendered.system.and_then(raw),
        messages: rendered.messages.into_iter().filter_map(raw).collect(),
        positions,
        head: HeadShape { position: row.head, link: hex(&row.head_link) },
    })
}

/// All conversations with a recipient.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecipientConversations")]
pub(crate) struct ConversationsAnswer {
    /// Written last first.
    conversations: Vec<ConversationShape>,
}

async fn conversations(asking: ApiRequest, _: Nothing) -> Result<ConversationsAnswer, HttpProblem> {
    let recipient = asking.recipient()?;
    let mut all = some_with(&asking, &recipient).await?;
    all.truncate(MOST);
    let conversations = all.iter().map(|(row, entries)| ConversationShape::of(row, *entries)).collect();
    Ok(ConversationsAnswer { conversations })
}

/// A status to set.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipientStatusShape {
    /// `active`, `awaiting_answer`, `closed` or `idle`.
    status: String,
}

async fn set_status(asking: ApiRequest, wish: RecipientStatusShape) -> Result<RecipientShape, HttpProblem> {
    let (recipient, status) = (asking.recipient()?, status_named(&wish.status)?);
    let row = conversation_with(&asking, &recipient, None).await?;
    let now = asking.app.now();
    asking.app.store.write(asking.tenant(), now, |tx| _ = tx.status(&row.id, status)).await?;
    one(asking, Nothing {}).await
}

/// What to erase of a recipient.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EraseRecipientShape {
    /// Must be `true`: it cannot be undone.
    #[serde(default)]
    all: bool,
    /// Why, which stays on record.
    #[serde(default)]
    reason: Option<String>,
    /// `true` only says what would be erased.
    #[serde(default)]
    dry_run: bool,
}

/// What was erased of a recipient, or would be: a certificate of what is gone, and of what is left where.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RecipientErased")]
pub(crate) struct EraseRecipientAnswer {
    /// By which name they were asked for.
    recipient: String,
    /// By which name the store knows them from now on: the same for the same recipient, whenever they are erased again.
    pub(crate) pseudonym: Option<String>,
    /// Whether it is only said what would be erased.
    dry_run: bool,
    /// When.
    at: String,
    /// Their conversations.
    pub(crate) conversations: u64,
    /// How many of them are sub-agents.
    sub_agents: u64,
    /// Entries in them, those that were erased before included.
    entries: u64,
    /// Entries that were erased.
    pub(crate) erased: u64,
    /// Summaries that stood for them.
    summaries: u64,
    /// Other decisions that repeat them.
    decisions: u64,
    /// Calls whose bodies were emptied, because they held them.
    pub(crate) sent: u64,
    /// Calls that had not ended; their replies are not kept.
    under_way: u64,
    /// Forks that show it too.
    pub(crate) forks: u64,
    /// Runs whose inputs, outputs, steps, spans and events were emptied.
    pub(crate) runs: u64,
    /// Steps of them.
    steps: u64,
    /// Spans of them.
    spans: u64,
    /// Events of them.
    events: u64,
    /// Entries that searches found by their words.
    words: u64,
    /// Large texts and files that nothing else refers to.
    blobs: u64,
    /// Names of the recipient and ids given by clients that a pseudonym took the place of.
    names: u64,
    /// Pages of the file that were given back.
    free_pages: u64,
    /// Whether copies are left in the file or its log that others still read. They go by themselves when those are done.
    pub(crate) pending: bool,
    /// The conversations.
    list: Vec<ErasedConversationShape>,
    /// What is left, where and until when.
    remains: Vec<LeftoverShape>,
}

/// A conversation that was erased.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ErasedConversation")]
struct ErasedConversationShape {
    /// Its id, which stays.
    conversation: String,
    /// `main`, `sub-agent`, `side` or `branch`.
    kind: &'static str,
    /// Entries in it.
    entries: u64,
}

/// What an erasure does not reach, or has not reached yet.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Leftover")]
struct LeftoverShape {
    /// What is left.
    what: String,
    /// Where.
    place: String,
    /// Until when.
    until: String,
}

impl From<Certificate> for EraseRecipientAnswer {
    fn from(of: Certificate) -> Self {
        let count = of.count;
        let list = of.list.into_iter().map(|one| ErasedConversationShape {
            conversation: one.conversation,
            kind: one.kind,
            entries: one.entries,
        });
        let remains = of.remains.into_iter().map(|left| LeftoverShape {
            what: left.what,
            place: left.place,
            until: left.until,
        });
        EraseRecipientAnswer {
            recipient: of.recipient,
            pseudonym: of.pseudonym,
            dry_run: of.dry_run,
            at: of.at,
            conversations: of.conversations,
            sub_agents: of.sub_agents,
            entries: of.entries,
            erased: count.erased,
            summaries: count.summaries,
            decisions: count.decisions,
            sent: count.sent,
            under_way: count.under_way,
            forks: count.forks,
            runs: count.runs,
            steps: count.steps,
            spans: count.spans,
            events: count.events,
            words: count.words,
            blobs: count.blobs,
            names: count.names,
            free_pages: count.free_pages,
            pending: count.pending,
            list: list.collect(),
            remains: remains.collect(),
        }
    }
}

async fn erase(asking: ApiRequest, wish: EraseRecipientShape) -> Result<EraseRecipientAnswer, HttpProblem> {
    if !wish.all && !wish.dry_run {
        let detail = "what is erased cannot be brought back; say \"all\": true, or \"dry_run\": true to see what it would be";
        return Err(HttpProblem::bad_request("bad_range", detail));
    }
    let recipient = asking.recipient()?;
    let reason = wish.reason.as_deref().unwrap_or("asked for by API");
    erase_recipient(&asking.app, asking.tenant(), &recipient, (!wish.dry_run).then_some(reason)).await
}

/// Erases what was said in all conversations with a recipient, for this reason; without one it only says what that would be.
pub(crate) async fn erase_recipient(
    app: &App,
    tenant: &Tenant,
    recipient: &Recipient,
    reason: Option<&str>,
) -> Result<EraseRecipientAnswer, HttpProblem> {
    let mode = if reason.is_some() { ErasureMode::Erase } else { ErasureMode::DryRun };
    let store = app.store.as_ref();
    let erased = scrollback_store::erasure::erase_recipient(
        store,
        tenant,
        recipient,
        reason.unwrap_or_default(),
        mode,
        app.now(),
    );
    match erased.await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(HttpProblem::not_found("conversation with this recipient"))
        }
        other => Ok(other?.into()),
    }
}

/// As what to export.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipientExportQuery {
    /// `scrollback` if not said, or a wire.
    format: Option<String>,
}

async fn export(asking: ApiRequest, query: RecipientExportQuery) -> Result<Response, HttpProblem> {
    let target = ExportForm::named(query.format.as_deref().unwrap_or("scrollback"))?;
    let recipient = asking.recipient()?;
    let all = some_with(&asking, &recipient).await?;
    let mut ids: Vec<ConversationId> = all.into_iter().map(|(row, _)| row.id).collect();
    // The oldest first, so that forks come after what they were forked from.
    ids.sort();
    let mut share = asking.app.memory.share(asking.tenant());
    let text = transfer::export(&asking.app, asking.tenant(), &ids, target, &mut share).await?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response())
}
