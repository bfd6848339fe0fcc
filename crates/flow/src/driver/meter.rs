//! The quota of a step, as its calls meet it.

use std::sync::{Arc, Mutex, PoisonError};

use scrollback_agent::provider::Catalog;
use scrollback_agent::runner::{
    AttemptUsage, EvaluationError, EvaluationErrorKind, FailurePhase, UsageMeter,
};
use scrollback_core::model::{self, ModelName};
use serde_json::json;

use super::Shared;
use crate::MicroDollars;
use crate::quota::{AccountId, Amount, Breach};
use crate::usage::{Price, RunUsage};

/// Counts what the calls of one step reserve and use.
pub(crate) struct StepMeter {
    pub(super) shared: Arc<Shared>,
    pub(super) key: String,
    pub(super) account: Option<AccountId>,
    pub(super) max_output: u64,
    pub(super) counted: Mutex<MeterState>,
}

#[derive(Default)]
pub(crate) struct MeterState {
    /// What the attempt under way has reserved, and whether its model costs anything.
    reserved: Option<(Amount, Price)>,
    /// What all attempts used.
    pub(super) usage: RunUsage,
    /// The limit that had no room.
    pub(super) breach: Option<Breach>,
}

impl StepMeter {
    pub(super) fn new(
        shared: &Arc<Shared>,
        key: &str,
        account: Option<AccountId>,
        max_output: u64,
        before: RunUsage,
    ) -> Self {
        let counted = Mutex::new(MeterState { usage: before, ..MeterState::default() });
        StepMeter { shared: Arc::clone(shared), key: key.into(), account, max_output, counted }
    }

    /// Adds what something aside of the step used.
    pub(super) fn add(&self, usage: RunUsage) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.usage = counted.usage.and(usage);
    }

    /// What was used so far.
    pub(super) fn usage(&self) -> RunUsage {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).usage
    }

    /// The limit that had no room, if one had not.
    pub(super) fn breach(&self) -> Option<Breach> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).breach.clone()
    }
}

impl UsageMeter for StepMeter {
    fn reserve(&self, model: &ModelName, tokens: usize) -> Result<(), EvaluationError> {
        let price = price(model);
        let wanted = Amount {
            tokens: (tokens as u64).saturating_add(self.max_output),
            micros: most(&self.shared.engine.catalog, model, tokens as u64, self.max_output),
        };
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if self.account.is_some() {
            let refused = self.shared.with_state(|state| state.quota.reserve(self.account, wanted).err());
            if let Some(breach) = refused {
                self.shared.note(&self.key, "quota.exceeded", json!(breach));
                let message = breach.to_string();
                counted.breach = Some(breach);
                return Err(EvaluationError::new(FailurePhase::Budget, EvaluationErrorKind::Quota, message));
            }
            let data = json!({ "tokens": wanted.tokens, "cost_usd": wanted.micros.dollars() });
            self.shared.note(&self.key, "quota.reserved", data);
        }
        counted.reserved = Some((wanted, price));
        Ok(())
    }

    fn settle(&self, spent: &AttemptUsage) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((reserved, price)) = counted.reserved.take() else { return };
        let used = RunUsage::call(spent, price);
        counted.usage = counted.usage.and(used);
        if self.account.is_some() {
            let amount = Amount { tokens: used.total(), micros: used.cost.unwrap_or(MicroDollars(0)) };
            self.shared.with_state(|state| state.quota.settle(self.account, reserved, amount));
        }
        // Told where there is no limit too: people who watch a run want to know what it costs.
        let data = json!({ "tokens": used.total(), "cost_usd": used.cost.map(MicroDollars::dollars) });
        self.shared.note(&self.key, "quota.reconciled", data);
    }
}

/// Whether a model costs anything.
fn price(model: &ModelName) -> Price {
    if model.provider() == model::Provider::Offline { Price::Free } else { Price::Paid }
}

/// The most a call can cost: all its input at full price, and the longest reply.
fn most(catalog: &Catalog, model: &ModelName, input: u64, output: u64) -> MicroDollars {
    if price(model) == Price::Free {
        return MicroDollars(0);
    }
    let prices = catalog.prices(model);
    let dollars = input as f64 * prices.input.unwrap_or(0.0) + output as f64 * prices.output.unwrap_or(0.0);
    // Prices are per million tokens, so this is millionths already; a part of one counts whole.
    MicroDollars(dollars.ceil() as u64)
}
