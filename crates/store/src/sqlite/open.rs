//! Opening a file: only ours, only when it can be kept safely, and never altered when it is refused.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use scrollback_core::Time;

use super::connection::failed;
use super::files::{beside, folder_of, making, private};
use crate::error::{ErrorKind, StoreError};
use crate::id::new_evaluation;

/// Marks a file as ours: `SCRB`.
const APPLICATION_ID: i32 = 0x5343_5242;

/// Older libraries can lose commits when two connections write and checkpoint at once.
const OLDEST_LIBRARY: i32 = 3_051_003;

/// Bytes of a page of a new file. An append writes about ten pages to the log, so larger ones cost time, and save no room.
const PAGE: u32 = 4096;

/// Pages in the log before a commit does the checkpoint itself: only where so much is written that `checkpoints.rs` never reaches the
/// end of it.
const LOG_PAGES: u32 = 32_768;

/// How long a writer waits for another process.
const BUSY: Duration = Duration::from_secs(30);

/// The schema, step by step. A step is never changed once it was released; the next one is added.
const STEPS: [&str; 8] = [
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    include_str!("schema_8.sql"),
];

/// The version of the schema this program writes.
pub const SCHEMA: usize = STEPS.len();

/// How a file is opened. The defaults are the safe ones; the others exist so that trials can show that they matter.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether a commit waits for the disk.
    pub durability: Durability,
    /// Steps of the schema after the known ones.
    pub further_steps: Vec<String>,
    /// Whether the file may be written.
    pub access: Access,
}

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Every commit is synced before it is acknowledged.
    #[default]
    Full,
    /// Syncs are left to checkpoints: a power failure loses acknowledged commits. The failing control of a trial.
    Lazy,
}

/// Whether a file may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Made if it is not there, migrated if it is old.
    #[default]
    Write,
    /// Only read, never migrated.
    Read,
}

/// Where a store lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    Memory,
    File(PathBuf),
}

/// Opens the connection that writes: checks that the file is ours, and brings its schema up to date.
pub(super) fn writer(location: &Location, options: &Options, now: Time) -> Result<Connection, StoreError> {
    if rusqlite::version_number() < OLDEST_LIBRARY {
        let message = format!("SQLite {} can lose commits; 3.51.3 or newer is needed", rusqlite::version());
        return Err(StoreError::new(ErrorKind::OpenFailed, message));
    }
    // One process makes the file or changes its schema, all others wait for it.
    let _making = match location {
        Location::File(path) if options.access == Access::Write && !ready(path, options) => {
            let busy = |()| {
                at(path, &StoreError::new(ErrorKind::Busy, "another program is creating or migrating it"))
            };
            Some(making(path, BUSY).map_err(busy)?)
        }
        _ => None,
    };
    let connection = match location {
        Location::Memory => Connection::open_in_memory().map_err(|error| failed(&error))?,
        Location::File(path) => open_file(path, options)?,
    };
    settle(&connection, options).map_err(|error| failed(&error))?;
    match options.access {
        Access::Write => {
            migrate(&connection, location, options, now)?;
            put_away(&connection).map_err(|error| failed(&error))?;
        }
        Access::Read => current(&connection, options).map_err(|error| unreadable(location, error))?,
    }
    let journal: String = connection
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .map_err(|error| failed(&error))?;
    if let (Location::File(path), Access::Write, false) = (location, options.access, journal == "wal") {
        let message = format!("the file has a journal of kind {journal} and cannot be given a log");
        return Err(at(path, &StoreError::new(ErrorKind::OpenFailed, message)));
    }
    Ok(connection)
}

/// Whether the file's own header says that nothing is to be made: it has a log and the schema of this program.
fn ready(path: &Path, options: &Options) -> bool {
    let Ok(header) = header(path) else { return false };
    let version = header.get(60..64).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
    let wanted = STEPS.len() + options.further_steps.len();
    header.get(18..20) == Some(&[2, 2]) && usize::try_from(version).is_ok_and(|version| version == wanted)
}

/// Copies what the log holds into the file. After a process was killed there may be commits in the log that were never synced;
/// copied and synced, they are as durable as they are visible.
fn put_away(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()))
}

/// Opens the file again after a disk failed, to go on writing to it: what is read must be whole, and what is visible must be
/// durable. A sync that failed may have lost what it was to write, so all of it is written anew.
pub(super) fn again(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let connection = open_file(path, options)?;
    let check = || -> rusqlite::Result<String> {
        settle(&connection, options)?;
        let found = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
        put_away(&connection)?;
        Ok(found)
    };
    match check().map_err(|error| failed(&error))?.as_str() {
        "ok" => Ok(connection),
        found => Err(at(path, &StoreError::damaged(format!("after a disk failure: {found}")))),
    }
}

