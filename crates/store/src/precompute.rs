//! What a commit takes time for and need not keep others from writing: blobs are compressed and texts cut into words before
//! the database is asked.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use flate2::{Compress, Compression, FlushCompress, Status};
use scrollback_core::Link;

use crate::body::large_strings;
use crate::engine::read::searchable_in;
use crate::entry::NewEntry;
use crate::id::Tenant;
use crate::request::Layout;
use crate::rows::Blob;
use crate::run::Sent;
use crate::tx::{Tx, TxOp};
use crate::words::index_words;

/// Bytes up to which a blob is kept as it is: it would shrink by less than the page it lies on.
const SMALL: usize = 2048;
/// Bytes from which speed matters more than the last tenth of the size.
const BULKY: usize = 64 << 10;
/// Bytes of a commit from which compressing them is not done on a thread that serves others, too.
const SLOW: usize = 128 << 10;

/// What was done beforehand for a commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed {
    /// Compressed bytes by the hash of what they were.
    blobs: HashMap<Link, Vec<u8>>,
    /// The words of each entry that is appended, in order.
    words: VecDeque<String>,
}

impl Packed {
    /// Bytes as a blob of a tenant, with one reference.
    pub(crate) fn blob(&mut self, tenant: &Tenant, hash: Link, bytes: &[u8]) -> Blob {
        // The same bytes may appear twice in one commit; the second time they are compressed again.
        let packed = self.blobs.remove(&hash).unwrap_or_else(|| deflate(bytes, level(bytes)));
        Blob { tenant: tenant.clone(), hash, size: bytes.len() as u64, bytes: packed, refs: 1 }
    }

    /// The words of the next entries that are appended; of fewer, if they were not looked for yet.
    pub(crate) fn words(&mut self, entries: usize) -> VecDeque<String> {
        let later = self.words.split_off(entries.min(self.words.len()));
        std::mem::replace(&mut self.words, later)
    }

    fn pack(&mut self, bytes: &[u8], level: u32) {
        let hash = *blake3::hash(bytes).as_bytes();
        self.blobs.entry(hash).or_insert_with(|| deflate(bytes, level));
    }
}

/// Bytes as a blob of a tenant, with one reference.
pub(crate) fn blob(tenant: &Tenant, hash: Link, bytes: &[u8]) -> Blob {
    Packed::default().blob(tenant, hash, bytes)
}

/// A commit with everything done for it that can be done before.
pub(crate) async fn packed(tx: Tx) -> Tx {
    if bulk(&tx) < SLOW {
        return pack(tx);
    }
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return pack(tx) };
    let tx = Arc::new(tx);
    let packing = runtime.spawn_blocking({
        let tx = Arc::clone(&tx);
        move || pack_all(&tx)
    });
    // Where that failed it is done when it is needed.
    let packed = packing.await.unwrap_or_default();
    Tx { packed, ..Arc::unwrap_or_clone(tx) }
}

fn pack(mut tx: Tx) -> Tx {
    tx.packed = pack_all(&tx);
    tx
}

fn bulk(tx: &Tx) -> usize {
    let size = |op: &TxOp| match op {
        TxOp::Append { entries, .. } => entries.iter().map(raw).map(str::len).sum(),
        TxOp::Sent(sent, layout) => bodies(sent, layout.as_deref()).map(Vec::len).sum(),
        _ => 0,
    };
    tx.ops.iter().map(size).sum()
}

/// What becomes blobs of a model call.
fn bodies<'s>(sent: &'s Sent, layout: Option<&'s Layout>) -> impl Iterator<Item = &'s Vec<u8>> {
    let request = sent.request.iter().filter(move |_| layout.is_none());
    request.chain(&sent.response).chain(layout.into_iter().flat_map(|layout| layout.blobs.values()))
}

fn raw(entry: &NewEntry) -> &str {
    match entry {
        NewEntry::Message(entry) => &entry.origin.raw,
        NewEntry::Decision(_) => "",
    }
}

fn pack_all(tx: &Tx) -> Packed {
    let mut packed = Packed::default();
    for op in &tx.ops {
        match op {
            TxOp::Append { entries, .. } => {
                for entry in entries {
                    let words = searchable_in(entry).map(|text| index_words(&text));
                    packed.words.push_back(words.unwrap_or_default());
                    let raw = raw(entry);
                    for (start, end) in large_strings(raw) {
                        let bytes = raw.as_bytes().get(start..end).unwrap_or_default();
                        packed.pack(bytes, level(bytes));
                    }
                }
            }
            // Every call has a request and a response, and they are seldom read.
            TxOp::Sent(sent, layout) => {
                bodies(sent, layout.as_deref()).for_each(|bytes| packed.pack(bytes, QUICK));
            }
            _ => {}
        }
    }
    packed
}

const QUICK: u32 = 1;
const THOROUGH: u32 = 6;

fn level(bytes: &[u8]) -> u32 {
    if bytes.len() < BULKY { THOROUGH } else { QUICK }
}

/// Compressed bytes (RFC 1951), with neither a header nor a checksum around them: blobs have a hash. Few bytes are stored
/// as they are.
fn deflate(bytes: &[u8], level: u32) -> Vec<u8> {
    if bytes.len() <= SMALL {
        return stored(bytes);
    }
    let mut packed = Vec::with_capacity(bound(bytes.len()));
    let done =
        Compress::new(Compression::new(level), false).compress_vec(bytes, &mut packed, FlushCompress::Finish);
    match done {
        Ok(Status::StreamEnd) => {
            packed.shrink_to_fit();
            packed
        }
        _ => stored(bytes),
    }
}

/// Most bytes that compressing so many can give: incompressible ones are stored, at five bytes for each block.
fn bound(bytes: usize) -> usize {
    bytes + 5 * (bytes / (16 << 10) + 1) + 16
}

/// Bytes as they are, in blocks of the longest length that one may have.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    let mut packed = Vec::with_capacity(bytes.len() + 5 * (bytes.len() / usize::from(u16::MAX) + 1));
    loop {
        let block = blocks.next().unwrap_or_default();
        let length = block.len() as u16;
        packed.push(u8::from(blocks.peek().is_none()));
        packed.extend(length.to_le_bytes());
        packed.extend((!length).to_le_bytes());
        packed.extend(block);
        if blocks.peek().is_none() {
            return packed;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::body::unpack;

    #[test]
    fn blobs_of_every_size_come_back() {
        for size in [0, 1, SMALL, SMALL + 1, BULKY - 1, BULKY, 3 * BULKY] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let hash = *blake3::hash(&bytes).as_bytes();
            let blob = blob(&Tenant::default(), hash, &bytes);
            assert_eq!(unpack(&blob).unwrap(), bytes, "{size}");
            assert!(blob.bytes.len() <= size + 5, "{size}");
            let as_it_is = Blob { bytes: stored(&bytes), ..blob };
            assert_eq!(unpack(&as_it_is).unwrap(), bytes, "{size}");
        }
    }
}
