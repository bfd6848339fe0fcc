//! Views: what one model call receives, and why the rest does not.

pub(crate) mod edit;
mod explain;

use std::sync::Arc;

use serde::Serialize;

use crate::context::{CurationContext, Unfinished};
use crate::decision::{Decision, Place};
use crate::entry::{Entry, Role};
use crate::event::HistoryCurated;
use crate::ranges::Ranges;
use crate::record::Record;
use crate::record::decided::Summary;
use crate::record::groups::Group;
use crate::tokens::{Count, Counter, entry_tokens};
use edit::{Edit, Mark, Reach, signature};

pub use explain::{Changed, Dropped, Explanation};

/// Text of the result that stands in for one that never came.
pub const INTERRUPTED: &str = "[interrupted: no result was recorded]";
/// First line of a summary in a view.
pub const SUMMARY_HEADING: &str = "Summary of the earlier conversation:";

/// Why an entry is not in the view, or not as it was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A result nobody called for.
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
    /// Before the cut.
    BeforeCut,
    /// Another lead took its place.
    ReplacedLead,
    /// A manager from outside this crate did not want it.
    LeftOut,
}

impl Reason {
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
            Reason::BeforeCut => "before_cut",
            Reason::ReplacedLead => "replaced_lead",
            Reason::LeftOut => "left_out",
        }
    }
}

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
    /// Position of the first entry after the cut; none for clearing, and while there is none.
    pub cut: Option<u64>,
}

