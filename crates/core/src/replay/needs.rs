//! What the replies of a conversation used of what was said before them, and how much of it a view still shows.
//!
//! An agent that cannot see an id cannot use it. Of the values in the arguments of a reply's tool calls, and of the
//! identifiers, numbers and quoted names in its text, those that stand literally in the history before it are what it
//! needed; a view that does not show one of them has lost it.

use std::collections::{BTreeMap, HashMap};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::need::arguments::{is_short, leaves};
use crate::need::identifiers::identifiers;
use crate::{Entry, ItemSource, Role, Slot, ViewItem, json};

/// Longer values than this, in bytes, are not looked for: finding them would take more memory than they are worth.
const LONGEST: usize = 20_000;

/// What each reply of a conversation needed.
#[derive(Debug, Default)]
pub struct Needs {
    /// The values, without repetition.
    values: Vec<String>,
    /// Where each of them stands, in order of position.
    places: Vec<Vec<u64>>,
    /// What each reply used, by its position.
    replies: BTreeMap<u64, Used>,
    /// Where the instructions are.
    system: Vec<u64>,
}

#[derive(Debug, Default)]
struct Used {
    arguments: Vec<usize>,
    answer: Vec<usize>,
    /// Where the task was at that time.
    task: Option<u64>,
    /// Where the last tool group began.
    group: Option<u64>,
}

impl Used {
    const ARGUMENT: &'static str = "argument";
    const ANSWER: &'static str = "answer";
}

/// Which of the values count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stake {
    /// All of them.
    All,
    /// Those a manager's choice decides about: not in the instructions, the task, or the last tool group, which every
    /// view keeps.
    Chosen,
}

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that are still there.
    pub kept: u64,
    /// All.
    pub of: u64,
}

impl Share {
    /// As a part of one; none if there was nothing to keep.
    pub fn ratio(self) -> Option<f64> {
        (self.of > 0).then(|| self.kept as f64 / self.of as f64)
    }
}

impl std::ops::AddAssign for Share {
    fn add_assign(&mut self, other: Share) {
        self.kept += other.kept;
        self.of += other.of;
    }
}

/// What a view still shows of what a reply used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Of the values in the arguments of its calls.
    pub arguments: Share,
    /// Of the identifiers, numbers and quoted names in its text.
    pub answer: Share,
}

impl std::ops::AddAssign for Retained {
    fn add_assign(&mut self, other: Retained) {
        self.arguments += other.arguments;
        self.answer += other.answer;
    }
}

impl Needs {
    /// What the replies of a conversation used. Its cost is that of reading every text twice.
    pub fn of(slots: &[Slot]) -> Self {
        let mut needs = Needs::default();
        let (mut known, mut task, mut group) = (HashMap::new(), None, None);
        for (position, entry) in messages(slots) {
            match entry.role {
                Role::System => needs.system.push(position),
                Role::User => task = Some(position),
                Role::Assistant => {
                    let mut numbered = |values: Vec<String>| -> Vec<usize> {
                        let mut numbers: Vec<usize> = values
                            .into_iter()
                            .map(|value| *known.entry(value).or_insert_with_key(|value| needs.add(value)))
                            .collect();
                        numbers.sort_unstable();
                        numbers.dedup();
                        numbers
                    };
                    let calls =
                        entry.tool_calls().flat_map(|call| values(&call.arguments.as_str())).collect();
                    let text = entry.texts().flat_map(|text| names(&text.as_str())).collect();
                    let (arguments, answer) = (numbered(calls), numbered(text));
                    needs.replies.insert(position, Used { arguments, answer, task, group });
                    group = entry.tool_calls().next().map(|_| position).or(group);
                }
                Role::Tool => {}
            }
        }
        needs.locate(slots);
        needs
    }

    fn add(&mut self, value: &str) -> usize {
        self.values.push(value.into());
        self.places.push(Vec::new());
        self.values.len() - 1
    }

