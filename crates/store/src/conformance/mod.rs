//! What every store must do, as a suite that any implementation can be run against.
//!
//! Each case gets a tenant of its own, so that one database serves them all, and ends with a verification of everything it
//! wrote.
//!
//! ```
//! use std::sync::Arc;
//! use scrollback_store::{Memory, conformance};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! conformance::run(Arc::new(Memory::new())).await?;
//! # Ok::<(), conformance::FailedCase>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod appending;
mod branching;
mod erasing;
mod recalling;
mod recipients;
mod requests;
mod running;
mod searching;
mod sessions;

use std::fmt;
use std::sync::Arc;

use scrollback_core::{Entry, Role, Time};

use crate::conversation::NewConversation;
use crate::entry::{Appended, Expected, NewEntry};
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::session::MatchScope;
use crate::store::{BoxFuture, Listing, RecordsExt, Store};

/// A case that failed, and why.
#[derive(Debug)]
pub struct FailedCase {
    /// The case.
    pub case: &'static str,
    /// What was wrong.
    pub why: String,
}

impl fmt::Display for FailedCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.why)
    }
}

impl std::error::Error for FailedCase {}

/// What a case says when it fails.
pub(crate) struct Wrong(String);

impl<E: fmt::Display> From<E> for Wrong {
    fn from(error: E) -> Self {
        Wrong(error.to_string())
    }
}

type CaseResult = Result<(), Wrong>;

/// One thing that every store must do.
pub struct Case {
    /// What, as a sentence.
    pub name: &'static str,
    run: fn(Bench) -> BoxFuture<'static, CaseResult>,
}

/// A store and a tenant to try it with.
#[derive(Clone)]
pub(crate) struct Bench {
    store: Arc<dyn Store>,
    tenant: Tenant,
}

/// Says what was expected when it is not so.
macro_rules! ensure {
    ($fact:expr, $($why:tt)*) => {
        if !$fact {
            return Err(crate::conformance::Wrong(format!($($why)*)));
        }
    };
}

/// Says both values when they differ.
macro_rules! same {
    ($found:expr, $wanted:expr) => {{
        let (found, wanted) = ($found, $wanted);
        if found != wanted {
            let (found, wanted) = (format!("{found:?}"), format!("{wanted:?}"));
            let place = concat!(file!(), ":", line!());
            return Err(crate::conformance::Wrong(format!("{place}: {found} where {wanted} was expected")));
        }
    }};
}

/// Cases by the names of their functions.
macro_rules! suite {
    ($($name:ident),* $(,)?) => {
        pub(super) fn suite() -> Vec<super::Case> {
            vec![$(super::Case { name: stringify!($name), run: |bench| Box::pin($name(bench)) }),*]
        }
    };
}

pub(crate) use {ensure, same, suite};

/// Every case there is.
pub fn cases() -> Vec<Case> {
    [
        appending::suite(),
        branching::suite(),
        erasing::suite(),
        recalling::suite(),
        recipients::suite(),
        requests::suite(),
        running::suite(),
        searching::suite(),
        sessions::suite(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs every case, each in a tenant of its own.
pub async fn run(store: Arc<dyn Store>) -> Result<usize, FailedCase> {
    let cases = cases();
    for case in &cases {
        case.run(Arc::clone(&store)).await?;
    }
    Ok(cases.len())
}

impl Case {
    /// Runs the case in a tenant of its own, and verifies what it wrote.
    pub async fn run(&self, store: Arc<dyn Store>) -> Result<(), FailedCase> {
        let failed = |Wrong(why)| FailedCase { case: self.name, why };
        let tenant = Tenant::parse(&format!("{}-{}", self.name, crate::id::new_evaluation()))
            .map_err(|error| failed(error.into()))?;
        let bench = Bench { store, tenant };
        (self.run)(bench.clone()).await.map_err(failed)?;
        bench.verified().await.map_err(failed)
    }
}

/// Noon, when every case begins.
const NOON: Time = Time(1_700_000_000_000);

impl Bench {
    fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// A new conversation without a recipient.
    async fn begin(&self) -> Result<ConversationId, Wrong> {
        let id = ConversationId::new(NOON);
        self.store().write(&self.tenant, NOON, |tx| _ = tx.create(NewConversation::new(id.clone()))).await?;
        Ok(id)
    }

    /// A new conversation that lists of messages of a scope may continue.
    async fn begin_in(&self, scope: &MatchScope) -> Result<ConversationId, Wrong> {
        let id = ConversationId::new(NOON);
        let new = NewConversation { scope: Some(scope.clone()), ..NewConversation::new(id.clone()) };
        self.store().write(&self.tenant, NOON, |tx| _ = tx.create(new)).await?;
        Ok(id)
    }

    /// Appends messages as an evaluation of their own.
    async fn say(&self, id: &ConversationId, entries: Vec<Entry>) -> Result<Appended, StoreError> {
        let said = NewEntry::evaluation(entries, NOON);
        self.store().append(&self.tenant, NOON, id, Expected::Any, said).await
    }

    /// The same to the current conversation of a recipient.
    async fn tell(&self, recipient: &Recipient, entries: Vec<Entry>) -> Result<Appended, StoreError> {
        let said = NewEntry::evaluation(entries, NOON);
        self.store().append_for(&self.tenant, NOON, recipient, Expected::Any, said).await
    }

    /// Turns of one question and one answer each.
    async fn turns(&self, recipient: &Recipient, numbers: std::ops::Range<usize>) -> Result<Appended, Wrong> {
        let mut last = None;
        for number in numbers {
            let turn = vec![user(&format!("question {number}")), assistant(&format!("answer {number}"))];
            last = Some(self.tell(recipient, turn).await?);
        }
        last.ok_or_else(|| Wrong("no turns".into()))
    }

    /// Everything in the tenant is as it was written.
    async fn verified(&self) -> CaseResult {
        let listing = Listing { limit: 10_000, ..Listing::default() };
        let page = self.store().list(Some(&self.tenant), listing).await?;
        for (conversation, messages) in page.conversations {
            let found = self.store().verify(&self.tenant, &conversation.id).await?;
            ensure!(found.problems.is_empty(), "verify found {:?}", found.problems);
            if conversation.parent.is_none() {
                same!(found.entries, messages);
            }
        }
        Ok(())
    }
}

fn user(text: &str) -> Entry {
    Entry::text(Role::User, text)
}

fn assistant(text: &str) -> Entry {
    Entry::text(Role::Assistant, text)
}

fn kind<T>(result: Result<T, StoreError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}
