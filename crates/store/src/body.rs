//! Bodies: a place of a record as the text that is stored, with large parts kept apart as blobs.
//!
//! A message is `{"wire":…,"raw":…,"part"?:…,"meta"?:…}`, `raw` being the message itself, byte for byte. Where a string in it
//! is so large that a blob holds it there is `cut` instead, the list of its pieces. A message without `wire` is in the
//! wire `openai-chat`, as most are. Role, evaluation, sequence and time have columns. `ids` are those that calls and results got when
//! they were read because the message has none: without them nothing would pair the two when they are read back.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::Read;
use std::sync::Arc;

use flate2::bufread::DeflateDecoder;
use scrollback_core::json::write_string;
use scrollback_core::wire::Wire;
use scrollback_core::{BlockKind, Decision, Entry, Link, Meta, Part, Slot, Text, Time, Tombstone};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::error::StoreError;
use crate::rows::{Blob, DECISION, EntryRow, MESSAGE, TOMBSTONE, role_named};

/// Strings above so many bytes are kept as blobs: below, a reference would save little.
pub(crate) const LARGE: usize = 4096;

/// Largest blob there can be: an entry, or a request with everything in it.
const MAX_BLOB: usize = 1 << 30;

/// A body on its way into the store.
pub(crate) struct StoredBody {
    pub(crate) text: String,
    /// The large parts it refers to, before compression.
    pub(crate) large: Vec<(Link, Vec<u8>)>,
}

/// What stays of an erased body.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grave {
    erased_at: String,
    reason: String,
    bytes: u64,
    /// Of the members above and of the hash that the chain over what was said has here: neither can be found again from what
    /// is left. None where an older program erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

impl Grave {
    fn digest(&self, row: &EntryRow) -> String {
        let prefix = hex(row.prefix.as_deref().unwrap_or_default());
        let told = format!("{prefix}\n{}\n{}\n{}", self.erased_at, self.bytes, self.reason);
        hex(blake3::hash(told.as_bytes()).as_bytes().get(..8).unwrap_or_default())
    }
}

/// What stays of the body of an entry that is erased: when and why, and how long it was.
pub(crate) fn grave(row: &EntryRow, reason: &str, at: Time) -> String {
    let bytes = row.body.len() as u64;
    let mut grave = Grave { erased_at: at.to_string(), reason: reason.into(), bytes, digest: None };
    grave.digest = Some(grave.digest(row));
    serde_json::to_string(&grave).unwrap_or_default()
}

/// Whether what stays of an erased entry is as it was written.
pub(crate) fn is_grave(row: &EntryRow) -> bool {
    // An import does not know when and why the entry was erased.
    row.body == IMPORTED_GRAVE
        || serde_json::from_str::<Grave>(&row.body)
            .is_ok_and(|grave| grave.digest.as_ref().is_none_or(|digest| *digest == grave.digest(row)))
}

/// The body of an erased entry that was imported.
const IMPORTED_GRAVE: &str = "{}";

/// A body, read back as JSON.
#[derive(Deserialize)]
struct BodyJson<'b> {
    #[serde(default = "usual")]
    wire: Wire,
    #[serde(borrow, default)]
    raw: Option<&'b RawValue>,
    #[serde(default)]
    cut: Vec<BodyPart>,
    #[serde(default)]
    part: Option<Part>,
    #[serde(default)]
    meta: Option<Meta>,
    #[serde(default)]
    ids: Vec<Option<String>>,
}

fn usual() -> Wire {
    Wire::OpenaiChat
}

#[derive(Deserialize)]
#[serde(untagged)]
enum BodyPart {
    Text(String),
    Large { blob: String },
}

#[derive(Deserialize)]
struct DecisionJson {
    decision: Decision,
}

/// The body of a place.
pub(crate) fn write(slot: &Slot) -> StoredBody {
    match slot {
        Slot::Message(entry) => write_message(entry),
        Slot::Decision(decision, _) => {
            let decision = serde_json::to_string(decision.as_ref()).unwrap_or_default();
            StoredBody { text: format!("{{\"decision\":{decision}}}"), large: Vec::new() }
        }
        Slot::Erased(_) => StoredBody { text: IMPORTED_GRAVE.into(), large: Vec::new() },
    }
}

