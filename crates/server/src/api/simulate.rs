//! What other managers would have sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::http::StatusCode;
use schemars::JsonSchema;
use scrollback_core::model::ModelName;
pub(crate) use scrollback_core::replay::Losses;
use scrollback_core::replay::{self, CompareOptions, Entrant, Field, Lost, RequestFrame, Tally};
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
pub(crate) const MOST_ENTRIES: usize = 5_000;
/// Most candidates of one comparison.
const MOST_MANAGERS: usize = 16;

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
    /// The candidates, each a manager in any form; a list composes. The field of `scrollback simulate` if not given. A `B` in a
    /// text stands for each of `budgets`.
    #[serde(default)]
    managers: Vec<Value>,
    /// Budgets in tokens; 8,000, 16,000, 32,000 and 64,000 if not given.
    #[serde(default)]
    budgets: Vec<u64>,
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
    /// The candidates than which no other is cheaper and keeps more.
    frontier: Vec<String>,
    /// Which one to take, in words; null where no call was replayed.
    advice: Option<String>,
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
    let candidates = Candidates { managers: wish.managers, budgets: wish.budgets };
    let one = vec![Replayed { slots, call }];
    let done = compare_all(&asking.app, one, candidates, model.as_deref(), Losses::Counted).await?;
    let frontier = done.managers.iter().filter(|one| one.on_frontier);
    let frontier = frontier.map(|one| one.figures.manager.clone()).collect();
    let managers: Vec<Figures> = done.managers.into_iter().map(|one| one.figures).collect();
    let calls = managers.iter().map(|figures| figures.calls).max().unwrap_or(0);
    Ok(SimulateAnswer { model, calls, managers, frontier, advice: done.advice })
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

/// Who competes: managers in any form, or the usual field.
#[derive(Default)]
pub(crate) struct Candidates {
    pub(crate) managers: Vec<Value>,
    pub(crate) budgets: Vec<u64>,
}

impl Candidates {
    /// The managers, with a `B` of their texts replaced.
    fn texts(self, longest: u64, knows_window: bool) -> Vec<Value> {
        let budgets = self.budgets;
        if self.managers.is_empty() {
            let field = Field { managers: Vec::new(), budgets };
            return field.texts(longest, knows_window).into_iter().map(Value::from).collect();
        }
        let expanded = |value: Value| match value {
            Value::String(text) => {
                let field = Field { managers: vec![text], budgets: budgets.clone() };
                field.texts(longest, knows_window).into_iter().map(Value::from).collect()
            }
            other => vec![other],
        };
        self.managers.into_iter().flat_map(expanded).collect()
    }
}

/// What a comparison came to.
pub(crate) struct Comparison {
    /// One for each candidate.
    pub(crate) managers: Vec<Compared>,
    /// Which one to take, in words.
    pub(crate) advice: Option<String>,
}

/// What a candidate came to.
pub(crate) struct Compared {
    pub(crate) figures: Figures,
    /// What it keeps where its choice decides, as a share; none where nothing was at stake.
    pub(crate) kept: Option<f64>,
    /// Whether no other candidate is cheaper and keeps more.
    pub(crate) on_frontier: bool,
    /// What it would have lost, each with the conversation by its place in the list.
    pub(crate) lost: Vec<(usize, Lost)>,
}

/// Replays conversations under every candidate, adds up the figures, and compares costs with sending everything. The tools, the
/// format and the length of replies are those of a recorded call, where there is one. Where no model is given each conversation
/// counts with its own.
pub(crate) async fn compare_all(
    app: &App,
    conversations: Vec<Replayed>,
    candidates: Candidates,
    model: Option<&str>,
    losses: Losses,
) -> Result<Comparison, HttpProblem> {
    if conversations.iter().map(|one| one.slots.len()).sum::<usize>() > MOST_ENTRIES {
        let detail = format!(
            "at most {MOST_ENTRIES} entries are replayed while a client waits; give a part of them as `messages`"
        );
        return Err(HttpProblem::new(StatusCode::UNPROCESSABLE_ENTITY, "too_long", detail));
    }
    let model = model.map(|name| recorded_calls::model_named(name, None)).transpose()?;
    let context = |call: Option<&Sent>| {
        let own = || call.and_then(|call| ModelName::parse(&call.model).ok());
        let wire = call.and_then(|call| Wire::named(&call.wire));
        let frame = RequestFrame::read(wire, call.and_then(|call| call.request.as_deref()));
        CurationContext {
            tools: frame.tools,
            wire,
            output: frame.output,
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
    // Lengths are counted on a thread for work that takes long, as the replay.
    let (all, texts) = crate::blocking(move || {
        let is_usual = candidates.managers.is_empty() && candidates.budgets.is_empty();
        let lengths = all.iter().filter(|_| is_usual).map(|(slots, cx)| replay::length(slots, cx.counter));
        let longest = lengths.max().unwrap_or(0);
        let knows_window =
            all.iter().all(|(_, cx)| cx.model.as_ref().is_some_and(|model| cx.window_of(model).is_some()));
        (all, candidates.texts(longest, knows_window))
    })
    .await?;
    if texts.len() > MOST_MANAGERS {
        let detail = format!("give at most {MOST_MANAGERS} managers");
        return Err(HttpProblem::bad_request("bad_request", detail));
    }
    let mut entrants = Vec::with_capacity(texts.len());
    for value in &texts {
        let name = value.as_str().map_or_else(|| value.to_string(), ToString::to_string);
        entrants.push(Entrant { name, manager: recorded_calls::manager_from(value)? });
    }
    let options = CompareOptions { losses, ..CompareOptions::default() };
    let waits = Waits::default();
    let wanted = Arc::clone(&waits.0);
    crate::blocking(move || {
        let began = Instant::now();
        let clock = || began.elapsed().as_secs_f64() * 1e3;
        let mut sum = replay::Replayed {
            tallies: vec![Tally::default(); entrants.len()],
            ..replay::Replayed::default()
        };
        let mut lost: Vec<Vec<(usize, Lost)>> = vec![Vec::new(); entrants.len()];
        for (place, (slots, cx)) in all.iter().enumerate() {
            let mut one = replay::compare(slots, &entrants, cx, options, &clock, &wanted);
            for (listed, tally) in lost.iter_mut().zip(&mut one.tallies) {
                listed.extend(std::mem::take(&mut tally.lost).into_iter().map(|lost| (place, lost)));
            }
            // One conversation keeps its course call by call.
            if all.len() == 1 { sum = one } else { sum.add(&one) }
        }
        let figures = sum.figures(&entrants);
        let rows: Vec<&replay::Figures> = figures.iter().collect();
        let each = entrants.iter().zip(&sum.tallies).zip(&figures).zip(lost);
        let managers = each.map(|(((entrant, tally), figures), lost)| Compared {
            figures: Figures::of(&entrant.name, tally, &sum.everything),
            kept: replay::kept(figures),
            on_frontier: replay::on_frontier(figures, &rows),
            lost,
        });
        let managers = managers.collect();
        Comparison { managers, advice: replay::advice(&rows).map(|advice| advice.reason) }
    })
    .await
}
