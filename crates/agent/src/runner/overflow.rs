//! A request that is too large: the view is made smaller, step by step, and each step is recorded so that the next call
//! does not fail the same way.

use std::collections::HashSet;

use scrollback_core::manager::{ClearToolResults, Keep, TokenBudget};
use scrollback_core::model::{ModelName, facts};
use scrollback_core::{
    CurationContext, CurationError, Decision, HistoryManager, Item, Reason, Role, Source, View,
};

use super::call::{Outgoing, Unanswered};
use super::error::{EvaluationError, Phase};
use super::evaluation::Evaluation;
use crate::event::ContextTightened;
use crate::provider::{ErrorKind, Overflow};

/// Results that stay as they are in the first step.
const KEPT_RESULTS: usize = 3;
/// Characters that stay of a result in the last step.
const KEPT_CHARS: usize = 2000;

/// What is done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Clear,
    Cut,
    Truncate,
}

pub(super) const STEPS: [Step; 3] = [Step::Clear, Step::Cut, Step::Truncate];

impl Step {
    fn as_str(self) -> &'static str {
        match self {
            Step::Clear => "clear",
            Step::Cut => "cut",
            Step::Truncate => "truncate",
        }
    }
}

impl Unanswered {
    /// The sizes the provider stated, if that is what is wrong.
    pub(super) fn overflow(&self) -> Option<Overflow> {
        match self.provider.as_ref()?.kind {
            ErrorKind::ContextOverflow(overflow) => Some(overflow),
            _ => None,
        }
    }
}

impl Evaluation<'_> {
    /// Takes the next step that changes something, and records it; an error if there is none.
    pub(super) async fn tighten(
        &mut self,
        steps: &mut std::slice::Iter<'_, Step>,
        overflow: Overflow,
        outgoing: &Outgoing,
    ) -> Result<(), EvaluationError> {
        let limit = room_after(overflow, &self.runner.provider.describe().model, outgoing.tokens);
        for step in steps.by_ref() {
            let Some(decision) = self.decision(*step, limit)? else { continue };
            self.decide(decision).await?;
            let view = self.journal.record().view(&self.cx, &self.manager)?;
            let after = view.count(&self.cx).total;
            self.tell(&ContextTightened {
                step: step.as_str(),
                limit: overflow.limit,
                before: outgoing.tokens,
                after,
            });
            return Ok(());
        }
        let stated = match (overflow.size, overflow.limit) {
            (Some(size), Some(limit)) => format!(" of {size} tokens, and the model takes {limit}"),
            (_, Some(limit)) => format!("; the model takes {limit} tokens"),
            _ => String::new(),
        };
        let message = format!(
            "the request is too large{stated}; the smallest view has {} tokens by our count",
            outgoing.tokens
        );
        Err(EvaluationError::new(Phase::Request, "context_overflow", message))
    }

    /// What a step would record; none if it changes nothing.
    fn decision(&self, step: Step, limit: usize) -> Result<Option<Decision>, EvaluationError> {
        let view = self.journal.record().view(&self.cx, &self.manager)?;
        Ok(match step {
            Step::Clear => {
                let clear = ClearToolResults { keep_recent: KEPT_RESULTS, ..ClearToolResults::default() };
                let placeholder = clear.placeholder.clone();
                let cleared = clear.curate(view, &self.cx)?.explain();
                let changed = cleared.changed.iter().filter(|changed| changed.reason == Reason::Cleared);
                let positions: Vec<u64> =
                    changed.filter(|changed| changed.by.is_none()).map(|changed| changed.index).collect();
                (!positions.is_empty()).then_some(Decision::Clear { positions, placeholder })
            }
            Step::Cut => cut_to_fit(&view, &self.cx, limit)?,
            Step::Truncate => {
                let long = |item: &Item| item.entry.role == Role::Tool && item.entry.chars() > KEPT_CHARS;
                let positions: Vec<u64> =
                    view.items().filter(long).filter_map(|item| position(&item)).collect();
                let keep = Keep::Both;
                (!positions.is_empty()).then_some(Decision::Truncate {
                    positions,
                    max_length: KEPT_CHARS,
                    keep,
                })
            }
        })
    }
}

/// Tokens the next view may have after one of `tokens` was too large: what the provider states, less what the reply needs,
/// else three quarters.
pub fn room_after(overflow: Overflow, model: &ModelName, tokens: usize) -> usize {
    let Some(limit) = overflow.limit else { return (tokens * 3 / 4).max(1) };
    let most = facts(model).and_then(|facts| facts.max_output);
    let reserve = most.unwrap_or(u64::MAX).min(8192).min(limit / 8);
    (limit.saturating_sub(reserve) as usize).max(1)
}

/// The cut that leaves the newest groups of a view that fit a number of tokens; none if nothing would go.
pub fn cut_to_fit(
    view: &View<'_>,
    cx: &CurationContext,
    limit: usize,
) -> Result<Option<Decision>, CurationError> {
    let budget = TokenBudget { max_tokens: limit, reserve: 0 };
    let fitting = match budget.curate(view.clone(), cx) {
        Ok(fitting) => fitting,
        // What must stay is too large by itself: everything else goes, and the next step shortens the rest.
        Err(CurationError::BudgetTooSmall { needed, .. }) => {
            let budget = TokenBudget { max_tokens: needed, reserve: 0 };
            budget.curate(view.clone(), cx)?
        }
        Err(error) => return Err(error),
    };
    let kept: Vec<u64> = fitting.items().filter_map(|item| position(&item)).collect();
    let stays: HashSet<u64> = kept.iter().copied().collect();
    let gone = view.items().filter_map(|item| position(&item)).filter(|at| !stays.contains(at));
    let Some(last_gone) = gone.max() else { return Ok(None) };
    // Groups that came apart in the record stand together in the view: the cut lies behind all that goes.
    let newest = |item: &Item| item.entry.role == Role::User;
    let task = view.items().filter(newest).filter_map(|item| position(&item)).last();
    let before = kept.iter().copied().find(|at| *at > last_gone).unwrap_or(last_gone + 1);
    let held = task.filter(|task| *task < before);
    Ok(Some(Decision::Cut { before, held, by: "token_budget".into(), scope: None, factor: None }))
}

fn position(item: &Item) -> Option<u64> {
    match item.source {
        Source::Entry(position) => Some(position),
        _ => None,
    }
}
