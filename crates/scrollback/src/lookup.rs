//! Finding what was said: by words, and by handle.

use scrollback_core::Slot;
use scrollback_core::recall::{self, BadHandle, Tail};
use scrollback_store::recall::{NoAnswer, resolve};
use scrollback_store::{ConversationId, Filter, Hits, Listing, Page, Query, Recipient, StoredEntry};
use serde_json::{Value, json};

use crate::conversation::Conversation;
use crate::error::{Error, ErrorKind, Result};
use crate::open::Store;

/// A place in a record by its stable name: `sb:CONV#POS`, or `sb:CONV#FIRST-LAST`; `sb:CONV` is the whole conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle(recall::Handle);

impl Handle {
    /// Reads a handle, in upper or lower case, with any quotes or brackets around it.
    ///
    /// ```
    /// use scrollback::Handle;
    /// assert_eq!(Handle::parse("`SB:K7Q2M9X4TD#4`")?.to_string(), "sb:k7q2m9x4td#4");
    /// assert_eq!(Handle::parse("sb:k7q2m9x4td#4-6")?.positions(), Some((4, 6)));
    /// assert_eq!(Handle::parse("sb:k7q2m9x4td")?.positions(), None);
    /// assert!(Handle::parse("message 4").is_err());
    /// # Ok::<(), scrollback::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let read: std::result::Result<_, BadHandle> = text.parse();
        read.map(Handle).map_err(|error| Error::new(ErrorKind::Input, error.to_string()).at("bad_handle", ""))
    }

    /// The handle of a place; none for a text that is no id.
    pub fn of(id: &ConversationId, position: u64) -> Option<Self> {
        Tail::of(id.as_str()).map(|tail| Handle(recall::Handle::at(tail, position)))
    }

    /// First and last position; none for the whole conversation.
    pub fn positions(&self) -> Option<(u64, u64)> {
        self.0.positions()
    }

    /// Whether it names this conversation.
    pub fn is_in(&self, id: &ConversationId) -> bool {
        self.0.tail().is_of(id.as_str())
    }
}

impl std::fmt::Display for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
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

    /// What stands at a handle, in any conversation of the tenant; nothing where it names a whole conversation.
    pub async fn read(&self, handle: &Handle) -> Result<(ConversationId, Vec<StoredEntry>)> {
        let row = match resolve(&*self.inner, &self.tenant, &handle.0).await {
            Ok(row) => row,
            Err(NoAnswer::Store(error)) => return Err(error.into()),
            Err(refused) => return Err(not_found(refused.to_string())),
        };
        let Some((first, last)) = handle.positions() else { return Ok((row.id, Vec::new())) };
        let places = self.inner.entries(&self.tenant, &row.id, first, last.saturating_add(1)).await?;
        if places.is_empty() {
            return Err(not_found(format!("no entry at {handle}; search for the words instead")));
        }
        Ok((row.id, places))
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

fn not_found(message: String) -> Error {
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
