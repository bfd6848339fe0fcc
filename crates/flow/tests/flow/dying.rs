//! A store whose process dies after a number of commits: what was written stays, and nothing more is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scrollback_core::{Link, Record, Time};
use scrollback_store::*;
use uuid::Uuid;

pub(crate) struct Dying {
    inner: Arc<dyn Store>,
    commits: AtomicUsize,
    most: usize,
}

impl Dying {
    pub(crate) fn new(inner: Arc<dyn Store>, most: usize) -> Self {
        Dying { inner, commits: AtomicUsize::new(0), most }
    }

    /// Commits so far.
    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }
}

impl Store for Dying {
    fn commit(&self, tx: Tx) -> Answer<'_, Committed> {
        let before = self.commits.fetch_add(1, Ordering::SeqCst);
        if before >= self.most {
            return Box::pin(async { Err(StoreError::new(ErrorKind::Io, "the process is dead")) });
        }
        self.inner.commit(tx)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn conversation(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Conversation> {
        self.inner.conversation(tenant, id)
    }

    fn current(&self, tenant: &Tenant, recipient: &Recipient) -> Answer<'_, Option<Conversation>> {
        self.inner.current(tenant, recipient)
    }

    fn list(&self, tenant: Option<&Tenant>, what: Listing) -> Answer<'_, Page> {
        self.inner.list(tenant, what)
    }

    fn entries(&self, tenant: &Tenant, id: &ConversationId, from: u64, below: u64) -> Answer<'_, Vec<Placed>> {
        self.inner.entries(tenant, id, from, below)
    }

    fn record(&self, tenant: &Tenant, id: &ConversationId, below: Option<u64>) -> Answer<'_, Record> {
        self.inner.record(tenant, id, below)
    }

    fn recent(&self, tenant: &Tenant, id: &ConversationId, turns: usize) -> Answer<'_, Recent> {
        self.inner.recent(tenant, id, turns)
    }

    fn pending_calls(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Vec<PendingCall>> {
        self.inner.pending_calls(tenant, id)
    }

    fn search(&self, tenant: &Tenant, query: Query, filter: Filter, limit: usize, after: Option<Cursor>) -> Answer<'_, Hits> {
        self.inner.search(tenant, query, filter, limit, after)
    }

    fn find_prefix(&self, tenant: &Tenant, hashes: Vec<Link>, within: Option<&ConversationId>) -> Answer<'_, Option<(ConversationId, u64)>> {
        self.inner.find_prefix(tenant, hashes, within)
    }

    fn fork(&self, tenant: &Tenant, parent: &ConversationId, at: u64, id: ConversationId, now: Time) -> Answer<'_, Conversation> {
        self.inner.fork(tenant, parent, at, id, now)
    }

    fn rewind(&self, tenant: &Tenant, recipient: &Recipient, at: u64, id: ConversationId, now: Time) -> Answer<'_, Conversation> {
        self.inner.rewind(tenant, recipient, at, id, now)
    }

    fn branches(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Vec<Branch>> {
        self.inner.branches(tenant, id)
    }

    fn erase(&self, tenant: &Tenant, id: &ConversationId, what: Erase, reason: &str, now: Time) -> Answer<'_, ErasedCount> {
        self.inner.erase(tenant, id, what, reason, now)
    }

    fn verify(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Verified> {
        self.inner.verify(tenant, id)
    }

    fn reindex(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, u64> {
        self.inner.reindex(tenant, id)
    }

    fn alias(&self, tenant: &Tenant, source: &str, source_id: &str) -> Answer<'_, Option<Alias>> {
        self.inner.alias(tenant, source, source_id)
    }

    fn lease(&self, tenant: &Tenant, what: Leased, lease: Lease, dead: Vec<String>, now: Time) -> Answer<'_, ()> {
        self.inner.lease(tenant, what, lease, dead, now)
    }

    fn release(&self, tenant: &Tenant, what: Leased, holder: &str, now: Time) -> Answer<'_, ()> {
        self.inner.release(tenant, what, holder, now)
    }

    fn evaluation(&self, tenant: &Tenant, id: Uuid) -> Answer<'_, Option<Evaluation>> {
        self.inner.evaluation(tenant, id)
    }

    fn evaluations(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Vec<Evaluation>> {
        self.inner.evaluations(tenant, id)
    }

    fn runs(&self, tenant: &Tenant, prefix: &str, limit: usize) -> Answer<'_, Vec<Run>> {
        self.inner.runs(tenant, prefix, limit)
    }

    fn steps(&self, tenant: &Tenant, run: &str) -> Answer<'_, Vec<Step>> {
        self.inner.steps(tenant, run)
    }

    fn spans(&self, tenant: &Tenant, run: &str) -> Answer<'_, Vec<Span>> {
        self.inner.spans(tenant, run)
    }

    fn events(&self, tenant: &Tenant, run: &str, from: u64) -> Answer<'_, Vec<Event>> {
        self.inner.events(tenant, run, from)
    }

    fn sent(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Vec<Sent>> {
        self.inner.sent(tenant, id)
    }

    fn put_key(&self, key: Key) -> Answer<'_, ()> {
        self.inner.put_key(key)
    }

    fn keys(&self) -> Answer<'_, Vec<Key>> {
        self.inner.keys()
    }

    fn backup(&self, to: &Path) -> Answer<'_, ()> {
        self.inner.backup(to)
    }

    fn restore(&self, conversation: Conversation, places: Vec<Placed>) -> Answer<'_, ()> {
        self.inner.restore(conversation, places)
    }
}
