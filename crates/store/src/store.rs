//! What every store does, whatever database is behind it: records, runs and keys.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use scrollback_core::recall::found::{FoundHits, FoundPlace};
use scrollback_core::recall::{SearchRequest, Tail};
use scrollback_core::{Link, Record, Time};
use uuid::Uuid;

use crate::conversation::{Conversation, Status};
use crate::engine::calls::PendingCall;
use crate::engine::commit::Leased;
use crate::engine::erase::{Erase, ErasedCount};
use crate::engine::examine::Examined;
use crate::engine::fork::{Branch, Continued};
use crate::engine::prune::{Emptied, KeptBody};
use crate::engine::verify::Verified;
use crate::entry::{Appended, Expected, NewEntry, StoredEntry};
use crate::erasure::{Leftover, Pseudonyms};
use crate::error::{ErrorKind, StoreError, StoreResult};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::recall::{Deadline, Here};
use crate::run::{Alias, Evaluation, Event, Key, KeyUse, Lease, Run, Sent, Span, Step};
use crate::search::{Cursor, Filter, Hits, Query};
use crate::session::{MatchScope, Session, SessionId, SessionListing, SessionPage, SessionTree};
use crate::size::{Shrunk, Sizes};
use crate::status::RunStatus;
use crate::tx::{Committed, Tx};

/// A future behind a pointer, as traits that are used as objects return it. Dropping it does not undo what was asked for.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Conversations and what was said in them.
///
/// Everything named by an id is looked up inside the tenant; what belongs to another is not found. Times are the caller's.
pub trait Records: Send + Sync {
    /// Writes all of a commit or nothing, and answers once it is durable.
    fn commit(&self, tx: Tx) -> BoxFuture<'_, StoreResult<Committed>>;

