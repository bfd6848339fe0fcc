//! The figures of a simulation as programs and pages are shown them.

use schemars::JsonSchema;
use scrollback_core::replay;
use serde::Serialize;

/// What a manager would have sent over a whole conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Figures {
    /// The candidate, as it was given.
    pub(crate) manager: String,
    /// Calls that were repeated.
    pub(crate) calls: u64,
    /// Tokens of all views together.
    pub(crate) input_tokens: u64,
    /// Of these, what a provider's cache would have held: the prefix shared with the call before.
    pub(crate) cache_read: u64,
    /// The rest, which is read anew and written to the cache.
    pub(crate) cache_write: u64,
    /// What it would have cost; null where the model's prices are not known.
    pub(crate) cost_usd: Option<f64>,
    /// The same in proportion to sending everything.
    pub(crate) cost_ratio: Option<f64>,
    /// The largest view, in tokens.
    pub(crate) peak: u64,
    /// How often the prefix was broken.
    pub(crate) cuts: u64,
    /// Tokens that were left out, over all calls.
    pub(crate) dropped_tokens: u64,
    /// Entries of views that were not as they were said, over all calls.
    pub(crate) rewritten: u64,
    /// Of the values in the arguments of calls that stood in the history, the share that the views still showed; null where
    /// nothing was used.
    pub(crate) argument_retention: Option<f64>,
    /// The same for identifiers, numbers and quoted names in the texts of replies.
    pub(crate) answer_grounding: Option<f64>,
    /// Both again where the manager's choice decides: calls whose history is above its budget, values that are not in the
    /// instructions, the task or the last tool group anyway.
    pub(crate) at_cut: Loss,
    /// Share of the views that hold the last user entry.
    pub(crate) task_kept: f64,
    /// Rules of the wire that rendered views broke.
    pub(crate) violations: u64,
    /// Calls whose protected part alone is above the budget.
    pub(crate) infeasible: u64,
    /// Time one view took, in milliseconds: half of them took less.
    pub(crate) ms_p50: f64,
    /// The same: 99 of 100 took less.
    pub(crate) ms_p99: f64,
    /// Why the manager gave up at a call, if it did; the figures are those up to there.
    pub(crate) stopped: Option<String>,
    /// Call by call.
    pub(crate) per_call: Vec<CallFigures>,
}

/// What was still there of what replies used.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Loss {
    /// Of the values in the arguments of calls; null where none was at stake.
    pub(crate) argument_retention: Option<f64>,
    /// Of the names in the texts of replies; null where none was at stake.
    pub(crate) answer_grounding: Option<f64>,
}

/// What one call would have been sent.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct CallFigures {
    /// Position of the reply in the record: the call saw what lies before it.
    pub(crate) position: u64,
    /// Tokens of the view.
    pub(crate) tokens: u64,
    /// Entries in the view.
    pub(crate) entries: u64,
    /// Messages in the record at that time.
    pub(crate) of: u64,
    /// Tokens a provider's cache would have held.
    pub(crate) cache_read: u64,
    /// Whether the prefix was broken.
    pub(crate) cut: bool,
    /// Everything before this position is left out or shortened, but for what is held or pinned; null while nothing was cut.
    pub(crate) cut_before: Option<u64>,
}

impl Figures {
    /// The figures of a candidate, beside what sending everything would have cost.
    pub(crate) fn of(manager: &str, tally: &replay::Tally, everything: &replay::Tally) -> Self {
        let told = tally.figures(manager, Some(everything));
        let call = |call: &replay::CallFigures| CallFigures {
            position: call.position,
            tokens: call.tokens,
            entries: call.entries,
            of: call.of,
            cache_read: call.cache_read,
            cut: call.cut,
            cut_before: call.cut_before,
        };
        Figures {
            manager: told.manager,
            calls: told.calls,
            input_tokens: told.input_tokens,
            cache_read: told.cache_read,
            cache_write: told.cache_write,
            cost_usd: told.cost_usd,
            cost_ratio: told.cost_ratio,
            peak: told.peak,
            cuts: told.cuts,
            dropped_tokens: told.dropped_tokens,
            rewritten: told.rewritten,
            argument_retention: told.argument_retention,
            answer_grounding: told.answer_grounding,
            at_cut: Loss {
                argument_retention: told.at_cut.argument_retention,
                answer_grounding: told.at_cut.answer_grounding,
            },
            task_kept: told.task_kept,
            violations: told.violations,
            infeasible: told.infeasible,
            ms_p50: told.ms_p50,
            ms_p99: told.ms_p99,
            stopped: told.stopped,
            per_call: tally.per_call.iter().map(call).collect(),
        }
    }
}
