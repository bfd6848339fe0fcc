//! Compaction: older turns are replaced by a recorded summary, in three phases.
//!
//! *Plan* reads. *Summarise* runs outside any transaction, however long it takes. *Commit* appends the summary unless
//! another came first. What arrives meanwhile lies after the range the summary covers, so nothing is lost and nothing is
//! summarised twice.

use std::fmt::Write;

use scrollback_core::manager::{AfterFailure, Ask, Extent, Summarize, SummaryAsk};
use scrollback_core::recall::{Handle, one_line};
use scrollback_core::{CurationContext, Decision, Record, Role, Time, summarize_offline};

use crate::conversation::HistorySettings;
use crate::entry::Expected;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::store::{BoxFuture, RecordsExt, Store};

/// Most a summariser is given to read, in characters: the newest.
const MAX_INPUT: usize = 16_000;

/// Who writes summaries.
pub trait Summarizer: Send + Sync {
    /// What is written down as the author: `offline`, or a model.
    fn name(&self) -> &str;
    /// Writes the summary that is asked for.
    fn write<'a>(&'a self, record: &'a Record, ask: &'a SummaryAsk) -> BoxFuture<'a, Result<String, String>>;
}

/// Writes summaries without a model: one line per entry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

impl Summarizer for Offline {
    fn name(&self) -> &'static str {
        "offline"
    }

    fn write<'a>(&'a self, record: &'a Record, ask: &'a SummaryAsk) -> BoxFuture<'a, Result<String, String>> {
        let written = match summarize_offline(record, ask) {
            Decision::Summary { text, .. } => Ok(text),
            Decision::SummaryFailed { reason, .. } => Err(reason),
            _ => Err("no summary was written".into()),
        };
        Box::pin(async move { written })
    }
}

/// Characters of a result that stand beside its handle.
const RESULT: usize = 400;

/// What a model is given to summarise: the summary so far, then what people and the assistant said. Details of tools are skipped,
/// but for the beginning of each result where its handle is to be cited; the newest characters stay.
pub fn summary_input(record: &Record, ask: &SummaryAsk) -> String {
    let mut text = ask.previous.iter().fold(String::new(), |text, previous| text + previous + "\n");
    for position in &ask.entries {
        let Some(entry) = record.entry(*position) else { continue };
        if let (Role::Tool, Some(tail)) = (entry.role, &ask.cites) {
            let said = one_line(&entry.content().unwrap_or_default(), RESULT);
            let _ = writeln!(text, "tool [{}]: {said}", Handle::at(tail.clone(), *position));
            continue;
        }
        if matches!(entry.role, Role::User | Role::Assistant)
            && let Some(said) = entry.content().filter(|said| !said.trim().is_empty())
        {
            // Words of other people keep their author's name, so that they are not taken for the user's.
            let author =
                entry.author.as_ref().map_or_else(String::new, |name| format!(" ({})", name.as_str()));
            let _ = writeln!(text, "{}{author}: {said}", entry.role);
        }
    }
    let skip = text.chars().count().saturating_sub(MAX_INPUT);
    text.chars().skip(skip).collect()
}

/// The result of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// A summary stands for these positions, first and last.
    Done {
        /// What is covered.
        covers: (u64, u64),
        /// The summary.
        text: String,
        /// Its position.
        position: u64,
    },
    /// There are not enough turns yet.
    UnderBound,
    /// Another summary came first, and stands.
    Stale,
    /// No summary could be written; the history is as before, and the attempt is recorded.
    Failed(String),
}

/// A wish for a summary, and the record it was made from.
pub struct CompactionPlan {
    /// The record as it was.
    pub record: Record,
    /// What is wanted.
    pub ask: SummaryAsk,
}

/// First phase: what should be summarised now, if anything. Only reads.
pub async fn plan(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
    settings: &HistorySettings,
) -> Result<Option<CompactionPlan>, StoreError> {
    let settings = settings.checked()?;
    let conversation = store.conversation(tenant, id).await?;
    if conversation.uncovered_turns <= settings.max_turns_before_compaction as u64 {
        return Ok(None);
    }
    let record = store.record(tenant, id, None).await?;
    let manager = Summarize {
        extent: Extent::KeepRecent(settings.recent_turns_to_keep),
        max_turns: Some(settings.max_turns_before_compaction),
        // Compacting is asked for: an attempt that failed is no reason not to try again.
        after_failure: AfterFailure::Now,
        ..Summarize::default()
    };
    let ask = record.plan(&CurationContext::default(), &manager).into_iter().next();
    Ok(ask.map(|Ask::Summary(ask)| CompactionPlan { record, ask }))
}

/// Last phase: records what was written, or that nothing was. Blank and overlong texts count as nothing.
pub async fn settle(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
    ask: &SummaryAsk,
    written: Result<String, String>,
    by: &str,
    at: Time,
) -> Result<Compaction, StoreError> {
    let decision = match &written {
        Ok(text) => ask.answered(text, by, None),
        Err(reason) => ask.failed(reason),
    };
    let outcome = match &decision {
        Decision::SummaryFailed { reason, .. } => Err(reason.clone()),
        _ => Ok(()),
    };
    let appended = match store.append(tenant, at, id, Expected::Any, vec![decision.into()]).await {
        Err(error) if error.kind() == ErrorKind::Stale => return Ok(Compaction::Stale),
        other => other?,
    };
    if let Err(reason) = outcome {
        return Ok(Compaction::Failed(reason));
    }
    let first = ask.covers.first().map_or(0, |span| span.0);
    let last = ask.covers.last().map_or(first, |span| span.1);
    Ok(Compaction::Done {
        covers: (first, last),
        text: written.unwrap_or_default(),
        position: appended.first,
    })
}

/// All three phases.
pub async fn compact(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
    settings: &HistorySettings,
    summarizer: &dyn Summarizer,
    at: Time,
) -> Result<Compaction, StoreError> {
    let Some(CompactionPlan { record, ask }) = plan(store, tenant, id, settings).await? else {
        return Ok(Compaction::UnderBound);
    };
    let written = summarizer.write(&record, &ask).await;
    settle(store, tenant, id, &ask, written, summarizer.name(), at).await
}
