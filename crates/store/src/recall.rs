//! Recall over a store: the four tools answered inside one tenant, for every caller.
//!
//! [`answer`] is the one way in: for the MCP server, for our own agents, flows and sub-agents, for REST and for the command
//! line. A mistake of the model, a handle of another tenant and a store that is away are all answered with a sentence that
//! says what to do next.

use std::fmt::{self, Write};
use std::sync::Arc;

use scrollback_core::recall::found::{FoundPlace, MOST_PLACES, around_text, hits_text, places_text};
use scrollback_core::recall::{
    AroundRequest, Handle, ReadRequest, RecallRequest, RecallScope, RecallTool, Refusal, SearchRequest, Tail,
    outline,
};
use scrollback_core::redact::Redactor;
use scrollback_core::{Decision, Record, Slot, Time, json};
use serde_json::Value;

use crate::conversation::Conversation;
use crate::entry::{Expected, NewEntry};
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::session::SessionId;
use crate::store::{RecordsExt, Store};

/// Conversations of a session that an outline lists.
const LISTED: usize = 40;
/// Folders above a working directory that may be the project.
const FOLDERS: usize = 32;

/// The kind of alias by which a run of a client names its conversation.
pub const RUN: &str = "run-of-client";

/// Where the caller of a recall tool is.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Its conversation.
    pub conversation: Option<ConversationId>,
    /// Its session.
    pub session: Option<SessionId>,
    /// The working directory or repository of its session.
    pub project: Option<String>,
    /// Whom its conversation is with.
    pub recipient: Option<Recipient>,
    /// All this in words, as every answer repeats it.
    pub named: String,
    /// What takes secrets out of texts before they are looked at, for callers who may not see them: such a text is found,
    /// ranked, matched and shown as they would see it, so that no search tells whether a secret begins in some way.
    pub redactor: Option<Arc<Redactor>>,
}

/// Says when an answer has taken long enough. The store reads no clock, so the caller does.
#[derive(Clone, Default)]
pub struct Deadline(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Deadline {
    /// A deadline that is over once `is_over` says so.
    pub fn new(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Deadline(Some(Arc::new(is_over)))
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.0.as_ref().is_some_and(|is_over| is_over())
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deadline")
    }
}

/// What a recall tool answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecallReply {
    /// The text the model reads.
    pub text: String,
    /// Whether the call was refused.
    pub failed: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The request cannot be answered; the words say what to do instead.
    Refused(Refusal),
    /// The store failed.
    Store(StoreError),
}

impl From<Refusal> for NoAnswer {
    fn from(refusal: Refusal) -> Self {
        NoAnswer::Refused(refusal)
    }
}

impl From<StoreError> for NoAnswer {
    fn from(error: StoreError) -> Self {
        NoAnswer::Store(error)
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Refused(refusal) => refusal.fmt(f),
            NoAnswer::Store(error) => {
                let code = error.code();
                write!(f, "the record cannot be read now ({code}); continue without it, or retry later")
            }
        }
    }
}

impl Here {
    /// Nowhere: only what belongs to the whole tenant can be searched.
    pub fn nowhere(why: &str) -> Self {
        Here { named: format!("no session: {why}"), ..Here::default() }
    }

    /// In a conversation.
    pub fn of(conversation: &Conversation, found_by: &str) -> Self {
        let mut named = String::from("session ");
        named.push_str(&name(conversation.session.as_str()));
        if conversation.session.as_str() != conversation.id.as_str() {
            named.push_str(", conversation ");
            named.push_str(&name(conversation.id.as_str()));
        }
        if let Some(title) = &conversation.title {
            let _ = write!(named, " {:?}", scrollback_core::recall::one_line(title, 60));
        }
        if let Some(project) = &conversation.project {
            let _ = write!(named, " in {}", scrollback_core::recall::one_line(project, 120));
        }
        if !found_by.is_empty() {
            let _ = write!(named, " (found by {found_by})");
        }
        Here {
            conversation: Some(conversation.id.clone()),
            session: Some(conversation.session.clone()),
            project: conversation.project.clone(),
            recipient: conversation.recipient.clone(),
            named,
            redactor: None,
        }
    }

