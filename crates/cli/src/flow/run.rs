//! `scrollback run` and `scrollback resume`: a flow from its first step to its last, with pauses for people.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use scrollback_agent::StopSignal;
use scrollback_agent::provider::{Catalog, NoProviderKind};
use scrollback_core::redact::Redactor;
use scrollback_flow::driver::{
    Engine, PauseReport, RefusedKind, Resume, RunRefused, RunReport, RunStart, RunStatus, StepAnswer,
};
use scrollback_flow::settings::{Set, SettingOrigin};
use scrollback_flow::{Flow, MicroDollars, QuotaLimits, StepKind};
use serde_json::{Value, json};

use super::args::{ResumeArgs, RunArgs};
use super::load::{LoadedFlow, load};
use super::problem_text;
use super::progress::Progress;
use crate::failure::{FAILED, Failure, INVALID, USAGE, complain};
use crate::store::{Intent, Setup, block_on, recipient_named};
use crate::{input, telemetry};

/// Exit code of a run that waits for people.
const PAUSED: u8 = 3;

pub(crate) fn run(args: &RunArgs, json: bool) -> Result<ExitCode, Failure> {
    if args.file == std::path::Path::new("-") && args.input.as_deref() == Some("-") {
        return Err(usage("the flow and the input cannot both come from standard input"));
    }
    let setup = Setup::new(&args.more.store)?;
    let mut loaded = load(&args.file)?;
    let flag = |value| Set { value, from: SettingOrigin::Flag };
    loaded.settings.flags.max_tokens = args.more.max_tokens.map(flag);
    loaded.settings.flags.max_cost_usd =
        args.more.max_cost.map(|value| Set { value, from: SettingOrigin::Flag });
    let read = match loaded.read() {
        Ok(read) => read,
        Err(found) => {
            if json {
                let document = loaded.document(false, &found.errors, &found.warnings);
                input::print(&format!("{document}\n"))?;
            } else {
                problem_text::problems(&loaded, &found.errors, &found.warnings);
            }
            return Ok(ExitCode::from(INVALID));
        }
    };
    let document = loaded.document(true, &[], &read.warnings);
    let warnings = document.get("warnings").and_then(Value::as_array).cloned().unwrap_or_default();
    if !json {
        problem_text::problems(&loaded, &[], &read.warnings);
    }
    let given = text_of(args.input.as_deref())?;
    can_be_asked(&read.flow, &loaded.catalog)?;
    let given = match given {
        None if read.flow.reads_input() => Some(asked_input()?),
        given => given,
    };
    let progress = Progress::new(args.more.progress);
    let start = RunStart {
        flow: Arc::new(read.flow),
        text: loaded.text.clone(),
        stem: loaded.stem(),
        folder: absolute(&loaded),
        settings: loaded.settings.clone(),
        warnings,
        input: given,
        recipient: args.recipient.as_deref().map(recipient_named).transpose()?,
        id: args.id.clone(),
        created: Some(progress.created()),
    };
    block_on(async {
        let engine = engine(&setup, &progress).await?;
        let mut outcome = engine.start(start).await;
        while args.interactive
            && let Ok(report) = &outcome
            && let Some(pause) = report.pauses.first().filter(|_| report.status == RunStatus::Paused)
        {
            progress.hide();
            let Some(text) = ask(pause, &engine.stop).await? else { break };
            progress.show();
            let answer = Some(StepAnswer { step: Some(pause.step.clone()), text });
            let again = Resume { run: report.run.clone(), answer, limits: QuotaLimits::default() };
            match engine.resume(again).await {
                Err(refused) if refused.kind() == RefusedKind::InvalidAnswer => {
                    complain(&refused.to_string());
                }
                other => outcome = other,
            }
        }
        progress.end();
        telemetry::end(&engine.telemetry).await;
        finish(outcome, json)
    })
}

pub(crate) fn resume(args: &ResumeArgs, json: bool) -> Result<ExitCode, Failure> {
    let setup = Setup::new(&args.more.store)?;
    let text = text_of(args.input.as_deref())?;
    let progress = Progress::new(args.more.progress);
    let cost = args.more.max_cost.and_then(MicroDollars::from_dollars);
    let resume = Resume {
        run: args.run.clone(),
        answer: text.map(|text| StepAnswer { step: args.step.clone(), text }),
        limits: QuotaLimits { max_tokens: args.more.max_tokens, max_cost: cost },
    };
    block_on(async {
        if !setup.exists() {
            return Err(unknown(&args.run));
        }
        let engine = engine(&setup, &progress).await?;
        let outcome = engine.resume(resume).await;
        progress.end();
        telemetry::end(&engine.telemetry).await;
        finish(outcome, json)
    })
}

fn usage(message: &str) -> Failure {
    Failure::new(USAGE, "usage", message)
}

/// A run that is not there.
fn unknown(run: &str) -> Failure {
    let message = format!("there is no run {run:?}; `scrollback lens list` shows what there is");
    Failure::new(USAGE, "unknown_run", message)
}

/// The folder of the flow, such that a resume from anywhere finds what the flow names.
fn absolute(loaded: &LoadedFlow) -> std::path::PathBuf {
    let folder = loaded.folder();
    std::path::absolute(&folder).unwrap_or(folder)
}

/// A text on the command line, or on standard input.
fn text_of(given: Option<&str>) -> Result<Option<String>, Failure> {
    match given {
        Some("-") => {
            let bytes = input::read("-".as_ref())?;
            let text = String::from_utf8(bytes).map_err(|_| usage("standard input is not UTF-8"))?;
            Ok(Some(text.strip_suffix('\n').map(String::from).unwrap_or(text)))
        }
        other => Ok(other.map(String::from)),
    }
}

