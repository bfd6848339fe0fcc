//! The hash chain over a record: each place is bound to everything before it.

use std::fmt::Write;

use crate::decision::Decision;
use crate::entry::{Entry, Time};
use crate::json::write_string;
use crate::record::Slot;

/// A value of the chain.
pub type Link = [u8; 32];

/// Tags every digest, so that another way of hashing can never be mistaken for this one.
const VERSION: &[u8] = b"sb1";

/// Hash of what a place says: its neutral form with sorted keys, raw text byte for byte. What was erased keeps the
/// hash of what it said.
pub fn body_hash(position: u64, slot: &Slot) -> Link {
    let body = match slot {
        Slot::Message(entry) => message_body(position, entry),
        Slot::Decision(decision, at) => decision_body(position, decision, *at),
        Slot::Erased(tombstone) => return tombstone.body_hash,
    };
    *blake3::hash(body.as_bytes()).as_bytes()
}

/// The chain's value before the first place of a conversation: the hash of its id.
pub fn first_link(conversation: &str) -> Link {
    *blake3::hash(conversation.as_bytes()).as_bytes()
}

/// The chain's value at a place, from the value before it and the hash of its body.
///
/// Only the hash of the body is needed, so the chain stays valid when a body is erased.
pub fn link(previous: &Link, position: u64, slot: &Slot) -> Link {
    link_over(previous, position, slot, &body_hash(position, slot))
}

/// The same over a hash that is known: what a store has written down may differ from what the body says now.
pub fn link_over(previous: &Link, position: u64, slot: &Slot, body_hash: &Link) -> Link {
    let (kind, role, evaluation, sequence, at): (&str, &str, Vec<u8>, Vec<u8>, Time) = match slot {
        Slot::Message(entry) => (
            "message",
            entry.role.as_str(),
            entry.evaluation_id.as_bytes().to_vec(),
            entry.sequence.to_be_bytes().to_vec(),
            entry.created_at,
        ),
        Slot::Decision(_, at) => ("decision", "", Vec::new(), Vec::new(), *at),
        Slot::Erased(tombstone) => (
            "message",
            tombstone.role.as_str(),
            tombstone.evaluation_id.as_bytes().to_vec(),
            tombstone.sequence.to_be_bytes().to_vec(),
            tombstone.created_at,
        ),
    };
    let mut hasher = blake3::Hasher::new();
    let position = position.to_be_bytes();
    let at = at.to_string();
    let fields: [&[u8]; 9] = [
        VERSION,
        previous,
        &position,
        kind.as_bytes(),
        role.as_bytes(),
        &evaluation,
        &sequence,
        at.as_bytes(),
        body_hash,
    ];
    for field in fields {
        hasher.update(&(field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    *hasher.finalize().as_bytes()
}

/// Keys in byte order; the raw text stands as a JSON string with its exact characters.
fn message_body(position: u64, entry: &Entry) -> String {
    let raw = entry.origin.raw.as_ref();
    let mut body = String::with_capacity(raw.len() + raw.len() / 8 + 256);
    let _ =
        write!(body, r#"{{"created_at":"{}","evaluation_id":"{}""#, entry.created_at, entry.evaluation_id);
    if let Some(meta) = &entry.meta {
        let _ = write!(body, r#","meta":{}"#, sorted(serde_json::to_value(meta).unwrap_or_default()));
    }
    if let Some(part) = &entry.origin.part {
        let _ = write!(body, r#","part":{}"#, sorted(serde_json::to_value(part).unwrap_or_default()));
    }
    let _ = write!(body, r#","position":{position},"raw":"#);
    write_string(&mut body, raw);
    let (role, sequence, wire) = (entry.role.as_str(), entry.sequence, entry.origin.wire.name());
    let _ = write!(body, r#","role":"{role}","sequence":{sequence},"wire":"{wire}"}}"#);
    body
}

fn decision_body(position: u64, decision: &Decision, at: Time) -> String {
    let mut body = serde_json::Map::new();
    body.insert("created_at".into(), at.to_string().into());
    body.insert("decision".into(), sorted(serde_json::to_value(decision).unwrap_or_default()));
    body.insert("position".into(), position.into());
    serde_json::Value::Object(body).to_string()
}

fn sorted(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            serde_json::Value::Object(members.into_iter().collect())
        }
        serde_json::Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::entry::Role;
    use crate::record::Record;

    fn chain(record: &Record) -> Vec<Link> {
        let mut previous = first_link("conversation");
        let mut links = Vec::new();
        for (position, slot) in record.slots().iter().enumerate() {
            previous = link(&previous, position as u64, slot);
            links.push(previous);
        }
        links
    }

    #[test]
    fn every_field_reaches_the_chain_and_an_erased_body_does_not_break_it() {
        let entry = |text: &str, sequence, at| {
            Entry::text(Role::User, text).stamped(uuid::Uuid::from_u128(1), sequence, Time(at))
        };
        let build = |text: &str, at| {
            let mut record = Record::new();
            record.append(entry("first", 0, 0)).unwrap();
            record.append(entry(text, 1, at)).unwrap();
            record
        };
        let mut record = build("second", 5);
        let links = chain(&record);
        assert_eq!(links, chain(&build("second", 5)), "same on every run");
        assert_ne!(links, chain(&build("second!", 5)));
        assert_ne!(links, chain(&build("second", 6)));
        record.erase(0);
        assert_eq!(chain(&record), links, "what was erased is still accounted for");
    }
}
