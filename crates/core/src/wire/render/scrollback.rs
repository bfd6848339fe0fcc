//! Our own form, which loses nothing.

use std::collections::HashMap;

use uuid::Uuid;

use super::quote;
use crate::entry::Entry;
use crate::record::{Record, Slot};
use crate::view::{Fidelity, ViewItem};
use crate::wire::RenderOptions;

/// Prints the entries of a view as a record of its own: positions and sequences count anew.
pub(super) fn render(items: &[ViewItem]) -> Vec<String> {
    let mut next: HashMap<Uuid, u64> = HashMap::new();
    (0..)
        .zip(items)
        .map(|(position, item)| {
            let sequence = next.entry(item.entry.evaluation_id).or_default();
            let mut entry =
                Entry::clone(&item.entry).stamped(item.entry.evaluation_id, *sequence, item.entry.created_at);
            *sequence += 1;
            if item.fidelity == Fidelity::Rewritten {
                rewrite(&mut entry, item);
            }
            message(position, &entry)
        })
        .collect()
}

/// Gives a changed entry the text it has on its own wire.
fn rewrite(entry: &mut Entry, item: &ViewItem) {
    let wire = entry.origin.wire;
    let rendered = super::render(wire, vec![item.clone()], RenderOptions::default(), super::Own::AsSaid);
    // What we opened the list with is no part of the entry.
    let messages = rendered.messages.get(usize::from(rendered.opened)..).unwrap_or_default();
    entry.origin.raw = match messages {
        [] => return,
        [only] => only.as_str().into(),
        // Several items of one list that are one entry.
        items => format!("[{}]", items.join(",")).into(),
    };
}

/// Prints every place of a record: what was said, what was decided, what was erased.
pub(crate) fn record(record: &Record) -> Vec<String> {
    (0..)
        .zip(record.slots())
        .map(|(position, slot)| match slot {
            Slot::Message(entry) => message(position, entry),
            Slot::Decision(decision, at) => format!(
                "{{\"position\":{position},\"created_at\":{},\"decision\":{}}}",
                quote(&at.to_string()),
                serde_json::to_string(decision.as_ref()).unwrap_or_default()
            ),
            Slot::Erased(tombstone) => {
                let hash = blake3::Hash::from_bytes(tombstone.body_hash).to_hex();
                format!(
                    "{{\"position\":{position},\"role\":\"{}\",\"evaluation_id\":\"{}\",\"sequence\":{},\
                     \"created_at\":{},\"erased\":true,\"body_hash\":\"{hash}\"}}",
                    tombstone.role,
                    tombstone.evaluation_id,
                    tombstone.sequence,
                    quote(&tombstone.created_at.to_string()),
                )
            }
        })
        .collect()
}

/// Prints one entry.
pub(crate) fn message(position: u64, entry: &Entry) -> String {
    let part = entry.origin.part.as_ref().and_then(|part| serde_json::to_string(part).ok());
    let part = part.map_or_else(String::new, |part| format!("\"part\":{part},"));
    let meta = entry.meta.as_ref().and_then(|meta| serde_json::to_string(meta).ok());
    format!(
        "{{\"position\":{position},\"role\":\"{}\",\"evaluation_id\":\"{}\",\"sequence\":{},\"created_at\":{},\
         \"wire\":\"{}\",\"raw\":{},{part}\"meta\":{}}}",
        entry.role,
        entry.evaluation_id,
        entry.sequence,
        quote(&entry.created_at.to_string()),
        entry.origin.wire,
        quote(&entry.origin.raw),
        meta.as_deref().unwrap_or("{}"),
    )
}
