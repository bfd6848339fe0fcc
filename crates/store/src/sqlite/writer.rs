//! The one writer of a process: takes what waits, commits it together, then answers each.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::connection::failed;
use crate::backend::Job;
use crate::error::{ErrorKind, StoreError};
use crate::memory::finish;

/// What one commit takes at most, so that nobody waits long for others.
pub(super) struct Limits {
    /// Jobs, most of which append one entry or a few.
    pub(super) jobs: usize,
    /// Time spent collecting.
    pub(super) collecting: Duration,
    /// Jobs that may wait; beyond, whoever asks waits to ask.
    pub(super) queue: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { jobs: 256, collecting: Duration::from_millis(2), queue: 10_000 }
    }
}

/// Work that waits for the writer.
pub(super) trait Waiting: Send {
    /// Does the work inside the transaction; whether it wants to be committed.
    fn work(&mut self, connection: &mut Connection) -> bool;
    /// Answers, once what the work wrote is durable or lost.
    fn answer(self: Box<Self>, commit: Result<(), StoreError>);
}

/// A job, its result, and who waits for it.
pub(super) struct Asked<T> {
    job: Option<Job<Connection, T>>,
    result: Option<Result<T, StoreError>>,
    to: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send + 'static> Asked<T> {
    pub(super) fn new(job: Job<Connection, T>) -> (Self, oneshot::Receiver<Result<T, StoreError>>) {
        let (to, answer) = oneshot::channel();
        (Asked { job: Some(job), result: None, to }, answer)
    }
}

impl<T: Send + 'static> Waiting for Asked<T> {
    fn work(&mut self, connection: &mut Connection) -> bool {
        let Some(job) = self.job.take() else { return false };
        let result = finish(job(connection));
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
        // Whoever asked may have left; the work is done all the same.
        let _ = self.to.send(result);
    }
}

/// The way to the writer. It ends when the last one is dropped.
pub(super) type Queue = SyncSender<Box<dyn Waiting>>;

/// Starts the writer on a connection of its own.
pub(super) fn start(connection: Connection, limits: Limits) -> Result<(Queue, JoinHandle<()>), StoreError> {
    let (queue, waiting) = sync_channel(limits.queue);
    let thread = std::thread::Builder::new()
        .name("scrollback-writer".into())
        .spawn(move || Writer { connection, waiting, limits, poisoned: None }.run())
        .map_err(|error| {
            StoreError::new(ErrorKind::OpenFailed, format!("no thread for the writer: {error}"))
        })?;
    Ok((queue, thread))
}

struct Writer {
    connection: Connection,
    waiting: Receiver<Box<dyn Waiting>>,
    limits: Limits,
    /// Set when a sync failed: the system may have thrown away what it could not write, so nothing may be acknowledged
    /// through this connection any more.
    poisoned: Option<StoreError>,
}

impl Writer {
    fn run(mut self) {
        while let Ok(first) = self.waiting.recv() {
            self.commit(first);
        }
    }

    /// Commits the first job and everything that waits with it.
    fn commit(&mut self, first: Box<dyn Waiting>) {
        let begun = Instant::now();
        let mut done: Vec<Box<dyn Waiting>> = Vec::new();
        let mut next = Some(first);
        let mut outcome = match &self.poisoned {
            Some(error) => Err(error.clone()),
            None => self.connection.execute_batch("begin immediate").map_err(|error| failed(&error)),
        };
        while let Some(mut job) = next.take() {
            if outcome.is_ok() {
                self.work(job.as_mut());
            }
            done.push(job);
            let full = done.len() >= self.limits.jobs || begun.elapsed() >= self.limits.collecting;
            next = if full || outcome.is_err() { None } else { self.more() };
        }
        if outcome.is_ok() {
            outcome = self.connection.execute_batch("commit").map_err(|error| self.lost(&error));
        }
        for job in done {
            job.answer(outcome.clone());
        }
    }

    /// What else waits already. Nobody is waited for: whoever writes alone is not slowed down, and while one commit is
    /// under way the next collects by itself.
    fn more(&self) -> Option<Box<dyn Waiting>> {
        self.waiting.try_recv().ok()
    }

    /// Does one job; what a job that fails has written is undone, and the others are not touched.
    fn work(&mut self, job: &mut dyn Waiting) {
        let saved = self.connection.execute_batch("savepoint job").is_ok();
        let keep = job.work(&mut self.connection);
        if saved {
            let end = if keep { "release job" } else { "rollback to job; release job" };
            let _ = self.connection.execute_batch(end);
        }
    }

    /// A commit that failed. A full disk has rolled everything back; after any other failure nobody knows.
    fn lost(&mut self, error: &rusqlite::Error) -> StoreError {
        let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
        let busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
        let _ = self.connection.execute_batch("rollback");
        if full || busy {
            return failed(error);
        }
        self.poisoned = Some(StoreError::new(
            ErrorKind::Io,
            format!("the disk failed ({}); open the store again to go on", failed(error)),
        ));
        StoreError::new(ErrorKind::Unknown, format!("the disk failed while writing: {}", failed(error)))
    }
}

/// Starts a thread that reads, on a connection that is opened when it is first needed.
pub(super) fn read_on(
    open: impl Fn() -> Result<Connection, StoreError> + Send + 'static,
    waiting: Arc<Mutex<Receiver<Box<dyn Waiting>>>>,
) -> Result<JoinHandle<()>, StoreError> {
    let next = move || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
    let run = move || {
        let mut opened = None;
        while let Some(mut job) = next() {
            let connection = match opened.take().map_or_else(&open, Ok) {
                Ok(connection) => opened.insert(connection),
                Err(error) => {
                    job.answer(Err(error));
                    continue;
                }
            };
            read_once(connection, job.as_mut());
            job.answer(Ok(()));
        }
    };
    let thread = std::thread::Builder::new().name("scrollback-reader".into()).spawn(run);
    thread.map_err(|error| StoreError::new(ErrorKind::OpenFailed, format!("no thread to read: {error}")))
}

/// Reads on one state of the database.
fn read_once(connection: &mut Connection, job: &mut dyn Waiting) {
    let begun = connection.execute_batch("begin deferred").is_ok();
    job.work(connection);
    if begun {
        let _ = connection.execute_batch("commit");
    }
}
