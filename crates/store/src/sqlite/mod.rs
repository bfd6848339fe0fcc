//! The embedded store: one SQLite file.
//!
//! One thread writes and commits all who wait with one sync; a few threads read, each on a connection of its own. Several
//! processes may use one file on a local disk: every write takes the file's lock before it reads.

mod backup;
mod checkpoints;
mod connection;
mod examine;
mod files;
mod follow;
mod goose;
mod open;
mod places;
mod scrub;
mod wanted;
mod writer;

use std::path::Path;
use std::sync::mpsc::{TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use scrollback_core::Time;

use crate::backend::{Again, Backend, TxJob, Whose, once};
use crate::engine::examine::Examined;
use crate::erasure::Leftover;
use crate::error::{ErrorKind, StoreError, StoreResult};
use crate::size::{Shrunk, Sizes};
use crate::sql::Sql;
use crate::store::BoxFuture;
use crate::table::Cells;
use checkpoints::{Checkpoints, CommitCounter};
use connection::SqliteSession;
use files::Files;
use open::Location;
use wanted::Wanted;
use writer::{BatchLimits, Disk, Queue, WriteJob};

pub use follow::{Follow, Restored, Saved, restore};
pub use goose::{GooseSession, read_goose};
pub use open::{Access, Durability, Options, SCHEMA};

/// Connections that read. More would only wait for the same disk.
const READERS: usize = 4;
/// Connections that search: each takes a core while it does.
const SEARCHERS: usize = 2;
/// How long a search may take.
const SEARCH: Duration = Duration::from_secs(10);

/// A store in a SQLite file, or in memory.
pub struct Sqlite {
    place: String,
    location: Location,
    /// None once the store is closing.
    writer: Option<Queue>,
    /// None for a database in memory, which has one connection.
    readers: Option<Queue>,
    /// Searches have threads of their own, so that nothing else waits behind them.
    searchers: Option<Queue>,
    /// Those that read, then the one that writes.
    threads: Vec<JoinHandle<()>>,
    /// None for a database in memory, or one that is only read, and once the store is closing.
    checkpoints: Option<Checkpoints>,
    /// Gone when the store is closed.
    open: Arc<()>,
}

impl Sqlite {
    /// Opens a file, making it if it is not there. The folder must exist.
    pub fn open(path: &Path, now: Time) -> Result<Self, StoreError> {
        Sqlite::open_with(path, &Options::default(), now)
    }

    /// Opens a file in another way.
    pub fn open_with(path: &Path, options: &Options, now: Time) -> Result<Self, StoreError> {
        let location = Location::File(path.to_path_buf());
        let connection = open::writer(&location, options, now)?;
        let checkpoints = match options.access {
            Access::Write => Some(Checkpoints::start(open::log(path, options)?)?),
            Access::Read => None,
        };
        let counted = checkpoints.as_ref().map_or_else(CommitCounter::nowhere, Checkpoints::counted);
        let (writer, thread) =
            writer::start(connection, disk(path, options)?, counted, BatchLimits::default())?;
        let (searchers, more) = readers(path, SEARCHERS)?;
        let (readers, mut threads) = readers(path, READERS)?;
        threads.extend(more);
        threads.push(thread);
        let place = format!("sqlite:{}", path.display());
        let (writer, readers, searchers) = (Some(writer), Some(readers), Some(searchers));
        Ok(Sqlite { place, location, writer, readers, searchers, threads, checkpoints, open: Arc::new(()) })
    }

    /// A database that lives as long as the value.
    pub fn in_memory(now: Time) -> Result<Self, StoreError> {
        let location = Location::Memory;
        let connection = open::writer(&location, &Options::default(), now)?;
        let (writer, thread) =
            writer::start(connection, None, CommitCounter::nowhere(), BatchLimits::default())?;
        let place = "sqlite::memory:".into();
        let threads = vec![thread];
        let (writer, readers, searchers) = (Some(writer), None, None);
        let open = Arc::new(());
        Ok(Sqlite { place, location, writer, readers, searchers, threads, checkpoints: None, open })
    }

    fn send<T: Send + 'static>(
        queue: Option<&Queue>,
        job: TxJob<SqliteSession, T>,
    ) -> BoxFuture<'static, StoreResult<T>> {
        let (asked, answer) = WriteJob::new(job);
        let gone = || StoreError::new(ErrorKind::Io, "a thread of the store has ended");
        // The caller must not be blocked here: it may be a thread that serves others.
        let sent = queue.ok_or_else(gone).and_then(|queue| {
            queue.try_send(Box::new(asked)).map_err(|error| match error {
                TrySendError::Full(_) => {
                    let message = "too many operations wait for the store; try again in a moment";
                    StoreError::new(ErrorKind::Overloaded, message)
                }
                TrySendError::Disconnected(_) => gone(),
            })
        });
        Box::pin(async move {
            sent?;
            answer.await.map_err(|_| gone())?
        })
    }
}

