//! A store from a continuous backup, as it was at a time.

use std::fs::OpenOptions;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use scrollback_core::Time;

use super::{at, segment};
use crate::error::{ErrorKind, StoreError};

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Segments that were put onto the snapshot.
    pub segments: u32,
    /// The time of the last of them; of the snapshot, if there is none.
    pub at: Time,
}

/// Makes a file from the newest snapshot that is not later than `until`, and the segments after it up to then. Every hash is checked,
/// and the chain of segments; nothing is left behind if something does not hold.
pub fn restore(folder: &Path, to: &Path, until: Option<Time>) -> Result<Restored, StoreError> {
    if to.exists() {
        let message = format!("{}: the file exists", to.display());
        return Err(StoreError::new(ErrorKind::Exists, message));
    }
    let generations = segment::generations(folder).map_err(|error| at(folder, &error))?;
    let early = |time: Time| until.is_none_or(|until| time <= until);
    let chosen = generations.iter().rev().find_map(|generation| {
        let (hash, time) = noted(folder, *generation)?;
        early(time).then_some((*generation, hash, time))
    });
    let Some((generation, hash, taken)) = chosen else {
        let message = format!(
            "{}: there is no snapshot{}",
            folder.display(),
            if until.is_some() { " of that time" } else { "" }
        );
        return Err(StoreError::new(ErrorKind::NotFound, message));
    };
    let mut name = to.as_os_str().to_os_string();
    name.push(".part");
    let part = Path::new(&name);
    let made = build(folder, part, (generation, hash, taken), &early);
    let made = made.and_then(|made| segment::publish(part, to).map(|()| made));
    made.map_err(|error| {
        let _ = std::fs::remove_file(part);
        let damaged = error.kind() == io::ErrorKind::Other;
        if damaged {
            StoreError::damaged(format!("{}: {error}", folder.display()))
        } else {
            at(folder, &error)
        }
    })
}

/// The hash and the time of a snapshot.
fn noted(folder: &Path, generation: u32) -> Option<(String, Time)> {
    let name = folder.join(segment::snapshot_name(generation)).with_extension("hash");
    let text = std::fs::read_to_string(name).ok()?;
    let (hash, time) = text.trim().split_once(' ')?;
    Some((hash.into(), Time::parse(time)?))
}

fn build(
    folder: &Path,
    part: &Path,
    (generation, mut hash, taken): (u32, String, Time),
    early: &dyn Fn(Time) -> bool,
) -> io::Result<Restored> {
    std::fs::copy(folder.join(segment::snapshot_name(generation)), part)?;
    if segment::hash_of(part)? != hash {
        return Err(io::Error::other(format!("the snapshot {generation} is damaged")));
    }
    let mut restored = Restored { segments: 0, at: taken };
    let mut file = OpenOptions::new().write(true).open(part)?;
    while let Some(next) = segment::read(folder, generation, restored.segments + 1)? {
        let header = next.header;
        let time = Time::parse(&header.at).ok_or_else(|| io::Error::other("a segment has no time"))?;
        if !early(time) {
            break;
        }
        if header.before != hash {
            return Err(io::Error::other(format!(
                "the segment {} does not follow the one before it",
                header.number
            )));
        }
        for (number, page) in next.pages {
            file.seek(SeekFrom::Start(u64::from(number.saturating_sub(1)) * header.page as u64))?;
            file.write_all(&page)?;
        }
        file.set_len(u64::from(header.pages) * header.page as u64)?;
        hash = next.hash;
        restored = Restored { segments: header.number, at: time };
    }
    file.sync_all()?;
    Ok(restored)
}
