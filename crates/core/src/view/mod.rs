//! Views: what one model call receives, and why the rest does not.

pub(crate) mod base;
mod count;
pub(crate) mod edit;
mod explain;
mod item;
pub(crate) mod notice;
mod owed;
mod reason;
pub(crate) mod shorten;
mod show;
mod work;

use std::sync::Arc;

use serde::Serialize;

use crate::auto::ledger::Ledger;
use crate::auto::plan::{AutoPlan, PlanUnit};
use crate::context::Unfinished;
use crate::decision::Decision;
use crate::entry::Entry;
use crate::event::HistoryCurated;
use crate::ranges::Ranges;
use crate::recall::Tail;
use crate::record::Record;
use crate::record::decisions::RecordSummary;
use edit::Edit;

pub use explain::{Changed, Dropped, Explanation};
pub use item::{Fidelity, ItemSource, ViewItem};
pub use reason::Reason;

/// Text of the result that stands in for one that never came.
pub const INTERRUPTED: &str = "[interrupted: no result was recorded]";
/// First line of a summary in a view.
pub const SUMMARY_HEADING: &str = "Summary of the earlier conversation:";

/// Something about a view that its reader should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Which warning: `duplicate_call_id`, `late_result`, `no_tool_list`.
    pub code: &'static str,
    /// The entry it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// The call it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// The stretch between two cuts, in which each view is a prefix of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Epoch {
    /// How many cuts there were.
    pub id: u64,
    /// Position of the first entry after the cut, which is the body's first before any cut; none for clearing, and
    /// while the body is empty.
    pub cut: Option<u64>,
}

/// Groups a manager left out.
#[derive(Clone, Debug)]
struct Drop {
    groups: Ranges,
    manager: Arc<str>,
    reason: Reason,
    by: Option<u64>,
}

/// A recorded summary as this view shows it.
#[derive(Clone, Debug)]
struct ShownSummary {
    summary: Arc<RecordSummary>,
    entry: Arc<Entry>,
    /// The group it stands before when it is not part of the lead.
    before: Option<u32>,
}

/// What one provider call receives: picks from the record, some rewritten, some synthetic.
///
/// A view shares its entries with the record. Which groups it holds is kept as runs, rewriting is applied when an
/// item is looked at, and the explanation is expanded when asked for; making a view costs what it holds.
#[derive(Clone, Debug)]
pub struct View<'r> {
    record: &'r Record,
    unfinished: Unfinished,
    lead: Vec<u32>,
    body: Ranges,
    task: Ranges,
    last: Ranges,
    pinned: Ranges,
    summary: Option<ShownSummary>,
    edits: Vec<Edit>,
    drops: Vec<Drop>,
    warnings: Vec<Warning>,
    events: Vec<HistoryCurated>,
    epoch: Option<Epoch>,
    /// Identifies what was done so far, while that is a function of each group alone; see [`View::lineage`].
    lineage: Option<u64>,
    anchors: Anchors,
    decisions: Vec<Decision>,
    cut: Option<Decision>,
    purpose: Purpose,
    /// The order in which a planner shows the body, and its ledgers.
    plan: Option<Arc<AutoPlan>>,
    /// The conversation whose handles stand in placeholders.
    recall: Option<Tail>,
    /// What stays because it is owed.
    owed: owed::Owed,
    /// Whether a cut leaves a line; where nothing is said, it does where the model can read handles.
    notice_wish: Option<bool>,
    /// What was left out at the cut, in words.
    notice: Option<Arc<Entry>>,
}

/// Whether what managers decide will last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Nothing is recorded: a later view of a longer record finds the same decisions again.
    Look,
    /// The decisions are recorded before the view is sent, so a cut is made for the record as it is now.
    Send,
}

/// What the caller wants anchored, whatever the view comes to hold.
#[derive(Clone, Copy, Debug)]
struct Anchors {
    system: bool,
    task: bool,
    last: Option<usize>,
}

impl View<'_> {
    /// Number of entries in the view.
    pub fn len(&self) -> usize {
        let body: usize = self.groups().map(|(_, group)| group.len()).sum();
        let lead = self.lead.iter().filter(|&&index| self.group(index).is_some()).count();
        let notice = usize::from(self.notice.is_some());
        lead + usize::from(self.summary.is_some()) + notice + body + self.ledgers().count()
    }

    /// The ledgers the view shows, in order.
    pub(crate) fn ledgers(&self) -> impl Iterator<Item = &Arc<Ledger>> {
        let front = self.plan.iter().flat_map(|plan| &plan.front);
        front.filter_map(|unit| match unit {
            PlanUnit::Ledger(ledger) => Some(ledger),
            PlanUnit::Group(_) => None,
        })
    }

    /// Whether the view holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the reader should know about the view.
    pub fn warnings(&self) -> Vec<Warning> {
        // A late result changes where earlier views would have cut, even if its group is not in this one.
        let late = self
            .record
            .groups
            .moved
            .iter()
            .filter(|&&at| self.record.groups.of(at).is_some_and(|group| self.group(group).is_some()));
        let late = late.map(|&at| Warning { code: "late_result", index: Some(at.into()), call_id: None });
        self.duplicate_calls().chain(self.warnings.iter().cloned()).chain(late).collect()
    }

    /// What `observed` managers reported, in order.
    pub fn events(&self) -> &[HistoryCurated] {
        &self.events
    }

    /// What managers decided while making the view, in order: to be recorded at the record's end, if at all.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The cut behind the view's epoch, as the decision that makes it last: a caller with a durable record appends it
    /// when [`View::epoch`] has a new id, and a changed configuration then leaves the paid-for prefix alone.
    pub fn cut(&self) -> Option<&Decision> {
        self.cut.as_ref()
    }

    /// The epoch, if a sticky manager made the view.
    pub fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// Ids that more than one entry used for its calls.
    fn duplicate_calls(&self) -> impl Iterator<Item = Warning> {
        self.record.groups.reclaimed.iter().map(|(at, id)| Warning {
            code: "duplicate_call_id",
            index: Some((*at).into()),
            call_id: Some(id.to_string()),
        })
    }
}
