//! Cuts that move rarely and far, so that the prompt's prefix, which providers cache, stays the same for long.

use serde_json::{Value, json};

use super::{
    ClearToolResults, HistoryManager, SlidingWindow, TokenBudget, TrajectoryWindow, TurnWindow, config_of,
};
use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::Role;
use crate::error::CurationError;
use crate::ranges::Ranges;
use crate::record::decisions::Cut;
use crate::record::groups::UNSETTLED;
use crate::tokens::{Counter, Method};
use crate::view::edit::{Mark, signature};
use crate::view::{Epoch, Purpose, Reason, View};
use crate::wire::Wire;

/// Lets the history grow to a high mark, then cuts it to a low mark at once.
///
/// Between two cuts each view is a prefix of the next. The cut is a fold over the groups of the record, so it needs
/// no state: any process that has the record finds the same cut.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sticky {
    /// What is measured, and in which unit.
    pub inner: StickyInner,
    /// Above this the cut moves.
    pub high: usize,
    /// To at most this.
    pub low: usize,
}

/// The managers whose cut can be made sticky.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StickyInner {
    /// Entries.
    SlidingWindow(SlidingWindow),
    /// Turns; cuts only at user entries.
    TurnWindow(TurnWindow),
    /// Tokens of the whole view.
    TokenBudget(TokenBudget),
    /// Steps; the first ones stay.
    TrajectoryWindow(TrajectoryWindow),
    /// Results that are not cleared.
    ClearToolResults(ClearToolResults),
}

impl StickyInner {
    /// The inner's own bound, which the high mark may not exceed.
    pub fn bound(&self) -> usize {
        match self {
            StickyInner::SlidingWindow(inner) => inner.window_size,
            StickyInner::TurnWindow(inner) => inner.max_turns,
            StickyInner::TokenBudget(inner) => inner.limit(),
            StickyInner::TrajectoryWindow(inner) => inner.max_steps,
            StickyInner::ClearToolResults(inner) => inner.keep_recent,
        }
    }

    fn manager(&self) -> &dyn HistoryManager {
        match self {
            StickyInner::SlidingWindow(inner) => inner,
            StickyInner::TurnWindow(inner) => inner,
            StickyInner::TokenBudget(inner) => inner,
            StickyInner::TrajectoryWindow(inner) => inner,
            StickyInner::ClearToolResults(inner) => inner,
        }
    }
}

/// The low mark that goes with a high one unless another is given.
pub(crate) fn default_low(high: usize) -> usize {
    (high / 5 * 3 + high % 5 * 3 / 5).max(1)
}

impl HistoryManager for Sticky {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn curate<'r>(&self, view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        if !matches!(self.inner, StickyInner::TokenBudget(_)) {
            return Ok(self.cut_view(self.name(), cx.counter, view, cx));
        }
        let (view, needed) = self.cut_to(self.high, self.name(), cx.counter, view, cx);
        if needed > self.high {
            return Err(CurationError::BudgetTooSmall { needed, budget: self.high });
        }
        Ok(view)
    }

    fn budget(&self, _: &CurationContext) -> Option<usize> {
        matches!(self.inner, StickyInner::TokenBudget(_)).then_some(self.high)
    }

    fn config(&self) -> Value {
        config_of(
            self.name(),
            json!({ "inner": self.inner.manager().config(), "high": self.high, "low": self.low }),
        )
    }
}

