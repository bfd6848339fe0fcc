//! One SQLite connection as [`Sql`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, params_from_iter};

use super::places;
use crate::error::{ErrorKind, StoreError};
use crate::id::ConversationId;
use crate::search::{Candidate, Wanted};
use crate::sql::{Sql, conversation_demands};
use crate::table::{Scan, Table, Value};

/// A connection and what is remembered while it works.
pub(crate) struct Session {
    pub(super) connection: Connection,
    /// The conversation whose number was asked for last.
    pub(super) known: Option<(String, i64)>,
    /// What the job at work does to the index of words, by place.
    words: BTreeMap<i64, Words>,
    /// The same of the jobs before it in this transaction.
    kept: BTreeMap<i64, Words>,
    /// How many entries were left waiting for the index since it was last brought up to date.
    waiting: usize,
}

/// Entries whose words wait before they are put into the index together. Each search looks through them one by one.
const TOGETHER: usize = 32;

/// Most entries that are put into the index in one transaction, so that an import needs no more memory than anybody else.
const AT_ONCE: usize = 256;

/// What becomes of the words of an entry.
#[derive(Clone, Debug)]
struct Words {
    /// Whether there may be words of it already.
    there: bool,
    /// Its words, if it shall be found.
    new: Option<String>,
}

impl Session {
    pub(super) fn new(connection: Connection) -> Self {
        Session { connection, known: None, words: BTreeMap::new(), kept: BTreeMap::new(), waiting: 0 }
    }

    /// Keeps or forgets what the job at work did to words.
    pub(super) fn settle(&mut self, keep: bool) {
        let words = std::mem::take(&mut self.words);
        if keep {
            self.kept.extend(words);
        } else {
            // A conversation that was begun and undone leaves its number to another.
            self.known = None;
        }
    }

    /// Writes what the jobs of a transaction did to words. New ones wait for the index: what it writes for one entry is
    /// little less than what it writes for many.
    pub(super) fn write_words(&mut self) -> Result<(), StoreError> {
        for (place, words) in std::mem::take(&mut self.kept) {
            if words.there {
                let place = [Value::Int(place)];
                run(&self.connection, "delete from entries_fts where rowid = $1", &place)?;
                run(&self.connection, "delete from waiting_words where place = $1", &place)?;
            }
            if let Some(words) = words.new {
                let sql = "insert into waiting_words (place, words) values ($1, $2)";
                run(&self.connection, sql, &[Value::Int(place), words.into()])?;
                self.waiting += 1;
            }
        }
        Ok(())
    }

    /// Whether so many words wait that they should be put into the index.
    pub(super) fn wants_indexing(&self) -> bool {
        self.waiting >= TOGETHER
    }

    /// Puts the first of the words that wait into the index, in order of place: it takes words of one ascending run together.
    pub(super) fn index_waiting(&mut self) -> Result<(), StoreError> {
        self.waiting = self.waiting.saturating_sub(AT_ONCE);
        let first = "select max(place) from (select place from waiting_words order by place limit $1)";
        let upto = ask(&self.connection, first, &[Value::from(AT_ONCE as u64)])?.pop().unwrap_or_default();
        let sql = "insert into entries_fts (rowid, words) \
                   select place, words from waiting_words where place <= $1 order by place";
        run(&self.connection, sql, &upto)?;
        run(&self.connection, "delete from waiting_words where place <= $1", &upto).map(|_| ())
    }

    /// Forgets everything of a transaction that was undone.
    pub(super) fn forget(&mut self) {
        self.words.clear();
        self.kept.clear();
        self.known = None;
    }
}

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

/// SQLite numbers parameters with a question mark. What is made for every row has one already.
fn numbered(sql: &str) -> Cow<'_, str> {
    if sql.contains('$') { sql.replace('$', "?").into() } else { sql.into() }
}

impl Sql for Session {
    const MARK: char = '?';
    // The transaction holds the write lock of the whole file from its beginning.
    const LOCKING: &'static str = "";

