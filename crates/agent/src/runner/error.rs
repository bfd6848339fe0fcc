//! Why an evaluation ended without a reply.

use std::fmt;

use scrollback_core::CurationError;
use scrollback_store::StoreError;

use crate::provider::{ErrorKind, ProviderError};

/// Where an evaluation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
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

impl Phase {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Request => "request",
            Phase::Response => "response",
            Phase::Tool => "tool",
            Phase::Budget => "budget",
            Phase::Deadline => "deadline",
        }
    }
}

/// Why an evaluation ended without a reply. Act on `code`; the message is one line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationError {
    /// Where it failed.
    pub phase: Phase,
    /// What programs act on.
    pub code: String,
    /// What people read.
    pub message: String,
    /// What the provider's last answer was, where that is what ended it.
    pub provider: Option<ErrorKind>,
}

impl EvaluationError {
    /// An error of that code.
    pub fn new(phase: Phase, code: &str, message: impl Into<String>) -> Self {
        EvaluationError { phase, code: code.into(), message: message.into(), provider: None }
    }

    /// The same, because of what a provider answered.
    pub(crate) fn because(self, provider: ErrorKind) -> Self {
        EvaluationError { provider: Some(provider), ..self }
    }

    /// The time is up.
    pub(crate) fn deadline() -> Self {
        EvaluationError::new(Phase::Deadline, "deadline", "the deadline has passed")
    }

    /// A reply that is no message.
    pub(crate) fn unreadable(error: &scrollback_core::wire::WireError) -> Self {
        EvaluationError::new(Phase::Response, "no_reply", format!("the reply cannot be read: {error}"))
    }

    /// The model was asked often enough.
    pub(crate) fn too_many_rounds(most: u32) -> Self {
        let message = format!("the model was asked {most} times and still calls tools");
        EvaluationError::new(Phase::Response, "too_many_rounds", message)
    }

    /// Somebody asked to stop.
    pub(crate) fn interrupted() -> Self {
        let message = "interrupted; everything so far is recorded, and can be resumed";
        EvaluationError::new(Phase::Request, "interrupted", message)
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
        EvaluationError::new(Phase::Request, error.code(), error.to_string())
    }
}

impl From<CurationError> for EvaluationError {
    fn from(error: CurationError) -> Self {
        EvaluationError::new(Phase::Request, error.code(), error.to_string())
    }
}

impl From<&ProviderError> for EvaluationError {
    fn from(error: &ProviderError) -> Self {
        let phase = match error.kind {
            ErrorKind::Truncated | ErrorKind::ContentFilter | ErrorKind::NoReply => Phase::Response,
            _ => Phase::Request,
        };
        EvaluationError::new(phase, error.kind.as_str(), &*error.message).because(error.kind)
    }
}