impl Sticky {
    /// The view after the cut, and its tokens. What is owed goes too where the view would be above `limit` with it.
    pub(crate) fn cut_to<'r>(
        &self,
        limit: usize,
        name: &str,
        counter: Counter,
        view: View<'r>,
        cx: &CurationContext,
    ) -> (View<'r>, usize) {
        let mut cut = self.cut_view(name, counter, view.clone(), cx);
        let mut needed = cut.total_tokens(counter, cx);
        if needed > limit {
            let mut bare = view;
            bare.forgo_owed();
            bare.wish_notice(Some(false));
            cut = self.cut_view(name, counter, bare, cx);
            needed = cut.total_tokens(counter, cx);
        }
        (cut, needed)
    }

    /// The view after the cut, under another manager's name and tokenizer. What must stay may be larger than the high mark.
    pub(crate) fn cut_view<'r>(
        &self,
        name: &str,
        counter: Counter,
        mut view: View<'r>,
        cx: &CurationContext,
    ) -> View<'r> {
        if let StickyInner::ClearToolResults(inner) = &self.inner {
            let fold = self.fold(&view, cx, &ClearGauge { inner });
            view.stay_owed(fold.owed.union(&view.owed().from(fold.mark.group + 1)));
            inner.clear_before(&mut view, fold.mark);
            view.set_epoch(Epoch { id: fold.epoch, cut: None });
            return view;
        }
        let gauge = CutGauge::new(self, counter, &mut view, cx);
        let mut fold = self.fold(&view, cx, &gauge);
        if view.purpose() == Purpose::Send {
            self.cut_for_now(&mut fold, &gauge, &view, cx);
        }
        let after_cut = view.body().from(fold.cut);
        let staying = gauge.first.union(&gauge.kept);
        let standing = gauge.standing_before(fold.cut, &view);
        let keep = after_cut.union(&Ranges::of(fold.held)).union(&staying).union(&standing).union(&fold.owed);
        // What the cut let go is not picked up again, and what it kept stays until the next one.
        view.stay_owed(fold.owed.union(&view.owed().from(fold.cut)));
        // Pins of a manager are not part of the record: the cut has to say that they stay.
        let pinned = view.pinned().minus(&view.record().decided.pinned).minus(&standing);
        let before_cut = view.body().intersect(&staying.union(&pinned)).intersect(&Ranges::one(0..fold.cut));
        let not_held = before_cut.minus(&Ranges::of(fold.held));
        let opens =
            |groups: &Ranges| view.groups_in(groups).map(|(_, group)| u64::from(group.first)).collect();
        let kept = opens(&not_held);
        let is_owed = fold.owed.intersect(view.body()).intersect(&Ranges::one(0..fold.cut));
        let owed = opens(&is_owed.minus(&not_held).minus(&Ranges::of(fold.held)));
        let cut = view.groups_in(&after_cut).next().map(|(_, group)| u64::from(group.first));
        view.set_epoch(Epoch { id: fold.epoch, cut });
        let held = fold.held.and_then(|held| view.group(held)).map(|group| group.first.into());
        let before = cut.unwrap_or(view.record().len() as u64);
        let estimated =
            counter.method == Method::Estimate && matches!(self.inner, StickyInner::TokenBudget(_));
        let factor = estimated.then_some(counter.factor);
        view.keep(&keep, name, Reason::BeforeCut);
        let (by, scope, notice) = (name.into(), cx.scope.clone(), view.notice_text());
        view.set_cut(Decision::Cut { before, held, by, scope, kept, owed, notice, factor });
        view
    }

    /// Moves a new cut on, so that at most the low mark is left of the record as it is now.
    ///
    /// The fold may find a new cut at a group that earlier calls were sent without one: estimates have become larger since,
    /// or the record comes from elsewhere. What followed that group takes the room away that the cut made, and the next call
    /// would cut again.
    fn cut_for_now(&self, fold: &mut Fold, gauge: &CutGauge<'_>, view: &View<'_>, cx: &CurationContext) {
        let known = gauge.recorded.as_ref().map_or(0, |recorded| recorded.epoch);
        let newest = view.groups().next_back().map(|(index, _)| index);
        if fold.epoch > known
            && gauge.measure(fold) > self.low
            && let Some(newest) = newest
        {
            let epoch = fold.epoch;
            gauge.cut(fold, newest, self.low, view, cx);
            fold.epoch = epoch;
        }
    }

    /// The cut after the last group, going on from where an earlier call on this record left off.
    fn fold(&self, view: &View<'_>, cx: &CurationContext, gauge: &dyn Gauge) -> Fold {
        let record = view.record();
        let key = view.lineage().map(|lineage| signature(&(lineage, self, cx.preserve_task, gauge.key())));
        let known = key.and_then(|key| record.cache.fold(key));
        let mut fold = known.unwrap_or_else(|| gauge.start(view, cx));
        let all = record.groups.all.len() as u32;
        // Groups that may still change are folded anew each time, and are never remembered.
        let settled = (all.saturating_sub(UNSETTLED as u32)..all)
            .find(|&index| {
                record.groups.get(index).is_some_and(|group| !group.is_complete() && !group.erased)
            })
            .unwrap_or(all);
        self.advance(&mut fold, settled, view, cx, gauge);
        if let Some(key) = key {
            record.cache.keep_fold(key, fold.clone());
        }
        self.advance(&mut fold, all, view, cx, gauge);
        fold
    }

    fn advance(&self, fold: &mut Fold, end: u32, view: &View<'_>, cx: &CurationContext, gauge: &dyn Gauge) {
        if fold.next >= end {
            return;
        }
        let new = view.body().intersect(&Ranges::one(fold.next..end));
        for (index, _) in view.groups_in(&new) {
            fold.after += gauge.unit(view, index);
            // Groups before a recorded cut's own place were judged when it was recorded.
            if index >= fold.judge_from && gauge.measure(fold) > self.high {
                gauge.cut(fold, index, self.low, view, cx);
            }
        }
        fold.next = end;
    }
}

