//! A plan: what a view begins with, and from where on it shows everything.

use std::collections::HashSet;
use std::sync::Arc;

use super::ledger::Ledger;
use crate::decision::{Decision, PlanItem};
use crate::ranges::Ranges;
use crate::record::Record;
use crate::record::groups::Group;
use crate::tokens::Factor;

/// One thing a view shows: a group as it was said, or a ledger.
#[derive(Clone, Debug)]
pub(crate) enum PlanUnit {
    Group(u32),
    Ledger(Arc<Ledger>),
}

/// What views show until the next plan: the front, then every group from `tail` on. The lead stands before both.
#[derive(Clone, Debug)]
pub(crate) struct AutoPlan {
    pub(crate) front: Vec<PlanUnit>,
    pub(crate) tail: u32,
}

impl AutoPlan {
    /// The groups of the front.
    pub(crate) fn front_groups(&self) -> Ranges {
        let groups = self.front.iter().filter_map(|unit| match unit {
            PlanUnit::Group(group) => Some(*group),
            PlanUnit::Ledger(_) => None,
        });
        let mut groups: Vec<u32> = groups.collect();
        groups.sort_unstable();
        Ranges::of(groups)
    }

    /// What is shown of `groups`, in order. A group that the plan does not know and that must stay stands behind the front.
    pub(crate) fn order(&self, groups: &Ranges) -> Vec<PlanUnit> {
        let mut known = HashSet::new();
        let mut units = Vec::new();
        for unit in &self.front {
            match unit {
                PlanUnit::Group(group) => {
                    if groups.contains(*group) && known.insert(*group) {
                        units.push(unit.clone());
                    }
                }
                PlanUnit::Ledger(_) => units.push(unit.clone()),
            }
        }
        units.extend(groups.iter().filter(|group| !known.contains(group)).map(PlanUnit::Group));
        units
    }

    /// The decision that makes the plan last.
    pub(crate) fn decision(&self, record: &Record, header: PlanHeader) -> Decision {
        let mut front = Vec::new();
        for unit in &self.front {
            match unit {
                PlanUnit::Group(group) => {
                    let positions = record.groups.get(*group).into_iter().flat_map(Group::positions);
                    front.extend(positions.map(|position| PlanItem::Entry(position.into())));
                }
                PlanUnit::Ledger(ledger) => front.push(match ledger.from {
                    Some(ledger_of) => PlanItem::Kept { ledger_of },
                    None => PlanItem::Ledger { ledger: ledger.parts.clone() },
                }),
            }
        }
        let first = |group: u32| record.groups.get(group).map(|group| u64::from(group.first));
        let tail = first(self.tail).unwrap_or(record.len() as u64);
        let PlanHeader { limit, by, scope, factor } = header;
        Decision::Plan { front, tail, limit: limit as u64, by, scope, factor }
    }
}

/// What a recorded plan says beside what it shows.
pub(crate) struct PlanHeader {
    pub(crate) limit: usize,
    pub(crate) by: String,
    pub(crate) scope: Option<String>,
    pub(crate) factor: Option<Factor>,
}
