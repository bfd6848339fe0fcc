//! One conversation: what was said in it, appended to and viewed.

use std::fmt;
use std::sync::Arc;

use scrollback_core::manager::parse;
use scrollback_core::model::ModelName;
use scrollback_core::{CurationContext, Entry, Record, Time};
use scrollback_store::{ConversationId, Expected, NewEntry, Recipient, Tenant, Tx, new_evaluation};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::open::now;
use crate::view::View;

/// A conversation with its record. Appending writes to the store first, then to the record.
pub struct Conversation {
    pub(crate) store: Arc<dyn scrollback_store::Store>,
    pub(crate) tenant: Tenant,
    pub(crate) recipient: Recipient,
    pub(crate) id: Option<ConversationId>,
    pub(crate) record: Record,
    /// When the conversation was written last, as far as the record holds it.
    pub(crate) written: Option<Time>,
    cx: CurationContext,
}

/// Entries to append, together or not at all. What is left out has its default.
#[derive(Clone, Debug, Default)]
pub struct Append {
    /// What was said, in order.
    pub entries: Vec<Entry>,
    /// When; by default now.
    pub at: Option<Time>,
    /// The evaluation they belong to; by default a new one. With one of your own an append can be repeated: entries that
    /// are there already are not written again.
    pub evaluation: Option<Uuid>,
    /// The number of the first entry in its evaluation. Evaluations count from 0 without gaps.
    pub sequence: u64,
}

impl From<Entry> for Append {
    fn from(entry: Entry) -> Self {
        Append { entries: vec![entry], ..Append::default() }
    }
}

impl From<Vec<Entry>> for Append {
    fn from(entries: Vec<Entry>) -> Self {
        Append { entries, ..Append::default() }
    }
}

impl<const N: usize> From<[Entry; N]> for Append {
    fn from(entries: [Entry; N]) -> Self {
        Append { entries: entries.into(), ..Append::default() }
    }
}

impl Conversation {
    pub(crate) async fn load(
        store: Arc<dyn scrollback_store::Store>,
        tenant: Tenant,
        recipient: Recipient,
    ) -> Result<Self> {
        let cx = CurationContext::default();
        let mut chat =
            Conversation { store, tenant, recipient, id: None, record: Record::new(), written: None, cx };
        chat.reload().await?;
        Ok(chat)
    }

    /// Appends one entry, several, or an [`Append`]. It is durable when this returns. What another process appended
    /// meanwhile stands before it, and is in the record afterwards.
    pub async fn append(&mut self, append: impl Into<Append>) -> Result<()> {
        let Append { entries, at, evaluation, sequence } = append.into();
        if entries.is_empty() {
            return Ok(());
        }
        let at = at.unwrap_or_else(now);
        let evaluation = evaluation.unwrap_or_else(new_evaluation);
        let new = NewEntry::continued(entries.clone(), evaluation, sequence, at);
        let mut tx = Tx::new(&self.tenant, at);
        tx.append_for(&self.recipient, Expected::Any, new);
        let committed = self.store.commit(tx).await?;
        let appended = committed.appended.into_iter().next();
        let follows = appended.as_ref().is_some_and(|appended| {
            let same = self.id.as_ref().is_none_or(|id| *id == appended.conversation);
            same && appended.first == self.record.len() as u64
        });
        let mut kept = follows;
        if follows {
            for (sequence, entry) in (sequence..).zip(entries) {
                kept = kept && self.record.append(entry.stamped(evaluation, sequence, at)).is_ok();
            }
            self.id = appended.map(|appended| appended.conversation);
            self.written = Some(at);
        }
        // Another process wrote, or this was a repeat: the store knows what stands where.
        if kept { Ok(()) } else { self.refresh().await }
    }

    /// Reads the record again, with what other processes appended.
    pub async fn reload(&mut self) -> Result<()> {
        let Some(found) = self.store.current(&self.tenant, &self.recipient).await? else { return Ok(()) };
        self.record = self.store.record(&self.tenant, &found.id, None).await?;
        self.written = Some(found.updated_at);
        self.id = Some(found.id);
        Ok(())
    }

    /// What the next call is sent: the record through a manager, given as text.
    pub fn view(&self, manager: &str) -> Result<View<'_>> {
        View::within(&self.record, &*parse(manager)?, self.cx.clone())
    }

    /// The model that is called, as in `anthropic:claude-sonnet-4-5`: its tokenizer counts, and `fit` knows its window.
    pub fn set_model(&mut self, name: &str) -> Result<()> {
        let model = ModelName::parse(name)?;
        self.cx = CurationContext::for_model(Some(model));
        Ok(())
    }

    /// Everything that was said.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The id of the conversation; an error until its first append.
    pub fn id(&self) -> Result<&ConversationId> {
        let none = || {
            let kind = scrollback_store::ErrorKind::NotFound;
            let message =
                format!("the conversation with {} has no id before its first append", self.recipient);
            Error::new(ErrorKind::Store(kind), message)
        };
        self.id.as_ref().ok_or_else(none)
    }

    /// With whom it is.
    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }
}

impl fmt::Debug for Conversation {
    /// Without what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation")
            .field("recipient", &self.recipient)
            .field("id", &self.id)
            .field("entries", &self.record.len())
            .finish_non_exhaustive()
    }
}
