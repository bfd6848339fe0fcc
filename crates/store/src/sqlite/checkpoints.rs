//! Puts the log away while others write.
//!
//! A commit goes to the log; sooner or later its pages have to be copied into the file, and synced there. A commit that runs when
//! the log is full does that while all others wait. So most of it is done here before: on a thread of its own,
//! on a connection of its own, without blocking readers or writers.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::error::{ErrorKind, StoreError};

/// Commits after which the log is worth a look: each writes ten pages or so, and looking costs two syncs.
const COMMITS: usize = 128;

/// What the thread is told.
enum Note {
    Look,
    End,
}

/// The thread. It ends when this is dropped.
pub(super) struct Checkpoints {
    notes: SyncSender<Note>,
    thread: Option<JoinHandle<()>>,
}

/// The committing side, which counts.
pub(super) struct CommitCounter {
    notes: Option<SyncSender<Note>>,
    commits: usize,
}

impl Checkpoints {
    /// Starts it, on a connection that may write the file.
    pub(super) fn start(connection: Connection) -> Result<Self, StoreError> {
        let (notes, told) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("scrollback-log".into())
            .spawn(move || put_away(&connection, &told))
            .map_err(|error| {
                StoreError::new(
                    ErrorKind::OpenFailed,
                    format!("cannot start the thread for the log: {error}"),
                )
            })?;
        Ok(Checkpoints { notes, thread: Some(thread) })
    }

    /// For the thread that commits.
    pub(super) fn counted(&self) -> CommitCounter {
        CommitCounter { notes: Some(self.notes.clone()), commits: 0 }
    }
}

fn put_away(connection: &Connection, told: &Receiver<Note>) {
    while let Ok(Note::Look) = told.recv() {
        // What it cannot do now it does the next time.
        let _ = connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()));
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        let _ = self.notes.send(Note::End);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl CommitCounter {
    /// For a database without a log.
    pub(super) fn nowhere() -> Self {
        CommitCounter { notes: None, commits: 0 }
    }

    /// Counts a commit. Never blocks: a thread that is busy with the log will be told again.
    pub(super) fn add(&mut self) {
        self.commits += 1;
        if self.commits >= COMMITS
            && let Some(notes) = &self.notes
        {
            self.commits = 0;
            let _ = notes.try_send(Note::Look);
        }
    }
}
