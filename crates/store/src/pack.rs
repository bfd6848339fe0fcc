//! Blobs on their way into the store, compressed before the database is asked: whoever writes next does not wait for that.

use std::collections::HashMap;
use std::sync::Arc;

use scrollback_core::Link;

use crate::body::large_strings;
use crate::entry::NewEntry;
use crate::id::Tenant;
use crate::rows::Blob;
use crate::tx::{Op, Tx};

/// Bytes up to which a blob is kept as it is: it would shrink by less than the page it lies on.
const SMALL: usize = 2048;
/// Bytes from which speed matters more than the last tenth of the size.
const BULKY: usize = 64 << 10;
/// Bytes of a commit from which compressing them is not done on a thread that serves others, too.
const SLOW: usize = 128 << 10;

/// Compressed bytes by the hash of what they were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed(HashMap<Link, Vec<u8>>);

impl Packed {
    /// Bytes as a blob of a tenant, with one reference.
    pub(crate) fn blob(&mut self, tenant: &Tenant, hash: Link, bytes: &[u8]) -> Blob {
        // The same bytes may stand twice in one commit; the second time they are compressed again.
        let packed = self.0.remove(&hash).unwrap_or_else(|| deflate(bytes, level(bytes)));
        Blob { tenant: tenant.clone(), hash, size: bytes.len() as u64, bytes: packed, refs: 1 }
    }

    fn pack(&mut self, bytes: &[u8], level: u8) {
        let hash = *blake3::hash(bytes).as_bytes();
        self.0.entry(hash).or_insert_with(|| deflate(bytes, level));
    }
}

/// Bytes as a blob of a tenant, with one reference.
pub(crate) fn blob(tenant: &Tenant, hash: Link, bytes: &[u8]) -> Blob {
    Packed::default().blob(tenant, hash, bytes)
}

/// A commit with everything large in it compressed.
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
    let size = |op: &Op| match op {
        Op::Append { entries, .. } => entries.iter().map(raw).map(str::len).sum(),
        Op::Sent(sent) => [&sent.request, &sent.response].into_iter().flatten().map(Vec::len).sum(),
        _ => 0,
    };
    tx.ops.iter().map(size).sum()
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
            Op::Append { entries, .. } => {
                for raw in entries.iter().map(raw) {
                    for (start, end) in large_strings(raw) {
                        let bytes = raw.as_bytes().get(start..end).unwrap_or_default();
                        packed.pack(bytes, level(bytes));
                    }
                }
            }
            // Every call has a request and a response, and they are seldom read.
            Op::Sent(sent) => {
                for bytes in [&sent.request, &sent.response].into_iter().flatten() {
                    packed.pack(bytes, QUICK);
                }
            }
            _ => {}
        }
    }
    packed
}

const QUICK: u8 = 1;
const THOROUGH: u8 = 6;

fn level(bytes: &[u8]) -> u8 {
    if bytes.len() < BULKY { THOROUGH } else { QUICK }
}

/// Compressed bytes (RFC 1951). Few bytes become one block that is stored as it is.
fn deflate(bytes: &[u8], level: u8) -> Vec<u8> {
    match u16::try_from(bytes.len()) {
        Ok(length) if bytes.len() <= SMALL => {
            let (last_and_stored, length) = ([1], [length.to_le_bytes(), (!length).to_le_bytes()]);
            [&last_and_stored, length.as_flattened(), bytes].concat()
        }
        _ => miniz_oxide::deflate::compress_to_vec(bytes, level),
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
        }
    }
}
