//! What the decisions of a record add up to: the latest word on lead, cuts, pins, rewrites and summaries.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::auto::ledger::Ledger;
use crate::auto::plan::{AutoPlan, PlanUnit};
use crate::chain::Link;
use crate::decision::{Decision, PlanItem, SummaryPlace};
use crate::entry::Entry;
use crate::identity::content_hash;
use crate::ranges::Ranges;
use crate::record::groups::Groups;
use crate::view::base::PROVIDER;
use crate::view::edit::{Edit, Rewrite};

/// The state that views start from. Groups are by index, positions as in the record.
#[derive(Debug, Default)]
pub(crate) struct DecidedState {
    /// The lead that was chosen, and the decision that chose it.
    pub(crate) lead: Option<(Vec<u32>, u64)>,
    /// Leads that were chosen before.
    pub(crate) former_leads: Ranges,
    /// Whether anything was decided that a client's own list does not show already. Which instructions stand first, what the
    /// client made of entries and which replies it gave up are its own doing.
    pub(crate) beyond_client: bool,
    cuts: Vec<Cut>,
    pub(crate) pinned: Ranges,
    /// What results show by decision, by position; the latest word on each.
    pub(crate) rewrites: BTreeMap<u32, Edit>,
    /// What clients made of entries they sent back, by position; the latest version of each.
    pub(crate) echoes: BTreeMap<u32, Echoed>,
    /// Positions of replies that broke off and were asked for again.
    pub(crate) superseded: Ranges,
    summaries: Vec<Arc<RecordSummary>>,
    plans: Vec<RecordedPlan>,
    /// The ledgers that plans brought, by the position of the plan.
    ledgers: BTreeMap<u64, Arc<Ledger>>,
    /// Position of the last summary that could not be written, while none has been since.
    pub(crate) failed_at: Option<u64>,
}

/// A client's version of an entry.
#[derive(Debug)]
pub(crate) struct Echoed {
    /// What it says, by [`content_hash`].
    pub(crate) content: Link,
}

/// A recorded cut.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// First group that stays.
    pub(crate) before: u32,
    pub(crate) held: Option<u32>,
    /// What else is kept although it lies before the cut.
    pub(crate) kept: Ranges,
    /// What was owed when the cut was made.
    pub(crate) owed: Ranges,
    /// What views say where the cut is.
    pub(crate) notice: Option<Arc<Entry>>,
    pub(crate) by: Arc<str>,
    scope: Option<String>,
    /// Position of the decision.
    pub(crate) at: u64,
    /// How many cuts there are for its views, this one included.
    pub(crate) epoch: u64,
}

/// A recorded plan.
#[derive(Clone, Debug)]
pub(crate) struct RecordedPlan {
    pub(crate) plan: Arc<AutoPlan>,
    pub(crate) limit: u64,
    pub(crate) by: Arc<str>,
    scope: Option<String>,
    /// How many plans there are for its views, this one included.
    pub(crate) epoch: u64,
    /// Position of the decision.
    pub(crate) at: u64,
}

/// A recorded summary.
#[derive(Debug)]
pub(crate) struct RecordSummary {
    pub(crate) groups: Ranges,
    pub(crate) positions: Ranges,
    pub(crate) text: String,
    pub(crate) place: SummaryPlace,
    scope: Option<String>,
    pub(crate) at: u64,
}

impl RecordSummary {
    /// The summary a decision is, recorded or to be recorded at position `at`.
    pub(crate) fn of(at: u64, decision: &Decision, groups: &Groups) -> Option<RecordSummary> {
        let Decision::Summary { covers, text, place, scope, .. } = decision else { return None };
        let positions = covers.iter().fold(Ranges::default(), |set, (first, last)| {
            set.union(&Ranges::one(*first as u32..*last as u32 + 1))
        });
        let groups = Ranges::of(positions.iter().filter_map(|position| groups.of(position)));
        Some(RecordSummary { groups, positions, text: text.clone(), place: *place, scope: scope.clone(), at })
    }
}