    /// Finds every value in every text: in one pass over each, or in several where the values are too many for one automaton.
    fn locate(&mut self, slots: &[Slot]) {
        let mut parts = vec![(0, self.values.len())];
        while let Some((first, end)) = parts.pop() {
            let values = self.values.get(first..end).unwrap_or_default();
            match AhoCorasick::builder().kind(Some(AhoCorasickKind::ContiguousNFA)).build(values) {
                Ok(finder) => self.locate_with(&finder, first, slots),
                Err(_) if end - first > 1 => {
                    let middle = first.midpoint(end);
                    parts.extend([(first, middle), (middle, end)]);
                }
                // No automaton takes one value of at most LONGEST bytes only if there is no memory.
                Err(_) => {}
            }
        }
    }

    /// Finds the values from number `first` on for which a finder was built.
    fn locate_with(&mut self, finder: &AhoCorasick, first: usize, slots: &[Slot]) {
        for (position, entry) in messages(slots) {
            for text in said(entry) {
                for found in finder.find_overlapping_iter(text.as_str()) {
                    if stands_alone(&text, found.start(), found.end())
                        && let Some(places) = self.places.get_mut(first + found.pattern().as_usize())
                        && places.last() != Some(&position)
                    {
                        places.push(position);
                    }
                }
            }
        }
    }

    /// What a view for the reply at `position` still shows of what that reply used.
    pub fn kept(&self, position: u64, view: &[ViewItem], stake: Stake) -> Retained {
        let mut kept = Retained::default();
        self.judge(position, view, stake, |kind, _, _, shown| {
            let share = match kind {
                Used::ARGUMENT => &mut kept.arguments,
                _ => &mut kept.answer,
            };
            *share += Share { kept: u64::from(shown), of: 1 };
        });
        kept
    }

    /// What the reply at `position` used and a view for it does not show.
    pub fn missing(&self, position: u64, view: &[ViewItem], stake: Stake) -> Vec<Missing> {
        let mut missing = Vec::new();
        self.judge(position, view, stake, |needed_by, value, places, shown| {
            if !shown {
                let stood_at = places.last().copied().unwrap_or(0);
                missing.push(Missing { value: value.into(), needed_by, stood_at });
            }
        });
        missing
    }

    /// Tells for every value that counts where it stood before the reply, and whether it is still shown.
    fn judge(
        &self,
        position: u64,
        view: &[ViewItem],
        stake: Stake,
        mut tell: impl FnMut(&'static str, &str, &[u64], bool),
    ) {
        let Some(used) = self.replies.get(&position) else { return };
        let always = |place: &u64| {
            stake == Stake::Chosen
                && (Some(*place) == used.task
                    || used.group.is_some_and(|group| *place >= group)
                    || self.system.binary_search(place).is_ok())
        };
        let shown = VisibleEntries::of(view);
        for (kind, numbers) in [(Used::ARGUMENT, &used.arguments), (Used::ANSWER, &used.answer)] {
            for number in numbers {
                let (Some(places), Some(value)) = (self.places.get(*number), self.values.get(*number)) else {
                    continue;
                };
                let before = places.partition_point(|place| *place < position);
                let before = places.get(..before).unwrap_or_default();
                if !before.is_empty() && !before.iter().any(always) {
                    tell(kind, value, before, shown.has(value, before));
                }
            }
        }
    }
}

/// A value that a reply used and that its view does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The value.
    pub value: String,
    /// What needed it: `argument` or `answer`.
    pub needed_by: &'static str,
    /// Newest position at which it stood.
    pub stood_at: u64,
}

/// What a view shows, by position.
struct VisibleEntries<'v> {
    /// Entries as they were said, in order.
    whole: Vec<u64>,
    /// Entries that are not, in order.
    changed: Vec<(u64, &'v Entry)>,
    /// What was never said: summaries.
    synthetic: Vec<&'v Entry>,
}

