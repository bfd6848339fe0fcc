//! From a database to a store: a type that can run the engine's functions in transactions is a [`Store`].

use std::collections::BTreeSet;
use std::path::Path;

use scrollback_core::recall::found::{FoundHits, FoundPlace};
use scrollback_core::recall::{SearchRequest, Tail};
use scrollback_core::{Link, Record, Time};
use uuid::Uuid;

use crate::conversation::Conversation;
use crate::engine::calls::PendingCall;
use crate::engine::commit::Leased;
use crate::engine::erase::{Erase, ErasedCount};
use crate::engine::examine::{self, Examined, Part};
use crate::engine::fork::{Branch, Continued};
use crate::engine::lineage;
use crate::engine::prune::{Emptied, KeptBody};
use crate::engine::session::Among;
use crate::engine::verify::Verified;
use crate::engine::{self, calls, commit, fact, fork, recall, session, tail, verify};
use crate::entry::StoredEntry;
use crate::erasure::{Leftover, Pseudonyms};
use crate::error::{ErrorKind, StoreError, StoreResult};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::pace::LongWorkStep;
use crate::precompute::packed;
use crate::recall::{Deadline, Here};
use crate::rows::Rows;
use crate::run::{Alias, Evaluation, Event, Key, KeyUse, Lease, Run, Sent, Span, Step};
use crate::search::{Cursor, Filter, Hits, Query};
use crate::session::{MatchScope, Session, SessionId, SessionListing, SessionPage, SessionTree};
use crate::size::{Shrunk, Sizes};
use crate::store::{
    ApiKeys, BoxFuture, CallListing, CallPage, Listing, Page, Recent, Records, RunListing, RunPage,
    RunRecords, Store, Summary,
};
use crate::tx::{Committed, Tx};

/// Work to be done inside one transaction.
pub(crate) type TxJob<R, T> = Box<dyn for<'r> FnOnce(&'r mut R) -> BoxFuture<'r, StoreResult<T>> + Send>;

/// Work to be done inside a transaction that writes. It may be asked for more than once: what was done before was undone.
pub(crate) type Again<R, T> = Box<dyn for<'r> FnMut(&'r mut R) -> BoxFuture<'r, StoreResult<T>> + Send>;

/// Work that is asked for once, of a kind that can be done again.
pub(crate) fn once<R: 'static, T: 'static>(mut job: Again<R, T>) -> TxJob<R, T> {
    Box::new(move |rows| job(rows))
}

/// Whose rows a transaction may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Tenant(Tenant),
    /// All tenants: for the operator's own commands.
    All,
}

impl From<&Tenant> for Whose {
    fn from(tenant: &Tenant) -> Self {
        Whose::Tenant(tenant.clone())
    }
}

/// A database: runs jobs in transactions.
pub(crate) trait Backend: Send + Sync {
    type Rows: Rows;

    /// Where it is, without passwords.
    fn place(&self) -> String;

    /// Runs a job that may write; what it wrote is durable when the answer comes. A job that fails has written nothing.
    fn write<T: Send + 'static>(
        &self,
        whose: Whose,
        job: Again<Self::Rows, T>,
    ) -> BoxFuture<'_, StoreResult<T>>;

    /// Runs a job that only reads, on one state of the database.
    fn read<T: Send + 'static>(
        &self,
        whose: Whose,
        job: TxJob<Self::Rows, T>,
    ) -> BoxFuture<'_, StoreResult<T>>;

    /// Copies everything into a new SQLite file, as it is at one moment, while writers go on.
    fn copy_to(&self, path: &Path) -> BoxFuture<'_, StoreResult<()>>;

    /// Runs a search: it may take long, so it neither keeps others from reading nor goes on when no caller waits for it.
    fn search<T: Send + 'static>(
        &self,
        whose: Whose,
        job: TxJob<Self::Rows, T>,
    ) -> BoxFuture<'_, StoreResult<T>> {
        self.read(whose, job)
    }

    /// Why the database does not hold this program to the rows of one tenant, if it does not.
    fn missing_wall(&self) -> BoxFuture<'_, StoreResult<Option<String>>> {
        Box::pin(async { Ok(None) })
    }

    /// Settings of a server that decide what an acknowledgement is worth, and who can read on the way to it.
    fn guarantees(&self) -> BoxFuture<'_, StoreResult<Vec<(String, String)>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Bytes by kind.
    fn measure(&self) -> BoxFuture<'_, StoreResult<Sizes>> {
        Box::pin(async { Ok(Sizes::default()) })
    }

    /// Bytes in use.
    fn in_use(&self) -> BoxFuture<'_, StoreResult<u64>> {
        Box::pin(async move { Ok(self.measure().await?.used()) })
    }

    /// Bytes of what is kept. A database whose files never hold more than that need not count.
    fn kept_bytes(&self) -> BoxFuture<'_, StoreResult<u64>> {
        self.in_use()
    }

    /// Gives free pages back. A database that does so by itself has none.
    fn give_back(&self, pages: u64) -> BoxFuture<'_, StoreResult<Shrunk>> {
        let _ = pages;
        Box::pin(async { Ok(Shrunk::default()) })
    }

    /// What is left elsewhere of what was erased.
    fn left_elsewhere(&self) -> Vec<Leftover> {
        Vec::new()
    }

    /// Examines what a database keeps beside rows: its pages and indexes.
    fn examine_database(&self) -> BoxFuture<'_, StoreResult<Examined>> {
        Box::pin(async { Ok(Examined::default()) })
    }

    /// What must follow an erasure for the bytes to be gone; whether some are left that go later, by themselves.
    fn scrub(&self) -> BoxFuture<'_, StoreResult<bool>> {
        Box::pin(async { Ok(false) })
    }
}

