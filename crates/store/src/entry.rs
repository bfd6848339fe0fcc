//! What is appended, and the result of appending.

use std::sync::Arc;

use scrollback_core::{Decision, Entry, Link, Slot, Time};
use uuid::Uuid;

use crate::id::{ConversationId, new_evaluation};

/// Something to append: a message, or a decision about what is there.
#[derive(Clone, Debug)]
pub enum NewEntry {
    /// Something said, as number `sequence` of its evaluation.
    Message(Box<Entry>),
    /// A curation choice.
    Decision(Box<Decision>),
}

impl NewEntry {
    /// Messages as an evaluation of their own, said at `at`.
    pub fn evaluation(entries: impl IntoIterator<Item = Entry>, at: Time) -> Vec<NewEntry> {
        NewEntry::continued(entries, new_evaluation(), 0, at)
    }

    /// Messages as the next ones of an evaluation, from `sequence` on.
    pub fn continued(
        entries: impl IntoIterator<Item = Entry>,
        evaluation: Uuid,
        sequence: u64,
        at: Time,
    ) -> Vec<NewEntry> {
        (sequence..)
            .zip(entries)
            .map(|(sequence, entry)| NewEntry::from(entry.stamped(evaluation, sequence, at)))
            .collect()
    }

    /// What a place of a record appends again; none for one that was erased.
    pub fn of(slot: &Slot) -> Option<NewEntry> {
        match slot {
            Slot::Message(entry) => Some(NewEntry::Message(Box::new(Entry::clone(entry)))),
            Slot::Decision(decision, _) => Some(NewEntry::Decision(Box::new(Decision::clone(decision)))),
            Slot::Erased(_) => None,
        }
    }

    /// The place it becomes when it is decided at `at`, without giving it away.
    pub fn slot(&self, at: Time) -> Slot {
        self.clone().into_slot(at)
    }

    /// The place it becomes when it is decided at `at`.
    pub fn into_slot(self, at: Time) -> Slot {
        match self {
            NewEntry::Message(entry) => Slot::Message(Arc::from(entry)),
            NewEntry::Decision(decision) => Slot::Decision(Arc::from(decision), at),
        }
    }
}

impl From<Entry> for NewEntry {
    fn from(entry: Entry) -> Self {
        NewEntry::Message(Box::new(entry))
    }
}

impl From<Decision> for NewEntry {
    fn from(decision: Decision) -> Self {
        NewEntry::Decision(Box::new(decision))
    }
}

/// What the writer believes the next position to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This one; if another was written meanwhile, nothing is.
    At(u64),
    /// Whichever it is. The entries still stand together.
    Any,
}

/// Where entries were appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The conversation they are in.
    pub conversation: ConversationId,
    /// Position of the first.
    pub first: u64,
    /// Position of the last.
    pub last: u64,
    /// The chain's value at the last.
    pub link: Link,
}

/// One place of a stored record.
#[derive(Clone, Debug)]
pub struct StoredEntry {
    /// Its position.
    pub position: u64,
    /// What stands there.
    pub slot: Slot,
    /// The chain's value there.
    pub link: Link,
    /// The hash of what was said there, erased or not.
    pub body_hash: Link,
    /// The value of the chain over what was said; none for decisions and the lead.
    pub prefix: Option<Link>,
}
