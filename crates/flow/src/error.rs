//! Why a step, and with it a run, failed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::quota::Breach;

/// Why a run failed. Act on `code`; the message is one line for people, without secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// What programs act on.
    pub code: RunErrorKind,
    /// What people read.
    pub message: String,
    /// The step that failed, by key.
    pub step: Option<String>,
    /// Numbers and names that belong to it.
    pub detail: Box<Value>,
}

/// Why a run failed, as programs tell it. The code of each is its name in small letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunErrorKind {
    /// A provider refused or failed; `detail.kind` says how.
    ProviderError,
    /// A provider says that the request is larger than its window, and no step makes it smaller.
    ContextOverflow,
    /// What cannot be left out is larger than the bound of the history.
    ContextTooLarge,
    /// A reply does not fit its schema.
    OutputInvalid,
    /// Too many results of tools in a row were errors.
    ToolErrors,
    /// The model was asked often enough and still calls tools.
    TooManyRounds,
    /// A loop reached its limit.
    LoopLimit,
    /// A limit has no room for another call.
    QuotaExceeded,
    /// What a step should go through is no list.
    NotAList,
    /// The time was up.
    Timeout,
    /// A reply broke off.
    StreamCut,
    /// The store refused or failed.
    StoreError,
    /// Another process works on the run.
    Busy,
}

impl RunErrorKind {
    /// All of them.
    pub const ALL: [RunErrorKind; 13] = [
        RunErrorKind::ProviderError,
        RunErrorKind::ContextOverflow,
        RunErrorKind::ContextTooLarge,
        RunErrorKind::OutputInvalid,
        RunErrorKind::ToolErrors,
        RunErrorKind::TooManyRounds,
        RunErrorKind::LoopLimit,
        RunErrorKind::QuotaExceeded,
        RunErrorKind::NotAList,
        RunErrorKind::Timeout,
        RunErrorKind::StreamCut,
        RunErrorKind::StoreError,
        RunErrorKind::Busy,
    ];

    /// The code for it.
    pub fn as_str(self) -> &'static str {
        match self {
            RunErrorKind::ProviderError => "provider_error",
            RunErrorKind::ContextOverflow => "context_overflow",
            RunErrorKind::ContextTooLarge => "context_too_large",
            RunErrorKind::OutputInvalid => "output_invalid",
            RunErrorKind::ToolErrors => "tool_errors",
            RunErrorKind::TooManyRounds => "too_many_rounds",
            RunErrorKind::LoopLimit => "loop_limit",
            RunErrorKind::QuotaExceeded => "quota_exceeded",
            RunErrorKind::NotAList => "not_a_list",
            RunErrorKind::Timeout => "timeout",
            RunErrorKind::StreamCut => "stream_cut",
            RunErrorKind::StoreError => "store_error",
            RunErrorKind::Busy => "busy",
        }
    }
}

impl fmt::Display for RunErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RunErrorKind {
    type Err = String;

    fn from_str(code: &str) -> Result<Self, String> {
        let known = RunErrorKind::ALL.into_iter().find(|kind| kind.as_str() == code);
        known.ok_or_else(|| format!("unknown kind of failure {code:?}"))
    }
}

impl RunError {
    /// An error of that kind at a step.
    pub fn new(code: RunErrorKind, step: &str, message: impl Into<String>) -> Self {
        RunError { code, message: message.into(), step: Some(step.into()), detail: Box::new(json!({})) }
    }

    /// The same with numbers and names.
    #[must_use]
    pub fn with(mut self, detail: Value) -> Self {
        self.detail = Box::new(detail);
        self
    }

    /// A limit that had no room.
    pub fn quota(step: &str, breach: &Breach) -> Self {
        RunError::new(RunErrorKind::QuotaExceeded, step, breach.to_string()).with(json!(breach))
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Some(step) => write!(f, "{step}: {} [{}]", self.message, self.code),
            None => write!(f, "{} [{}]", self.message, self.code),
        }
    }
}

impl std::error::Error for RunError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_from_its_code() {
        for kind in RunErrorKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).ok(), Some(json!(kind.as_str())));
        }
        assert!("out_of_luck".parse::<RunErrorKind>().is_err());
    }
}
