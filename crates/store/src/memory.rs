//! The store in memory: for tests, and for records that need not last. A model of what the databases must do, with none of
//! their code.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use imbl::OrdMap;
use scrollback_core::Link;
use scrollback_core::recall::found::Extent;

use crate::backend::{Again, Backend, TxJob, Whose};
use crate::conversation::Conversation;
use crate::engine::copy;
use crate::error::{ErrorKind, StoreError, StoreResult};
use crate::id::{ConversationId, Recipient, Tenant};
use crate::rows::{Blob, Rows};
use crate::search::{SearchCandidate, WordQuery};
use crate::store::BoxFuture;
use crate::table::{Cells, ColumnValue, Demand, Scan, Table};

/// A store that lives as long as its process.
///
/// ```
/// use scrollback_core::{Entry, Role, Time};
/// use scrollback_store::{Expected, Memory, NewEntry, Recipient, RecordsExt, Store, Tenant};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store: Box<dyn Store> = Box::new(Memory::new());
/// let (tenant, anna, now) = (Tenant::default(), Recipient::parse("anna")?, Time(0));
/// let said = NewEntry::evaluation([Entry::text(Role::User, "hello")], now);
/// let appended = store.append_for(&tenant, now, &anna, Expected::Any, said).await?;
/// assert_eq!((appended.first, appended.last), (0, 0));
/// assert_eq!(store.record(&tenant, &appended.conversation, None).await?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Memory {
    state: Mutex<Tables>,
    faults: Mutex<Faults>,
}

/// What is wrong with a store in memory, so that programs can be tested with a store that fails.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// What every write is answered with. One that is [`Unknown`](ErrorKind::Unknown) is done all the same, as in a log whose
    /// sync failed: readers see it, and it may be gone after a crash.
    pub writes: Option<ErrorKind>,
    /// Why the database does not hold the program to one tenant's rows.
    pub missing_wall: Option<String>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Memory::default()
    }

    /// Something is wrong from now on, or no longer.
    pub fn fail(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    fn faults(&self) -> Faults {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// All rows, by table and key. A copy costs nothing, so a transaction is a copy that takes the original's place.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    rows: OrdMap<(&'static str, Vec<ColumnValue>), Vec<ColumnValue>>,
    words: OrdMap<(String, u64), String>,
}

/// Runs a future that never waits.
pub(crate) fn finish<T>(mut work: BoxFuture<'_, StoreResult<T>>) -> Result<T, StoreError> {
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(StoreError::new(ErrorKind::Io, "an embedded store had to wait")),
    }
}

impl Backend for Memory {
    type Rows = Tables;

    fn place(&self) -> String {
        "memory".into()
    }

    fn write<T: Send + 'static>(&self, _: Whose, mut job: Again<Tables, T>) -> BoxFuture<'_, StoreResult<T>> {
        let fault = self.faults().writes;
        let mut run = || {
            let failed = |kind| StoreError::new(kind, "the store was asked to fail");
            if let Some(kind) = fault.filter(|kind| *kind != ErrorKind::Unknown) {
                return Err(failed(kind));
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let mut copy = state.clone();
            let done = finish(job(&mut copy))?;
            *state = copy;
            fault.map_or(Ok(done), |kind| Err(failed(kind)))
        };
        let done = run();
        Box::pin(async move { done })
    }

    fn read<T: Send + 'static>(&self, _: Whose, job: TxJob<Tables, T>) -> BoxFuture<'_, StoreResult<T>> {
        let mut copy = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move { finish(job(&mut copy)) })
    }

    fn missing_wall(&self) -> BoxFuture<'_, StoreResult<Option<String>>> {
        let missing = self.faults().missing_wall;
        Box::pin(async move { Ok(missing) })
    }

    fn copy_to(&self, path: &Path) -> BoxFuture<'_, StoreResult<()>> {
        let path = path.to_path_buf();
        Box::pin(async move {
            let tables = self.read(Whose::All, Box::new(|rows| Box::pin(copy::read(rows)))).await?;
            copy::into_file(&path, tables).await
        })
    }
}

