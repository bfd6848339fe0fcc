//! One SQLite connection as [`Sql`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, params_from_iter};

use super::places;
use super::wanted::{Wanted, too_long};
use crate::engine::read;
use crate::error::{ErrorKind, StoreError};
use crate::id::ConversationId;
use crate::memory::finish;
use crate::search::{SearchCandidate, WordDemand, WordQuery};
use crate::sql::{Sql, conversation_demands};
use crate::table::{ColumnValue, Scan, Table};

/// A connection and what is remembered while it works.
pub(crate) struct SqliteSession {
    pub(super) connection: Connection,
    /// The conversation whose number was asked for last.
    pub(super) known: Option<(String, i64)>,
    /// What the job at work does to the index of words, by place.
    words: BTreeMap<i64, Words>,
    /// The same of the jobs before it in this transaction.
    kept: BTreeMap<i64, Words>,
    /// How many entries were left waiting for the index since it was last brought up to date.
    waiting: usize,
    /// The words of those that wait, by place, as far as they were seen here.
    unindexed: BTreeMap<i64, String>,
    /// How long the job at work is wanted, if that ends.
    wanted: Option<Wanted>,
}

/// Instructions of SQLite's machine between two looks at whether a search is still wanted: some tens of microseconds.
const STEPS: i32 = 4_000;

/// Entries that wait before their words are put into the index together. Each search reads all of them.
const TOGETHER: usize = 32;

/// Most entries that are put into the index in one transaction, so that an import needs no more memory than other work.
const AT_ONCE: usize = 256;

/// What happens to the words of an entry.
#[derive(Clone, Debug)]
struct Words {
    /// Whether there may be words of it already.
    there: bool,
    /// Its words, if it shall be found.
    new: Option<String>,
}

