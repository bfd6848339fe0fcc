//! What a replay adds up to.

use serde::Serialize;
use serde_json::{Value, json};

use super::caching::{CacheRetention, CacheRule};
use super::needs::Retained;
use crate::model::ModelFacts;

/// Price of output relative to plain input, for models whose prices are not known.
const OUTPUT: f64 = 5.0;

/// What a manager would have sent, added up call by call. Tallies of several conversations add up too.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Calls that were repeated.
    pub calls: u64,
    /// Tokens of all views together.
    pub input_tokens: u64,
    /// Of these, what a provider's cache would have held.
    pub cache_read: u64,
    /// The rest, which is read anew and written to the cache.
    pub cache_write: u64,
    /// Tokens of the replies.
    pub output_tokens: u64,
    /// What it would have cost in US dollars, where the model's prices are known.
    pub cost_usd: Option<f64>,
    /// What it would have cost, in tokens of plain input, at the usual relation of prices.
    pub relative_cost: f64,
    /// The largest view, in tokens.
    pub peak: u64,
    /// How often the prefix was broken.
    pub cuts: u64,
    /// Tokens that were left out.
    pub dropped_tokens: u64,
    /// Entries of views that were not as they were said.
    pub rewritten: u64,
    /// What was still shown of what replies used.
    pub kept: Retained,
    /// The same where the manager's choice decides.
    pub kept_at_cut: Retained,
    /// Views that hold the last user entry.
    pub task_kept: u64,
    /// Rules of the wire that rendered views broke.
    pub violations: u64,
    /// Calls whose protected part alone is above the budget.
    pub infeasible: u64,
    /// How long each view took, in milliseconds.
    pub times: Vec<f64>,
    /// Why the manager gave up at a call, if it did; the figures are those up to there.
    pub stopped: Option<String>,
    /// Call by call.
    pub per_call: Vec<CallFigures>,
    /// What was not shown although a reply used it, where that was asked for.
    pub lost: Vec<Lost>,
}

/// A value that a reply used and that its view did not show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The value.
    pub value: String,
    /// What needed it: `argument` or `answer`.
    pub needed_by: &'static str,
    /// Position of the reply that used it.
    pub call: u64,
    /// Newest position at which it stood.
    pub stood_at: u64,
    /// The manager that left that entry out or changed it, and why.
    pub why: String,
}

/// What one call would have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CallFigures {
    /// Position of the reply in the record: the call saw what lies before it.
    pub position: u64,
    /// Tokens of the view.
    pub tokens: u64,
    /// Entries in the view.
    pub entries: u64,
    /// Messages in the record at that time.
    pub of: u64,
    /// Tokens a provider's cache would have held.
    pub cache_read: u64,
    /// Whether the prefix was broken.
    pub cut: bool,
    /// Everything before this position is left out or shortened, but for what is held or pinned; none while nothing was cut.
    pub cut_before: Option<u64>,
}

impl Tally {
    /// Adds another conversation's. What is told call by call is not carried over.
    pub fn add(&mut self, other: &Tally) {
        let first = self.calls == 0 && self.relative_cost == 0.0;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(one), Some(more)) => Some(one + more),
            (None, more) if first => more,
            _ => None,
        };
        self.calls += other.calls;
        self.input_tokens += other.input_tokens;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.output_tokens += other.output_tokens;
        self.relative_cost += other.relative_cost;
        self.peak = self.peak.max(other.peak);
        self.cuts += other.cuts;
        self.dropped_tokens += other.dropped_tokens;
        self.rewritten += other.rewritten;
        self.kept += other.kept;
        self.kept_at_cut += other.kept_at_cut;
        self.task_kept += other.task_kept;
        self.violations += other.violations;
        self.infeasible += other.infeasible;
        self.times.extend(&other.times);
        if self.stopped.is_none() {
            self.stopped.clone_from(&other.stopped);
        }
    }

    /// Puts prices to the tokens: those of the model, and beside them those of its provider's cache relative to plain input.
    pub(super) fn price(&mut self, prices: Option<&ModelFacts>, rule: &CacheRule, retention: CacheRetention) {
        let cost = |read: f64, write: f64, output: f64| {
            self.cache_read as f64 * read
                + self.cache_write as f64 * write
                + self.output_tokens as f64 * output
        };
        self.cost_usd = prices.and_then(|prices| {
            let input = prices.input_per_mtok?;
            let read = prices.cache_read_per_mtok.unwrap_or(input);
            let write = match (retention, rule.long) {
                // The table of models has the price of the shortest lifetime.
                (CacheRetention::Long, Some((_, write))) => input * write,
                _ => prices.cache_write_per_mtok.unwrap_or(input),
            };
            Some(cost(read, write, prices.output_per_mtok?) / 1e6)
        });
        self.relative_cost = cost(rule.read, rule.write, OUTPUT);
    }

    /// The figures of a candidate, beside what sending everything would have cost.
    pub fn figures(&self, manager: &str, everything: Option<&Tally>) -> Figures {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        let quantile = |part: f64| {
            let at = (times.len() as f64 * part) as usize;
            times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or(0.0)
        };
        let ratio = |one: f64, all: f64| (all > 0.0).then(|| one / all);
        let cost_ratio = everything.and_then(|all| match (self.cost_usd, all.cost_usd) {
            // A model that costs nothing has no proportion; the usual relation of prices has.
            (Some(one), Some(all)) if all > 0.0 => ratio(one, all),
            _ => ratio(self.relative_cost, all.relative_cost),
        });
        Figures {
            manager: manager.into(),
            calls: self.calls,
            input_tokens: self.input_tokens,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            cost_usd: self.cost_usd,
            cost_ratio,
            peak: self.peak,
            cuts: self.cuts,
            dropped_tokens: self.dropped_tokens,
            rewritten: self.rewritten,
            argument_retention: self.kept.arguments.ratio(),
            answer_grounding: self.kept.answer.ratio(),
            at_cut: Loss {
                argument_retention: self.kept_at_cut.arguments.ratio(),
                answer_grounding: self.kept_at_cut.answer.ratio(),
            },
            task_kept: if self.calls == 0 { 1.0 } else { self.task_kept as f64 / self.calls as f64 },
            violations: self.violations,
            infeasible: self.infeasible,
            ms_p50: quantile(0.5),
            ms_p99: quantile(0.99),
            stopped: self.stopped.clone(),
        }
    }
}

