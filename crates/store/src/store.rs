//! The one trait: what every store does, whatever database is behind it.

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
use crate::engine::prune::KeptBody;
use crate::engine::verify::Verified;
use crate::entry::{Appended, Expected, NewEntry, StoredEntry};
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::recall::{Deadline, Here};
use crate::run::{Alias, Evaluation, Event, Key, KeyUse, Lease, Run, Sent, Span, Step};
use crate::search::{Cursor, Filter, Hits, Query};
use crate::session::{MatchScope, Session, SessionId, SessionListing, SessionPage, SessionTree};
use crate::size::Sizes;
use crate::status::RunStatus;
use crate::tx::{Committed, Tx};

/// An answer that is on its way. Dropping it does not undo what was asked for.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Durable records.
///
/// The methods are async because a durable write waits for a disk or a network, and one process has many writers that
/// should wait together: the embedded store commits all who wait with one sync. No runtime is assumed, except by
/// PostgreSQL, whose connections live on tokio. Callers without a runtime use `block_on` of any.
///
/// Everything named by an id is looked up inside the tenant; what belongs to another is not found. Times are the caller's.
pub trait Store: Send + Sync {
    /// Where it is, without passwords.
    fn describe(&self) -> String;

    /// Writes all of a commit or nothing, and answers once it is durable.
    fn commit(&self, tx: Tx) -> Answer<'_, Committed>;