/// Says what is missing where a file can be opened and not read: readers share a log with writers, which lies beside it.
fn unreadable(location: &Location, error: StoreError) -> StoreError {
    match location {
        Location::File(path) if error.kind() == ErrorKind::OpenFailed => {
            let why = "its folder is not writable, and the log of a store lies beside its file; copy the file to read it";
            at(path, &StoreError::new(ErrorKind::OpenFailed, why))
        }
        _ => error,
    }
}

/// Opens a connection that reads.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| at(path, &failed(&error)))?;
    common(&connection).map_err(|error| failed(&error))?;
    connection.pragma_update(None, "query_only", true).map_err(|error| failed(&error))?;
    Ok(connection)
}

/// Opens a connection that reads everything and may keep tables of its own while it does.
pub(super) fn examiner(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| at(path, &failed(&error)))?;
    common(&connection).map_err(|error| failed(&error))?;
    Ok(connection)
}

/// Opens a connection that puts the log away, beside one that writes and has made the file what it must be.
pub(super) fn log(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| at(path, &failed(&error)))?;
    settle(&connection, options).map_err(|error| failed(&error))?;
    Ok(connection)
}

/// An error with the file it is about.
pub(super) fn at(path: &Path, error: &StoreError) -> StoreError {
    StoreError::new(error.kind(), format!("{}: {error}", path.display()))
}

fn open_file(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let known = path.exists();
    log_of_nothing(path)?;
    if known {
        // Looked at before anything is opened for writing: a foreign file keeps every byte and its time.
        ours(path)?;
    } else if options.access == Access::Read {
        return Err(at(path, &StoreError::new(ErrorKind::OpenFailed, "there is no such file")));
    } else if !folder_of(path).is_dir() {
        let message = format!("the folder {} does not exist", folder_of(path).display());
        return Err(at(path, &StoreError::new(ErrorKind::OpenFailed, message)));
    }
    let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags |= match options.access {
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    if !known {
        private(path)
            .map_err(|error| at(path, &StoreError::new(ErrorKind::OpenFailed, error.to_string())))?;
    }
    let connection = Connection::open_with_flags(path, flags).map_err(|error| at(path, &failed(&error)))?;
    let writable = !connection.is_readonly("main").map_err(|error| at(path, &failed(&error)))?;
    if options.access == Access::Write && !writable {
        return Err(at(path, &StoreError::new(ErrorKind::ReadOnly, "the file cannot be written")));
    }
    Ok(connection)
}

/// Refuses a log whose file is not there, or is empty: SQLite would make a new file and delete the log, and with it what was
/// acknowledged.
fn log_of_nothing(path: &Path) -> Result<(), StoreError> {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let log = beside(path, "-wal");
    // Less than a frame behind its header holds nothing.
    if length(path) > 0 || length(&log) <= 32 + 24 {
        return Ok(());
    }
    let message = format!(
        "the file is missing or empty, and its log {} is there: put the file back beside it, or move the log away",
        log.display()
    );
    Err(at(path, &StoreError::new(ErrorKind::OpenFailed, message)))
}

/// The first bytes of a file, a hundred if it has them.
fn header(path: &Path) -> Result<Vec<u8>, StoreError> {
    use std::io::Read;
    let read = || {
        let mut header = Vec::with_capacity(100);
        std::fs::File::open(path)?.take(100).read_to_end(&mut header)?;
        Ok(header)
    };
    read().map_err(|error: std::io::Error| {
        let reason = error.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default().to_lowercase();
        at(path, &StoreError::new(ErrorKind::OpenFailed, reason))
    })
}

/// Whether an existing file is a store, or still empty. Reads the header itself: opening a file as a database may already
/// write beside it.
fn ours(path: &Path) -> Result<(), StoreError> {
    let header = header(path)?;
    let length = header.len();
    // A process that was killed while making the file leaves it empty, its first pages in the log.
    if length == 0 {
        return Ok(());
    }
    // A power loss at that moment may leave zeros, and beside them the journal by which SQLite makes it empty again.
    if header == [0; 100] && beside(path, "-journal").metadata().is_ok_and(|journal| journal.len() > 0) {
        return Ok(());
    }
    let foreign = |what: &str| Err(at(path, &StoreError::new(ErrorKind::ForeignFile, what)));
    if length < 100 || !header.starts_with(b"SQLite format 3\0") {
        return foreign("this is not a database");
    }
    let id = header.get(68..72).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_be_bytes);
    let empty = header.get(40..44) == Some(&[0; 4]);
    if id == APPLICATION_ID || id == 0 && empty {
        Ok(())
    } else {
        foreign("this database was not created by scrollback")
    }
}