/// Where the fold stands after some groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fold {
    /// First group not looked at.
    next: u32,
    /// First group from which the measure is judged.
    judge_from: u32,
    /// First group after the cut.
    cut: u32,
    held: Option<u32>,
    epoch: u64,
    /// Measure of the groups after the cut.
    after: usize,
    /// Measure of what stays although it lies before the cut: pins and held, or first steps.
    before: usize,
    /// For clearing: results before this are cleared.
    mark: Mark,
    /// What was owed when the cut was made and lies before it.
    owed: Ranges,
}

/// One unit of measure: how much a group counts, and how a cut is made.
trait Gauge {
    /// Everything the fold depends on beyond view and configuration.
    fn key(&self) -> u64;
    fn start(&self, view: &View<'_>, cx: &CurationContext) -> Fold;
    fn unit(&self, view: &View<'_>, index: u32) -> usize;
    fn measure(&self, fold: &Fold) -> usize;
    /// Moves the cut so that at most `low` is left, group `newest` staying in any case.
    fn cut(&self, fold: &mut Fold, newest: u32, low: usize, view: &View<'_>, cx: &CurationContext);
}

/// Measures entries, turns, tokens or steps, and cuts between groups.
struct CutGauge<'i> {
    inner: &'i StickyInner,
    /// Above this the cut moves.
    high: usize,
    counter: Counter,
    /// Tokens that the line about what was left out may take.
    notice: usize,
    /// Tokens of overhead, lead and summary.
    fixed: usize,
    /// The recorded cut the fold starts from.
    recorded: Option<Cut>,
    /// What the recorded cut keeps although it lies before it.
    kept: Ranges,
    /// The first steps of a trajectory, which stay.
    first: Ranges,
    wire: Option<Wire>,
    /// The group of the provider's newest compaction, which no cut lies behind.
    boundary: Option<u32>,
}

impl<'i> CutGauge<'i> {
    fn new(sticky: &'i Sticky, counter: Counter, view: &mut View<'_>, cx: &CurationContext) -> Self {
        let Sticky { inner, high, .. } = sticky;
        let (fixed, notice) = match inner {
            StickyInner::TokenBudget(_) => {
                let around = cx.overhead(counter) + cx.opening(counter);
                // The line of a recorded cut makes way for that of the next one.
                let shown = view.anchored_tokens(counter) - view.notice_tokens(counter);
                (around + shown, view.notice_room(*high, counter).max(view.notice_tokens(counter)))
            }
            _ => (0, 0),
        };
        let first = match inner {
            StickyInner::TrajectoryWindow(window) => window.first_groups(view).0,
            _ => Ranges::default(),
        };
        let recorded = view.record().decided.cut(cx.scope.as_deref()).cloned();
        let kept = recorded.as_ref().map(|cut: &Cut| cut.kept.clone()).unwrap_or_default();
        let boundary = view.record().standing.boundary(cx.wire);
        CutGauge {
            inner,
            high: *high,
            counter,
            notice,
            fixed,
            recorded,
            kept,
            first,
            wire: cx.wire,
            boundary,
        }
    }

    /// What stays although it lies before group `cut`, because every request needs it.
    fn standing_before(&self, cut: u32, view: &View<'_>) -> Ranges {
        view.record().standing.pins_before(self.wire, cut)
    }

    /// The task a cut before group `cut` holds, seen from group `newest`.
    fn held(&self, cut: u32, newest: u32, view: &View<'_>, cx: &CurationContext) -> Option<u32> {
        let user = view.last_user_up_to(newest).filter(|&user| user < cut && cx.preserve_task)?;
        // What a recorded cut has let go is not picked up again, even if it happens to be the task still.
        let known = self
            .recorded
            .as_ref()
            .is_none_or(|recorded| user >= recorded.before || recorded.held == Some(user));
        known.then_some(user)
    }

    /// What is owed when a cut is made that leaves group `newest` as the last.
    fn owed(&self, newest: u32, view: &View<'_>) -> Ranges {
        let owed = view.owed_before(newest.saturating_add(1));
        match self.inner {
            StickyInner::TokenBudget(_) => view.within_share(&owed, self.high, self.counter),
            _ => owed,
        }
    }

    /// Measure of what stays although it lies before group `cut`.
    fn staying_before(&self, cut: u32, held: Option<u32>, owed: &Ranges, view: &View<'_>) -> usize {
        let staying = match self.inner {
            StickyInner::TokenBudget(_) => {
                let decided = &view.record().decided.pinned;
                let pins = view.pinned().minus(&view.record().standing.pins(self.wire)).union(decided);
                let standing = self.standing_before(cut, view).intersect(view.body());
                pins.union(&Ranges::of(held)).union(&self.kept).union(&standing).union(owed)
            }
            StickyInner::TrajectoryWindow(_) => self.first.union(&self.kept),
            _ => return 0,
        };
        staying.intersect(&Ranges::one(0..cut)).iter().map(|index| self.unit(view, index)).sum()
    }

    fn allows(&self, index: u32, left: usize, view: &View<'_>) -> bool {
        match self.inner {
            StickyInner::TurnWindow(_) => view.group(index).is_some_and(|group| group.role == Role::User),
            StickyInner::TrajectoryWindow(window) => left >= window.preserve_last,
            _ => true,
        }
    }
}

impl Gauge for CutGauge<'_> {
    fn key(&self) -> u64 {
        signature(&(self.counter, self.fixed, self.notice, &self.first))
    }

    fn start(&self, view: &View<'_>, _: &CurationContext) -> Fold {
        let Some(cut) = &self.recorded else { return Fold::default() };
        Fold {
            next: cut.before,
            judge_from: view.record().groups.at_or_after(cut.at),
            cut: cut.before,
            held: cut.held,
            epoch: cut.epoch,
            before: self.staying_before(cut.before, cut.held, &cut.owed, view),
            owed: cut.owed.clone(),
            ..Fold::default()
        }
    }

    fn unit(&self, view: &View<'_>, index: u32) -> usize {
        let Some(group) = view.group(index) else { return 0 };
        match self.inner {
            StickyInner::SlidingWindow(_) => group.len(),
            StickyInner::TurnWindow(_) => usize::from(group.role == Role::User),
            StickyInner::TokenBudget(_) => view.group_tokens(self.counter, index),
            StickyInner::TrajectoryWindow(_) => group.total_steps(),
            StickyInner::ClearToolResults(_) => 0,
        }
    }

    fn measure(&self, fold: &Fold) -> usize {
        let notice = if fold.epoch > 0 { self.notice } else { 0 };
        match self.inner {
            // What comes before the first user entry is part of the first turn.
            StickyInner::TurnWindow(_) => fold.after.max(1),
            _ => self.fixed + notice + fold.before + fold.after,
        }
    }

    fn cut(&self, fold: &mut Fold, newest: u32, low: usize, view: &View<'_>, cx: &CurationContext) {
        let after_cut = view.body().intersect(&Ranges::one(fold.cut..newest + 1));
        let mut left = fold.after;
        let is_owed = self.owed(newest, view);
        let mut previous = None;
        let mut chosen = None;
        let allowed = |index: u32| self.boundary.is_none_or(|boundary| index <= boundary);
        for (index, _) in view.groups_in(&after_cut).take_while(|(index, _)| allowed(*index)) {
            if let Some(previous) = previous.replace(index) {
                left = left.saturating_sub(self.unit(view, previous));
                if !self.allows(index, left, view) {
                    continue;
                }
                let held = self.held(index, newest, view, cx);
                let owed = is_owed.intersect(&Ranges::one(0..index));
                let before = self.staying_before(index, held, &owed, view);
                let epoch = fold.epoch + 1;
                let moved = Fold { cut: index, held, before, after: left, epoch, owed, ..fold.clone() };
                let enough = self.measure(&moved) <= low;
                chosen = Some(moved);
                if enough {
                    break;
                }
            }
        }
        match chosen {
            Some(moved) => {
                *fold = moved;
                // What is owed goes where even the farthest cut is above the mark with it: once, with this cut.
                if matches!(self.inner, StickyInner::TokenBudget(_))
                    && self.measure(fold) > self.high
                    && !fold.owed.is_empty()
                {
                    fold.owed = Ranges::default();
                    fold.before = self.staying_before(fold.cut, fold.held, &fold.owed, view);
                }
            }
            None if self.boundary.is_some() => {}
            // Nothing lies between the cut and the newest group: a new epoch with the same cut, except for steps,
            // where too few would be left.
            None if !matches!(self.inner, StickyInner::TrajectoryWindow(_)) => fold.epoch += 1,
            None => {}
        }
    }
}

/// Measures results that still show their text, and moves the mark up to which they are cleared.
struct ClearGauge<'i> {
    inner: &'i ClearToolResults,
}

