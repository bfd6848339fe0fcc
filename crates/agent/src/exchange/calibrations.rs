//! What was learnt about each model from what its provider reported, for each tenant.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use scrollback_core::model::ModelName;
use scrollback_core::request::RequestTokens;
use scrollback_core::tokens::{Calibration, Counter, Factor, Method};
use scrollback_core::{CurationContext, Usage};
use scrollback_store::{Store, Tenant};

/// Models that are remembered at once; beyond that what is known is forgotten and learnt again.
const MAX_MODELS: usize = 4096;

/// Calls that are read back when a model is asked for the first time in this process.
const READ_BACK: usize = 20;

/// What a call's row says about its input.
#[derive(serde::Deserialize)]
struct Reported {
    input: u64,
    estimated: bool,
}

/// The factors of estimates, by tenant and model. Shared by everyone who asks models in this process.
#[derive(Debug, Default)]
pub struct Calibrations(Mutex<HashMap<(Tenant, String), Calibration>>);

impl Calibrations {
    /// What estimates for a model are multiplied by.
    pub fn factor(&self, tenant: &Tenant, model: &str) -> Factor {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(tenant.clone(), model.to_string())).map_or(Factor::ONE, Calibration::factor)
    }

    /// Sets the factor of a context from what is known about its model.
    pub fn apply(&self, tenant: &Tenant, cx: &mut CurationContext) {
        if let Some(model) = &cx.model {
            cx.counter = cx.counter.with_factor(self.factor(tenant, &model.to_string()));
        }
    }

    /// Takes in what a provider reported about a request. Where tokens are counted exactly, or nothing was reported, there is
    /// nothing to learn.
    pub fn observe(
        &self,
        tenant: &Tenant,
        model: &str,
        tokens: Option<&RequestTokens>,
        usage: Option<&Usage>,
    ) {
        let Some(tokens) = tokens.filter(|tokens| !tokens.exact) else { return };
        let Some(reported) = usage.and_then(Usage::input) else { return };
        self.learn(tenant, model, |known| known.observe(tokens.counted as u64, reported));
    }

    /// Learns from the calls that earlier processes made, the first time a model is asked for. A store that does not answer is no
    /// obstacle: the factor is then learnt anew.
    pub async fn recall(&self, store: &dyn Store, tenant: &Tenant, model: &ModelName) {
        let name = model.to_string();
        if Counter::for_model(Some(model)).method == Method::Exact || self.knows(tenant, &name) {
            return;
        }
        let calls = store.recent_calls(tenant, &name, READ_BACK).await.unwrap_or_default();
        let heard = calls.iter().rev().filter_map(|call| {
            let tokens: RequestTokens = serde_json::from_str(call.tokens.as_deref()?).ok()?;
            let spent: Reported = serde_json::from_str(call.usage.as_deref()?).ok()?;
            (!spent.estimated).then_some((tokens.counted as u64, spent.input))
        });
        self.learn(tenant, &name, |known| {
            // Another call may have begun to learn meanwhile.
            if known.is_empty() {
                heard.for_each(|(estimated, reported)| known.observe(estimated, reported));
            }
        });
    }

    fn knows(&self, tenant: &Tenant, model: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains_key(&(tenant.clone(), model.to_string()))
    }

    fn learn(&self, tenant: &Tenant, model: &str, learn: impl FnOnce(&mut Calibration)) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_MODELS {
            known.clear();
        }
        learn(known.entry((tenant.clone(), model.to_string())).or_default());
    }
}
