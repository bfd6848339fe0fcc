//! Rows over SQL, written once for both databases.
//!
//! Statements are made from the columns a table has; what the databases do differently (locks, full text) is asked of
//! [`Sql`]. Values are always bound, never spelled; the words that are spelled were known when the program was written.

use std::fmt::Write;
use std::future::Future;

use scrollback_core::Link;

use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::{Blob, Rows};
use crate::search::{Candidate, Wanted};
use crate::table::{Cells, Demand, Scan, Table, Value};

/// A connection that is inside a transaction.
pub(crate) trait Sql: Send {
    /// What makes a select keep others from writing the rows it finds.
    const LOCKING: &'static str;

    /// The columns of a table as this database keeps them, and how many of the first identify a row.
    fn kept<T: Table>() -> (&'static [&'static str], usize) {
        (T::COLUMNS, T::KEY)
    }

    /// Rows, or keys of rows, as this database keeps them.
    fn pack<T: Table>(
        &mut self,
        rows: Vec<Vec<Value>>,
    ) -> impl Future<Output = Result<Vec<Vec<Value>>, StoreError>> + Send {
        async move { Ok(rows) }
    }

    /// Rows as the engine knows them.
    fn unpack<T: Table>(
        &mut self,
        rows: Vec<Vec<Value>>,
    ) -> impl Future<Output = Result<Vec<Vec<Value>>, StoreError>> + Send {
        async move { Ok(rows) }
    }

    /// A scan over the columns as this database keeps them.
    fn narrow<T: Table>(&mut self, scan: Scan) -> impl Future<Output = Result<Scan, StoreError>> + Send {
        async move { Ok(scan) }
    }

    /// Runs a statement; how many rows it changed. Parameters are `$1`, `$2`, …
    fn run(&mut self, sql: &str, values: Vec<Value>) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Runs one statement with many rows of parameters.
    fn run_each(
        &mut self,
        sql: &str,
        rows: Vec<Vec<Value>>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The rows a query gives.
    fn ask(
        &mut self,
        sql: &str,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Vec<Value>>, StoreError>> + Send;

    fn lock_name(&mut self, name: &str) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &[String],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn unindex(
        &mut self,
        conversation: &ConversationId,
        position: u64,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    fn find(&mut self, wanted: &Wanted) -> impl Future<Output = Result<Vec<Candidate>, StoreError>> + Send;
}

/// Column names as SQL, each in quotes: some are words of the language.
fn list(columns: &[&str]) -> String {
    columns.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ")
}

fn marks(count: usize) -> String {
    (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

fn key_demand<S: Sql, T: Table>() -> String {
    let (columns, key) = S::kept::<T>();
    let equal = |(number, column): (usize, &&str)| format!("\"{column}\" = ${}", number + 1);
    columns.iter().take(key).enumerate().map(equal).collect::<Vec<_>>().join(" and ")
}

fn select<S: Sql, T: Table>() -> String {
    format!("select {} from {}", list(S::kept::<T>().0), T::NAME)
}

fn insert<S: Sql, T: Table>() -> String {
    let columns = S::kept::<T>().0;
    format!("insert into {} ({}) values ({})", T::NAME, list(columns), marks(columns.len()))
}

fn upsert<S: Sql, T: Table>() -> String {
    let (columns, key) = S::kept::<T>();
    let (key, rest) = columns.split_at(key);
    let set = |column: &&str| format!("\"{column}\" = excluded.\"{column}\"");
    let set = rest.iter().map(set).collect::<Vec<_>>().join(", ");
    format!("{} on conflict ({}) do update set {set}", insert::<S, T>(), list(key))
}

/// The only one of several rows.
fn one(mut rows: Vec<Vec<Value>>) -> Vec<Value> {
    rows.pop().unwrap_or_default()
}

/// The conditions of a scan as SQL, and the values they bind.
fn conditions(scan: &Scan) -> (String, Vec<Value>) {
    let mut values: Vec<Value> = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    let mut bind = |value: &Value| {
        values.push(value.clone());
        format!("${}", values.len())
    };
    for demand in &scan.demands {
        parts.push(match demand {
            Demand::Equal(column, value) => format!("\"{column}\" = {}", bind(value)),
            Demand::Is(column, word) => format!("\"{column}\" = '{word}'"),
            Demand::IsNumber(column, number) => format!("\"{column}\" = {number}"),
            Demand::Below(column, value) => format!("\"{column}\" < {}", bind(value)),
            Demand::From(column, value) => format!("\"{column}\" >= {}", bind(value)),
            Demand::Absent(column) => format!("\"{column}\" is null"),
            Demand::Present(column) => format!("\"{column}\" is not null"),
        });
    }
    if let Some(after) = &scan.after {
        let sign = if scan.descending { "<" } else { ">" };
        let bound = after.iter().map(bind).collect::<Vec<_>>().join(", ");
        parts.push(format!("({}) {sign} ({bound})", list(&scan.order)));
    }
    let text = if parts.is_empty() { String::new() } else { format!(" where {}", parts.join(" and ")) };
    (text, values)
}

impl<S: Sql> Rows for S {
    async fn get<T: Table>(&mut self, key: Vec<Value>) -> Result<Option<T>, StoreError> {
        let sql = format!("{} where {}", select::<S, T>(), key_demand::<S, T>());
        let key = one(self.pack::<T>(vec![key]).await?);
        let found = self.ask(&sql, key).await?;
        let found = self.unpack::<T>(found).await?.pop();
        found.map(|cells| T::read(Cells::new(T::NAME, cells))).transpose()
    }

    async fn put<T: Table + Sync>(&mut self, row: &T) -> Result<(), StoreError> {
        let cells = one(self.pack::<T>(vec![row.cells()]).await?);
        self.run(&upsert::<S, T>(), cells).await.map(|_| ())
    }

    async fn change<T: Table + Sync>(&mut self, before: &T, after: &T) -> Result<(), StoreError> {
        let (before, after) = (before.cells(), after.cells());
        let (mut set, mut values) = (Vec::new(), after.iter().take(T::KEY).cloned().collect::<Vec<_>>());
        for ((column, old), new) in T::COLUMNS.iter().zip(&before).zip(after).skip(T::KEY) {
            if *old != new {
                values.push(new);
                set.push(format!("\"{column}\" = ${}", values.len()));
            }
        }
        if set.is_empty() {
            return Ok(());
        }
        let sql = format!("update {} set {} where {}", T::NAME, set.join(", "), key_demand::<S, T>());
        self.run(&sql, values).await.map(|_| ())
    }

    async fn add<T: Table + Sync>(&mut self, rows: &[T]) -> Result<(), StoreError> {
        let rows = self.pack::<T>(rows.iter().map(Table::cells).collect()).await?;
        self.run_each(&insert::<S, T>(), rows).await
    }

    async fn remove<T: Table>(&mut self, key: Vec<Value>) -> Result<(), StoreError> {
        let sql = format!("delete from {} where {}", T::NAME, key_demand::<S, T>());
        let key = one(self.pack::<T>(vec![key]).await?);
        self.run(&sql, key).await.map(|_| ())
    }

    async fn scan<T: Table>(&mut self, scan: Scan) -> Result<Vec<T>, StoreError> {
        let scan = self.narrow::<T>(scan).await?;
        let (conditions, values) = conditions(&scan);
        let mut sql = format!("{}{conditions}", select::<S, T>());
        if !scan.order.is_empty() {
            let way = if scan.descending { " desc" } else { "" };
            let order: Vec<String> = scan.order.iter().map(|column| format!("\"{column}\"{way}")).collect();
            let _ = write!(sql, " order by {}", order.join(", "));
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
        let (conditions, values) = conditions(&scan);
        let sql = format!("select count(*) from {}{conditions}", T::NAME);
        let found = self.ask(&sql, values).await?.pop().unwrap_or_default();
        Cells::new(T::NAME, found).number()
    }

    async fn lock(&mut self, conversation: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let columns = list(Conversation::COLUMNS);
        let sql = format!("select {columns} from conversations where \"id\" = $1{}", S::LOCKING);
        let found = self.ask(&sql, vec![conversation.as_str().into()]).await?.pop();
        found.map(|cells| Conversation::read(Cells::new(Conversation::NAME, cells))).transpose()
    }

    async fn lock_name(&mut self, name: &str) -> Result<(), StoreError> {
        Sql::lock_name(self, name).await
    }

    async fn refer(&mut self, blob: &Blob) -> Result<(), StoreError> {
        let sql = format!(
            "{} on conflict (\"tenant\", \"hash\") do update set \"refs\" = blobs.\"refs\" + 1",
            insert::<S, Blob>()
        );
        self.run(&sql, Blob { refs: 1, ..blob.clone() }.cells()).await.map(|_| ())
    }

    async fn release(&mut self, tenant: &Tenant, hash: &Link) -> Result<(), StoreError> {
        let key = || vec![Value::from(tenant.as_str()), Value::from(hash)];
        self.run("update blobs set refs = refs - 1 where tenant = $1 and hash = $2", key()).await?;
        self.run("delete from blobs where tenant = $1 and hash = $2 and refs <= 0", key()).await.map(|_| ())
    }

    async fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &[String],
    ) -> Result<(), StoreError> {
        Sql::index(self, conversation, position, words).await
    }

    async fn unindex(&mut self, conversation: &ConversationId, position: u64) -> Result<(), StoreError> {
        Sql::unindex(self, conversation, position).await
    }

    async fn find(&mut self, wanted: &Wanted) -> Result<Vec<Candidate>, StoreError> {
        Sql::find(self, wanted).await
    }
}

/// The demands on the conversations of candidates, from parameter number `from` on. Columns are those of `c`.
pub(crate) fn conversation_demands(wanted: &Wanted, from: usize) -> (String, Vec<Value>) {
    let mut text = format!("c.tenant = ${from}");
    let mut values = vec![Value::from(wanted.tenant.as_str())];
    let equal = [("c.recipient", &wanted.recipient), ("c.id", &wanted.conversation)];
    for (column, value) in equal.into_iter().filter_map(|(column, value)| Some((column, value.as_ref()?))) {
        values.push(value.as_str().into());
        let _ = write!(text, " and {column} = ${}", from + values.len() - 1);
    }
    if let Some(status) = wanted.status {
        // Unset reads idle. The word is one of four that are known.
        let _ = write!(text, " and coalesce(c.status, 'idle') = '{status}'");
    }
    (text, values)
}
