//! `scrollback agent`: a `ReAct` agent over tools, from a file.

mod answer;
pub(crate) mod args;
pub(crate) mod progress;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scrollback_agent::StopSignal;
use scrollback_agent::agent_file::AgentFile;
use scrollback_agent::document::DocumentProblem;
use scrollback_agent::journal::Journal;
use scrollback_agent::lease::{described, is_dead};
use scrollback_agent::provider::{Catalog, Environment, NoProvider, NoProviderKind, Provider};
use scrollback_agent::react::{AgentSession, QueryStatus, SessionResult};
use scrollback_agent::runner::{CannotResume, CannotResumeKind, Runner, Sink, Trace};
use scrollback_agent::tool::{RecallNames, recall_tools};
use scrollback_core::Record;
use scrollback_core::manager::parse_list;
use scrollback_core::redact::{Options, Redactor};
use scrollback_core::stream::Delta;
use scrollback_store::{EvaluationStatus, Memory};
use scrollback_subagent::read_signature;
use serde_json::{Value, json};

use crate::failure::{FAILED, Failure, INVALID, USAGE, complain};
use crate::flow::problem_text::document_problems;
use crate::store::args::StoreArgs;
use crate::store::{Intent, Setup, block_on, conversation_named, now, recipient_named};
use crate::{input, telemetry};
use answer::AgentJson;
use args::AgentArgs;

/// Exit code of an agent that waits for a person.
const PAUSED: u8 = 3;

pub(crate) fn run(args: &AgentArgs, json: bool) -> Result<ExitCode, Failure> {
    let asked = input_text(args)?;
    if args.resume && args.recipient.is_none() && args.conversation.is_none() {
        return Err(usage("--resume needs --recipient or --conversation, to know what to continue"));
    }
    let setup = Setup::new(&args.store)?;
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    if !args.file.is_file() {
        let message = format!("{}: no such file", args.file.display());
        return Err(Failure::new(USAGE, "io", message));
    }
    let mut file = AgentFile::load(&args.file, &environment, read_signature)
        .map_err(|found| invalid(&args.file, None, &setup.config.redaction(), &found))?;
    if !args.managers.is_empty() {
        file.history = parse_list(&args.managers)?;
    }
    let catalog = Arc::new(setup.config.catalog());
    let provider = provider(args, &file, &catalog)?;
    let mut runner = Runner::new(provider);
    file.set_up(&mut runner, now());
    runner.catalog = Arc::new(Catalog::clone(&catalog).with_recall(file.wishes));
    runner.trace = args.trace.as_deref().map(trace_to).transpose()?;
    if args.stream {
        let stream = if json { TextSink::Error } else { TextSink::Output };
        runner.sink = Some(stream_to(stream));
        progress::end_lines(&runner.bus, move || stream.write("\n"));
    } else {
        progress::follow(&runner.bus);
    }
    if args.verbose {
        progress::follow_results(&runner.bus);
    }
    on_interrupt(&runner.stop);
    block_on(async {
        let telemetry = telemetry::start(&setup.config)?;
        runner.telemetry = telemetry.clone();
        runner.tools = file
            .tools
            .connect()
            .await
            .map_err(|error| Failure::new(FAILED, "mcp_server", format!("{error}")))?;
        let of = JournalOf {
            recipient: args.recipient.as_deref(),
            conversation: args.conversation.as_deref(),
            store: &args.store,
            recalls: file.recall,
        };
        if !args.resume && (of.recipient.is_some() || of.conversation.is_some()) {
            until_free(WhenBusy::of(args.wait), &of, &setup, &runner.stop).await?;
        }
        let journal = journal(&of, &setup).await?;
        if file.recall {
            add_recall(&mut runner, &journal)?;
        }
        let session = AgentSession::new(&*file.name, file.system, runner, file.react, journal);
        let result = if args.resume {
            resume(&session, asked.as_deref()).await?
        } else {
            let asked = asked.unwrap_or_default();
            session.query(&asked).await.map_err(|error| usage(&error.to_string()))?
        };
        telemetry::end(&telemetry).await;
        report(&session, &result, args, json).await
    })
}

/// What the agent is asked, or answered; none if nothing was given.
fn input_text(args: &AgentArgs) -> Result<Option<String>, Failure> {
    let text = match args.input.as_deref().or(args.prompt.as_deref()) {
        Some("-") => {
            let bytes = input::read("-".as_ref())?;
            Some(String::from_utf8(bytes).map_err(|_| usage("standard input is not UTF-8"))?)
        }
        other => other.map(String::from),
    };
    let text = text.map(|text| text.trim_end_matches('\n').to_string());
    match text {
        Some(text) if text.trim().is_empty() => Err(usage("--input is blank; say what the agent shall do")),
        None if !args.resume => Err(usage(
            "--input is missing; say what the agent shall do, as an argument or with --input, or - to read it",
        )),
        text => Ok(text),
    }
}

