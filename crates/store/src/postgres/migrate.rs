//! Making the schema and bringing it up to date, one process at a time.

use deadpool_postgres::Object;
use scrollback_core::Time;

use super::connection::failed;
use crate::error::{ErrorKind, StoreError};

/// The schema, step by step. A step is never changed once it was released; the next one is added.
const STEPS: [&str; 6] = [
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
];

/// The key of the lock under which the schema is made or migrated.
const MIGRATING: i64 = 0x5343_5242;

/// Brings the schema up to date. Everything happens in one transaction, so a pool between here and the server may give
/// each transaction another connection.
pub(super) async fn migrate(client: &Object, schema: &str, now: Time) -> Result<(), StoreError> {
    let run = async |sql: &str| client.batch_execute(sql).await.map_err(|error| failed(&error));
    run(&format!("begin isolation level read committed read write; set local search_path to {schema}"))
        .await?;
    let done = async {
        if known(version(client, schema).await?)? {
            return Ok(());
        }
        run(&format!("select pg_advisory_xact_lock({MIGRATING})")).await?;
        // Another process may have been faster.
        let found = version(client, schema).await?;
        known(found)?;
        for (number, step) in STEPS.iter().enumerate().skip(found) {
            if number == 0 {
                run(&format!("create schema if not exists {schema}")).await?;
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
    match done.await {
        Ok(()) => run("commit").await,
        Err(error) => {
            let _ = run("rollback").await;
            Err(error)
        }
    }
}

/// Whether nothing is to be done; a schema of a newer program is refused.
fn known(found: usize) -> Result<bool, StoreError> {
    let known = STEPS.len();
    if found > known {
        let message =
            format!("the store has schema {found}, this program knows {known}; use a newer scrollback");
        return Err(StoreError::new(ErrorKind::SchemaNewer, message));
    }
    Ok(found == known)
}

/// The version of the schema; 0 if there is none.
async fn version(client: &Object, schema: &str) -> Result<usize, StoreError> {
    use tokio_postgres::SimpleQueryMessage::Row;
    let ask = async |sql: String| -> Result<Option<String>, StoreError> {
        let rows = client.simple_query(&sql).await.map_err(|error| failed(&error))?;
        Ok(rows.iter().find_map(|row| match row {
            Row(row) => row.get(0).map(String::from),
            _ => None,
        }))
    };
    let there = format!(
        "select 1 from information_schema.tables where table_schema = '{schema}' and table_name = 'meta'"
    );
    if ask(there).await?.is_none() {
        return Ok(0);
    }
    let text = ask(format!("select value from {schema}.meta where key = 'schema_version'")).await?;
    let version = text.and_then(|text| text.parse().ok());
    version.ok_or_else(|| StoreError::new(ErrorKind::ForeignFile, "the schema was not created by scrollback"))
}
