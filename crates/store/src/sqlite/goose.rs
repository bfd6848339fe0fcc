//! Reading the database of another tool: goose keeps its sessions in one.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use scrollback_core::transcript::GooseRow;

use super::connection::failed;
use crate::error::StoreError;

/// A session of goose: its id, its title, its messages.
pub type GooseSession = (String, Option<String>, Vec<GooseRow>);

/// The sessions in a goose database; none if the file is no database. It is only read.
pub fn read_goose(file: &Path) -> Result<Option<Vec<GooseSession>>, StoreError> {
    use std::io::Read;
    let mut header = [0; 16];
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut header));
    if read.is_err() || &header != b"SQLite format 3\0" {
        return Ok(None);
    }
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| failed(&error))?;
    let sessions = || -> rusqlite::Result<Vec<GooseSession>> {
        let mut listed =
            connection.prepare("select id, description from sessions order by created_at, id")?;
        let found = listed.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        let mut of_session = connection.prepare(
            "select message_id, role, content_json, created_timestamp, metadata_json from messages \
             where session_id = ?1 order by created_timestamp, id",
        )?;
        let mut sessions = Vec::new();
        for title in found {
            let (id, title): (String, Option<String>) = title?;
            let rows = of_session.query_map([&id], |row| {
                Ok(GooseRow {
                    message_id: row.get(0)?,
                    role: row.get(1)?,
                    content_json: row.get(2)?,
                    created: row.get(3)?,
                    metadata_json: row.get(4)?,
                })
            })?;
            sessions.push((id.clone(), title, rows.collect::<Result<_, _>>()?));
        }
        Ok(sessions)
    };
    sessions().map(Some).map_err(|error| failed(&error))
}
