//! Rows over SQL, written once for both databases.
//!
//! Statements are made from the columns a table has; what the databases do differently (locks, full text) is asked of
//! [`Sql`]. Values are always bound, never spelled; the words that are spelled were known when the program was written.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::Future;
use std::sync::{PoisonError, RwLock};

use scrollback_core::Link;
use scrollback_core::recall::found::Extent;

use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::{Blob, Rows};
use crate::search::{SearchCandidate, WordQuery};
use crate::table::{Cells, ColumnValue, Demand, Scan, Table, digest};

/// A connection that is inside a transaction.
pub(crate) trait Sql: Send {
    /// What stands before the number of a bound value.
    const MARK: char;

    /// What makes a select keep others from writing the rows it finds.
    const LOCKING: &'static str;

    /// The columns of a table as this database keeps them, and how many of the first identify a row.
    fn kept<T: Table>() -> (&'static [&'static str], usize) {
        (T::COLUMNS, T::KEY)
    }

    /// Rows, or keys of rows, as this database keeps them.
    fn pack<T: Table>(
        &mut self,
        rows: Vec<Vec<ColumnValue>>,
    ) -> impl Future<Output = Result<Vec<Vec<ColumnValue>>, StoreError>> + Send {
        async move { Ok(rows) }
    }

    /// Rows as the engine knows them.
    fn unpack<T: Table>(
        &mut self,
        rows: Vec<Vec<ColumnValue>>,
    ) -> impl Future<Output = Result<Vec<Vec<ColumnValue>>, StoreError>> + Send {
        async move { Ok(rows) }
    }

    /// A scan over the columns as this database keeps them.
    fn narrow<T: Table>(&mut self, scan: Scan) -> impl Future<Output = Result<Scan, StoreError>> + Send {
        async move { Ok(scan) }
    }

    /// Runs a statement; how many rows it changed. Parameters are numbers behind [`MARK`](Sql::MARK).
    fn run(
        &mut self,
        sql: &str,
        values: Vec<ColumnValue>,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Runs one statement with many rows of parameters.
    fn run_each(
        &mut self,
        sql: &str,
        rows: Vec<Vec<ColumnValue>>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The rows a query gives.
    fn ask(
        &mut self,
        sql: &str,
        values: Vec<ColumnValue>,
    ) -> impl Future<Output = Result<Vec<Vec<ColumnValue>>, StoreError>> + Send;

    fn lock_name(&mut self, name: &str) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn unindex(
        &mut self,
        conversation: &ConversationId,
        position: u64,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn find(
        &mut self,
        wanted: &WordQuery,
    ) -> impl Future<Output = Result<Vec<SearchCandidate>, StoreError>> + Send;
}

/// The column of the digest of a row.
const DIGEST: &str = "digest";

/// Rows whose digests are checked at a time.
const CHECKED: usize = 2048;

/// A statement that is the same for every row of a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StatementKind {
    /// All rows, to be followed by conditions.
    Select,
    /// One row, by its key.
    Get,
    /// The same, locked against other writers.
    Lock,
    Insert,
    Upsert,
    /// A row that is referred to once more if it is there.
    Refer,
    Remove,
}

/// The text of a statement. Spelling one takes as long as running it, so each is spelled once in the life of the program.
fn text<S: Sql + 'static, T: Table>(kind: StatementKind) -> &'static str {
    type Texts = BTreeMap<(StatementKind, &'static str, TypeId), &'static str>;
    static TEXTS: RwLock<Texts> = RwLock::new(Texts::new());
    let of = (kind, T::NAME, TypeId::of::<S>());
    let known = TEXTS.read().unwrap_or_else(PoisonError::into_inner).get(&of).copied();
    known.unwrap_or_else(|| {
        let made = match kind {
            StatementKind::Select => select::<S, T>(),
            StatementKind::Get => select::<S, T>() + &where_key::<S, T>(),
            StatementKind::Lock => select::<S, T>() + &where_key::<S, T>() + S::LOCKING,
            StatementKind::Insert => insert::<S, T>(),
            StatementKind::Upsert => upsert::<S, T>(),
            StatementKind::Refer => {
                insert::<S, T>()
                    + " on conflict (\"tenant\", \"hash\") do update set \"refs\" = blobs.\"refs\" + 1"
            }
            StatementKind::Remove => format!("delete from {}{}", T::NAME, where_key::<S, T>()),
        };
        let mut texts = TEXTS.write().unwrap_or_else(PoisonError::into_inner);
        texts.entry(of).or_insert_with(|| made.leak())
    })
}

/// Adds items to a statement with something between them.
fn join<T>(
    sql: &mut String,
    between: &str,
    items: impl IntoIterator<Item = T>,
    mut add: impl FnMut(&mut String, T),
) {
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            sql.push_str(between);
        }
        add(sql, item);
    }
}

