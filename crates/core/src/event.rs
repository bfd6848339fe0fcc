//! What curation tells the outside.

use serde::Serialize;

use crate::view::Epoch;

/// One curation of a history, as reported by an `observed` manager: on every call, changed or not.
///
/// Core cannot know the session or the time; the publisher of the event adds them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event")]
pub struct HistoryCurated {
    /// The prompt the history is for.
    pub prompt_name: Option<String>,
    /// Message entries in the record.
    pub original_count: usize,
    /// Entries in the view.
    pub curated_count: usize,
    /// Name of the manager inside.
    pub strategy: String,
    /// The session; stamped by the publisher.
    pub session_id: Option<String>,
    /// The time; stamped by the publisher.
    pub created_at: Option<String>,
    /// How many entries were left out.
    pub dropped: usize,
    /// How many entries were changed.
    pub changed: usize,
    /// Tokens of the whole record.
    pub tokens_before: usize,
    /// Tokens of the view.
    pub tokens_after: usize,
    /// The epoch, if a sticky manager is inside.
    pub epoch: Option<Epoch>,
}
