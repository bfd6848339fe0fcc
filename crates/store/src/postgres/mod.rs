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
use tokio::sync::Semaphore;

use crate::backend::{Again, Backend, TxJob, Whose};
use crate::engine::copy;
use crate::engine::examine::Examined;
use crate::erasure::Leftover;
use crate::error::{ErrorKind, StoreError, StoreResult};
use crate::size::Sizes;
use crate::sql::Sql;
use crate::store::BoxFuture;
use crate::table::Cells;
use connect::Reach;
use connection::{Lent, failed};
use settings::{Process, Settings, without_password};
use tls::Tls;

/// Connections of one process: more than cores rarely help, and a server has few for all.
const CONNECTIONS: usize = 16;

/// Connections that may search at once.
const SEARCHES: usize = 4;

/// How long a search may take.
const SEARCH: Duration = Duration::from_secs(10);

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
    /// Connections that may search at once.
    searches: Semaphore,
    begin: Begin,
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
        let searches = Semaphore::new(SEARCHES);
        let store = Postgres { place: place.clone(), pool, searches, begin: begin(&settings) };
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
        job: impl for<'r> FnOnce(&'r mut Lent) -> BoxFuture<'r, StoreResult<T>>,
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

/// The statements that begin transactions; the tenant follows.
struct Begin {
    write: String,
    read: String,
    search: String,
}