/// A job from an async block over rows.
macro_rules! job {
    (|$rows:ident| $work:expr) => {
        Box::new(move |$rows| Box::pin(async move { $work.await }))
    };
}

/// The same for work that may be done again: with copies of what it uses up.
macro_rules! again {
    (($($used:ident),*), |$rows:ident| $work:expr) => {
        Box::new(move |$rows| {
            $(let $used = $used.clone();)*
            Box::pin(async move { $work.await })
        })
    };
}

impl<B: Backend> Records for B {
    fn commit(&self, tx: Tx) -> BoxFuture<'_, StoreResult<Committed>> {
        Box::pin(async move {
            let tx = packed(tx).await;
            self.write((&tx.tenant).into(), again!((tx), |rows| commit::commit(rows, tx))).await
        })
    }

    fn conversation(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<Conversation>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| lineage::conversation(rows, &tenant, &id)))
    }

    fn current(
        &self,
        tenant: &Tenant,
        recipient: &Recipient,
    ) -> BoxFuture<'_, StoreResult<Option<Conversation>>> {
        let (tenant, key) = (tenant.clone(), recipient.key());
        self.read((&tenant).into(), job!(|rows| lineage::with_key(rows, &tenant, &key)))
    }

    fn list(&self, tenant: Option<&Tenant>, what: Listing) -> BoxFuture<'_, StoreResult<Page>> {
        let tenant = tenant.cloned();
        let whose = tenant.as_ref().map_or(Whose::All, Whose::from);
        self.read(whose, job!(|rows| engine::list::list(rows, tenant.as_ref(), &what)))
    }

    fn entries(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        from: u64,
        below: u64,
    ) -> BoxFuture<'_, StoreResult<Vec<StoredEntry>>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| engine::list::entries(rows, &tenant, &id, from, below)))
    }

    fn record(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        below: Option<u64>,
    ) -> BoxFuture<'_, StoreResult<Record>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| engine::list::record(rows, &tenant, &id, below)))
    }

    fn recent(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        turns: usize,
    ) -> BoxFuture<'_, StoreResult<Recent>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| tail::recent(rows, &tenant, &id, turns)))
    }

    fn pending_calls(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
    ) -> BoxFuture<'_, StoreResult<Vec<PendingCall>>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| calls::of(rows, &tenant, &id)))
    }

    fn search(
        &self,
        tenant: &Tenant,
        query: Query,
        filter: Filter,
        limit: usize,
        after: Option<Cursor>,
    ) -> BoxFuture<'_, StoreResult<Hits>> {
        let tenant = tenant.clone();
        let whose = (&tenant).into();
        Backend::search(
            self,
            whose,
            job!(|rows| engine::search::search(rows, &tenant, &query, &filter, limit, after.as_ref())),
        )
    }

    fn conversations_ending(
        &self,
        tenant: &Tenant,
        tail: &Tail,
    ) -> BoxFuture<'_, StoreResult<Vec<Conversation>>> {
        let (tenant, tail) = (tenant.clone(), tail.clone());
        self.read((&tenant).into(), job!(|rows| recall::ending(rows, &tenant, &tail)))
    }

    fn places_with_tools(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
        from: u64,
        below: u64,
    ) -> BoxFuture<'_, StoreResult<Vec<FoundPlace>>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| recall::places(rows, &tenant, &id, from, below)))
    }

    fn find_for_recall(
        &self,
        tenant: &Tenant,
        here: &Here,
        request: &SearchRequest,
        deadline: &Deadline,
    ) -> BoxFuture<'_, StoreResult<Option<FoundHits>>> {
        let (tenant, here) = (tenant.clone(), here.clone());
        let (request, deadline) = (request.clone(), deadline.clone());
        let whose = (&tenant).into();
        self.read(whose, job!(|rows| recall::find(rows, &tenant, &here, &request, &deadline)))
    }

    fn session_called(
        &self,
        tenant: &Tenant,
        client_id: &str,
    ) -> BoxFuture<'_, StoreResult<Option<Session>>> {
        let (tenant, client_id) = (tenant.clone(), client_id.to_string());
        self.read((&tenant).into(), job!(|rows| recall::session_called(rows, &tenant, &client_id)))
    }

    fn newest_in_project(
        &self,
        tenant: &Tenant,
        project: Option<&str>,
    ) -> BoxFuture<'_, StoreResult<Option<Conversation>>> {
        let (tenant, project) = (tenant.clone(), project.map(String::from));
        self.read((&tenant).into(), job!(|rows| recall::newest_in(rows, &tenant, project.as_deref())))
    }

    fn find_prefix(
        &self,
        tenant: &Tenant,
        scope: &MatchScope,
        hashes: Vec<Link>,
    ) -> BoxFuture<'_, StoreResult<Option<Continued>>> {
        let (tenant, among) = (tenant.clone(), Among::Scope(scope.clone()));
        self.read((&tenant).into(), job!(|rows| session::find_prefix(rows, &tenant, &among, &hashes)))
    }

    fn find_in_session(
        &self,
        tenant: &Tenant,
        id: &SessionId,
        hashes: Vec<Link>,
    ) -> BoxFuture<'_, StoreResult<Option<Continued>>> {
        let (tenant, among) = (tenant.clone(), Among::Session(id.clone()));
        self.read((&tenant).into(), job!(|rows| session::find_prefix(rows, &tenant, &among, &hashes)))
    }

    fn session_conversations(
        &self,
        tenant: &Tenant,
        id: &SessionId,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<Conversation>>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| session::recent(rows, &tenant, &id, limit)))
    }

    fn session(
        &self,
        tenant: &Tenant,
        caller: &str,
        client: &str,
        client_id: &str,
    ) -> BoxFuture<'_, StoreResult<Option<Session>>> {
        let (tenant, caller) = (tenant.clone(), caller.to_string());
        let (client, client_id) = (client.to_string(), client_id.to_string());
        self.read((&tenant).into(), job!(|rows| session::named(rows, &tenant, &caller, &client, &client_id)))
    }

    fn named_session(&self, tenant: &Tenant, id: &SessionId) -> BoxFuture<'_, StoreResult<Option<Session>>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| session::of_id(rows, &tenant, &id)))
    }

    fn session_tree(&self, tenant: &Tenant, id: &SessionId) -> BoxFuture<'_, StoreResult<SessionTree>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| session::tree(rows, &tenant, &id)))
    }

    fn sessions(
        &self,
        tenant: Option<&Tenant>,
        what: SessionListing,
    ) -> BoxFuture<'_, StoreResult<SessionPage>> {
        let tenant = tenant.cloned();
        let whose = tenant.as_ref().map_or(Whose::All, Whose::from);
        self.read(whose, job!(|rows| session::page(rows, tenant.as_ref(), &what)))
    }

    fn fork(
        &self,
        tenant: &Tenant,
        parent: &ConversationId,
        at: u64,
        id: ConversationId,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<Conversation>> {
        let (tenant, parent) = (tenant.clone(), parent.clone());
        self.write(
            (&tenant).into(),
            again!((tenant, parent, id), |rows| fork::fork(rows, &tenant, &parent, at, id, now)),
        )
    }

    fn rewind(
        &self,
        tenant: &Tenant,
        recipient: &Recipient,
        at: u64,
        id: ConversationId,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<Conversation>> {
        let (tenant, recipient) = (tenant.clone(), recipient.clone());
        self.write(
            (&tenant).into(),
            again!((tenant, recipient, id), |rows| fork::rewind(rows, &tenant, &recipient, at, id, now)),
        )
    }

    fn branches(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<Vec<Branch>>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| fork::branches(rows, &tenant, &id)))
    }

    fn erase_each(
        &self,
        tenant: &Tenant,
        ids: Vec<ConversationId>,
        what: Erase,
        reason: &str,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<ErasedCount>> {
        let (tenant, reason) = (tenant.clone(), reason.to_string());
        Box::pin(async move {
            let by_name = matches!(what, Erase::Person(_));
            let mut erased = ErasedCount::default();
            let done = async {
                for id in &ids {
                    let step = LongWorkStep::begin();
                    let (tenant, id, what, reason) =
                        (tenant.clone(), id.clone(), what.clone(), reason.clone());
                    let whose = (&tenant).into();
                    let one = self.write(
                        whose,
                        again!((tenant, id, what, reason), |rows| engine::erase::erase(
                            rows, &tenant, &id, &what, &reason, now
                        )),
                    );
                    erased.and(one.await?);
                    if ids.len() > 1 {
                        step.rest().await;
                    }
                }
                if by_name {
                    erased.names += forget_aliases(self, &tenant, ids.into_iter().collect()).await?;
                }
                Ok(())
            };
            let done: StoreResult<()> = done.await;
            // Also where a later one failed: what was erased before that is gone. A person is asked for again to learn whether
            // anything is still pending.
            if by_name || erased != ErasedCount::default() {
                erased.pending = self.scrub().await?;
            }
            done.map(|()| erased)
        })
    }

    fn pseudonyms(&self) -> BoxFuture<'_, StoreResult<Option<Pseudonyms>>> {
        self.read(Whose::All, job!(|rows| engine::erase::pseudonyms(rows)))
    }

    fn verify(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<Verified>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| verify::verify(rows, &tenant, &id)))
    }

    fn reindex(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<u64>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write((&tenant).into(), again!((tenant, id), |rows| verify::reindex(rows, &tenant, &id)))
    }

    fn alias(
        &self,
        tenant: &Tenant,
        source: &str,
        source_id: &str,
    ) -> BoxFuture<'_, StoreResult<Option<Alias>>> {
        let key = vec![tenant.as_str().into(), source.into(), source_id.into()];
        self.read(tenant.into(), job!(|rows| rows.get::<Alias>(key)))
    }

    fn restore(
        &self,
        conversation: Conversation,
        session: Option<Session>,
        places: Vec<StoredEntry>,
    ) -> BoxFuture<'_, StoreResult<()>> {
        self.write(
            (&conversation.tenant).into(),
            again!((conversation, session, places), |rows| engine::restore::restore(
                rows,
                conversation,
                session,
                places
            )),
        )
    }
}