    /// The same for a caller who may not see secrets.
    #[must_use]
    pub fn seen_through(mut self, redactor: Arc<Redactor>) -> Self {
        self.named = redactor.text(&self.named).text.into_owned();
        self.redactor = Some(redactor);
        self
    }

    /// A text as the caller may see it.
    pub(crate) fn text(&self, text: String) -> String {
        match &self.redactor {
            Some(redactor) => redactor.text(&text).text.into_owned(),
            None => text,
        }
    }

    /// What stands at a place, as the caller may see it.
    fn slot(&self, slot: Slot) -> Slot {
        let Some(redactor) = &self.redactor else { return slot };
        match slot {
            Slot::Message(entry) => Slot::Message(Arc::new(redactor.entry(&entry))),
            Slot::Decision(decision, at) => {
                Slot::Decision(Arc::new(without_secrets(&decision, redactor)), at)
            }
            Slot::Erased(tombstone) => Slot::Erased(tombstone),
        }
    }

    fn places(&self, places: Vec<FoundPlace>) -> Vec<FoundPlace> {
        let seen = |place: FoundPlace| FoundPlace { slot: self.slot(place.slot), ..place };
        places.into_iter().map(seen).collect()
    }

    /// A record as the caller may see it.
    fn record(&self, record: Record) -> Record {
        if self.redactor.is_none() {
            return record;
        }
        // The same places with other words are still a record.
        Record::restore(record.slots().iter().map(|slot| self.slot(slot.clone()))).unwrap_or_default()
    }

    /// In the session that a client calls so: by its own id, by ours, or by a handle. None if there is no such session.
    pub async fn called(store: &dyn Store, tenant: &Tenant, name: &str) -> Result<Option<Self>, StoreError> {
        if let Ok(handle) = name.parse::<Handle>() {
            let found = store.conversations_ending(tenant, handle.tail()).await?;
            return Ok(found.first().map(|one| Here::of(one, "its handle")));
        }
        if let Some(session) = store.session_called(tenant, name).await? {
            let newest = store.session_conversations(tenant, &session.id, 1).await?.pop();
            let main = match &session.main {
                Some(main) => store.conversation(tenant, main).await.ok(),
                None => None,
            };
            return Ok(main.or(newest).map(|one| Here::of(&one, "the client's id")));
        }
        if let Some(alias) = store.alias(tenant, RUN, name).await? {
            let named = store.conversation(tenant, &alias.conversation).await?;
            return Ok(Some(Here::of(&named, "the run of the client")));
        }
        if let Some(id) = ConversationId::parse(name) {
            match store.conversation(tenant, &id).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found => return Ok(Some(Here::of(&found?, "its id"))),
            }
        }
        let Some(id) = SessionId::parse(name) else { return Ok(None) };
        let newest = store.session_conversations(tenant, &id, 1).await?.pop();
        Ok(newest.map(|one| Here::of(&one, "its id")))
    }

    /// In the session written last among those that work in a folder or above it.
    pub async fn in_folder(
        store: &dyn Store,
        tenant: &Tenant,
        folder: &str,
    ) -> Result<Option<Self>, StoreError> {
        let mut path = std::path::Path::new(folder);
        for _ in 0..FOLDERS {
            let Some(text) = path.to_str().filter(|text| !text.is_empty()) else { break };
            if let Some(found) = store.newest_in_project(tenant, Some(text)).await? {
                return Ok(Some(Here::of(&found, "working directory and recency")));
            }
            match path.parent() {
                Some(parent) => path = parent,
                None => break,
            }
        }
        Ok(None)
    }
}

/// A decision whose texts are without secrets.
fn without_secrets(decision: &Decision, redactor: &Redactor) -> Decision {
    let hidden = || {
        let written = serde_json::to_string(decision).ok()?;
        let change = |text: &str| {
            let redacted = redactor.text(text);
            (!redacted.spans.is_empty()).then(|| redacted.text.into_owned())
        };
        match json::map_strings(json::check(&written).ok()?, change) {
            Some(changed) => serde_json::from_str(&changed).ok(),
            None => Some(decision.clone()),
        }
    };
    hidden().unwrap_or_else(|| Decision::SummaryFailed { range: (0, 0), reason: "cannot be shown".into() })
}