fn column<T: Table>(name: &str) -> usize {
    T::COLUMNS.iter().position(|column| *column == name).unwrap_or(usize::MAX)
}

fn meets<T: Table>(cells: &[ColumnValue], demand: &Demand) -> bool {
    let cell = |name: &str| cells.get(column::<T>(name)).unwrap_or(&ColumnValue::Null);
    match demand {
        Demand::Equal(name, value) => cell(name) == value,
        Demand::Is(name, word) => *cell(name) == ColumnValue::from(*word),
        Demand::IsNumber(name, number) => *cell(name) == ColumnValue::Int(*number),
        Demand::Below(name, value) => *cell(name) != ColumnValue::Null && cell(name) < value,
        Demand::From(name, value) => *cell(name) != ColumnValue::Null && cell(name) >= value,
        Demand::Absent(name) => *cell(name) == ColumnValue::Null,
        Demand::Present(name) => *cell(name) != ColumnValue::Null,
    }
}

impl Tables {
    /// The rows that meet demands, by key. What the first columns of the key must be narrows the search.
    fn meeting<T: Table>(&self, scan: &Scan) -> Vec<Vec<ColumnValue>> {
        let mut start = Vec::new();
        for name in T::COLUMNS.iter().take(T::KEY) {
            let equal = scan.demands.iter().find_map(|demand| match demand {
                Demand::Equal(column, value) if column == name => Some(value),
                _ => None,
            });
            match equal {
                Some(value) => start.push(value.clone()),
                None => break,
            }
        }
        let known = start.len();
        self.rows
            .range((T::NAME, start.clone())..)
            .take_while(|((table, key), _)| *table == T::NAME && key.get(..known) == Some(start.as_slice()))
            .filter(|(_, cells)| scan.demands.iter().all(|demand| meets::<T>(cells, demand)))
            .map(|(_, cells)| cells.clone())
            .collect()
    }
}

impl Rows for Tables {
    async fn get<T: Table>(&mut self, key: Vec<ColumnValue>) -> Result<Option<T>, StoreError> {
        let cells = self.rows.get(&(T::NAME, key)).cloned();
        cells.map(|cells| T::read(Cells::new(T::NAME, cells))).transpose()
    }

    async fn changed<T: Table>(&mut self) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn put<T: Table + Sync>(&mut self, row: &T) -> Result<(), StoreError> {
        self.rows.insert((T::NAME, row.key()), row.cells());
        Ok(())
    }

    async fn change<T: Table + Sync>(&mut self, _: &T, after: &T) -> Result<(), StoreError> {
        self.put(after).await
    }

    async fn add<T: Table + Sync>(&mut self, rows: &[T]) -> Result<(), StoreError> {
        for row in rows {
            if self.rows.insert((T::NAME, row.key()), row.cells()).is_some() {
                let message = format!("a row of {} exists", T::NAME);
                return Err(StoreError::new(ErrorKind::Exists, message));
            }
        }
        Ok(())
    }

    async fn remove<T: Table>(&mut self, key: Vec<ColumnValue>) -> Result<(), StoreError> {
        self.rows.remove(&(T::NAME, key));
        Ok(())
    }

    async fn scan<T: Table>(&mut self, scan: Scan) -> Result<Vec<T>, StoreError> {
        let order: Vec<usize> = scan.order.iter().map(|name| column::<T>(name)).collect();
        let place = |cells: &Vec<ColumnValue>| -> Vec<ColumnValue> {
            order.iter().map(|at| cells.get(*at).cloned().unwrap_or(ColumnValue::Null)).collect()
        };
        let mut found = self.meeting::<T>(&scan);
        if let Some(after) = &scan.after {
            found.retain(|cells| if scan.descending { place(cells) < *after } else { place(cells) > *after });
        }
        found.sort_by_key(|cells| place(cells));
        if scan.descending {
            found.reverse();
        }
        found.truncate(scan.limit.unwrap_or(usize::MAX));
        found.into_iter().map(|cells| T::read(Cells::new(T::NAME, cells))).collect()
    }

