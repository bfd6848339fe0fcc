//! Online backup: a consistent copy while writers go on.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::connection::failed;
use super::files::private;
use crate::error::{ErrorKind, StoreError};

/// Pages copied before writers get a turn.
const PAGES: i32 = 1024;

/// Copies the database of a connection into a new file, which only its owner may read.
pub(super) fn copy(from: &Connection, to: &Path) -> Result<(), StoreError> {
    private(to)
        .map_err(|error| StoreError::new(ErrorKind::OpenFailed, format!("{}: {error}", to.display())))?;
    let mut target = Connection::open(to).map_err(|error| failed(&error))?;
    let backup = Backup::new(from, &mut target).map_err(|error| failed(&error))?;
    backup.run_to_completion(PAGES, Duration::ZERO, None).map_err(|error| failed(&error))
}