/// Asks on the terminal what the run shall work on. Elsewhere there is no one to ask.
fn asked_input() -> Result<String, Failure> {
    let missing = || usage("the flow reads its input; give it with --input TEXT, or --input - to read it");
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(missing());
    }
    let mut err = anstream::stderr();
    let _ = write!(err, "What should the run work on?\n> ").and_then(|()| err.flush());
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::io("standard input", &error))?;
    let line = line.trim_end_matches(['\n', '\r']);
    if line.trim().is_empty() { Err(missing()) } else { Ok(line.to_string()) }
}

/// Finds out before anything runs whether every model can be asked: its name, its script, its key.
fn can_be_asked(flow: &Flow, catalog: &Catalog) -> Result<(), Failure> {
    for step in flow.all_steps() {
        let StepKind::Agent(agent) = &step.kind else { continue };
        catalog.provider_in(&agent.agent.model, &agent.agent.folder).map_err(|error| {
            let exit = match error.kind() {
                NoProviderKind::BadModel | NoProviderKind::BadScript => INVALID,
                NoProviderKind::BadConfig => USAGE,
                _ => FAILED,
            };
            Failure::new(exit, error.code(), format!("step {}: {error}", step.name))
        })?;
    }
    Ok(())
}

/// What runs flows, on the store that is configured.
async fn engine(setup: &Setup, progress: &Progress) -> Result<Engine, Failure> {
    let store = setup.open(Intent::Write).await?;
    let catalog = Arc::new(setup.config.catalog());
    let redactor = Redactor::new(&setup.config.redaction())
        .map_err(|error| Failure::new(USAGE, "bad_config", error.to_string()))?;
    let mut engine = Engine::new(store, setup.tenant(), catalog, Arc::new(redactor));
    engine.watcher = progress.watcher();
    engine.exporter = progress.exporter();
    engine.preview = progress.preview(&engine.redactor);
    engine.telemetry = telemetry::start(&setup.config)?;
    on_signals(&engine.stop);
    Ok(engine)
}

/// The first signal asks the run to stop at the next safe point; the next one ends the process.
fn on_signals(stop: &StopSignal) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            // Without a handler the signal ends the process, and what is stored can be resumed all the same.
            let Ok(mut signals) = signal(kind) else { continue };
            let stop = stop.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    if stop.is_asked() {
                        std::process::exit(130);
                    }
                    stop.stop();
                }
            });
        }
    }
    #[cfg(not(unix))]
    let _ = stop;
}

/// Asks on the terminal; none if the input ended, or a stop was requested.
async fn ask(pause: &PauseReport, stop: &StopSignal) -> Result<Option<String>, Failure> {
    let prompt = if std::io::stdin().is_terminal() { "> " } else { "" };
    let (bold, reset) = (anstyle::Style::new().bold(), anstyle::Reset);
    let mut err = anstream::stderr();
    let _ = write!(err, "{bold}{}{reset}\n{prompt}", pause.message).and_then(|()| err.flush());
    let (sender, answered) = tokio::sync::oneshot::channel();
    // A thread of its own: it may wait for a line that never comes, and nothing waits for it.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ = sender.send(read.map(|count| (count > 0).then_some(line)));
    });
    let read = tokio::select! {
        read = answered => read.unwrap_or(Ok(None)),
        () = stop.asked() => Ok(None),
    };
    let line = read.map_err(|error| Failure::io("standard input", &error))?;
    Ok(line.map(|line| line.trim_end_matches(['\n', '\r']).to_string()))
}

/// Prints the result of a run, and says it with the exit code.
fn finish(outcome: Result<RunReport, RunRefused>, json: bool) -> Result<ExitCode, Failure> {
    let report = outcome?;
    if json {
        input::print(&format!("{}\n", json!(report)))?;
    } else {
        tell(&report)?;
    }
    Ok(match report.status {
        RunStatus::Done => ExitCode::SUCCESS,
        RunStatus::Paused => ExitCode::from(PAUSED),
        RunStatus::Failed | RunStatus::Interrupted | RunStatus::Running => ExitCode::from(FAILED),
    })
}

/// The result of a run, for people.
fn tell(report: &RunReport) -> Result<(), Failure> {
    let run = &report.run;
    match report.status {
        RunStatus::Done => {
            let text = match &report.output {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            input::print(&format!("{text}\n"))?;
        }
        RunStatus::Paused => {
            for pause in &report.pauses {
                input::print(&format!("{}\n", pause.message))?;
            }
            let several = report.pauses.len() > 1;
            for pause in &report.pauses {
                let step = if several { format!(" --step '{}'", pause.step) } else { String::new() };
                input::note(&format!("to answer: scrollback resume {run}{step} --input ANSWER"));
            }
        }
        RunStatus::Failed => {
            if let Some(error) = &report.error {
                complain(&error.to_string());
            }
            input::note(&format!("to try again: scrollback resume {run}"));
        }
        RunStatus::Interrupted | RunStatus::Running => {
            input::note(&format!("interrupted; to go on: scrollback resume {run}"));
        }
    }
    Ok(())
}

impl From<RunRefused> for Failure {
    fn from(refused: RunRefused) -> Self {
        let exit = match refused.kind() {
            RefusedKind::InvalidAnswer | RefusedKind::InvalidFlow => INVALID,
            RefusedKind::Busy | RefusedKind::Store => FAILED,
            _ => USAGE,
        };
        let failure = Failure::new(exit, refused.code(), refused.to_string());
        if refused.errors.is_empty() { failure } else { failure.listing(refused.errors) }
    }
}
