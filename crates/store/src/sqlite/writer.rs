//! The one writer of a process: takes what waits, commits it together, then answers each.
//!
//! SQLite writes a commit to the log, and the writer syncs the log itself: SQLite would sync the time of the file with it,
//! which is not needed and takes longer, and it would sync what no caller waits for. So others can read a commit for the
//! moment in which it is synced; no caller was told of it then, and what is written after it is not durable without it.

use std::fs::File;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::checkpoints::CommitCounter;
use super::connection::{SqliteSession, failed};
use crate::backend::TxJob;
use crate::error::{ErrorKind, StoreError};
use crate::memory::finish;

/// What one commit takes at most, so that no caller waits long for others.
pub(super) struct BatchLimits {
    /// Jobs, most of which append one entry or a few.
    pub(super) jobs: usize,
    /// Time spent waiting for others to join; less where the disk is quick.
    pub(super) collecting: Duration,
    /// Jobs that may wait; beyond that, callers are told to come back.
    pub(super) queue: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        BatchLimits { jobs: 256, collecting: Duration::from_millis(2), queue: 10_000 }
    }
}

/// Work that waits for the writer.
pub(super) trait QueuedJob: Send {
    /// Does the work inside the transaction; whether it wants to be committed.
    fn work(&mut self, session: &mut SqliteSession) -> bool;
    /// Answers, once what the work wrote is durable or lost.
    fn answer(self: Box<Self>, commit: Result<(), StoreError>);
}

/// A job, its result, and who waits for it.
pub(super) struct WriteJob<T> {
    job: Option<TxJob<SqliteSession, T>>,
    result: Option<Result<T, StoreError>>,
    to: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send + 'static> WriteJob<T> {
    pub(super) fn new(job: TxJob<SqliteSession, T>) -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (to, answer) = oneshot::channel();
        (WriteJob { job: Some(job), result: None, to }, answer)
    }
}

impl<T: Send + 'static> QueuedJob for WriteJob<T> {
    fn work(&mut self, session: &mut SqliteSession) -> bool {
        let Some(job) = self.job.take() else { return false };
        let result = finish(job(session));
        let done = result.is_ok();
        self.result = Some(result);
        done
    }

    fn answer(self: Box<Self>, commit: Result<(), StoreError>) {
        let result = match (self.result, commit) {
            (Some(Ok(_)) | None, Err(error)) => Err(error),
            (Some(result), _) => result,
            (None, Ok(())) => Err(StoreError::new(ErrorKind::Io, "the writer of the store has ended")),
        };
        // The caller may have left; the work is done all the same.
        let _ = self.to.send(result);
    }
}

/// How commits become durable.
pub(super) enum Log {
    /// By syncing what they were written to.
    File(File),
    /// Not at all: there is no disk, or no caller waits for it.
    Nowhere,
}

impl Log {
    fn sync(&self) -> std::io::Result<()> {
        match self {
            Log::File(file) => file.sync_data().and_then(|()| still_there(file)),
            Log::Nowhere => Ok(()),
        }
    }
}

