//! The explanation of a view: for every entry left out or changed, who did it and why.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use super::edit::Edit;
use super::show::Result;
use super::{Reason, View};
use crate::entry::{Entry, Role};
use crate::recall::Handle;
use crate::record::groups::{Group, Stray};

/// An entry that is not in the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Its position.
    pub index: u64,
    /// The first manager that left it out.
    pub manager: String,
    /// Why.
    pub reason: Reason,
    /// All positions of its group, when it is not alone in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Vec<u64>>,
    /// Position of the decision behind it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<u64>,
}

/// An entry that is in the view, but not as it was said or not where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Its position.
    pub index: u64,
    /// The manager that changed it.
    pub manager: &'static str,
    /// How.
    pub reason: Reason,
    /// Characters before.
    pub from_chars: usize,
    /// Characters after.
    pub to_chars: usize,
    /// Position of the decision behind it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<u64>,
    /// The lines of it that stand in a ledger.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

/// Every entry of the record is in the view exactly once or in `dropped` exactly once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// What is not in the view, by position.
    pub dropped: Vec<Dropped>,
    /// What is in the view changed, by position.
    pub changed: Vec<Changed>,
}

const COHERENCE: &str = "coherence";

impl View<'_> {
    /// Who left out or changed what, and why. Costs in proportion to the record, so it is made only when asked for.
    pub fn explain(&self) -> Explanation {
        let mut dropped = BTreeMap::new();
        self.explain_coherence(&mut dropped);
        for drop in &self.drops {
            for (_, group) in self.groups_in(&drop.groups) {
                note(&mut dropped, group, &drop.manager, drop.reason, drop.by);
            }
        }
        let mut changed = Vec::new();
        for index in self.lead.iter().copied().chain(self.body.iter()) {
            self.explain_changes(index, &mut changed);
        }
        self.explain_ledgers(&mut dropped, &mut changed);
        changed.sort_by_key(|change| change.index);
        Explanation { dropped: dropped.into_values().collect(), changed }
    }

    /// Who left out or changed anything for a reason that is `wanted`, each once, in the order of the record. Says less than
    /// [`View::explain`], and costs in proportion to the view.
    pub(crate) fn altered_by(&self, wanted: impl Fn(Reason) -> bool) -> Vec<String> {
        let erased = self.record.groups.strays.iter().filter(|(_, stray)| *stray == Stray::Erased);
        let erased = erased.map(|(position, _)| (*position, Reason::Erased));
        let hidden = self.record.groups.hidden.iter().filter_map(|index| self.record.groups.get(*index));
        let hidden =
            hidden.map(|group| (group.first, if group.erased { Reason::Erased } else { Reason::Truncated }));
        let coherence = erased.chain(hidden).filter(|(_, reason)| wanted(*reason));
        let coherence = coherence.map(|(position, _)| (position, COHERENCE));
        let drops = self.drops.iter().filter(|drop| wanted(drop.reason)).filter_map(|drop| {
            let (_, first) = self.groups_in(&drop.groups).next()?;
            Some((first.first, drop.manager.as_ref()))
        });
        let mut by: Vec<(u32, &str)> = coherence.chain(drops).collect();
        by.sort_by_key(|(position, _)| *position);
        let mut changed = Vec::new();
        for index in self.lead.iter().copied().chain(self.body.iter()) {
            self.explain_changes(index, &mut changed);
        }
        changed.sort_by_key(|change| change.index);
        let changed = changed.iter().filter(|change| wanted(change.reason)).map(|change| change.manager);
        let mut names: Vec<String> = Vec::new();
        for name in by.into_iter().map(|(_, name)| name).chain(changed) {
            if !names.iter().any(|known| known == name) {
                names.push(name.into());
            }
        }
        names
    }

    /// An entry with lines in a ledger is not left out: it is shown in part.
    fn explain_ledgers(&self, dropped: &mut BTreeMap<u64, Dropped>, changed: &mut Vec<Changed>) {
        let mut kept: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for (position, _, line) in self.ledgers().flat_map(|ledger| ledger.lines()) {
            kept.entry(*position).or_default().push(line.clone());
        }
        for (index, lines) in kept {
            // What stands whole beside its ledger is not changed.
            let Some(left_out) = dropped.get(&index).filter(|dropped| dropped.reason == Reason::Planned)
            else {
                continue;
            };
            changed.push(Changed {
                index,
                manager: "auto",
                reason: Reason::Ledger,
                from_chars: self.record.entry(index).map_or(0, |entry| entry.chars()),
                to_chars: lines.iter().map(|line| line.chars().count()).sum(),
                by: left_out.by,
                lines,
            });
            dropped.remove(&index);
        }
    }

    /// Whether the provider's own compaction stands for a part of the record.
    pub(crate) fn is_compacted(&self) -> bool {
        self.drops.iter().any(|drop| drop.reason == Reason::Compacted)
    }

    /// Whether a summary stands in the view.
    pub(crate) fn has_summary(&self) -> bool {
        self.summary.is_some()
    }

    /// What no manager ever saw.
    fn explain_coherence(&self, dropped: &mut BTreeMap<u64, Dropped>) {
        for &(position, stray) in &self.record.groups.strays {
            let reason = match stray {
                Stray::Orphan => Reason::OrphanResult,
                Stray::Duplicate => Reason::DuplicateResult,
                Stray::Erased => Reason::Erased,
            };
            let index = u64::from(position);
            dropped
                .insert(index, Dropped { index, manager: COHERENCE.into(), reason, group: None, by: None });
        }
        for group in self.record.groups.all.iter().filter(|group| !group.is_visible(self.unfinished)) {
            let reason = if group.erased {
                Reason::Erased
            } else if group.silent {
                Reason::Truncated
            } else {
                Reason::UnfinishedGroup
            };
            note(dropped, group, COHERENCE, reason, None);
        }
    }

    fn explain_changes(&self, index: u32, changed: &mut Vec<Changed>) {
        let Some(group) = self.group(index) else { return };
        if let Some(entry) = self.record.entry(group.first.into())
            && let Some(left) = entry.without_cut_parts()
        {
            changed.push(Changed {
                index: group.first.into(),
                manager: COHERENCE,
                reason: Reason::Truncated,
                from_chars: entry.chars(),
                to_chars: left.chars(),
                by: None,
                lines: Vec::new(),
            });
        }
        if let Some(entry) = self.record.entry(group.first.into()).filter(|entry| entry.role == Role::User) {
            let handle = self.recall.as_ref().map(|tail| Handle::at(tail.clone(), group.first.into()));
            explain_edits(group.first, entry, self.edits_on_opening(group.first), handle.as_ref(), changed);
        }
        for place in self.places(index, group) {
            let Result::Came(position) = place.result else { continue };
            let Some(entry) = self.record.entry(position.into()) else { continue };
            if self.record.groups.is_moved(position) {
                let chars = entry.chars();
                changed.push(Changed {
                    index: position.into(),
                    manager: COHERENCE,
                    reason: Reason::Moved,
                    from_chars: chars,
                    to_chars: chars,
                    by: None,
                    lines: Vec::new(),
                });
            }
            explain_edits(position, entry, self.edits_on(&place), self.handle_of(&place).as_ref(), changed);
        }
    }
}

/// Notes every edit that changes an entry, with how much each leaves of it.
fn explain_edits<'e>(
    position: u32,
    entry: &Entry,
    edits: impl Iterator<Item = &'e Edit>,
    handle: Option<&Handle>,
    changed: &mut Vec<Changed>,
) {
    let mut current = Cow::Borrowed(entry);
    for edit in edits {
        let Some(next) = edit.rewrite.apply_with(&current, handle) else { continue };
        changed.push(Changed {
            index: position.into(),
            manager: edit.manager,
            reason: edit.rewrite.reason(),
            from_chars: current.chars(),
            to_chars: next.chars(),
            by: edit.by,
            lines: Vec::new(),
        });
        current = Cow::Owned(next);
    }
}

/// The first reason given for a position is the one that counts.
fn note(dropped: &mut BTreeMap<u64, Dropped>, group: &Group, manager: &str, reason: Reason, by: Option<u64>) {
    let positions: Vec<u64> = group.positions().map(u64::from).collect();
    for &index in &positions {
        let group = (positions.len() > 1).then(|| positions.clone());
        dropped.entry(index).or_insert_with(|| Dropped { index, manager: manager.into(), reason, group, by });
    }
}
