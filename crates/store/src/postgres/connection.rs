//! One PostgreSQL connection, inside a transaction, as [`Sql`].

use std::error::Error;

use deadpool_postgres::{Object, tokio_postgres};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, private::BytesMut, to_sql_checked};

use super::nul;
use crate::backend::Whose;
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
        self.client.as_ref().ok_or_else(|| StoreError::new(ErrorKind::Io, "the connection is closed"))
    }

    /// Begins a transaction, and says in it whose rows it may touch. One round trip.
    pub(super) async fn begin(&mut self, how: &str, whose: &Whose) -> Result<(), StoreError> {
        self.finished = false;
        let tenant = match whose {
            Whose::Tenant(tenant) => quoted(tenant.as_str()),
            Whose::All => "'*'".into(),
        };
        let sql = format!("{how}; set local scrollback.tenant to {tenant}");
        self.client()?.batch_execute(&sql).await.map_err(|error| failed(&error))
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

/// A text as it is spelled in a statement, whatever the server thinks of backslashes.
fn quoted(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// What an error of PostgreSQL means to the caller.
pub(super) fn failed(error: &tokio_postgres::Error) -> StoreError {
    let given_up = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    let kind = match error.code() {
        Some(code) if *code == SqlState::UNIQUE_VIOLATION => ErrorKind::Exists,
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => ErrorKind::ReadOnly,
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            ErrorKind::Damaged
        }
        Some(code) if given_up.contains(code) || *code == SqlState::LOCK_NOT_AVAILABLE => ErrorKind::Busy,
        Some(code) if *code == SqlState::QUERY_CANCELED || *code == SqlState::TOO_MANY_CONNECTIONS => {
            ErrorKind::Overloaded
        }
        Some(code) if [SqlState::DISK_FULL, SqlState::OUT_OF_MEMORY].contains(code) => ErrorKind::Full,
        // Waiting helps neither a wrong password nor a database that is not there.
        Some(code) if code.code().starts_with("28") || *code == SqlState::INVALID_CATALOG_NAME => {
            ErrorKind::OpenFailed
        }
        _ => ErrorKind::Io,
    };
    let message = match error.as_db_error() {
        Some(told) => told.message().to_string(),
        None => error.source().map_or_else(|| error.to_string(), ToString::to_string),
    };
    let given_up = error.code().is_some_and(|code| given_up.contains(code));
    StoreError::new(kind, message).given_up(given_up)
}

impl ToSql for ColumnValue {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            ColumnValue::Null => Ok(IsNull::Yes),
            ColumnValue::Int(number) => number.to_sql(kind, out),
            ColumnValue::Text(text) => nul::hidden(text).as_ref().to_sql(kind, out),
            ColumnValue::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    accepts!(INT8, TEXT, BYTEA, UNKNOWN);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for ColumnValue {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => ColumnValue::Int(i64::from_sql(kind, raw)?),
            Type::BYTEA => ColumnValue::Bytes(raw.to_vec()),
            _ => ColumnValue::Text(nul::shown(String::from_utf8_lossy(raw).into_owned())),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(ColumnValue::Null)
    }

    accepts!(INT8, TEXT, BYTEA);
}

/// Values with their types: a statement that is sent with them needs no name and no round trip of its own.
fn bound(values: &[ColumnValue]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    let typed = |value: &ColumnValue| match value {
        // What it is follows from where it stands.
        ColumnValue::Null => Type::UNKNOWN,
        ColumnValue::Int(_) => Type::INT8,
        ColumnValue::Text(_) => Type::TEXT,
        ColumnValue::Bytes(_) => Type::BYTEA,
    };
    values.iter().map(|value| (value as &(dyn ToSql + Sync), typed(value))).collect()
}

impl Sql for Lent {
    const MARK: char = '$';
    const LOCKING: &'static str = " for update";

    async fn run(&mut self, sql: &str, values: Vec<ColumnValue>) -> Result<u64, StoreError> {
        self.client()?.execute_typed(sql, &bound(&values)).await.map_err(|error| failed(&error))
    }

    /// All rows are sent before the first answer is waited for.
    async fn run_each(&mut self, sql: &str, rows: Vec<Vec<ColumnValue>>) -> Result<(), StoreError> {
        let client = self.client()?;
        let sending = rows.into_iter().map(|values| async move {
            let values = values;
            client.execute_typed(sql, &bound(&values)).await
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
        let rows = self.client()?.query_typed(sql, &bound(&values)).await.map_err(|error| failed(&error))?;
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
