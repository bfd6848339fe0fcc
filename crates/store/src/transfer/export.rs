//! Our own form on disk: JSON lines that lose nothing, and give equal links when they are imported again.
//!
//! A conversation is a header and its places, one a line. A place is what core's neutral form says of it; for what was
//! erased its hashes are written too, because they cannot be computed again. Large texts stand in the entries themselves.

use std::sync::Arc;

use scrollback_core::wire::Wire;
use scrollback_core::{
    Decision, Entry, Link, Meta, PREFIX_START, Part, Record, Role, Slot, Time, Tombstone, body_hash,
    first_link, link_over, next_prefix,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::body::{hex, unhex};
use crate::conversation::{Conversation, HistorySettings, Status};
use crate::entry::StoredEntry;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::rows::role_named;
use crate::session::{ConversationKind, Session, SessionId};
use crate::store::Store;

/// The first line of a conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    scrollback: u32,
    conversation: String,
    tenant: String,
    key: Option<String>,
    recipient: Option<String>,
    parent: Option<String>,
    fork_position: Option<u64>,
    title: Option<String>,
    status: Option<Status>,
    status_at: Option<String>,
    created_at: String,
    updated_at: String,
    turns: u64,
    uncovered_turns: u64,
    last_role: Option<String>,
    last_said_at: Option<String>,
    settings: Option<HistorySettings>,
    /// What it is in its session; exports of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<ConversationKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<SessionHeader>,
    head: Head,
}

/// The session of a conversation. Who called is not exported: what is imported is continued by its id only.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SessionHeader {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Head {
    position: u64,
    link: String,
    prefix: String,
}

/// A place: what core's neutral form says of it, and of what was erased its hashes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportLine {
    position: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    evaluation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wire: Option<Wire>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decision: Option<Decision>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    erased: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix_hash: Option<String>,
}

