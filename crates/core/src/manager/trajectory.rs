use serde_json::{Value, json};

use super::{HistoryManager, config_of, newest_run};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::ranges::Ranges;
use crate::view::{Reason, View};

/// The window of a `ReAct` trajectory: the first steps, the last steps, and as many before those as fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrajectoryWindow {
    /// Steps a view may have.
    pub max_steps: usize,
    /// Steps at the start that stay.
    pub preserve_first: usize,
    /// Steps at the end that stay.
    pub preserve_last: usize,
}

impl Default for TrajectoryWindow {
    fn default() -> Self {
        TrajectoryWindow { max_steps: 100, preserve_first: 2, preserve_last: 20 }
    }
}

impl TrajectoryWindow {
    /// The fewest oldest groups with at least `preserve_first` steps, and how many steps they have.
    pub(crate) fn first_groups(&self, view: &View<'_>) -> (Ranges, usize) {
        let mut steps = 0;
        let mut first = Vec::new();
        for (index, group) in view.groups() {
            if steps >= self.preserve_first {
                break;
            }
            steps += group.total_steps();
            first.push(index);
        }
        (Ranges::of(first), steps)
    }
}

impl HistoryManager for TrajectoryWindow {
    fn name(&self) -> &'static str {
        "trajectory_window"
    }

    fn curate<'r>(&self, mut view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
        let steps_of = |index| view.group(index).map_or(0, super::super::record::groups::Group::total_steps);
        let mut total = 0;
        let within = view.groups().rev().all(|(_, group)| {
            total += group.total_steps();
            total <= self.max_steps
        });
        if within {
            return Ok(view);
        }
        let (first, first_steps) = self.first_groups(&view);
        let mut last_steps = 0;
        let last = newest_run(&view, |index| {
            let wanted = last_steps < self.preserve_last;
            last_steps += steps_of(index);
            wanted
        });
        let mut room = self.max_steps.saturating_sub(first_steps);
        let recent = newest_run(&view, |index| {
            let steps = steps_of(index);
            let fits = steps <= room && !first.contains(index);
            room = room.saturating_sub(steps);
            fits
        });
        view.keep(&first.union(&last).union(&recent), self.name(), Reason::OutsideWindow);
        Ok(view)
    }

    fn config(&self) -> Value {
        let options = json!({ "max_steps": self.max_steps, "preserve_first": self.preserve_first, "preserve_last": self.preserve_last });
        config_of(self.name(), options)
    }
}
