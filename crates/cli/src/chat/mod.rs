//! `scrollback chat`: a conversation with a model or an agent in the terminal.

pub(crate) mod args;
mod record;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anstyle::{AnsiColor, Reset, Style};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use scrollback_agent::StopSignal;
use scrollback_agent::agent_file::AgentFile;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::{Catalog, Environment, Provider};
use scrollback_agent::react::{AgentSession, QueryStatus, SessionResult};
use scrollback_agent::runner::Runner;
use scrollback_core::manager::{SharedManager, parse_list};
use scrollback_core::{Record, Role};
use scrollback_subagent::read_signature;

use crate::agent::{self, progress, provider_named, provider_of_file};
use crate::amounts::counted;
use crate::failure::{FAILED, Failure, INVALID, USAGE, complain};
use crate::store::{Intent, Setup, block_on, now, one_line, width};
use crate::{input, telemetry};
use args::ChatArgs;
use record::Talk;

/// What answers where no agent is named: a model without instructions and tools.
const PLAIN: &str = "name: chat\n";

/// What a line says that was typed.
enum Typed<'l> {
    Nothing,
    Quit,
    Undo,
    Why,
    Recall(&'l str),
    Help,
    Unknown(&'l str),
    Said(&'l str),
}

impl<'l> Typed<'l> {
    fn of(line: &'l str) -> Self {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word {
            "" => Typed::Nothing,
            "/quit" | "/exit" | "/q" => Typed::Quit,
            "/undo" => Typed::Undo,
            "/why" => Typed::Why,
            "/recall" => Typed::Recall(rest.trim()),
            "/help" => Typed::Help,
            // A path is no command: `/etc/hosts says …`.
            _ if word.starts_with('/') && word.chars().skip(1).all(char::is_alphabetic) => {
                Typed::Unknown(word)
            }
            _ => Typed::Said(line),
        }
    }
}

pub(crate) fn run(args: &ChatArgs, json: bool) -> Result<ExitCode, Failure> {
    if json {
        return Err(Failure::new(
            USAGE,
            "usage",
            "chat talks to people; for programs there is `scrollback agent --json`",
        ));
    }
    let setup = Setup::new(&args.store)?;
    let mut file = agent_file(args, &setup)?;
    if !args.managers.is_empty() {
        file.history = parse_list(&args.managers)?;
    }
    let catalog = Arc::new(setup.config.catalog());
    let provider = match (&args.model, &file.model) {
        (Some(named), _) => provider_named(&catalog, named)?,
        (None, Some(named)) => provider_of_file(&catalog, named, &file.folder)?,
        (None, None) => {
            let message = "the agent names no model; write `model: provider:model`, or give --model";
            return Err(Failure::new(INVALID, "invalid_agent", message));
        }
    };
    let mut runner = Runner::new(Arc::clone(&provider));
    file.set_up(&mut runner, now());
    // A person may think for hours between two turns.
    runner.deadline = None;
    runner.catalog = catalog;
    runner.sink = Some(agent::to_output());
    progress::end_lines(&runner.bus, agent::end_line);
    progress::follow_results(&runner.bus);
    progress::follow_throttling(&runner.bus);
    agent::on_interrupt(&runner.stop);
    runner.catalog = Arc::new(Catalog::clone(&runner.catalog).with_recall(file.wishes));
    let stop = runner.stop.clone();
    block_on(async {
        let telemetry = telemetry::start(&setup.config)?;
        runner.telemetry = telemetry.clone();
        runner.tools = file
            .tools
            .connect()
            .await
            .map_err(|error| Failure::new(FAILED, "mcp_server", format!("{error}")))?;
        let manager = Arc::clone(&runner.manager);
        let (journal, talk) = journal(args, &setup, &stop).await?;
        if file.recall {
            if talk.store.is_none() {
                let message = "the agent looks things up in its record (`recall: true`), which takes a store: give --store or \
                               --recipient";
                return Err(Failure::new(USAGE, "usage", message));
            }
            agent::add_recall(&mut runner, &journal)?;
        }
        let session = AgentSession::new(&*file.name, file.system, runner, file.react, journal);
        let mut chat = TerminalChat { session, talk, provider, manager, setup: &setup, asked: false };
        chat.greet().await?;
        let mut lines = Typing::new()?;
        while !stop.is_asked()
            && let Some(line) = lines.next()?
        {
            if !chat.take(&line).await? {
                break;
            }
        }
        lines.end();
        telemetry::end(&telemetry).await;
        Ok(ExitCode::SUCCESS)
    })
}

fn agent_file(args: &ChatArgs, setup: &Setup) -> Result<AgentFile, Failure> {
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    let Some(file) = &args.file else {
        let read = AgentFile::parse(PLAIN, Path::new("."), &environment, read_signature);
        return read.map_err(|_| Failure::new(FAILED, "internal", "the plain agent is no agent"));
    };
    if !file.is_file() {
        return Err(Failure::new(USAGE, "io", format!("{}: no such file", file.display())));
    }
    AgentFile::load(file, &environment, read_signature)
        .map_err(|found| agent::invalid(file, None, &setup.config.redaction(), &found))
}

/// The record it is written to, and where that is.
async fn journal(args: &ChatArgs, setup: &Setup, stop: &StopSignal) -> Result<(Journal, Talk), Failure> {
    let asked = agent::JournalOf {
        recipient: args.recipient.as_deref(),
        conversation: args.conversation.as_deref(),
        store: &args.store,
        recalls: false,
    };
    if asked.recipient.is_some() || asked.conversation.is_some() {
        agent::until_free(agent::WhenBusy::of(args.wait), &asked, setup, stop).await?;
    }
    let journal = agent::journal(&asked, setup).await?;
    let stored = journal.conversation().is_some();
    let store = if stored { Some(setup.open(Intent::Write).await?) } else { None };
    Ok((journal, Talk { store, tenant: setup.tenant() }))
}

struct TerminalChat<'s> {
    session: AgentSession,
    talk: Talk,
    provider: Arc<dyn Provider>,
    manager: SharedManager,
    setup: &'s Setup,
    /// Whether the agent asked something that the next line answers.
    asked: bool,
}

