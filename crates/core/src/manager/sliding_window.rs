use serde_json::{Value, json};

use super::{HistoryManager, config_of, newest_run};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::view::{Reason, View};

/// Keeps the newest groups with at most `window_size` entries in total, and what is protected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    /// Entries that may stay; every entry of a group counts.
    pub window_size: usize,
}

impl HistoryManager for SlidingWindow {
    fn name(&self) -> &'static str {
        "sliding_window"
    }

    fn curate<'r>(&self, mut view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
        let mut room = self.window_size;
        let mut summary = view.summary_before();
        let run = newest_run(&view, |index| {
            // A summary among the groups is an entry like any other when the window reaches past it.
            if summary.take_if(|before| index < *before).is_some() {
                room = room.saturating_sub(1);
            }
            let entries = view.group(index).map_or(0, super::super::record::groups::Group::len);
            let fits = entries <= room;
            room = room.saturating_sub(entries);
            fits
        });
        view.keep(&run, self.name(), Reason::OutsideWindow);
        Ok(view)
    }

    fn config(&self) -> Value {
        config_of(self.name(), json!({ "window_size": self.window_size }))
    }
}