/// The figures of one candidate. Shares are numbers from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The candidate, as it was given.
    pub manager: String,
    /// Calls that were repeated.
    pub calls: u64,
    /// Tokens of all views together.
    pub input_tokens: u64,
    /// Of these, what a provider's cache would have held: the prefix shared with the call before.
    pub cache_read: u64,
    /// The rest, which is read anew and written to the cache.
    pub cache_write: u64,
    /// What it would have cost; none where the model's prices are not known.
    pub cost_usd: Option<f64>,
    /// The same in proportion to sending everything.
    pub cost_ratio: Option<f64>,
    /// The largest view, in tokens.
    pub peak: u64,
    /// How often the prefix was broken.
    pub cuts: u64,
    /// Tokens that were left out, over all calls.
    pub dropped_tokens: u64,
    /// Entries of views that were not as they were said, over all calls.
    pub rewritten: u64,
    /// Of the values in the arguments of calls that stood in the history, the share that views still showed.
    pub argument_retention: Option<f64>,
    /// The same for identifiers, numbers and quoted names in the texts of replies.
    pub answer_grounding: Option<f64>,
    /// Both again where the manager's choice decides.
    pub at_cut: Loss,
    /// Share of the views that hold the last user entry.
    pub task_kept: f64,
    /// Rules of the wire that rendered views broke.
    pub violations: u64,
    /// Calls whose protected part alone is above the budget: they count in the cost, not in what was kept.
    pub infeasible: u64,
    /// Time one view took, in milliseconds: half of them took less.
    pub ms_p50: f64,
    /// The same: 99 of 100 took less.
    pub ms_p99: f64,
    /// Why the manager gave up at a call, if it did.
    pub stopped: Option<String>,
}

/// What was still there of what replies used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Loss {
    /// Of the values in the arguments of calls; none where none was at stake.
    pub argument_retention: Option<f64>,
    /// Of the names in the texts of replies; none where none was at stake.
    pub answer_grounding: Option<f64>,
}

impl Figures {
    /// The figures as every output in JSON has them.
    pub fn json(&self) -> Value {
        let mut value = json!({
            "manager": self.manager,
            "input_tokens": self.input_tokens,
            "cache_read": self.cache_read,
            "cache_write": self.cache_write,
            "cost_usd": self.cost_usd,
            "cost_ratio": self.cost_ratio,
            "peak": self.peak,
            "cuts": self.cuts,
            "dropped_tokens": self.dropped_tokens,
            "rewritten": self.rewritten,
            "argument_retention": self.argument_retention,
            "answer_grounding": self.answer_grounding,
            "at_cut": self.at_cut,
            "task_kept": self.task_kept,
            "violations": self.violations,
            "infeasible": self.infeasible,
            "ms_p50": self.ms_p50,
            "ms_p99": self.ms_p99,
        });
        if let (Some(why), Some(members)) = (&self.stopped, value.as_object_mut()) {
            members.insert("stopped".into(), Value::from(why.as_str()));
        }
        value
    }
}