/// The lines of a conversation's own entries, the header first.
pub async fn lines(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Vec<String>, StoreError> {
    let conversation = store.conversation(tenant, id).await?;
    let from = conversation.fork_position.unwrap_or(0);
    let places = store.entries(tenant, id, from, u64::MAX).await?;
    let session = store.named_session(tenant, &conversation.session).await?;
    let mut lines = vec![header(&conversation, session)?];
    for placed in &places {
        lines.push(place(placed)?);
    }
    Ok(lines)
}

fn header(row: &Conversation, session: Option<Session>) -> Result<String, StoreError> {
    let created_at = session.as_ref().map(|session| session.created_at.to_string());
    let (client, client_id, title) = session
        .map_or((None, None, None), |session| (Some(session.client), Some(session.client_id), session.title));
    let session = SessionHeader { id: row.session.to_string(), client, client_id, title, created_at };
    let header = Header {
        scrollback: 1,
        conversation: row.id.to_string(),
        tenant: row.tenant.to_string(),
        key: row.key.clone(),
        recipient: row.recipient.as_ref().map(ToString::to_string),
        parent: row.parent.as_ref().map(ToString::to_string),
        fork_position: row.fork_position,
        title: row.title.clone(),
        status: row.status,
        status_at: row.status_at.map(|at| at.to_string()),
        created_at: row.created_at.to_string(),
        updated_at: row.updated_at.to_string(),
        turns: row.turns,
        uncovered_turns: row.uncovered_turns,
        last_role: row.last_role.map(|role| role.as_str().into()),
        last_said_at: row.last_said_at.map(|at| at.to_string()),
        settings: row.settings,
        kind: Some(row.kind),
        project: row.project.clone(),
        session: Some(session),
        head: Head { position: row.head, link: hex(&row.head_link), prefix: hex(&row.head_prefix) },
    };
    serde_json::to_string(&header).map_err(|error| StoreError::new(ErrorKind::Io, error.to_string()))
}

/// A place as a line.
fn place(placed: &StoredEntry) -> Result<String, StoreError> {
    let mut line = ExportLine {
        position: placed.position,
        role: None,
        evaluation_id: None,
        sequence: None,
        created_at: placed.slot.created_at().to_string(),
        wire: None,
        raw: None,
        part: None,
        meta: None,
        decision: None,
        erased: false,
        body_hash: None,
        link: None,
        prefix_hash: None,
    };
    match &placed.slot {
        Slot::Message(entry) => {
            line.role = Some(entry.role);
            line.evaluation_id = Some(entry.evaluation_id.to_string());
            line.sequence = Some(entry.sequence);
            line.wire = Some(entry.origin.wire);
            line.raw = Some(entry.origin.raw.to_string());
            line.part = entry.origin.part.as_deref().cloned();
            line.meta = entry.meta.as_deref().cloned();
        }
        Slot::Decision(decision, _) => {
            // The place of a decision that was erased holds one without effect, which is not what was hashed.
            line.erased = body_hash(placed.position, &placed.slot) != placed.body_hash;
            line.decision = Some(Decision::clone(decision)).filter(|_| !line.erased);
        }
        Slot::Erased(tombstone) => {
            line.role = Some(tombstone.role);
            line.evaluation_id = Some(tombstone.evaluation_id.to_string());
            line.sequence = Some(tombstone.sequence);
            line.erased = true;
        }
    }
    if line.erased {
        line.body_hash = Some(hex(&placed.body_hash));
        line.link = Some(hex(&placed.link));
        line.prefix_hash = placed.prefix.as_ref().map(|prefix| hex(prefix));
    }
    serde_json::to_string(&line).map_err(|error| StoreError::new(ErrorKind::Io, error.to_string()))
}

impl ExportLine {
    /// What stands at the place; in words, why that cannot be told.
    fn slot(self) -> Result<Slot, String> {
        let at = Time::parse(&self.created_at).ok_or("`created_at` is not a time")?;
        let evaluation = || {
            let id = self.evaluation_id.as_deref().and_then(|id| Uuid::parse_str(id).ok());
            id.ok_or("`evaluation_id` is not a UUID")
        };
        match (self.role, self.erased) {
            (None, true) => Ok(Slot::Decision(Arc::new(Decision::Interrupted { call_ids: Vec::new() }), at)),
            (None, false) => {
                let decision = self.decision.ok_or("neither a message nor a decision")?;
                Ok(Slot::Decision(Arc::new(decision), at))
            }
            (Some(role), true) => Ok(Slot::Erased(Box::new(Tombstone {
                role,
                evaluation_id: evaluation()?,
                sequence: self.sequence.ok_or("`sequence` is missing")?,
                created_at: at,
                body_hash: self.body_hash.as_deref().and_then(unhex).ok_or("`body_hash` is not a hash")?,
            }))),
            (Some(role), false) => {
                let evaluation = evaluation()?;
                let wire = self.wire.filter(|wire| *wire != Wire::Scrollback).ok_or("`wire` is unknown")?;
                let raw = self.raw.ok_or("`raw` is missing")?;
                let entry =
                    Entry::kept(wire, role, &raw, self.part, self.meta).map_err(|error| error.to_string())?;
                let sequence = self.sequence.ok_or("`sequence` is missing")?;
                Ok(Slot::Message(Arc::new(entry.stamped(evaluation, sequence, at))))
            }
        }
    }
}

/// A conversation that is being read back, line by line.
pub struct ExportReader {
    conversation: Conversation,
    places: Vec<StoredEntry>,
    link: Link,
    prefix: Link,
    next: u64,
    session: Option<Session>,
}

/// Whether the links of an export are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkCheck {
    /// They are, and a broken one is an error.
    Links,
    /// They are believed.
    Nothing,
}

/// Whether a line begins a conversation in our own form.
pub fn is_header(line: &str) -> bool {
    line.trim_start().starts_with("{\"scrollback\":") && line.contains("\"conversation\"")
}

