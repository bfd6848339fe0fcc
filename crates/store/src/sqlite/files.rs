//! The files of a store: whether they are still those that were opened, whether there is room, and who makes them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file that SQLite keeps beside a database.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    name.into()
}

/// The folder a file is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a file to write it; a new one is made so that only its owner may read it. SQLite gives the log and the index beside a
/// database the same rights.
pub(super) fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// What tells a file from another of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map(|file| Identity(file.dev(), file.ino()))
}

/// Elsewhere an open file cannot be removed or renamed.
#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<Identity> {
    std::fs::metadata(path).map(|_| Identity(0, 0))
}

/// The files of an open store.
pub(super) struct Files {
    main: (PathBuf, Identity),
    log: (PathBuf, Identity),
}

/// Which file is not the one any more that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Main,
    Log,
}

impl Files {
    /// Notes which files were opened. SQLite keeps the log where a link leads to.
    pub(super) fn of(path: &Path) -> io::Result<Files> {
        let main = path.canonicalize()?;
        let log = beside(&main, "-wal");
        let (main_is, log_is) = (identity(&main)?, identity(&log)?);
        Ok(Files { main: (main, main_is), log: (log, log_is) })
    }

    /// What the next process that opens the store would not find.
    pub(super) fn missing(&self) -> Option<Missing> {
        let same = |(path, known): &(PathBuf, Identity)| identity(path).is_ok_and(|found| found == *known);
        if !same(&self.main) {
            Some(Missing::Main)
        } else if !same(&self.log) {
            Some(Missing::Log)
        } else {
            None
        }
    }

    /// Whether a write fails because the disk is full or a quota is used up. SQLite tells the first and not the second.
    pub(super) fn is_full(&self) -> bool {
        let probe = beside(&self.main.0, "-probe");
        let full = File::create(&probe).and_then(|file| write(&file)).is_err_and(|error| {
            [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
        });
        let _ = std::fs::remove_file(probe);
        full
    }
}

/// Writes more than a file system keeps beside a name.
fn write(file: &File) -> io::Result<()> {
    let bytes = [1; 16 * 1024];
    #[cfg(unix)]
    std::os::unix::fs::FileExt::write_all_at(file, &bytes, 0)?;
    #[cfg(not(unix))]
    io::Write::write_all(&mut &*file, &bytes)?;
    file.sync_data()
}

/// The right to make or migrate the stores of a folder. A lock on the folder leaves no file behind; where it cannot be had,
/// on file systems without locks, SQLite's own must do.
pub(super) struct Making {
    _folder: Option<File>,
}

/// Waits for the right; an error if another program has it for longer than `patience`.
pub(super) fn making(path: &Path, patience: Duration) -> Result<Making, ()> {
    let until = Instant::now() + patience;
    let Ok(folder) = File::open(folder_of(path)) else { return Ok(Making { _folder: None }) };
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(Making { _folder: Some(folder) }),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(3));
            }
            Err(std::fs::TryLockError::WouldBlock) => return Err(()),
            Err(std::fs::TryLockError::Error(_)) => return Ok(Making { _folder: None }),
        }
    }
}