impl<B: Backend> RunRecords for B {
    fn lease(
        &self,
        tenant: &Tenant,
        what: Leased,
        lease: Lease,
        dead: Vec<String>,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<()>> {
        let tenant = tenant.clone();
        let holder = lease.holder.clone();
        let whose = (&tenant).into();
        self.write(
            whose,
            again!((tenant, what, lease, dead, holder), |rows| commit::lease(
                rows,
                &tenant,
                &what,
                Some(lease),
                &dead,
                &holder,
                now
            )),
        )
    }

    fn release(
        &self,
        tenant: &Tenant,
        what: Leased,
        holder: &str,
        now: Time,
    ) -> BoxFuture<'_, StoreResult<()>> {
        let (tenant, holder) = (tenant.clone(), holder.to_string());
        self.write(
            (&tenant).into(),
            again!((tenant, what, holder), |rows| commit::lease(
                rows,
                &tenant,
                &what,
                None,
                &[],
                &holder,
                now
            )),
        )
    }

    fn evaluation(&self, tenant: &Tenant, id: Uuid) -> BoxFuture<'_, StoreResult<Option<Evaluation>>> {
        let tenant = tenant.clone();
        self.read((&tenant).into(), job!(|rows| engine::list::evaluation(rows, &tenant, id)))
    }

    fn evaluations(
        &self,
        tenant: &Tenant,
        id: &ConversationId,
    ) -> BoxFuture<'_, StoreResult<Vec<Evaluation>>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| engine::list::evaluations(rows, &tenant, &id)))
    }

    fn runs(&self, tenant: &Tenant, prefix: &str, limit: usize) -> BoxFuture<'_, StoreResult<Vec<Run>>> {
        let (tenant, prefix) = (tenant.clone(), prefix.to_string());
        self.read((&tenant).into(), job!(|rows| engine::list::runs(rows, &tenant, &prefix, limit)))
    }

    fn steps(&self, tenant: &Tenant, run: &str) -> BoxFuture<'_, StoreResult<Vec<Step>>> {
        let (tenant, run) = (tenant.clone(), run.to_string());
        self.read((&tenant).into(), job!(|rows| engine::list::of_run(rows, &tenant, &run, 0, &["key"])))
    }

    fn spans(&self, tenant: &Tenant, run: &str) -> BoxFuture<'_, StoreResult<Vec<Span>>> {
        let (tenant, run) = (tenant.clone(), run.to_string());
        self.read(
            (&tenant).into(),
            job!(|rows| engine::list::of_run(rows, &tenant, &run, 0, &["started_at", "id"])),
        )
    }

    fn events(&self, tenant: &Tenant, run: &str, from: u64) -> BoxFuture<'_, StoreResult<Vec<Event>>> {
        let (tenant, run) = (tenant.clone(), run.to_string());
        self.read(
            (&tenant).into(),
            job!(|rows| engine::list::of_run(rows, &tenant, &run, from, &["sequence"])),
        )
    }

    fn sent(&self, tenant: &Tenant, id: &ConversationId) -> BoxFuture<'_, StoreResult<Vec<Sent>>> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read((&tenant).into(), job!(|rows| engine::sent::sent(rows, &tenant, &id)))
    }

    fn calls(&self, tenant: &Tenant, what: CallListing) -> BoxFuture<'_, StoreResult<CallPage>> {
        let tenant = tenant.clone();
        self.read((&tenant).into(), job!(|rows| engine::sent::calls(rows, &tenant, &what)))
    }

    fn call(&self, tenant: &Tenant, id: &str) -> BoxFuture<'_, StoreResult<Sent>> {
        let (tenant, id) = (tenant.clone(), id.to_string());
        self.read((&tenant).into(), job!(|rows| engine::sent::call(rows, &tenant, &id)))
    }

    fn recent_calls(
        &self,
        tenant: &Tenant,
        model: &str,
        limit: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<Sent>>> {
        let (tenant, model) = (tenant.clone(), model.to_string());
        self.read((&tenant).into(), job!(|rows| engine::sent::recent(rows, &tenant, &model, limit)))
    }

    fn call_holders(&self) -> BoxFuture<'_, StoreResult<Vec<String>>> {
        self.read(Whose::All, job!(|rows| engine::sent::holders(rows)))
    }

    fn lose_calls(&self, holders: Vec<String>, before: Time, now: Time) -> BoxFuture<'_, StoreResult<u64>> {
        self.write(Whose::All, again!((holders), |rows| engine::sent::lose(rows, &holders, before, now)))
    }

    fn run_page(&self, tenant: &Tenant, what: RunListing) -> BoxFuture<'_, StoreResult<RunPage>> {
        let tenant = tenant.clone();
        self.read((&tenant).into(), job!(|rows| engine::list::run_page(rows, &tenant, &what)))
    }

    fn oldest_bodies(
        &self,
        tenant: Option<&Tenant>,
        before: Time,
        most: usize,
    ) -> BoxFuture<'_, StoreResult<Vec<KeptBody>>> {
        let tenant = tenant.cloned();
        let whose = tenant.as_ref().map_or(Whose::All, Whose::from);
        self.read(whose, job!(|rows| engine::prune::oldest(rows, tenant.as_ref(), before, most)))
    }

    fn empty_bodies(&self, calls: Vec<KeptBody>) -> BoxFuture<'_, StoreResult<Emptied>> {
        self.write(Whose::All, again!((calls), |rows| engine::prune::empty(rows, &calls)))
    }

    fn bodies_to_free(
        &self,
        tenant: Option<&Tenant>,
        before: Time,
        bytes: u64,
    ) -> BoxFuture<'_, StoreResult<Emptied>> {
        let tenant = tenant.cloned();
        let whose = tenant.as_ref().map_or(Whose::All, Whose::from);
        self.read(whose, job!(|rows| engine::prune::to_free(rows, tenant.as_ref(), before, bytes)))
    }
}

