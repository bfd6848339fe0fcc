use serde_json::{Value, json};

use super::{HistoryManager, config_of};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::ranges::Ranges;
use crate::view::{Reason, View};

/// Keeps the groups of the last `max_turns` turns, and what is protected. A turn is never split.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TurnWindow {
    /// Turns that stay.
    pub max_turns: usize,
}

impl HistoryManager for TurnWindow {
    fn name(&self) -> &'static str {
        "turn_window"
    }

    fn curate<'r>(&self, mut view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
        let keep = last_turns(&view, self.max_turns);
        view.keep(&keep, self.name(), Reason::OlderTurn);
        Ok(view)
    }

    fn config(&self) -> Value {
        config_of(self.name(), json!({ "max_turns": self.max_turns }))
    }
}

/// The groups of the last `turns` turns. Entries before the first user entry belong to the first turn, and a body
/// without user entries is one turn.
pub(crate) fn last_turns(view: &View<'_>, turns: usize) -> Ranges {
    if turns == 0 {
        return Ranges::default();
    }
    let mut users = view.users_newest_first();
    match users.nth(turns - 1) {
        // If an older turn exists the window starts at the user entry, else it reaches back to the beginning.
        Some(start) if users.next().is_some() => view.body().from(start),
        _ => view.body().clone(),
    }
}
