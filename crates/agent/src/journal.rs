//! The record an agent writes: in memory, or durable in a store before anything else happens.

use std::sync::Arc;

use scrollback_core::{AppendError, Dropped, Entry, Record, Slot, Time};
use scrollback_store::{
    ConversationId, ErrorKind, Evaluation, Expected, NewConversation, NewEntry, Recipient, Run, Sent, Store,
    StoreError, Tenant, Tx,
};

use crate::effects::{BoxFuture, Clock};
use crate::exchange::Recorder;
use crate::tool::RecallPlace;
use scrollback_core::request::{BodyTemplate, RequestMessage, RequestTokens};

/// A record that is being written.
///
/// With a store behind it, what is appended is durable before it is part of the record. Another writer of the same
/// conversation is no conflict: what they wrote meanwhile is read first.
pub struct Journal {
    record: Record,
    kept: JournalTarget,
}

/// Where what is appended is kept.
#[allow(clippy::large_enum_variant, reason = "a journal has exactly one, and it is never moved in a loop")]
enum JournalTarget {
    /// In memory only.
    Nowhere,
    /// In a conversation of its own.
    Store(StoredJournal),
    /// By the caller, as part of a larger record.
    Elsewhere(Arc<dyn Keeper>),
}

/// A caller that stores what a journal writes: a flow, whose steps share one record and each see a part of it.
///
/// Positions in what is written are those of the journal's own record.
pub trait Keeper: Send + Sync {
    /// The conversation it all belongs to.
    fn conversation(&self) -> &ConversationId;

    /// Keeps it. What is refused does not become part of the journal's record.
    fn keep(&self, written: JournalCommit) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// What a request shows of the journal's record.
pub struct Viewed {
    /// The messages, in order.
    pub shown: Vec<RequestMessage>,
    /// What is left out, by whom and why.
    pub left_out: Vec<Dropped>,
    /// Tokens of all of it, by part.
    pub tokens: RequestTokens,
}

/// What a journal writes at once.
pub struct JournalCommit {
    /// What is appended, in order.
    pub entries: Vec<NewEntry>,
    /// What is known about the evaluation.
    pub evaluation: Option<Evaluation>,
    /// Requests, in place of what was written about them before.
    pub sent: Vec<Sent>,
    /// What the request that goes out now shows.
    pub view: Option<Viewed>,
    /// When.
    pub at: Time,
}

/// Where a record is kept.
#[derive(Clone)]
struct StoredJournal {
    store: Arc<dyn Store>,
    tenant: Tenant,
    id: ConversationId,
    /// Whom the conversation is with.
    recipient: Option<Recipient>,
    /// What the first append has to create.
    create: Option<NewConversation>,
}

/// What is written with the entries, where there is a store.
#[derive(Default)]
pub struct JournalRows {
    /// What is known about the evaluation.
    pub evaluation: Option<Evaluation>,
    /// The run it is part of.
    pub run: Option<Box<Run>>,
    /// Calls, in place of what was written about them before.
    pub sent: Vec<Sent>,
    /// The body of the last of them, as what it shares with the record.
    pub template: Option<BodyTemplate>,
    /// What the request that goes out now shows; only for a record that is kept elsewhere.
    pub view: Option<Viewed>,
}

impl Journal {
    /// A record in memory.
    pub fn memory(record: Record) -> Self {
        Journal { record, kept: JournalTarget::Nowhere }
    }

    /// A conversation of a store.
    pub async fn open(store: Arc<dyn Store>, tenant: Tenant, id: ConversationId) -> Result<Self, StoreError> {
        let record = store.record(&tenant, &id, None).await?;
        let recipient = store.conversation(&tenant, &id).await?.recipient;
        Ok(Journal {
            record,
            kept: JournalTarget::Store(StoredJournal { store, tenant, id, recipient, create: None }),
        })
    }

    /// The current conversation of a recipient. A new one begins with the first thing said.
    pub async fn with(
        store: Arc<dyn Store>,
        tenant: Tenant,
        recipient: &Recipient,
        now: Time,
    ) -> Result<Self, StoreError> {
        if let Some(current) = store.current(&tenant, recipient).await? {
            return Journal::open(store, tenant, current.id).await;
        }
        let id = ConversationId::new(now);
        let create = Some(NewConversation::with(id.clone(), recipient));
        let kept = StoredJournal { store, tenant, id, recipient: Some(recipient.clone()), create };
        Ok(Journal { record: Record::new(), kept: JournalTarget::Store(kept) })
    }

    /// A new conversation of a store, without a recipient. It begins with the first thing said.
    pub fn begin(store: Arc<dyn Store>, tenant: Tenant, now: Time) -> Self {
        let id = ConversationId::new(now);
        let create = Some(NewConversation::new(id.clone()));
        let kept = StoredJournal { store, tenant, id, recipient: None, create };
        Journal { record: Record::new(), kept: JournalTarget::Store(kept) }
    }

    /// A record that was prepared for one evaluation; what is appended is stored by the caller.
    pub fn elsewhere(record: Record, keeper: Arc<dyn Keeper>) -> Self {
        Journal { record, kept: JournalTarget::Elsewhere(keeper) }
    }