    /// A conversation.
    fn conversation(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Conversation>;

    /// The current conversation of a recipient, if there is one.
    fn current(&self, tenant: &Tenant, recipient: &Recipient) -> Answer<'_, Option<Conversation>>;

    /// A page of conversations, written last first. All tenants if none is named.
    fn list(&self, tenant: Option<&Tenant>, what: Listing) -> Answer<'_, Page>;

    /// The places of a record from a position on, below another.
    fn entries(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        from: u64,
        below: u64,
    ) -> Answer<'_, Vec<StoredEntry>>;

    /// The record, or what it was below a position.
    fn record(&self, tenant: &Tenant, id: &ConversationId, below: Option<u64>) -> Answer<'_, Record>;

    /// The lead, the last `turns` turns that no summary stands for, and the summary.
    fn recent(&self, tenant: &Tenant, id: &ConversationId, turns: usize) -> Answer<'_, Recent>;

    /// Calls that wait for a result, oldest first.
    fn pending_calls(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Vec<PendingCall>>;

    /// What a query finds.
    fn search(
        &self,
        tenant: &Tenant,
        query: Query,
        filter: Filter,
        limit: usize,
        after: Option<Cursor>,
    ) -> Answer<'_, Hits>;

    /// The conversations whose ids end with the tail of a handle: one, or more after imports.
    fn conversations_ending(&self, tenant: &Tenant, tail: &Tail) -> Answer<'_, Vec<Conversation>>;

    /// Places of a record, each with the tool whose result it is.
    fn places_with_tools(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        from: u64,
        below: u64,
    ) -> Answer<'_, Vec<FoundPlace>>;

    /// What the recall tool `search` finds. None if the scope means nothing where the caller is.
    fn find_for_recall(
        &self,
        tenant: &Tenant,
        here: &Here,
        request: &SearchRequest,
        deadline: &Deadline,
    ) -> Answer<'_, Option<FoundHits>>;

    /// The session that a client calls by this id, the newest if several callers do.
    fn session_called(&self, tenant: &Tenant, client_id: &str) -> Answer<'_, Option<Session>>;

    /// The conversation of a project that was written last; of any project if none is named.
    fn newest_in_project(&self, tenant: &Tenant, project: Option<&str>) -> Answer<'_, Option<Conversation>>;

    /// The longest stored prefix of a list of messages, by its [chain](scrollback_core::prefixes), among the conversations
    /// of one scope. Of several, the one that was not continued yet; of those the one written last.
    fn find_prefix(
        &self,
        tenant: &Tenant,
        scope: &MatchScope,
        hashes: Vec<Link>,
    ) -> Answer<'_, Option<Continued>>;

    /// The same among the conversations of one session, whatever their scope.
    fn find_in_session(
        &self,
        tenant: &Tenant,
        session: &SessionId,
        hashes: Vec<Link>,
    ) -> Answer<'_, Option<Continued>>;

    /// The conversations of a session that were written last, at most so many.
    fn session_conversations(
        &self,
        tenant: &Tenant,
        session: &SessionId,
        limit: usize,
    ) -> Answer<'_, Vec<Conversation>>;

    /// The session that a client named by an id of its own, if this caller has begun it.
    fn session(
        &self,
        tenant: &Tenant,
        caller: &str,
        client: &str,
        client_id: &str,
    ) -> Answer<'_, Option<Session>>;

    /// The session of that id that a client named; none if no client named it.
    fn named_session(&self, tenant: &Tenant, id: &SessionId) -> Answer<'_, Option<Session>>;

    /// A session with its conversations.
    fn session_tree(&self, tenant: &Tenant, id: &SessionId) -> Answer<'_, SessionTree>;

    /// A page of sessions, written last first. All tenants if none is named.
    fn sessions(&self, tenant: Option<&Tenant>, what: SessionListing) -> Answer<'_, SessionPage>;

    /// Forks a conversation: what lies below `at` is shared, what comes is its own. Nothing is copied.
    fn fork(
        &self,
        tenant: &Tenant,
        parent: &ConversationId,
        at: u64,
        id: ConversationId,
        now: Time,
    ) -> Answer<'_, Conversation>;

    /// Makes a fork at `at` the current conversation of a recipient; the old one stays.
    fn rewind(
        &self,
        tenant: &Tenant,
        recipient: &Recipient,
        at: u64,
        id: ConversationId,
        now: Time,
    ) -> Answer<'_, Conversation>;

    /// The tree of forks a conversation is part of, its root first.
    fn branches(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Vec<Branch>>;

    /// Erases what was said. Places, hashes and links stay.
    fn erase(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        what: Erase,
        reason: &str,
        now: Time,
    ) -> Answer<'_, ErasedCount>;

    /// Checks that a conversation says what was written.
    fn verify(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Verified>;

    /// Examines the whole store: every page and index, every row that belongs to no single conversation. Together with
    /// [`verify`](Store::verify) of all conversations nothing that is stored is left out.
    fn examine(&self) -> Answer<'_, Examined> {
        Box::pin(async { Ok(Examined::default()) })
    }

    /// Writes anew what is derived from the entries of a conversation; how many rows changed.
    fn reindex(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, u64>;

    /// What a foreign id means.
    fn alias(&self, tenant: &Tenant, source: &str, source_id: &str) -> Answer<'_, Option<Alias>>;

    /// Takes or renews a lease until `until`. Another holder's lease is an error until it ends or its holder is among the dead.
    fn lease(
        &self,
        tenant: &Tenant,
        what: Leased,
        lease: Lease,
        dead: Vec<String>,
        now: Time,
    ) -> Answer<'_, ()>;

    /// Gives a lease back.
    fn release(&self, tenant: &Tenant, what: Leased, holder: &str, now: Time) -> Answer<'_, ()>;

    /// An evaluation.
    fn evaluation(&self, tenant: &Tenant, id: Uuid) -> Answer<'_, Option<Evaluation>>;

    /// The evaluations of a conversation, newest first.
    fn evaluations(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Vec<Evaluation>>;

    /// The runs whose id begins so, newest first; all of them for an empty text.
    fn runs(&self, tenant: &Tenant, prefix: &str, limit: usize) -> Answer<'_, Vec<Run>>;

    /// The steps of a run, by key.
    fn steps(&self, tenant: &Tenant, run: &str) -> Answer<'_, Vec<Step>>;

    /// The spans of a run, as they began.
    fn spans(&self, tenant: &Tenant, run: &str) -> Answer<'_, Vec<Span>>;

    /// The events of a run from a number on.
    fn events(&self, tenant: &Tenant, run: &str, from: u64) -> Answer<'_, Vec<Event>>;

    /// A page of runs, those that began last first.
    fn run_page(&self, tenant: &Tenant, what: RunListing) -> Answer<'_, RunPage>;

    /// The model calls of a conversation, as they were made, with what was sent and what came back.
    fn sent(&self, tenant: &Tenant, id: &ConversationId) -> Answer<'_, Vec<Sent>>;

    /// A page of model calls, newest first, without what was sent and what came back.
    fn calls(&self, tenant: &Tenant, what: CallListing) -> Answer<'_, CallPage>;

    /// A model call, with what was sent and what came back.
    fn call(&self, tenant: &Tenant, id: &str) -> Answer<'_, Sent>;

    /// The newest model calls of a tenant that asked this model, newest first, without what was sent and what came back.
    fn recent_calls(&self, tenant: &Tenant, model: &str, limit: usize) -> Answer<'_, Vec<Sent>>;

    /// The holders of model calls with the status `sent`, of all tenants, each once.
    fn call_holders(&self) -> Answer<'_, Vec<String>>;

    /// Gives up model calls with the status `sent`, of all tenants: those of these holders, and those that began before
    /// `before`. Their status becomes `lost`, and they ended at `now`. Answers how many those were.
    fn lose_calls(&self, holders: Vec<String>, before: Time, now: Time) -> Answer<'_, u64>;

    /// Writes a key of the server, in place of one with that name.
    fn put_key(&self, key: Key) -> Answer<'_, ()>;

    /// The keys of the server.
    fn keys(&self) -> Answer<'_, Vec<Key>>;

    /// Adds to what keys were used for, and says how much that is now; what others add meanwhile is counted too.
    fn charge(&self, uses: Vec<KeyUse>) -> Answer<'_, Vec<KeyUse>>;

    /// The random secret of this store: the proposed one if it has none yet. All servers on the store share it.
    fn secret(&self, proposed: String) -> Answer<'_, String>;

    /// Writes a row, and answers once it is durable: whether the store takes writes.
    fn heartbeat(&self, now: Time) -> Answer<'_, ()>;

    /// Why the database does not hold this program to the rows of one tenant, if it does not.
    fn missing_wall(&self) -> Answer<'_, Option<String>>;
    /// Calls whose bodies are kept and that began before a moment, the oldest first. All tenants' if none is named.
    fn oldest_bodies(&self, tenant: Option<&Tenant>, before: Time, most: usize) -> Answer<'_, Vec<KeptBody>>;

    /// Lets go of the bodies of calls: what was sent and answered. That they were made stays. How many had bodies.
    fn empty_bodies(&self, calls: Vec<KeptBody>) -> Answer<'_, u64>;

    /// Bytes by kind. Looks at everything, so not to be asked often.
    fn sizes(&self) -> Answer<'_, Sizes>;

    /// Bytes in use; quick.
    fn used(&self) -> Answer<'_, u64>;

    /// Gives some free pages back to the file system, and says how many more could be given back.
    fn shrink(&self, pages: u64) -> Answer<'_, u64>;

    /// Copies the whole store into a new SQLite file, as it is at one moment, while writers go on. Opening the copy is
    /// restoring it.
    fn backup(&self, to: &Path) -> Answer<'_, ()>;

    /// Writes a stored conversation as it is, links and all, into an empty place, and the session it belongs to where that
    /// is not there yet. For imports of our own form.
    fn restore(
        &self,
        conversation: Conversation,
        session: Option<Session>,
        places: Vec<StoredEntry>,
    ) -> Answer<'_, ()>;
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

impl dyn Store + '_ {
    /// Builds a commit and writes it: all of it or nothing.
    pub async fn write(
        &self,
        tenant: &Tenant,
        at: Time,
        build: impl FnOnce(&mut Tx),
    ) -> Result<Committed, StoreError> {
        let mut tx = Tx::new(tenant, at);
        build(&mut tx);
        self.commit(tx).await
    }

    /// Appends to a conversation.
    pub async fn append(
        &self,
        tenant: &Tenant,
        at: Time,
        conversation: &ConversationId,
        expected: Expected,
        entries: Vec<NewEntry>,
    ) -> Result<Appended, StoreError> {
        let mut tx = Tx::new(tenant, at);
        tx.append(conversation, expected, entries);
        only(self.commit(tx).await?)
    }

    /// Appends to the current conversation of a recipient.
    pub async fn append_for(
        &self,
        tenant: &Tenant,
        at: Time,
        recipient: &Recipient,
        expected: Expected,
        entries: Vec<NewEntry>,
    ) -> Result<Appended, StoreError> {
        let mut tx = Tx::new(tenant, at);
        tx.append_for(recipient, expected, entries);
        only(self.commit(tx).await?)
    }
}

fn only(committed: Committed) -> Result<Appended, StoreError> {
    let one = committed.appended.into_iter().next();
    one.ok_or_else(|| StoreError::new(ErrorKind::Unknown, "the store did not say where the entries are"))
}