/// The name of a column, in quotes: some are words of the language.
fn name(sql: &mut String, column: &str) {
    sql.push('"');
    sql.push_str(column);
    sql.push('"');
}

/// The place of a bound value.
fn mark<S: Sql>(sql: &mut String, number: usize) {
    let _ = write!(sql, "{}{number}", S::MARK);
}

fn list(sql: &mut String, columns: &[&str]) {
    join(sql, ", ", columns, |sql, column| name(sql, column));
}

fn where_key<S: Sql, T: Table>() -> String {
    let (columns, key) = S::kept::<T>();
    let mut sql = String::from(" where ");
    join(&mut sql, " and ", columns.iter().take(key).zip(1..), |sql, (column, number)| {
        name(sql, column);
        sql.push_str(" = ");
        mark::<S>(sql, number);
    });
    sql
}

fn select<S: Sql, T: Table>() -> String {
    let mut sql = String::from("select ");
    list(&mut sql, S::kept::<T>().0);
    sql.push_str(" from ");
    sql.push_str(T::NAME);
    sql
}

/// The columns that are written: those of the table, and the digest of a row that has one.
fn written<S: Sql, T: Table>() -> Vec<&'static str> {
    let digest = T::HASHED.then_some(DIGEST);
    S::kept::<T>().0.iter().copied().chain(digest).collect()
}

/// The values of them.
fn sealed<T: Table>(row: &T) -> Vec<ColumnValue> {
    let mut cells = row.cells();
    if T::HASHED {
        cells.push(digest(T::NAME, &cells));
    }
    cells
}

fn insert<S: Sql, T: Table>() -> String {
    let columns = written::<S, T>();
    let mut sql = format!("insert into {} (", T::NAME);
    list(&mut sql, &columns);
    sql.push_str(") values (");
    join(&mut sql, ", ", 1..=columns.len(), mark::<S>);
    sql.push(')');
    sql
}

fn upsert<S: Sql, T: Table>() -> String {
    let columns = written::<S, T>();
    let (key, rest) = columns.split_at(S::kept::<T>().1);
    let mut sql = insert::<S, T>();
    sql.push_str(" on conflict (");
    list(&mut sql, key);
    sql.push_str(") do update set ");
    join(&mut sql, ", ", rest, |sql, column| {
        name(sql, column);
        sql.push_str(" = excluded.");
        name(sql, column);
    });
    sql
}

/// The only one of several rows.
fn one(mut rows: Vec<Vec<ColumnValue>>) -> Vec<ColumnValue> {
    rows.pop().unwrap_or_default()
}

/// Adds the conditions of a scan, and gives the values they bind.
fn conditions<S: Sql>(sql: &mut String, scan: &Scan) -> Vec<ColumnValue> {
    let mut values: Vec<ColumnValue> = Vec::new();
    let mut bind = |sql: &mut String, value: &ColumnValue| {
        values.push(value.clone());
        mark::<S>(sql, values.len());
    };
    let mut before = " where ";
    for demand in &scan.demands {
        sql.push_str(std::mem::replace(&mut before, " and "));
        name(sql, demand.column());
        match demand {
            Demand::Equal(_, value) => {
                sql.push_str(" = ");
                bind(sql, value);
            }
            Demand::Is(_, word) => _ = write!(sql, " = '{word}'"),
            Demand::IsNumber(_, number) => _ = write!(sql, " = {number}"),
            Demand::Below(_, value) => {
                sql.push_str(" < ");
                bind(sql, value);
            }
            Demand::From(_, value) => {
                sql.push_str(" >= ");
                bind(sql, value);
            }
            Demand::Absent(_) => sql.push_str(" is null"),
            Demand::Present(_) => sql.push_str(" is not null"),
        }
    }
    if let Some(after) = &scan.after {
        sql.push_str(before);
        sql.push('(');
        list(sql, &scan.order);
        sql.push_str(if scan.descending { ") < (" } else { ") > (" });
        join(sql, ", ", after, &mut bind);
        sql.push(')');
    }
    values
}