fn provider(args: &AgentArgs, file: &AgentFile, catalog: &Catalog) -> Result<Arc<dyn Provider>, Failure> {
    if let Some(named) = &args.model {
        return provider_named(catalog, named);
    }
    let Some(named) = &file.model else {
        let problem = "`model` is missing; write `model: provider:model`, or give --model";
        return Err(Failure::new(INVALID, "invalid_agent", format!("{}: {problem}", args.file.display())));
    };
    provider_of_file(catalog, named, &file.folder)
}

/// The provider of a model that a file in a folder names.
pub(crate) fn provider_of_file(
    catalog: &Catalog,
    named: &str,
    folder: &Path,
) -> Result<Arc<dyn Provider>, Failure> {
    catalog.provider_in(named, folder).map_err(|error| {
        let exit = match error.kind() {
            NoProviderKind::BadModel | NoProviderKind::BadScript => INVALID,
            NoProviderKind::BadConfig => USAGE,
            _ => FAILED,
        };
        failed(&error, exit)
    })
}

fn failed(error: &NoProvider, exit: u8) -> Failure {
    Failure::new(exit, error.code(), error.to_string())
}

fn usage(message: &str) -> Failure {
    Failure::new(USAGE, "usage", message)
}

/// Every mistake in the file: one line each for programs, marked lines for people. `text` is what it says, where it cannot be read
/// again.
pub(crate) fn invalid(
    file: &Path,
    text: Option<&str>,
    redaction: &Options,
    problems: &[DocumentProblem],
) -> Failure {
    let lines: Vec<String> = problems.iter().map(|problem| format!("{}:{problem}", file.display())).collect();
    let list: Vec<Value> = problems.iter().map(Value::from).collect();
    let failure = Failure::several(INVALID, "invalid_agent", lines).with("problems", list);
    let text = text.map_or_else(|| std::fs::read_to_string(file).unwrap_or_default(), String::from);
    match Redactor::new(redaction) {
        Ok(redactor) => failure.marked(document_problems(&text, file, &redactor, problems)),
        Err(_) => failure,
    }
}

/// Gives an agent the tools that look things up in its record; a record that no store keeps has none.
pub(crate) fn add_recall(runner: &mut Runner, journal: &Journal) -> Result<(), Failure> {
    let Some(place) = journal.recall(Arc::clone(&runner.clock)) else { return Ok(()) };
    for tool in recall_tools(&place, RecallNames::Prefixed) {
        runner.tools.add(tool).map_err(|taken| Failure::new(INVALID, "invalid_agent", taken.to_string()))?;
    }
    Ok(())
}

/// What the command line says about where a conversation is written.
pub(crate) struct JournalOf<'a> {
    pub(crate) recipient: Option<&'a str>,
    pub(crate) conversation: Option<&'a str>,
    pub(crate) store: &'a StoreArgs,
    /// Whether the agent looks things up in the record, which takes a store.
    pub(crate) recalls: bool,
}

/// Where the conversation is written: where it was named, or in a store if one was, or nowhere.
pub(crate) async fn journal(of: &JournalOf<'_>, setup: &Setup) -> Result<Journal, Failure> {
    let tenant = setup.tenant();
    if let Some(id) = of.conversation {
        let id = conversation_named(id)?;
        return Ok(Journal::open(setup.open(Intent::Write).await?, tenant, id).await?);
    }
    if let Some(recipient) = of.recipient {
        let recipient = recipient_named(recipient)?;
        return Ok(Journal::with(setup.open(Intent::Write).await?, tenant, &recipient, now()).await?);
    }
    let named = of.store.store.is_some() || std::env::var_os("SCROLLBACK_STORE").is_some();
    if named {
        return Ok(Journal::begin(setup.open(Intent::Write).await?, tenant, now()));
    }
    if of.recalls {
        // Recall reads a store; this one ends with the process.
        return Ok(Journal::begin(Arc::new(Memory::new()), tenant, now()));
    }
    Ok(Journal::memory(Record::new()))
}

/// How often is looked whether a conversation is free.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What to do while another process works on a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenBusy {
    /// Wait until it has finished.
    Wait,
    /// Fail, and say who it is.
    Fail,
}

impl WhenBusy {
    /// What `--wait` says.
    pub(crate) fn of(wait: bool) -> Self {
        if wait { WhenBusy::Wait } else { WhenBusy::Fail }
    }
}