impl SqliteSession {
    pub(super) fn new(connection: Connection) -> Self {
        let (words, kept, unindexed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        SqliteSession { connection, known: None, words, kept, waiting: 0, unindexed, wanted: None }
    }

    /// Gives up the job at work when it is not wanted any more; none lets it take its time.
    pub(super) fn work_while(&mut self, wanted: Option<Wanted>) {
        let watched = wanted.clone();
        // Without a handler, statements run to their end; that none could be set is told by the check between statements.
        let _ = match watched {
            Some(watched) => self.connection.progress_handler(STEPS, Some(move || watched.is_over())),
            None => self.connection.progress_handler(0, None::<fn() -> bool>),
        };
        self.wanted = wanted;
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
    /// little less than what it writes for many. Only that they wait is written; they follow from the entry.
    pub(super) fn write_words(&mut self) -> Result<(), StoreError> {
        for (place, words) in std::mem::take(&mut self.kept) {
            let key = [ColumnValue::Int(place)];
            if words.there {
                run(&self.connection, "delete from entries_fts where rowid = $1", &key)?;
                run(&self.connection, "delete from waiting where place = $1", &key)?;
                self.unindexed.remove(&place);
            }
            if let Some(words) = words.new {
                run(&self.connection, "insert into waiting (place) values ($1)", &key)?;
                self.unindexed.insert(place, words);
                self.waiting += 1;
            }
        }
        Ok(())
    }

    /// Looks how many entries wait that were left by others.
    pub(super) fn count_waiting(&mut self) {
        let found = ask(&self.connection, "select count(*) from waiting", &[]).unwrap_or_default();
        self.waiting = found.first().and_then(|cells| number(cells)).map_or(0, |waiting| waiting as usize);
    }

    /// Whether so many words wait that they should be put into the index.
    pub(super) fn wants_indexing(&self) -> bool {
        self.waiting >= TOGETHER
    }

    /// Puts the words of the first entries that wait into the index, in order of place: it takes words of one ascending run
    /// together.
    pub(super) fn index_waiting(&mut self) -> Result<(), StoreError> {
        let first = "select place from waiting order by place limit $1";
        let places = ask(&self.connection, first, &[ColumnValue::from(AT_ONCE as u64)])?;
        let places: Vec<i64> = places.iter().filter_map(|cells| number(cells)).collect();
        // More may wait than were counted: other processes leave theirs.
        self.waiting =
            if places.len() < AT_ONCE { 0 } else { self.waiting.max(AT_ONCE + TOGETHER) - AT_ONCE };
        let Some(last) = places.last().copied() else { return Ok(()) };
        for place in places {
            let words = match self.unindexed.remove(&place) {
                Some(words) => words,
                None => self.words_at(place)?,
            };
            let sql = "insert into entries_fts (rowid, words) values ($1, $2)";
            run(&self.connection, sql, &[ColumnValue::Int(place), words.into()])?;
        }
        // Some were put into the index by another process.
        self.unindexed =
            if self.waiting == 0 { BTreeMap::new() } else { self.unindexed.split_off(&(last + 1)) };
        run(&self.connection, "delete from waiting where place <= $1", &[ColumnValue::Int(last)]).map(|_| ())
    }

    /// The words of an entry that another process appended.
    pub(super) fn words_at(&mut self, place: i64) -> Result<String, StoreError> {
        let words = self.whereabouts(place).and_then(|(conversation, position)| {
            finish(Box::pin(read::words_at(self, &conversation, position)))
        });
        match words {
            // Its text cannot be read. After a repair its words have to be written anew (`verify --reindex`).
            Err(error) if error.kind() == ErrorKind::Damaged => Ok(String::new()),
            words => words,
        }
    }

    /// Forgets everything of a transaction that was undone.
    pub(super) fn forget(&mut self) {
        self.words.clear();
        self.kept.clear();
        self.unindexed.clear();
        self.known = None;
    }
}

impl ToSql for ColumnValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            ColumnValue::Null => ValueRef::Null,
            ColumnValue::Int(number) => ValueRef::Integer(*number),
            ColumnValue::Text(text) => ValueRef::Text(text.as_bytes()),
            ColumnValue::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn value(found: ValueRef<'_>) -> ColumnValue {
    match found {
        ValueRef::Null => ColumnValue::Null,
        ValueRef::Integer(number) => ColumnValue::Int(number),
        ValueRef::Real(number) => ColumnValue::Text(number.to_string()),
        ValueRef::Text(text) => ColumnValue::Text(match std::str::from_utf8(text) {
            Ok(text) => text.into(),
            // It was changed behind our back; its hash will tell.
            Err(_) => String::from_utf8_lossy(text).into_owned(),
        }),
        ValueRef::Blob(bytes) => ColumnValue::Bytes(bytes.into()),
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
        Some(ErrorCode::OperationInterrupted) => return too_long(),
        Some(ErrorCode::DiskFull) => ErrorKind::Full,
        _ => ErrorKind::Io,
    };
    let what = match kind {
        ErrorKind::Busy => "another program holds the store locked".to_string(),
        ErrorKind::Full => "the disk is full".to_string(),
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

impl Sql for SqliteSession {
    const MARK: char = '?';
    // The transaction holds the write lock of the whole file from its beginning.
    const LOCKING: &'static str = "";

    fn kept<T: Table>() -> (&'static [&'static str], usize) {
        if places::is_placed::<T>() { (places::COLUMNS, 1) } else { (T::COLUMNS, T::KEY) }
    }

    async fn pack<T: Table>(
        &mut self,
        rows: Vec<Vec<ColumnValue>>,
    ) -> Result<Vec<Vec<ColumnValue>>, StoreError> {
        if places::is_placed::<T>() { self.pack_places(rows) } else { Ok(rows) }
    }

    async fn unpack<T: Table>(
        &mut self,
        rows: Vec<Vec<ColumnValue>>,
    ) -> Result<Vec<Vec<ColumnValue>>, StoreError> {
        if places::is_placed::<T>() { self.unpack_places(rows) } else { Ok(rows) }
    }

    async fn narrow<T: Table>(&mut self, scan: Scan) -> Result<Scan, StoreError> {
        if places::is_placed::<T>() { self.narrow_places(scan) } else { Ok(scan) }
    }

    async fn run(&mut self, sql: &str, values: Vec<ColumnValue>) -> Result<u64, StoreError> {
        run(&self.connection, sql, &values)
    }

    async fn run_each(&mut self, sql: &str, rows: Vec<Vec<ColumnValue>>) -> Result<(), StoreError> {
        rows.iter().try_for_each(|values| run(&self.connection, sql, values).map(|_| ()))
    }

    async fn ask(
        &mut self,
        sql: &str,
        values: Vec<ColumnValue>,
    ) -> Result<Vec<Vec<ColumnValue>>, StoreError> {
        if let Some(wanted) = &self.wanted {
            wanted.check()?;
        }
        ask(&self.connection, sql, &values)
    }

    async fn lock_name(&mut self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &str,
    ) -> Result<(), StoreError> {
        let place = self.place(conversation.as_str(), position)?;
        let there = self.words.get(&place).is_some_and(|words| words.there);
        self.words.insert(place, Words { there, new: Some(words.into()) });
        Ok(())
    }

    async fn unindex(&mut self, conversation: &ConversationId, position: u64) -> Result<(), StoreError> {
        let place = self.place(conversation.as_str(), position)?;
        self.words.insert(place, Words { there: true, new: None });
        Ok(())
    }

    async fn find(&mut self, wanted: &WordQuery) -> Result<Vec<SearchCandidate>, StoreError> {
        // The words are letters, digits and underscores, and in quotes they are nothing but words.
        let word = |(word, prefix): &(String, bool)| format!("\"{word}\"{}", if *prefix { " *" } else { "" });
        let between = if wanted.words == WordDemand::Any { " OR " } else { " AND " };
        let mut matching = wanted.all.iter().map(word).collect::<Vec<_>>().join(between);
        for excluded in &wanted.none {
            matching = format!("({matching}) NOT {}", word(excluded));
        }
        let indexed = if wanted.conversations.is_some() {
            self.find_within(wanted, &matching)?
        } else {
            let (demands, mut values) = conversation_demands(wanted, 2);
            values.insert(0, matching.into());
            let sql = format!(
                "select entries_fts.rowid from entries_fts \
                 join conversations c on c.number = entries_fts.rowid >> 32 \
                 where entries_fts match $1 and {demands} order by entries_fts.rowid desc limit {}",
                wanted.limit
            );
            ask(&self.connection, &sql, &values)?
        };
        let (demands, values) = conversation_demands(wanted, 1);
        let sql = format!(
            "select w.place from waiting w join conversations c on c.number = w.place >> 32 \
             where {demands} order by w.place desc limit {}",
            wanted.limit
        );
        let waiting = ask(&self.connection, &sql, &values)?;
        let mut places: Vec<(i64, bool)> =
            indexed.iter().filter_map(|cells| Some((number(cells)?, true))).collect();
        places.extend(waiting.iter().filter_map(|cells| Some((number(cells)?, false))));
        places.sort_unstable_by(|a, b| b.cmp(a));
        let found = places.into_iter().map(|(place, indexed)| {
            let (conversation, position) = self.whereabouts(place)?;
            Ok(SearchCandidate { conversation, position, indexed })
        });
        found.collect()
    }
}

impl SqliteSession {
    /// The rows of the index in a few conversations, newest first. Each is asked for by the range of its places, so that
    /// what others say in the same words costs nothing.
    fn find_within(
        &mut self,
        wanted: &WordQuery,
        matching: &str,
    ) -> Result<Vec<Vec<ColumnValue>>, StoreError> {
        let (demands, values) = conversation_demands(wanted, 1);
        let sql = format!("select c.number from conversations c where {demands} order by c.number desc");
        let mut found = Vec::new();
        for cells in ask(&self.connection, &sql, &values)? {
            let Some(conversation) = number(&cells).filter(|_| found.len() < wanted.limit) else { break };
            let (first, last) = places::range(conversation);
            let sql = "select rowid from entries_fts where entries_fts match $1 and rowid between $2 and $3 \
                       order by rowid desc limit $4";
            let left = ColumnValue::from((wanted.limit - found.len()) as u64);
            let values = [matching.into(), ColumnValue::Int(first), ColumnValue::Int(last), left];
            found.extend(ask(&self.connection, sql, &values)?);
        }
        Ok(found)
    }
}

/// The number that a row consists of.
fn number(cells: &[ColumnValue]) -> Option<i64> {
    match cells {
        [ColumnValue::Int(number)] => Some(*number),
        _ => None,
    }
}

fn run(connection: &Connection, sql: &str, values: &[ColumnValue]) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(&numbered(sql)).map_err(|error| failed(&error))?;
    let changed = statement.execute(params_from_iter(values)).map_err(|error| failed(&error))?;
    Ok(changed as u64)
}

pub(super) fn ask(
    connection: &Connection,
    sql: &str,
    values: &[ColumnValue],
) -> Result<Vec<Vec<ColumnValue>>, StoreError> {
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