impl Drop for Sqlite {
    /// Waits for what is under way, then closes the file.
    fn drop(&mut self) {
        // The writer ends last, and finds the log where it can put it away.
        let writer = self.threads.pop();
        self.checkpoints = None;
        self.readers = None;
        self.searchers = None;
        for reader in self.threads.drain(..) {
            let _ = reader.join();
        }
        self.writer = None;
        let _ = writer.map(JoinHandle::join);
    }
}

/// How commits are made to last; not at all where a file is only read, or where the loss is the point.
fn disk(path: &Path, options: &Options) -> Result<Option<Disk>, StoreError> {
    if options.access == Access::Read || options.durability == Durability::Lazy {
        return Ok(None);
    }
    let io =
        |error: std::io::Error| open::at(path, &StoreError::new(ErrorKind::OpenFailed, error.to_string()));
    let (again, options) = (path.to_path_buf(), options.clone());
    let files = Files::of(path).map_err(io)?;
    Ok(Some(Disk { files, reopen: Box::new(move || open::again(&again, &options)) }))
}

fn readers(path: &Path, count: usize) -> Result<(Queue, Vec<JoinHandle<()>>), StoreError> {
    let (queue, waiting) = sync_channel(BatchLimits::default().queue);
    let waiting = Arc::new(Mutex::new(waiting));
    let start = |_| {
        let path = path.to_path_buf();
        writer::read_on(move || open::reader(&path), Arc::clone(&waiting))
    };
    let threads = (0..count).map(start).collect::<Result<_, _>>()?;
    Ok((queue, threads))
}

impl Backend for Sqlite {
    type Rows = SqliteSession;

    fn place(&self) -> String {
        self.place.clone()
    }

