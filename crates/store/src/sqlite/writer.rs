//! The one writer of a process: takes what waits, commits it together, then answers each.
//!
//! SQLite writes a commit to the log, syncs the log, and only then shows the commit to those who read: what is visible is
//! durable. Only words on their way into the index are written without a sync.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::checkpoints::CommitCounter;
use super::connection::{SqliteSession, failed};
use super::files::{Files, Missing};
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

/// Opens the store again after the disk failed.
pub(super) type Reopen = Box<dyn Fn() -> Result<Connection, StoreError> + Send>;

/// What a writer needs beside its connection to write a file durably.
pub(super) struct Disk {
    pub(super) files: Files,
    pub(super) reopen: Reopen,
}

/// The way to the writer. It ends when the last one is dropped.
pub(super) type Queue = SyncSender<Box<dyn QueuedJob>>;

/// Starts the writer on a connection of its own.
pub(super) fn start(
    connection: Connection,
    disk: Option<Disk>,
    counted: CommitCounter,
    limits: BatchLimits,
) -> Result<(Queue, JoinHandle<()>), StoreError> {
    let (queue, waiting) = sync_channel(limits.queue);
    let thread = std::thread::Builder::new()
        .name("scrollback-writer".into())
        .spawn(move || {
            let mut session = SqliteSession::new(connection);
            session.count_waiting();
            let (together, written_in, broken) = (1, Duration::ZERO, None);
            Writer { session, waiting, limits, disk, counted, together, written_in, broken }.run();
        })
        .map_err(|error| {
            StoreError::new(ErrorKind::OpenFailed, format!("cannot start the writer thread: {error}"))
        })?;
    Ok((queue, thread))
}

struct Writer {
    session: SqliteSession,
    waiting: Receiver<Box<dyn QueuedJob>>,
    limits: BatchLimits,
    /// None where nothing has to last.
    disk: Option<Disk>,
    /// Commits, for the checkpoint thread.
    counted: CommitCounter,
    /// Jobs of the last commit. Those who waited for it together are likely to come back together.
    together: usize,
    /// What the last commit took. Waiting for company pays only while it is short beside the sync that is shared.
    written_in: Duration,
    /// Set when the disk failed: the file is opened and checked again before anything else is written.
    broken: Option<StoreError>,
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.waiting.recv() {
            self.commit(first);
            // What fails is tried again when more wait, not at once: others may hold the file.
            while self.broken.is_none() && self.session.wants_indexing() && self.index().is_ok() {}
        }
    }

    /// Puts waiting words into the index. No caller waits for this, not even for the disk: what a power loss takes of it waits
    /// again, and is found as it is.
    fn index(&mut self) -> Result<(), StoreError> {
        let durable = self.disk.is_some();
        if durable {
            self.run_sql("pragma synchronous = normal")?;
        }
        let indexed = self.run_sql("begin immediate");
        let indexed = indexed.and_then(|()| self.session.index_waiting()).and_then(|()| self.end());
        if indexed.is_err() {
            let _ = self.run_sql("rollback");
            self.session.forget();
        }
        if durable && let Err(error) = self.run_sql("pragma synchronous = full") {
            // Without it nothing may be acknowledged.
            self.broken = Some(error);
        }
        indexed
    }

    /// Commits the first job and everything that waits with it.
    fn commit(&mut self, first: Box<dyn QueuedJob>) {
        let patience = Instant::now() + self.limits.collecting.min(self.written_in / 2);
        let mut done: Vec<Box<dyn QueuedJob>> = Vec::new();
        let mut next = Some(first);
        let mut outcome = self.ready().and_then(|()| self.run_sql("begin immediate"));
        while let Some(mut job) = next.take() {
            if outcome.is_ok() {
                outcome =
                    if done.is_empty() { self.work_first(job.as_mut()) } else { self.work(job.as_mut()) };
            }
            done.push(job);
            let full = done.len() >= self.limits.jobs;
            next = if full || outcome.is_err() { None } else { self.more(done.len(), patience) };
        }
        let began = Instant::now();
        outcome = outcome.and_then(|()| self.session.write_words()).and_then(|()| self.end());
        if outcome.is_err() {
            let _ = self.run_sql("rollback");
            self.session.forget();
        }
        outcome = outcome.and_then(|()| self.still_there());
        self.written_in = began.elapsed();
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

    /// A commit that failed. What could not be written was undone; of what could not be synced the outcome is unknown.
    fn lost(&mut self, error: &rusqlite::Error) -> StoreError {
        let cause = failed(error);
        if matches!(cause.kind(), ErrorKind::Full | ErrorKind::Busy) {
            return cause;
        }
        if self.disk.as_ref().is_some_and(|disk| disk.files.is_full()) {
            return StoreError::new(ErrorKind::Full, "the disk is full, or a quota is used up");
        }
        let message = format!("the disk failed ({cause}); the store is opened again when it can be");
        self.broken = Some(StoreError::new(ErrorKind::Io, message));
        StoreError::new(ErrorKind::Unknown, format!("the disk failed while writing: {cause}"))
    }

    /// Makes sure that what is written will be found: by the file that was opened, on a disk that works.
    fn ready(&mut self) -> Result<(), StoreError> {
        let Some(disk) = &self.disk else { return Ok(()) };
        match disk.files.missing() {
            Some(Missing::Main) => {
                let message = "the file of the store was removed or replaced while it was open; nothing is written until \
                               it is back in its place";
                return Err(StoreError::new(ErrorKind::Io, message));
            }
            Some(Missing::Log) => {
                // Only this connection has what was acknowledged and not yet in the file.
                let saved = self
                    .session
                    .connection
                    .query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()))
                    .is_ok();
                let saved = if saved { "; what it held is in the file now" } else { "" };
                let message = format!(
                    "the log of the store was removed while it was open{saved}; open it again to go on"
                );
                return Err(StoreError::new(ErrorKind::Io, message));
            }
            None => {}
        }
        if let Some(broken) = &self.broken {
            let connection = (disk.reopen)().map_err(|_| broken.clone())?;
            self.session = SqliteSession::new(connection);
            self.session.count_waiting();
            self.broken = None;
        }
        Ok(())
    }

    /// Whether a commit is where the next process will look for it.
    fn still_there(&self) -> Result<(), StoreError> {
        if self.disk.as_ref().and_then(|disk| disk.files.missing()).is_none() {
            return Ok(());
        }
        let message = "the file of the store or its log was removed or replaced while it was written";
        Err(StoreError::new(ErrorKind::Unknown, message))
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
    thread.map_err(|error| {
        StoreError::new(ErrorKind::OpenFailed, format!("cannot start a reader thread: {error}"))
    })
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
