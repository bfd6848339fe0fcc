//! What was learnt about each model from what its provider reported, for each tenant.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use scrollback_core::request::RequestTokens;
use scrollback_core::tokens::{Calibration, Factor};
use scrollback_core::{CurationContext, Usage};
use scrollback_store::Tenant;

/// Models that are remembered at once; beyond that what is known is forgotten and learnt again.
const MAX_MODELS: usize = 4096;

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
    pub fn hear(&self, tenant: &Tenant, model: &str, tokens: Option<&RequestTokens>, usage: Option<&Usage>) {
        let Some(tokens) = tokens.filter(|tokens| !tokens.exact) else { return };
        let Some(reported) = usage.and_then(Usage::input) else { return };
        self.learn(tenant, model, |known| known.hear(tokens.counted as u64, reported));
    }

    fn learn(&self, tenant: &Tenant, model: &str, learn: impl FnOnce(&mut Calibration)) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_MODELS {
            known.clear();
        }
        learn(known.entry((tenant.clone(), model.to_string())).or_default());
    }
}
