//! The files of a continuous backup: a snapshot, and segments of pages that changed after it, each bound to the one before by its
//! hash. A file gets its name when it is whole and synced.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::files::{folder_of, private};
use crate::body::hex;

/// What a segment says about itself: its first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// The snapshot it belongs to.
    pub(super) generation: u32,
    /// Its number behind that, from 1.
    pub(super) number: u32,
    /// When it was taken.
    pub(super) at: String,
    /// Pages of the store after it.
    pub(super) pages: u32,
    /// Bytes of a page.
    pub(super) page: usize,
    /// The hash of the file before it.
    pub(super) before: String,
    /// The hash of what follows this line.
    pub(super) body: String,
}

/// A segment, read.
pub(super) struct Segment {
    pub(super) header: Header,
    pub(super) pages: BTreeMap<u32, Vec<u8>>,
    /// What the next one names as the file before it.
    pub(super) hash: String,
}

pub(super) fn snapshot_name(generation: u32) -> String {
    format!("{generation:06}.snapshot")
}

pub(super) fn segment_name(generation: u32, number: u32) -> String {
    format!("{generation:06}-{number:09}.segment")
}

/// The generations in a folder, in order.
pub(super) fn generations(folder: &Path) -> io::Result<Vec<u32>> {
    let number = |name: &str| name.strip_suffix(".snapshot").and_then(|number| number.parse().ok());
    let mut found: Vec<u32> =
        std::fs::read_dir(folder)?.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)).collect();
    found.sort_unstable();
    Ok(found)
}

/// The hash of a file, read in pieces.
pub(super) fn hash_of(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut File::open(path)?, &mut hasher)?;
    Ok(hex(hasher.finalize().as_bytes()))
}

/// Gives a whole file its name, so that it is there after a power loss.
pub(super) fn publish(part: &Path, to: &Path) -> io::Result<()> {
    File::open(part)?.sync_all()?;
    std::fs::rename(part, to)?;
    File::open(folder_of(to))?.sync_all()
}

fn part_of(folder: &Path) -> PathBuf {
    folder.join("next.part")
}

/// Writes a segment; its hash.
pub(super) fn write(folder: &Path, mut header: Header, pages: &BTreeMap<u32, Vec<u8>>) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for (number, page) in pages {
        hasher.update(&number.to_be_bytes()).update(page);
    }
    header.body = hex(hasher.finalize().as_bytes());
    let line = serde_json::to_string(&header).map_err(io::Error::other)?;
    let part = part_of(folder);
    // What an interrupted backup left there is not part of it.
    let _ = std::fs::remove_file(&part);
    {
        let mut file = io::BufWriter::new(private(&part)?);
        writeln!(file, "{line}")?;
        for (number, page) in pages {
            file.write_all(&number.to_be_bytes())?;
            file.write_all(page)?;
        }
        file.flush()?;
    }
    publish(&part, &folder.join(segment_name(header.generation, header.number)))?;
    Ok(hex(blake3::hash(line.as_bytes()).as_bytes()))
}

/// Reads a segment; none if there is none of that number.
pub(super) fn read(folder: &Path, generation: u32, number: u32) -> io::Result<Option<Segment>> {
    let bytes = match std::fs::read(folder.join(segment_name(generation, number))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let damaged = || io::Error::other(format!("the segment {number} of snapshot {generation} is damaged"));
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let (line, body) = (bytes.get(..end).unwrap_or_default(), bytes.get(end + 1..).unwrap_or_default());
    let header: Header = serde_json::from_slice(line).map_err(|_| damaged())?;
    let fits = header.generation == generation && header.number == number && header.page >= 512;
    if !fits || hex(blake3::hash(body).as_bytes()) != header.body || body.len() % (header.page + 4) != 0 {
        return Err(damaged());
    }
    let pages = body.chunks_exact(header.page + 4).filter_map(|chunk| {
        let (number, page) = chunk.split_first_chunk()?;
        Some((u32::from_be_bytes(*number), page.to_vec()))
    });
    let hash = hex(blake3::hash(line).as_bytes());
    Ok(Some(Segment { pages: pages.collect(), hash, header }))
}