fn name(id: &str) -> String {
    Tail::of(id).map_or_else(|| id.into(), |tail| Handle::conversation(tail).to_string())
}

/// Answers a call of one of the tools.
pub async fn answer(
    store: &dyn Store,
    tenant: &Tenant,
    here: &Here,
    tool: RecallTool,
    arguments: &Value,
    deadline: &Deadline,
) -> RecallReply {
    let request = match RecallRequest::parse(tool, arguments) {
        Ok(request) => request,
        Err(refusal) => return RecallReply { text: refusal.to_string(), failed: true },
    };
    let (mut text, failed) = match look_up(store, tenant, here, &request, deadline).await {
        Ok(text) => (text, false),
        Err(no_answer) => (no_answer.to_string(), true),
    };
    // An answer names the session it was given for.
    if !here.named.is_empty() && !text.contains(&here.named) {
        text.push('\n');
        text.push_str(&here.named);
    }
    RecallReply { text, failed }
}

/// The text that answers a request.
pub async fn look_up(
    store: &dyn Store,
    tenant: &Tenant,
    here: &Here,
    request: &RecallRequest,
    deadline: &Deadline,
) -> Result<String, NoAnswer> {
    match request {
        RecallRequest::Search(request) => search(store, tenant, here, request, deadline).await,
        RecallRequest::Read(request) => read(store, tenant, here, request).await,
        RecallRequest::Around(request) => around(store, tenant, here, request).await,
        RecallRequest::Outline(handle) => outlined(store, tenant, here, handle.as_ref()).await,
    }
}

/// The conversation that a handle names.
pub async fn resolve(store: &dyn Store, tenant: &Tenant, handle: &Handle) -> Result<Conversation, NoAnswer> {
    let mut found = store.conversations_ending(tenant, handle.tail()).await?;
    if found.len() > 1 {
        let longer: Vec<String> = found.iter().map(|one| one.id.as_str().to_lowercase()).collect();
        return Err(Refusal::new(format!(
            "{handle} names {} conversations; write the whole id, one of {}",
            longer.len(),
            longer.join(", ")
        ))
        .into());
    }
    found.pop().ok_or_else(|| {
        Refusal::new(format!(
            "no such handle: {handle} names nothing here; handles look like sb:k7q2m9x4td#412; search for the words \
             instead"
        ))
        .into()
    })
}

/// The tail that handles of a conversation show.
pub fn tail_of(id: &ConversationId) -> Result<Tail, StoreError> {
    Tail::of(id.as_str()).ok_or_else(|| StoreError::damaged("the id of a conversation cannot be read"))
}

async fn search(
    store: &dyn Store,
    tenant: &Tenant,
    here: &Here,
    request: &SearchRequest,
    deadline: &Deadline,
) -> Result<String, NoAnswer> {
    if let Some(found) = store.find_for_recall(tenant, here, request, deadline).await? {
        Ok(hits_text(request, &found))
    } else {
        let scope = match request.scope {
            RecallScope::Conversation => "conversation",
            _ => "session",
        };
        Err(Refusal::new(format!(
            "it is not known which {scope} this is ({}); search with scope=project or scope=all",
            here.named
        ))
        .into())
    }
}

async fn read(
    store: &dyn Store,
    tenant: &Tenant,
    here: &Here,
    request: &ReadRequest,
) -> Result<String, NoAnswer> {
    let conversation = resolve(store, tenant, &request.handle).await?;
    let tail = tail_of(&conversation.id)?;
    let places = match request.handle.positions() {
        Some((first, last)) if first < conversation.head => {
            let below = last.saturating_add(1).min(first.saturating_add(MOST_PLACES));
            here.places(store.places_with_tools(tenant, &conversation.id, first, below).await?)
        }
        _ => Vec::new(),
    };
    Ok(places_text(request, &tail, conversation.head, &places)?)
}

