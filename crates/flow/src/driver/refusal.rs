//! Why a run is not begun or not resumed. The run is as it was.

use std::fmt;

use scrollback_core::redact::Redactor;
use scrollback_store::{ErrorKind, StoreError};
use serde_json::Value;

use crate::Problems;

/// Why a run is not begun or not resumed; nothing was changed.
#[derive(Debug)]
pub struct RunRefused {
    kind: RefusedKind,
    message: String,
    /// What is wrong with an answer or a flow, one object each.
    pub errors: Vec<Value>,
}

/// The kinds of [`RunRefused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedKind {
    /// There is no such run.
    UnknownRun,
    /// More than one run begins so.
    AmbiguousRun,
    /// It waits for an answer, and there is none.
    AnswerMissing,
    /// It waits for several answers, and the caller did not say which one this is.
    StepMissing,
    /// It does not wait for that answer.
    UnknownStep,
    /// It is not waiting for an answer.
    NotWaiting,
    /// It is done.
    NothingToResume,
    /// The id belongs to another flow or input.
    IdInUse,
    /// An id that is not one.
    BadId,
    /// The answer does not fit.
    InvalidAnswer,
    /// The stored flow cannot be read.
    InvalidFlow,
    /// Another process is working on it.
    Busy,
    /// The store failed.
    Store,
}

impl RunRefused {
    pub(super) fn new(kind: RefusedKind, message: impl Into<String>) -> Self {
        RunRefused { kind, message: message.into(), errors: Vec::new() }
    }

    /// The same without secrets: what is wrong with an answer quotes it.
    pub(super) fn redacted(mut self, redactor: &Redactor) -> Self {
        self.message = redactor.text(&self.message).text.into_owned();
        self.errors.iter_mut().for_each(|error| *error = redactor.value(error));
        self
    }

    /// Which kind it is.
    pub fn kind(&self) -> RefusedKind {
        self.kind
    }

    /// The code programs act on.
    pub fn code(&self) -> &'static str {
        match self.kind {
            RefusedKind::UnknownRun => "unknown_run",
            RefusedKind::AmbiguousRun => "ambiguous_run",
            RefusedKind::AnswerMissing => "answer_missing",
            RefusedKind::StepMissing => "step_missing",
            RefusedKind::UnknownStep => "unknown_step",
            RefusedKind::NotWaiting => "not_waiting",
            RefusedKind::NothingToResume => "nothing_to_resume",
            RefusedKind::IdInUse => "id_in_use",
            RefusedKind::BadId => "bad_id",
            RefusedKind::InvalidAnswer => "invalid_answer",
            RefusedKind::InvalidFlow => "invalid_flow",
            RefusedKind::Busy => "busy",
            RefusedKind::Store => "store_error",
        }
    }
}

impl fmt::Display for RunRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RunRefused {}

impl From<StoreError> for RunRefused {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            ErrorKind::Busy => RefusedKind::Busy,
            _ => RefusedKind::Store,
        };
        let message = match kind {
            RefusedKind::Busy => "another process works on this run; wait for it, or stop it first".into(),
            _ => error.to_string(),
        };
        RunRefused::new(kind, message)
    }
}

impl From<Problems> for RunRefused {
    fn from(problems: Problems) -> Self {
        RunRefused::new(RefusedKind::InvalidFlow, format!("the stored flow cannot be read: {problems}"))
    }
}
