//! Summaries that managers of a list ask for: written before the call, recorded, and shown from then on.

use std::sync::Arc;

use scrollback_agent::exchange::next_summary;
use scrollback_core::manager::{HistoryManager, SharedManager, SummaryAsk};
use scrollback_core::tokens::Tokenizer;
use scrollback_core::{CurationContext, CurationError, View};
use scrollback_store::summary_input;
use serde_json::{Value, json};

use super::call::{Execution, Unanswered};
use super::ledger::{Batch, LedgerItem};
use super::turn_summaries::CHARS_PER_TOKEN;
use crate::call_history::{MessageSource, Sheet};
use crate::history::AvailableTurns;
use crate::model::Managers;
use crate::passed_values::EntryId;
use crate::turns::Listed;

/// Managers whose summaries are written already, so that the call does not ask for them again.
pub(super) struct Settled(pub(super) SharedManager);

impl HistoryManager for Settled {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn curate<'r>(&self, view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        self.0.curate(view, cx)
    }

    fn config(&self) -> Value {
        self.0.config()
    }
}

/// What managers want condensed: of which turns, and as what.
struct WantedSummary {
    sheet: Sheet,
    ask: SummaryAsk,
    /// All turns it shall stand for.
    entries: Vec<EntryId>,
}

impl Execution<'_> {
    /// Has the summary written that the loop's managers ask for, if they do. What fails leaves everything as it was.
    pub(super) async fn condense_listed(
        &self,
        managers: &Managers,
        key: &Arc<str>,
    ) -> Result<(), Unanswered> {
        let Some(WantedSummary { sheet, ask, entries }) = self.wish(managers, key) else { return Ok(()) };
        let limit = ((ask.max_chars as u64 / CHARS_PER_TOKEN).max(1), Tokenizer::Characters);
        let place = ask.place;
        let writer = managers.writers.get(&ask.summarizer);
        let writer = writer.map(|agent| (agent, summary_input(&sheet.record, &ask)));
        match self.summary(&sheet.record, ask, writer, limit).await? {
            Ok((text, by)) => self.stood_for(key, Listed { entries, text, place, by }).await,
            Err(reason) => self.summary_failed(key, entries.len(), &reason).await,
        }
    }

    /// What the managers want condensed, of what the loop's history holds by now.
    fn wish(&self, managers: &Managers, key: &Arc<str>) -> Option<WantedSummary> {
        let kept = self.shared.with_state(|state| {
            let scope = state.scopes().get(key)?;
            // A failed summary is tried again after the next turn.
            let tried = scope.failed_at == Some(scope.turns().len());
            let told = AvailableTurns { scope, own: &self.call.own, input: self.call.input.entry() };
            (!tried).then(|| told.everything())
        })?;
        let sheet = self.draft(&kept)?;
        let mut ask = next_summary(&sheet.record, &*managers.manager, &self.context())?;
        // What only a branch knows yet is not for its siblings to read.
        let turns: Vec<(u64, EntryId)> = self.shared.with_state(|state| {
            let scope = state.scopes().get(key);
            let covered = ask.covers.iter().flat_map(|(first, last)| *first..=*last);
            let placed =
                covered.filter_map(|position| Some((position, sheet.places.get(position as usize)?)));
            let turns = placed.filter(|(_, place)| place.source == MessageSource::History);
            let turns = turns.filter_map(|(position, place)| Some((position, place.entry?)));
            turns.filter(|(_, entry)| scope.is_some_and(|scope| scope.is_marked(*entry))).collect()
        });
        ask.entries.retain(|position| turns.iter().any(|(turn, _)| turn == position));
        let entries = turns.into_iter().map(|(_, entry)| entry).collect();
        (!ask.entries.is_empty()).then_some(WantedSummary { sheet, ask, entries })
    }

    /// Records a summary; it stands for its turns from now on.
    async fn stood_for(&self, key: &Arc<str>, summary: Listed) -> Result<(), Unanswered> {
        let numbers: Vec<usize> = self.shared.with_state(|state| {
            let scope = state.scopes().get(key);
            let numbers = summary.entries.iter().filter_map(|entry| scope?.number(*entry));
            numbers.map(|number| number + 1).collect()
        });
        let covers = [numbers.iter().min(), numbers.iter().max()];
        let data = json!({ "scope": &**key, "covers": covers, "by": summary.by });
        let summary = Arc::new(summary);
        let batch = Batch {
            items: vec![LedgerItem::Summary { scope: Arc::clone(key), summary: Arc::clone(&summary) }],
            events: vec![self.shared.tell(Some(&self.call.key), "history.summarized", data)],
            ..Batch::default()
        };
        self.shared.commit(batch).await?;
        self.shared.with_state(|state| {
            if let Some(scope) = state.scopes.get_mut(key) {
                (scope.listed, scope.failed_at) = (Some(summary), None);
            }
        });
        Ok(())
    }
}
