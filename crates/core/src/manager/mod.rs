//! Managers: pure functions from view to view, one file each.
//!
//! A manager gets a [`View`] and gives a smaller or rewritten one. It never splits a group, never drops what is
//! protected, and leaves a reason for everything it does. Managers compose; [`parse`] reads them from text or JSON.

mod active_tools;
pub(crate) mod auto;
mod clear;
mod compose;
mod fit;
mod observed;
mod pin;
mod relevant;
mod sliding_window;
pub(crate) mod sticky;
mod summarize;
mod token_budget;
mod trajectory;
pub(crate) mod truncate;
mod turn_window;
mod with_notice;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::context::CurationContext;
use crate::decision::{Decision, Span};
use crate::entry::Usage;
use crate::error::CurationError;
use crate::ranges::Ranges;
use crate::recall::Tail;
use crate::view::{Reason, View};

pub use crate::config::{
    ConfigCall, ConfigError, ConfigErrorKind, parse, parse_list, parse_raw, parse_value, read_call,
    spelled_number,
};
pub use active_tools::ActiveTools;
pub use auto::Auto;
pub use clear::ClearToolResults;
pub use compose::Compose;
pub use fit::Fit;
pub use observed::Observed;
pub use pin::{Pin, Where};
pub use relevant::{Relevant, Weights};
pub use sliding_window::SlidingWindow;
pub use sticky::{Sticky, StickyInner};
pub use summarize::{AfterFailure, Extent, Summarize};
pub use token_budget::TokenBudget;
pub use trajectory::TrajectoryWindow;
pub use truncate::{Keep, ToolResultTruncator, shortened};
pub use turn_window::TurnWindow;
pub use with_notice::WithNotice;

/// A way to choose what a model call is sent.
///
/// Implement it for a policy of your own; it composes with the built-in ones.
pub trait HistoryManager: Send + Sync {
    /// The name it has in configuration and explanations.
    fn name(&self) -> &'static str;

    /// The view after this manager. Pure: same view and context, same answer.
    fn curate<'r>(&self, view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError>;

    /// Tokens a request may have, if the manager bounds them.
    fn budget(&self, cx: &CurationContext) -> Option<usize> {
        let _ = cx;
        None
    }

    /// The view that comes closest where [`curate`](HistoryManager::curate) fails because too much must stay: only that.
    fn closest<'r>(&self, mut view: View<'r>, cx: &CurationContext) -> View<'r> {
        let _ = cx;
        view.keep(&Ranges::default(), self.name(), Reason::OverBudget);
        view
    }

    /// What it would like recorded before the view is made; the caller may do it or not.
    fn plan(&self, view: &View<'_>, cx: &CurationContext) -> Vec<Ask> {
        let _ = (view, cx);
        Vec::new()
    }

    /// Its configuration, such that [`parse_value`] gives an equal manager.
    fn config(&self) -> Value {
        Value::from(self.name())
    }
}

/// Something a manager would like recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// A text that shall stand for these ranges.
    Summary(SummaryAsk),
}

/// A wish for a summary: what it covers and what its writer needs.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryAsk {
    /// Positions it shall cover, an earlier summary's included.
    pub covers: Vec<Span>,
    /// Positions of the newly covered entries, in view order: what the writer reads.
    pub entries: Vec<u64>,
    /// The text of the summary it takes the place of.
    pub previous: Option<String>,
    /// Position of that summary.
    pub replaces: Option<u64>,
    /// Longest text accepted, in characters.
    pub max_chars: usize,
    /// Where it shall stand.
    pub place: crate::decision::SummaryPlace,
    /// Who shall write it: `offline`, or a model.
    pub summarizer: String,
    /// The scope it shall hold for; everywhere if none.
    pub scope: Option<String>,
    /// The conversation whose handles it cites for what it takes from results of tools; none where the model cannot read them.
    pub cites: Option<Tail>,
}

impl SummaryAsk {
    /// The decision to record once the text is written: the summary, or that it failed because the text is blank or
    /// too long. Views are as before after a failure.
    pub fn answered(&self, text: &str, by: &str, usage: Option<Usage>) -> Decision {
        let length = text.chars().count();
        let problem = if text.trim().is_empty() {
            "the summary is blank".to_string()
        } else if length > self.max_chars {
            format!("the summary has {length} characters, more than {}", self.max_chars)
        } else {
            return Decision::Summary {
                covers: self.covers.clone(),
                text: text.into(),
                place: self.place,
                by: by.into(),
                usage,
                replaces: self.replaces,
                scope: self.scope.clone(),
            };
        };
        self.failed(&problem)
    }

    /// The decision to record when the summary could not be written.
    pub fn failed(&self, reason: &str) -> Decision {
        let first = self.covers.first().map_or(0, |span| span.0);
        let last = self.covers.last().map_or(first, |span| span.1);
        Decision::SummaryFailed { range: (first, last), reason: reason.into() }
    }
}

/// Does nothing beyond coherence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passthrough;

impl HistoryManager for Passthrough {
    fn name(&self) -> &'static str {
        "passthrough"
    }

    fn curate<'r>(&self, view: View<'r>, _: &CurationContext) -> Result<View<'r>, CurationError> {
        Ok(view)
    }
}

/// A manager that can be shared and kept.
pub type SharedManager = Arc<dyn HistoryManager>;

/// `{name: {option: value, …}}`, without options that are null.
pub(crate) fn config_of(name: &str, options: Value) -> Value {
    let options = match options {
        Value::Object(options) => options.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Map::new(),
    };
    Value::Object(Map::from_iter([(name.to_string(), Value::Object(options))]))
}

/// Walks the body from newest to oldest while `fits` says yes to each group, and returns the run it walked.
/// No holes: the first group that does not fit ends it.
pub(crate) fn newest_run(view: &View<'_>, mut fits: impl FnMut(u32) -> bool) -> Ranges {
    let mut start = None;
    for (index, _) in view.groups().rev() {
        if !fits(index) {
            break;
        }
        start = Some(index);
    }
    start.map_or_else(Ranges::default, |start| view.body().from(start))
}