    fn kept<T: Table>() -> (&'static [&'static str], usize) {
        if places::is_placed::<T>() { (places::COLUMNS, 1) } else { (T::COLUMNS, T::KEY) }
    }

    async fn pack<T: Table>(&mut self, rows: Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>, StoreError> {
        if places::is_placed::<T>() { self.pack_places(rows) } else { Ok(rows) }
    }

    async fn unpack<T: Table>(&mut self, rows: Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>, StoreError> {
        if places::is_placed::<T>() { self.unpack_places(rows) } else { Ok(rows) }
    }

    async fn narrow<T: Table>(&mut self, scan: Scan) -> Result<Scan, StoreError> {
        if places::is_placed::<T>() { self.narrow_places(scan) } else { Ok(scan) }
    }

    async fn run(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        run(&self.connection, sql, &values)
    }

    async fn run_each(&mut self, sql: &str, rows: Vec<Vec<Value>>) -> Result<(), StoreError> {
        rows.iter().try_for_each(|values| run(&self.connection, sql, values).map(|_| ()))
    }

    async fn ask(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        ask(&self.connection, sql, &values)
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
        let place = self.place(conversation.as_str(), position)?;
        let there = self.words.get(&place).is_some_and(|words| words.there);
        self.words.insert(place, Words { there, new: Some(words.join(" ")) });
        Ok(())
    }

    async fn unindex(&mut self, conversation: &ConversationId, position: u64) -> Result<(), StoreError> {
        let place = self.place(conversation.as_str(), position)?;
        self.words.insert(place, Words { there: true, new: None });
        Ok(())
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
            "select entries_fts.rowid from entries_fts join conversations c on c.number = entries_fts.rowid >> 32 \
             where entries_fts match $1 and {demands} order by entries_fts.rowid desc limit {}",
            wanted.limit
        );
        let place = |cells: Vec<Value>| match cells.as_slice() {
            [Value::Int(place), ..] => Some(*place),
            _ => None,
        };
        let mut places: Vec<i64> =
            ask(&self.connection, &sql, &values)?.into_iter().filter_map(place).collect();
        places.extend(self.find_waiting(wanted)?);
        places.sort_unstable_by(|a, b| b.cmp(a));
        places.truncate(wanted.limit);
        let found = places.into_iter().map(|place| self.whereabouts(place));
        found
            .map(|found| found.map(|(conversation, position)| Candidate { conversation, position }))
            .collect()
    }
}

impl Session {
    /// The places of entries that have all the words wanted, among those that wait for the index.
    fn find_waiting(&self, wanted: &Wanted) -> Result<Vec<i64>, StoreError> {
        let (demands, values) = conversation_demands(wanted, 1);
        let sql = format!(
            "select w.place, w.words from waiting_words w join conversations c on c.number = w.place >> 32 where {demands}"
        );
        let has = |words: &[&str], (word, prefix): &(String, bool)| {
            words
                .iter()
                .any(|candidate| *candidate == word || *prefix && candidate.starts_with(word.as_str()))
        };
        let fits = |cells: Vec<Value>| match cells.as_slice() {
            [Value::Int(place), Value::Text(text)] => {
                let words: Vec<&str> = text.split(' ').collect();
                let fits = wanted.all.iter().all(|word| has(&words, word))
                    && !wanted.none.iter().any(|word| has(&words, word));
                fits.then_some(*place)
            }
            _ => None,
        };
        Ok(ask(&self.connection, &sql, &values)?.into_iter().filter_map(fits).collect())
    }
}

fn run(connection: &Connection, sql: &str, values: &[Value]) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(&numbered(sql)).map_err(|error| failed(&error))?;
    let changed = statement.execute(params_from_iter(values)).map_err(|error| failed(&error))?;
    Ok(changed as u64)
}

pub(super) fn ask(
    connection: &Connection,
    sql: &str,
    values: &[Value],
) -> Result<Vec<Vec<Value>>, StoreError> {
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
