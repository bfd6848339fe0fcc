//! The store for many machines: one schema of a PostgreSQL database.
//!
//! A writer locks the row of its conversation, so positions are dense and ordered, whichever machine writes. Every
//! transaction says whose rows it may touch, and row-level security holds it to that.

mod connection;

use std::path::Path;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use scrollback_core::Time;
use tokio::sync::Semaphore;
use tokio_postgres::{Config, NoTls};

use crate::backend::{Backend, TxJob, Whose};
use crate::engine::copy;
use crate::error::{ErrorKind, StoreError};
use crate::size::Sizes;
use crate::sql::Sql;
use crate::store::Answer;
use crate::table::Cells;
use connection::{Lent, failed};

/// Connections of one process: more than cores rarely help, and a server has few for all.
const CONNECTIONS: usize = 16;

/// Connections that may search at once.
const SEARCHES: usize = 4;

/// How long a search may take.
const SEARCH: Duration = Duration::from_secs(10);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The schema, step by step. A step is never changed once it was released; the next one is added.
const STEPS: [&str; 5] = [
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
];

/// The key of the lock under which the schema is made or migrated.
const MIGRATING: i64 = 0x5343_5242;

/// A store in a PostgreSQL database.
pub struct Postgres {
    place: String,
    pool: Pool,
    /// Connections that may search at once.
    searches: Semaphore,
}

/// What our own options in a URL say.
struct Wishes {
    schema: String,
    lazy: bool,
}

impl Postgres {
    /// Connects, and brings the schema up to date. `?schema=NAME` chooses a schema, `scrollback` if it does not;
    /// `?synchronous_commit=off` accepts that commits are acknowledged before they are durable.
    pub async fn open(url: &str, now: Time) -> Result<Self, StoreError> {
        let (wishes, rest) = wishes(url)?;
        let place = without_password(url);
        let at = |kind: ErrorKind, why: &str| StoreError::new(kind, format!("{place}: {why}"));
        let mut config: Config = rest.parse().map_err(|_| at(ErrorKind::BadUrl, "not a PostgreSQL URL"))?;
        config.connect_timeout(CONNECT).application_name("scrollback");
        let mut options = format!("-c search_path={}", wishes.schema);
        if wishes.lazy {
            options.push_str(" -c synchronous_commit=off");
        }
        config.options(&options);
        let manager =
            Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(Duration::from_secs(30)))
            .build()
            .map_err(|error| at(ErrorKind::OpenFailed, &error.to_string()))?;
        let store = Postgres { place: place.clone(), pool, searches: Semaphore::new(SEARCHES) };
        let opened = async {
            let lent = store.lend().await?;
            durable(&lent, &wishes).await?;
            migrate(&lent, &wishes, now).await
        };
        opened.await.map_err(|error| {
            let kind = if error.kind() == ErrorKind::Io { ErrorKind::OpenFailed } else { error.kind() };
            at(kind, &error.to_string())
        })?;
        Ok(store)
    }

    async fn lend(&self) -> Result<Lent, StoreError> {
        let client = self.pool.get().await.map_err(|error| match error {
            deadpool_postgres::PoolError::Backend(error) => failed(&error),
            other => StoreError::new(ErrorKind::Io, other.to_string()),
        })?;
        Ok(Lent::new(client))
    }

    async fn transact<T>(&self, how: &str, whose: Whose, job: TxJob<Lent, T>) -> Result<T, StoreError> {
        let tenant = match &whose {
            Whose::Tenant(tenant) => tenant.as_str(),
            Whose::All => "*",
        };
        let mut lent = self.lend().await?;
        if let Err(error) = lent.begin(how, tenant).await {
            // A connection from before a restart is noticed only when it is used. Nothing was sent yet.
            if error.kind() != ErrorKind::Io {
                return Err(error);
            }
            drop(lent);
            self.pool.retain(|_, _| false);
            lent = self.lend().await?;
            lent.begin(how, tenant).await?;
        }
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

impl Backend for Postgres {
    type Rows = Lent;

    fn place(&self) -> String {
        self.place.clone()
    }

    fn write<T: Send + 'static>(&self, whose: Whose, job: TxJob<Lent, T>) -> Answer<'_, T> {
        Box::pin(self.transact("begin", whose, job))
    }

    fn read<T: Send + 'static>(&self, whose: Whose, job: TxJob<Lent, T>) -> Answer<'_, T> {
        Box::pin(self.transact("begin isolation level repeatable read read only", whose, job))
    }

    fn search<T: Send + 'static>(&self, whose: Whose, job: TxJob<Lent, T>) -> Answer<'_, T> {
        Box::pin(async move {
            let too_long = || {
                let message = "the search took too long and was given up: add words, or say in which conversation to look";
                StoreError::new(ErrorKind::Overloaded, message)
            };
            // Searches take only a few of the connections, so that nothing else waits behind them.
            let place =
                tokio::time::timeout(SEARCH, self.searches.acquire()).await.map_err(|_| too_long())?;
            let how = "begin isolation level repeatable read read only; set local statement_timeout = '10s'";
            let found = tokio::time::timeout(SEARCH, self.transact(how, whose, job)).await;
            drop(place);
            found.map_err(|_| too_long())?
        })
    }

    fn missing_wall(&self) -> Answer<'_, Option<String>> {
        Box::pin(async move {
            let lent = self.lend().await?;
            let sql = "select rolname, rolsuper from pg_roles where rolname = current_user and (rolsuper or rolbypassrls)";
            let role = lent.client()?.query_opt(sql, &[]).await.map_err(|error| failed(&error))?;
            Ok(role.map(|role| {
                let name: String = role.try_get(0).unwrap_or_default();
                let right = if role.try_get(1).unwrap_or(true) { "is a superuser" } else { "may bypass row security" };
                format!("the PostgreSQL role {name:?} {right}, so row-level security does not hold it to one tenant's rows")
            }))
        })
    }

    fn measure(&self) -> Answer<'_, Sizes> {
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

    fn copy_to(&self, path: &Path) -> Answer<'_, ()> {
        let path = path.to_path_buf();
        Box::pin(async move {
            let tables = self.read(Whose::All, Box::new(|rows| Box::pin(copy::read(rows)))).await?;
            copy::into_file(&path, tables).await
        })
    }
}

