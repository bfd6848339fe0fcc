//! What a caller says that its record does not hold yet.

use std::sync::Arc;

use uuid::Uuid;

use crate::decision::Decision;
use crate::entry::{Entry, Role, Time};
use crate::ranges::Ranges;
use crate::record::{Record, Slot};
use crate::request::cache_marks::unmarked;
use crate::wire::Wire;

/// What new entries are stamped with.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// The evaluation they are part of.
    pub evaluation: Uuid,
    /// The number of the first of them in it.
    pub sequence: u64,
    /// When they are said.
    pub at: Time,
}

/// What has to be appended so that a record says what a caller says: instructions, where they are not those that stand first
/// now, the decision that puts them there, and what follows.
///
/// Everyone who speaks goes through here, so a conversation that one of them began is recognised by the others. Cache marks
/// are left behind: they belong to the request in which they came.
pub fn news(record: &Record, instructions: &[Entry], said: &[Entry], stamp: Stamp) -> Vec<Slot> {
    let mut sequence = stamp.sequence..;
    let mut stamped = |entry: Entry| {
        let entry = without_marks(entry).stamped(stamp.evaluation, sequence.next().unwrap_or(0), stamp.at);
        Slot::Message(Arc::new(entry))
    };
    let mut new: Vec<Slot> = Vec::with_capacity(instructions.len() + said.len() + 1);
    if record.is_empty() {
        new.extend(instructions.iter().cloned().map(&mut stamped));
    } else if !instructions.is_empty() && !leads(record, instructions) {
        let first = record.len() as u64;
        new.extend(instructions.iter().map(|entry| stamped(entry.clone().as_lead())));
        let positions = (first..first + instructions.len() as u64).collect();
        new.push(Slot::Decision(Arc::new(Decision::Lead { positions }), stamp.at));
    }
    new.extend(said.iter().cloned().map(&mut stamped));
    new
}

/// Positions of the instructions that stand first in views of a record.
pub fn lead_of(record: &Record) -> Vec<u64> {
    match &record.decided.lead {
        Some((groups, _)) => positions_of(record, groups.iter().copied()).collect(),
        None => (0..natural_lead(record)).collect(),
    }
}

/// Where the entries stand that are a group each.
fn positions_of(record: &Record, groups: impl Iterator<Item = u32>) -> impl Iterator<Item = u64> {
    groups.filter_map(|group| record.groups.get(group)).map(|group| group.first.into())
}

/// How many system entries a record begins with.
fn natural_lead(record: &Record) -> u64 {
    let is_system = |slot: &&Slot| matches!(slot, Slot::Message(entry) if entry.role == Role::System);
    record.slots().iter().take_while(is_system).count() as u64
}

/// Whether these instructions are the ones that stand first now.
fn leads(record: &Record, instructions: &[Entry]) -> bool {
    let lead = lead_of(record);
    let now = lead.iter().filter_map(|position| record.entry(*position)).map(|entry| entry.content());
    now.eq(instructions.iter().map(Entry::content))
}

/// How many entries of a record are not instructions which others took the place of.
pub(crate) fn standing_count(record: &Record) -> usize {
    record.message_count() - record.erased_count() - replaced(record).len()
}

/// Positions of instructions which others took the place of.
pub(crate) fn replaced(record: &Record) -> Vec<u64> {
    let Some((lead, _)) = &record.decided.lead else { return Vec::new() };
    let natural = Ranges::of((0..natural_lead(record)).filter_map(|at| record.groups.of(at as u32)));
    let former = natural.union(&record.decided.former_leads).minus(&Ranges::of(lead.iter().copied()));
    positions_of(record, former.iter()).filter(|position| record.entry(*position).is_some()).collect()
}

/// The entry without the cache marks of the request in which it came.
fn without_marks(mut entry: Entry) -> Entry {
    if entry.origin.wire == Wire::Anthropic
        && let Some(raw) = unmarked(&entry.origin.raw)
        && let Ok(mut bare) =
            Entry::kept(Wire::Anthropic, entry.role, &raw, entry.origin.part.as_deref().cloned(), None)
    {
        bare.meta = entry.meta.take();
        return bare;
    }
    entry
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::identity::prefixes;

    fn stamp(sequence: u64) -> Stamp {
        Stamp { evaluation: Uuid::nil(), sequence, at: Time(1) }
    }

    fn take(record: &mut Record, new: Vec<Slot>) {
        for slot in new {
            record.take(slot).unwrap();
        }
    }

    #[test]
    fn changed_instructions_take_the_place_of_the_old_ones_and_do_not_break_the_chain() {
        let (monday, tuesday) = (Entry::text(Role::System, "Monday."), Entry::text(Role::System, "Tuesday."));
        let said = |text: &str| Entry::text(Role::User, text);
        let mut record = Record::new();
        let new = news(&record, std::slice::from_ref(&monday), &[said("a")], stamp(0));
        take(&mut record, new);
        let again = news(&record, std::slice::from_ref(&monday), &[said("b")], stamp(2));
        assert_eq!(again.len(), 1, "the same instructions are not said again");
        take(&mut record, again);
        let changed = news(&record, &[tuesday], &[said("c")], stamp(3));
        take(&mut record, changed);
        assert_eq!(lead_of(&record), [3]);
        assert_eq!(standing_count(&record), 4);
        let entries: Vec<Entry> = record
            .slots()
            .iter()
            .filter_map(|slot| match slot {
                Slot::Message(entry) => Some(Entry::clone(entry)),
                _ => None,
            })
            .collect();
        let plain = [said("a"), said("b"), said("c")];
        assert_eq!(prefixes(&entries).last(), prefixes(&plain).last());
        assert!(news(&record, &[], &[], stamp(5)).is_empty(), "no instructions at all are no change");
    }

    #[test]
    fn marks_stay_behind_and_the_rest_is_kept_byte_for_byte() {
        let raw = r#"{"role":"user","content":[{"type":"text","text":"h\u0069","cache_control":{"type":"ephemeral"}}],"x":1}"#;
        let body = crate::json::check(raw).unwrap();
        let entry = Wire::Anthropic.read_message(body).unwrap();
        let new = news(&Record::new(), &[], &[entry], stamp(0));
        let [Slot::Message(kept)] = new.as_slice() else { panic!("one entry") };
        assert_eq!(
            &*kept.origin.raw,
            r#"{"role":"user","content":[{"type":"text","text":"h\u0069"}],"x":1}"#
        );
        assert_eq!(kept.content().as_deref(), Some("hi"));
    }
}
