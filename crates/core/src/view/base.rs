//! Where every view starts: the coherent record with its decisions, and what is anchored in it.

use std::sync::Arc;

use super::edit::signature;
use super::owed::Owed;
use super::{Anchors, Purpose, Reason, SUMMARY_HEADING, ShownSummary, View};
use crate::context::CurationContext;
use crate::decision::SummaryPlace;
use crate::entry::{Entry, Role};
use crate::ranges::Ranges;
use crate::recall::Tail;
use crate::record::Record;
use crate::record::decisions::RecordSummary;

/// Who is named where a provider itself left something out.
pub(crate) const PROVIDER: &str = "provider";

impl<'r> View<'r> {
    /// The coherent view of a record with its decisions applied: where every manager starts.
    pub fn of(record: &'r Record, cx: &CurationContext) -> Self {
        let decided = &record.decided;
        let boundary = record.standing.boundary(cx.wire);
        let known = || cx.conversation.clone().filter(|_| record.knows_recall);
        let recall = cx.recall.clone().or_else(known);
        let mut view = View {
            record,
            unfinished: cx.unfinished,
            lead: Vec::new(),
            body: Ranges::one(0..record.groups.all.len() as u32),
            task: Ranges::default(),
            last: Ranges::default(),
            pinned: decided.pinned.union(&record.standing.pins(cx.wire)),
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
                boundary,
                recall.as_ref().map(Tail::as_str),
                (cx.obligations, cx.notice),
            ))),
            anchors: Anchors { system: cx.preserve_system, task: cx.preserve_task, last: cx.preserve_last_n },
            decisions: Vec::new(),
            cut: None,
            purpose: Purpose::Look,
            plan: None,
            recall,
            // What a recorded decision let go is not picked up again.
            owed: Owed::nothing(),
            notice_wish: cx.notice,
            notice: None,
        };
        view.anchor_lead();
        view.choose_lead();
        view.anchor_tail();
        view.apply_decisions(cx);
        view.owed = Owed::unknown(cx.obligations);
        view
    }

    /// The same for a request: what managers decide about it is recorded before it is sent.
    pub fn to_send(record: &'r Record, cx: &CurationContext) -> Self {
        View { purpose: Purpose::Send, ..View::of(record, cx) }
    }

    /// The system entries the view starts with are its lead.
    pub(super) fn anchor_lead(&mut self) {
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
        let former = Ranges::of(self.lead.drain(..)).union(&self.record.decided.former_leads);
        let replaced = former.minus(&chosen_set);
        self.body = self.body.minus(&chosen_set).minus(&replaced);
        self.note_drop(replaced, &"lead".into(), Reason::ReplacedLead, Some(*by));
        self.lead = chosen.iter().copied().filter(|&index| self.group(index).is_some()).collect();
    }

    /// What the next reply must answer, and the last entries if asked for.
    pub(super) fn anchor_tail(&mut self) {
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
        let superseded = &record.decided.superseded;
        if !superseded.is_empty() {
            let groups = Ranges::of(superseded.iter().filter_map(|position| record.groups.of(position)));
            let gone = self.body.intersect(&groups);
            self.body = self.body.minus(&gone);
            self.note_drop(gone, &"retry".into(), Reason::Superseded, None);
        }
        if let Some(cut) = record.decided.cut(scope) {
            let pins = record.standing.pins_before(cx.wire, cut.before);
            let kept = cut.kept.union(&cut.owed).union(&Ranges::of(cut.held));
            let keep = self.body.from(cut.before).union(&kept).union(&pins);
            self.keep_as(&keep, &cut.by, Reason::BeforeCut, Some(cut.at));
            self.notice.clone_from(&cut.notice);
        }
        if let Some(summary) = record.decided.summary(scope) {
            self.show_summary(Arc::clone(summary));
        }
        // What the provider compacted is not sent to it twice. Everything since has to be.
        if let Some(boundary) = record.standing.boundary(cx.wire) {
            let since = self.body.from(boundary);
            self.keep_as(&since, &PROVIDER.into(), Reason::Compacted, None);
            self.pinned = self.pinned.union(&since);
        }
    }

    /// Shows a summary instead of the groups it covers, and instead of the one before it.
    pub(super) fn show_summary(&mut self, summary: Arc<RecordSummary>) {
        // What was pinned after it was summarised is shown again.
        let covered = self.body.intersect(&summary.groups).minus(&self.pinned);
        self.body = self.body.minus(&covered);
        self.note_drop(covered, &"summarize".into(), Reason::Summarized, Some(summary.at));
        let role = match summary.place {
            SummaryPlace::System => Role::System,
            SummaryPlace::Assistant => Role::Assistant,
        };
        self.summary = Some(ShownSummary {
            entry: Arc::new(Entry::text(role, &format!("{SUMMARY_HEADING}\n{}", summary.text))),
            before: (summary.place == SummaryPlace::Assistant)
                .then(|| summary.groups.iter().next().unwrap_or(0)),
            summary,
        });
    }
}
