//! Overwriting what was erased where SQLite still has it: in parts of the index of words, and in the log.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::connection::failed;
use crate::error::StoreError;

/// How long one try waits for others who write.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits for those who read: writers wait with it, so not long.
const MOMENT: Duration = Duration::from_millis(50);

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
        // The index of words only marks what was removed, until its parts are merged.
        connection.execute("insert into entries_fts (entries_fts) values ('optimize')", [])?;
        connection.busy_timeout(MOMENT)?;
        let busy: i64 = connection.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get(0))?;
        Ok(busy == 0)
    };
    match run() {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(false),
        other => other.map_err(|error| failed(&error)),
    }
}
