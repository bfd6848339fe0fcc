//! Why a step, and with it a run, failed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::quota::Breach;

/// Why a run failed. Act on `code`; the message is one line for people, without secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunError {
    /// What programs act on.
    pub code: String,
    /// What people read.
    pub message: String,
    /// The step that failed, by key.
    pub step: Option<String>,
    /// Numbers and names that belong to it.
    pub detail: Box<Value>,
}

/// Every code a run can fail with.
pub const CODES: [&str; 13] = [
    "provider_error",
    "context_overflow",
    "context_too_large",
    "output_invalid",
    "tool_errors",
    "too_many_rounds",
    "loop_limit",
    "quota_exceeded",
    "not_a_list",
    "timeout",
    "stream_cut",
    "store_error",
    "busy",
];

impl RunError {
    /// An error of that code at a step.
    pub fn new(code: &str, step: &str, message: impl Into<String>) -> Self {
        RunError {
            code: code.into(),
            message: message.into(),
            step: Some(step.into()),
            detail: Box::new(json!({})),
        }
    }

    /// The same with numbers and names.
    #[must_use]
    pub fn with(mut self, detail: Value) -> Self {
        self.detail = Box::new(detail);
        self
    }

    /// A limit that had no room.
    pub fn quota(step: &str, breach: &Breach) -> Self {
        RunError::new("quota_exceeded", step, breach.to_string()).with(json!(breach))
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