impl<'v> VisibleEntries<'v> {
    fn of(view: &'v [ViewItem]) -> Self {
        let mut shown = VisibleEntries { whole: Vec::new(), changed: Vec::new(), synthetic: Vec::new() };
        for item in view {
            match item.source {
                ItemSource::Entry(position) if item.is_changed() => {
                    shown.changed.push((position, &item.entry));
                }
                ItemSource::Entry(position) => shown.whole.push(position),
                ItemSource::Summary { .. } | ItemSource::Ledger { .. } => shown.synthetic.push(&item.entry),
                ItemSource::Interrupted { .. } => {}
            }
        }
        shown.whole.sort_unstable();
        shown.changed.sort_unstable_by_key(|(position, _)| *position);
        shown
    }

    /// Whether a value that stood at these places is still to be seen.
    fn has(&self, value: &str, places: &[u64]) -> bool {
        let at = |place: &u64| self.changed.binary_search_by_key(place, |(position, _)| *position).ok();
        places.iter().rev().any(|place| {
            self.whole.binary_search(place).is_ok()
                || at(place).and_then(|at| self.changed.get(at)).is_some_and(|(_, entry)| says(entry, value))
        }) || self.synthetic.iter().any(|entry| says(entry, value))
    }
}

fn messages(slots: &[Slot]) -> impl Iterator<Item = (u64, &Entry)> {
    (0..).zip(slots).filter_map(|(position, slot)| match slot {
        Slot::Message(entry) => Some((position, entry.as_ref())),
        _ => None,
    })
}

/// Every text of an entry in which a value may stand: what is read, and what tools are called with.
fn said(entry: &Entry) -> impl Iterator<Item = String> {
    let calls = entry.tool_calls().map(|call| unescaped(&call.arguments.as_str()));
    entry.texts().map(|text| text.as_str().into_owned()).chain(calls)
}

/// Arguments as people read them: their values, without the escapes of JSON.
fn unescaped(arguments: &str) -> String {
    if !arguments.contains('\\') {
        return arguments.into();
    }
    leaves(arguments).into_iter().map(|leaf| leaf.value).collect::<Vec<_>>().join("\n")
}

fn says(entry: &Entry, value: &str) -> bool {
    said(entry).any(|text| {
        text.match_indices(value).any(|(start, found)| stands_alone(&text, start, start + found.len()))
    })
}

/// Whether what lies between is no part of a longer word.
fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let is_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let edge = |inner: Option<char>, outer: Option<char>| !(is_word(inner) && is_word(outer));
    let (Some(before), Some(within), Some(after)) =
        (text.get(..start), text.get(start..end), text.get(end..))
    else {
        return false;
    };
    edge(within.chars().next(), before.chars().next_back())
        && edge(within.chars().next_back(), after.chars().next())
}

fn fits(value: &str) -> bool {
    value.len() <= LONGEST && !is_short(value)
}

/// Strings and numbers in the arguments of a call, of a length that says something.
fn values(arguments: &str) -> Vec<String> {
    let is_json = json::check(arguments).is_ok();
    let is_value = |value: &str| !is_json || !["true", "false", "null"].contains(&value);
    let found = leaves(arguments).into_iter().map(|leaf| leaf.value.into_owned());
    found.filter(|value| fits(value) && is_value(value)).collect()
}

