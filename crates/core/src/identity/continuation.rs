//! How a caller's list of messages goes on from a record, where the caller may not have all of it.

use super::{align, content_hash, identity};
use crate::chain::Link;
use crate::entry::{Entry, Role};
use crate::record::{Record, Slot};

/// Entries that a list and the beginning of a record must share before the list counts as a branch. One may be chance:
/// people begin many talks with the same word.
const BRANCHES_FROM: usize = 2;

/// How a list of messages goes on from a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// For each entry of the list its position in the record; none where it is new.
    pub places: Vec<Option<u64>>,
    /// The first entry of the list that is new.
    pub new_from: usize,
    /// Where the list leaves what the record says, if it does: it belongs in a fork from here.
    pub branch_at: Option<u64>,
}

/// Compares a list of messages, without its leading instructions, with a record that is known to be of the same conversation.
///
/// The list may be the whole conversation, or only its newest part, as programs send it that leave history to others. It goes
/// on from the whole record; or from the end of it, as far as the two overlap; or it repeats the beginning and then says
/// something else, which makes it a branch. Otherwise all of it is new.
pub fn continue_from(record: &Record, list: &[Entry]) -> Continuation {
    let whole = align(record, list, record.len() as u64);
    if !whole.branches {
        return Continuation { places: whole.places, new_from: whole.covered, branch_at: None };
    }
    let said = said_last(record, list.len());
    let wanted: Vec<Link> = list.iter().map(compared).collect();
    for length in (1..=said.len().min(list.len())).rev() {
        let end = said.get(said.len() - length..).unwrap_or_default();
        if end.iter().map(|(_, link)| link).eq(wanted.iter().take(length)) {
            let mut places: Vec<Option<u64>> = end.iter().map(|(position, _)| Some(*position)).collect();
            places.resize(list.len(), None);
            return Continuation { places, new_from: length, branch_at: None };
        }
    }
    if whole.covered >= BRANCHES_FROM {
        let (places, new_from) = (whole.places, whole.covered);
        return Continuation { places, new_from, branch_at: Some(whole.after) };
    }
    Continuation { places: vec![None; list.len()], new_from: 0, branch_at: None }
}

/// The newest entries of a record that a caller would send back, at most so many, oldest first.
fn said_last(record: &Record, most: usize) -> Vec<(u64, Link)> {
    let positions = (0..record.len() as u64).rev();
    let entries = positions.filter_map(|position| match record.get(position) {
        Some(Slot::Message(entry)) if entry.role != Role::System && !entry.is_lead() => {
            Some((position, compared(entry)))
        }
        _ => None,
    });
    let mut said: Vec<(u64, Link)> = entries.take(most).collect();
    said.reverse();
    said
}

fn compared(entry: &Entry) -> Link {
    identity(entry).unwrap_or_else(|| content_hash(entry))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(texts: &[&str]) -> Record {
        let mut record = Record::new();
        for (sequence, entry) in entries(texts).into_iter().enumerate() {
            record.append(entry.stamped(uuid::Uuid::nil(), sequence as u64, crate::Time(0))).unwrap();
        }
        record
    }

    fn entries(texts: &[&str]) -> Vec<Entry> {
        let role = |number: usize| if number.is_multiple_of(2) { Role::User } else { Role::Assistant };
        texts.iter().enumerate().map(|(number, text)| Entry::text(role(number), text)).collect()
    }

    #[test]
    fn a_list_goes_on_from_the_record_from_its_end_or_from_a_branch() {
        let said = record(&["a", "b", "c", "d"]);
        let case = |list: &[&str]| {
            let found = continue_from(&said, &entries(list));
            (found.new_from, found.branch_at)
        };
        assert_eq!(case(&["a", "b", "c", "d", "e"]), (4, None), "the whole record and more");
        assert_eq!(case(&["c", "d", "e"]), (2, None), "only the newest part");
        assert_eq!(case(&["e"]), (0, None), "something new without any history");
        assert_eq!(case(&["a"]), (0, None), "one word in common is chance");
        assert_eq!(case(&["a", "b", "x"]), (2, Some(2)), "the beginning, and then something else");
        assert_eq!(case(&["a", "b"]), (2, Some(2)), "a step back");
        let places = continue_from(&said, &entries(&["c", "d", "e"])).places;
        assert_eq!(places, [Some(2), Some(3), None]);
        assert_eq!(continue_from(&Record::new(), &entries(&["a"])).new_from, 0);
    }
}
