//! The store for many machines: one schema of a PostgreSQL database.
//!
//! A writer locks the row of its conversation, so positions are dense and ordered, whichever machine writes. Every
//! transaction says whose rows it may touch, and row-level security holds it to that. Nothing outlives a transaction on a
//! connection, neither settings nor prepared statements, so a pool in transaction mode may stand between.

mod connect;
mod connection;
mod examine;
mod migrate;
mod nul;
mod password_file;
mod settings;
mod tls;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime};
use scrollback_core::Time;

use crate::backend::{Again, Backend, TxJob, Whose, Working};
use crate::engine::copy;
use crate::engine::examine::Examined;
use crate::error::{ErrorKind, StoreError};
use crate::store::Answer;
use connect::Reach;
use connection::{Lent, failed};
use settings::{Process, Settings, without_password};
use tls::Tls;

/// Connections of one process: more than cores rarely help, and a server has few for all.
const CONNECTIONS: usize = 16;

/// How long a caller waits for a connection while all are in use.
const WAITING: Duration = Duration::from_secs(30);

/// How long a transaction is tried again: while the server cannot be reached, and after it was given up for another.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pauses between tries: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// A store in a PostgreSQL database.
pub struct Postgres {
    place: String,
    pool: Pool,
    /// What begins a transaction that writes, and one that reads; the tenant follows.
    begin: (String, String),
}

impl Postgres {
    /// Connects, and brings the schema up to date. The URL is as libpq takes it, `PG*` variables and files of passwords fill
    /// what it leaves open; `docs/store.md` lists our own options.
    pub async fn open(url: &str, now: Time) -> Result<Self, StoreError> {
        let settings = Settings::read(url, &Process)?;
        let place = without_password(url);
        let at = |kind: ErrorKind, why: &str| StoreError::new(kind, format!("{place}: {why}"));
        let tls = Tls::new(&settings).map_err(|error| at(error.kind(), &error.to_string()))?;
        let manager = Manager::from_connect(
            settings.config.clone(),
            Reach { tls, security: settings.security },
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let settings = Arc::new(settings);
        let looked_at = Arc::clone(&settings);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAITING))
            .post_create(Hook::async_fn(move |client, _| {
                let settings = Arc::clone(&looked_at);
                Box::pin(async move { connect::durable(client, &settings).await })
            }))
            .build()
            .map_err(|error| at(ErrorKind::OpenFailed, &error.to_string()))?;
        let store = Postgres { place: place.clone(), pool, begin: begin(&settings) };
        let opened = async {
            let lent = store.lend().await?;
            migrate::migrate(lent.client()?, &settings.schema, now).await
        };
        opened.await.map_err(|error| {
            let kind = if error.kind() == ErrorKind::Io { ErrorKind::OpenFailed } else { error.kind() };
            at(kind, &error.to_string())
        })?;
        Ok(store)
    }

    async fn lend(&self) -> Result<Lent, StoreError> {
        let client = self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                failed(&error)
            }
            PoolError::PostCreateHook(HookError::Message(message)) => {
                StoreError::new(ErrorKind::OpenFailed, message)
            }
            PoolError::Timeout(_) => {
                let message = "all connections to the database are in use; try again in a moment";
                StoreError::new(ErrorKind::Overloaded, message)
            }
            other => StoreError::new(ErrorKind::Io, other.to_string()),
        })?;
        Ok(Lent::new(client))
    }

    /// A connection with a transaction on it. Connections from before a restart or a change of the primary are noticed only
    /// when they are used; while no server can be reached, tries go on.
    async fn begun(&self, how: &str, whose: &Whose, pauses: &mut Pauses) -> Result<Lent, StoreError> {
        loop {
            let begun = match self.lend().await {
                Ok(mut lent) => lent.begin(how, whose).await.map(|()| lent),
                Err(error) => Err(error),
            };
            match begun {
                Err(error) if error.kind() == ErrorKind::Io => {
                    self.pool.retain(|_, _| false);
                    pauses.next(error).await?;
                }
                other => return other,
            }
        }
    }

    async fn transact<T>(
        &self,
        mut lent: Lent,
        job: impl for<'r> FnOnce(&'r mut Lent) -> Working<'r, T>,
    ) -> Result<T, StoreError> {
        match job(&mut lent).await {
            Ok(done) => {
                lent.end(true).await?;
                Ok(done)
            }
            Err(error) => {
                // Whatever this answers, the work is undone: a lost connection ends its transaction.
                let _ = lent.end(false).await;
                Err(error)
            }
        }
    }
}

