//! Summaries that managers ask for: written by a model or offline, and recorded, so that every later view is pure.

use scrollback_core::manager::{Ask, SummaryAsk};
use scrollback_core::{CurationContext, Decision, HistoryManager, Record, Usage, summarize_offline};

use crate::event::{SummaryFailed, SummaryWritten};

/// What a model is told about the text it is given.
const INSTRUCTIONS: &str = "You are given part of a conversation. Write a summary of it that a colleague could continue \
the work from: the task, decisions and their reasons, facts and figures, names and paths, what is done and what is open. \
Do not answer the conversation, and do not add anything that is not in it.";

/// The instructions of a model that is to write a summary, unless it has instructions of its own.
pub fn summary_instructions(ask: &SummaryAsk) -> String {
    format!("{INSTRUCTIONS} Use at most {} characters.", ask.max_chars)
}

/// What a manager would like recorded before the next view.
pub fn next_summary(
    record: &Record,
    manager: &dyn HistoryManager,
    cx: &CurationContext,
) -> Option<SummaryAsk> {
    let Ask::Summary(ask) = record.plan(cx, manager).into_iter().next()?;
    Some(ask)
}

/// What a model wrote, or why it wrote nothing.
pub type SummaryText = Result<(String, Option<Usage>), String>;

/// How a summary that was asked for ended, for those who listen.
#[derive(Clone, Debug)]
pub enum SummaryOutcome {
    /// It is written.
    Written(SummaryWritten),
    /// It could not be written; views are as before.
    Failed(SummaryFailed),
}

/// The decision that a summary comes to: written offline at once, or by a model, or not at all. A failure leaves everything
/// as it was.
pub async fn serve_summary<F>(
    record: &Record,
    ask: SummaryAsk,
    write: impl FnOnce(SummaryAsk) -> F,
) -> (Decision, SummaryOutcome)
where
    F: Future<Output = SummaryText>,
{
    let first = ask.covers.first().map_or(0, |span| span.0);
    let range = (first, ask.covers.last().map_or(first, |span| span.1));
    let decision = if ask.summarizer == "offline" {
        summarize_offline(record, &ask)
    } else {
        match write(ask.clone()).await {
            Ok((text, usage)) => ask.answered(text.trim(), &ask.summarizer, usage),
            Err(reason) => ask.failed(&reason),
        }
    };
    let outcome = match &decision {
        Decision::SummaryFailed { reason, .. } => {
            SummaryOutcome::Failed(SummaryFailed { range, reason: reason.clone() })
        }
        _ => SummaryOutcome::Written(SummaryWritten { range, by: ask.summarizer }),
    };
    (decision, outcome)
}