/// Waits until no living process works on the conversation, where that is wanted; says who does otherwise.
pub(crate) async fn until_free(
    when_busy: WhenBusy,
    of: &JournalOf<'_>,
    setup: &Setup,
    stop: &StopSignal,
) -> Result<(), Failure> {
    let (store, tenant) = (setup.open(Intent::Write).await?, setup.tenant());
    let id = match (of.conversation, of.recipient) {
        (Some(id), _) => Some(conversation_named(id)?),
        (None, Some(name)) => {
            store.current(&tenant, &recipient_named(name)?).await?.map(|current| current.id)
        }
        (None, None) => None,
    };
    let Some(id) = id else { return Ok(()) };
    let mut told = false;
    loop {
        let all = store.evaluations(&tenant, &id).await?;
        let held = all.into_iter().filter(|one| one.status == EvaluationStatus::Running);
        let lease =
            held.filter_map(|one| one.lease).find(|lease| lease.until > now() && !is_dead(&lease.holder));
        let Some(lease) = lease else { return Ok(()) };
        let who = described(&lease.holder);
        if when_busy == WhenBusy::Fail {
            let message = format!("{who} works on this conversation; --wait waits until it has finished");
            return Err(Failure::new(FAILED, "busy", message).with("holder", lease.holder));
        }
        if !std::mem::replace(&mut told, true) {
            input::note(&format!("waiting for {who}, which works on this conversation"));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = stop.asked() => return Err(Failure::new(FAILED, "interrupted", "stopped while waiting")),
        }
    }
}

async fn resume(session: &AgentSession, answer: Option<&str>) -> Result<SessionResult, Failure> {
    session.resume(answer).await.map_err(|error: CannotResume| match error.kind() {
        CannotResumeKind::AnswerMissing => usage("a question is open; give its answer with --input"),
        CannotResumeKind::NoQuestion => {
            usage("no question is open; omit --input to go on, or omit --resume to ask something new")
        }
        _ => Failure::new(FAILED, error.code(), error.to_string()),
    })
}

async fn report(
    session: &AgentSession,
    result: &SessionResult,
    args: &AgentArgs,
    json: bool,
) -> Result<ExitCode, Failure> {
    let conversation = session.with_journal(|journal| journal.conversation().map(ToString::to_string)).await;
    let entries = session.with_journal(|journal| journal.record().message_count()).await;
    if json {
        let answer = AgentJson::of(result, conversation.as_deref(), entries);
        input::print(&format!("{}\n", json!(answer)))?;
    } else if let Some(answer) = result.answer.as_ref().filter(|_| !args.stream) {
        input::print(&format!("{answer}\n"))?;
    }
    Ok(match result.status {
        QueryStatus::Done => ExitCode::SUCCESS,
        QueryStatus::Paused => {
            let question = result.question.as_ref().map_or("", |question| question.text.as_str());
            let again = match (&args.recipient, &conversation) {
                (Some(recipient), _) => format!("--recipient {recipient}"),
                (None, Some(id)) => format!("--conversation {id}"),
                (None, None) => String::new(),
            };
            if !json {
                input::print(&format!("{question}\n"))?;
            }
            if again.is_empty() {
                input::note("nothing was stored, so this cannot be resumed; name a --recipient or a --store");
            } else {
                input::note(&format!("to answer: scrollback agent FILE --resume {again} --input ANSWER"));
            }
            ExitCode::from(PAUSED)
        }
        QueryStatus::Failed => {
            if let Some(error) = &result.error {
                complain(&error.to_string());
            }
            ExitCode::from(FAILED)
        }
    })
}

/// A line per request, written as soon as it is made.
fn trace_to(path: &std::path::Path) -> Result<Trace, Failure> {
    let file = input::create(path)?;
    let file = Mutex::new(file);
    Ok(Arc::new(move |attempt| {
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        // A trace that cannot be written does not stop the agent.
        let _ = serde_json::to_string(attempt).map(|line| writeln!(file, "{line}"));
    }))
}

/// Where text goes as it comes.
#[derive(Clone, Copy)]
enum TextSink {
    Output,
    Error,
}

impl TextSink {
    fn write(self, text: &str) {
        // A reader that left does not stop the agent.
        let _ = match self {
            TextSink::Output => write!(std::io::stdout(), "{text}").and_then(|()| std::io::stdout().flush()),
            TextSink::Error => write!(std::io::stderr(), "{text}"),
        };
    }
}

/// Prints text as it comes.
pub(crate) fn to_output() -> Sink {
    stream_to(TextSink::Output)
}

/// Ends the line after a text that was printed as it came.
pub(crate) fn end_line() {
    TextSink::Output.write("\n");
}

fn stream_to(stream: TextSink) -> Sink {
    Arc::new(move |delta| {
        if let Delta::Text(text) = delta {
            stream.write(text);
        }
    })
}

/// The first Ctrl-C asks the agent to stop at the next safe point; the next one ends the process.
pub(crate) fn on_interrupt(stop: &StopSignal) {
    let stop = stop.clone();
    // Without a handler Ctrl-C ends the process, and everything recorded stays all the same.
    let _ = ctrlc::set_handler(move || {
        if stop.is_asked() {
            std::process::exit(130);
        }
        stop.stop();
    });
}

/// The provider of a model that was named on the command line.
pub(crate) fn provider_named(catalog: &Catalog, name: &str) -> Result<Arc<dyn Provider>, Failure> {
    catalog.provider_named(&input::full_model(name)).map_err(|error| {
        let exit = match error.kind() {
            NoProviderKind::BadScript => INVALID,
            NoProviderKind::MissingKey => FAILED,
            _ => USAGE,
        };
        failed(&error, exit)
    })
}