impl DecidedState {
    /// Takes in a decision that was found valid.
    pub(crate) fn push(&mut self, at: u64, decision: &Decision, groups: &Groups) {
        let groups_of = |groups: &Groups, positions: &[u64]| {
            Ranges::of(positions.iter().filter_map(|position| groups.of(*position as u32)))
        };
        self.beyond_client |= !matches!(
            decision,
            Decision::Lead { .. }
                | Decision::Echo { .. }
                | Decision::Superseded { .. }
                | Decision::Plan { .. }
                | Decision::ProviderEdit { .. }
        );
        match decision {
            Decision::Lead { positions } => {
                let lead = positions.iter().filter_map(|position| groups.of(*position as u32)).collect();
                if let Some((former, _)) = self.lead.replace((lead, at)) {
                    self.former_leads = self.former_leads.union(&Ranges::of(former));
                }
            }
            Decision::Cut { before, held, kept, owed, notice, by, scope, .. } => {
                let earlier = self.cut(scope.as_deref()).map_or(0, |cut| cut.epoch);
                self.cuts.push(Cut {
                    before: groups.at_or_after(*before),
                    held: held.and_then(|held| groups.of(held as u32)),
                    kept: groups_of(groups, kept),
                    owed: groups_of(groups, owed),
                    notice: notice.as_deref().map(crate::view::notice::entry),
                    by: by.as_str().into(),
                    scope: scope.clone(),
                    at,
                    epoch: earlier + 1,
                });
            }
            Decision::Plan { .. } => self.push_plan(at, decision, groups),
            Decision::Clear { positions, placeholder } => {
                let rewrite = Rewrite::Clear { placeholder: placeholder.as_str().into() };
                self.rewrite(positions, &Edit::decided(rewrite, "clear_tool_results", at));
            }
            Decision::Truncate { positions, max_length, keep } => {
                let rewrite = Rewrite::truncate_to(*max_length, *keep);
                self.rewrite(positions, &Edit::decided(rewrite, "tool_result_truncator", at));
            }
            Decision::Pin { positions } => self.pinned = self.pinned.union(&groups_of(groups, positions)),
            Decision::Unpin { positions } => self.pinned = self.pinned.minus(&groups_of(groups, positions)),
            Decision::Summary { .. } => {
                self.failed_at = None;
                self.summaries.extend(RecordSummary::of(at, decision, groups).map(Arc::new));
            }
            Decision::SummaryFailed { .. } => self.failed_at = Some(at),
            Decision::Echo { position, role, wire, body } => {
                let Some(echo) = Entry::echoed(wire, *role, body) else { return };
                self.echoes.insert(*position as u32, Echoed { content: content_hash(&echo) });
                if let Some(text) = echo.tool_result().and_then(|_| echo.content()) {
                    let rewrite = Rewrite::Echo { text: text.into() };
                    self.rewrite(&[*position], &Edit::decided(rewrite, "echo", at));
                }
            }
            Decision::ProviderEdit { positions, .. } => {
                let edit = Edit::decided(Rewrite::ByProvider, PROVIDER, at);
                // What a manager or the client made of a result stands.
                let open =
                    positions.iter().filter(|position| !self.rewrites.contains_key(&(**position as u32)));
                let open: Vec<u64> = open.copied().collect();
                self.rewrite(&open, &edit);
            }
            Decision::Superseded { positions } => {
                let positions = positions.iter().map(|position| *position as u32);
                self.superseded = self.superseded.union(&Ranges::of(positions));
            }
            // Closed in the groups by the record; turns concern no view of core's.
            Decision::Interrupted { .. } | Decision::Turn { .. } => {}
        }
    }

    fn push_plan(&mut self, at: u64, decision: &Decision, groups: &Groups) {
        let Decision::Plan { front, tail, limit, by, scope, .. } = decision else { return };
        let epoch = self.plan(scope.as_deref()).map_or(0, |plan| plan.epoch) + 1;
        let mut units = Vec::new();
        let mut last = None;
        for item in front {
            match item {
                PlanItem::Entry(position) => {
                    let group = groups.of(*position as u32);
                    if group != last {
                        units.extend(group.map(PlanUnit::Group));
                    }
                    last = group;
                    continue;
                }
                PlanItem::Ledger { ledger } => {
                    let ledger = Arc::new(Ledger::new(ledger.clone(), Some(at)));
                    self.ledgers.insert(at, Arc::clone(&ledger));
                    units.push(PlanUnit::Ledger(ledger));
                }
                PlanItem::Kept { ledger_of } => {
                    units.extend(self.ledgers.get(ledger_of).cloned().map(PlanUnit::Ledger));
                }
            }
            last = None;
        }
        let plan = Arc::new(AutoPlan { front: units, tail: groups.at_or_after(*tail) });
        self.plans.push(RecordedPlan {
            plan,
            limit: *limit,
            by: by.as_str().into(),
            scope: scope.clone(),
            epoch,
            at,
        });
    }

    /// Whether any plan is recorded, or a cut that says what it left out.
    pub(crate) fn has_words(&self) -> bool {
        !self.plans.is_empty() || self.cuts.iter().any(|cut| cut.notice.is_some())
    }

    /// The recorded cut says this from now on.
    pub(crate) fn renotice(&mut self, at: u64, notice: Option<&str>) {
        if let Some(cut) = self.cuts.iter_mut().find(|cut| cut.at == at) {
            cut.notice = notice.map(crate::view::notice::entry);
        }
    }

    /// Forgets all plans, to take them in again.
    pub(crate) fn forget_plans(&mut self) {
        self.plans.clear();
        self.ledgers.clear();
    }

    /// The plan that holds for views of `scope`.
    pub(crate) fn plan(&self, scope: Option<&str>) -> Option<&RecordedPlan> {
        self.plans.iter().rev().find(|plan| plan.scope.is_none() || plan.scope.as_deref() == scope)
    }

    /// Whether a result is known to be cleared by the provider, or by a later decision.
    pub(crate) fn is_cleared_by_provider(&self, position: u64) -> bool {
        self.rewrites.contains_key(&(position as u32))
    }

    fn rewrite(&mut self, positions: &[u64], edit: &Edit) {
        self.rewrites.extend(positions.iter().map(|position| (*position as u32, edit.clone())));
    }

    /// The cut that holds for views of `scope`: the newest of its own or of everyone's.
    pub(crate) fn cut(&self, scope: Option<&str>) -> Option<&Cut> {
        self.cuts.iter().rev().find(|cut| cut.scope.is_none() || cut.scope.as_deref() == scope)
    }

    /// The summary that holds for views of `scope`.
    pub(crate) fn summary(&self, scope: Option<&str>) -> Option<&Arc<RecordSummary>> {
        self.summaries
            .iter()
            .rev()
            .find(|summary| summary.scope.is_none() || summary.scope.as_deref() == scope)
    }
}
