//! A request that is too large: what is decided, step by step, until it is not.
//!
//! Each step is one decision about the record, so the next call does not fail the same way, and every step is seen later.

use std::collections::HashSet;
use std::fmt;

use super::tokens::RequestTokens;
use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::Role;
use crate::error::CurationError;
use crate::manager::{ClearToolResults, HistoryManager, TokenBudget};
use crate::model::facts;
use crate::record::Record;
use crate::tokens::Method;
use crate::view::shorten::Shorten;
use crate::view::{Item, Reason, Source, View};

/// Results that stay as they are when older ones are cleared.
const KEPT_RESULTS: usize = 3;
/// Largest part of a window that is left free for the reply.
const RESERVE: u64 = 8192;
/// Who cut, as views and headers name it.
const BY: &str = "overflow";

/// What is done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The oldest groups are left out.
    Cut,
    /// Old tool results show a placeholder.
    Clear,
    /// The longest results of what must stay are cut to head and tail.
    TruncateResults,
    /// So are the longest texts of the task itself.
    TruncateTask,
}

impl Step {
    const ALL: [Step; 4] = [Step::Cut, Step::Clear, Step::TruncateResults, Step::TruncateTask];

    /// The word for it in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Step::Cut => "cut",
            Step::Clear => "clear",
            Step::TruncateResults => "truncate",
            Step::TruncateTask => "truncate_task",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a provider stated about a request that was too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// Tokens the model takes.
    pub limit: Option<u64>,
    /// Tokens the request has.
    pub size: Option<u64>,
}

/// The steps that are left for one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ladder {
    taken: usize,
}

impl Ladder {
    /// The next step that changes something, as the decision to record; none when there is no step left.
    ///
    /// `tokens` are those of the request that was too large, by our count.
    pub fn next(
        &mut self,
        record: &Record,
        manager: &dyn HistoryManager,
        cx: &CurationContext,
        stated: Stated,
        tokens: usize,
    ) -> Option<(Step, Decision)> {
        let target = target(stated, cx, tokens);
        while let Some(step) = Step::ALL.get(self.taken).copied() {
            self.taken += 1;
            let view = record.view(cx, manager).unwrap_or_else(|_| View::of(record, cx));
            if let Some(decision) = decision(step, &view, cx, target) {
                return Some((step, decision));
            }
        }
        None
    }
}

/// Tokens the next request may have: what the provider stated, by our measure and less what the reply needs, and never more
/// than three quarters of what was too large.
///
/// A provider that does not state the size may refuse a request of many times its window. Then its limit counts, or the
/// window that is known of the model; three quarters of it, because our count may be too low. The steps are too few to find
/// the size by trying.
fn target(stated: Stated, cx: &CurationContext, tokens: usize) -> usize {
    let most = tokens / 4 * 3;
    let by_size = stated.limit.zip(stated.size).map(|(limit, size)| {
        let longest = || facts(cx.model.as_ref()?)?.max_output;
        let reserve = cx.output.or_else(longest).unwrap_or(RESERVE).min(RESERVE).min(limit / 8);
        let room = u128::from(limit.saturating_sub(reserve));
        (tokens as u128 * room / u128::from(size.max(1))) as usize
    });
    let window = || stated.limit.or_else(|| cx.window_of(cx.model.as_ref()?));
    let by_window = || Some((window()? / 4 * 3) as usize);
    by_size.or_else(by_window).map_or(most, |target| target.min(most)).max(1)
}

fn decision(step: Step, view: &View<'_>, cx: &CurationContext, target: usize) -> Option<Decision> {
    match step {
        Step::Cut => cut_to_fit(view, cx, target),
        Step::Clear => {
            let clear = ClearToolResults { keep_recent: KEPT_RESULTS, ..ClearToolResults::default() };
            let placeholder = clear.placeholder.clone();
            let cleared = clear.curate(view.clone(), cx).ok()?.explain();
            let changed = cleared.changed.iter().filter(|changed| changed.reason == Reason::Cleared);
            let positions: Vec<u64> =
                changed.filter(|changed| changed.by.is_none()).map(|changed| changed.index).collect();
            (!positions.is_empty()).then_some(Decision::Clear { positions, placeholder })
        }
        Step::TruncateResults => view.shortening(Shorten::Results, view.body(), target, cx.counter, cx),
        Step::TruncateTask => view.shortening(Shorten::Users, &view.protected(), target, cx.counter, cx),
    }
}

/// The cut that leaves the newest groups of a view that fit a number of tokens; none if nothing would go.
fn cut_to_fit(view: &View<'_>, cx: &CurationContext, limit: usize) -> Option<Decision> {
    let budget = |max_tokens| TokenBudget { max_tokens, reserve: 0 };
    let fitting = match budget(limit).curate(view.clone(), cx) {
        // What must stay is too large by itself: everything else goes, and the next steps shorten the rest.
        Err(CurationError::BudgetTooSmall { needed, .. }) => budget(needed).curate(view.clone(), cx),
        other => other,
    };
    let kept: Vec<u64> = fitting.ok()?.items().filter_map(|item| position(&item)).collect();
    let stays: HashSet<u64> = kept.iter().copied().collect();
    let gone = view.items().filter_map(|item| position(&item)).filter(|at| !stays.contains(at));
    let last_gone = gone.max()?;
    // Groups that came apart in the record stand together in the view: the cut lies behind all that goes.
    let newest = |item: &Item| item.entry.role == Role::User;
    let task = view.items().filter(newest).filter_map(|item| position(&item)).last();
    let before = kept.iter().copied().find(|at| *at > last_gone).unwrap_or(last_gone + 1);
    let held = task.filter(|task| *task < before);
    let factor = (cx.counter.method == Method::Estimate).then_some(cx.counter.factor);
    Some(Decision::Cut { before, held, by: BY.into(), scope: cx.scope.clone(), kept: Vec::new(), factor })
}

fn position(item: &Item) -> Option<u64> {
    match item.source {
        Source::Entry(position) => Some(position),
        _ => None,
    }
}

/// Why a request cannot be made small enough, which part of it is the largest, and what would help.
pub fn too_large(stated: Stated, tokens: &RequestTokens) -> String {
    let size = match (stated.size, stated.limit) {
        (Some(size), Some(limit)) => format!(": it has {size} tokens, and the model takes {limit}"),
        (_, Some(limit)) => format!(": the model takes {limit} tokens"),
        _ => String::new(),
    };
    let RequestTokens { instructions, tools, messages, total, .. } = *tokens;
    let (part, advice) = if tools >= instructions.max(messages) {
        ("the tool definitions", "offer fewer tools")
    } else if instructions >= messages {
        ("the instructions", "shorten the instructions")
    } else {
        (
            "what must stay of the messages",
            "shorten the task, or use `tool_result_truncator` with a smaller max_length",
        )
    };
    format!(
        "the request is too large{size}. The smallest request that can be made has {total} tokens by our count \
         (instructions {instructions}, tools {tools}, messages {messages}), and {part} would have to be smaller: {advice}, \
         or use a model with a larger window"
    )
}
