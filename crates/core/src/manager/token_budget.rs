use serde_json::{Value, json};

use super::{HistoryManager, config_of, newest_run};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::view::{Reason, View};

/// Keeps the newest groups that fit a number of tokens, and what is protected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenBudget {
    /// Tokens of the whole request.
    pub max_tokens: usize,
    /// Tokens of it left free for the reply.
    pub reserve: usize,
}

impl TokenBudget {
    /// Tokens a view may have; at least 1 by configuration.
    pub fn limit(&self) -> usize {
        self.max_tokens.saturating_sub(self.reserve)
    }
}

impl HistoryManager for TokenBudget {
    fn name(&self) -> &'static str {
        "token_budget"
    }

    fn curate<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let protected = view.protected();
        let mut room = room_beside(&view, cx, self.limit())?;
        let run = newest_run(&view, |index| {
            if protected.contains(index) {
                return true;
            }
            match room.checked_sub(view.group_tokens(cx.counter, index)) {
                Some(left) => {
                    room = left;
                    true
                }
                None => false,
            }
        });
        view.keep(&run, self.name(), Reason::OverBudget);
        Ok(view)
    }

    fn budget(&self, _: &CurationContext) -> Option<usize> {
        Some(self.limit())
    }

    fn config(&self) -> Value {
        config_of(self.name(), json!({ "max_tokens": self.max_tokens, "reserve": self.reserve }))
    }
}

/// Tokens left of `limit` when everything that must stay is in: overhead, lead, summary and protected groups.
pub(crate) fn room_beside(
    view: &View<'_>,
    cx: &CurationContext,
    limit: usize,
) -> Result<usize, CurationError> {
    let protected: usize = view.protected().iter().map(|index| view.group_tokens(cx.counter, index)).sum();
    let around = cx.overhead(cx.counter) + cx.opening(cx.counter);
    let needed = around + view.anchored_tokens(cx.counter) + protected;
    limit.checked_sub(needed).ok_or(CurationError::BudgetTooSmall { needed, budget: limit })
}
