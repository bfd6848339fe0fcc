//! Several managers over the same conversations, beside sending everything.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::caching::CacheRetention;
use super::field::Entrant;
use super::figures::{Figures, Tally};
use super::needs::Needs;
use super::simulation::{Candidate, simulate};
use crate::context::{CurationContext, Tools};
use crate::json;
use crate::manager::{Passthrough, SharedManager};
use crate::record::{Record, Slot};
use crate::tokens::Counter;
use crate::wire::{ParseOptions, Wire};

/// Whether every value that a manager would have lost is listed, beside being counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Losses {
    /// Only counted.
    #[default]
    Counted,
    /// Listed with the call, the place and the reason.
    Listed,
}

/// How conversations are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompareOptions {
    /// What is told about values that were lost.
    pub losses: Losses,
    /// The lifetime of caches that requests ask for.
    pub retention: CacheRetention,
}

/// What one conversation came to: sending everything, and every manager in order.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Sending everything.
    pub everything: Tally,
    /// One tally for each manager.
    pub tallies: Vec<Tally>,
}

/// Replays one conversation under every manager, as [`simulate`] does it. `cx` is that of its calls: model, tools, wire, output.
pub fn compare(
    slots: &[Slot],
    entrants: &[Entrant],
    cx: &CurationContext,
    options: CompareOptions,
    clock: &dyn Fn() -> f64,
    wanted: &AtomicBool,
) -> Replayed {
    let needs = Needs::of(slots);
    let run = |manager: &SharedManager| {
        let candidate = Candidate {
            manager: Arc::clone(manager),
            lists_lost: options.losses == Losses::Listed,
            retention: options.retention,
        };
        simulate(slots, &needs, &candidate, cx, clock, wanted)
    };
    let passthrough: SharedManager = Arc::new(Passthrough);
    let everything = run(&passthrough);
    let tally = |entrant: &Entrant| {
        if entrant.name == "passthrough" { everything.clone() } else { run(&entrant.manager) }
    };
    let tallies = entrants.iter().map(tally).collect();
    Replayed { everything, tallies }
}

impl Replayed {
    /// Adds another conversation that was replayed under the same managers.
    pub fn add(&mut self, other: &Replayed) {
        self.everything.add(&other.everything);
        self.tallies.resize_with(self.tallies.len().max(other.tallies.len()), Tally::default);
        for (sum, more) in self.tallies.iter_mut().zip(&other.tallies) {
            sum.add(more);
        }
    }

    /// The figures of every manager.
    pub fn figures(&self, entrants: &[Entrant]) -> Vec<Figures> {
        let all = entrants.iter().zip(&self.tallies);
        all.map(|(entrant, tally)| tally.figures(&entrant.name, Some(&self.everything))).collect()
    }
}

/// Tokens of everything that a conversation says.
pub fn length(slots: &[Slot], counter: Counter) -> u64 {
    Record::restore(slots.iter().cloned()).map_or(0, |record| record.tokens(counter))
}

/// What a recorded request says about the calls of its conversation beside their messages: budgets leave room for it.
#[derive(Clone, Debug, Default)]
pub struct RequestFrame {
    /// The tools it offered.
    pub tools: Option<Tools>,
    /// How many tokens it allowed the reply.
    pub output: Option<u64>,
}

impl RequestFrame {
    /// Reads the bytes of a request. What cannot be read is not known.
    pub fn read(wire: Option<Wire>, request: Option<&[u8]>) -> Self {
        let Some(body) = request.and_then(|request| json::check_bytes(request).ok()) else {
            return RequestFrame::default();
        };
        let stated = ["max_output_tokens", "max_completion_tokens", "max_tokens"];
        RequestFrame {
            tools: wire.and_then(|wire| wire.parse(body, &ParseOptions::default()).ok()?.tools),
            output: stated.iter().find_map(|key| body.get(key)?.text().parse().ok()),
        }
    }
}
