//! What other managers would have sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::http::StatusCode;
use schemars::JsonSchema;
use scrollback_core::manager::{Passthrough, SharedManager};
use scrollback_core::model::ModelName;
use scrollback_core::replay::{Candidate, Lost, Needs, Tally, simulate};
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

/// A conversation to replay, with the call that says with which tools, in which format and how long the replies may be.
pub(crate) struct Replayed {
    pub(crate) slots: Vec<Slot>,
    pub(crate) call: Option<Sent>,
}

/// Whether every value that a candidate would have lost is listed, beside being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    Counted,
    Listed,
}

/// What a candidate came to.
pub(crate) struct Compared {
    pub(crate) figures: Figures,
    /// What it would have lost, each with the conversation by its place in the list.
    pub(crate) lost: Vec<(usize, Lost)>,
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
    let one = vec![Replayed { slots, call: call.cloned() }];
    let compared = compare_all(app, one, candidates, model, Losses::Counted).await?;
    Ok(compared.into_iter().map(|one| one.figures).collect())
}

/// The same over several conversations, whose figures are added up. Where no model is given each counts with its own.
pub(crate) async fn compare_all(
    app: &App,
    conversations: Vec<Replayed>,
    candidates: Vec<Value>,
    model: Option<&str>,
    losses: Losses,
) -> Result<Vec<Compared>, HttpProblem> {
    if candidates.is_empty() || candidates.len() > MOST_MANAGERS {
        let detail = format!("give between 1 and {MOST_MANAGERS} managers");
        return Err(HttpProblem::bad_request("bad_request", detail));
    }
    if conversations.iter().map(|one| one.slots.len()).sum::<usize>() > MOST_ENTRIES {
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
    let context = |call: Option<&Sent>| {
        let own = || call.and_then(|call| ModelName::parse(&call.model).ok());
        CurationContext {
            tools: call.and_then(recorded_calls::tools),
            wire: call.and_then(|call| Wire::named(&call.wire)),
            output: call.and_then(recorded_calls::output),
            ..recorded_calls::context(app, model.clone().or_else(own))
        }
    };
    let all: Vec<(Vec<Slot>, CurationContext)> = conversations
        .into_iter()
        .map(|one| {
            let cx = context(one.call.as_ref());
            (one.slots, cx)
        })
        .collect();
    let waits = Waits::default();
    let wanted = Arc::clone(&waits.0);
    crate::blocking(move || {
        let passthrough: SharedManager = Arc::new(Passthrough);
        let needs: Vec<Needs> = all.iter().map(|(slots, _)| Needs::of(slots)).collect();
        let began = Instant::now();
        let clock = || began.elapsed().as_secs_f64() * 1e3;
        let run = |manager: &SharedManager, lists_lost: bool| {
            let candidate = Candidate { manager: Arc::clone(manager), lists_lost };
            let each = all.iter().zip(&needs);
            let mut tallies: Vec<Tally> = each
                .map(|((slots, cx), needs)| simulate(slots, needs, &candidate, cx, &clock, &wanted))
                .collect();
            let lost: Vec<(usize, Lost)> = tallies
                .iter_mut()
                .enumerate()
                .flat_map(|(place, tally)| {
                    std::mem::take(&mut tally.lost).into_iter().map(move |one| (place, one))
                })
                .collect();
            // One conversation keeps its course call by call.
            let sum = if tallies.len() == 1 {
                tallies.pop().unwrap_or_default()
            } else {
                tallies.iter().fold(Tally::default(), |mut sum, more| {
                    sum.add(more);
                    sum
                })
            };
            (sum, lost)
        };
        let (everything, _) = run(&passthrough, false);
        let compared = managers.iter().map(|(name, manager)| {
            let (tally, lost) = run(manager, losses == Losses::Listed);
            Compared { figures: Figures::of(name, &tally, &everything), lost }
        });
        compared.collect()
    })
    .await
}