fn write_message(entry: &Entry) -> StoredBody {
    let raw = entry.origin.raw.as_ref();
    let mut text = String::with_capacity(raw.len() + 64);
    text.push('{');
    if entry.origin.wire != usual() {
        let _ = write!(text, "\"wire\":\"{}\",", entry.origin.wire);
    }
    let mut large = Vec::new();
    let parts = large_strings(raw);
    if parts.is_empty() {
        text.push_str("\"raw\":");
        text.push_str(raw);
    } else {
        text.push_str("\"cut\":[");
        let mut at = 0;
        for (start, end) in parts {
            let bytes = raw.as_bytes().get(start..end).unwrap_or_default().to_vec();
            let hash = *blake3::hash(&bytes).as_bytes();
            write_string(&mut text, raw.get(at..start).unwrap_or_default());
            let _ = write!(text, ",{{\"blob\":\"{}\",\"size\":{}}},", hex(&hash), bytes.len());
            large.push((hash, bytes));
            at = end;
        }
        write_string(&mut text, raw.get(at..).unwrap_or_default());
        text.push(']');
    }
    if let Some(part) = entry.origin.part.as_ref().and_then(|part| serde_json::to_string(part).ok()) {
        text.push_str(",\"part\":");
        text.push_str(&part);
    }
    if let Some(meta) = entry.meta.as_ref().and_then(|meta| serde_json::to_string(meta).ok()) {
        text.push_str(",\"meta\":");
        text.push_str(&meta);
    }
    let ids = given_ids(entry);
    if ids.iter().any(Option::is_some)
        && let Ok(ids) = serde_json::to_string(&ids)
    {
        text.push_str(",\"ids\":");
        text.push_str(&ids);
    }
    text.push('}');
    StoredBody { text, large }
}

/// The ids of calls and results that do not stand in their message, in order.
fn given_ids(entry: &Entry) -> Vec<Option<String>> {
    let calls = entry
        .blocks
        .iter()
        .filter(|block| matches!(block.kind, BlockKind::ToolCall(_) | BlockKind::ToolResult(_)));
    calls.map(|block| block.call_id().filter(|id| id.is_own()).map(|id| id.as_str().into_owned())).collect()
}

/// Gives calls and results the ids they had when they were stored.
fn give_ids(entry: &mut Entry, ids: Vec<Option<String>>) {
    let calls = entry.blocks.iter_mut().filter_map(|block| match &mut block.kind {
        BlockKind::ToolCall(call) => Some(&mut call.call_id),
        BlockKind::ToolResult(result) => Some(&mut result.call_id),
        _ => None,
    });
    for (place, id) in calls.zip(ids) {
        if let Some(id) = id {
            *place = Some(Text::from(id.as_str()));
        }
    }
}