/// The settings of a connection that writes.
fn settle(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    common(connection)?;
    // Means something only before the first table is there.
    connection.pragma_update(None, "page_size", PAGE)?;
    if options.access == Access::Write {
        if connection.query_row("pragma page_count", [], |row| row.get::<_, i64>(0))? == 0 {
            // Room that pruning made can then be given back in small steps, while others write.
            connection.pragma_update(None, "auto_vacuum", "incremental")?;
        }
        // A new file has a journal for a moment. If its removal were not synced too, a power loss could bring it back, and
        // with it the empty file it remembers.
        connection.pragma_update(None, "synchronous", "extra")?;
        connection.query_row("pragma journal_mode = wal", [], |_| Ok(()))?;
    }
    let synchronous = match options.durability {
        Durability::Full => "full",
        Durability::Lazy => "normal",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "secure_delete", true)
}

/// The settings of every connection.
fn common(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(128);
    // A plan does not depend on what is bound; otherwise each statement is compiled anew for each value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

fn version(connection: &Connection) -> Result<usize, StoreError> {
    let version: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| failed(&error))?;
    usize::try_from(version)
        .map_err(|_| StoreError::new(ErrorKind::ForeignFile, "the version of the schema cannot be read"))
}

fn newer(found: usize, known: usize) -> StoreError {
    let message = format!("the store has schema {found}, this program knows {known}; use a newer scrollback");
    StoreError::new(ErrorKind::SchemaNewer, message)
}

/// A file that is only read must be of this version.
fn current(connection: &Connection, options: &Options) -> Result<(), StoreError> {
    let (found, known) = (version(connection)?, STEPS.len() + options.further_steps.len());
    match found.cmp(&known) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(newer(found, known)),
        std::cmp::Ordering::Less => {
            let message =
                format!("the store has schema {found} and may only be read; it must be migrated to {known}");
            Err(StoreError::new(ErrorKind::ReadOnly, message))
        }
    }
}

/// Brings the schema up to date, each step in a transaction of its own. An old file is copied first.
fn migrate(
    connection: &Connection,
    location: &Location,
    options: &Options,
    now: Time,
) -> Result<(), StoreError> {
    let steps: Vec<&str> =
        STEPS.into_iter().chain(options.further_steps.iter().map(String::as_str)).collect();
    let found = version(connection)?;
    if found > steps.len() {
        return Err(newer(found, steps.len()));
    }
    if found > 0 && found < steps.len() {
        keep_a_copy(connection, location, found)?;
    }
    for (number, step) in (1_i64..).zip(&steps).skip(found) {
        let run = || -> rusqlite::Result<()> {
            connection.execute_batch("begin immediate")?;
            // Another process may have been faster.
            let now_at: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if now_at >= number {
                return connection.execute_batch("rollback");
            }
            connection.execute_batch(step)?;
            if number == 1 {
                connection.pragma_update(None, "application_id", APPLICATION_ID)?;
                let facts = [("created_at", now.to_string()), ("store_id", new_evaluation().to_string())];
                for (key, value) in facts {
                    connection.execute("insert into meta (key, value) values (?1, ?2)", [key, &value])?;
                }
            }
            connection.execute(
                "insert into meta (key, value) values ('schema_version', ?1) \
                 on conflict (key) do update set value = excluded.value",
                [number.to_string()],
            )?;
            connection.pragma_update(None, "user_version", number)?;
            connection.execute_batch("commit")
        };
        run().map_err(|error| {
            let _ = connection.execute_batch("rollback");
            failed(&error)
        })?;
    }
    Ok(())
}

/// The names of the copies that migrations of a file left beside it.
pub(super) fn copies_of_migrations(path: &Path) -> Vec<String> {
    let Some((folder, file)) = path.parent().zip(path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(beside) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = beside.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_copy = |name: &String| {
        let version = name.strip_prefix(file).and_then(|rest| rest.strip_prefix(".v")?.strip_suffix(".bak"));
        version
            .is_some_and(|version| !version.is_empty() && version.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let mut copies: Vec<String> = names.filter(is_copy).collect();
    copies.sort();
    copies
}

/// Copies a file to `NAME.v<old>.bak` before it is migrated. A copy that is there was made by a migration that did not
/// finish; it is whole, because it got its name last.
fn keep_a_copy(connection: &Connection, location: &Location, version: usize) -> Result<(), StoreError> {
    let Location::File(path) = location else { return Ok(()) };
    let named = |ending: &str| {
        let mut name = path.as_os_str().to_os_string();
        name.push(ending);
        PathBuf::from(name)
    };
    let (copy, part) = (named(&format!(".v{version}.bak")), named(&format!(".v{version}.part")));
    if copy.exists() {
        return Ok(());
    }
    let io = |error: &std::io::Error| StoreError::new(ErrorKind::Io, format!("{}: {error}", part.display()));
    let _ = std::fs::remove_file(&part);
    super::backup::copy(connection, &part)?;
    std::fs::File::open(&part).and_then(|file| file.sync_all()).map_err(|error| io(&error))?;
    std::fs::rename(&part, &copy).map_err(|error| io(&error))
}