    /// What was said so far.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The conversation, where there is a store.
    pub fn conversation(&self) -> Option<&ConversationId> {
        match &self.kept {
            JournalTarget::Nowhere => None,
            JournalTarget::Store(kept) => Some(&kept.id),
            JournalTarget::Elsewhere(keeper) => Some(keeper.conversation()),
        }
    }

    /// The recipient of the conversation, if it has one.
    pub fn recipient(&self) -> Option<&Recipient> {
        match &self.kept {
            JournalTarget::Store(kept) => kept.recipient.as_ref(),
            JournalTarget::Nowhere | JournalTarget::Elsewhere(_) => None,
        }
    }

    /// Where recall finds what is written here; none without a store.
    pub fn recall(&self, clock: Arc<dyn Clock>) -> Option<RecallPlace> {
        let JournalTarget::Store(StoredJournal { store, tenant, id, .. }) = &self.kept else { return None };
        Some(RecallPlace {
            store: Arc::clone(store),
            tenant: tenant.clone(),
            conversation: id.clone(),
            clock,
        })
    }

    /// The store and whose data it is; none before the conversation has begun, and where the caller stores it.
    pub(crate) fn store(&self) -> Option<(&Arc<dyn Store>, &Tenant)> {
        match &self.kept {
            JournalTarget::Store(kept) if kept.create.is_none() => Some((&kept.store, &kept.tenant)),
            _ => None,
        }
    }

    /// Appends, durably where there is a store, and returns the positions.
    pub(crate) async fn write(
        &mut self,
        entries: Vec<NewEntry>,
        rows: JournalRows,
        at: Time,
    ) -> Result<Vec<u64>, StoreError> {
        let places: Vec<Slot> = entries.iter().map(|entry| entry.slot(at)).collect();
        if let JournalTarget::Elsewhere(keeper) = &self.kept {
            // The caller that stores it has a run of its own.
            let JournalRows { evaluation, sent, view, run: _, template: _ } = rows;
            keeper.keep(JournalCommit { entries, evaluation, sent, view, at }).await?;
        } else if let JournalTarget::Store(kept) = &mut self.kept {
            let appends = !entries.is_empty();
            let committed = kept.commit(entries, rows, at).await?;
            kept.create = None;
            let first = committed.appended.first().filter(|_| appends).map(|appended| appended.first);
            let next = self.record.len() as u64;
            if let Some(first) = first.filter(|first| *first > next) {
                for placed in kept.store.entries(&kept.tenant, &kept.id, next, first).await? {
                    self.record.take(placed.slot).map_err(|error| refused(&error))?;
                }
            }
        }
        let first = self.record.len() as u64;
        let count = places.len() as u64;
        for place in places {
            self.record.take(place).map_err(|error| refused(&error))?;
        }
        Ok((first..first + count).collect())
    }

    /// Whether the caller stores it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.kept, JournalTarget::Elsewhere(_))
    }

    /// The entry at a position, shared with the record.
    pub fn entry(&self, position: u64) -> Option<&Arc<Entry>> {
        self.record.entry(position)
    }
}

impl Recorder for Journal {
    fn record(&self) -> &Record {
        &self.record
    }

    fn conversation(&self) -> Option<&ConversationId> {
        Journal::conversation(self)
    }

    fn tenant(&self) -> Tenant {
        match &self.kept {
            JournalTarget::Store(kept) => kept.tenant.clone(),
            JournalTarget::Nowhere | JournalTarget::Elsewhere(_) => Tenant::default(),
        }
    }

    fn look<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Record) -> T + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(std::future::ready(Ok(work(&self.record))))
    }

    fn write(
        &mut self,
        entries: Vec<NewEntry>,
        rows: JournalRows,
        at: Time,
    ) -> BoxFuture<'_, Result<Vec<u64>, StoreError>> {
        Box::pin(Journal::write(self, entries, rows, at))
    }
}

impl StoredJournal {
    /// Commits; one whose answer was lost is repeated once, which settles it.
    async fn commit(
        &self,
        entries: Vec<NewEntry>,
        rows: JournalRows,
        at: Time,
    ) -> Result<scrollback_store::Committed, StoreError> {
        let mut tx = Tx::new(&self.tenant, at);
        // The evaluation first: the store moves it forward with what is appended.
        rows.evaluation.map(|evaluation| tx.evaluation(evaluation));
        rows.run.map(|run| tx.run(*run));
        if !entries.is_empty() {
            tx.append(&self.id, Expected::Any, entries);
        }
        tx.calls(rows.sent, rows.template);
        let again = tx.clone();
        match self.store.commit(self.begun(tx, self.create.clone())).await {
            Err(error) if error.kind() == ErrorKind::Unknown => {
                let exists = self.store.conversation(&self.tenant, &self.id).await.is_ok();
                self.store.commit(self.begun(again, self.create.clone().filter(|_| !exists))).await
            }
            other => other,
        }
    }

    /// The same commit after one that creates the conversation.
    fn begun(&self, tx: Tx, create: Option<NewConversation>) -> Tx {
        let Some(create) = create else { return tx };
        let mut first = Tx::new(&self.tenant, tx.at());
        first.create(create);
        first.then(tx)
    }
}

/// The record refuses what the store took, which cannot be.
fn refused(error: &AppendError) -> StoreError {
    StoreError::new(ErrorKind::BadArgument, error.to_string())
}