    /// A conversation.
    fn conversation(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<Conversation>>;

    /// The current conversation of a recipient, if there is one.
    fn current(
        &self,
        tenant: &Tenant,
        recipient: &Recipient,
    ) -> BoxFuture<'_, StoreResult<Option<Conversation>>>;

    /// A page of conversations, written last first. All tenants if none is named.
    fn list(&self, tenant: Option<&Tenant>, what: Listing) -> BoxFuture<'_, StoreResult<Page>>;

    /// The places of a record from a position on, below another.
    fn entries(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        from: u64,
        below: u64,
    ) -> BoxFuture<'_, StoreResult<Vec<StoredEntry>>>;

    /// The record, or what it was below a position.
    fn record(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        below: Option<u64>,
    ) -> BoxFuture<'_, StoreResult<Record>>;

    /// The lead, the last `turns` turns that no summary stands for, and the summary.
    fn recent(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        turns: usize,
    ) -> BoxFuture<'_, StoreResult<Recent>>;

    /// Calls that wait for a result, oldest first.
    fn pending_calls(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
    ) -> BoxFuture<'_, StoreResult<Vec<PendingCall>>>;

    /// What a query finds.
    fn search(
        &self,
        tenant: &Tenant,
        query: Query,
        filter: Filter,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, StoreResult<Hits>>;

    /// The conversations whose ids end with the tail of a handle: one, or more after imports.
    fn conversations_ending(
        &self,
        tenant: &Tenant,
        tail: &Tail,
    ) -> BoxFuture<'_, StoreResult<Vec<Conversation>>>;

    /// Places of a record, each with the tool whose result it is.
    fn places_with_tools(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        from: u64,
        below: u64,
    ) -> BoxFuture<'_, StoreResult<Vec<FoundPlace>>>;

    /// What the recall tool `search` finds. None if the scope means nothing where the caller is.
    fn find_for_recall(
        &self,
        tenant: &Tenant,
        here: &Here,
        request: &SearchRequest,
        deadline: &Deadline,
    ) -> BoxFuture<'_, StoreResult<Option<FoundHits>>>;

    /// The session that a client calls by this id, the newest if several callers do.
    fn session_called(&self, tenant: &Tenant, client_id: &str)
    -> BoxFuture<'_, StoreResult<Option<Session>>>;

    /// The conversation of a project that was written last; of any project if none is named.
    fn newest_in_project(
        &self,
        tenant: &Tenant,
        project: Option<&str>,
    ) -> BoxFuture<'_, StoreResult<Option<Conversation>>>;

    /// The longest stored prefix of a list of messages, by its [chain](scrollback_core::prefixes), among the conversations
    /// of one scope. Of several, the one that was not continued yet; of those the one written last.
    fn find_prefix(
        &self,
        tenant: &Tenant,
        scope: &MatchScope,
        hashes: Vec<Link>,
    ) -> BoxFuture<'_, StoreResult<Option<Continued>>>;

    /// The same among the conversations of one session, whatever their scope.
    fn find_in_session(
        &self,
        tenant: &Tenant,
        session: &SessionId,
        hashes: Vec<Link>,
    ) -> BoxFuture<'_, StoreResult<Option<Continued>>>;

    /// The conversations of a session that were written last, at most so many.
    fn session_conversations(
        &self,
        tenant: &Tenant,
        session: &SessionId,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<Conversation>>>;

    /// The session that a client named by an id of its own, if this caller has begun it.
    fn session(
        &self,
        tenant: &Tenant,
        caller: &str,
        client: &str,
        client_id: &str,
    ) -> BoxFuture<'_, StoreResult<Option<Session>>>;

    /// The session of that id that a client named; none if no client named it.
    fn named_session(&self, tenant: &Tenant, id: &SessionId) -> BoxFuture<'_, StoreResult<Option<Session>>>;

    /// A session with its conversations.
    fn session_tree(&self, tenant: &Tenant, id: &SessionId) -> BoxFuture<'_, StoreResult<SessionTree>>;

    /// A page of sessions, written last first. All tenants if none is named.
    fn sessions(
        &self,
        tenant: Option<&Tenant>,
        what: SessionListing,
    ) -> BoxFuture<'_, StoreResult<SessionPage>>;

    /// Forks a conversation: what lies below `at` is shared, what comes is its own. Nothing is copied.
    fn fork(
        &self,
        tenant: &Tenant,
        parent: &ConversationId,
        at: u64,
        id: ConversationId,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<Conversation>>;

    /// Makes a fork at `at` the current conversation of a recipient; the old one stays.
    fn rewind(
        &self,
        tenant: &Tenant,
        recipient: &Recipient,
        at: u64,
        id: ConversationId,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<Conversation>>;

    /// The tree of forks a conversation is part of, its root first.
    fn branches(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<Vec<Branch>>>;

    /// Erases what was said. Places, hashes and links stay.
    fn erase(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        what: Erase,
        reason: &str,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<ErasedCount>> {
        self.erase_each(tenant, vec![id.clone()], what, reason, now)
    }

    /// The same of several conversations, each in a transaction of its own. What must follow for the bytes to be gone is done once,
    /// at the end.
    fn erase_each(
        &self,
        tenant: &Tenant,
        ids: Vec<ConversationId>,
        what: Erase,
        reason: &str,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<ErasedCount>>;

    /// What makes the pseudonyms of people who were erased; none where no one was yet.
    fn pseudonyms(&self) -> BoxFuture<'_, StoreResult<Option<Pseudonyms>>>;

    /// Checks that a conversation says what was written.
    fn verify(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<Verified>>;

    /// Writes anew what is derived from the entries of a conversation; how many rows changed.
    fn reindex(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<u64>>;

    /// What a foreign id means.
    fn alias(
        &self,
        tenant: &Tenant,
        source: &str,
        source_id: &str,
    ) -> BoxFuture<'_, StoreResult<Option<Alias>>>;

    /// Writes a stored conversation as it is, links and all, into an empty place, and the session it belongs to where that
    /// is not there yet. For imports of our own form.
    fn restore(
        &self,
        conversation: Conversation,
        session: Option<Session>,
        places: Vec<StoredEntry>,
    ) -> BoxFuture<'_, StoreResult<()>>;
}

/// Work on conversations: runs with their steps, evaluations, model calls, and the leases that keep two processes apart.
pub trait RunRecords: Send + Sync {
    /// Takes or renews a lease until `until`. Another holder's lease is an error until it ends or its holder is among the dead.
    fn lease(
        &self,
        tenant: &Tenant,
        what: Leased,
        lease: Lease,
        dead: Vec<String>,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<()>>;

    /// Gives a lease back.
    fn release(
        &self,
        tenant: &Tenant,
        what: Leased,
        holder: &str,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<()>>;

    /// An evaluation.
    fn evaluation(&self, tenant: &Tenant, id: Uuid) -> BoxFuture<'_, StoreResult<Option<Evaluation>>>;

    /// The evaluations of a conversation, newest first.
    fn evaluations(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
    ) -> BoxFuture<'_, StoreResult<Vec<Evaluation>>>;

    /// The runs whose id begins so, newest first; all of them for an empty text.
    fn runs(&self, tenant: &Tenant, prefix: &str, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Run>>>;

    /// The steps of a run, by key.
    fn steps(&self, tenant: &Tenant, run: &str) -> BoxFuture<'_, StoreResult<Vec<Step>>>;

    /// The spans of a run, as they began.
    fn spans(&self, tenant: &Tenant, run: &str) -> BoxFuture<'_, StoreResult<Vec<Span>>>;

    /// The events of a run from a number on.
    fn events(&self, tenant: &Tenant, run: &str, from: u64) -> BoxFuture<'_, StoreResult<Vec<Event>>>;

    /// A page of runs, those that began last first.
    fn run_page(&self, tenant: &Tenant, what: RunListing) -> BoxFuture<'_, StoreResult<RunPage>>;

    /// The model calls of a conversation, as they were made, with what was sent and what came back.
    fn sent(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<Vec<Sent>>>;

    /// A page of model calls, newest first, without what was sent and what came back.
    fn calls(&self, tenant: &Tenant, what: CallListing) -> BoxFuture<'_, StoreResult<CallPage>>;

    /// A model call, with what was sent and what came back.
    fn call(&self, tenant: &Tenant, id: &str) -> BoxFuture<'_, StoreResult<Sent>>;

    /// The newest model calls of a tenant that asked this model, newest first, without what was sent and what came back.
    fn recent_calls(
        &self,
        tenant: &Tenant,
        model: &str,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<Sent>>>;

    /// The holders of model calls with the status `sent`, of all tenants, each once.
    fn call_holders(&self) -> BoxFuture<'_, StoreResult<Vec<String>>>;

    /// Gives up model calls with the status `sent`, of all tenants: those of these holders, and those that began before
    /// `before`. Their status becomes `lost`, and they ended at `now`. Answers how many those were.
    fn lose_calls(&self, holders: Vec<String>, before: Time, now: Time) -> BoxFuture<'_, StoreResult<u64>>;

    /// Calls whose bodies are kept and that began before a moment, the oldest first. All tenants' if none is named.
    fn oldest_bodies(
        &self,
        tenant: Option<&Tenant>,
        before: Time,
        most: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<KeptBody>>>;

    /// Lets go of the bodies of calls: what was sent and answered. That they were made stays. How many had bodies.
    fn empty_bodies(&self, calls: Vec<KeptBody>) -> BoxFuture<'_, StoreResult<Emptied>>;

    /// How many of the oldest bodies would have to go for so many bytes to be freed, without letting go of any.
    fn bodies_to_free(
        &self,
        tenant: Option<&Tenant>,
        before: Time,
        bytes: u64,
    ) -> BoxFuture<'_, StoreResult<Emptied>>;
}

/// API keys of the server, what they were used for, and the secret that signs sessions of the lens. They belong to no tenant.
pub trait ApiKeys: Send + Sync {
    /// Writes a key of the server, in place of one with that name.
    fn put_key(&self, key: Key) -> BoxFuture<'_, StoreResult<()>>;

    /// The keys of the server.
    fn keys(&self) -> BoxFuture<'_, StoreResult<Vec<Key>>>;

    /// Adds to what keys were used for, and says how much that is now; what others add meanwhile is counted too.
    fn charge(&self, uses: Vec<KeyUse>) -> BoxFuture<'_, StoreResult<Vec<KeyUse>>>;

    /// What every key was used for, as it was last counted.
    fn key_uses(&self) -> BoxFuture<'_, StoreResult<Vec<KeyUse>>>;

    /// The random secret of this store: the proposed one if it has none yet. All servers on the store share it.
    fn secret(&self, proposed: String) -> BoxFuture<'_, StoreResult<String>>;
}

/// A durable store: records, runs and keys in one database.
///
/// The methods are async because a durable write waits for a disk or a network, and one process has many writers that
/// should wait together: the embedded store commits all who wait with one sync. No runtime is assumed, except by
/// PostgreSQL, whose connections live on tokio. Callers without a runtime use `block_on` of any.
pub trait Store: Records + RunRecords + ApiKeys {
    /// Where it is, without passwords.
    fn describe(&self) -> String;

    /// Examines the whole store: every page and index, every row that belongs to no single conversation. Together with
    /// [`verify`](Records::verify) of all conversations nothing that is stored is left out.
    fn examine(&self) -> BoxFuture<'_, StoreResult<Examined>> {
        Box::pin(async { Ok(Examined::default()) })
    }

    /// Writes a row, and answers once it is durable: whether the store takes writes.
    fn heartbeat(&self, now: Time) -> BoxFuture<'_, StoreResult<()>>;

    /// Why the database does not hold this program to the rows of one tenant, if it does not.
    fn missing_wall(&self) -> BoxFuture<'_, StoreResult<Option<String>>>;

    /// Settings of the database's server that decide what an acknowledgement is worth, and who can read on the way to it, by name;
    /// none for a store without a server.
    fn guarantees(&self) -> BoxFuture<'_, StoreResult<Vec<(String, String)>>>;

    /// Bytes by kind. Looks at everything, so not to be asked often.
    fn sizes(&self) -> BoxFuture<'_, StoreResult<Sizes>>;

    /// Bytes in use; quick.
    fn used(&self) -> BoxFuture<'_, StoreResult<u64>>;

    /// Bytes of what is kept, without room that deleted rows still take until the database gives it back. Exact, so it may take long.
    fn live(&self) -> BoxFuture<'_, StoreResult<u64>>;

    /// Gives some free pages back to the file system.
    fn shrink(&self, pages: u64) -> BoxFuture<'_, StoreResult<Shrunk>>;

    /// What is left elsewhere of what was erased, as far as the store knows.
    fn leftovers(&self) -> Vec<Leftover>;

    /// Copies the whole store into a new SQLite file, as it is at one moment, while writers go on. Opening the copy is
    /// restoring it.
    fn backup(&self, to: &Path) -> BoxFuture<'_, StoreResult<()>>;
}

/// Which conversations to list.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Only those that stand so.
    pub status: Option<Status>,
    /// Only current conversations of recipients, or all there are.
    pub which: Which,
    /// How many.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<Cursor>,
}

/// Which kinds of conversation to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// All there are.
    #[default]
    All,
    /// Those with this recipient, current or not.
    With(Recipient),
    /// Those of this session.
    InSession(SessionId),
}

/// A page of conversations.
#[derive(Clone, Debug)]
pub struct Page {
    /// Written last first, each with the number of its messages.
    pub conversations: Vec<(Conversation, u64)>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// Which model calls to list.
#[derive(Clone, Debug, Default)]
pub struct CallListing {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// How many.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<Cursor>,
}

/// A page of model calls.
#[derive(Clone, Debug)]
pub struct CallPage {
    /// Newest first, without their bodies.
    pub calls: Vec<Sent>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct RunListing {
    /// Only those with this status.
    pub status: Option<RunStatus>,
    /// How many.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<Cursor>,
}

/// A page of runs.
#[derive(Clone, Debug)]
pub struct RunPage {
    /// Those that began last first.
    pub runs: Vec<Run>,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// What a history is made of.
#[derive(Clone, Debug)]
pub struct Recent {
    /// The conversation.
    pub conversation: Conversation,
    /// The entries that stand first.
    pub lead: Vec<StoredEntry>,
    /// The newest turns that no summary stands for.
    pub turns: Vec<StoredEntry>,
    /// The summary in force.
    pub summary: Option<Summary>,
    /// Messages of the record, erased ones included.
    pub messages: u64,
}

/// The summary in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Position of the decision.
    pub position: u64,
    /// What it stands for, first and last.
    pub covers: (u64, u64),
    /// What it says.
    pub text: String,
}

/// Conveniences over [`Records::commit`], on every store.
pub trait RecordsExt: Records {
    /// Builds a commit and writes it: all of it or nothing.
    fn write(
        &self,
        tenant: &Tenant,
        at: Time,
        build: impl FnOnce(&mut Tx),
    ) -> BoxFuture<'_, StoreResult<Committed>> {
        let mut tx = Tx::new(tenant, at);
        build(&mut tx);
        self.commit(tx)
    }

    /// Appends to a conversation.
    fn append(
        &self,
        tenant: &Tenant,
        at: Time,
        conversation: &ConversationId,
        expected: Expected,
        entries: Vec<NewEntry>,
    ) -> BoxFuture<'_, StoreResult<Appended>> {
        let mut tx = Tx::new(tenant, at);
        tx.append(conversation, expected, entries);
        let committed = self.commit(tx);
        Box::pin(async move { only(committed.await?) })
    }

    /// Appends to the current conversation of a recipient.
    fn append_for(
        &self,
        tenant: &Tenant,
        at: Time,
        recipient: &Recipient,
        expected: Expected,
        entries: Vec<NewEntry>,
    ) -> BoxFuture<'_, StoreResult<Appended>> {
        let mut tx = Tx::new(tenant, at);
        tx.append_for(recipient, expected, entries);
        let committed = self.commit(tx);
        Box::pin(async move { only(committed.await?) })
    }
}

impl<R: Records + ?Sized> RecordsExt for R {}

fn only(committed: Committed) -> Result<Appended, StoreError> {
    let one = committed.appended.into_iter().next();
    one.ok_or_else(|| StoreError::new(ErrorKind::Unknown, "the store did not say where the entries are"))
}
