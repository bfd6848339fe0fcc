//! Records read back from where they were kept.

use std::sync::Arc;

use super::{AppendError, Record, Slot};
use crate::decision::Decision;
use crate::entry::{Entry, Meta, Part, Role, Time};
use crate::json;
use crate::wire::{Wire, WireError};

impl Entry {
    /// Reads an entry from what a store keeps of it: the wire, the exact text of its message, and what was known about it.
    /// Evaluation, sequence and time are those of [`Entry::stamped`].
    ///
    /// ```
    /// use scrollback_core::{Entry, Role, wire::Wire};
    /// let said = Entry::text(Role::User, "hello");
    /// let kept = Entry::kept(Wire::OpenaiChat, Role::User, &said.origin.raw, None, None)?;
    /// assert_eq!(kept, said);
    /// # Ok::<(), scrollback_core::wire::WireError>(())
    /// ```
    pub fn kept(
        wire: Wire,
        role: Role,
        raw: &str,
        part: Option<Part>,
        meta: Option<Meta>,
    ) -> Result<Entry, WireError> {
        let mut entry = wire.read_entry(role, json::check(raw)?)?;
        if entry.role != role {
            return Err(WireError::bad_input(format!(
                "the message was said by {}, not by {role}",
                entry.role
            )));
        }
        entry.origin.part = part.map(Box::new);
        entry.meta = meta.map(Box::new);
        Ok(entry)
    }
}

impl Record {
    /// The record that consists of these places, which were accepted one by one when they were said.
    ///
    /// Nothing is judged again: a decision about what was erased since then keeps its place and has no effect.
    pub fn restore(slots: impl IntoIterator<Item = Slot>) -> Result<Record, AppendError> {
        let mut record = Record::new();
        for slot in slots {
            record.take(slot)?;
        }
        Ok(record)
    }

    /// Adds a place that was accepted elsewhere, as when another writer of the same conversation came first.
    pub fn take(&mut self, slot: Slot) -> Result<(), AppendError> {
        match slot {
            Slot::Message(entry) => self.share(entry).map(|_| ()),
            Slot::Erased(tombstone) => self.bury(*tombstone).map(|_| ()),
            Slot::Decision(decision, at) => self.decided_before(decision, at),
        }
    }

    /// Adds a decision that was accepted once.
    fn decided_before(&mut self, decision: Arc<Decision>, at: Time) -> Result<(), AppendError> {
        if self.judge(&decision).is_ok() {
            return self.decide(Decision::clone(&decision), at).map(|_| ());
        }
        self.next_position()?;
        self.groups.skip();
        self.cache.push();
        self.slots.push(Slot::Decision(decision, at));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn said(record: &mut Record, entry: Entry) {
        let sequence = record.message_count() as u64;
        record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time(5))).unwrap();
    }

    #[test]
    fn a_restored_record_has_the_same_places_and_the_same_view() {
        let mut record = Record::new();
        said(&mut record, Entry::text(Role::System, "Be brief."));
        said(&mut record, Entry::text(Role::User, "hello"));
        said(&mut record, Entry::calling(None, &[("c1", "weather", "{}")]));
        said(&mut record, Entry::result("c1", "rain"));
        record.decide(Decision::Pin { positions: vec![1] }, Time(6)).unwrap();
        record.erase(1);
        let restored = Record::restore(record.slots().to_vec()).unwrap();
        assert_eq!(crate::wire::neutral(&restored), crate::wire::neutral(&record));
        let items = |record: &Record| {
            let view = crate::View::of(record, &crate::CurationContext::default());
            view.items().map(|item| item.entry.origin.raw.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(items(&restored), items(&record));
    }

    #[test]
    fn a_decision_about_what_was_erased_keeps_its_place_and_has_no_effect() {
        let mut record = Record::new();
        said(&mut record, Entry::text(Role::System, "old"));
        said(&mut record, Entry::text(Role::System, "new"));
        record.decide(Decision::Lead { positions: vec![1] }, Time(6)).unwrap();
        record.erase(1);
        let restored = Record::restore(record.slots().to_vec()).unwrap();
        assert_eq!(restored.len(), 3);
        assert_eq!(crate::wire::neutral(&restored), crate::wire::neutral(&record));
    }
}