    fn write<T: Send + 'static>(
        &self,
        _: Whose,
        job: Again<SqliteSession, T>,
    ) -> BoxFuture<'_, StoreResult<T>> {
        Sqlite::send(self.writer.as_ref(), once(job))
    }

    fn read<T: Send + 'static>(
        &self,
        _: Whose,
        job: TxJob<SqliteSession, T>,
    ) -> BoxFuture<'_, StoreResult<T>> {
        Sqlite::send(self.readers.as_ref().or(self.writer.as_ref()), job)
    }

    fn search<T: Send + 'static>(
        &self,
        _: Whose,
        job: TxJob<SqliteSession, T>,
    ) -> BoxFuture<'_, StoreResult<T>> {
        let wanted = Wanted::until(Instant::now() + SEARCH);
        let watched = wanted.clone();
        let job: TxJob<SqliteSession, T> = Box::new(move |session: &mut SqliteSession| {
            Box::pin(async move {
                session.work_while(Some(watched));
                let found = job(session).await;
                session.work_while(None);
                found
            })
        });
        let found = Sqlite::send(self.searchers.as_ref().or(self.writer.as_ref()), job);
        // Dropped with the future, when the caller stops waiting, also before it was asked for the first time.
        let waits = wanted.guard();
        Box::pin(async move {
            let found = found.await;
            drop(waits);
            found
        })
    }

    fn measure(&self) -> BoxFuture<'_, StoreResult<Sizes>> {
        let asking: TxJob<SqliteSession, Sizes> = Box::new(|session| {
            Box::pin(async move {
                let sql = "select name, sum(pgsize) from dbstat where aggregate = 1 group by name";
                let mut sizes = Sizes::default();
                for row in session.ask(sql, Vec::new()).await? {
                    let mut cells = Cells::new("dbstat", row);
                    let (name, bytes) = (cells.text(), cells.number()?);
                    sizes.add(&name, bytes);
                }
                let (_, free) = pages(session).await?;
                Ok(Sizes { free, ..sizes })
            })
        });
        self.read(Whose::All, asking)
    }

    fn in_use(&self) -> BoxFuture<'_, StoreResult<u64>> {
        let asking: TxJob<SqliteSession, u64> = Box::new(|session| {
            Box::pin(async move {
                let (all, free) = pages(session).await?;
                Ok(all.saturating_sub(free))
            })
        });
        self.read(Whose::All, asking)
    }

    fn give_back(&self, most: u64) -> BoxFuture<'_, StoreResult<Shrunk>> {
        let work: Again<SqliteSession, Shrunk> = Box::new(move |session| {
            let connection = &session.connection;
            let asked =
                |name: &str| connection.query_row(&format!("pragma {name}"), [], |row| row.get::<_, i64>(0));
            let given = || -> rusqlite::Result<Shrunk> {
                // A file of before this was possible keeps its free pages, and fills them again.
                if asked("auto_vacuum")? != INCREMENTAL {
                    return Ok(Shrunk::default());
                }
                let before = asked("freelist_count")?;
                // Each step of the statement gives back one page.
                let mut vacuum = connection.prepare(&format!("pragma incremental_vacuum({most})"))?;
                let mut rows = vacuum.query([])?;
                while rows.next()?.is_some() {}
                let left = asked("freelist_count")?;
                let pages = |count: i64| u64::try_from(count).unwrap_or_default();
                Ok(Shrunk { given: pages(before - left), left: pages(left) })
            };
            let given = given().map_err(|error| connection::failed(&error));
            Box::pin(async move { given })
        });
        self.write(Whose::All, work)
    }

    fn copy_to(&self, path: &Path) -> BoxFuture<'_, StoreResult<()>> {
        let path = path.to_path_buf();
        let job: TxJob<SqliteSession, ()> = Box::new(move |session: &mut SqliteSession| {
            let copied = backup::copy(&session.connection, &path);
            Box::pin(async move { copied })
        });
        Sqlite::send(self.readers.as_ref().or(self.writer.as_ref()), job)
    }

    fn examine_database(&self) -> BoxFuture<'_, StoreResult<Examined>> {
        let Location::File(path) = self.location.clone() else {
            return Box::pin(async { Ok(Examined::default()) });
        };
        let (to, answer) = tokio::sync::oneshot::channel();
        // It takes long, so no thread that others wait for does it.
        let examining = std::thread::Builder::new().name("scrollback-examine".into());
        let started = examining.spawn(move || drop(to.send(examine::examine(&path))));
        Box::pin(async move {
            let gone = || StoreError::new(ErrorKind::Io, "the thread that examines the store has ended");
            started.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        })
    }

    /// Copies that migrations made.
    fn left_elsewhere(&self) -> Vec<Leftover> {
        let Location::File(path) = &self.location else { return Vec::new() };
        let copies = open::copies_of_migrations(path);
        let told = |copy: String| Leftover {
            what: "a copy of the store from before an upgrade".into(),
            place: copy,
            until: "it is deleted; it is of use only to go back to the version before".into(),
        };
        copies.into_iter().map(told).collect()
    }

    /// What was erased stays in the log until a checkpoint overwrites it, and that waits for those who read. They are waited for on
    /// a thread that nothing else needs; the caller is told after a moment whether it is done.
    fn scrub(&self) -> BoxFuture<'_, StoreResult<bool>> {
        let Location::File(path) = self.location.clone() else { return Box::pin(async { Ok(false) }) };
        let (to, answer) = tokio::sync::oneshot::channel();
        let open = Arc::downgrade(&self.open);
        let started = std::thread::Builder::new().name("scrollback-erase".into()).spawn(move || {
            let mut to = Some(to);
            for number in 1_usize.. {
                let tried = scrub::scrub(&path);
                let over = !matches!(tried, Ok(false)) || open.strong_count() == 0;
                if over || number == scrub::TRIES {
                    let _ = to.take().map(|to| to.send(tried));
                }
                if over {
                    return;
                }
                std::thread::sleep(scrub::PAUSE);
            }
        });
        Box::pin(async move {
            let gone = || StoreError::new(ErrorKind::Io, "the thread that erases has ended");
            started.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?.map(|done| !done)
        })
    }
}

/// What `pragma auto_vacuum` says where free pages can be given back one by one.
const INCREMENTAL: i64 = 2;

/// Bytes of all pages, and of those that are free.
async fn pages(session: &mut SqliteSession) -> Result<(u64, u64), StoreError> {
    let sql = "select p.page_count * s.page_size, f.freelist_count * s.page_size \
               from pragma_page_count() p, pragma_page_size() s, pragma_freelist_count() f";
    let mut cells = Cells::new("pages", session.ask(sql, Vec::new()).await?.pop().unwrap_or_default());
    Ok((cells.number()?, cells.number()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_queue_that_is_full_refuses_instead_of_waiting() {
        // Nothing reads this queue.
        let (queue, _kept) = sync_channel(1);
        let ask = || Sqlite::send::<()>(Some(&queue), Box::new(|_| Box::pin(async { Ok(()) })));
        let (_first, second) = (ask(), ask());
        assert!(matches!(second.await, Err(error) if error.kind() == ErrorKind::Overloaded));
    }
}
