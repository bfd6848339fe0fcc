//! One entry of a view, and where it comes from.

use std::sync::Arc;

use crate::entry::Entry;

/// What stands at one place of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemSource {
    /// An entry of the record, by position.
    Entry(u64),
    /// A result that stands in for a missing one.
    Interrupted {
        /// The call it answers.
        call_id: String,
    },
    /// Chosen lines of entries that are not shown whole; of none where it only says what was left out.
    Ledger {
        /// Positions of those entries.
        of: Vec<u64>,
    },
    /// A recorded summary.
    Summary {
        /// Positions it stands for.
        covers: Vec<u64>,
    },
}

/// How an entry of a view relates to what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// It is exactly that.
    AsSaid,
    /// It is that, next to its call although other entries came between.
    Moved,
    /// Some of its content is not what was said.
    Rewritten,
}

/// One entry of a view.
#[derive(Clone, Debug)]
pub struct ViewItem {
    /// Where it comes from.
    pub source: ItemSource,
    /// What is sent: shared with the record unless rewritten.
    pub entry: Arc<Entry>,
    /// Whether it is as it was said.
    pub fidelity: Fidelity,
}

impl ViewItem {
    /// Whether it differs from the record in content or place.
    pub fn is_changed(&self) -> bool {
        self.fidelity != Fidelity::AsSaid
    }
}
