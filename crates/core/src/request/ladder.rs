//! A request that is too large: what is decided, step by step, until it is not.
//!
//! Each step is one decision about the record, so the next call does not fail the same way, and every step is seen later.

use std::fmt;

use super::tokens::RequestTokens;
use crate::context::CurationContext;
use crate::decision::Decision;
use crate::error::CurationError;
use crate::manager::{ClearToolResults, HistoryManager, TokenBudget};
use crate::model::facts;
use crate::ranges::Ranges;
use crate::record::Record;
use crate::record::groups::Group;
use crate::tokens::Method;
use crate::view::shorten::Shorten;
use crate::view::{Reason, View};

/// Results that stay as they are when older ones are cleared.
const KEPT_RESULTS: usize = 3;
/// Largest part of a window that is left free for the reply.
const RESERVE: u64 = 8192;
/// Who cut, as views and headers name it.
const BY: &str = "overflow";

/// What is done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LadderStep {
    /// The oldest groups are left out.
    Cut,
    /// Old tool results show a placeholder.
    Clear,
    /// The longest results of what must stay are cut to head and tail.
    TruncateResults,
    /// So are the longest texts of the task itself.
    TruncateTask,
}

impl LadderStep {
    const ALL: [LadderStep; 4] =
        [LadderStep::Cut, LadderStep::Clear, LadderStep::TruncateResults, LadderStep::TruncateTask];

    /// The word for it in events.
    pub fn as_str(self) -> &'static str {
        match self {
            LadderStep::Cut => "cut",
            LadderStep::Clear => "clear",
            LadderStep::TruncateResults => "truncate",
            LadderStep::TruncateTask => "truncate_task",
        }
    }
}

impl fmt::Display for LadderStep {
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
    ) -> Option<(LadderStep, Decision)> {
        let target = target(stated, cx, tokens);
        while let Some(step) = LadderStep::ALL.get(self.taken).copied() {
            self.taken += 1;
            let view = record.view(cx, manager).unwrap_or_else(|_| everything_pinned_by(manager, record, cx));
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

fn decision(step: LadderStep, view: &View<'_>, cx: &CurationContext, target: usize) -> Option<Decision> {
    match step {
        LadderStep::Cut => cut_to_fit(view, cx, target),
        LadderStep::Clear => {
            let clear = ClearToolResults { keep_recent: KEPT_RESULTS, ..ClearToolResults::default() };
            let placeholder = clear.placeholder.clone();
            let cleared = clear.curate(view.clone(), cx).ok()?.explain();
            let changed = cleared.changed.iter().filter(|changed| changed.reason == Reason::Cleared);
            let positions: Vec<u64> =
                changed.filter(|changed| changed.by.is_none()).map(|changed| changed.index).collect();
            (!positions.is_empty()).then_some(Decision::Clear { positions, placeholder })
        }
        LadderStep::TruncateResults => view.shortening(Shorten::Results, view.body(), target, cx.counter, cx),
        LadderStep::TruncateTask => {
            view.shortening(Shorten::Users, &view.protected(), target, cx.counter, cx)
        }
    }
}

/// Everything, where a manager cannot make a view: a client is sent that. What the manager would pin is pinned all the same.
fn everything_pinned_by<'r>(
    manager: &dyn HistoryManager,
    record: &'r Record,
    cx: &CurationContext,
) -> View<'r> {
    let mut view = View::of(record, cx);
    view.pin(manager.closest(view.clone(), cx).pinned());
    view
}

/// The cut that leaves the newest groups of a view that fit a number of tokens, and what is pinned; none if nothing would go.
fn cut_to_fit(view: &View<'_>, cx: &CurationContext, limit: usize) -> Option<Decision> {
    let budget = |max_tokens| TokenBudget { max_tokens, reserve: 0 };
    let fitting = match budget(limit).curate(view.clone(), cx) {
        // What must stay is too large by itself: everything else goes, and the next steps shorten the rest.
        Err(CurationError::BudgetTooSmall { needed, .. }) => budget(needed).curate(view.clone(), cx),
        other => other,
    };
    let fitting = fitting.ok()?;
    let record = view.record();
    // System entries that come first once others are gone belong to the lead then.
    let shown = fitting.body().union(&Ranges::of(fitting.lead_groups()));
    let stays = shown.intersect(view.body());
    let last_gone = view.groups_in(&view.body().minus(&stays)).next_back().map(|(index, _)| index)?;
    // What the provider compacted ends where its compaction stands; nothing behind that may go.
    if record.standing.boundary(cx.wire).is_some_and(|boundary| last_gone >= boundary) {
        return None;
    }
    let opens = |(_, group): (u32, &Group)| u64::from(group.first);
    let before = view.groups_in(&stays.from(last_gone + 1)).next().map(opens);
    let held = view.last_user().filter(|user| *user < last_gone && stays.contains(*user));
    // What is pinned in the record, or needed by every request, stays without being named; it may be unpinned later.
    let stays_anyway = record
        .decided
        .pinned
        .union(&record.standing.pins_before(cx.wire, last_gone + 1))
        .union(&Ranges::of(held));
    let named = stays.intersect(&Ranges::one(0..last_gone)).minus(&stays_anyway);
    let owed = named.intersect(fitting.owed()).minus(view.pinned());
    Some(Decision::Cut {
        before: before.unwrap_or(record.len() as u64),
        held: held.and_then(|held| view.group(held)).map(|group| group.first.into()),
        by: BY.into(),
        scope: cx.scope.clone(),
        kept: view.groups_in(&named.minus(&owed)).map(opens).collect(),
        owed: view.groups_in(&owed).map(opens).collect(),
        notice: fitting.notice_text(),
        factor: (cx.counter.method == Method::Estimate).then_some(cx.counter.factor),
    })
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
