//! `scrollback subagent`: a mission answered in PTC-Lisp, what its calls are sent, and strategies compared.

mod ab;
pub(crate) mod args;
mod progress;
mod render;
mod trace;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use scrollback_agent::journal::Journal;
use scrollback_agent::provider::{Catalog, Environment, Provider};
use scrollback_agent::tool::{RecallNames, recall_tools};
use scrollback_core::redact::Options;
use scrollback_lisp::Value;
use scrollback_store::{Memory, Run, RunKind};
use scrollback_subagent::case::read_data;
use scrollback_subagent::compression::{Chosen, parse};
use scrollback_subagent::{
    AgentTool, Host, InheritedSettings, OutputForm, Overlay, Step, SubAgent, SubagentErrorKind, SubagentFile,
    Views,
};
use serde_json::json;

use crate::agent::{invalid, on_interrupt, provider_named, provider_of_file};
use crate::failure::{FAILED, Failure, INVALID, USAGE, complain};
use crate::store::args::StoreArgs;
use crate::store::{Intent, Setup, block_on};
use crate::{input, telemetry};
use args::{RunArgs, SubagentArgs, SubagentCommand, TurnsView};

pub(crate) fn run(args: &SubagentArgs, json: bool) -> Result<ExitCode, Failure> {
    match (&args.command, &args.run) {
        (Some(SubagentCommand::Render { file }), _) => render::run(file),
        (Some(SubagentCommand::Ab(ab)), _) => ab::run(ab, &args.store, json),
        (None, Some(run)) => run_mission(run, &args.store, json),
        (None, None) => Err(usage("name an AGENT.yaml (see --help)")),
    }
}

fn usage(message: &str) -> Failure {
    Failure::new(USAGE, "usage", message)
}

/// A strategy that was named on the command line.
fn compression_named(text: &str) -> Result<Chosen, Failure> {
    parse(text).map_err(|error| Failure::new(USAGE, "bad_compression", format!("--compression: {error}")))
}

fn run_mission(args: &RunArgs, store: &StoreArgs, json: bool) -> Result<ExitCode, Failure> {
    let piped = Path::new("-");
    if args.file == piped && args.data.as_deref() == Some(piped) {
        return Err(usage("the sub-agent and its data cannot both come from standard input"));
    }
    let setup = Setup::new(store)?;
    let overlay = Overlay { mission: args.mission.clone() };
    let file = load(&args.file, &overlay, &setup.config.redaction())?;
    let catalog = Arc::new(setup.config.catalog());
    let mut settings = InheritedSettings {
        model: model(args.model.as_deref(), &file, &catalog)?,
        ..InheritedSettings::default()
    };
    if let Some(text) = &args.compression {
        settings.compression = Some(compression_named(text)?);
    }
    let data = args.data.as_deref().map(data_file).transpose()?.unwrap_or_default();
    let is_stored = store.store.is_some() || std::env::var_os("SCROLLBACK_STORE").is_some();
    let mut host = Host { catalog: Arc::clone(&catalog), ..Host::default() };
    progress::follow(&host.bus);
    if args.verbose {
        crate::agent::progress::follow_results(&host.bus);
    }
    on_interrupt(&host.stop);
    block_on(async {
        if is_stored || args.resume.is_some() {
            host.store = Some((setup.open(Intent::Write).await?, setup.tenant()));
        }
        host.telemetry = telemetry::start(&setup.config)?;
        let recall = file.recall;
        if recall && host.store.is_none() {
            // Recall reads a store; this one ends with the process.
            host.store = Some((Arc::new(Memory::new()), setup.tenant()));
        }
        let host = Arc::new(host);
        let mut agent = connected(file, &catalog).await?;
        if let Some(turns) = args.max_turns {
            agent.max_turns = turns as usize;
        }
        let step = if let Some(id) = &args.resume {
            let (run, mut journal) = stored(&host, id).await?;
            if recall {
                add_recall(&mut agent, &journal, &host)?;
            }
            let resumed = agent.resume(Some(run), &settings, &host, &mut journal).await;
            resumed.map_err(|error| Failure::new(FAILED, error.code(), error.to_string()))?
        } else {
            let mut journal = host.journal();
            if recall {
                add_recall(&mut agent, &journal, &host)?;
            }
            start(&agent, &data, &settings, &host, &mut journal, &args.file).await?
        };
        telemetry::end(&host.telemetry).await;
        report(&step, args, json)
    })
}

/// An agent from its file; every mistake in it otherwise.
fn load(file: &Path, overlay: &Overlay, redaction: &Options) -> Result<SubagentFile, Failure> {
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    if file == Path::new("-") {
        let bytes = input::read(file)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::new(INVALID, "invalid_agent", "standard input is not UTF-8"))?;
        let read = SubagentFile::parse(&text, Path::new(""), overlay, &environment);
        return read.map_err(|found| invalid(file, Some(&text), redaction, &found));
    }
    if !file.is_file() {
        return Err(Failure::new(USAGE, "io", format!("{}: no such file", file.display())));
    }
    SubagentFile::load(file, overlay, &environment).map_err(|found| invalid(file, None, redaction, &found))
}