/// What begins a transaction that writes, and one that reads. Everything a transaction depends on is said in it: defaults of
/// the server, the role or a connection that others used do not matter.
fn begin(settings: &Settings) -> (String, String) {
    let commit = settings.synchronous_commit.as_ref();
    let commit =
        commit.map_or_else(String::new, |value| format!("; set local synchronous_commit to {value}"));
    let commit = if commit.is_empty() { "; set local synchronous_commit to on".into() } else { commit };
    let (schema, timeout) = (&settings.schema, settings.statement_timeout.as_millis());
    let common = format!("; set local search_path to {schema}; set local statement_timeout to {timeout}");
    (
        format!("begin isolation level read committed read write{common}{commit}"),
        format!("begin isolation level repeatable read read only{common}"),
    )
}

/// The pauses between tries of one transaction.
struct Pauses {
    until: Instant,
    next: Duration,
}

impl Pauses {
    fn new() -> Self {
        Pauses { until: Instant::now() + PATIENCE, next: PAUSES.0 }
    }

    /// Waits a while; gives the error back when the time is up.
    async fn next(&mut self, error: StoreError) -> Result<(), StoreError> {
        if Instant::now() + self.next > self.until {
            return Err(error);
        }
        // Two that met do not meet again.
        let mut chance = [0; 1];
        let _ = getrandom::fill(&mut chance);
        tokio::time::sleep(self.next * (256 + u32::from(chance[0])) / 512).await;
        self.next = (self.next * 2).min(PAUSES.1);
        Ok(())
    }
}

impl Backend for Postgres {
    type Rows = Lent;

    fn place(&self) -> String {
        self.place.clone()
    }

    /// A transaction that the database gave up for the sake of another is done again, within [`PATIENCE`].
    fn write<T: Send + 'static>(&self, whose: Whose, mut job: Again<Lent, T>) -> Answer<'_, T> {
        Box::pin(async move {
            let mut pauses = Pauses::new();
            loop {
                let lent = self.begun(&self.begin.0, &whose, &mut pauses).await?;
                match self.transact(lent, |rows| job(rows)).await {
                    Err(error) if error.was_given_up() => pauses.next(error).await?,
                    Err(error) if error.kind() == ErrorKind::ReadOnly => {
                        // The primary has become a standby; another host may be the primary now.
                        self.pool.retain(|_, _| false);
                        pauses.next(error).await?;
                    }
                    other => return other,
                }
            }
        })
    }

    fn read<T: Send + 'static>(&self, whose: Whose, job: TxJob<Lent, T>) -> Answer<'_, T> {
        Box::pin(async move {
            let lent = self.begun(&self.begin.1, &whose, &mut Pauses::new()).await?;
            self.transact(lent, job).await
        })
    }

    fn examine_database(&self) -> Answer<'_, Examined> {
        self.read(Whose::All, Box::new(|rows| Box::pin(examine::server(rows))))
    }

    fn copy_to(&self, path: &Path) -> Answer<'_, ()> {
        let path = path.to_path_buf();
        Box::pin(async move {
            let tables = self.read(Whose::All, Box::new(|rows| Box::pin(copy::read(rows)))).await?;
            copy::into_file(&path, tables).await
        })
    }
}