impl<S: Sql + 'static> Rows for S {
    async fn get<T: Table>(&mut self, key: Vec<ColumnValue>) -> Result<Option<T>, StoreError> {
        let key = one(self.pack::<T>(vec![key]).await?);
        let found = self.ask(text::<S, T>(StatementKind::Get), key).await?;
        let found = self.unpack::<T>(found).await?.pop();
        found.map(|cells| T::read(Cells::new(T::NAME, cells))).transpose()
    }

    async fn put<T: Table + Sync>(&mut self, row: &T) -> Result<(), StoreError> {
        let cells = one(self.pack::<T>(vec![sealed(row)]).await?);
        self.run(text::<S, T>(StatementKind::Upsert), cells).await.map(|_| ())
    }

    async fn change<T: Table + Sync>(&mut self, before: &T, after: &T) -> Result<(), StoreError> {
        let (before, after) = (before.cells(), after.cells());
        let mut values = after.iter().take(T::KEY).cloned().collect::<Vec<_>>();
        let columns = T::COLUMNS.iter().zip(&before).zip(after.clone()).skip(T::KEY);
        let sum = digest(T::NAME, &after);
        let mut changed: Vec<(&str, ColumnValue)> =
            columns.filter(|((_, old), new)| *old != new).map(|((column, _), new)| (*column, new)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        if T::HASHED {
            changed.push((DIGEST, sum));
        }
        let mut sql = String::with_capacity(512);
        sql.push_str("update ");
        sql.push_str(T::NAME);
        sql.push_str(" set ");
        join(&mut sql, ", ", changed, |sql, (column, value)| {
            values.push(value);
            name(sql, column);
            sql.push_str(" = ");
            mark::<S>(sql, values.len());
        });
        sql.push_str(&where_key::<S, T>());
        self.run(&sql, values).await.map(|_| ())
    }

    async fn changed<T: Table>(&mut self) -> Result<u64, StoreError> {
        let key: Vec<&str> = T::COLUMNS.iter().take(T::KEY).copied().collect();
        let (mut after, mut wrong) = (None, 0);
        loop {
            let mut sql = String::from("select ");
            list(&mut sql, T::COLUMNS);
            sql.push_str(", \"digest\" from ");
            sql.push_str(T::NAME);
            let scan = Scan::new().ascending(&key).after(after.take());
            let values = conditions::<S>(&mut sql, &scan);
            sql.push_str(" order by ");
            list(&mut sql, &key);
            let _ = write!(sql, " limit {CHECKED}");
            let page = self.ask(&sql, values).await?;
            let full = page.len() == CHECKED;
            for mut cells in page {
                let written = cells.pop().unwrap_or(ColumnValue::Null);
                // A row from before there were digests has none.
                wrong += u64::from(written != ColumnValue::Null && written != digest(T::NAME, &cells));
                cells.truncate(T::KEY);
                after = Some(cells);
            }
            if !full {
                return Ok(wrong);
            }
        }
    }

    async fn add<T: Table + Sync>(&mut self, rows: &[T]) -> Result<(), StoreError> {
        let rows = self.pack::<T>(rows.iter().map(sealed).collect()).await?;
        self.run_each(text::<S, T>(StatementKind::Insert), rows).await
    }

    async fn remove<T: Table>(&mut self, key: Vec<ColumnValue>) -> Result<(), StoreError> {
        let key = one(self.pack::<T>(vec![key]).await?);
        self.run(text::<S, T>(StatementKind::Remove), key).await.map(|_| ())
    }

    async fn scan<T: Table>(&mut self, scan: Scan) -> Result<Vec<T>, StoreError> {
        let scan = self.narrow::<T>(scan).await?;
        let mut sql = String::from(text::<S, T>(StatementKind::Select));
        let values = conditions::<S>(&mut sql, &scan);
        if !scan.order.is_empty() {
            sql.push_str(" order by ");
            join(&mut sql, ", ", &scan.order, |sql, column| {
                name(sql, column);
                sql.push_str(if scan.descending { " desc" } else { "" });
            });
        }
        if let Some(limit) = scan.limit {
            let _ = write!(sql, " limit {limit}");
        }
        let found = self.ask(&sql, values).await?;
        let found = self.unpack::<T>(found).await?;
        found.into_iter().map(|cells| T::read(Cells::new(T::NAME, cells))).collect()
    }

    async fn count<T: Table>(&mut self, scan: Scan) -> Result<u64, StoreError> {
        let scan = self.narrow::<T>(scan).await?;
        let mut sql = format!("select count(*) from {}", T::NAME);
        let values = conditions::<S>(&mut sql, &scan);
        let found = self.ask(&sql, values).await?.pop().unwrap_or_default();
        Cells::new(T::NAME, found).number()
    }

    async fn lock(&mut self, conversation: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let key = vec![conversation.as_str().into()];
        let found = self.ask(text::<S, Conversation>(StatementKind::Lock), key).await?.pop();
        found.map(|cells| Conversation::read(Cells::new(Conversation::NAME, cells))).transpose()
    }

    async fn lock_name(&mut self, name: &str) -> Result<(), StoreError> {
        Sql::lock_name(self, name).await
    }

    async fn refer(&mut self, blob: &Blob) -> Result<(), StoreError> {
        let refer = text::<S, Blob>(StatementKind::Refer);
        self.run(refer, Blob { refs: 1, ..blob.clone() }.cells()).await.map(|_| ())
    }

    async fn release(&mut self, tenant: &Tenant, hash: &Link) -> Result<Option<u64>, StoreError> {
        let key = || vec![ColumnValue::from(tenant.as_str()), ColumnValue::from(hash)];
        self.run("update blobs set refs = refs - 1 where tenant = $1 and hash = $2", key()).await?;
        let sql = "delete from blobs where tenant = $1 and hash = $2 and refs <= 0 returning cast(length(bytes) as bigint)";
        let gone = self.ask(sql, key()).await?.pop();
        gone.map(|cells| Cells::new(Blob::NAME, cells).number()).transpose()
    }

    async fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &str,
    ) -> Result<(), StoreError> {
        Sql::index(self, conversation, position, words).await
    }

    async fn unindex(&mut self, conversation: &ConversationId, position: u64) -> Result<(), StoreError> {
        Sql::unindex(self, conversation, position).await
    }

    async fn extent(&mut self, wanted: &WordQuery) -> Result<Extent, StoreError> {
        let (demands, values) = conversation_demands(wanted, 1);
        let sql = format!(
            "select count(*), cast(coalesce(sum(c.head - coalesce(c.fork_position, 0)), 0) as bigint) \
         from conversations c where {demands}"
        );
        let found = self.ask(&sql, values).await?.pop().unwrap_or_default();
        let mut cells = Cells::new(Conversation::NAME, found);
        Ok(Extent { conversations: cells.number()?, entries: cells.number()? })
    }

    async fn find(&mut self, wanted: &WordQuery) -> Result<Vec<SearchCandidate>, StoreError> {
        Sql::find(self, wanted).await
    }
}

/// The demands on the conversations of candidates, from parameter number `from` on. Columns are those of `c`.
pub(crate) fn conversation_demands(wanted: &WordQuery, from: usize) -> (String, Vec<ColumnValue>) {
    let mut text = format!("c.tenant = ${from}");
    let mut values = vec![ColumnValue::from(wanted.tenant.as_str())];
    let equal = [("c.recipient", &wanted.recipient), ("c.project", &wanted.project)];
    for (column, value) in equal.into_iter().filter_map(|(column, value)| Some((column, value.as_ref()?))) {
        values.push(value.as_str().into());
        let _ = write!(text, " and {column} = ${}", from + values.len() - 1);
    }
    if let Some(ids) = &wanted.conversations {
        text.push_str(" and c.id in (");
        join(&mut text, ", ", ids, |text, id| {
            values.push(id.as_str().into());
            let _ = write!(text, "${}", from + values.len() - 1);
        });
        text.push_str(if ids.is_empty() { "null)" } else { ")" });
    }
    if let Some(status) = wanted.status {
        // Unset reads idle. The word is one of four that are known.
        let _ = write!(text, " and coalesce(c.status, 'idle') = '{status}'");
    }
    (text, values)
}
