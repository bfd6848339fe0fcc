//! Which decisions a record accepts: those about what is there, and about whole groups.

use super::Record;
use crate::decision::{Decision, PlanItem, Span};
use crate::entry::Role;

impl Record {
    /// Why a decision cannot be recorded, in words.
    pub(super) fn judge(&self, decision: &Decision) -> Result<(), String> {
        match decision {
            Decision::Lead { positions } => self.judge_lead(positions),
            Decision::Cut { before, held, kept, owed, .. } => {
                self.judge_cut(*before, *held, &[kept.as_slice(), owed].concat())
            }
            Decision::Plan { front, tail, .. } => self.judge_plan(front, *tail),
            Decision::Clear { positions, .. }
            | Decision::Truncate { positions, .. }
            | Decision::ProviderEdit { positions, .. }
            | Decision::Superseded { positions } => self.judge_positions(positions),
            Decision::Pin { positions } | Decision::Unpin { positions } => self.judge_pin(positions),
            Decision::Summary { covers, replaces, scope, .. } => {
                self.judge_summary(covers, *replaces, scope.as_deref())
            }
            Decision::SummaryFailed { range, .. } => self.judge_span(*range),
            Decision::Turn { entry, .. } => self.judge_positions(&[*entry]),
            Decision::Echo { position, .. } => self.judge_positions(&[*position]),
            Decision::Interrupted { .. } => Ok(()),
        }
    }

    fn judge_lead(&self, positions: &[u64]) -> Result<(), String> {
        self.judge_positions(positions)?;
        if positions.is_empty() {
            return Err("a lead without entries would leave the model without instructions".into());
        }
        if let Some(at) =
            positions.iter().find(|at| self.entry(**at).is_none_or(|entry| entry.role != Role::System))
        {
            return Err(format!("position {at} is not a system entry and cannot be part of the lead"));
        }
        let repeated = positions
            .iter()
            .enumerate()
            .find(|(place, at)| positions.iter().take(*place).any(|other| other == *at));
        repeated.map_or(Ok(()), |(_, at)| Err(format!("position {at} appears twice in the lead")))
    }

    fn judge_cut(&self, before: u64, held: Option<u64>, kept: &[u64]) -> Result<(), String> {
        if before != self.len() as u64 && !self.opens_group(before) {
            return Err(format!(
                "position {before} is not at the start of a group, so nothing can be cut before it"
            ));
        }
        if let Some(held) = held.filter(|held| !self.opens_group(*held)) {
            return Err(format!("the held position {held} does not open a group"));
        }
        match kept.iter().find(|kept| !self.opens_group(**kept)) {
            Some(kept) => Err(format!("the kept position {kept} does not open a group")),
            None => Ok(()),
        }
    }

    fn judge_plan(&self, front: &[PlanItem], tail: u64) -> Result<(), String> {
        if tail != self.len() as u64 && !self.opens_group(tail) {
            return Err(format!(
                "position {tail} is not at the start of a group, so no plan can begin there"
            ));
        }
        let entries: Vec<u64> = front.iter().filter_map(PlanItem::entry).collect();
        self.judge_positions(&entries)?;
        match entries.iter().find(|at| self.groups.of(**at as u32).is_none()) {
            Some(at) => Err(format!("position {at} belongs to no group")),
            None => Ok(()),
        }
    }

    fn judge_pin(&self, positions: &[u64]) -> Result<(), String> {
        self.judge_positions(positions)?;
        if let Some(at) = positions.iter().find(|at| self.groups.of(**at as u32).is_none()) {
            return Err(format!("position {at} belongs to no group"));
        }
        self.judge_whole(|at| positions.contains(&u64::from(at)), positions.iter().copied())
    }

    /// Summaries roll: the next one covers what the one before covered.
    fn judge_summary(
        &self,
        covers: &[Span],
        replaces: Option<u64>,
        scope: Option<&str>,
    ) -> Result<(), String> {
        for span in covers {
            self.judge_span(*span)?;
        }
        let covered = |at: u32| covers.iter().any(|(first, last)| (*first..=*last).contains(&u64::from(at)));
        self.judge_whole(covered, covers.iter().flat_map(|(first, last)| *first..=*last))?;
        let current = self.decided.summary(scope);
        if replaces.is_some() && replaces != current.map(|summary| summary.at) {
            return Err("the summary it would replace is not the one in force".into());
        }
        match current.and_then(|current| current.positions.iter().find(|at| !covered(*at))) {
            Some(at) => Err(format!(
                "position {at} is covered by the summary in force and must be covered by the next"
            )),
            None => Ok(()),
        }
    }

    fn judge_span(&self, (first, last): Span) -> Result<(), String> {
        if first > last || last >= self.len() as u64 {
            return Err(format!(
                "the range {first} to {last} is not in the record of {} entries",
                self.len()
            ));
        }
        Ok(())
    }

    fn judge_positions(&self, positions: &[u64]) -> Result<(), String> {
        match positions.iter().find(|at| **at >= self.len() as u64) {
            Some(at) => Err(format!("position {at} is not in the record of {} entries", self.len())),
            None => Ok(()),
        }
    }

    /// Every group that has an entry among `positions` must have all of them there.
    fn judge_whole(
        &self,
        chosen: impl Fn(u32) -> bool,
        positions: impl Iterator<Item = u64>,
    ) -> Result<(), String> {
        for position in positions {
            let group = self.groups.of(position as u32).and_then(|group| self.groups.get(group));
            if let Some(missing) = group.and_then(|group| group.positions().find(|at| !chosen(*at))) {
                return Err(format!(
                    "position {position} belongs to a group with position {missing}, which is not named"
                ));
            }
        }
        Ok(())
    }

    fn opens_group(&self, position: u64) -> bool {
        let group = self.groups.of(position as u32).and_then(|group| self.groups.get(group));
        group.is_some_and(|group| u64::from(group.first) == position)
    }
}
