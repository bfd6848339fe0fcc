//! SQLite's log as a file: which pages were written since a place in it.
//!
//! The log is read while no other connection may write, so it stands still. How far it goes is said by the index of the log, a
//! file beside it that all connections share; its format and that of the log are part of SQLite's documentation.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::super::files::beside;

/// Bytes before the first frame, and before the page of each frame.
const HEADER: u64 = 32;
const FRAME: usize = 24;

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Made anew each time the log begins again; the first half counts.
    pub(super) salt: [u8; 8],
    /// Frames before it.
    pub(super) frames: u32,
    /// Pages of the store there.
    pub(super) pages: u32,
    /// Bytes of a page.
    pub(super) page: usize,
}

/// The files of a log. The index stays open: closing a file would end the locks that SQLite has on it in this process.
pub(super) struct Log {
    index: File,
    log: std::path::PathBuf,
}

impl Log {
    pub(super) fn open(path: &Path) -> io::Result<Log> {
        let path = path.canonicalize()?;
        Ok(Log { index: File::open(beside(&path, "-shm"))?, log: beside(&path, "-wal") })
    }

    /// Where the log ends now.
    pub(super) fn end(&mut self) -> io::Result<Place> {
        let mut header = [0; 48];
        self.index.seek(SeekFrom::Start(0))?;
        self.index.read_exact(&mut header)?;
        let short = |at: usize| {
            header.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes)
        };
        let long = |at: usize| {
            header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
        };
        let salt = header.get(32..40).and_then(|bytes| bytes.try_into().ok());
        let parts = short(14).zip(long(16)).zip(long(20)).zip(salt);
        let (((page, frames), pages), salt) = parts.ok_or_else(|| io::Error::other("no index of the log"))?;
        // 65,536 does not fit.
        let page = if page == 1 { 65_536 } else { usize::from(page) };
        Ok(Place { salt, frames, pages, page })
    }

    /// The newest content of every page written after `from`, up to `to`. Both are of the same log.
    pub(super) fn pages(&self, from: u32, to: Place) -> io::Result<BTreeMap<u32, Vec<u8>>> {
        let mut pages = BTreeMap::new();
        if from >= to.frames {
            return Ok(pages);
        }
        let mut log = io::BufReader::with_capacity(1 << 20, File::open(&self.log)?);
        log.seek(SeekFrom::Start(HEADER + u64::from(from) * (FRAME + to.page) as u64))?;
        for _ in from..to.frames {
            let (mut header, mut page) = ([0; FRAME], vec![0; to.page]);
            log.read_exact(&mut header)?;
            log.read_exact(&mut page)?;
            if header.get(8..16) != Some(&to.salt) {
                return Err(io::Error::other("the log and its index do not match"));
            }
            let number = header.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            pages.insert(number, page);
        }
        Ok(pages)
    }
}

impl Place {
    /// Where the frames begin that follow this place, in a log that ends at another; none if some of them are gone.
    pub(super) fn followed_by(&self, end: &Place) -> Option<u32> {
        let count = |salt: &[u8; 8]| salt.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        if self.salt == end.salt {
            (self.frames <= end.frames).then_some(self.frames)
        } else if self.frames == 0 || count(&self.salt).wrapping_add(1) == count(&end.salt) {
            // It began again once, after everything before was taken, or for the first time: what reads meanwhile keeps it from
            // being put away, and so from beginning a second time.
            Some(0)
        } else {
            None
        }
    }
}
