//! `scrollback simulate`: what managers would have sent, cost and lost, on recorded conversations.

pub(crate) mod args;
mod candidates;
mod output;
mod page;
mod sources;
mod table;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use indicatif::{ProgressBar, ProgressStyle};
use scrollback_agent::config;
use scrollback_core::model::facts;
use scrollback_core::replay::{CacheRetention, CompareOptions, Losses};

use args::SimulateArgs;

use crate::failure::{Failure, INVALID};
use crate::input;

pub(crate) fn run(args: &SimulateArgs, json: bool) -> Result<ExitCode, Failure> {
    let config = config::load()?;
    let named = input::model_named(args.model.as_deref())?;
    let field = candidates::field(args)?;
    let sources = sources::gather(args)?;
    let model = named.or_else(|| sources.usual_model());
    let cx = crate::curate::context(model.clone(), &config);
    let known = model.as_ref().and_then(facts);
    if known.and_then(|facts| facts.input_per_mtok).is_none() && !json {
        let whose = model.as_ref().map_or_else(
            || "no model is named".to_string(),
            |model| format!("the prices of {model} are not known"),
        );
        input::note(&format!(
            "{whose}: costs are relative, with reads at 0.1, writes at 1.25 and output at 5 times input (--model for prices)"
        ));
    }
    let entrants = candidates::entrants(sources.managers(&field, &cx))?;
    let how = CompareOptions {
        losses: if args.lost { Losses::Listed } else { Losses::Counted },
        retention: if args.long_cache { CacheRetention::Long } else { CacheRetention::Usual },
    };
    let bar = progress(sources.conversations.len() as u64);
    let report = sources.replay(&entrants, &cx, how, &|| bar.inc(1), &AtomicBool::new(true));
    bar.finish_and_clear();
    output::write(&report, args, json)?;
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

/// A bar, where a person watches and has to wait.
fn progress(conversations: u64) -> ProgressBar {
    if conversations < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(conversations);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} conversations, {eta} left") {
        bar.set_style(style);
    }
    bar
}
