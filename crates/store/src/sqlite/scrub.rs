//! Overwriting what was erased where SQLite still has it: in parts of the index of words, and in the log.
//!
//! Both are done in steps that hold the file's lock for some milliseconds each, so that writers go on meanwhile.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::connection::failed;
use crate::error::StoreError;
use crate::pace::LongWorkStep;

/// How long one step waits for others who write.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the end of the log waits for those who read: writers wait with it, so not long.
const MOMENT: Duration = Duration::from_millis(50);

/// Pages of the index written in one step: some milliseconds.
const PAGES: u32 = 64;

/// The pause before the next try, and the tries before the caller is told that something is left.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
pub(super) const TRIES: usize = 10;

/// Tries once; whether nothing is left.
pub(super) fn scrub(path: &Path) -> Result<bool, StoreError> {
    let run = || -> rusqlite::Result<bool> {
        // A connection of its own: a checkpoint cannot run inside the writer's transaction.
        let connection = Connection::open(path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "secure_delete", true)?;
        merge(&connection)?;
        // Copies most of the log while others write, so that the end of it is quick.
        connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()))?;
        connection.busy_timeout(MOMENT)?;
        let busy: i64 = connection.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get(0))?;
        Ok(busy == 0)
    };
    match run() {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(false),
        other => other.map_err(|error| failed(&error)),
    }
}

/// Merges all parts of the index of words into one: it only marks what was removed until then. A negative number begins a merge
/// of everything, a positive one goes on with it, and a step that writes less than two rows has nothing left to do.
fn merge(connection: &Connection) -> rusqlite::Result<()> {
    let changes = || connection.query_row("select total_changes()", [], |row| row.get::<_, i64>(0));
    let step = |pages: i64| {
        let before = changes()?;
        connection.execute("insert into entries_fts (entries_fts, rank) values ('merge', ?1)", [pages])?;
        Ok::<bool, rusqlite::Error>(changes()? - before >= 2)
    };
    let mut pages = -i64::from(PAGES);
    loop {
        let begun = LongWorkStep::begin();
        if !step(pages)? {
            return Ok(());
        }
        std::thread::sleep(begun.pause());
        pages = i64::from(PAGES);
    }
}
