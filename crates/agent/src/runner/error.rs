//! Why an evaluation ended without a reply.

use std::fmt;

use scrollback_core::CurationError;
use scrollback_store::{ErrorKind as StoreErrorKind, StoreError};

use crate::provider::{ErrorKind, ProviderError};

/// Where an evaluation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePhase {
    /// Before or while asking the model.
    Request,
    /// In what it answered.
    Response,
    /// In a tool.
    Tool,
    /// It used more than it may.
    Budget,
    /// It took longer than it may.
    Deadline,
}

impl FailurePhase {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            FailurePhase::Request => "request",
            FailurePhase::Response => "response",
            FailurePhase::Tool => "tool",
            FailurePhase::Budget => "budget",
            FailurePhase::Deadline => "deadline",
        }
    }
}

/// The kinds of [`EvaluationError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvaluationErrorKind {
    /// It was asked to stop.
    Interrupted,
    /// The deadline has passed.
    Deadline,
    /// The deadline would pass before the next attempt.
    DeadlineBeforeRetry,
    /// Too many attempts failed.
    AttemptsExhausted,
    /// The attempts took too long together.
    RetryTimeExhausted,
    /// The budget of the evaluation is used up.
    Budget,
    /// A quota of what the evaluation is part of is used up.
    Quota,
    /// What must stay in the request is larger than the manager's budget.
    BudgetTooSmall,
    /// The window of the model is not known.
    UnknownModel,
    /// The request is larger than the model's window.
    ContextOverflow,
    /// The request breaks a rule of its provider.
    InvalidRequest,
    /// There is no reply, or none that can be read.
    NoReply,
    /// The reply does not fit its schema.
    BadOutput,
    /// The reply does not follow the format that was asked for.
    UnparsableReply,
    /// The loop ended without an answer.
    NoAnswer,
    /// Too many results in a row were errors.
    ToolErrors,
    /// The model was asked often enough.
    TooManyRounds,
    /// The provider refused for another reason.
    Provider(ErrorKind),
    /// The store refused or failed.
    Store(StoreErrorKind),
    /// A reason of the host that runs the evaluation, with its code: a mission that failed, a meter that refused.
    Host(&'static str),
}

impl EvaluationErrorKind {
    /// The code for it, as reports and events have it.
    pub fn as_str(self) -> &'static str {
        match self {
            EvaluationErrorKind::Interrupted => "interrupted",
            EvaluationErrorKind::Deadline => "deadline",
            EvaluationErrorKind::DeadlineBeforeRetry => "deadline_before_retry",
            EvaluationErrorKind::AttemptsExhausted => "attempts_exhausted",
            EvaluationErrorKind::RetryTimeExhausted => "retry_time_exhausted",
            EvaluationErrorKind::Budget => "budget",
            EvaluationErrorKind::Quota => "quota_exceeded",
            EvaluationErrorKind::BudgetTooSmall => "budget_too_small",
            EvaluationErrorKind::UnknownModel => "unknown_model",
            EvaluationErrorKind::ContextOverflow => "context_overflow",
            EvaluationErrorKind::InvalidRequest => "invalid_request",
            EvaluationErrorKind::NoReply => "no_reply",
            EvaluationErrorKind::BadOutput => "bad_output",
            EvaluationErrorKind::UnparsableReply => "unparsable_reply",
            EvaluationErrorKind::NoAnswer => "no_answer",
            EvaluationErrorKind::ToolErrors => "tool_errors",
            EvaluationErrorKind::TooManyRounds => "too_many_rounds",
            EvaluationErrorKind::Provider(kind) => kind.as_str(),
            EvaluationErrorKind::Store(kind) => kind.code(),
            EvaluationErrorKind::Host(code) => code,
        }
    }
}

/// Why an evaluation ended without a reply. Act on `kind`; the message is one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationError {
    /// Where it failed.
    pub phase: FailurePhase,
    /// What programs act on.
    pub kind: EvaluationErrorKind,
    /// What people read.
    pub message: String,
    /// What the provider's last answer was, where that is what ended it.
    pub provider: Option<ErrorKind>,
}

impl EvaluationError {
    /// An error of that kind.
    pub fn new(phase: FailurePhase, kind: EvaluationErrorKind, message: impl Into<String>) -> Self {
        EvaluationError { phase, kind, message: message.into(), provider: None }
    }

    /// The code of its kind.
    pub fn code(&self) -> &'static str {
        self.kind.as_str()
    }

    /// The same, because of what a provider answered.
    pub(crate) fn because(self, provider: ErrorKind) -> Self {
        EvaluationError { provider: Some(provider), ..self }
    }

    /// The time is up.
    pub(crate) fn deadline() -> Self {
        EvaluationError::new(FailurePhase::Deadline, EvaluationErrorKind::Deadline, "the deadline has passed")
    }

    /// A reply that is no message.
    pub fn unreadable(error: &scrollback_core::wire::WireError) -> Self {
        EvaluationError::new(
            FailurePhase::Response,
            EvaluationErrorKind::NoReply,
            format!("the reply cannot be read: {error}"),
        )
    }

    /// The model was asked often enough.
    pub(crate) fn too_many_rounds(most: u32) -> Self {
        let message = format!("the model was asked {most} times and still calls tools");
        EvaluationError::new(FailurePhase::Response, EvaluationErrorKind::TooManyRounds, message)
    }

    /// The caller asked to stop.
    pub(crate) fn interrupted() -> Self {
        let message = "interrupted; everything so far is recorded, and can be resumed";
        EvaluationError::new(FailurePhase::Request, EvaluationErrorKind::Interrupted, message)
    }
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvaluationError {}

impl From<StoreError> for EvaluationError {
    fn from(error: StoreError) -> Self {
        EvaluationError::new(
            FailurePhase::Request,
            EvaluationErrorKind::Store(error.kind()),
            error.to_string(),
        )
    }
}

impl From<CurationError> for EvaluationError {
    fn from(error: CurationError) -> Self {
        let kind = match error {
            CurationError::BudgetTooSmall { .. } | CurationError::WindowTooSmall { .. } => {
                EvaluationErrorKind::BudgetTooSmall
            }
            CurationError::UnknownModel { .. } => EvaluationErrorKind::UnknownModel,
        };
        EvaluationError::new(FailurePhase::Request, kind, error.to_string())
    }
}

impl From<&ProviderError> for EvaluationError {
    fn from(error: &ProviderError) -> Self {
        let phase = match error.kind {
            ErrorKind::Truncated | ErrorKind::ContentFilter | ErrorKind::NoReply => FailurePhase::Response,
            _ => FailurePhase::Request,
        };
        let kind = match error.kind {
            ErrorKind::ContextOverflow(_) => EvaluationErrorKind::ContextOverflow,
            ErrorKind::InvalidRequest => EvaluationErrorKind::InvalidRequest,
            ErrorKind::NoReply => EvaluationErrorKind::NoReply,
            kind => EvaluationErrorKind::Provider(kind),
        };
        EvaluationError::new(phase, kind, &*error.message).because(error.kind)
    }
}