    async fn count<T: Table>(&mut self, scan: Scan) -> Result<u64, StoreError> {
        Ok(self.meeting::<T>(&scan).len() as u64)
    }

    async fn lock(&mut self, conversation: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        self.get(vec![conversation.as_str().into()]).await
    }

    async fn lock_name(&mut self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn refer(&mut self, blob: &Blob) -> Result<(), StoreError> {
        let known: Option<Blob> = self.get(blob.key()).await?;
        let refs = known.map_or(0, |known| known.refs) + 1;
        self.put(&Blob { refs, ..blob.clone() }).await
    }

    async fn release(&mut self, tenant: &Tenant, hash: &Link) -> Result<Option<u64>, StoreError> {
        let key = vec![tenant.as_str().into(), hash.into()];
        match self.get::<Blob>(key.clone()).await? {
            Some(blob) if blob.refs > 1 => {
                self.put(&Blob { refs: blob.refs - 1, ..blob }).await?;
                Ok(None)
            }
            found => {
                self.remove::<Blob>(key).await?;
                Ok(found.map(|blob| blob.bytes.len() as u64))
            }
        }
    }

    async fn index(
        &mut self,
        conversation: &ConversationId,
        position: u64,
        words: &str,
    ) -> Result<(), StoreError> {
        self.words.insert((conversation.to_string(), position), words.into());
        Ok(())
    }

    async fn unindex(&mut self, conversation: &ConversationId, position: u64) -> Result<(), StoreError> {
        self.words.remove(&(conversation.to_string(), position));
        Ok(())
    }

    async fn extent(&mut self, wanted: &WordQuery) -> Result<Extent, StoreError> {
        let tenant = Scan::new().equal("tenant", wanted.tenant.as_str());
        let mut extent = Extent::default();
        for row in self.scan::<Conversation>(tenant).await? {
            if wanted.recipient.is_none_or_equal(row.recipient.as_ref().map(Recipient::as_str))
                && wanted.project.is_none_or_equal(row.project.as_deref())
            {
                extent.conversations += 1;
                extent.entries += row.head.saturating_sub(row.fork_position.unwrap_or(0));
            }
        }
        Ok(extent)
    }

    async fn find(&mut self, wanted: &WordQuery) -> Result<Vec<SearchCandidate>, StoreError> {
        let mut conversations: BTreeMap<String, Option<Conversation>> = BTreeMap::new();
        let mut found = Vec::new();
        let matching: Vec<(String, u64)> = self
            .words
            .iter()
            .filter(|(_, words)| wanted.is_in(words))
            .map(|(place, _)| place.clone())
            .collect();
        for (id, position) in matching {
            if !conversations.contains_key(&id) {
                let row: Option<Conversation> = self.get(vec![id.as_str().into()]).await?;
                let row = row.filter(|row| {
                    row.tenant == wanted.tenant
                        && wanted.status.is_none_or(|status| row.status() == status)
                        && wanted
                            .conversations
                            .as_ref()
                            .is_none_or(|ids| ids.iter().any(|id| row.id.as_str() == id))
                        && wanted.project.is_none_or_equal(row.project.as_deref())
                        && wanted.recipient.is_none_or_equal(row.recipient.as_ref().map(Recipient::as_str))
                });
                conversations.insert(id.clone(), row);
            }
            if let Some(Some(row)) = conversations.get(&id) {
                found.push(SearchCandidate { conversation: row.id.clone(), position, indexed: true });
            }
        }
        found.reverse();
        found.truncate(wanted.limit);
        Ok(found)
    }
}

/// Whether a wish is met; no wish is.
trait OptionalFilter {
    fn is_none_or_equal(&self, found: Option<&str>) -> bool;
}

impl OptionalFilter for Option<String> {
    fn is_none_or_equal(&self, found: Option<&str>) -> bool {
        self.is_none() || self.as_deref() == found
    }
}