impl ExportReader {
    /// Begins a conversation with its header. `tenant` is whose it becomes, if not the one it says.
    pub fn begin(line: &str, tenant: Option<&Tenant>) -> Result<Self, StoreError> {
        let bad =
            |what: &str| StoreError::new(ErrorKind::Damaged, format!("the header of the export {what}"));
        let header: Header =
            serde_json::from_str(line).map_err(|error| bad(&format!("cannot be read: {error}")))?;
        if header.scrollback != 1 {
            return Err(bad(&format!("has the unsupported version {}; expected 1", header.scrollback)));
        }
        let time = |text: &str| Time::parse(text).ok_or_else(|| bad("has a time that cannot be read"));
        let maybe = |text: &Option<String>| text.as_deref().map(time).transpose();
        let id = |text: &str| ConversationId::parse(text).ok_or_else(|| bad("has an id that cannot be read"));
        let hash = |text: &str| unhex(text).ok_or_else(|| bad("has a link that cannot be read"));
        let forked = header.fork_position.is_some();
        let kind = if forked { ConversationKind::Branch } else { ConversationKind::Main };
        let session_id = header.session.as_ref().map(|session| session.id.as_str());
        let session_id = session_id.map_or_else(|| id(&header.conversation), id)?;
        let conversation = Conversation {
            id: id(&header.conversation)?,
            session: SessionId::of(&session_id),
            kind: header.kind.unwrap_or(kind),
            scope: None,
            project: header.project,
            tenant: tenant.cloned().map_or_else(|| Tenant::parse(&header.tenant), Ok)?,
            key: header.key,
            recipient: header.recipient.as_deref().map(Recipient::parse).transpose()?,
            parent: header.parent.as_deref().map(id).transpose()?,
            fork_position: header.fork_position,
            title: header.title,
            status: header.status,
            status_at: maybe(&header.status_at)?,
            created_at: time(&header.created_at)?,
            updated_at: time(&header.updated_at)?,
            head: header.head.position,
            head_link: hash(&header.head.link)?,
            head_prefix: hash(&header.head.prefix)?,
            last_role: header.last_role.as_deref().and_then(role_named),
            last_said_at: maybe(&header.last_said_at)?,
            turns: header.turns,
            uncovered_turns: header.uncovered_turns,
            settings: header.settings,
        };
        let next = conversation.fork_position.unwrap_or(0);
        let first = first_link(conversation.id.as_str());
        let session = header.session.and_then(|named| {
            Some(Session {
                id: conversation.session.clone(),
                tenant: conversation.tenant.clone(),
                caller: String::new(),
                client: named.client?,
                client_id: named.client_id?,
                main: None,
                title: named.title,
                created_at: named.created_at.as_deref().and_then(Time::parse)?,
            })
        });
        Ok(ExportReader {
            conversation,
            places: Vec::new(),
            link: first,
            prefix: PREFIX_START,
            next,
            session,
        })
    }

    /// The conversation's id.
    pub fn id(&self) -> &ConversationId {
        &self.conversation.id
    }

    /// Takes in one place.
    pub fn place(&mut self, line: &str) -> Result<(), StoreError> {
        let bad = |what: String| StoreError::new(ErrorKind::Damaged, what);
        let read: ExportLine =
            serde_json::from_str(line).map_err(|error| bad(format!("not a place: {error}")))?;
        let position = read.position;
        if position != self.next {
            return Err(bad(format!("position {position} where {} should be", self.next)));
        }
        let known = |text: &Option<String>| text.as_deref().and_then(unhex);
        let erased = if read.erased {
            (known(&read.body_hash), known(&read.link), known(&read.prefix_hash))
        } else {
            (None, None, None)
        };
        let slot = read.slot().map_err(bad)?;
        let hash = erased.0.unwrap_or_else(|| body_hash(position, &slot));
        let said = match &slot {
            Slot::Message(entry) => next_prefix(&self.prefix, entry),
            _ => erased.2,
        };
        // Of an erased decision only the link that was written down is known.
        self.link = erased.1.unwrap_or_else(|| link_over(&self.link, position, &slot, &hash));
        self.prefix = said.unwrap_or(self.prefix);
        self.next += 1;
        self.places.push(StoredEntry { position, slot, link: self.link, body_hash: hash, prefix: said });
        Ok(())
    }