/// Where the large strings of a JSON text lie, without their quotes.
pub(crate) fn large_strings(json: &str) -> Vec<(usize, usize)> {
    let bytes = json.as_bytes();
    let mut found = Vec::new();
    if bytes.len() <= LARGE {
        return found;
    }
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        if byte != b'"' {
            continue;
        }
        let start = at;
        while let Some(&inner) = bytes.get(at) {
            match inner {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        if at - start > LARGE {
            found.push((start, at));
        }
        at += 1;
    }
    found
}

/// The blobs a body refers to.
pub(crate) fn references(body: &str) -> Vec<Link> {
    // Most bodies refer to none; looking for the word is cheaper than reading them.
    if !body.contains("\"blob\"") {
        return Vec::new();
    }
    let Ok(BodyJson { cut, .. }) = serde_json::from_str(body) else { return Vec::new() };
    let large = |piece: &BodyPart| match piece {
        BodyPart::Large { blob } => unhex(blob),
        BodyPart::Text(_) => None,
    };
    cut.iter().filter_map(large).collect()
}

/// What a row says, with the blobs it refers to at hand; in words, why that cannot be told.
pub(crate) fn read(row: &EntryRow, blobs: &HashMap<Link, Vec<u8>>) -> Result<Slot, String> {
    let at = Time::parse(&row.created_at).ok_or("its time cannot be read")?;
    let role = match &row.role {
        Some(word) => Some(role_named(word).ok_or("its role is unknown")?),
        None => None,
    };
    let evaluation = || {
        let bytes = row.evaluation.as_deref().ok_or("it has no evaluation")?;
        Uuid::from_slice(bytes).map_err(|_| "its evaluation is not an id")
    };
    match (row.kind.as_str(), role) {
        (MESSAGE, Some(role)) => {
            let kept: BodyJson<'_> =
                serde_json::from_str(&row.body).map_err(|_| "its body cannot be read")?;
            let raw = match kept.raw {
                Some(raw) => Cow::Borrowed(raw.get()),
                None => Cow::Owned(join(kept.cut, blobs)?),
            };
            let mut entry = Entry::kept(kept.wire, role, &raw, kept.part, kept.meta)
                .map_err(|_| "its message cannot be read")?;
            give_ids(&mut entry, kept.ids);
            let sequence = row.sequence.ok_or("it has no sequence")?;
            Ok(Slot::Message(Arc::new(entry.stamped(evaluation()?, sequence, at))))
        }
        (DECISION, None) => {
            let decided: DecisionJson =
                serde_json::from_str(&row.body).map_err(|_| "its decision cannot be read")?;
            Ok(Slot::Decision(Arc::new(decided.decision), at))
        }
        (TOMBSTONE, Some(role)) => Ok(Slot::Erased(Box::new(Tombstone {
            role,
            evaluation_id: evaluation()?,
            sequence: row.sequence.ok_or("it has no sequence")?,
            created_at: at,
            body_hash: row.body_hash.as_slice().try_into().map_err(|_| "its hash cannot be read")?,
        }))),
        // A summary of what was erased: its place stays, and nothing of what it did.
        (TOMBSTONE, None) => Ok(Slot::Decision(Arc::new(Decision::Interrupted { call_ids: Vec::new() }), at)),
        _ => Err("its kind is unknown".into()),
    }
}

fn join(pieces: Vec<BodyPart>, blobs: &HashMap<Link, Vec<u8>>) -> Result<String, String> {
    let mut raw = String::new();
    for piece in pieces {
        match piece {
            BodyPart::Text(text) => raw.push_str(&text),
            BodyPart::Large { blob } => {
                let bytes =
                    unhex(&blob).and_then(|hash| blobs.get(&hash)).ok_or("a blob of it is missing")?;
                raw.push_str(std::str::from_utf8(bytes).map_err(|_| "a blob of it is not text")?);
            }
        }
    }
    Ok(raw)
}

/// The bytes of a blob, if they are those it is named after.
pub(crate) fn unpack(blob: &Blob) -> Result<Vec<u8>, StoreError> {
    let broken = || StoreError::damaged(format!("the blob {} is not what was written", hex(&blob.hash)));
    let limit = usize::try_from(blob.size).unwrap_or(MAX_BLOB).min(MAX_BLOB);
    // One byte of this format stands for 1,032 at most, so a size that is a lie reserves little.
    let mut bytes = Vec::with_capacity(limit.min(blob.bytes.len().saturating_mul(1032)));
    let unpacked = DeflateDecoder::new(&*blob.bytes).take(limit as u64 + 1).read_to_end(&mut bytes);
    unpacked.map_err(|_| broken())?;
    if *blake3::hash(&bytes).as_bytes() == blob.hash { Ok(bytes) } else { Err(broken()) }
}

/// A hash as people see it.
pub fn hex(link: &[u8]) -> String {
    link.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A hash from 64 hexadecimal digits.
pub fn unhex(text: &str) -> Option<Link> {
    blake3::Hash::from_hex(text).ok().map(|hash| *hash.as_bytes())
}

/// Whether two entries say the same: a repeat may be stamped at another time.
pub(crate) fn says_the_same(one: &Slot, other: &Slot) -> bool {
    match (one, other) {
        (Slot::Message(one), Slot::Message(other)) => {
            one.role == other.role && one.origin == other.origin && one.meta == other.meta
        }
        (Slot::Decision(one, _), Slot::Decision(other, _)) => one == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::id::{ConversationId, Tenant};
    use scrollback_core::Role;

    fn row(slot: &Slot, written: &StoredBody) -> EntryRow {
        let Slot::Message(entry) = slot else { unreachable!() };
        EntryRow {
            conversation: ConversationId::from_parts(Time(0), 0),
            position: 0,
            kind: MESSAGE.into(),
            role: Some(entry.role.as_str().into()),
            evaluation: Some(entry.evaluation_id.as_bytes().to_vec()),
            sequence: Some(entry.sequence),
            created_at: entry.created_at.to_string(),
            body: written.text.clone(),
            body_hash: Vec::new(),
            link: Vec::new(),
            prefix: None,
        }
    }

    #[test]
    fn large_strings_are_kept_apart_and_come_back_byte_for_byte() {
        let long = format!("{}\\\"\\u00e9é", "x".repeat(5000));
        let raw = format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"{long}"}},{{"type":"text","text":"short \" one"}},{{"type":"text","text":"{long}"}}]}}"#
        );
        let entry = Entry::kept(Wire::OpenaiChat, Role::User, &raw, None, None).unwrap();
        let slot = Slot::Message(Arc::new(entry.stamped(Uuid::from_u128(7), 3, Time(1_234))));
        let written = write(&slot);
        assert!(written.text.len() < 600, "{}", written.text);
        assert_eq!(written.large.len(), 2);
        assert_eq!(
            references(&written.text),
            written.large.iter().map(|(hash, _)| *hash).collect::<Vec<_>>()
        );
        let blobs = written.large.iter().cloned().collect();
        let read = read(&row(&slot, &written), &blobs).unwrap();
        assert!(says_the_same(&read, &slot));
        assert!(super::read(&row(&slot, &written), &HashMap::new()).unwrap_err().contains("missing"));
    }

    #[test]
    fn a_blob_that_changed_is_noticed() {
        let text = "the same words again ".repeat(500);
        let hash = *blake3::hash(text.as_bytes()).as_bytes();
        let mut blob = crate::precompute::blob(&Tenant::default(), hash, text.as_bytes());
        assert!(blob.bytes.len() < text.len() / 5);
        assert_eq!(unpack(&blob).unwrap(), text.as_bytes());
        blob.bytes[7] ^= 1;
        assert!(unpack(&blob).is_err());
    }
}
