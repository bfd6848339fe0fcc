//! Is there one order of all operations on a conversation that explains what each was told?
//!
//! A conversation is a list that only grows, and appends are told where they went, so the order of the appends is known. Its
//! length is a version: an append makes the next, a read sees one. An order exists exactly if no operation saw an older version
//! than one that had ended before it began. Erased places are a second such state, place by place.

use std::collections::{BinaryHeap, HashMap, HashSet};

/// One operation of one program: when it began and ended, and what it was told.
pub(super) struct Operation {
    pub(super) begin: u128,
    pub(super) end: u128,
    pub(super) done: Done,
}

/// What an operation was told.
pub(super) enum Done {
    /// These values, from this place on.
    Appended(Vec<String>, usize),
    /// Nothing was written: the list was this long.
    Conflict(Vec<String>, usize),
    /// Written or not.
    Unknown(Vec<String>),
    /// All values; `x` where one was erased.
    Read(Vec<String>),
    /// The values below a place.
    Forked(Vec<String>, usize),
    Erased(usize),
    MaybeErased(usize),
}

/// Everything that happened to one conversation, and what it says in the end.
#[derive(Default)]
pub(super) struct History {
    pub(super) operations: Vec<Operation>,
    pub(super) last: Vec<String>,
}

const ERASED: &str = "x";

impl History {
    /// Why no order explains this; none if one does.
    pub(super) fn wrong(&self) -> Option<String> {
        self.content().or_else(|| self.versions()).or_else(|| self.erasures())
    }

    /// Whether the value at a place may be this: what is there in the end, unless it was erased.
    fn fits(&self, at: usize, value: &str) -> bool {
        self.last.get(at).is_some_and(|last| last == value || last == ERASED)
    }

    /// Every place was written by exactly one append, and everything that was read was there.
    fn content(&self) -> Option<String> {
        let mut written = HashSet::new();
        let mut place = |first: usize, values: &[String]| -> Option<String> {
            (first..).zip(values).find_map(|(at, value)| {
                if !self.fits(at, value) {
                    Some(format!("{value} was acknowledged at {at} and is not there"))
                } else if !written.insert(at) {
                    Some(format!("two appends were told that they wrote {at}"))
                } else {
                    None
                }
            })
        };
        let mut unknown = HashMap::new();
        for operation in &self.operations {
            match &operation.done {
                Done::Appended(values, first) => {
                    if let Some(wrong) = place(*first, values) {
                        return Some(wrong);
                    }
                }
                Done::Unknown(values) => {
                    unknown
                        .extend(values.iter().enumerate().map(|(at, value)| (value.as_str(), (at, values))));
                }
                Done::Conflict(values, _) => {
                    if let Some(value) = values.iter().find(|value| self.last.contains(value)) {
                        return Some(format!("{value} was refused and is there"));
                    }
                }
                _ => {}
            }
        }
        // What no append was told it wrote must be of one whose end is not known, all of it together.
        for (at, value) in self.last.iter().enumerate().filter(|(at, _)| !written.contains(at)) {
            match unknown.get(value.as_str()) {
                _ if value == ERASED => {}
                None => return Some(format!("{value} at {at} was written by no append")),
                Some((offset, values)) => {
                    let whole = at.checked_sub(*offset).is_some_and(|first| {
                        (first..).zip(values.iter()).all(|(at, value)| self.fits(at, value))
                    });
                    if !whole {
                        return Some(format!("{value} at {at} is part of an append that is not there whole"));
                    }
                }
            }
        }
        self.operations.iter().find_map(|operation| match &operation.done {
            Done::Read(values) | Done::Forked(values, _) => values
                .iter()
                .enumerate()
                .find(|(at, value)| {
                    let erased = value.as_str() == ERASED && self.last.get(*at).is_some();
                    !self.fits(*at, value) && !erased
                })
                .map(|(at, value)| format!("{value} was read at {at} and is not there")),
            _ => None,
        })
    }

    /// No operation saw a shorter list than one that had ended before it began.
    fn versions(&self) -> Option<String> {
        let mut by_begin: Vec<&Operation> = self.operations.iter().collect();
        by_begin.sort_by_key(|operation| operation.begin);
        // Those under way, the first to end on top.
        let mut under_way: BinaryHeap<(std::cmp::Reverse<u128>, usize)> = BinaryHeap::new();
        let mut least = 0;
        for operation in by_begin {
            while let Some((end, leaves)) = under_way.peek() {
                if end.0 >= operation.begin {
                    break;
                }
                least = least.max(*leaves);
                under_way.pop();
            }
            let (saw, leaves) = match &operation.done {
                Done::Appended(values, first) => (*first, first + values.len()),
                Done::Conflict(_, actual) => (*actual, *actual),
                Done::Read(values) => (values.len(), values.len()),
                Done::Forked(values, at) => {
                    if values.len() != *at {
                        return Some(format!("a fork at {at} has {} entries", values.len()));
                    }
                    // A fork sees at least so much, and no more is known.
                    under_way.push((std::cmp::Reverse(operation.end), *at));
                    continue;
                }
                _ => continue,
            };
            if saw < least {
                return Some(format!("{saw} entries were seen when there had been {least}"));
            }
            under_way.push((std::cmp::Reverse(operation.end), leaves));
        }
        None
    }

