//! Why a view could not be made.

use std::fmt;

/// A curation that cannot be done as asked. The record is unchanged, and nothing half-made is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurationError {
    /// What must stay is larger than the budget.
    BudgetTooSmall {
        /// Tokens that must stay.
        needed: usize,
        /// Tokens there are.
        budget: usize,
    },
    /// What must stay is larger than the window of the model, however much of it is shortened.
    WindowTooSmall {
        /// Tokens that must stay.
        needed: usize,
        /// Tokens a request may have.
        window: usize,
    },
    /// The window of the model is not known.
    UnknownModel {
        /// The model asked about; none if no model was named.
        model: Option<String>,
    },
}

impl CurationError {
    /// The code programs act on.
    pub fn code(&self) -> &'static str {
        match self {
            CurationError::BudgetTooSmall { .. } | CurationError::WindowTooSmall { .. } => "budget_too_small",
            CurationError::UnknownModel { .. } => "unknown_model",
        }
    }
}

impl fmt::Display for CurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CurationError::WindowTooSmall { needed, window } => write!(
                f,
                "what must stay needs {needed} tokens and the model takes {window}: shorten the system entry or the task, \
                 offer fewer tools, or use a model with a larger window"
            ),
            CurationError::BudgetTooSmall { needed, budget } => write!(
                f,
                "what must stay needs {needed} tokens and the budget is {budget}: raise the budget, shorten long tool \
                 results with `tool_result_truncator`, or shorten the system entry or the task"
            ),
            CurationError::UnknownModel { model: Some(model) } => write!(
                f,
                "the context window of {model} is not known: give `fit` a window, or set context_window for it in scrollback.toml"
            ),
            CurationError::UnknownModel { model: None } => f.write_str(
                "`fit` needs a model or a window: give one, as in --model openai:gpt-4o, fit(openai:gpt-4o) or fit(window=128000)",
            ),
        }
    }
}

impl std::error::Error for CurationError {}
