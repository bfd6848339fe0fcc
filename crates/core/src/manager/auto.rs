//! The preset for agents: history whole while it fits, then a kept prefix, a ledger and the newest groups.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Fit, HistoryManager, config_of};
use crate::auto::cut::{Parameters, Scene, fixed_tokens};
use crate::auto::plan::{AutoPlan, PlanHeader, PlanUnit};
use crate::context::CurationContext;
use crate::entry::Role;
use crate::error::CurationError;
use crate::need::NeedIndex;
use crate::ranges::Ranges;
use crate::record::decisions::RecordedPlan;
use crate::record::groups::UNSETTLED;
use crate::tokens::{Counter, Method};
use crate::view::edit::signature;
use crate::view::{Epoch, View};

/// What one missing value costs unless another number is given, per mille of the tokens left beside the instructions.
pub(crate) const USUAL_NEED: usize = 1250;
/// The one way to plan there is so far.
pub(crate) const VERSION: u32 = 1;

/// Keeps what coming calls are likely to need, planned rarely and recorded.
///
/// The history stands whole until it passes the limit. Then a plan is made: a prefix of the last view stays byte for byte, the
/// newest groups stand whole, and everything between them becomes one ledger of chosen lines. Until the limit is passed again
/// views only grow. How much of the prefix stays and how long the ledger is are chosen by price.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Auto {
    /// Tokens of the whole request; the model's window less what the reply may take, if not given.
    pub max_tokens: Option<usize>,
    /// What one missing value costs, per mille of the tokens left beside the instructions: the one knob between cost and
    /// retention.
    pub need: usize,
    /// The way to plan.
    pub version: u32,
}

impl Default for Auto {
    fn default() -> Self {
        Auto { max_tokens: None, need: USUAL_NEED, version: VERSION }
    }
}

impl HistoryManager for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn curate<'r>(&self, view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let limit = self.limit(cx)?;
        let mut planned = self.planned(view.clone(), limit, cx);
        let mut needed = planned.total_tokens(cx.counter, cx);
        if needed > limit {
            // What is owed stays only where there is room for it.
            let mut bare = view;
            bare.forgo_owed();
            planned = self.planned(bare, limit, cx);
            needed = planned.total_tokens(cx.counter, cx);
        }
        let view = planned;
        if needed > limit { Err(CurationError::BudgetTooSmall { needed, budget: limit }) } else { Ok(view) }
    }

    fn budget(&self, cx: &CurationContext) -> Option<usize> {
        self.limit(cx).ok()
    }

    /// The planned view, although it is above the limit.
    fn closest<'r>(&self, view: View<'r>, cx: &CurationContext) -> View<'r> {
        match self.limit(cx) {
            Ok(limit) => self.planned(view, limit, cx),
            Err(_) => view,
        }
    }

    fn config(&self) -> Value {
        config_of(
            self.name(),
            json!({ "max_tokens": self.max_tokens, "need": self.need, "version": self.version }),
        )
    }
}

impl Auto {
    /// The view as the plan that holds now shows it, or as the one that is made now.
    fn planned<'r>(&self, mut view: View<'r>, limit: usize, cx: &CurationContext) -> View<'r> {
        let state = Planner::new(self, limit, &view, cx).state();
        if let Some(plan) = state.plan {
            let tail = view.record().groups.get(plan.tail).map(|group| u64::from(group.first));
            view.set_epoch(Epoch { id: state.epoch, cut: tail });
            let estimated = cx.counter.method == Method::Estimate;
            let header = || PlanHeader {
                limit,
                by: self.by(),
                scope: cx.scope.clone(),
                factor: estimated.then_some(cx.counter.factor),
            };
            let new = state.recorded.is_none().then(|| plan.decision(view.record(), header()));
            view.follow(plan, self.name(), state.recorded, new);
        }
        view
    }

    /// Tokens a request may have: as given, else the model's window less what the reply may take.
    pub fn limit(&self, cx: &CurationContext) -> Result<usize, CurationError> {
        self.max_tokens.map_or_else(|| Fit::default().limit(cx), Ok)
    }

    /// What recorded plans name as their maker.
    fn by(&self) -> String {
        format!("auto/{}", self.version)
    }
}