/// Identifiers, numbers and quoted names in a text.
fn names(text: &str) -> Vec<String> {
    identifiers(text).into_iter().filter(|name| fits(name)).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::{CurationContext, Record, Time, manager};

    fn slots(entries: Vec<Entry>) -> Vec<Slot> {
        let stamped = |(entry, sequence): (Entry, u64)| entry.stamped(Uuid::nil(), sequence, Time(0));
        entries.into_iter().zip(0..).map(stamped).map(|entry| Slot::Message(Arc::new(entry))).collect()
    }

    fn order() -> Vec<Slot> {
        slots(vec![
            Entry::text(Role::System, "Orders look like W0000000."),
            Entry::text(Role::User, "Where is my order?"),
            Entry::calling(None, &[("c1", "find", r#"{"user":"mia_li_3668"}"#)]),
            Entry::result("c1", r#"{"order": "W2378156", "items": [49150, 12], "note": "paid by card"}"#),
            Entry::text(Role::Assistant, "Order W2378156 is on its way; ask for “Mia Li” at 12."),
            Entry::text(Role::User, "Cancel it."),
            Entry::calling(
                None,
                &[(
                    "c2",
                    "cancel",
                    r#"{"order":"W2378156","items":[49150],"why":"no longer needed","n":12}"#,
                )],
            ),
        ])
    }

    fn kept(slots: &[Slot], position: u64, manager: &str, stake: Stake) -> Retained {
        let mut record = Record::new();
        for slot in &slots[..position as usize] {
            record.take(slot.clone()).unwrap();
        }
        let cx = CurationContext::default();
        let manager = manager::parse(manager).unwrap();
        let view = record.view(&cx, manager.as_ref()).unwrap();
        let items: Vec<ViewItem> = view.items().collect();
        Needs::of(slots).kept(position, &items, stake)
    }

    #[test]
    fn a_value_is_needed_if_it_was_said_before_and_kept_if_it_is_still_shown() {
        let slots = order();
        // The order and the item were said; the reason was not, and 12 is too short.
        let all = kept(&slots, 6, "passthrough", Stake::All);
        assert_eq!(all.arguments, Share { kept: 2, of: 2 });
        let last = kept(&slots, 6, "turn_window(1)", Stake::All);
        assert_eq!(last.arguments, Share { kept: 0, of: 2 });
        // The order stands in the reply too, which a window of three keeps; the item does not.
        let some = kept(&slots, 6, "sliding_window(3)", Stake::All);
        assert_eq!(some.arguments, Share { kept: 1, of: 2 });
        assert_eq!(kept(&slots, 4, "passthrough", Stake::All).answer, Share { kept: 1, of: 1 });
    }

    #[test]
    fn what_every_view_shows_is_not_at_stake() {
        let slots = order();
        assert_eq!(kept(&slots, 6, "passthrough", Stake::Chosen).arguments, Share { kept: 0, of: 0 });
        // With another exchange in between, both are a matter of choice.
        let mut longer = order();
        let cancel = longer.pop().unwrap();
        longer.extend(slots_between());
        longer.push(cancel);
        let at = longer.len() as u64 - 1;
        assert_eq!(kept(&longer, at, "passthrough", Stake::Chosen).arguments, Share { kept: 2, of: 2 });
        assert_eq!(
            kept(&longer, at, "clear_tool_results(1)", Stake::Chosen).arguments,
            Share { kept: 1, of: 2 }
        );
    }

    fn slots_between() -> Vec<Slot> {
        let stamped = |(entry, sequence): (Entry, u64)| entry.stamped(Uuid::nil(), sequence, Time(0));
        let said = vec![Entry::calling(None, &[("c9", "clock", "{}")]), Entry::result("c9", "noon")];
        said.into_iter().zip(6..).map(stamped).map(|entry| Slot::Message(Arc::new(entry))).collect()
    }

    #[test]
    fn values_stand_on_word_boundaries() {
        assert!(stands_alone("id=W23;", 3, 6));
        assert!(!stands_alone("id=W234;", 3, 6));
        assert!(!stands_alone("xW23", 1, 4));
        assert!(stands_alone("übung W23", 7, 10));
        assert_eq!(values(r#"{"a":["one","no"],"b":{"c":1234,"d":true}}"#).len(), 2);
        assert_eq!(
            names("See `crates/core` and main.rs, \"the plan\", userName, 2026-01-02; not this."),
            ["crates/core", "the plan", "main.rs", "userName", "2026-01-02"]
        );
    }
}
