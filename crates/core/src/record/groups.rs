//! Groups: which entries belong together, found by id while entries arrive.

use std::collections::HashMap;

use crate::context::Unfinished;
use crate::entry::{Entry, Role, Status};

/// Groups that a late result may still change without disturbing what is remembered about older ones.
/// A tool round rarely spans more; results that come later than this void the remembered folds.
pub(crate) const UNSETTLED: usize = 64;

/// The atomic unit of curation: an entry, or an assistant entry with calls and its results.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts about a group that do not depend on each other")]
pub(crate) struct Group {
    /// Position of the entry that opens it.
    pub(crate) first: u32,
    /// Positions of its results, in record order.
    pub(crate) results: Vec<u32>,
    /// Calls the client must answer.
    pub(crate) calls: u32,
    /// Trajectory steps of the opening entry.
    pub(crate) steps: u32,
    pub(crate) role: Role,
    /// A call has no id, so the group can never be complete.
    anonymous: bool,
    /// Calls of it that decisions say will not be answered.
    interrupted: Vec<String>,
    /// All of its missing results are such.
    closed: bool,
    /// An entry of it was erased.
    pub(crate) erased: bool,
    /// Its stream broke before it said anything.
    pub(crate) silent: bool,
}

impl Group {
    pub(crate) fn is_complete(&self) -> bool {
        self.results.len() == self.calls as usize
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Whether a coherent view shows the group.
    pub(crate) fn is_visible(&self, unfinished: Unfinished) -> bool {
        let settled =
            self.is_complete() || self.closed || (unfinished == Unfinished::Close && !self.anonymous);
        settled && !self.erased && !self.silent
    }

    /// Entries a view shows for it: missing results are shown too, as interrupted.
    pub(crate) fn len(&self) -> usize {
        1 + self.calls as usize
    }

    /// Trajectory steps a view shows for it.
    pub(crate) fn total_steps(&self) -> usize {
        self.steps as usize + self.calls as usize
    }

    /// Positions of its entries.
    pub(crate) fn positions(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        std::iter::once(self.first).chain(self.results.iter().copied())
    }
}

/// Why an entry belongs to no group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stray {
    /// No call asked for it.
    Orphan,
    /// Its call was answered before.
    Duplicate,
    /// It was erased.
    Erased,
}

/// Who answers for a call id now.
#[derive(Debug)]
struct Claim {
    group: u32,
    calls: u32,
    results: u32,
}

/// The groups of a record, kept up to date entry by entry.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) all: Vec<Group>,
    /// Group of each position; none for decisions and strays.
    of: Vec<Option<u32>>,
    /// Groups that are user entries, ascending: the turn starts.
    pub(crate) users: Vec<u32>,
    /// Results without a place, ascending by position.
    pub(crate) strays: Vec<(u32, Stray)>,
    /// Groups that no view shows: an entry of them was erased, or said nothing.
    pub(crate) hidden: Vec<u32>,
    /// Results that stand apart from their call, ascending.
    pub(crate) moved: Vec<u32>,
    /// Entries that claim an id another entry had claimed, ascending, and the id.
    pub(crate) reclaimed: Vec<(u32, Box<str>)>,
    /// Never iterated, so its order cannot reach a view.
    claims: HashMap<Box<str>, Claim>,
    last_non_result: Option<u32>,
}

/// What an append changed beyond adding at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendEffect {
    /// Only recent groups.
    Recent,
    /// A group so old that remembered folds have passed it.
    Old,
}

impl Groups {
    /// Makes room for so many entries.
    pub(crate) fn reserve(&mut self, entries: usize) {
        self.all.reserve(entries);
        self.of.reserve(entries);
    }

