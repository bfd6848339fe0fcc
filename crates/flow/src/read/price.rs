//! A limit in dollars needs a price for every model under it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::callable::callable_model;
use super::context::{FlowReader, Spot};
use crate::model::{Agent, HistoryManagement, Step, StepKind};
use crate::problem::Code;
use scrollback_core::model::Provider;

/// Notes the models inside these steps whose prices are not known.
pub(super) fn check(steps: &[&Step], limit: &Spot, reading: &mut FlowReader<'_>) {
    let mut agents = Vec::new();
    for step in steps {
        asked(step, &mut agents);
    }
    let mut unpriced = BTreeSet::new();
    for agent in agents {
        let Ok(model) = callable_model(&agent.model) else { continue };
        let prices = reading.source.catalog.prices(&model);
        let known = prices.input.is_some() && prices.output.is_some();
        if model.provider() != Provider::Offline && !known {
            unpriced.insert(agent.model.clone());
        }
    }
    for model in unpriced {
        let message = format!(
            "the price of {model} is not known, so its cost cannot be limited; write input_per_mtok and \
             output_per_mtok under [models.{model:?}] in scrollback.toml"
        );
        reading.error(Code::NoPrice, limit, message);
    }
}

// The depth is that of the file, which its reader limits.
/// Every agent that a step and all inside it may ask.
fn asked<'s>(step: &'s Step, found: &mut Vec<&'s Arc<Agent>>) {
    match &step.kind {
        StepKind::Agent(step) => found.push(&step.agent),
        StepKind::Loop(inner) => {
            match inner.conversation.as_ref().map(|conversation| &conversation.history) {
                Some(HistoryManagement::Bounds(bounds)) => found.extend(&bounds.summarizer),
                Some(HistoryManagement::Managers(managers)) => found.extend(managers.writers.values()),
                None => {}
            }
        }
        _ => {}
    }
    for step in step.kind.bodies().into_iter().flatten() {
        asked(step, found);
    }
}
