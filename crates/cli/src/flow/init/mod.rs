//! `scrollback init`: a flow to begin with, and the settings beside it.

mod files;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use scrollback_flow::callable_model;
use serde_json::json;

use super::args::{InitArgs, TemplateArg};
use crate::failure::{FAILED, Failure, USAGE};
use crate::input;

/// What shall be written.
struct NewFlow {
    template: TemplateArg,
    model: String,
    memory: NewMemory,
}

/// What the loop of a new flow remembers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NewMemory {
    /// Up to so many turns are sent.
    Turns(u32),
    /// Nothing.
    None,
}

/// The model of a flow that shall run on any machine.
const OFFLINE: &str = "offline:echo";
/// Turns that are sent by default.
const TURNS: u32 = 20;

pub(crate) fn run(args: &InitArgs, json: bool) -> Result<ExitCode, Failure> {
    if let Some(model) = &args.model {
        judge(&input::full_model(model)).map_err(|message| Failure::new(USAGE, "unknown_model", message))?;
    }
    let files = ["flow.yaml", "scrollback.toml"].map(|name| args.folder.join(name));
    refuse_existing(&files, args)?;
    let args = &InitArgs { model: args.model.as_deref().map(input::full_model), ..args.clone() };
    let asks = !args.yes && !json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let wish = if asks { ask(args, &mut std::io::stdin().lock())? } else { usual(args) };
    let [flow, settings] = &files;
    std::fs::create_dir_all(&args.folder).map_err(|error| io(&args.folder, &error))?;
    std::fs::write(flow, files::flow(&wish)).map_err(|error| io(flow, &error))?;
    std::fs::write(settings, files::settings(&wish)).map_err(|error| io(settings, &error))?;
    let created: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let next = next(&args.folder, &wish);
    if json {
        input::print(&format!("{}\n", json!({ "created": created, "next": next })))?;
    } else {
        let lines: Vec<String> = next.iter().map(|command| format!("  {command}\n")).collect();
        input::print(&format!("Wrote {}.\nNext:\n{}", created.join(" and "), lines.concat()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is written without asking.
fn usual(args: &InitArgs) -> NewFlow {
    NewFlow {
        template: args.template.unwrap_or(TemplateArg::Chat),
        model: args.model.clone().unwrap_or_else(|| OFFLINE.into()),
        memory: NewMemory::Turns(TURNS),
    }
}

fn refuse_existing(files: &[PathBuf], args: &InitArgs) -> Result<(), Failure> {
    let there: Vec<String> =
        files.iter().filter(|path| path.exists()).map(|path| path.display().to_string()).collect();
    if there.is_empty() || args.force {
        return Ok(());
    }
    let (verb, what) = if there.len() == 1 { ("is", "it") } else { ("are", "them") };
    let message = format!("{} {verb} there already; --force writes over {what}", there.join(" and "));
    Err(Failure::new(FAILED, "exists", message).with("files", there))
}

/// The commands to go on with.
fn next(folder: &Path, wish: &NewFlow) -> Vec<String> {
    let enter = if folder == Path::new(".") { String::new() } else { format!("cd {} && ", folder.display()) };
    let start = match wish.template {
        TemplateArg::Chat => "Hello! What can you do?",
        TemplateArg::Pipeline => "The invoice page shows an error since Monday.",
        TemplateArg::Review => "Three sentences about tea",
    };
    vec![
        format!("{enter}scrollback validate flow.yaml"),
        format!("{enter}scrollback run flow.yaml --input '{start}' --interactive"),
        format!("{enter}scrollback lens list"),
    ]
}

/// Asks on the terminal what was not said on the command line. An empty answer takes the default.
fn ask(args: &InitArgs, lines: &mut dyn BufRead) -> Result<NewFlow, Failure> {
    let usual = usual(args);
    let template =
        match args.template {
            Some(template) => template,
            None => question(lines, "What is the flow for: chat, pipeline or review?", "chat", |answer| {
                match answer {
                    "chat" | "1" => Ok(TemplateArg::Chat),
                    "pipeline" | "2" => Ok(TemplateArg::Pipeline),
                    "review" | "3" => Ok(TemplateArg::Review),
                    _ => Err("write chat, pipeline or review".into()),
                }
            })?,
        };
    let model = match &args.model {
        Some(model) => model.clone(),
        None => question(lines, "Which model answers, as provider:model?", &usual.model, |answer| {
            judge(answer).map(|()| answer.to_string())
        })?,
    };
    let remembers = question(
        lines,
        "Should the loop remember the conversation: yes or no?",
        "yes",
        |answer| match answer.to_lowercase().as_str() {
            "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err("write yes or no".into()),
        },
    )?;
    let memory = if remembers {
        let turns =
            question(lines, "How many turns of it are sent at most?", &TURNS.to_string(), |answer| {
                answer
                    .parse()
                    .ok()
                    .filter(|turns| *turns > 0)
                    .ok_or_else(|| "write a whole number above 0".into())
            })?;
        NewMemory::Turns(turns)
    } else {
        NewMemory::None
    };
    Ok(NewFlow { template, model, memory })
}

/// Asks until the answer is one.
fn question<T>(
    lines: &mut dyn BufRead,
    text: &str,
    usual: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    loop {
        let _ = write!(anstream::stderr(), "{text} [{usual}] ");
        let mut line = String::new();
        let length = lines.read_line(&mut line).map_err(|error| Failure::io("standard input", &error))?;
        if length == 0 {
            return Err(Failure::new(FAILED, "cancelled", "nothing was written"));
        }
        let answer = line.trim();
        match read(if answer.is_empty() { usual } else { answer }) {
            Ok(value) => return Ok(value),
            Err(problem) => input::note(&problem),
        }
    }
}

fn judge(model: &str) -> Result<(), String> {
    callable_model(model).map(|_| ()).map_err(|refused| refused.message)
}

fn io(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(&path.display().to_string(), error)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use scrollback_agent::provider::{Catalog, Environment};
    use scrollback_flow::{Flow, FlowSettings, Prompts, ReadOptions};

    use super::*;

    const NOTHING: InitArgs =
        InitArgs { folder: PathBuf::new(), yes: false, template: None, model: None, force: false };

    #[test]
    fn answers_are_asked_for_until_they_are_some_and_nothing_takes_the_default() {
        let asked = |typed: &str| ask(&NOTHING, &mut typed.as_bytes());
        let wish = asked("\n\n\n\n").unwrap_or_else(|_| usual(&NOTHING));
        assert!(
            wish.template == TemplateArg::Chat
                && wish.model == OFFLINE
                && wish.memory == NewMemory::Turns(TURNS)
        );
        let typed = "poem\nreview\ngpt-4o\nopenai:gpt-4o\nmaybe\nYes\n0\n7\n";
        let wish = asked(typed).unwrap_or_else(|_| usual(&NOTHING));
        assert!(wish.template == TemplateArg::Review && wish.model == "openai:gpt-4o");
        assert!(wish.memory == NewMemory::Turns(7));
        assert!(asked("chat\n").is_err(), "an ended input asks for nothing");
        let named =
            InitArgs { template: Some(TemplateArg::Pipeline), model: Some(OFFLINE.into()), ..NOTHING };
        let wish = ask(&named, &mut "no\n".as_bytes()).unwrap_or_else(|_| usual(&NOTHING));
        assert!(wish.template == TemplateArg::Pipeline && wish.memory == NewMemory::None);
    }

    #[test]
    fn every_flow_that_can_be_wished_for_is_right() {
        let (settings, catalog) = (FlowSettings::default(), Catalog::default());
        let environment: Environment = Arc::new(|_| None);
        let source = ReadOptions {
            stem: "new",
            folder: Path::new("."),
            prompts: Prompts::Disk,
            settings: &settings,
            catalog: &catalog,
            environment: &environment,
        };
        for template in [TemplateArg::Chat, TemplateArg::Pipeline, TemplateArg::Review] {
            for memory in [NewMemory::Turns(1), NewMemory::None] {
                let text = files::flow(&NewFlow { template, model: OFFLINE.into(), memory });
                let read = Flow::read(&text, &source);
                assert!(read.is_ok_and(|read| read.warnings.is_empty()), "{text}");
                assert!(!text.contains("MEMORY") && !text.contains("TURNS"), "{text}");
            }
        }
    }
}
