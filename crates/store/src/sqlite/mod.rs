//! The embedded store: one SQLite file.
//!
//! One thread writes and commits all who wait with one sync; a few threads read, each on a connection of its own. Several
//! processes may use one file on a local disk: every write takes the file's lock before it reads.

mod backup;
mod checkpoints;
mod connection;
mod goose;
mod open;
mod places;
mod writer;

use std::path::Path;
use std::sync::mpsc::{TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rusqlite::Connection;
use scrollback_core::Time;

use crate::backend::{Backend, TxJob, Whose};
use crate::error::{ErrorKind, StoreError, StoreResult};
use crate::store::BoxFuture;
use checkpoints::{Checkpoints, CommitCounter};
use connection::SqliteSession;
use open::Location;
use writer::{BatchLimits, Log, Queue, WriteJob};

pub use goose::{GooseSession, read_goose};
pub use open::{Access, Durability, Options, SCHEMA};

/// Connections that read. More would only wait for the same disk.
const READERS: usize = 4;

/// A store in a SQLite file, or in memory.
pub struct Sqlite {
    place: String,
    location: Location,
    /// None once the store is closing.
    writer: Option<Queue>,
    /// None for a database in memory, which has one connection.
    readers: Option<Queue>,
    /// Those that read, then the one that writes.
    threads: Vec<JoinHandle<()>>,
    /// None for a database in memory, or one that is only read, and once the store is closing.
    checkpoints: Option<Checkpoints>,
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
            writer::start(connection, open::synced(path, options)?, counted, BatchLimits::default())?;
        let (readers, mut threads) = readers(path)?;
        threads.push(thread);
        let place = format!("sqlite:{}", path.display());
        Ok(Sqlite { place, location, writer: Some(writer), readers: Some(readers), threads, checkpoints })
    }

    /// A database that lives as long as the value.
    pub fn in_memory(now: Time) -> Result<Self, StoreError> {
        let location = Location::Memory;
        let connection = open::writer(&location, &Options::default(), now)?;
        let (writer, thread) =
            writer::start(connection, Log::Nowhere, CommitCounter::nowhere(), BatchLimits::default())?;
        let place = "sqlite::memory:".into();
        let threads = vec![thread];
        Ok(Sqlite { place, location, writer: Some(writer), readers: None, threads, checkpoints: None })
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
                    let message = "too much waits for the store already; try again in a moment";
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
        for reader in self.threads.drain(..) {
            let _ = reader.join();
        }
        self.writer = None;
        let _ = writer.map(JoinHandle::join);
    }
}

fn readers(path: &Path) -> Result<(Queue, Vec<JoinHandle<()>>), StoreError> {
    let (queue, waiting) = sync_channel(BatchLimits::default().queue);
    let waiting = Arc::new(Mutex::new(waiting));
    let start = |_| {
        let path = path.to_path_buf();
        writer::read_on(move || open::reader(&path), Arc::clone(&waiting))
    };
    let threads = (0..READERS).map(start).collect::<Result<_, _>>()?;
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
        job: TxJob<SqliteSession, T>,
    ) -> BoxFuture<'_, StoreResult<T>> {
        Sqlite::send(self.writer.as_ref(), job)
    }

    fn read<T: Send + 'static>(
        &self,
        _: Whose,
        job: TxJob<SqliteSession, T>,
    ) -> BoxFuture<'_, StoreResult<T>> {
        Sqlite::send(self.readers.as_ref().or(self.writer.as_ref()), job)
    }

    fn copy_to(&self, path: &Path) -> BoxFuture<'_, StoreResult<()>> {
        let path = path.to_path_buf();
        let job: TxJob<SqliteSession, ()> = Box::new(move |session: &mut SqliteSession| {
            let copied = backup::copy(&session.connection, &path);
            Box::pin(async move { copied })
        });
        Sqlite::send(self.readers.as_ref().or(self.writer.as_ref()), job)
    }

    /// What was erased stays in the log until a checkpoint overwrites it.
    fn scrub(&self) -> BoxFuture<'_, StoreResult<()>> {
        let Location::File(path) = self.location.clone() else { return Box::pin(async { Ok(()) }) };
        Box::pin(async move {
            // A connection of its own: a checkpoint cannot run inside the writer's transaction.
            let connection = Connection::open(&path).map_err(|error| connection::failed(&error))?;
            let settle = || -> rusqlite::Result<()> {
                connection.busy_timeout(std::time::Duration::from_secs(5))?;
                connection.pragma_update(None, "secure_delete", true)?;
                // The index of words only marks what was removed, until its parts are merged.
                connection.execute("insert into entries_fts (entries_fts) values ('optimize')", [])?;
                connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))
            };
            settle().map_err(|error| connection::failed(&error))
        })
    }
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
