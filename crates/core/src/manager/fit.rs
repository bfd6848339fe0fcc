use serde_json::{Value, json};

use super::sticky::default_low;
use super::{HistoryManager, Sticky, StickyInner, TokenBudget, config_of};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::model::{self, ModelName};
use crate::tokens::Counter;
use crate::view::View;

/// Largest part of a window that is left free for the reply unless told otherwise.
const MAX_RESERVE: u64 = 8192;

/// Keeps the view within a model's window, moving the cut rarely. The model's tokenizer counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The model; if none is given, the context's.
    pub model: Option<ModelName>,
    /// The window in tokens; if none is given, what is known of the model.
    pub window: Option<u64>,
    /// Tokens left free for the reply; an eighth of the window, at most 8192, if not given.
    pub reserve: Option<u64>,
}

impl Fit {
    /// The window: as given, else as configured, else from the built-in table.
    fn window(&self, cx: &CurationContext) -> Result<u64, CurationError> {
        if let Some(window) = self.window {
            return Ok(window);
        }
        let model =
            self.model.as_ref().or(cx.model.as_ref()).ok_or(CurationError::UnknownModel { model: None })?;
        let name = model.to_string();
        cx.windows
            .get(&name)
            .copied()
            .or_else(|| model::facts(model).map(|facts| facts.context_window))
            .ok_or(CurationError::UnknownModel { model: Some(name) })
    }
}

impl HistoryManager for Fit {
    fn name(&self) -> &'static str {
        "fit"
    }

    fn curate<'r>(&self, view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let window = self.window(cx)?;
        let reserve = self.reserve.unwrap_or_else(|| MAX_RESERVE.min(window / 8));
        let limit = window.saturating_sub(reserve).max(1) as usize;
        let counter = self.model.as_ref().map_or(cx.counter, |model| Counter::for_model(Some(model)));
        let inner = StickyInner::TokenBudget(TokenBudget { max_tokens: limit, reserve: 0 });
        Sticky { inner, high: limit, low: default_low(limit) }.curate_as(self.name(), counter, view, cx)
    }

    fn config(&self) -> Value {
        let model = self.model.as_ref().map(ToString::to_string);
        config_of(self.name(), json!({ "model": model, "window": self.window, "reserve": self.reserve }))
    }
}