/// Where the plans stand after some groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanFold {
    /// First group not looked at.
    next: u32,
    plan: Option<Arc<AutoPlan>>,
    /// Tokens of the view of the groups before `next`, without what is no group and no ledger.
    tokens: usize,
    epoch: u64,
    /// The plan of a call before a group that was not there yet.
    ahead: Option<(u32, Arc<AutoPlan>)>,
}

/// What a call is shown.
struct State {
    plan: Option<Arc<AutoPlan>>,
    epoch: u64,
    /// Position of the decision, where the plan is recorded.
    recorded: Option<u64>,
}

/// Finds the plan that holds for a view.
struct Planner<'v, 'r> {
    auto: &'v Auto,
    limit: usize,
    view: &'v View<'r>,
    cx: &'v CurationContext,
    counter: Counter,
    fixed: usize,
    lead: usize,
    parameters: Parameters,
    index: Option<NeedIndex>,
}

impl<'v, 'r> Planner<'v, 'r> {
    fn new(auto: &'v Auto, limit: usize, view: &'v View<'r>, cx: &'v CurationContext) -> Self {
        let (fixed, lead) = fixed_tokens(view, cx.counter, cx);
        let parameters = Parameters::of(auto.need, cx.model.as_ref());
        Planner { auto, limit, view, cx, counter: cx.counter, fixed, lead, parameters, index: None }
    }

    fn state(mut self) -> State {
        let recorded = self.view.record().decided.plan(self.cx.scope.as_deref());
        let state = match recorded.filter(|plan| &*plan.by == self.auto.by().as_str()) {
            Some(recorded) => self.after_recorded(recorded),
            None => self.folded(),
        };
        // What was said since the last call is read now, so that a cut does not have to read everything at once.
        let record = self.view.record();
        let mut index = self.index.take().unwrap_or_else(|| record.cache.take_index(record.len()));
        index.advance(record, record.len());
        record.cache.keep_index(index);
        state
    }

    /// Goes on from a recorded plan: calls since then were made by it, so only this one is judged. A plan that was made for
    /// another limit is given up, and everything is shown if it fits.
    fn after_recorded(&mut self, recorded: &RecordedPlan) -> State {
        let all = self.all();
        let holds = self.auto.max_tokens.is_none() || recorded.limit == self.limit as u64;
        let plan = holds.then(|| Arc::clone(&recorded.plan));
        let units = self.units(plan.as_deref(), all);
        if self.fixed + self.tokens(&units) > self.limit {
            let plan = Some(Arc::new(self.cut(&units, all)));
            return State { plan, epoch: recorded.epoch + 1, recorded: None };
        }
        let at = plan.is_some().then_some(recorded.at);
        State { plan, epoch: recorded.epoch, recorded: at }
    }

    /// Finds the plans of all calls so far: one before every reply, and this one.
    fn folded(&mut self) -> State {
        let record = self.view.record();
        let key = self.view.lineage().map(|lineage| {
            let sizes = (self.counter, self.fixed, self.limit);
            signature(&(lineage, self.auto, self.cx.preserve_task, sizes, self.parameters))
        });
        let mut fold = key.and_then(|key| record.cache.plan_fold(key)).unwrap_or_default();
        let all = self.all();
        // Groups that may still change are folded anew each time, and are never remembered.
        let settled = (all.saturating_sub(UNSETTLED as u32)..all)
            .find(|&index| {
                record.groups.get(index).is_some_and(|group| !group.is_complete() && !group.erased)
            })
            .unwrap_or(all);
        self.advance(&mut fold, settled);
        let mut now = fold.clone();
        self.advance(&mut now, all);
        if self.fixed + now.tokens > self.limit {
            let units = self.units(now.plan.as_deref(), all);
            let plan = Arc::new(self.cut(&units, all));
            if settled == all {
                fold.ahead = Some((all, Arc::clone(&plan)));
            }
            now.plan = Some(plan);
            now.epoch += 1;
        }
        if let Some(key) = key {
            record.cache.keep_plan_fold(key, fold);
        }
        State { plan: now.plan, epoch: now.epoch, recorded: None }
    }

