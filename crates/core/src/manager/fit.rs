use serde_json::{Value, json};

use super::sticky::default_low;
use super::{HistoryManager, Sticky, StickyInner, TokenBudget, config_of};
use crate::context::CurationContext;
use crate::error::CurationError;
use crate::model::{self, ModelName};
use crate::tokens::Counter;
use crate::view::View;
use crate::view::shorten::Shorten;

/// Tokens left free for the reply where neither the request nor the model says how long one may be.
const USUAL_REPLY: u64 = 8192;

/// Keeps the view within a model's window, moving the cut rarely. It acts only where the provider would refuse.
///
/// The high mark is the window less what the reply may take: the request's own output limit, else the model's. Where what
/// must stay is larger, its longest tool results are shortened to head and tail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The model; if none is given, the context's.
    pub model: Option<ModelName>,
    /// The window in tokens; if none is given, what is known of the model.
    pub window: Option<u64>,
    /// Tokens left free for the reply; what the request or the model says, if not given.
    pub reserve: Option<u64>,
}

impl Fit {
    fn model<'a>(&'a self, cx: &'a CurationContext) -> Option<&'a ModelName> {
        self.model.as_ref().or(cx.model.as_ref())
    }

    /// The window: as given, else as configured, else from the built-in table.
    fn window(&self, cx: &CurationContext) -> Result<u64, CurationError> {
        if let Some(window) = self.window {
            return Ok(window);
        }
        let model = self.model(cx).ok_or(CurationError::UnknownModel { model: None })?;
        cx.window_of(model).ok_or_else(|| CurationError::UnknownModel { model: Some(model.to_string()) })
    }

    /// The most tokens a request may have: the window less what its reply may take.
    pub fn limit(&self, cx: &CurationContext) -> Result<usize, CurationError> {
        let window = self.window(cx)?;
        let longest = || self.model(cx).and_then(model::facts)?.max_output;
        let reserve = self.reserve.unwrap_or_else(|| {
            let stated = cx.output.or_else(longest);
            // No reply takes more than half of a window that it has to share.
            stated.map_or_else(|| USUAL_REPLY.min(window / 8), |stated| stated.min(window / 2))
        });
        Ok(window.saturating_sub(reserve).max(1) as usize)
    }

    fn counter(&self, cx: &CurationContext) -> Counter {
        match &self.model {
            Some(model) if cx.model.as_ref() != Some(model) => Counter::for_model(Some(model)),
            _ => cx.counter,
        }
    }
}

impl HistoryManager for Fit {
    fn name(&self) -> &'static str {
        "fit"
    }

    fn curate<'r>(&self, view: View<'r>, cx: &CurationContext) -> Result<View<'r>, CurationError> {
        let (limit, counter) = (self.limit(cx)?, self.counter(cx));
        let inner = StickyInner::TokenBudget(TokenBudget { max_tokens: limit, reserve: 0 });
        let sticky = Sticky { inner, high: limit, low: default_low(limit) };
        let (mut view, mut needed) = sticky.cut_to(limit, self.name(), counter, view, cx);
        if needed > limit
            && let Some(shorter) = view.shortening(Shorten::Results, view.body(), limit, counter, cx)
        {
            view.truncate(shorter);
            needed = view.total_tokens(counter, cx);
        }
        if needed > limit { Err(CurationError::WindowTooSmall { needed, window: limit }) } else { Ok(view) }
    }

    fn budget(&self, cx: &CurationContext) -> Option<usize> {
        self.limit(cx).ok()
    }

    fn config(&self) -> Value {
        let model = self.model.as_ref().map(ToString::to_string);
        config_of(self.name(), json!({ "model": model, "window": self.window, "reserve": self.reserve }))
    }
}