impl TerminalChat<'_> {
    /// Says who answers, and how much was said before.
    async fn greet(&self) -> Result<(), Failure> {
        if !std::io::stdin().is_terminal() {
            return Ok(());
        }
        let said = self.session.with_journal(|journal| journal.record().message_count()).await;
        let before =
            if said > 0 { format!(", {} so far", counted(said as u64, "entry")) } else { String::new() };
        let model = self.provider.describe().model;
        let dim = Style::new().dimmed();
        input::print_styled(&format!("{dim}{model}{before}. /help lists commands, /quit ends.{Reset}\n"))
    }

    /// Does what a line says; whether the conversation goes on.
    async fn take(&mut self, line: &str) -> Result<bool, Failure> {
        match Typed::of(line) {
            Typed::Nothing => {}
            Typed::Quit => return Ok(false),
            Typed::Help => input::print("/undo  /why  /recall WORDS  /quit\n")?,
            Typed::Unknown(word) => {
                complain(&format!("unknown command {word}; known: /undo, /why, /recall, /quit"));
            }
            Typed::Undo => self.undo().await?,
            Typed::Why => self.why().await?,
            Typed::Recall(words) => self.recall(words).await?,
            Typed::Said(text) => self.say(text).await?,
        }
        Ok(true)
    }

    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        let result = if self.asked {
            let resumed = self.session.resume(Some(text)).await;
            resumed.map_err(|error| Failure::new(FAILED, error.code(), error.to_string()))?
        } else {
            let asked = self.session.query(text).await;
            asked.map_err(|error| Failure::new(USAGE, "usage", error.to_string()))?
        };
        self.asked = result.status == QueryStatus::Paused;
        tell(&result)
    }

    /// Takes the last turn back.
    async fn undo(&mut self) -> Result<(), Failure> {
        let record = self.session.with_journal(|journal| record::below(journal.record(), u64::MAX)).await?;
        let Some(at) = record::last_turn(&record) else {
            complain("there is no turn to take back");
            return Ok(());
        };
        let text = record.entry(at).and_then(|entry| entry.content()).unwrap_or_default();
        let place = self
            .session
            .with_journal(|journal| (journal.conversation().cloned(), journal.recipient().cloned()))
            .await;
        let journal = self.talk.below(&record, place, at).await?;
        self.session.reset(journal).await;
        self.asked = false;
        let dim = Style::new().dimmed();
        input::print_styled(&format!(
            "{dim}taken back: {}{Reset}\n",
            one_line(&text, width().saturating_sub(12))
        ))
    }

    /// Explains the view that the last reply was given to.
    async fn why(&self) -> Result<(), Failure> {
        let record = self.session.with_journal(|journal| record::below(journal.record(), u64::MAX)).await?;
        let replied = (0..record.len() as u64)
            .rev()
            .find(|position| record.entry(*position).is_some_and(|entry| entry.role == Role::Assistant));
        let Some(replied) = replied else {
            complain("nothing was answered yet");
            return Ok(());
        };
        record::explain(record::below(&record, replied)?, &self.manager, &*self.provider, &self.setup.config)
    }

    /// Finds what was said.
    async fn recall(&self, words: &str) -> Result<(), Failure> {
        let record: Record =
            self.session.with_journal(|journal| record::below(journal.record(), u64::MAX)).await?;
        let found = record::recall(&record, words);
        if found.is_empty() {
            return input::print(&format!("nothing was said with {words:?}\n"));
        }
        let (dim, colour) = (Style::new().dimmed(), AnsiColor::Cyan.on_default());
        let lines = found.iter().map(|(position, role, text)| {
            let text = one_line(text, width().saturating_sub(20));
            format!("{dim}{position:>5}{Reset}  {colour}{role:9}{Reset}  {text}\n")
        });
        input::print_styled(&lines.collect::<String>())
    }
}

/// Says what is not part of the reply itself.
fn tell(result: &SessionResult) -> Result<(), Failure> {
    if let Some(question) = result.question.as_ref() {
        input::print(&format!("{}\n", question.text))?;
    }
    if let Some(error) = &result.error {
        complain(&error.to_string());
    }
    Ok(())
}

/// Lines as a person types them, with the lines of earlier sessions; lines of a file elsewhere.
struct Typing {
    editor: DefaultEditor,
    history: Option<std::path::PathBuf>,
}

impl Typing {
    fn new() -> Result<Self, Failure> {
        let mut editor = DefaultEditor::new()
            .map_err(|error| Failure::new(FAILED, "terminal", format!("the terminal: {error}")))?;
        let history = if std::io::stdin().is_terminal() { input::history_file("chat-history") } else { None };
        if let Some(file) = &history {
            let _ = editor.load_history(file);
        }
        Ok(Typing { editor, history })
    }

    /// The next line; none at the end.
    fn next(&mut self) -> Result<Option<String>, Failure> {
        let prompt = if std::io::stdin().is_terminal() { "> " } else { "" };
        match self.editor.readline(prompt) {
            Ok(line) => {
                let _ = self.editor.add_history_entry(line.as_str());
                Ok(Some(line))
            }
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => Ok(None),
            Err(error) => Err(Failure::new(FAILED, "terminal", format!("the terminal: {error}"))),
        }
    }

    fn end(&mut self) {
        if let Some(file) = &self.history {
            let _ = self.editor.save_history(file);
        }
    }
}