impl<B: Backend> ApiKeys for B {
    fn put_key(&self, key: Key) -> BoxFuture<'_, StoreResult<()>> {
        self.write(Whose::All, again!((key), |rows| rows.put(&key)))
    }

    fn keys(&self) -> BoxFuture<'_, StoreResult<Vec<Key>>> {
        self.read(Whose::All, job!(|rows| rows.scan::<Key>(crate::table::Scan::new().ascending(&["name"]))))
    }

    fn secret(&self, proposed: String) -> BoxFuture<'_, StoreResult<String>> {
        self.write(Whose::All, again!((proposed), |rows| fact::secret(rows, proposed)))
    }

    fn charge(&self, uses: Vec<KeyUse>) -> BoxFuture<'_, StoreResult<Vec<KeyUse>>> {
        self.write(Whose::All, again!((uses), |rows| commit::charge(rows, uses)))
    }

    fn key_uses(&self) -> BoxFuture<'_, StoreResult<Vec<KeyUse>>> {
        let all = || crate::table::Scan::new().ascending(&["name", "span"]);
        self.read(Whose::All, job!(|rows| rows.scan::<KeyUse>(all())))
    }
}

impl<B: Backend> Store for B {
    fn describe(&self) -> String {
        self.place()
    }

    fn examine(&self) -> BoxFuture<'_, StoreResult<Examined>> {
        Box::pin(async move {
            let mut found = Examined::default();
            found.take("the store", self.examine_database().await)?;
            for part in Part::ALL {
                let name = format!("{part:?}").to_lowercase();
                found.take(&name, self.read(Whose::All, job!(|rows| examine::examine(rows, part))).await)?;
            }
            Ok(found)
        })
    }

    fn heartbeat(&self, now: Time) -> BoxFuture<'_, StoreResult<()>> {
        self.write(Whose::All, again!((), |rows| fact::heartbeat(rows, now)))
    }

    fn missing_wall(&self) -> BoxFuture<'_, StoreResult<Option<String>>> {
        Backend::missing_wall(self)
    }

    fn guarantees(&self) -> BoxFuture<'_, StoreResult<Vec<(String, String)>>> {
        Backend::guarantees(self)
    }

    fn sizes(&self) -> BoxFuture<'_, StoreResult<Sizes>> {
        self.measure()
    }

    fn used(&self) -> BoxFuture<'_, StoreResult<u64>> {
        self.in_use()
    }

    fn live(&self) -> BoxFuture<'_, StoreResult<u64>> {
        self.kept_bytes()
    }

    fn shrink(&self, pages: u64) -> BoxFuture<'_, StoreResult<Shrunk>> {
        self.give_back(pages)
    }

    fn leftovers(&self) -> Vec<Leftover> {
        self.left_elsewhere()
    }

    fn backup(&self, to: &Path) -> BoxFuture<'_, StoreResult<()>> {
        if to.exists() {
            let message = format!("{}: the file exists", to.display());
            return Box::pin(async move { Err(StoreError::new(ErrorKind::Exists, message)) });
        }
        self.copy_to(to)
    }
}

/// Lets pseudonyms take the place of the foreign ids of some conversations. They are looked for while others write.
async fn forget_aliases<B: Backend>(
    store: &B,
    tenant: &Tenant,
    ids: BTreeSet<ConversationId>,
) -> Result<u64, StoreError> {
    let (mut forgotten, mut after) = (0, None);
    loop {
        let (of, among) = (tenant.clone(), ids.clone());
        let looking: TxJob<B::Rows, _> = job!(|rows| engine::erase::aliases_of(rows, &of, &among, after));
        let (found, next) = store.read(tenant.into(), looking).await?;
        if !found.is_empty() {
            let tenant = tenant.clone();
            let whose = (&tenant).into();
            forgotten += store
                .write(
                    whose,
                    again!((tenant, found), |rows| engine::erase::forget_aliases(rows, &tenant, &found)),
                )
                .await?;
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(forgotten),
        }
    }
}

impl From<crate::rows::SummaryRow> for Summary {
    fn from(row: crate::rows::SummaryRow) -> Self {
        Summary { position: row.position, covers: (row.covers_from, row.covers_to), text: row.text }
    }
}
