//! What managers work with: the groups of a view, what is protected among them, and the ways to change it.

use std::sync::Arc;

use super::edit::{Edit, EditScope, Rewrite, signature};
use super::{Drop, Epoch, Purpose, Reason, View, ViewItem, Warning};
use crate::auto::plan::AutoPlan;
use crate::decision::Decision;
use crate::event::HistoryCurated;
use crate::ranges::Ranges;
use crate::recall::Tail;
use crate::record::Record;
use crate::record::decisions::RecordSummary;
use crate::record::groups::Group;

impl<'r> View<'r> {
    /// The record the view is of.
    pub fn record(&self) -> &'r Record {
        self.record
    }

    /// Leaves out the groups that `keep` says no to, in the name of `manager`: the way to write a manager of your own.
    ///
    /// `keep` sees the entries of each group as they would be sent. What is protected stays whatever it says.
    ///
    /// ```
    /// use scrollback_core::{CurationContext, CurationError, HistoryManager, Role, View};
    ///
    /// struct OnlyPeople;
    ///
    /// impl HistoryManager for OnlyPeople {
    ///     fn name(&self) -> &'static str {
    ///         "only_people"
    ///     }
    ///     fn curate<'r>(&self, mut view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
    ///         view.retain(self.name(), |group| group.iter().any(|item| item.entry.role == Role::User));
    ///         Ok(view)
    ///     }
    /// }
    /// ```
    pub fn retain(&mut self, manager: &str, mut keep: impl FnMut(&[ViewItem]) -> bool) {
        let kept: Vec<u32> =
            self.groups().map(|(index, _)| index).filter(|&index| keep(&self.group_items(index))).collect();
        self.keep(&Ranges::of(kept), manager, Reason::LeftOut);
    }

    /// The body's groups that are shown, oldest first; walks from either end.
    pub(crate) fn groups(&self) -> impl DoubleEndedIterator<Item = (u32, &'r Group)> + '_ {
        self.groups_in(&self.body)
    }

    /// The groups of `set` that are shown, oldest first.
    pub(crate) fn groups_in<'s>(
        &'s self,
        set: &'s Ranges,
    ) -> impl DoubleEndedIterator<Item = (u32, &'r Group)> + 's {
        set.iter().filter_map(|index| Some((index, self.group(index)?)))
    }

    /// A group, if a coherent view shows it.
    pub(crate) fn group(&self, index: u32) -> Option<&'r Group> {
        let record: &'r Record = self.record;
        record.groups.get(index).filter(|group| group.is_visible(self.unfinished))
    }

    /// The groups of the lead.
    pub(crate) fn lead_groups(&self) -> impl Iterator<Item = u32> + '_ {
        self.lead.iter().copied()
    }

    /// Body entries at the end that survive every manager, if the caller asked for some.
    pub(crate) fn preserved_last(&self) -> Option<usize> {
        self.anchors.last
    }

    pub(crate) fn body(&self) -> &Ranges {
        &self.body
    }

    pub(crate) fn pinned(&self) -> &Ranges {
        &self.pinned
    }

    pub(crate) fn task(&self) -> &Ranges {
        &self.task
    }

    /// The body's groups that no manager may drop.
    pub(crate) fn protected(&self) -> Ranges {
        let task = if self.anchors.task { self.task.clone() } else { Ranges::default() };
        task.union(&self.last).union(&self.pinned).union(self.owed()).intersect(&self.body)
    }

    /// The last user group of the body.
    pub(crate) fn last_user(&self) -> Option<u32> {
        self.last_user_up_to(u32::MAX)
    }

    /// The last user group of the body up to and including `index`.
    pub(crate) fn last_user_up_to(&self, index: u32) -> Option<u32> {
        self.users_up_to(index).next()
    }

    /// The body's user groups, newest first.
    pub(crate) fn users_newest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.users_up_to(u32::MAX)
    }

    /// Looks no further back than the body does.
    fn users_up_to(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        let users = &self.record.groups.users;
        let end = users.partition_point(|&user| user <= index);
        let first = self.body.runs().first().map_or(u32::MAX, |run| run.start);
        let recent = users.get(..end).unwrap_or_default().iter().rev().copied();
        recent.take_while(move |&user| user >= first).filter(|&user| self.body.contains(user))
    }

    /// Where a summary stands among the body's groups, if one does.
    pub(crate) fn summary_before(&self) -> Option<u32> {
        self.summary.as_ref()?.before
    }

    /// The recorded summary the view shows.
    pub(crate) fn summary(&self) -> Option<&RecordSummary> {
        self.summary.as_ref().map(|shown| shown.summary.as_ref())
    }

    /// A number for everything done so far, as long as each group of the view depends on that group alone; then a
    /// fold over the groups can go on where it stopped when the record was shorter. None once that is over.
    pub(crate) fn lineage(&self) -> Option<u64> {
        self.lineage
    }

    /// Drops what is neither in `keep` nor protected.
    pub(crate) fn keep(&mut self, keep: &Ranges, manager: &str, reason: Reason) {
        let drops = self.drops.len();
        self.keep_as(keep, &manager.into(), reason, None);
        if self.drops.len() > drops && reason.is_cut() && self.wants_notice() {
            self.say_what_is_left_out();
        }
        self.lineage = None;
        // The next manager sees this view and no other, so what anchors it is found anew.
        self.anchor_lead();
        self.anchor_tail();
    }

    /// Shows a summary that is not recorded yet; it comes out with the view's decisions.
    pub(crate) fn summarize(&mut self, decision: Decision) {
        let at = (self.record.len() + self.decisions.len()) as u64;
        if let Some(summary) = RecordSummary::of(at, &decision, &self.record.groups) {
            self.show_summary(Arc::new(summary));
            self.decisions.push(decision);
            self.lineage = None;
        }
    }

    /// Shows the body as a plan says. A plan that is not recorded yet comes out with the view's decisions.
    pub(crate) fn follow(
        &mut self,
        plan: Arc<AutoPlan>,
        name: &str,
        recorded: Option<u64>,
        new: Option<Decision>,
    ) {
        let keep = plan.front_groups().union(&self.body.from(plan.tail));
        // What was owed when the plan was made stands in it; what it let go is not picked up again.
        self.stay_owed(self.owed().intersect(&keep));
        self.keep_as(&keep, &name.into(), Reason::Planned, recorded);
        self.plan = Some(plan);
        self.decisions.extend(new);
        self.lineage = None;
    }

    /// Shortens what a `truncate` decision names, before the decision is recorded; it comes out with the view's decisions.
    pub(crate) fn truncate(&mut self, decision: Decision) {
        let Decision::Truncate { positions, max_length, keep } = &decision else { return };
        let listed = Ranges::of(positions.iter().filter_map(|position| u32::try_from(*position).ok()));
        let rewrite = Rewrite::truncate_to(*max_length, *keep);
        self.edit(Edit::new(rewrite, EditScope::Listed(listed), "tool_result_truncator"));
        self.decisions.push(decision);
    }

    pub(super) fn keep_as(&mut self, keep: &Ranges, manager: &Arc<str>, reason: Reason, by: Option<u64>) {
        let kept = self.body.intersect(keep);
        // Mostly nothing goes, and nothing has to be known about what must stay.
        if kept == self.body {
            return;
        }
        let kept = kept.union(&self.protected());
        let dropped = self.body.minus(&kept);
        self.body = kept;
        self.note_drop(dropped, manager, reason, by);
    }

    pub(super) fn note_drop(&mut self, groups: Ranges, manager: &Arc<str>, reason: Reason, by: Option<u64>) {
        if !groups.is_empty() {
            self.drops.push(Drop { groups, manager: Arc::clone(manager), reason, by });
        }
    }

    pub(crate) fn pin(&mut self, groups: &Ranges) {
        self.pinned = self.pinned.union(groups);
        self.lineage = self.lineage.map(|lineage| signature(&(lineage, &self.pinned)));
    }

    pub(crate) fn edit(&mut self, edit: Edit) {
        self.lineage = self.lineage.map(|lineage| match &edit.reach {
            // The exempt groups are the pinned ones, which the lineage knows.
            EditScope::All { .. } | EditScope::Decided => signature(&(lineage, edit.signature)),
            EditScope::Listed(positions) => signature(&(lineage, edit.signature, positions)),
            EditScope::Before { mark, exclude_tools, exempt } => {
                let exempt = exempt.intersect(&Ranges::one(0..mark.group + 1));
                signature(&(lineage, edit.signature, mark, exclude_tools, exempt))
            }
        });
        self.edits.push(edit);
    }

    pub(crate) fn warn(&mut self, code: &'static str, index: Option<u64>) {
        self.warnings.push(Warning { code, index, call_id: None });
    }

    /// The conversation whose handles the model can read.
    pub(crate) fn recall(&self) -> Option<&Tail> {
        self.recall.as_ref()
    }

    /// Whether what is decided will be recorded.
    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose
    }

    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = Some(epoch);
    }

    pub(crate) fn set_cut(&mut self, cut: Decision) {
        self.cut = Some(cut);
    }

    pub(crate) fn emit(&mut self, event: HistoryCurated) {
        self.events.push(event);
    }
}