async fn around(
    store: &dyn Store,
    tenant: &Tenant,
    here: &Here,
    request: &AroundRequest,
) -> Result<String, NoAnswer> {
    let conversation = resolve(store, tenant, &request.handle).await?;
    let tail = tail_of(&conversation.id)?;
    let Some((first, last)) = request.handle.positions() else {
        return Err(Refusal::new(format!(
            "{} names a whole conversation; give a place such as {}",
            request.handle,
            Handle::at(tail, 0)
        ))
        .into());
    };
    let from = first.saturating_sub(request.before as u64);
    let below = last.saturating_add(request.after as u64 + 1).min(from.saturating_add(MOST_PLACES));
    let places = if first < conversation.head {
        here.places(store.places_with_tools(tenant, &conversation.id, from, below).await?)
    } else {
        Vec::new()
    };
    Ok(around_text(request, &tail, conversation.head, &places)?)
}

async fn outlined(
    store: &dyn Store,
    tenant: &Tenant,
    here: &Here,
    handle: Option<&Handle>,
) -> Result<String, NoAnswer> {
    let conversation = match (handle, &here.conversation) {
        (Some(handle), _) => resolve(store, tenant, handle).await?,
        (None, Some(id)) => store.conversation(tenant, id).await?,
        (None, None) => {
            return Err(Refusal::new(format!(
                "it is not known which session this is ({}); give a handle from a search with scope=project or scope=all",
                here.named
            ))
            .into());
        }
    };
    let record = here.record(store.record(tenant, &conversation.id, None).await?);
    let tail = tail_of(&conversation.id)?;
    let mut text = String::new();
    if handle.is_none() {
        text.push_str(&here.named);
        text.push('\n');
    }
    text.push_str(&outline(&record, &tail).text());
    let others = store.session_conversations(tenant, &conversation.session, LISTED + 1).await?;
    let others: Vec<&Conversation> = others.iter().filter(|one| one.id != conversation.id).collect();
    if !others.is_empty() {
        text.push_str("\nother conversations of this session:");
        for one in others.iter().take(LISTED) {
            let kind = one.kind.as_str();
            let title =
                one.title.clone().map(|title| scrollback_core::recall::one_line(&here.text(title), 80));
            let _ = write!(
                text,
                "\n  {} {kind}, {} entries {}",
                name(one.id.as_str()),
                one.head,
                title.unwrap_or_default()
            );
        }
    }
    Ok(text)
}

/// Pins the groups that a handle names, so that every view shows them, or pins them no longer. The positions that were pinned,
/// and that of the decision.
pub async fn pin(
    store: &dyn Store,
    tenant: &Tenant,
    handle: &Handle,
    pinning: Pinning,
    now: Time,
) -> Result<(ConversationId, Vec<u64>, u64), NoAnswer> {
    let conversation = resolve(store, tenant, handle).await?;
    let Some((first, last)) = handle.positions() else {
        return Err(Refusal::new(format!(
            "{handle} names a whole conversation; give a place such as {}",
            Handle::at(tail_of(&conversation.id)?, 0)
        ))
        .into());
    };
    let record = store.record(tenant, &conversation.id, None).await?;
    let positions = record.whole_groups(first, last);
    if positions.is_empty() {
        return Err(Refusal::new(format!(
            "no message at {handle} that could be pinned: the conversation has {} places",
            conversation.head
        ))
        .into());
    }
    let decision = match pinning {
        Pinning::Pin => Decision::Pin { positions: positions.clone() },
        Pinning::Unpin => Decision::Unpin { positions: positions.clone() },
    };
    let decided = vec![NewEntry::from(decision)];
    let appended = store.append(tenant, now, &conversation.id, Expected::Any, decided).await?;
    Ok((conversation.id, positions, appended.first))
}

/// Whether groups are pinned or pinned no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// Every view shows them from now on.
    Pin,
    /// Managers decide about them again.
    Unpin,
}

/// Whether an error says that the store itself is away, so that asking again later may help.
pub fn is_away(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Unknown | ErrorKind::Overloaded | ErrorKind::OpenFailed)
}
