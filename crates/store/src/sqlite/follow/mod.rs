//! A continuous backup of a file: a snapshot in a folder, and after it a segment for every moment at which something had changed.
//!
//! Each step keeps writers out for as long as it takes to read what they wrote since the last one. Between steps a reader keeps the
//! log from beginning anew before it was read to its end.
//!
//! What was saved is put away into the file at the end of each step, so that the reader then reads the file and not the log: the log can
//! be emptied meanwhile, which is how erasing removes the last copy of what was erased.

mod log;
mod restore;
mod segment;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use scrollback_core::Time;

use super::connection::failed;
use super::files::{Making, making};
use super::open::{self, Options};
use crate::error::{ErrorKind, StoreError};
use log::{Log, Place};
use segment::Header;

pub use restore::{Restored, restore};

/// A backup that follows a store.
pub struct Follow {
    path: PathBuf,
    folder: PathBuf,
    /// Keeps writers out during a step.
    lock: Connection,
    /// Holds what the log must not forget between steps.
    reader: Connection,
    log: Log,
    /// What was taken last.
    last: Option<Taken>,
    /// One backup at a time writes into a folder.
    _alone: Making,
}

/// What was taken last.
struct Taken {
    place: Place,
    generation: u32,
    number: u32,
    hash: String,
}

/// How much of the log is in the backup.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SavedUpTo {
    /// All of it.
    End,
    /// Not all of it, as far as is known.
    Nothing,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Nothing had changed.
    Nothing,
    /// A whole snapshot, of so many pages.
    Snapshot(u32),
    /// A segment of so many pages.
    Segment(u32),
}

impl Follow {
    /// Begins to follow a store into a folder, which is made if it is not there. What is in it already stays.
    pub fn start(path: &Path, folder: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
        let alone = making(&folder.join("backup"), Duration::ZERO).map_err(|()| {
            let message = format!("{}: another backup follows into it", folder.display());
            StoreError::new(ErrorKind::Busy, message)
        })?;
        let options = Options::default();
        let (lock, reader) = (open::log(path, &options)?, open::log(path, &options)?);
        // The first reading makes the index of the log.
        lock.query_row("select count(*) from meta", [], |_| Ok(())).map_err(|error| failed(&error))?;
        let log = Log::open(path).map_err(|error| at(path, &error))?;
        let (path, folder) = (path.to_path_buf(), folder.to_path_buf());
        Ok(Follow { path, folder, lock, reader, log, last: None, _alone: alone })
    }

    /// Saves what changed since the last step. When it returns, what was acknowledged before it began can be restored.
    pub fn step(&mut self, now: Time) -> Result<Saved, StoreError> {
        run(&self.lock, "begin immediate")?;
        let saved = self.taken(now);
        let unlocked = run(&self.lock, "rollback");
        let saved = saved?;
        unlocked?;
        match saved {
            Some(saved) => Ok(saved),
            None => self.snapshot(now),
        }
    }

    /// A segment of what follows the last place; none if there is no last place, or what follows it is gone. No one writes meanwhile.
    fn taken(&mut self, now: Time) -> Result<Option<Saved>, StoreError> {
        let end = self.log.end().map_err(|error| at(&self.path, &error))?;
        let Some(last) = &self.last else { return Ok(None) };
        let Some(from) = last.place.followed_by(&end) else { return Ok(None) };
        let pages = self.log.pages(from, end).map_err(|error| at(&self.path, &error))?;
        let saved = if pages.is_empty() {
            Saved::Nothing
        } else {
            let header = Header {
                generation: last.generation,
                number: last.number + 1,
                at: now.to_string(),
                pages: end.pages,
                page: end.page,
                before: last.hash.clone(),
                body: String::new(),
            };
            let (generation, number) = (header.generation, header.number);
            let hash =
                segment::write(&self.folder, header, &pages).map_err(|error| at(&self.folder, &error))?;
            self.last = Some(Taken { place: end, generation, number, hash });
            Saved::Segment(u32::try_from(pages.len()).unwrap_or(u32::MAX))
        };
        if let Some(last) = &mut self.last {
            last.place = end;
        }
        self.hold(SavedUpTo::End)?;
        Ok(Some(saved))
    }

    /// Reads at the end of the log until the next step. No one writes meanwhile.
    fn hold(&mut self, saved: SavedUpTo) -> Result<(), StoreError> {
        let _ = self.reader.execute_batch("rollback");
        if saved == SavedUpTo::End {
            // What is put away and not read any more may be written over.
            self.reader
                .query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()))
                .map_err(|error| failed(&error))?;
        }
        run(&self.reader, "begin deferred")?;
        self.reader.query_row("select count(*) from meta", [], |_| Ok(())).map_err(|error| failed(&error))
    }

    /// A new snapshot. Others write while it is copied.
    fn snapshot(&mut self, now: Time) -> Result<Saved, StoreError> {
        let folder = self.folder.clone();
        let in_folder = |error: std::io::Error| at(&folder, &error);
        let known = segment::generations(&folder).map_err(in_folder)?;
        let generation = known.last().map_or(1, |last| last + 1);
        run(&self.lock, "begin immediate")?;
        let end = self.log.end();
        let held = self.hold(SavedUpTo::Nothing);
        run(&self.lock, "rollback")?;
        held?;
        let place = end.map_err(|error| at(&self.path, &error))?;
        let part = folder.join("snapshot.part");
        let _ = std::fs::remove_file(&part);
        super::backup::copy(&self.reader, &part)?;
        // The copy has no log of its own, whatever its header says, so the file is all of it.
        let hash = segment::hash_of(&part).map_err(in_folder)?;
        let to = folder.join(segment::snapshot_name(generation));
        let noted = to.with_extension("hash");
        std::fs::write(&noted, format!("{hash} {now}\n")).map_err(in_folder)?;
        std::fs::File::open(&noted).and_then(|file| file.sync_all()).map_err(in_folder)?;
        segment::publish(&part, &to).map_err(in_folder)?;
        self.last = Some(Taken { place, generation, number: 0, hash });
        let pages = self.reader.query_row("pragma page_count", [], |row| row.get(0));
        pages.map(Saved::Snapshot).map_err(|error| failed(&error))
    }
}

fn run(connection: &Connection, sql: &str) -> Result<(), StoreError> {
    connection.execute_batch(sql).map_err(|error| failed(&error))
}

fn at(path: &Path, error: &std::io::Error) -> StoreError {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        std::io::ErrorKind::NotFound => ErrorKind::OpenFailed,
        _ => ErrorKind::Io,
    };
    StoreError::new(kind, format!("{}: {error}", path.display()))
}
