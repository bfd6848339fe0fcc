//! Finding what was said: by words, and by handle.

use scrollback_core::Slot;
use scrollback_store::{ConversationId, Filter, Hits, Listing, Page, Query, Recipient, StoredEntry};
use serde_json::{Value, json};

use crate::conversation::Conversation;
use crate::error::{Error, ErrorKind, Result};
use crate::open::Store;

/// Characters of an id that a handle has.
const TAIL: usize = 10;

/// A place in a record by its stable name: `sb:CONV#POS`, or `sb:CONV#FIRST-LAST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The last characters of the conversation's id, at least ten.
    pub tail: String,
    /// The positions, first and last.
    pub positions: (u64, u64),
}

impl Handle {
    /// Reads a handle.
    ///
    /// ```
    /// use scrollback::Handle;
    /// assert_eq!(Handle::parse("sb:K7Q2M9X4TD#4")?.to_string(), "sb:k7q2m9x4td#4");
    /// assert_eq!(Handle::parse("sb:k7q2m9x4td#4-6")?.positions, (4, 6));
    /// assert!(Handle::parse("message 4").is_err());
    /// # Ok::<(), scrollback::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let read = || {
            let (tail, places) = text.trim().strip_prefix("sb:")?.split_once('#')?;
            let tail = tail.to_ascii_lowercase();
            let positions = match places.split_once('-') {
                Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
                None => places.parse().ok().map(|at: u64| (at, at))?,
            };
            let is_tail = tail.len() >= TAIL && tail.bytes().all(|byte| byte.is_ascii_alphanumeric());
            (is_tail && positions.0 <= positions.1).then_some(Handle { tail, positions })
        };
        read().ok_or_else(|| {
            let message = format!(
                "{text:?} is no handle; handles look like sb:k7q2m9x4td#412 (search for the words instead)"
            );
            Error::new(ErrorKind::Input, message).at("bad_handle", "")
        })
    }

    /// The handle of a place.
    pub fn of(id: &ConversationId, position: u64) -> Self {
        let id = id.as_str();
        let tail = id.get(id.len().saturating_sub(TAIL)..).unwrap_or(id).to_ascii_lowercase();
        Handle { tail, positions: (position, position) }
    }

    /// Whether it names this conversation.
    pub fn is_in(&self, id: &ConversationId) -> bool {
        id.as_str().to_ascii_lowercase().ends_with(&self.tail)
    }
}

impl std::fmt::Display for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, last) = self.positions;
        write!(f, "sb:{}#{first}", self.tail)?;
        if first == last { Ok(()) } else { write!(f, "-{last}") }
    }
}

impl Store {
    /// Entries that have all the words, best first, of one recipient or of all.
    pub async fn search(&self, words: &str, with: Option<&str>, limit: usize) -> Result<Hits> {
        let recipient = with.map(Recipient::parse).transpose()?;
        let filter = Filter { recipient, ..Filter::default() };
        Ok(self.inner.search(&self.tenant, Query::parse(words), filter, limit, None).await?)
    }

    /// The conversations written last.
    pub async fn list(&self, limit: usize) -> Result<Page> {
        let listing = Listing { limit, ..Listing::default() };
        Ok(self.inner.list(Some(&self.tenant), listing).await?)
    }

    /// What stands at a handle, in any conversation of the tenant.
    pub async fn read(&self, handle: &Handle) -> Result<(ConversationId, Vec<StoredEntry>)> {
        let mut after = None;
        loop {
            let listing = Listing { limit: 500, after, ..Listing::default() };
            let page = self.inner.list(Some(&self.tenant), listing).await?;
            let found = page.conversations.iter().find(|(row, _)| handle.is_in(&row.id));
            if let Some((row, _)) = found {
                let (first, last) = handle.positions;
                let below = last.saturating_add(1);
                let places = self.inner.entries(&self.tenant, &row.id, first, below).await?;
                return if places.is_empty() { Err(unknown(handle)) } else { Ok((row.id.clone(), places)) };
            }
            after = page.next;
            if after.is_none() {
                return Err(unknown(handle));
            }
        }
    }
}

impl Conversation {
    /// Entries of this conversation that have all the words, best first.
    pub async fn search(&self, words: &str, limit: usize) -> Result<Hits> {
        let Some(id) = &self.id else { return Ok(Hits { hits: Vec::new(), next: None }) };
        let filter = Filter { conversation: Some(id.clone()), ..Filter::default() };
        Ok(self.store.search(&self.tenant, Query::parse(words), filter, limit, None).await?)
    }
}

fn unknown(handle: &Handle) -> Error {
    let message = format!("nothing stands at {handle}; search for the words instead");
    Error::new(ErrorKind::Store(scrollback_store::ErrorKind::NotFound), message)
}

/// A place of a record as JSON, in the form of `GET /api/conversations/{id}/entries`.
pub fn place_json(placed: &StoredEntry) -> Value {
    let (kind, role) = match &placed.slot {
        Slot::Message(entry) => ("message", Some(entry.role)),
        Slot::Decision(..) => ("decision", None),
        Slot::Erased(tombstone) => ("erased", Some(tombstone.role)),
    };
    let mut told = json!({
        "position": placed.position,
        "kind": kind,
        "role": role.map(scrollback_core::Role::as_str),
        "created_at": placed.slot.created_at().to_string(),
        "text": null,
        "raw": null,
        "wire": null,
        "tool_call_id": null,
        "decision": null,
    });
    match &placed.slot {
        Slot::Message(entry) => {
            told["text"] = Value::from(entry.content());
            told["raw"] = Value::from(entry.origin.raw.to_string());
            told["wire"] = Value::from(entry.origin.wire.name());
            told["tool_call_id"] = Value::from(entry.tool_call_id());
        }
        Slot::Decision(decision, _) => {
            told["decision"] = serde_json::to_value(decision.as_ref()).unwrap_or_default();
        }
        Slot::Erased(_) => {}
    }
    told
}
