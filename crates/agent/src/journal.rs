//! The record an agent writes: in memory, or durable in a store before anything else happens.

use std::sync::Arc;

use scrollback_core::{AppendError, Entry, Record, Slot, Time};
use scrollback_store::{
    ConversationId, ErrorKind, Evaluation, Expected, NewConversation, NewEntry, Recipient, Run, Sent, Store,
    StoreError, Tenant, Tx,
};

/// A record that is being written.
///
/// With a store behind it, what is appended is durable before it is part of the record. Another writer of the same
/// conversation is no conflict: what they wrote meanwhile is read first.
pub struct Journal {
    record: Record,
    kept: Option<Kept>,
}

/// Where a record is kept.
#[derive(Clone)]
struct Kept {
    store: Arc<dyn Store>,
    tenant: Tenant,
    id: ConversationId,
    /// What the first append has to create.
    create: Option<NewConversation>,
}

/// What is written with the entries, where there is a store.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) evaluation: Option<Evaluation>,
    pub(crate) run: Option<Box<Run>>,
    pub(crate) sent: Vec<Sent>,
}

impl Journal {
    /// A record in memory.
    pub fn memory(record: Record) -> Self {
        Journal { record, kept: None }
    }

    /// A conversation of a store.
    pub async fn open(store: Arc<dyn Store>, tenant: Tenant, id: ConversationId) -> Result<Self, StoreError> {
        let record = store.record(&tenant, &id, None).await?;
        Ok(Journal { record, kept: Some(Kept { store, tenant, id, create: None }) })
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
        Ok(Journal { record: Record::new(), kept: Some(Kept { store, tenant, id, create }) })
    }

    /// A new conversation of a store, with nobody in particular. It begins with the first thing said.
    pub fn begin(store: Arc<dyn Store>, tenant: Tenant, now: Time) -> Self {
        let id = ConversationId::new(now);
        let create = Some(NewConversation::new(id.clone()));
        Journal { record: Record::new(), kept: Some(Kept { store, tenant, id, create }) }
    }

    /// What was said so far.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The conversation, where there is a store.
    pub fn conversation(&self) -> Option<&ConversationId> {
        self.kept.as_ref().map(|kept| &kept.id)
    }

    /// The store and whose data it is; none before the conversation has begun.
    pub(crate) fn store(&self) -> Option<(&Arc<dyn Store>, &Tenant)> {
        let kept = self.kept.as_ref().filter(|kept| kept.create.is_none());
        kept.map(|kept| (&kept.store, &kept.tenant))
    }

    /// Appends, durably where there is a store, and returns the positions.
    pub(crate) async fn write(
        &mut self,
        entries: Vec<NewEntry>,
        rows: Rows,
        at: Time,
    ) -> Result<Vec<u64>, StoreError> {
        let places: Vec<Slot> = entries.iter().map(|entry| slot(entry, at)).collect();
        if let Some(kept) = &mut self.kept {
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

    /// The entry at a position, shared with the record.
    pub(crate) fn entry(&self, position: u64) -> Option<&Arc<Entry>> {
        self.record.entry(position)
    }
}

impl Kept {
    /// Commits; one whose answer was lost is repeated once, which settles it.
    async fn commit(
        &self,
        entries: Vec<NewEntry>,
        rows: Rows,
        at: Time,
    ) -> Result<scrollback_store::Committed, StoreError> {
        let mut tx = Tx::new(&self.tenant, at);
        // The evaluation first: the store moves it forward with what is appended.
        rows.evaluation.map(|evaluation| tx.evaluation(evaluation));
        rows.run.map(|run| tx.run(*run));
        if !entries.is_empty() {
            tx.append(&self.id, Expected::Any, entries);
        }
        for sent in rows.sent {
            tx.sent(sent);
        }
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

fn slot(entry: &NewEntry, at: Time) -> Slot {
    match entry {
        NewEntry::Message(entry) => Slot::Message(Arc::new(Entry::clone(entry))),
        NewEntry::Decision(decision) => Slot::Decision(Arc::from(decision.clone()), at),
    }
}

/// The record refuses what the store took, which cannot be.
fn refused(error: &AppendError) -> StoreError {
    StoreError::new(ErrorKind::BadArgument, error.to_string())
}
