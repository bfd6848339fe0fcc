//! One PostgreSQL connection, inside a transaction, as [`Sql`].

use std::error::Error;
use std::sync::Arc;

use deadpool_postgres::{Object, tokio_postgres};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, private::BytesMut, to_sql_checked};

use crate::error::{ErrorKind, StoreError};
use crate::id::ConversationId;
use crate::search::{SearchCandidate, WordDemand, WordQuery};
use crate::sql::{Sql, conversation_demands};
use crate::table::ColumnValue;

/// A connection that is in use. If the work is dropped half done, so is the connection, and with it the
/// transaction.
pub(crate) struct Lent {
    client: Option<Object>,
    finished: bool,
}

impl Lent {
    pub(super) fn new(client: Object) -> Self {
        Lent { client: Some(client), finished: true }
    }

    pub(super) fn client(&self) -> Result<&Object, StoreError> {
        self.client.as_ref().ok_or_else(|| StoreError::new(ErrorKind::Io, "the connection is gone"))
    }

    /// Begins a transaction.
    pub(super) async fn begin(&mut self, how: &str, tenant: &str) -> Result<(), StoreError> {
        self.finished = false;
        let client = self.client()?;
        client.batch_execute(how).await.map_err(|error| failed(&error))?;
        let statement = client
            .prepare_cached("select set_config('scrollback.tenant', $1, true)")
            .await
            .map_err(|error| failed(&error))?;
        client.execute(&statement, &[&tenant]).await.map(|_| ()).map_err(|error| failed(&error))
    }

    /// Ends the transaction. A commit whose answer is lost may have happened.
    pub(super) async fn end(&mut self, done: bool) -> Result<(), StoreError> {
        let client = self.client()?;
        let ended = client.batch_execute(if done { "commit" } else { "rollback" }).await;
        match ended {
            Ok(()) => {
                self.finished = true;
                Ok(())
            }
            Err(error) if done && error.as_db_error().is_none() => {
                let message = format!("the connection was lost during the commit: {error}");
                Err(StoreError::new(ErrorKind::Unknown, message))
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.finished
            && let Some(client) = self.client.take()
        {
            drop(Object::take(client));
        }
    }
}

/// What an error of PostgreSQL means to the caller.
pub(super) fn failed(error: &tokio_postgres::Error) -> StoreError {
    let kind = match error.code() {
        Some(code) if *code == SqlState::UNIQUE_VIOLATION => ErrorKind::Exists,
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => ErrorKind::ReadOnly,
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            ErrorKind::Damaged
        }
        Some(code) if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE].contains(code) => {
            ErrorKind::Busy
        }
        _ => ErrorKind::Io,
    };
    let message = match error.as_db_error() {
        Some(told) => told.message().to_string(),
        None => error.source().map_or_else(|| error.to_string(), ToString::to_string),
    };
    StoreError::new(kind, message)
}

impl ToSql for ColumnValue {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            ColumnValue::Null => Ok(IsNull::Yes),
            ColumnValue::Int(number) => number.to_sql(kind, out),
            ColumnValue::Text(text) => text.to_sql(kind, out),
            ColumnValue::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    accepts!(INT8, TEXT, BYTEA);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for ColumnValue {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => ColumnValue::Int(i64::from_sql(kind, raw)?),
            Type::BYTEA => ColumnValue::Bytes(raw.to_vec()),
            _ => ColumnValue::Text(String::from_utf8_lossy(raw).into_owned()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(ColumnValue::Null)
    }

    accepts!(INT8, TEXT, BYTEA);
}

fn bound(values: &[ColumnValue]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

impl Sql for Lent {
    const MARK: char = '$';
    const LOCKING: &'static str = " for update";

    async fn run(&mut self, sql: &str, values: Vec<ColumnValue>) -> Result<u64, StoreError> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await.map_err(|error| failed(&error))?;
        client.execute(&statement, &bound(&values)).await.map_err(|error| failed(&error))
    }

    /// All rows are sent before the first answer is waited for.
    async fn run_each(&mut self, sql: &str, rows: Vec<Vec<ColumnValue>>) -> Result<(), StoreError> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await.map_err(|error| failed(&error))?;
        let (client, statement) = (Arc::new(client), Arc::new(statement));
        let sending = rows.into_iter().map(|values| {
            let (client, statement) = (Arc::clone(&client), Arc::clone(&statement));
            async move { client.execute(statement.as_ref(), &bound(&values)).await }
        });
        for sent in pipelined(sending.collect()).await {
            sent.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        sql: &str,
        values: Vec<ColumnValue>,
    ) -> Result<Vec<Vec<ColumnValue>>, StoreError> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await.map_err(|error| failed(&error))?;
        let rows = client.query(&statement, &bound(&values)).await.map_err(|error| failed(&error))?;
        let cells = |row: &tokio_postgres::Row| {
            (0..row.len()).map(|column| row.try_get::<_, ColumnValue>(column)).collect::<Result<Vec<_>, _>>()
        };
        rows.iter().map(|row| cells(row).map_err(|error| failed(&error))).collect()
    }

    async fn lock_name(&mut self, name: &str) -> Result<(), StoreError> {
        let hash = blake3::hash(name.as_bytes());
        let number = hash.as_bytes().first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        self.ask(
            "select 1::bigint from (select pg_advisory_xact_lock($1)) held",
            vec![ColumnValue::Int(number)],
        )
        .await
        .map(|_| ())
    }

    async fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &str,
    ) -> Result<(), StoreError> {
        let values = vec![conversation.as_str().into(), position.into(), words.into()];
        let sql = "update entries set words = array_to_tsvector(string_to_array($3, ' ')) \
                   where conversation_id = $1 and position = $2";
        self.run(sql, values).await.map(|_| ())
    }

    async fn unindex(&mut self, conversation: &ConversationId, position: u64) -> Result<(), StoreError> {
        let sql = "update entries set words = null where conversation_id = $1 and position = $2";
        self.run(sql, vec![conversation.as_str().into(), position.into()]).await.map(|_| ())
    }

    async fn find(&mut self, wanted: &WordQuery) -> Result<Vec<SearchCandidate>, StoreError> {
        // The words are letters, digits and underscores, and in quotes they are nothing but words.
        let word = |(word, prefix): &(String, bool)| format!("'{word}'{}", if *prefix { ":*" } else { "" });
        let between = if wanted.words == WordDemand::Any { " | " } else { " & " };
        let mut matching = wanted.all.iter().map(word).collect::<Vec<_>>().join(between);
        for excluded in &wanted.none {
            matching = format!("({matching}) & !{}", word(excluded));
        }
        let (demands, mut values) = conversation_demands(wanted, 2);
        values.insert(0, matching.into());
        let sql = format!(
            "select e.conversation_id, e.position from entries e join conversations c on c.id = e.conversation_id \
             where e.words @@ cast($1 as text)::tsquery and {demands} \
             order by e.conversation_id desc, e.position desc limit {}",
            wanted.limit
        );
        let candidate = |cells: Vec<ColumnValue>| match cells.as_slice() {
            [ColumnValue::Text(conversation), ColumnValue::Int(position)] => {
                let conversation = ConversationId::stored(conversation.clone());
                Some(SearchCandidate { conversation, position: *position as u64, indexed: true })
            }
            _ => None,
        };
        Ok(self.ask(&sql, values).await?.into_iter().filter_map(candidate).collect())
    }
}

/// Polls futures side by side, so that what they send goes out together.
async fn pipelined<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut open: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut waiting = false;
        for (future, done) in &mut open {
            if done.is_none() {
                match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    open.into_iter().filter_map(|(_, done)| done).collect()
}
