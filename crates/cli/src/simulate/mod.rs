//! `scrollback simulate`: what managers would have sent, cost and lost, on recorded conversations.

pub(crate) mod args;
mod candidates;
mod output;
mod page;
mod replay;
mod sources;
mod table;

use std::process::ExitCode;

use scrollback_agent::config;
use scrollback_core::model::facts;
use scrollback_core::replay::{Figures, Tally};

use args::SimulateArgs;
use candidates::Entrant;
use replay::ReplayResult;
use sources::{Gathered, SourceConversation};

use crate::failure::{Failure, INVALID};
use crate::input;

/// A replay with everything that outputs are made of.
pub(crate) struct SimulationReport<'a> {
    pub(crate) model: Option<String>,
    pub(crate) gathered: &'a Gathered,
    pub(crate) entrants: &'a [Entrant],
    pub(crate) replayed: &'a [ReplayResult],
    /// One for each candidate, over all conversations.
    pub(crate) total: Vec<Figures>,
}

impl SimulationReport<'_> {
    /// Every conversation with what it came to.
    pub(crate) fn conversations(&self) -> impl Iterator<Item = (&SourceConversation, &ReplayResult)> {
        self.gathered.conversations.iter().zip(self.replayed)
    }

    /// The figures of one conversation, one for each candidate.
    pub(crate) fn figures(&self, replayed: &ReplayResult) -> Vec<Figures> {
        let all = self.entrants.iter().zip(&replayed.tallies);
        all.map(|(entrant, tally)| tally.figures(&entrant.name, Some(&replayed.everything))).collect()
    }
}

pub(crate) fn run(args: &SimulateArgs, json: bool) -> Result<ExitCode, Failure> {
    let config = config::load()?;
    let named = input::model_named(args.model.as_deref())?;
    let gathered = sources::gather(args)?;
    let model = named.clone().or_else(|| sources::usual_model(&gathered.conversations));
    let cx = crate::curate::context(model.clone(), &config);
    let known = model.as_ref().and_then(facts);
    let fits = model.as_ref().is_some_and(|model| cx.window_of(model).is_some());
    if known.and_then(|facts| facts.input_per_mtok).is_none() && !json {
        let whose = model.as_ref().map_or_else(
            || "no model is named".to_string(),
            |model| format!("the prices of {model} are not known"),
        );
        input::note(&format!(
            "{whose}: costs are relative, with reads at 0.1, writes at 1.25 and output at 5 times input (--model for prices)"
        ));
    }
    let longest =
        if args.managers.is_empty() { sources::longest(&gathered.conversations, cx.counter) } else { 0 };
    let entrants = candidates::entrants(args, longest, fits)?;
    let replayed = replay::replay(&gathered.conversations, &entrants, &cx, args.lost);
    let (mut everything, mut totals) = (Tally::default(), vec![Tally::default(); entrants.len()]);
    for one in &replayed {
        everything.add(&one.everything);
        for (total, tally) in totals.iter_mut().zip(&one.tallies) {
            total.add(tally);
        }
    }
    let total = entrants.iter().zip(&totals);
    let total = total.map(|(entrant, tally)| tally.figures(&entrant.name, Some(&everything))).collect();
    let report = SimulationReport {
        model: model.map(|model| model.to_string()),
        gathered: &gathered,
        entrants: &entrants,
        replayed: &replayed,
        total,
    };
    output::write(&report, args, json)?;
    Ok(if gathered.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}