/// Takes our own options out of a URL.
fn wishes(url: &str) -> Result<(Wishes, String), StoreError> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut wishes = Wishes { schema: "scrollback".into(), lazy: false };
    let mut others = Vec::new();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("schema", name) => {
                let letters = |name: &str| {
                    name.chars()
                        .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_')
                };
                if name.is_empty()
                    || name.len() > 63
                    || !letters(name)
                    || name.starts_with(|first: char| first.is_ascii_digit())
                {
                    let message = "a schema is named by lower-case letters, digits and underscores";
                    return Err(StoreError::new(ErrorKind::BadUrl, message));
                }
                wishes.schema = name.into();
            }
            ("synchronous_commit", value) => wishes.lazy = value != "on",
            _ => others.push(option),
        }
    }
    let rest = if others.is_empty() { base.into() } else { format!("{base}?{}", others.join("&")) };
    Ok((wishes, rest))
}

/// A URL that can be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "postgres://…".into() };
    let rest = rest.split('?').next().unwrap_or_default();
    match rest.rsplit_once('@') {
        Some((who, place)) => {
            let name = who.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}@{place}")
        }
        None => format!("{scheme}://{rest}"),
    }
}

/// Refuses a server that acknowledges commits before they are durable, unless the URL asks for it.
async fn durable(lent: &Lent, wishes: &Wishes) -> Result<(), StoreError> {
    let row =
        lent.client()?.query_one("show synchronous_commit", &[]).await.map_err(|error| failed(&error))?;
    let setting: String = row.try_get(0).map_err(|error| failed(&error))?;
    if wishes.lazy || setting == "on" {
        return Ok(());
    }
    let message = format!(
        "synchronous_commit is {setting}: commits would be acknowledged before they are durable; set it to on, or accept \
         that with ?synchronous_commit={setting} in the URL"
    );
    Err(StoreError::new(ErrorKind::OpenFailed, message))
}

/// Brings the schema up to date, each step in a transaction of its own, one process at a time.
async fn migrate(lent: &Lent, wishes: &Wishes, now: Time) -> Result<(), StoreError> {
    let client = lent.client()?;
    let run = async |sql: &str| client.batch_execute(sql).await.map_err(|error| failed(&error));
    let version = async || -> Result<usize, StoreError> {
        let found = client
            .query_opt(
                "select 1 from information_schema.tables where table_schema = $1 and table_name = 'meta'",
                &[&wishes.schema],
            )
            .await
            .map_err(|error| failed(&error))?;
        if found.is_none() {
            return Ok(0);
        }
        let row = client
            .query_opt("select value from meta where key = 'schema_version'", &[])
            .await
            .map_err(|error| failed(&error))?;
        let version = row.and_then(|row| row.try_get::<_, String>(0).ok()).and_then(|text| text.parse().ok());
        version.ok_or_else(|| StoreError::new(ErrorKind::ForeignFile, "the schema belongs to something else"))
    };
    let refuse_newer = |found: usize| {
        let known = STEPS.len();
        let message =
            format!("the store has schema {found}, this program knows {known}; use a newer scrollback");
        if found > known { Err(StoreError::new(ErrorKind::SchemaNewer, message)) } else { Ok(()) }
    };
    let found = version().await?;
    refuse_newer(found)?;
    if found == STEPS.len() {
        return Ok(());
    }
    run(&format!("begin; select pg_advisory_xact_lock({MIGRATING})")).await?;
    let steps = async {
        let found = version().await?;
        refuse_newer(found)?;
        for (number, step) in STEPS.iter().enumerate().skip(found) {
            if number == 0 {
                run(&format!("create schema if not exists {}", wishes.schema)).await?;
            }
            run(step).await?;
            let id = crate::id::new_evaluation();
            if number == 0 {
                run(&format!(
                    "insert into meta (key, value) values ('created_at', '{now}'), ('store_id', '{id}')"
                ))
                .await?;
            }
            let next = number + 1;
            run(&format!(
                "insert into meta (key, value) values ('schema_version', '{next}') \
                 on conflict (key) do update set value = excluded.value"
            ))
            .await?;
        }
        Ok(())
    };
    match steps.await {
        Ok(()) => run("commit").await,
        Err(error) => {
            let _ = run("rollback").await;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("postgres://u:se:c@ret@h:5/db?x=1"), "postgres://u@h:5/db");
        assert_eq!(without_password("postgres://h/db"), "postgres://h/db");
    }

    #[test]
    fn our_own_options_are_taken_out_of_a_url() {
        let (wishes, rest) = super::wishes("postgres://h/db?schema=mine&sslmode=disable").unwrap();
        assert_eq!(
            (wishes.schema.as_str(), wishes.lazy, rest.as_str()),
            ("mine", false, "postgres://h/db?sslmode=disable")
        );
        for bad in ["postgres://h/db?schema=", "postgres://h/db?schema=a;b", "postgres://h/db?schema=A"] {
            assert!(super::wishes(bad).is_err(), "{bad}");
        }
    }
}
