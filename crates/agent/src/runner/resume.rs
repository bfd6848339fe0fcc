//! Going on after a crash, a failure or a pause: results that are there are kept, calls that wait are run.

use std::collections::{HashSet, VecDeque};
use std::fmt;

use scrollback_core::{Entry, INTERRUPTED, Record, Role, Slot};
use scrollback_store::{ErrorKind, Leased};
use uuid::Uuid;

use super::error::EvaluationError;
use super::evaluation::Evaluation;
use super::tools::QueuedCall;
use super::{Prompt, Question, Runner};
use crate::journal::Journal;
use crate::lease::Held;
use crate::tool::Effects;

/// Why an evaluation is not resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotResume {
    kind: CannotResumeKind,
    message: String,
}

/// The kinds of [`CannotResume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotResumeKind {
    /// Every evaluation has its reply.
    NothingToResume,
    /// It was begun with other instructions or tools.
    PromptChanged,
    /// Another process is working on it.
    Busy,
    /// A question is open, and there is no answer to it.
    AnswerMissing,
    /// There is an answer, and no question is open.
    NoQuestion,
    /// The store failed.
    Store(ErrorKind),
}

impl CannotResume {
    /// A refusal with its kind, and a line for people.
    pub fn new(kind: CannotResumeKind, message: impl Into<String>) -> Self {
        CannotResume { kind, message: message.into() }
    }

    /// Which kind it is.
    pub fn kind(&self) -> CannotResumeKind {
        self.kind
    }

    /// The code programs act on.
    pub fn code(&self) -> &'static str {
        match self.kind {
            CannotResumeKind::NothingToResume => "nothing_to_resume",
            CannotResumeKind::PromptChanged => "prompt_changed",
            CannotResumeKind::Busy => "busy",
            CannotResumeKind::AnswerMissing => "answer_missing",
            CannotResumeKind::NoQuestion => "no_question",
            CannotResumeKind::Store(kind) => kind.code(),
        }
    }
}

impl fmt::Display for CannotResume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CannotResume {}

impl From<scrollback_store::StoreError> for CannotResume {
    fn from(error: scrollback_store::StoreError) -> Self {
        let kind = match error.kind() {
            ErrorKind::Busy => CannotResumeKind::Busy,
            other => CannotResumeKind::Store(other),
        };
        CannotResume::new(kind, error.to_string())
    }
}

/// Where the newest evaluation of a record stands.
struct EvaluationPosition {
    id: Uuid,
    first: u64,
    next_sequence: u64,
    /// Its calls that have no result, in call order.
    waiting: VecDeque<QueuedCall>,
    /// Whether it has its task, and not yet its reply.
    open: bool,
}

impl EvaluationPosition {
    fn of(record: &Record) -> Option<Self> {
        let newest = record.slots().iter().rev().find_map(message)?;
        let id = newest.evaluation_id;
        // From the end to its first entry: what was said before is no business of it, however long it is.
        let mut own: Vec<(&Entry, u64)> = Vec::new();
        for (slot, at) in record.slots().iter().rev().zip((0..record.len() as u64).rev()) {
            if let Some(entry) = message(slot).filter(|entry| entry.evaluation_id == id) {
                own.push((entry, at));
                if entry.sequence == 0 {
                    break;
                }
            }
        }
        own.reverse();
        let answered: HashSet<String> = own.iter().filter_map(|(entry, _)| entry.tool_call_id()).collect();
        let calls = own.iter().flat_map(|(entry, _)| entry.open_calls());
        let waiting: VecDeque<QueuedCall> =
            calls.filter_map(QueuedCall::of).filter(|call| !answered.contains(&call.id)).collect();
        let (last, _) = own.last()?;
        let whole = last.status() == scrollback_core::Status::Complete;
        let thought = last.meta.as_ref().is_some_and(|meta| meta.step.is_some());
        let replied = last.role == Role::Assistant && whole && !thought && last.open_calls().next().is_none();
        let asked = own.iter().any(|(entry, _)| entry.role == Role::User);
        let (first, next_sequence) = (own.first()?.1, newest.sequence + 1);
        Some(EvaluationPosition { id, first, next_sequence, waiting, open: asked && !replied })
    }
}

fn message(slot: &Slot) -> Option<&Entry> {
    match slot {
        Slot::Message(entry) => Some(entry),
        _ => None,
    }
}

