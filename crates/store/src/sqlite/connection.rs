//! One SQLite connection as [`Sql`].

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, params_from_iter};

use crate::error::{ErrorKind, StoreError};
use crate::id::ConversationId;
use crate::search::{Candidate, Wanted};
use crate::sql::{Sql, conversation_demands};
use crate::table::Value;

/// Bits of a full-text row's number that are the position; the rest is the number of the conversation.
const POSITION_BITS: u32 = 32;

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn value(found: ValueRef<'_>) -> Value {
    match found {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Text(number.to_string()),
        // A text that is none was changed behind our back; its hash will tell.
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.into()),
    }
}

/// What an error of SQLite means to the caller.
pub(super) fn failed(error: &rusqlite::Error) -> StoreError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly) => ErrorKind::ReadOnly,
        Some(ErrorCode::NotADatabase) => ErrorKind::ForeignFile,
        Some(ErrorCode::DatabaseCorrupt) => ErrorKind::Damaged,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Busy,
        Some(ErrorCode::CannotOpen) => ErrorKind::OpenFailed,
        Some(ErrorCode::ConstraintViolation) => ErrorKind::Exists,
        Some(ErrorCode::TooBig) => ErrorKind::TooLarge,
        _ => ErrorKind::Io,
    };
    let what = match kind {
        ErrorKind::Busy => "another program holds the store locked".to_string(),
        ErrorKind::Damaged => "the file is damaged (run scrollback verify)".to_string(),
        _ => match error {
            rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
            other => other.to_string(),
        },
    };
    StoreError::new(kind, what)
}

/// SQLite numbers parameters with a question mark.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

impl Sql for Connection {
    // The transaction holds the write lock of the whole file from its beginning.
    const LOCKING: &'static str = "";

    async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        run(self, sql, &values)
    }

    async fn run_each(&mut self, sql: &str, rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
        rows.iter().try_for_each(|values| run(self, sql, values).map(|_| ()))
    }

    async fn ask(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        ask(self, sql, &values)
    }

    async fn lock_name(&mut self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &[String],
    ) -> Result<(), StoreError> {
        let number = if let Some(number) = number_of(self, conversation)? {
            number
        } else {
            let sql = "insert into entries_fts_conversations (conversation_id) values ($1)";
            run(self, sql, &[conversation.as_str().into()])?;
            self.last_insert_rowid()
        };
        let row = row_number(number, position);
        run(self, "insert into entries_fts (rowid, words) values ($1, $2)", &[row, words.join(" ").into()])
            .map(|_| ())
    }

    async fn unindex(&mut self, conversation: &ConversationId, position: u64) -> Result<(), StoreError> {
        let Some(number) = number_of(self, conversation)? else { return Ok(()) };
        let row = row_number(number, position);
        run(self, "delete from entries_fts where rowid = $1", &[row]).map(|_| ())
    }

    async fn find(&mut self, wanted: &Wanted) -> Result<Vec<Candidate>, StoreError> {
        // The words are letters, digits and underscores, and in quotes they are nothing but words.
        let word = |(word, prefix): &(String, bool)| format!("\"{word}\"{}", if *prefix { " *" } else { "" });
        let mut matching = wanted.all.iter().map(word).collect::<Vec<_>>().join(" AND ");
        for excluded in &wanted.none {
            matching = format!("({matching}) NOT {}", word(excluded));
        }
        let (demands, mut values) = conversation_demands(wanted, 2);
        values.insert(0, matching.into());
        let sql = format!(
            "select m.conversation_id, entries_fts.rowid & 4294967295 from entries_fts \
             join entries_fts_conversations m on m.number = entries_fts.rowid >> {POSITION_BITS} \
             join conversations c on c.id = m.conversation_id \
             where entries_fts match $1 and {demands} order by entries_fts.rowid desc limit {}",
            wanted.limit
        );
        let candidate = |cells: Vec<Value>| match cells.as_slice() {
            [Value::Text(conversation), Value::Int(position)] => {
                let conversation = ConversationId::stored(conversation.clone());
                Some(Candidate { conversation, position: *position as u64 })
            }
            _ => None,
        };
        Ok(ask(self, &sql, &values)?.into_iter().filter_map(candidate).collect())
    }
}

/// The number of an entry's row in the index of words; positions are below 2^32.
fn row_number(conversation: i64, position: u64) -> Value {
    Value::Int(conversation << POSITION_BITS | i64::from(position as u32))
}

fn number_of(connection: &Connection, conversation: &ConversationId) -> Result<Option<i64>, StoreError> {
    let sql = "select number from entries_fts_conversations where conversation_id = $1";
    let found = ask(connection, sql, &[conversation.as_str().into()])?;
    Ok(found.first().and_then(|cells| match cells.first() {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    }))
}

fn run(connection: &Connection, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(&numbered(sql)).map_err(|error| failed(&error))?;
    let changed = statement.execute(params_from_iter(values)).map_err(|error| failed(&error))?;
    Ok(changed as u64)
}

fn ask(connection: &Connection, sql: &str, values: &[Value]) -> Result<Vec<Vec<Value>>, StoreError> {
    let mut statement = connection.prepare_cached(&numbered(sql)).map_err(|error| failed(&error))?;
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(values)).map_err(|error| failed(&error))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(|error| failed(&error))? {
        let cells = (0..columns).map(|column| row.get_ref(column).map(value)).collect::<Result<_, _>>();
        found.push(cells.map_err(|error| failed(&error))?);
    }
    Ok(found)
}