impl Gauge for ClearGauge<'_> {
    fn key(&self) -> u64 {
        0
    }

    fn start(&self, view: &View<'_>, cx: &CurationContext) -> Fold {
        let before = view.record().decided.cut(cx.scope.as_deref()).map_or(0, |cut| cut.before);
        Fold { next: before, mark: Mark { group: before, result: 0 }, ..Fold::default() }
    }

    fn unit(&self, view: &View<'_>, index: u32) -> usize {
        self.inner.eligible(view, index).len()
    }

    fn measure(&self, fold: &Fold) -> usize {
        fold.after
    }

    fn cut(&self, fold: &mut Fold, newest: u32, low: usize, view: &View<'_>, _: &CurationContext) {
        let open = view.body().intersect(&Ranges::one(fold.mark.group..newest));
        let before = fold.mark;
        let results = view.groups_in(&open).flat_map(|(group, _)| {
            self.inner.eligible(view, group).into_iter().map(move |result| Mark { group, result })
        });
        for place in results.filter(|place| *place >= before) {
            if fold.after <= low {
                break;
            }
            fold.mark = Mark { result: place.result + 1, ..place };
            fold.after -= 1;
        }
        if fold.mark != before {
            fold.epoch += 1;
            let past = Ranges::one(0..fold.mark.group + 1);
            fold.owed = view.owed_before(newest.saturating_add(1)).intersect(&past);
        }
    }
}
