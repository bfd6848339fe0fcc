//! Why an entry is not in a view, or not as it was said.

use serde::Serialize;

/// Why an entry is not in the view, or not as it was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A result without a call.
    OrphanResult,
    /// A second result for one call.
    DuplicateResult,
    /// A call whose results are not all there.
    UnfinishedGroup,
    /// An entry of the group was erased.
    Erased,
    /// Shortened; or its stream broke before a part was whole.
    Truncated,
    /// A result shown next to its call although other entries came between.
    Moved,
    /// Before the window.
    OutsideWindow,
    /// In an older turn.
    OlderTurn,
    /// Does not fit the budget.
    OverBudget,
    /// Old result, placeholder shown.
    Cleared,
    /// Its tool is no longer offered.
    InactiveTool,
    /// A summary stands for it.
    Summarized,
    /// Matters less to the current question.
    LessRelevant,
    /// Not part of the plan: neither whole nor in its ledger.
    Planned,
    /// Lines of it stand in a ledger.
    Ledger,
    /// Before the cut.
    BeforeCut,
    /// Another lead took its place.
    ReplacedLead,
    /// A reply that broke off; the client asked again.
    Superseded,
    /// The client sent a shorter version of the entry back.
    ChangedByClient,
    /// The provider's own compaction stands for it.
    Compacted,
    /// The provider clears it by itself.
    ClearedByProvider,
    /// A manager from outside this crate did not want it.
    LeftOut,
    /// Reasoning whose provider would refuse it, because what came before it changed.
    BoundReasoning,
    /// A text without a visible character, which the provider refuses.
    BlankText,
    /// The provider's format has no words for any of it.
    Unsupported,
    /// Broke a rule of the provider, and was repaired.
    #[serde(rename = "mended")]
    Repaired,
}

impl Reason {
    /// Whether the end of a history was cut off for it.
    pub(crate) fn is_cut(self) -> bool {
        matches!(
            self,
            Reason::OutsideWindow
                | Reason::OlderTurn
                | Reason::OverBudget
                | Reason::LessRelevant
                | Reason::BeforeCut
        )
    }

    /// The word for it in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::OrphanResult => "orphan_result",
            Reason::DuplicateResult => "duplicate_result",
            Reason::UnfinishedGroup => "unfinished_group",
            Reason::Erased => "erased",
            Reason::Truncated => "truncated",
            Reason::Moved => "moved",
            Reason::OutsideWindow => "outside_window",
            Reason::OlderTurn => "older_turn",
            Reason::OverBudget => "over_budget",
            Reason::Cleared => "cleared",
            Reason::InactiveTool => "inactive_tool",
            Reason::Summarized => "summarized",
            Reason::LessRelevant => "less_relevant",
            Reason::Planned => "planned",
            Reason::Ledger => "ledger",
            Reason::BeforeCut => "before_cut",
            Reason::ReplacedLead => "replaced_lead",
            Reason::Superseded => "superseded",
            Reason::ChangedByClient => "changed_by_client",
            Reason::Compacted => "compacted",
            Reason::ClearedByProvider => "cleared_by_provider",
            Reason::LeftOut => "left_out",
            Reason::BoundReasoning => "bound_reasoning",
            Reason::BlankText => "blank_text",
            Reason::Unsupported => "unsupported",
            Reason::Repaired => "mended",
        }
    }
}