    /// Writes the conversation; how many entries are new and how many were there already.
    pub async fn finish(mut self, store: &dyn Store, check: LinkCheck) -> Result<(u64, u64), StoreError> {
        let tenant = self.conversation.tenant.clone();
        if let Some((parent, at)) = self.conversation.forked_from() {
            let parent = parent.clone();
            self.continue_from(store, &tenant, &parent, at).await?;
        } else if let Some(parent) = &self.conversation.parent {
            store.conversation(&tenant, parent).await.map_err(|error| without_parent(&error))?;
        }
        let whole = self.conversation.head == self.next && self.conversation.head_link == self.link;
        if check == LinkCheck::Links && !whole {
            let message = "the hash links of the export are broken; --no-verify imports it anyway";
            return Err(StoreError::new(ErrorKind::Damaged, message));
        }
        self.conversation.head = self.next;
        self.conversation.head_link = self.link;
        self.conversation.head_prefix = self.prefix;
        let total = self.places.len() as u64;
        let known = match store.conversation(&tenant, self.id()).await {
            Ok(known) => known,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.check_decisions()?;
                store.restore(self.conversation, self.session, self.places).await?;
                return Ok((total, 0));
            }
            Err(error) => return Err(error),
        };
        if known.head >= self.next {
            let same = if known.head == self.next {
                known.head_link == self.link
            } else {
                let last = store.entries(&tenant, self.id(), self.next.saturating_sub(1), self.next).await?;
                last.first().is_none_or(|last| last.link == self.link)
            };
            return if same { Ok((0, total)) } else { Err(diverged()) };
        }
        let new =
            self.places.iter().position(|placed| placed.position >= known.head).unwrap_or(self.places.len());
        let before = new.checked_sub(1).and_then(|at| self.places.get(at)).map(|placed| placed.link);
        if before.is_some_and(|before| before != known.head_link) {
            return Err(diverged());
        }
        let added = self.places.split_off(new);
        let (added_count, skipped) = (added.len() as u64, new as u64);
        store.restore(self.conversation, self.session, added).await?;
        Ok((added_count, skipped))
    }

    /// A fork's links go on from its parent's, which must be there.
    async fn continue_from(
        &mut self,
        store: &dyn Store,
        tenant: &Tenant,
        parent: &ConversationId,
        at: u64,
    ) -> Result<(), StoreError> {
        let before = store.entries(tenant, parent, 0, at).await.map_err(|error| without_parent(&error))?;
        let root = match before.first() {
            Some(_) => None,
            None => store.branches(tenant, parent).await?.into_iter().next().map(|root| root.conversation),
        };
        self.link = before
            .last()
            .map_or_else(|| first_link(root.as_ref().unwrap_or(parent).as_str()), |placed| placed.link);
        self.prefix = before.iter().rev().find_map(|placed| placed.prefix).unwrap_or(PREFIX_START);
        let places = std::mem::take(&mut self.places);
        for mut placed in places {
            if !matches!(placed.slot, Slot::Erased(_)) {
                placed.link = link_over(&self.link, placed.position, &placed.slot, &placed.body_hash);
                if let Slot::Message(entry) = &placed.slot {
                    placed.prefix = next_prefix(&self.prefix, entry);
                }
            }
            self.link = placed.link;
            self.prefix = placed.prefix.unwrap_or(self.prefix);
            self.places.push(placed);
        }
        Ok(())
    }

    /// What was accepted once is accepted again; anything else is no export of ours.
    fn check_decisions(&self) -> Result<(), StoreError> {
        if self.conversation.fork_position.is_some() {
            return Ok(());
        }
        let slots = self.places.iter().map(|placed| placed.slot.clone());
        let record = Record::restore(slots);
        record.map(|_| ()).map_err(|error| StoreError::new(ErrorKind::Damaged, error.to_string()))
    }
}

fn without_parent(error: &StoreError) -> StoreError {
    StoreError::new(error.kind(), format!("its parent must be imported first: {error}"))
}

fn diverged() -> StoreError {
    StoreError::new(
        ErrorKind::Conflict,
        "the store has this conversation with other entries; nothing was imported",
    )
}

/// The wires whose bodies can be exported.
pub const WIRES: [Wire; 5] =
    [Wire::OpenaiChat, Wire::OpenaiResponses, Wire::Anthropic, Wire::Gemini, Wire::Bedrock];