    /// An erased place stays erased, and nothing is erased that was not asked for.
    fn erasures(&self) -> Option<String> {
        let (mut asked, mut certain) = (HashMap::new(), HashMap::new());
        for operation in &self.operations {
            let (at, sure) = match operation.done {
                Done::Erased(at) => (at, true),
                Done::MaybeErased(at) => (at, false),
                _ => continue,
            };
            let first: &mut u128 = asked.entry(at).or_insert(u128::MAX);
            *first = operation.begin.min(*first);
            if sure {
                let first: &mut u128 = certain.entry(at).or_insert(u128::MAX);
                *first = operation.end.min(*first);
            }
        }
        let seen = self.operations.iter().filter_map(|operation| match &operation.done {
            Done::Read(values) | Done::Forked(values, _) => Some((operation, values)),
            _ => None,
        });
        let mut seen: Vec<(&Operation, &Vec<String>)> = seen.collect();
        seen.sort_by_key(|(operation, _)| operation.end);
        for (operation, values) in seen {
            for (at, value) in values.iter().enumerate() {
                let erased = value == ERASED;
                if erased && asked.get(&at).is_none_or(|first| *first > operation.end) {
                    return Some(format!("{at} was seen as erased before that was asked for"));
                }
                if !erased && certain.get(&at).is_some_and(|first| *first < operation.begin) {
                    return Some(format!("{at} was erased and is read again"));
                }
                if erased {
                    let first: &mut u128 = certain.entry(at).or_insert(u128::MAX);
                    *first = operation.end.min(*first);
                }
            }
        }
        let lost = |(at, _): (&usize, &u128)| self.last.get(*at).is_some_and(|value| value != ERASED);
        certain
            .iter()
            .find(|entry| lost(*entry))
            .map(|(at, _)| format!("{at} was erased and is there in the end"))
    }
}

mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    fn history(operations: Vec<(u128, u128, Done)>, last: &str) -> History {
        let of = |(begin, end, done)| Operation { begin, end, done };
        History { operations: operations.into_iter().map(of).collect(), last: list(last) }
    }

    #[test]
    fn the_checker_accepts_what_has_an_order_and_finds_what_has_none() {
        use Done::{Appended, Conflict, Erased, Forked, Read, Unknown};
        let append = |begin, end, values: &str, first| (begin, end, Appended(list(values), first));
        let read = |begin, end, values: &str| (begin, end, Read(list(values)));
        let good = [
            history(vec![append(0, 5, "a", 0), append(1, 4, "b", 1), read(2, 3, "a")], "a b"),
            history(vec![append(0, 1, "a", 0), (2, 9, Unknown(list("b c"))), read(3, 4, "a b c")], "a b c"),
            history(vec![append(0, 1, "a", 0), (2, 9, Unknown(list("b")))], "a"),
            history(vec![append(0, 1, "a", 0), (2, 5, Erased(0)), read(3, 4, "a"), read(6, 7, "x")], "x"),
            history(
                vec![append(0, 1, "a b", 0), (2, 3, Conflict(list("c"), 2)), (2, 3, Forked(list("a"), 1))],
                "a b",
            ),
        ];
        for (number, history) in good.iter().enumerate() {
            assert_eq!(history.wrong(), None, "good {number}");
        }
        let bad = [
            ("a lost append", history(vec![append(0, 1, "a", 0), append(2, 3, "b", 1)], "a")),
            ("a place given twice", history(vec![append(0, 1, "a", 0), append(2, 3, "a", 0)], "a")),
            ("a stale read", history(vec![append(0, 1, "a", 0), read(2, 3, "")], "a")),
            ("reads that go back", history(vec![append(0, 9, "a", 0), read(1, 2, "a"), read(3, 4, "")], "a")),
            (
                "an append before one that had ended",
                history(vec![append(0, 1, "b", 1), append(2, 3, "a", 0)], "a b"),
            ),
            (
                "a conflict from the past",
                history(vec![append(0, 1, "a", 0), (2, 3, Conflict(list("c"), 0))], "a"),
            ),
            (
                "a refused append that is there",
                history(vec![append(0, 1, "a", 0), (2, 3, Conflict(list("c"), 1))], "a c"),
            ),
            ("half of an append", history(vec![(0, 9, Unknown(list("a b")))], "a")),
            ("a value no append wrote", history(vec![append(0, 1, "a", 0)], "a z")),
            (
                "an erased place read again",
                history(vec![append(0, 1, "a", 0), (2, 3, Erased(0)), read(4, 5, "a")], "x"),
            ),
            (
                "erased before it was asked for",
                history(vec![append(0, 1, "a", 0), read(2, 3, "x"), (4, 5, Erased(0))], "x"),
            ),
            ("an erasure that was lost", history(vec![append(0, 1, "a", 0), (2, 3, Erased(0))], "a")),
            (
                "a fork with too little",
                history(vec![append(0, 1, "a b", 0), (2, 3, Forked(list("a"), 2))], "a b"),
            ),
        ];
        for (what, history) in &bad {
            assert!(history.wrong().is_some(), "{what} was not found");
        }
    }
}
