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
        let room = room_beside(&mut view, cx, self.limit())?;
        let protected = view.protected();
        let newest = |view: &View<'_>, mut room: usize| {
            newest_run(view, |index| {
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
            })
        };
        let mut run = newest(&view, room);
        if !view.body().minus(&run).minus(&protected).is_empty() {
            let notice = view.notice_room(self.limit(), cx.counter);
            match room.checked_sub(notice) {
                Some(room) if notice > 0 => run = newest(&view, room),
                Some(_) => {}
                None => {
                    view.wish_notice(Some(false));
                }
            }
        }
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

/// Tokens left of `limit` when everything that must stay is in: overhead, lead, summary and protected groups. What is owed
/// stays only where there is room for it.
pub(crate) fn room_beside(
    view: &mut View<'_>,
    cx: &CurationContext,
    limit: usize,
) -> Result<usize, CurationError> {
    let needed = |view: &View<'_>| {
        let protected: usize =
            view.protected().iter().map(|index| view.group_tokens(cx.counter, index)).sum();
        cx.overhead(cx.counter) + cx.opening(cx.counter) + view.anchored_tokens(cx.counter) + protected
    };
    view.bound_owed(limit, cx.counter);
    if let Some(room) = limit.checked_sub(needed(view)) {
        return Ok(room);
    }
    view.forgo_owed();
    let needed = needed(view);
    limit.checked_sub(needed).ok_or(CurationError::BudgetTooSmall { needed, budget: limit })
}