    /// Takes in the groups before `end`. A call was made before every reply.
    fn advance(&mut self, fold: &mut PlanFold, end: u32) {
        if fold.next >= end {
            return;
        }
        let new = self.view.body().intersect(&Ranges::one(fold.next..end));
        let new: Vec<(u32, Role)> =
            self.view.groups_in(&new).map(|(index, group)| (index, group.role)).collect();
        for (index, role) in new {
            if role == Role::Assistant && self.fixed + fold.tokens > self.limit {
                let plan = match fold.ahead.take() {
                    Some((at, plan)) if at == index => plan,
                    _ => {
                        let units = self.units(fold.plan.as_deref(), index);
                        Arc::new(self.cut(&units, index))
                    }
                };
                fold.tokens = self.tokens(&self.units(Some(&plan), index));
                fold.plan = Some(plan);
                fold.epoch += 1;
            }
            fold.tokens += self.view.group_tokens(self.counter, index);
        }
        fold.next = end;
    }

    fn all(&self) -> u32 {
        self.view.record().groups.all.len() as u32
    }

    /// What a call before group `end` is shown by a plan; everything where there is none.
    fn units(&self, plan: Option<&AutoPlan>, end: u32) -> Vec<PlanUnit> {
        let before = self.view.body().intersect(&Ranges::one(0..end));
        let Some(plan) = plan else {
            return self.view.groups_in(&before).map(|(index, _)| PlanUnit::Group(index)).collect();
        };
        let whole = plan.front_groups().union(&before.from(plan.tail)).union(&self.live(end));
        let shown = before.intersect(&whole);
        plan.order(&Ranges::of(self.view.groups_in(&shown).map(|(index, _)| index)))
    }

    fn tokens(&self, units: &[PlanUnit]) -> usize {
        let tokens = |unit: &PlanUnit| match unit {
            PlanUnit::Group(group) => self.view.group_tokens(self.counter, *group),
            PlanUnit::Ledger(ledger) => ledger.tokens(self.counter),
        };
        units.iter().map(tokens).sum()
    }

    /// The groups that a plan before group `end` must show whole because they are owed.
    fn owed(&self, end: u32) -> Ranges {
        let owed = self.view.owed_before(end).intersect(&Ranges::one(0..end));
        self.view.within_share(&owed, self.limit, self.counter)
    }

    /// The groups that a call before group `end` must be shown whole.
    fn live(&self, end: u32) -> Ranges {
        let before = self.view.body().intersect(&Ranges::one(0..end));
        let mut live = self.view.pinned().intersect(&before);
        if self.cx.preserve_task {
            let task = end.checked_sub(1).and_then(|last| self.view.last_user_up_to(last));
            let newest = self.view.groups_in(&before).next_back().filter(|(_, group)| group.has_calls());
            live = live.union(&Ranges::of(task.into_iter().chain(newest.map(|(index, _)| index))));
        }
        if let Some(wanted) = self.view.preserved_last() {
            let mut entries = 0;
            let newest = self.view.groups_in(&before).rev().take_while(|(_, group)| {
                let is_wanted = entries < wanted;
                entries += group.len();
                is_wanted
            });
            let first = newest.map(|(index, _)| index).last();
            live = first.map_or_else(|| live.clone(), |first| live.union(&before.from(first)));
        }
        live
    }

    /// Makes the plan of a call before group `now`, which would be shown too many units.
    fn cut(&mut self, units: &[PlanUnit], now: u32) -> AutoPlan {
        let record = self.view.record();
        let end = record.groups.get(now).map_or(record.len(), |group| group.first as usize);
        let known = self.index.take().filter(|index| index.len() <= end);
        let mut index = known.unwrap_or_else(|| record.cache.take_index(end));
        index.advance(record, end);
        let scene = Scene {
            view: self.view,
            counter: self.counter,
            index: &index,
            now,
            live: self.live(now).union(&self.owed(now)),
            limit: self.limit,
            fixed: self.fixed,
            lead: self.lead,
            parameters: self.parameters,
        };
        let plan = scene.plan(units);
        self.index = Some(index);
        plan
    }
}
