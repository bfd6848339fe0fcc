//! The database of goose: opened only to be read, its rows handed to core's reader.

use std::path::Path;

use scrollback_core::transcript::GooseRow;

use crate::failure::{FAILED, Failure};

/// One session: its id, its title, its messages.
pub(crate) type GooseRows = (String, Option<String>, Vec<GooseRow>);

/// The sessions of a goose database; none if the file is no database.
pub(crate) fn sessions(file: &Path) -> Result<Option<Vec<GooseRows>>, Failure> {
    let sessions = scrollback_store::read_goose(file)
        .map_err(|error| Failure::new(FAILED, error.code(), format!("not a database of goose: {error}")))?;
    Ok(sessions)
}
