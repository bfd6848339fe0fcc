//! Records that were used lately, so that a conversation that goes on is not read again.
//!
//! A record is only used if the store still has it so: it is kept under the link of its last entry, and whoever asks has just
//! learnt that link from the store. Other servers may write whenever they like.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use scrollback_core::{Link, Record, Slot};
use scrollback_store::ConversationId;

/// Bytes of messages that are kept: a few hundred long conversations.
const MAX_BYTES: usize = 64 << 20;
/// Records that are kept, however short they are.
const MAX_RECORDS: usize = 8192;

/// A record and the link of its last entry.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) record: Record,
    pub(crate) link: Link,
    bytes: usize,
}

impl Known {
    pub(crate) fn new(record: Record, link: Link) -> Self {
        let bytes = record.slots().iter().map(size).sum();
        Known { record, link, bytes }
    }

    /// Takes in what was appended.
    pub(crate) fn take(&mut self, slots: Vec<Slot>, link: Link) -> Result<(), scrollback_core::AppendError> {
        for slot in slots {
            self.bytes += size(&slot);
            self.record.take(slot)?;
        }
        self.link = link;
        Ok(())
    }
}

fn size(slot: &Slot) -> usize {
    match slot {
        Slot::Message(entry) => entry.origin.raw.len() + 256,
        _ => 256,
    }
}

/// The records used lately.
#[derive(Debug, Default)]
pub(crate) struct Lately(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    known: HashMap<ConversationId, (u64, Known)>,
    /// When each was used, oldest first.
    order: BTreeMap<u64, ConversationId>,
    clock: u64,
    bytes: usize,
}

impl Lately {
    /// The record of a conversation whose last link is this one. It is taken out: whoever has it brings it back.
    pub(crate) fn take(&self, id: &ConversationId, link: &Link) -> Option<Known> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, known) = kept.known.remove(id)?;
        kept.order.remove(&used);
        kept.bytes -= known.bytes;
        (known.link == *link).then_some(known)
    }

    /// Keeps a record for the next one who asks.
    pub(crate) fn keep(&self, id: &ConversationId, known: Known) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let now = kept.clock;
        kept.bytes += known.bytes;
        kept.order.insert(now, id.clone());
        if let Some((used, before)) = kept.known.insert(id.clone(), (now, known)) {
            kept.order.remove(&used);
            kept.bytes -= before.bytes;
        }
        while kept.bytes > MAX_BYTES || kept.known.len() > MAX_RECORDS {
            let Some((_, oldest)) = kept.order.pop_first() else { break };
            if let Some((_, gone)) = kept.known.remove(&oldest) {
                kept.bytes -= gone.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use scrollback_core::{Entry, Role, Time};

    fn record(text: &str) -> Record {
        let mut record = Record::new();
        record.append(Entry::text(Role::User, text)).unwrap();
        record
    }

    #[test]
    fn only_what_the_store_still_has_is_used() {
        let (lately, id) = (Lately::default(), ConversationId::new(Time(1)));
        lately.keep(&id, Known::new(record("a"), [1; 32]));
        assert!(lately.take(&id, &[2; 32]).is_none(), "somebody else wrote");
        lately.keep(&id, Known::new(record("a"), [1; 32]));
        assert!(lately.take(&id, &[1; 32]).is_some());
        assert!(lately.take(&id, &[1; 32]).is_none(), "it is in use");
    }

    #[test]
    fn the_oldest_go_first() {
        let lately = Lately::default();
        let long = "x".repeat(MAX_BYTES / 3);
        let ids: Vec<ConversationId> = (0..4).map(|at| ConversationId::new(Time(at))).collect();
        for id in &ids {
            lately.keep(id, Known::new(record(&long), [0; 32]));
        }
        assert!(lately.take(&ids[0], &[0; 32]).is_none());
        assert!(lately.take(&ids[3], &[0; 32]).is_some());
        let kept = lately.0.lock().unwrap();
        assert!(kept.bytes <= MAX_BYTES && kept.order.len() == kept.known.len());
    }
}