/// What stands at one place of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An entry of the record, by position.
    Entry(u64),
    /// A result that stands in for a missing one.
    Interrupted {
        /// The call it answers.
        call_id: String,
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
pub struct Item {
    /// Where it comes from.
    pub source: Source,
    /// What is sent: shared with the record unless rewritten.
    pub entry: Arc<Entry>,
    /// Whether it is as it was said.
    pub fidelity: Fidelity,
}

impl Item {
    /// Whether it differs from the record in content or place.
    pub fn is_changed(&self) -> bool {
        self.fidelity != Fidelity::AsSaid
    }
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
struct Shown {
    summary: Arc<Summary>,
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
    summary: Option<Shown>,
    edits: Vec<Edit>,
    drops: Vec<Drop>,
    warnings: Vec<Warning>,
    events: Vec<HistoryCurated>,
    epoch: Option<Epoch>,
    /// Identifies what was done so far, while that is a function of each group alone; see [`View::lineage`].
    lineage: Option<u64>,
    anchors: Anchors,
    decisions: Vec<Decision>,
}

/// What the caller wants anchored, whatever the view comes to hold.
#[derive(Clone, Copy, Debug)]
struct Anchors {
    system: bool,
    task: bool,
    last: Option<usize>,
}

impl<'r> View<'r> {
    /// The coherent view of a record with its decisions applied: where every manager starts.
    pub fn of(record: &'r Record, cx: &CurationContext) -> Self {
        let decided = &record.decided;
        let mut view = View {
            record,
            unfinished: cx.unfinished,
            lead: Vec::new(),
            body: Ranges::one(0..record.groups.all.len() as u32),
            task: Ranges::default(),
            last: Ranges::default(),
            pinned: decided.pinned.clone(),
            summary: None,
            edits: Vec::new(),
            drops: Vec::new(),
            warnings: Vec::new(),
            events: Vec::new(),
            epoch: None,
            lineage: Some(signature(&(
                record.version,
                cx.unfinished,
                cx.preserve_system,
                cx.scope.as_deref(),
            ))),
            anchors: Anchors { system: cx.preserve_system, task: cx.preserve_task, last: cx.preserve_last_n },
            decisions: Vec::new(),
        };
        view.anchor_lead();
        view.choose_lead();
        view.anchor_tail();
        view.apply_decisions(cx);
        view
    }

    /// The system entries the view starts with are its lead.
    fn anchor_lead(&mut self) {
        // What follows a summary among the lead stays behind it.
        if !self.anchors.system || self.summary.is_some() {
            return;
        }
        let natural: Vec<u32> =
            self.groups().map_while(|(index, group)| (group.role == Role::System).then_some(index)).collect();
        if !natural.is_empty() {
            self.body = self.body.minus(&Ranges::of(natural.iter().copied()));
            self.lead.extend(natural);
        }
    }

    /// A recorded decision may have put other entries in the place of the lead.
    fn choose_lead(&mut self) {
        let Some((chosen, by)) = self.record.decided.lead.as_ref().filter(|_| self.anchors.system) else {
            return;
        };
        let chosen_set = Ranges::of(chosen.iter().copied());
        self.body = self.body.minus(&chosen_set);
        let replaced = Ranges::of(self.lead.drain(..)).minus(&chosen_set);
        self.note_drop(replaced, &"lead".into(), Reason::ReplacedLead, Some(*by));
        self.lead = chosen.iter().copied().filter(|&index| self.group(index).is_some()).collect();
    }

    /// What the next reply must answer, and the last entries if asked for.
    fn anchor_tail(&mut self) {
        let tail = self.groups().next_back().filter(|(_, group)| group.has_calls()).map(|(index, _)| index);
        self.task = Ranges::of(self.last_user().into_iter().chain(tail));
        if let Some(wanted) = self.anchors.last {
            let mut entries = 0;
            let mut start = None;
            for (index, group) in self.groups().rev() {
                if entries >= wanted {
                    break;
                }
                entries += group.len();
                start = Some(index);
            }
            self.last = start.map_or_else(Ranges::default, |start| self.body.from(start));
        }
    }

    fn apply_decisions(&mut self, cx: &CurationContext) {
        let record = self.record;
        let scope = cx.scope.as_deref();
        for decided in &record.decided.rewrites {
            let manager = match decided.rewrite {
                edit::Rewrite::Clear { .. } => "clear_tool_results",
                edit::Rewrite::Truncate { .. } => "tool_result_truncator",
            };
            let reach = Reach::Positions(decided.positions.clone());
            self.edits.push(Edit::new(decided.rewrite.clone(), reach, manager, Some(decided.at)));
        }
        if let Some(cut) = record.decided.cut(scope) {
            let keep = self.body.from(cut.before).union(&Ranges::of(cut.held));
            self.keep_as(&keep, &cut.by, Reason::BeforeCut, Some(cut.at));
        }
        if let Some(summary) = record.decided.summary(scope) {
            self.show_summary(Arc::clone(summary));
        }
    }

    /// Shows a summary instead of the groups it covers, and instead of the one before it.
    fn show_summary(&mut self, summary: Arc<Summary>) {
        let covered = self.body.intersect(&summary.groups);
        self.body = self.body.minus(&covered);
        self.note_drop(covered, &"summarize".into(), Reason::Summarized, Some(summary.at));
        let role = match summary.place {
            Place::System => Role::System,
            Place::Assistant => Role::Assistant,
        };
        self.summary = Some(Shown {
            entry: Arc::new(Entry::text(role, &format!("{SUMMARY_HEADING}\n{}", summary.text))),
            before: (summary.place == Place::Assistant).then(|| summary.groups.iter().next().unwrap_or(0)),
            summary,
        });
    }

    // What managers work with.

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
    pub fn retain(&mut self, manager: &str, mut keep: impl FnMut(&[Item]) -> bool) {
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
        task.union(&self.last).union(&self.pinned).intersect(&self.body)
    }

    /// The last user group of the body.
    pub(crate) fn last_user(&self) -> Option<u32> {
        self.last_user_up_to(u32::MAX)
    }

    /// The last user group of the body up to and including `index`.
    pub(crate) fn last_user_up_to(&self, index: u32) -> Option<u32> {
        let users = &self.record.groups.users;
        let end = users.partition_point(|&user| user <= index);
        users.iter().take(end).rev().copied().find(|&user| self.body.contains(user))
    }

    /// The body's user groups, newest first.
    pub(crate) fn users_newest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.record.groups.users.iter().rev().copied().filter(|&user| self.body.contains(user))
    }

    /// Where a summary stands among the body's groups, if one does.
    pub(crate) fn summary_before(&self) -> Option<u32> {
        self.summary.as_ref()?.before
    }

    /// The recorded summary the view shows.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        self.summary.as_ref().map(|shown| shown.summary.as_ref())
    }

    /// A number for everything done so far, as long as each group of the view depends on that group alone; then a
    /// fold over the groups can go on where it stopped when the record was shorter. None once that is over.
    pub(crate) fn lineage(&self) -> Option<u64> {
        self.lineage
    }

    /// Drops what is neither in `keep` nor protected.
    pub(crate) fn keep(&mut self, keep: &Ranges, manager: &str, reason: Reason) {
        self.keep_as(keep, &manager.into(), reason, None);
        self.lineage = None;
        // The next manager sees this view and no other, so what anchors it is found anew.
        self.anchor_lead();
        self.anchor_tail();
    }

    /// Shows a summary that is not recorded yet; it comes out with the view's decisions.
    pub(crate) fn summarize(&mut self, decision: Decision) {
        let at = (self.record.len() + self.decisions.len()) as u64;
        if let Some(summary) = Summary::of(at, &decision, &self.record.groups) {
            self.show_summary(Arc::new(summary));
            self.decisions.push(decision);
            self.lineage = None;
        }
    }

    fn keep_as(&mut self, keep: &Ranges, manager: &Arc<str>, reason: Reason, by: Option<u64>) {
        let kept = self.body.intersect(keep).union(&self.protected());
        let dropped = self.body.minus(&kept);
        self.body = kept;
        self.note_drop(dropped, manager, reason, by);
    }

    fn note_drop(&mut self, groups: Ranges, manager: &Arc<str>, reason: Reason, by: Option<u64>) {
        if !groups.is_empty() {
            self.drops.push(Drop { groups, manager: Arc::clone(manager), reason, by });
        }
    }

    pub(crate) fn pin(&mut self, groups: &Ranges) {
        self.pinned = self.pinned.union(groups);
        self.lineage = self.lineage.map(|lineage| signature(&(lineage, &self.pinned)));
    }

    pub(crate) fn edit(&mut self, edit: Edit) {
        self.lineage = match &edit.reach {
            // The exempt groups are the pinned ones, which the lineage knows.
            Reach::All { .. } => self.lineage.map(|lineage| signature(&(lineage, edit.signature))),
            Reach::Before { .. } | Reach::Positions(_) => None,
        };
        self.edits.push(edit);
    }

    pub(crate) fn warn(&mut self, code: &'static str, index: Option<u64>) {
        self.warnings.push(Warning { code, index, call_id: None });
    }

    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = Some(epoch);
    }

    pub(crate) fn emit(&mut self, event: HistoryCurated) {
        self.events.push(event);
    }

    // Counting.

    /// Tokens of one group as the view shows it.
    pub(crate) fn group_tokens(&self, counter: Counter, index: u32) -> usize {
        let Some(group) = self.group(index) else { return 0 };
        let own = self.opening_tokens(counter, group.first);
        let results: usize = group
            .results
            .iter()
            .enumerate()
            .map(|(number, &position)| {
                self.result_tokens(counter, Mark { group: index, result: number as u32 }, position)
            })
            .sum();
        let missing = self.missing_items(index, group);
        own + results
            + missing
                .iter()
                .map(|item| self.record.calibrated(counter, entry_tokens(counter.tokenizer, &item.entry)))
                .sum::<usize>()
    }

    fn opening_tokens(&self, counter: Counter, position: u32) -> usize {
        let whole = || self.record.entry_tokens(counter, position);
        match self.record.entry(position.into()).and_then(|entry| entry.without_cut_parts()) {
            Some(left) => self.record.calibrated(counter, entry_tokens(counter.tokenizer, &left)),
            None => whole(),
        }
    }

    fn result_tokens(&self, counter: Counter, mark: Mark, position: u32) -> usize {
        let edits: Vec<u64> = self.edits_on(mark, position).map(|edit| edit.signature).collect();
        if edits.is_empty() {
            return self.record.entry_tokens(counter, position);
        }
        let tokens = self.record.cache.rewrite_tokens(counter.tokenizer, position, signature(&edits), || {
            let Some(entry) = self.record.entry(position.into()) else { return 0 };
            entry_tokens(counter.tokenizer, &self.rewritten(mark, position, entry).0)
        });
        self.record.calibrated(counter, tokens)
    }

    /// Tokens of lead and summary.
    pub(crate) fn anchored_tokens(&self, counter: Counter) -> usize {
        let lead: usize = self.lead.iter().map(|&index| self.group_tokens(counter, index)).sum();
        lead + self
            .summary
            .as_ref()
            .map_or(0, |shown| self.record.calibrated(counter, entry_tokens(counter.tokenizer, &shown.entry)))
    }

    /// Tokens of the whole view, entry by entry.
    pub fn count(&self, cx: &CurationContext) -> Count {
        self.count_by(cx.counter, cx)
    }

    /// Tokens of the whole view by a given counter.
    pub(crate) fn count_by(&self, counter: Counter, cx: &CurationContext) -> Count {
        let per_entry: Vec<usize> = self
            .items()
            .map(|item| match item.source {
                Source::Entry(position) if item.fidelity != Fidelity::Rewritten => {
                    self.record.entry_tokens(counter, position as u32)
                }
                _ => self.record.calibrated(counter, entry_tokens(counter.tokenizer, &item.entry)),
            })
            .collect();
        let overhead = cx.overhead(counter);
        Count { total: per_entry.iter().sum::<usize>() + overhead, per_entry, overhead, counter }
    }

    /// Tokens of the whole view, without listing entries.
    pub(crate) fn total_tokens(&self, counter: Counter, cx: &CurationContext) -> usize {
        let body: usize = self.body.iter().map(|index| self.group_tokens(counter, index)).sum();
        cx.overhead(counter) + self.anchored_tokens(counter) + body
    }

    // Looking at it.

    /// The entries of the view, in order.
    pub fn items(&self) -> impl Iterator<Item = Item> + '_ {
        let shown = self.summary.as_ref();
        let anchored = shown.filter(|shown| shown.before.is_none());
        let mut placed = shown.filter(|shown| shown.before.is_some());
        let lead = self.lead.iter().flat_map(|&index| self.group_items(index));
        let body = self.body.iter().map(Some).chain(std::iter::once(None)).flat_map(move |index| {
            let due = index.is_none_or(|index| placed.is_some_and(|shown| shown.before <= Some(index)));
            let summary = if due { placed.take().map(summary_item) } else { None };
            summary.into_iter().chain(index.into_iter().flat_map(|index| self.group_items(index)))
        });
        lead.chain(anchored.map(summary_item)).chain(body)
    }

    /// Number of entries in the view.
    pub fn len(&self) -> usize {
        let body: usize = self.groups().map(|(_, group)| group.len()).sum();
        let lead = self.lead.iter().filter(|&&index| self.group(index).is_some()).count();
        lead + usize::from(self.summary.is_some()) + body
    }

    /// Whether the view holds nothing.
    pub fn is_empty(&self) -> bool {
        self.items().next().is_none()
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
        duplicate_calls(self.record).chain(self.warnings.iter().cloned()).chain(late).collect()
    }

    /// What `observed` managers reported, in order.
    pub fn events(&self) -> &[HistoryCurated] {
        &self.events
    }

    /// What managers decided while making the view, in order: to be recorded at the record's end, if at all.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The epoch, if a sticky manager made the view.
    pub fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    pub(crate) fn group_items(&self, index: u32) -> Vec<Item> {
        let Some(group) = self.group(index) else { return Vec::new() };
        let mut items = Vec::with_capacity(group.len());
        if let Some(entry) = self.record.entry(group.first.into()) {
            let left = entry.without_cut_parts();
            let fidelity = if left.is_some() { Fidelity::Rewritten } else { Fidelity::AsSaid };
            let entry = left.map_or_else(|| Arc::clone(entry), Arc::new);
            items.push(Item { source: Source::Entry(group.first.into()), entry, fidelity });
        }
        for (number, &position) in group.results.iter().enumerate() {
            let Some(entry) = self.record.entry(position.into()) else { continue };
            let (entry, mut fidelity) =
                self.rewritten(Mark { group: index, result: number as u32 }, position, entry);
            if fidelity == Fidelity::AsSaid && self.record.groups.is_moved(position) {
                fidelity = Fidelity::Moved;
            }
            items.push(Item { source: Source::Entry(position.into()), entry, fidelity });
        }
        items.extend(self.missing_items(index, group));
        items
    }

    /// Results that stand in for missing ones, in call order.
    fn missing_items(&self, index: u32, group: &Group) -> Vec<Item> {
        if group.is_complete() {
            return Vec::new();
        }
        let missing = self.record.missing_calls(group);
        missing
            .iter()
            .enumerate()
            .map(|(number, call)| {
                let call_id = call.call_id.as_ref().map(|id| id.as_str().into_owned()).unwrap_or_default();
                let entry = Arc::new(crate::wire::openai_chat::result_entry(&call_id, INTERRUPTED));
                let result = (group.results.len() + number) as u32;
                let (entry, fidelity) = self.rewritten(Mark { group: index, result }, u32::MAX, &entry);
                Item { source: Source::Interrupted { call_id }, entry, fidelity }
            })
            .collect()
    }

    /// The edits that reach a result, in order.
    fn edits_on(&self, mark: Mark, position: u32) -> impl Iterator<Item = &Edit> {
        self.edits.iter().filter(move |edit| match &edit.reach {
            Reach::All { exempt } => !exempt.contains(mark.group),
            Reach::Positions(positions) => positions.contains(position),
            Reach::Before { mark: end, exclude_tools, exempt } => {
                mark < *end
                    && !exempt.contains(mark.group)
                    && (exclude_tools.is_empty() || !self.result_is_of(mark, position, exclude_tools))
            }
        })
    }

    /// Whether a result, or one that stands in, is of one of these tools.
    pub(crate) fn result_is_of(&self, mark: Mark, position: u32, tools: &[String]) -> bool {
        let name = self.record.tool_name(position).or_else(|| {
            let group = self.group(mark.group)?;
            let missing = self.record.missing_calls(group);
            let call = missing.get((mark.result as usize).checked_sub(group.results.len())?)?;
            Some(call.name.as_str().into_owned())
        });
        name.is_some_and(|name| tools.contains(&name))
    }

    fn rewritten(&self, mark: Mark, position: u32, entry: &Arc<Entry>) -> (Arc<Entry>, Fidelity) {
        let mut current = Arc::clone(entry);
        let mut fidelity = Fidelity::AsSaid;
        for edit in self.edits_on(mark, position) {
            if let Some(next) = edit.rewrite.apply(&current) {
                current = Arc::new(next);
                fidelity = Fidelity::Rewritten;
            }
        }
        (current, fidelity)
    }
}

fn duplicate_calls(record: &Record) -> impl Iterator<Item = Warning> {
    record.groups.reclaimed.iter().map(|(at, id)| Warning {
        code: "duplicate_call_id",
        index: Some((*at).into()),
        call_id: Some(id.to_string()),
    })
}

fn summary_item(shown: &Shown) -> Item {
    let covers = shown.summary.positions.iter().map(u64::from).collect();
    Item { source: Source::Summary { covers }, entry: Arc::clone(&shown.entry), fidelity: Fidelity::AsSaid }
}
