use serde_json::{Value, json};

use super::{Ask, HistoryManager, SharedManager, config_of};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::event::HistoryCurated;
use crate::view::{ItemSource, View};

/// Runs another manager and reports what it did, changed or not.
#[derive(Clone)]
pub struct Observed {
    /// The manager observed.
    pub inner: SharedManager,
    /// The prompt named in the report.
    pub prompt_name: Option<String>,
}

impl HistoryManager for Observed {
    fn name(&self) -> &'static str {
        "observed"
    }

    fn curate<'r>(&self, view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let mut view = self.inner.curate(view, cx)?;
        let record = view.record();
        let items: Vec<_> = view.items().collect();
        let shown = items.iter().filter(|item| matches!(item.source, ItemSource::Entry(_))).count();
        let changed = items.iter().filter(|item| item.is_changed()).count();
        view.emit(HistoryCurated {
            prompt_name: self.prompt_name.clone(),
            original_count: record.message_count(),
            curated_count: items.len(),
            strategy: self.inner.name().into(),
            session_id: None,
            created_at: None,
            dropped: record.message_count().saturating_sub(shown),
            changed,
            tokens_before: record.tokens(cx.counter) as usize + cx.overhead(cx.counter),
            tokens_after: view.total_tokens(cx.counter, cx),
            epoch: view.epoch(),
        });
        Ok(view)
    }

    fn plan(&self, view: &View<'_>, cx: &CurationContext) -> Vec<Ask> {
        self.inner.plan(view, cx)
    }

    fn budget(&self, cx: &CurationContext) -> Option<usize> {
        self.inner.budget(cx)
    }

    fn closest<'r>(&self, view: View<'r>, cx: &CurationContext) -> View<'r> {
        self.inner.closest(view, cx)
    }

    fn config(&self) -> Value {
        config_of(self.name(), json!({ "inner": self.inner.config(), "prompt_name": self.prompt_name }))
    }
}
