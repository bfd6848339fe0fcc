use serde_json::{Value, json};

use super::turn_window::last_turns;
use super::{Ask, HistoryManager, SummaryAsk, config_of};
use crate::context::{CurationContext, Summaries};
use crate::decision::SummaryPlace;
use crate::entry::Role;
use crate::error::CurationError;
use crate::ranges::Ranges;
use crate::record::groups::Group;
use crate::summary::summarize_offline;
use crate::view::View;

/// Turns a history may have before it is summarised, when no bound is given.
const DEFAULT_MAX_TURNS: usize = 10;

/// Asks for the older part to be summarised once a bound is passed.
///
/// It works in two phases: [`plan`](HistoryManager::plan) says what to cover, the caller writes the text and records
/// it, and every later view shows the recorded text. Curating itself changes nothing, so it stays pure; where
/// summaries are written [in place](Summaries::InPlace) the offline summariser, which is pure too, does it at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Summarize {
    /// How much is covered.
    pub extent: Extent,
    /// Where the summary stands.
    pub place: SummaryPlace,
    /// Who writes it: `offline`, or a model.
    pub summarizer: String,
    /// Turns above which a summary is asked for.
    pub max_turns: Option<usize>,
    /// Tokens of the view above which a summary is asked for.
    pub max_tokens: Option<usize>,
    /// Entries above which a summary is asked for.
    pub max_entries: Option<usize>,
    /// Longest summary accepted, in characters.
    pub max_chars: usize,
    /// What a failed attempt means for the next.
    pub after_failure: AfterFailure,
}

/// When a summary is asked for again after an attempt that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterFailure {
    /// After another whole turn: a summarizer that is away is not asked with every call.
    #[default]
    NextTurn,
    /// At once: a person asks for it.
    Now,
}

/// How much of the history a summary covers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// Everything but this many turns.
    KeepRecent(usize),
    /// This share of the groups, oldest first; more than 0 and less than 1.
    Ratio(f64),
}

impl Default for Summarize {
    fn default() -> Self {
        Summarize {
            extent: Extent::KeepRecent(3),
            place: SummaryPlace::System,
            summarizer: "offline".into(),
            max_turns: None,
            max_tokens: None,
            max_entries: None,
            max_chars: 2000,
            after_failure: AfterFailure::NextTurn,
        }
    }
}

impl HistoryManager for Summarize {
    fn name(&self) -> &'static str {
        "summarize"
    }

    fn curate<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        if cx.summaries == Summaries::InPlace {
            for Ask::Summary(ask) in self.plan(&view, cx) {
                let decision = summarize_offline(view.record(), &ask);
                view.summarize(decision);
            }
        }
        Ok(view)
    }

    fn plan(&self, view: &View<'_>, cx: &CurationContext) -> Vec<Ask> {
        let waits = self.after_failure == AfterFailure::NextTurn && just_failed(view);
        if waits || !self.is_exceeded(view, cx) {
            return Vec::new();
        }
        let covered = self.covered(view);
        let entries: Vec<u64> =
            view.groups_in(&covered).flat_map(|(_, group)| group.positions()).map(u64::from).collect();
        if entries.is_empty() {
            return Vec::new();
        }
        let previous = view.summary();
        // By groups, so that a result that came after its group was covered is covered too.
        let groups = previous.map_or_else(|| covered.clone(), |previous| covered.union(&previous.groups));
        let all = &view.record().groups;
        let positions =
            Ranges::of(groups.iter().filter_map(|index| all.get(index)).flat_map(Group::positions));
        let positions =
            previous.map_or_else(|| positions.clone(), |previous| positions.union(&previous.positions));
        vec![Ask::Summary(SummaryAsk {
            covers: positions.runs().iter().map(|run| (run.start.into(), u64::from(run.end) - 1)).collect(),
            entries,
            previous: previous.map(|previous| previous.text.clone()),
            replaces: previous.map(|previous| previous.at),
            max_chars: self.max_chars,
            place: self.place,
            summarizer: self.summarizer.clone(),
            scope: cx.scope.clone(),
            cites: view.recall().cloned(),
        })]
    }

    fn config(&self) -> Value {
        let (keep_recent, ratio) = match self.extent {
            Extent::KeepRecent(turns) => (Some(turns), None),
            Extent::Ratio(ratio) => (None, Some(ratio)),
        };
        let options = json!({
            "keep_recent": keep_recent, "ratio": ratio, "place": self.place, "summarizer": self.summarizer,
            "max_turns": self.max_turns, "max_tokens": self.max_tokens, "max_entries": self.max_entries,
            "max_chars": self.max_chars,
        });
        config_of(self.name(), options)
    }
}

impl Summarize {
    /// Whether any bound is passed; at a bound is not above it. Stops counting as soon as that is known.
    fn is_exceeded(&self, view: &View<'_>, cx: &CurationContext) -> bool {
        let unbounded = self.max_turns.is_none() && self.max_tokens.is_none() && self.max_entries.is_none();
        let max_turns = self.max_turns.or(unbounded.then_some(DEFAULT_MAX_TURNS));
        let turns = |bound: usize| match view.users_newest_first().take(bound.saturating_add(1)).count() {
            0 => usize::from(view.groups().next().is_some()),
            users => users,
        };
        let entries = |bound: usize| {
            let mut entries = 0;
            view.groups().rev().any(|(_, group)| {
                entries += group.len();
                entries > bound
            })
        };
        max_turns.is_some_and(|bound| turns(bound) > bound)
            || self.max_entries.is_some_and(entries)
            || self.max_tokens.is_some_and(|bound| view.total_tokens(cx.counter, cx) > bound)
    }

    fn covered(&self, view: &View<'_>) -> Ranges {
        let older = match self.extent {
            Extent::KeepRecent(turns) => view.body().minus(&last_turns(view, turns)),
            Extent::Ratio(ratio) => {
                let groups: Vec<u32> = view.groups().map(|(index, _)| index).collect();
                let covered = ((groups.len() as f64 * ratio).floor() as usize).max(1);
                Ranges::of(groups.into_iter().take(covered))
            }
        };
        let older = older.minus(&view.protected());
        // Groups that are not shown yet stay out: they may be completed later.
        Ranges::of(view.groups_in(&older).map(|(index, _)| index))
    }
}

/// Whether the last attempt failed and no whole turn has passed since: a user entry and a reply without calls, or
/// the next user entry.
fn just_failed(view: &View<'_>) -> bool {
    let Some(failed_at) = view.record().decided.failed_at else { return false };
    let groups = &view.record().groups;
    let since = groups.at_or_after(failed_at);
    let turns = groups.users.len() - groups.users.partition_point(|&user| user < since);
    let answered = view
        .groups()
        .next_back()
        .is_some_and(|(_, newest)| newest.role == Role::Assistant && !newest.has_calls());
    turns == 0 || (turns == 1 && !answered)
}
