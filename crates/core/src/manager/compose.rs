use serde_json::Value;

use super::{Ask, HistoryManager, SharedManager, config_of};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::view::View;

/// Several managers, each working on the view of the one before. None at all is `passthrough`.
#[derive(Clone, Default)]
pub struct Compose {
    /// In order of application.
    pub managers: Vec<SharedManager>,
}

impl HistoryManager for Compose {
    fn name(&self) -> &'static str {
        "compose"
    }

    fn curate<'r>(&self, view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        self.managers.iter().try_fold(view, |view, manager| manager.curate(view, cx))
    }

    /// Each manager is asked about the view it would get.
    fn plan(&self, view: &View<'_>, cx: &CurationContext) -> Vec<Ask> {
        let mut asks = Vec::new();
        let mut current = view.clone();
        for manager in &self.managers {
            asks.extend(manager.plan(&current, cx));
            match manager.curate(current, cx) {
                Ok(next) => current = next,
                Err(_) => break,
            }
        }
        asks
    }

    fn budget(&self, cx: &CurationContext) -> Option<usize> {
        self.managers.iter().filter_map(|manager| manager.budget(cx)).min()
    }

    fn closest<'r>(&self, view: View<'r>, cx: &CurationContext) -> View<'r> {
        self.managers.iter().fold(view, |view, manager| {
            let before = view.clone();
            manager.curate(view, cx).unwrap_or_else(|_| manager.closest(before, cx))
        })
    }

    fn config(&self) -> Value {
        let managers: Value = self.managers.iter().map(|manager| manager.config()).collect();
        config_of(self.name(), serde_json::json!({ "managers": managers }))
    }
}
