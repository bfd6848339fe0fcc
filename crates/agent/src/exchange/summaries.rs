//! Summaries that managers ask for: written by a model or offline, and recorded, so that every later view is pure.

use scrollback_core::manager::{Ask, SummaryAsk};
use scrollback_core::{CurationContext, Decision, HistoryManager, Record, Usage, summarize_offline};

use crate::event::{SummaryFailed, SummaryWritten};

/// What a model is told about the text it is given.
const INSTRUCTIONS: &str = "You are given part of a conversation. Write a summary of it that a colleague could continue \
the work from: the task, decisions and their reasons, facts and figures, names and paths, what is done and what is open. \
Do not answer the conversation, and do not add anything that is not in it.";

/// What it is told where handles stand beside results of tools, so that its reader can look up what it says.
const CITES: &str = " Results of tools have a handle in brackets, such as [sb:k7q2m9x4td#412]: put it, exactly as it is, behind \
every statement that you take from that result.";

/// The instructions of a model that is to write a summary, unless it has instructions of its own.
pub fn summary_instructions(ask: &SummaryAsk) -> String {
    let cites = if ask.cites.is_some() { CITES } else { "" };
    format!("{INSTRUCTIONS} Use at most {} characters.{cites}", ask.max_chars)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use scrollback_core::manager::parse;
    use scrollback_core::{Entry, Time, Tools};
    use scrollback_store::summary_input;

    use super::*;

    #[test]
    fn where_the_model_can_read_handles_its_summaries_cite_them() {
        let mut record = Record::new();
        let said = [
            Entry::user("Which port?"),
            Entry::calling(None, &[("c1", "read_file", "{}")]),
            Entry::result("c1", "the staging port\nis 48123"),
            Entry::assistant("It is 48123."),
            Entry::user("Thanks."),
            Entry::user("Go on."),
        ];
        for (sequence, entry) in (0..).zip(said) {
            record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time(0))).unwrap();
        }
        let manager = parse("summarize(keep_recent=1, max_turns=1, summarizer=\"offline:echo\")").unwrap();
        let asked = |tools: &[&str]| {
            let tools = Tools::named(tools.iter().map(|name| (*name).to_string()).collect());
            let cx = CurationContext { tools: Some(tools), ..CurationContext::default() };
            let ask = next_summary(&record, &*manager, &cx.in_conversation("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
            let ask = ask.unwrap();
            (summary_instructions(&ask), summary_input(&record, &ask))
        };
        let (told, text) = asked(&["read_file", "recall_read"]);
        assert!(told.contains("[sb:"), "{told}");
        assert!(text.contains("tool [sb:ffq69g5fav#2]: the staging port is 48123"), "{text}");
        let (told, text) = asked(&["read_file"]);
        assert!(!told.contains("sb:") && !text.contains("staging"), "{told} {text}");
    }
}