/// The model: that of the command line, else that of the file; none is for the mission to say.
fn model(
    named: Option<&str>,
    file: &SubagentFile,
    catalog: &Catalog,
) -> Result<Option<Arc<dyn Provider>>, Failure> {
    match (named, &file.model) {
        (Some(named), _) => provider_named(catalog, named).map(Some),
        (None, Some(named)) => provider_of_file(catalog, named, &file.folder).map(Some),
        (None, None) => Ok(None),
    }
}

/// The agent with the tools of its servers.
async fn connected(file: SubagentFile, catalog: &Catalog) -> Result<SubAgent, Failure> {
    file.connect(catalog).await.map_err(|error| match error.kind() {
        SubagentErrorKind::Server => Failure::new(FAILED, "mcp_server", error.to_string()),
        SubagentErrorKind::Model(kind) => Failure::new(INVALID, kind.code(), error.to_string()),
        _ => Failure::new(INVALID, "invalid_agent", error.to_string()),
    })
}

fn data_file(file: &Path) -> Result<BTreeMap<String, Value>, Failure> {
    let bytes = input::read(file)?;
    let read = read_data(&bytes);
    read.map_err(|error| Failure::new(INVALID, "invalid_data", error.to_string()).about(file))
}

async fn start(
    agent: &SubAgent,
    data: &BTreeMap<String, Value>,
    settings: &InheritedSettings,
    host: &Arc<Host>,
    journal: &mut Journal,
    file: &Path,
) -> Result<Step, Failure> {
    let ran = agent.run(data, settings, host, journal).await;
    ran.map_err(|error| {
        let mismatches = error.mismatches().iter();
        let lines = mismatches.map(|mismatch| format!("{}: data {mismatch}", file.display())).collect();
        Failure::several(INVALID, "invalid_data", lines)
    })
}

/// Lets programs of the agent search and read its own record.
fn add_recall(agent: &mut SubAgent, journal: &Journal, host: &Host) -> Result<(), Failure> {
    let Some(place) = journal.recall(Arc::clone(&host.clock)) else { return Ok(()) };
    let bad = |message: String| Failure::new(INVALID, "invalid_agent", message);
    for tool in recall_tools(&place, RecallNames::Bare) {
        let tool = AgentTool::new(tool, None, OutputForm::Text).map_err(|error| bad(error.to_string()))?;
        agent.add_tool(tool).map_err(|error| bad(error.to_string()))?;
    }
    Ok(())
}

/// A stored run of a sub-agent and its record.
async fn stored(host: &Host, id: &str) -> Result<(Run, Journal), Failure> {
    let Some((store, tenant)) = &host.store else {
        return Err(usage("a store is needed; name it with --store"));
    };
    let runs = store.runs(tenant, id, 2).await?;
    let unknown = |message: String| Failure::new(USAGE, "unknown_run", message);
    let [run] = runs.as_slice() else {
        return Err(unknown(match runs.len() {
            0 => format!("there is no run {id:?} in {}", store.describe()),
            _ => format!("several runs begin with {id:?}; give more of the id"),
        }));
    };
    if run.kind != RunKind::Subagent {
        return Err(unknown(format!("run {} is a {}, not a sub-agent", run.id, run.kind)));
    }
    let Some(conversation) = run.conversation.clone() else {
        return Err(unknown(format!("run {} has no record", run.id)));
    };
    let journal = Journal::open(Arc::clone(store), tenant.clone(), conversation).await?;
    Ok((run.clone(), journal))
}

fn report(step: &Step, args: &RunArgs, json: bool) -> Result<ExitCode, Failure> {
    if json {
        let mut told = step.to_json();
        told["calls"] = json!(step.sent.calls_json(&step.turns));
        input::print(&format!("{told}\n"))?;
    } else {
        if !args.show.is_empty() {
            trace::print(step, views(args))?;
        }
        if let Ok(value) = &step.outcome {
            input::print(&format!("{}\n", plain(value)))?;
        }
        step.warnings.iter().for_each(|warning| input::note(warning));
    }
    let Err(fail) = &step.outcome else { return Ok(ExitCode::SUCCESS) };
    complain(&format!("{}: {}", fail.reason.as_str(), fail.message));
    if let Some(run) = step.run.as_ref().filter(|_| !json && can_go_on(step)) {
        input::note(&format!("to go on: scrollback subagent FILE --resume {run}"));
    }
    Ok(ExitCode::from(FAILED))
}

/// Whether a mission that failed may come to another end when it is resumed.
fn can_go_on(step: &Step) -> bool {
    use scrollback_subagent::EndReason::{Cancelled, LlmError, MissionTimeout};
    matches!(step.end(), Cancelled | LlmError | MissionTimeout)
}

/// The value as people and scripts want it: a text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::Str(text) => text.as_str().to_string(),
        other => other.to_json(),
    }
}

fn views(args: &RunArgs) -> Views {
    let has = |view: TurnsView| args.show.contains(&view);
    Views {
        turns: has(TurnsView::Turns),
        compressed: has(TurnsView::Compressed),
        raw: has(TurnsView::Raw),
        usage: has(TurnsView::Usage),
        full: args.full,
    }
}
