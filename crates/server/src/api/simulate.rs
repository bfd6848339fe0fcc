//! What other managers would have sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::http::StatusCode;
use schemars::JsonSchema;
use scrollback_core::manager::{Passthrough, SharedManager};
use scrollback_core::replay::{Candidate, Needs, simulate};
use scrollback_core::wire::Wire;
use scrollback_core::{CurationContext, Slot};
use scrollback_store::{ConversationId, Sent};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::operation::{ApiRequest, Operation};
use crate::simulation_tables::Figures;
use crate::{App, HttpProblem, recorded_calls};

/// Most entries that are replayed while a client waits.
const MOST_ENTRIES: usize = 5_000;
/// Most candidates of one comparison.
const MOST_MANAGERS: usize = 12;

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::post("/simulate", "simulate", "Replays a conversation call by call under each candidate: tokens, cache reads, cost, what was left out.", run)
            .reading()
            .fails(&[404, 422]),
    ]
}

/// What to replay, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimulateShape {
    /// The conversation to replay.
    #[serde(default)]
    conversation: Option<String>,
    /// Or messages of any wire.
    #[serde(default)]
    #[schemars(with = "Option<Value>")]
    messages: Option<Box<RawValue>>,
    /// The candidates, each a manager in any form; a list composes.
    managers: Vec<Value>,
    /// The model that counts, and whose prices are taken; that of the conversation's newest call if not said.
    #[serde(default)]
    model: Option<String>,
}

/// The candidates side by side.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Simulation")]
pub(crate) struct SimulateAnswer {
    /// The model that counted.
    model: Option<String>,
    /// Calls that were replayed.
    calls: u64,
    /// One for each candidate, in the order they were given.
    managers: Vec<Figures>,
}

async fn run(asking: ApiRequest, wish: SimulateShape) -> Result<SimulateAnswer, HttpProblem> {
    let (slots, call): (Vec<Slot>, Option<Sent>) = match (&wish.conversation, &wish.messages) {
        (Some(id), None) => {
            let id = ConversationId::parse(id).ok_or_else(|| HttpProblem::not_found("conversation"))?;
            let places = asking.app.store.entries(asking.tenant(), &id, 0, MOST_ENTRIES as u64 + 1).await?;
            let call = recorded_calls::newest(&asking.app, asking.tenant(), &id).await?;
            (places.into_iter().map(|placed| placed.slot).collect(), call)
        }
        (None, Some(messages)) => {
            let entries = super::entries::messages(messages.get(), None)?;
            (entries.into_iter().map(|entry| Slot::Message(Arc::new(entry))).collect(), None)
        }
        _ => return Err(HttpProblem::bad_request("bad_request", "give either `conversation` or `messages`")),
    };
    let model = wish.model.or_else(|| call.as_ref().map(|call| call.model.clone()));
    let managers = compare(&asking.app, slots, wish.managers, model.as_deref(), call.as_ref()).await?;
    let calls = managers.iter().map(|figures| figures.calls).max().unwrap_or(0);
    Ok(SimulateAnswer { model, calls, managers })
}

/// A client that waits for an answer; dropped when it leaves.
struct Waits(Arc<AtomicBool>);

impl Default for Waits {
    fn default() -> Self {
        Waits(Arc::new(AtomicBool::new(true)))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Replays under every candidate, and compares costs with sending everything. The tools, the format and the length of replies
/// are those of a recorded call, where there is one.
pub(crate) async fn compare(
    app: &App,
    slots: Vec<Slot>,
    candidates: Vec<Value>,
    model: Option<&str>,
    call: Option<&Sent>,
) -> Result<Vec<Figures>, HttpProblem> {
    if candidates.is_empty() || candidates.len() > MOST_MANAGERS {
        let detail = format!("give between 1 and {MOST_MANAGERS} managers");
        return Err(HttpProblem::bad_request("bad_request", detail));
    }
    if slots.len() > MOST_ENTRIES {
        let detail = format!(
            "at most {MOST_ENTRIES} entries are replayed while a client waits; give a part of them as `messages`"
        );
        return Err(HttpProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_long", detail));
    }
    let model = model.map(|name| recorded_calls::model_named(name, None)).transpose()?;
    let mut managers = Vec::with_capacity(candidates.len());
    for value in &candidates {
        let name = value.as_str().map_or_else(|| value.to_string(), ToString::to_string);
        managers.push((name, recorded_calls::manager_from(value)?));
    }
    let cx = CurationContext {
        tools: call.and_then(recorded_calls::tools),
        wire: call.and_then(|call| Wire::named(&call.wire)),
        output: call.and_then(recorded_calls::output),
        ..recorded_calls::context(app, model)
    };
    let waits = Waits::default();
    let wanted = Arc::clone(&waits.0);
    crate::blocking(move || {
        let needs = Needs::of(&slots);
        let passthrough: SharedManager = Arc::new(Passthrough);
        let began = Instant::now();
        let clock = || began.elapsed().as_secs_f64() * 1e3;
        let run = |manager: &SharedManager| {
            simulate(&slots, &needs, &Candidate::new(manager), &cx, &clock, &wanted)
        };
        let everything = run(&passthrough);
        managers.iter().map(|(name, manager)| Figures::of(name, &run(manager), &everything)).collect()
    })
    .await
}