/// What begins transactions. Everything a transaction depends on is said in it: defaults of the server, the role or a
/// connection that others used do not matter.
fn begin(settings: &Settings) -> Begin {
    let commit = settings.synchronous_commit.as_ref();
    let commit =
        commit.map_or_else(String::new, |value| format!("; set local synchronous_commit to {value}"));
    let commit = if commit.is_empty() { "; set local synchronous_commit to on".into() } else { commit };
    let schema = &settings.schema;
    let common = |timeout: Duration| {
        let timeout = timeout.as_millis();
        format!("; set local search_path to {schema}; set local statement_timeout to {timeout}")
    };
    let timeout = settings.statement_timeout;
    let read = "begin isolation level repeatable read read only";
    // A timeout of 0 means no timeout.
    let search = if timeout.is_zero() { SEARCH } else { timeout.min(SEARCH) };
    Begin {
        write: format!("begin isolation level read committed read write{}{commit}", common(timeout)),
        read: format!("{read}{}", common(timeout)),
        search: format!("{read}{}", common(search)),
    }
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
    fn write<T: Send + 'static>(
        &self,
        whose: Whose,
        mut job: Again<Lent, T>,
    ) -> BoxFuture<'_, StoreResult<T>> {
        Box::pin(async move {
            let mut pauses = Pauses::new();
            loop {
                let lent = self.begun(&self.begin.write, &whose, &mut pauses).await?;
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

    fn read<T: Send + 'static>(&self, whose: Whose, job: TxJob<Lent, T>) -> BoxFuture<'_, StoreResult<T>> {
        Box::pin(async move {
            let lent = self.begun(&self.begin.read, &whose, &mut Pauses::new()).await?;
            self.transact(lent, job).await
        })
    }

    fn examine_database(&self) -> BoxFuture<'_, StoreResult<Examined>> {
        self.read(Whose::All, Box::new(|rows| Box::pin(examine::server(rows))))
    }

    fn search<T: Send + 'static>(&self, whose: Whose, job: TxJob<Lent, T>) -> BoxFuture<'_, StoreResult<T>> {
        Box::pin(async move {
            let too_long = || {
                let message = "the search took too long and was given up: add words, or say in which conversation to look";
                StoreError::new(ErrorKind::Overloaded, message)
            };
            // Searches take only a few of the connections, so that nothing else waits behind them.
            let place =
                tokio::time::timeout(SEARCH, self.searches.acquire()).await.map_err(|_| too_long())?;
            let searching = async {
                let lent = self.begun(&self.begin.search, &whose, &mut Pauses::new()).await?;
                self.transact(lent, job).await
            };
            let found = tokio::time::timeout(SEARCH, searching).await;
            drop(place);
            found.map_err(|_| too_long())?
        })
    }

    fn missing_wall(&self) -> BoxFuture<'_, StoreResult<Option<String>>> {
        let asking: TxJob<Lent, Option<String>> = Box::new(|rows| {
            Box::pin(async move {
                let sql = "select rolname::text, case when rolsuper then 'is a superuser' else 'may bypass row security' end \
                           from pg_roles where rolname = current_user and (rolsuper or rolbypassrls)";
                let role = rows.ask(sql, Vec::new()).await?.pop();
                Ok(role.map(|role| {
                    let mut cells = Cells::new("pg_roles", role);
                    let (name, right) = (cells.text(), cells.text());
                    format!(
                        "the PostgreSQL role {name:?} {right}, so row-level security does not hold it to one tenant's rows"
                    )
                }))
            })
        });
        self.read(Whose::All, asking)
    }

    fn guarantees(&self) -> BoxFuture<'_, StoreResult<Vec<(String, String)>>> {
        let asking: TxJob<Lent, Vec<(String, String)>> = Box::new(|rows| {
            Box::pin(async move {
                let sql = "select name::text, setting::text from pg_settings \
                           where name in ('fsync', 'full_page_writes', 'synchronous_commit') union all \
                           select 'encryption', coalesce((select version from pg_stat_ssl where pid = pg_backend_pid() and ssl), 'off') \
                           order by 1";
                let told = rows.ask(sql, Vec::new()).await?.into_iter().map(|row| {
                    let mut cells = Cells::new("pg_settings", row);
                    (cells.text(), cells.text())
                });
                Ok(told.collect())
            })
        });
        self.read(Whose::All, asking)
    }

    fn measure(&self) -> BoxFuture<'_, StoreResult<Sizes>> {
        let asking: TxJob<Lent, Sizes> = Box::new(|rows| {
            Box::pin(async move {
                let sql = "select c.relname::text, pg_total_relation_size(c.oid) from pg_class c \
                           join pg_namespace n on n.oid = c.relnamespace \
                           where n.nspname = current_schema() and c.relkind in ('r', 'm')";
                let mut sizes = Sizes::default();
                for row in rows.ask(sql, Vec::new()).await? {
                    let mut cells = Cells::new("pg_class", row);
                    let (name, bytes) = (cells.text(), cells.number()?);
                    sizes.add(&name, bytes);
                }
                Ok(sizes)
            })
        });
        self.read(Whose::All, asking)
    }

    /// The size of a relation counts rows that a vacuum has yet to take, and room that it left; so rows are added up, and indexes
    /// as they are.
    fn kept_bytes(&self) -> BoxFuture<'_, StoreResult<u64>> {
        let asking: TxJob<Lent, u64> = Box::new(|rows| {
            Box::pin(async move {
                // The size of a column as it is kept; of a whole row it would be unpacked first.
                let tables = "select c.relname::text, coalesce(pg_indexes_size(c.oid), 0)::bigint, \
                              (select string_agg(format('coalesce(pg_column_size(%I), 0)', a.attname), ' + ') \
                               from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) \
                              from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                              where n.nspname = current_schema() and c.relkind = 'r'";
                let mut bytes = 0;
                for table in rows.ask(tables, Vec::new()).await? {
                    let mut cells = Cells::new("pg_class", table);
                    let (name, indexes, columns) = (cells.text(), cells.number()?, cells.text());
                    let sql = format!("select coalesce(sum({columns}), 0)::bigint from {name}");
                    let row = rows.ask(&sql, Vec::new()).await?.pop().unwrap_or_default();
                    bytes += indexes + Cells::new("kept", row).number()?;
                }
                Ok(bytes)
            })
        });
        self.read(Whose::All, asking)
    }

    /// What the server keeps of deleted rows for a while.
    fn left_elsewhere(&self) -> Vec<Leftover> {
        vec![
            Leftover {
                what: "old versions of the erased rows".into(),
                place: "PostgreSQL's table files".into(),
                until: "their room is used again after a vacuum, or at once with `vacuum full`".into(),
            },
            Leftover {
                what: "what was written before".into(),
                place: "PostgreSQL's write-ahead log, its archive and its standbys".into(),
                until: "the log is recycled and the archive is deleted".into(),
            },
        ]
    }

    fn copy_to(&self, path: &Path) -> BoxFuture<'_, StoreResult<()>> {
        let path = path.to_path_buf();
        Box::pin(async move {
            let tables = self.read(Whose::All, Box::new(|rows| Box::pin(copy::read(rows)))).await?;
            copy::into_file(&path, tables).await
        })
    }
}