/// An error if a file has no name any more: the next process that opens the store would not find what was written to it.
#[cfg(unix)]
fn still_there(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    match file.metadata()?.nlink() {
        0 => Err(std::io::Error::other("the log was removed while it was written")),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn still_there(_: &File) -> std::io::Result<()> {
    Ok(())
}

/// The way to the writer. It ends when the last one is dropped.
pub(super) type Queue = SyncSender<Box<dyn QueuedJob>>;

/// Starts the writer on a connection of its own.
pub(super) fn start(
    connection: Connection,
    log: Log,
    counted: CommitCounter,
    limits: BatchLimits,
) -> Result<(Queue, JoinHandle<()>), StoreError> {
    let (queue, waiting) = sync_channel(limits.queue);
    let thread = std::thread::Builder::new()
        .name("scrollback-writer".into())
        .spawn(move || {
            let mut session = SqliteSession::new(connection);
            session.count_waiting();
            let (together, synced_in, poisoned) = (1, Duration::ZERO, None);
            Writer { session, waiting, limits, log, counted, together, synced_in, poisoned }.run();
        })
        .map_err(|error| {
            StoreError::new(ErrorKind::OpenFailed, format!("no thread for the writer: {error}"))
        })?;
    Ok((queue, thread))
}

struct Writer {
    session: SqliteSession,
    waiting: Receiver<Box<dyn QueuedJob>>,
    limits: BatchLimits,
    log: Log,
    /// Commits, for the checkpoint thread.
    counted: CommitCounter,
    /// Jobs of the last commit. Those who waited for it together are likely to come back together.
    together: usize,
    /// What making the last commit durable took. Waiting for company pays only while it is short beside the sync that is
    /// shared.
    synced_in: Duration,
    /// Set when a sync failed: the system may have thrown away what it could not write, so nothing may be acknowledged
    /// through this connection any more.
    poisoned: Option<StoreError>,
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.waiting.recv() {
            self.commit(first);
            // What fails is tried again when more wait, not at once: others may hold the file.
            while self.poisoned.is_none() && self.session.wants_indexing() && self.index().is_ok() {}
        }
    }

    /// Puts waiting words into the index. No caller waits for this, not even for the disk: what a power loss takes of it waits
    /// again, and is found as it is.
    fn index(&mut self) -> Result<(), StoreError> {
        let indexed = self.run_sql("begin immediate");
        let indexed = indexed.and_then(|()| self.session.index_waiting()).and_then(|()| self.end());
        if indexed.is_err() {
            let _ = self.run_sql("rollback");
            self.session.forget();
        }
        indexed
    }

    /// Commits the first job and everything that waits with it.
    fn commit(&mut self, first: Box<dyn QueuedJob>) {
        let patience = Instant::now() + self.limits.collecting.min(self.synced_in / 2);
        let mut done: Vec<Box<dyn QueuedJob>> = Vec::new();
        let mut next = Some(first);
        let mut outcome = match &self.poisoned {
            Some(error) => Err(error.clone()),
            None => self.run_sql("begin immediate"),
        };
        while let Some(mut job) = next.take() {
            if outcome.is_ok() {
                outcome =
                    if done.is_empty() { self.work_first(job.as_mut()) } else { self.work(job.as_mut()) };
            }
            done.push(job);
            let full = done.len() >= self.limits.jobs;
            next = if full || outcome.is_err() { None } else { self.more(done.len(), patience) };
        }
        outcome = outcome.and_then(|()| self.session.write_words()).and_then(|()| self.end());
        if outcome.is_err() {
            let _ = self.run_sql("rollback");
            self.session.forget();
        }
        let began = Instant::now();
        outcome = outcome.and_then(|()| self.log.sync().map_err(|error| self.lost_for_good(&error)));
        self.synced_in = began.elapsed();
        self.together = done.len();
        for job in done {
            job.answer(outcome.clone());
        }
    }

    /// Writes the transaction to the log.
    fn end(&mut self) -> Result<(), StoreError> {
        let commit =
            self.session.connection.prepare_cached("commit").and_then(|mut commit| commit.execute([]));
        self.counted.add();
        commit.map(|_| ()).map_err(|error| self.lost(&error))
    }

    /// What else waits, or comes soon. Only as many are waited for as came together the last time: a single writer is
    /// not slowed down.
    fn more(&self, collected: usize, patience: Instant) -> Option<Box<dyn QueuedJob>> {
        if let Ok(job) = self.waiting.try_recv() {
            return Some(job);
        }
        let left = patience.saturating_duration_since(Instant::now());
        if collected >= self.together || left.is_zero() {
            return None;
        }
        self.waiting.recv_timeout(left).ok()
    }

    /// Does the first job of a commit. If it fails nothing is lost but itself, so the transaction begins anew.
    fn work_first(&mut self, job: &mut dyn QueuedJob) -> Result<(), StoreError> {
        let keep = job.work(&mut self.session);
        self.session.settle(keep);
        if keep { Ok(()) } else { self.run_sql("rollback").and_then(|()| self.run_sql("begin immediate")) }
    }

    /// Does a further job; what a job that fails has written is undone, and the others are not touched.
    fn work(&mut self, job: &mut dyn QueuedJob) -> Result<(), StoreError> {
        self.run_sql("savepoint job")?;
        let keep = job.work(&mut self.session);
        self.session.settle(keep);
        if !keep {
            self.run_sql("rollback to job")?;
        }
        self.run_sql("release job")
    }

    /// A statement that is run again and again.
    fn run_sql(&self, sql: &str) -> Result<(), StoreError> {
        let run = || self.session.connection.prepare_cached(sql)?.execute([]);
        run().map(|_| ()).map_err(|error| failed(&error))
    }

    /// A commit that failed. A full disk has rolled everything back; after any other failure the outcome is unknown.
    fn lost(&mut self, error: &rusqlite::Error) -> StoreError {
        let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        let busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
        if full || busy {
            return failed(error);
        }
        self.lost_for_good(&failed(error))
    }

    /// A disk that failed: nothing is acknowledged any more.
    fn lost_for_good(&mut self, error: &dyn std::fmt::Display) -> StoreError {
        let message = format!("the disk failed ({error}); open the store again to go on");
        self.poisoned = Some(StoreError::new(ErrorKind::Io, message));
        StoreError::new(ErrorKind::Unknown, format!("the disk failed while writing: {error}"))
    }
}

/// Starts a thread that reads, on a connection that is opened when it is first needed.
pub(super) fn read_on(
    open: impl Fn() -> Result<Connection, StoreError> + Send + 'static,
    waiting: Arc<Mutex<Receiver<Box<dyn QueuedJob>>>>,
) -> Result<JoinHandle<()>, StoreError> {
    let next = move || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
    let run = move || {
        let mut opened = None;
        while let Some(mut job) = next() {
            let session = match opened.take().map_or_else(|| open().map(SqliteSession::new), Ok) {
                Ok(session) => opened.insert(session),
                Err(error) => {
                    job.answer(Err(error));
                    continue;
                }
            };
            read_once(session, job.as_mut());
            job.answer(Ok(()));
        }
    };
    let thread = std::thread::Builder::new().name("scrollback-reader".into()).spawn(run);
    thread.map_err(|error| StoreError::new(ErrorKind::OpenFailed, format!("no thread to read: {error}")))
}

/// Reads on one state of the database.
fn read_once(session: &mut SqliteSession, job: &mut dyn QueuedJob) {
    let run = |session: &SqliteSession, sql: &str| session.connection.prepare_cached(sql)?.execute([]);
    let begun = run(session, "begin deferred").is_ok();
    job.work(session);
    if begun {
        let _ = run(session, "commit");
    }
}