    /// Takes in the entry at `position`, which is the next one.
    pub(crate) fn push(&mut self, position: u32, entry: &Entry) -> AppendEffect {
        if let Some(result) = entry.tool_result() {
            let id = result.call_id.as_ref().map(crate::Text::as_str);
            return self.push_result(position, id.as_deref());
        }
        let group = self.all.len() as u32;
        let mut calls = 0;
        let mut anonymous = false;
        for call in entry.open_calls() {
            calls += 1;
            let Some(id) = &call.call_id else {
                anonymous = true;
                continue;
            };
            let id = id.as_str();
            match self.claims.get_mut(id.as_ref()) {
                Some(claim) if claim.group == group => claim.calls += 1,
                Some(claim) => {
                    self.reclaimed.push((position, id.as_ref().into()));
                    *claim = Claim { group, calls: 1, results: 0 };
                }
                None => {
                    self.claims.insert(id.into(), Claim { group, calls: 1, results: 0 });
                }
            }
        }
        if entry.role == Role::User {
            self.users.push(group);
        }
        let left = entry.without_cut_parts();
        let silent = entry.status() != Status::Complete && left.as_ref().unwrap_or(entry).is_silent();
        if silent {
            self.hidden.push(group);
        }
        self.all.push(Group {
            first: position,
            results: Vec::new(),
            calls,
            steps: left.as_ref().unwrap_or(entry).steps(),
            role: entry.role,
            anonymous,
            interrupted: Vec::new(),
            closed: false,
            erased: false,
            silent,
        });
        self.of.push(Some(group));
        self.last_non_result = Some(position);
        AppendEffect::Recent
    }

    fn push_result(&mut self, position: u32, id: Option<&str>) -> AppendEffect {
        let claim = id.and_then(|id| self.claims.get_mut(id));
        let stray = match &claim {
            None => Some(Stray::Orphan),
            Some(claim) if claim.results == claim.calls => Some(Stray::Duplicate),
            Some(_) => None,
        };
        if let Some(stray) = stray {
            self.strays.push((position, stray));
            self.of.push(None);
            return AppendEffect::Recent;
        }
        let Some(claim) = claim else { return AppendEffect::Recent };
        claim.results += 1;
        let index = claim.group;
        self.of.push(Some(index));
        let old = self.all.len().saturating_sub(index as usize) > UNSETTLED;
        if let Some(group) = self.all.get_mut(index as usize) {
            group.results.push(position);
            if self.last_non_result.is_some_and(|last| last > group.first) {
                self.moved.push(position);
            }
        }
        if old { AppendEffect::Old } else { AppendEffect::Recent }
    }

    /// Takes in a position that is no message.
    pub(crate) fn skip(&mut self) {
        self.of.push(None);
    }

    pub(crate) fn get(&self, group: u32) -> Option<&Group> {
        self.all.get(group as usize)
    }

    /// The group the entry at `position` belongs to.
    pub(crate) fn of(&self, position: u32) -> Option<u32> {
        self.of.get(position as usize).copied().flatten()
    }

    pub(crate) fn is_moved(&self, position: u32) -> bool {
        self.moved.binary_search(&position).is_ok()
    }

    /// First group that opens at or after `position`.
    pub(crate) fn at_or_after(&self, position: u64) -> u32 {
        self.all.partition_point(|group| u64::from(group.first) < position) as u32
    }

    /// These calls will not be answered: groups that miss only such results are shown from now on.
    pub(crate) fn interrupt(&mut self, ids: &[String], missing: impl Fn(&Group) -> Vec<String>) {
        for group in self.all.iter_mut().filter(|group| !group.is_complete() && !group.anonymous) {
            let missing = missing(group);
            let named = missing.iter().filter(|id| ids.contains(id) && !group.interrupted.contains(id));
            let named: Vec<String> = named.cloned().collect();
            group.interrupted.extend(named);
            group.closed |= missing.iter().all(|id| group.interrupted.contains(id));
        }
    }

    pub(crate) fn erase(&mut self, position: u32) {
        match self.of(position) {
            Some(index) => {
                if let Some(group) = self.all.get_mut(index as usize) {
                    if !group.erased && !group.silent {
                        self.hidden.push(index);
                    }
                    group.erased = true;
                }
                self.users.retain(|user| *user != index);
            }
            None => {
                if let Some(stray) = self.strays.iter_mut().find(|stray| stray.0 == position) {
                    stray.1 = Stray::Erased;
                }
            }
        }
    }
}