impl<'r> Evaluation<'r> {
    /// The newest evaluation, if it has no reply and no other process is working on it.
    pub(crate) async fn reopen(
        runner: &'r Runner,
        journal: &'r mut Journal,
        prompt: &'r Prompt,
        answer: Option<&str>,
    ) -> Result<Self, CannotResume> {
        use CannotResumeKind::{AnswerMissing, NoQuestion, NothingToResume};
        let mut evaluation = Evaluation::new(runner, journal, prompt);
        let standing = EvaluationPosition::of(evaluation.journal.record()).filter(|standing| standing.open);
        let Some(standing) = standing else {
            let message = "nothing to resume: every question has a reply";
            return Err(CannotResume::new(NothingToResume, message));
        };
        evaluation.answer = answer.map(String::from);
        evaluation.take_over(standing.id, standing.first, standing.next_sequence).await?;
        let asked = standing.waiting.iter().any(|call| evaluation.is_human(&call.name));
        match (answer, asked) {
            (None, true) => {
                Err(CannotResume::new(AnswerMissing, "a question is open; resume with its answer"))
            }
            (Some(_), false) => {
                let message = "no question is open; resume without an answer, or ask something new";
                Err(CannotResume::new(NoQuestion, message))
            }
            _ => Ok(evaluation),
        }
    }

    /// An evaluation of a record that was prepared for it.
    pub(crate) fn within(runner: &'r Runner, journal: &'r mut Journal, prompt: &'r Prompt, id: Uuid) -> Self {
        let mut evaluation = Evaluation::new(runner, journal, prompt);
        evaluation.id = id;
        let own = evaluation.journal.record().slots().iter().enumerate().rev();
        let last = own
            .filter_map(|(at, slot)| Some((at, message(slot)?)))
            .find(|(_, entry)| entry.evaluation_id == id);
        if let Some((at, entry)) = last {
            evaluation.sequence = entry.sequence + 1;
            evaluation.first_position = Some(at as u64);
        }
        evaluation
    }

    /// Makes this the evaluation that began at a position, if it was begun with the same prompt and no other process is working on
    /// it.
    pub async fn take_over(&mut self, id: Uuid, first: u64, next: u64) -> Result<(), CannotResume> {
        (self.id, self.sequence, self.first_position) = (id, next, Some(first));
        let Some((store, tenant)) = self.journal.store() else { return Ok(()) };
        let Some(row) = store.evaluation(tenant, id).await? else { return Ok(()) };
        self.started_at = row.started_at;
        if row.prompt_identity.is_some_and(|identity| identity != self.identity()) {
            let message = "the instructions or the tools changed since the evaluation began; \
                           start a new one, or restore them";
            return Err(CannotResume::new(CannotResumeKind::PromptChanged, message));
        }
        let (me, held) = (self.holder.clone(), row.lease.map(|lease| lease.holder));
        let what = Leased::Evaluation(id);
        let held = Held::take(store, tenant, what, me, held.as_deref(), &self.runner.clock).await?;
        self.held = Some(held);
        Ok(())
    }

    fn is_human(&self, name: &str) -> bool {
        self.runner.tools.get(name).is_some_and(|tool| tool.asks())
    }

    /// Runs what waits, as far as that does no harm.
    pub(crate) async fn go_on(&mut self) -> Result<Option<Question>, EvaluationError> {
        let waiting = EvaluationPosition::of(self.journal.record())
            .map(|standing| standing.waiting)
            .unwrap_or_default();
        let mut again = VecDeque::new();
        for call in waiting {
            let effects = self.runner.tools.get(&call.name).map(|tool| tool.spec().effects);
            if self.is_human(&call.name)
                && let Some(answer) = self.answer.take()
            {
                let entry = Entry::result(&call.id, &answer);
                self.take_result(call, entry, false, 0, None).await?;
            } else if effects == Some(Effects::Once) {
                let entry = Entry::result(&call.id, INTERRUPTED);
                self.take_result(call, entry, false, 0, None).await?;
            } else {
                again.push_back(call);
            }
        }
        self.run_waiting(again).await
    }

    /// Closes calls of an earlier evaluation that will not be answered any more, before something else is said.
    pub(super) async fn close_pending(&mut self) -> Result<(), EvaluationError> {
        let Some(standing) = EvaluationPosition::of(self.journal.record()) else { return Ok(()) };
        if standing.waiting.is_empty() {
            return Ok(());
        }
        let mut held = None;
        if let Some((store, tenant)) = self.journal.store()
            && let Some(row) = store.evaluation(tenant, standing.id).await?
        {
            let what = Leased::Evaluation(standing.id);
            let (me, holder) = (self.holder.clone(), row.lease.map(|lease| lease.holder));
            let clock = &self.runner.clock;
            held = Some(Held::take(store, tenant, what, me, holder.as_deref(), clock).await?);
        }
        let now = self.now();
        let results = standing.waiting.iter().map(|call| Entry::result(&call.id, INTERRUPTED));
        let entries =
            scrollback_store::NewEntry::continued(results, standing.id, standing.next_sequence, now);
        let written = self.journal.write(entries, crate::journal::JournalRows::default(), now).await?;
        for position in written {
            self.told_of(position);
        }
        if let Some(held) = held {
            held.release().await;
        }
        Ok(())
    }
}
