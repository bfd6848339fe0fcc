//! The interactive loop: line editing, history, completion, definitions that stay.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::IsTerminal;
use std::process::ExitCode;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use scrollback_lisp::{CancelToken, Env, Memory, Program, Value, builtins};

use super::args::GivenArgs;
use super::{answer, inputs, save};
use crate::failure::{FAILED, Failure};
use crate::input;

/// Completes names, and asks for more lines while brackets are open.
struct ReplNames {
    words: Vec<String>,
}

impl ReplNames {
    fn new(memory: &Memory, data: &[String]) -> Self {
        let mut words: Vec<String> = builtins().iter().map(|(_, builtin)| builtin.name.to_string()).collect();
        words.extend(scrollback_lisp::special_forms().iter().map(|(name, _)| (*name).to_string()));
        words.extend(memory.iter().map(|(name, _)| name.to_string()));
        words.extend(data.iter().cloned());
        words.extend([":doc", ":defs", ":quit"].map(String::from));
        words.sort();
        words.dedup();
        ReplNames { words }
    }
}

impl Completer for ReplNames {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or(line);
        let start =
            before.rfind(|c: char| c.is_whitespace() || "()[]{}\"'#".contains(c)).map_or(0, |at| at + 1);
        let word = before.get(start..).unwrap_or_default();
        let fits = self.words.iter().filter(|known| !word.is_empty() && known.starts_with(word));
        Ok((start, fits.map(|known| Pair { display: known.clone(), replacement: known.clone() }).collect()))
    }
}

impl Validator for ReplNames {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let unfinished = Program::is_unfinished(context.input());
        Ok(if unfinished { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Hinter for ReplNames {
    type Hint = String;
}

impl Highlighter for ReplNames {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Borrowed(prompt)
    }
}

impl Helper for ReplNames {}

/// What stays from one input to the next.
struct ReplSession {
    env: Env,
    memory: Memory,
    /// The last three values, newest first.
    history: Vec<Value>,
    cancel: CancelToken,
}

pub(super) fn run(given: &GivenArgs) -> Result<ExitCode, Failure> {
    let env = inputs::env(given)?;
    let memory = env.memory_snapshot();
    let mut session = ReplSession { env, memory, history: Vec::new(), cancel: CancelToken::new() };
    let failed =
        |error: &dyn std::fmt::Display| Failure::new(FAILED, "terminal", format!("the terminal: {error}"));
    let token = session.cancel.clone();
    // Ctrl-C while a program runs ends the program; while a line is typed, the editor sees it itself.
    ctrlc::set_handler(move || token.cancel()).map_err(|error| failed(&error))?;
    let config = Config::builder()
        .auto_add_history(true)
        .max_history_size(1000)
        .map_err(|error| failed(&error))?
        .build();
    let mut editor: Editor<ReplNames, _> = Editor::with_config(config).map_err(|error| failed(&error))?;
    let history = input::history_file("lisp-history");
    if let Some(file) = &history {
        let _ = editor.load_history(file);
    }
    if std::io::stdin().is_terminal() {
        input::print("PTC-Lisp. :doc NAME explains, :defs lists definitions, :quit ends.\n")?;
    }
    let data = session.env.data_names();
    loop {
        editor.set_helper(Some(ReplNames::new(&session.memory, &data)));
        match editor.readline("> ") {
            Ok(line) => {
                if !session.take(line.trim())? {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(&error)),
        }
    }
    if let Some(file) = &history {
        let _ = editor.save_history(file);
    }
    if let Some(file) = &given.save_memory {
        save(file, &session.memory)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl ReplSession {
    /// Does what a line says; whether the session goes on.
    fn take(&mut self, line: &str) -> Result<bool, Failure> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match command {
            "" => {}
            ":quit" | ":q" | ":exit" => return Ok(false),
            ":defs" => self.list()?,
            ":doc" => input::print(&(self.doc(rest.trim()) + "\n"))?,
            _ => self.run(line)?,
        }
        Ok(true)
    }

    fn list(&self) -> Result<(), Failure> {
        let mut out = String::new();
        for (name, definition) in self.memory.iter() {
            let label = definition.value.as_ref().map_or_else(|| "unbound".into(), Value::label);
            let doc = definition.doc.as_ref().map_or_else(String::new, |doc| format!("  {}", doc.as_str()));
            let _ = writeln!(out, "{name}  {label}{doc}");
        }
        input::print(&out)
    }

    fn doc(&self, name: &str) -> String {
        if let Some(definition) = self.memory.get(name) {
            let parameters = definition.parameters().map_or_else(String::new, |text| format!(" {text}"));
            let doc = definition.doc.as_ref().map_or("no documentation", |doc| doc.as_str());
            return format!("{name}{parameters}: {doc}");
        }
        let builtin = builtins().iter().find(|(_, builtin)| builtin.name == name);
        if let Some((_, builtin)) = builtin {
            let example =
                if builtin.example.is_empty() { String::new() } else { format!("\n  {}", builtin.example) };
            return format!("{}: {}{example}", builtin.usage(), builtin.doc);
        }
        match scrollback_lisp::special_forms().iter().find(|(special, _)| *special == name) {
            Some((_, shape)) => format!("{shape}: a special form"),
            None => format!("nothing is called {name}"),
        }
    }

    fn run(&mut self, source: &str) -> Result<(), Failure> {
        let program = match Program::compile(source) {
            Ok(program) => program,
            Err(error) => {
                answer::show(source, &error);
                return Ok(());
            }
        };
        self.cancel.reset();
        let mut env =
            self.env.clone().memory(&self.memory).history(self.history.iter().cloned()).cancel(&self.cancel);
        let outcome = program.run(&mut env);
        if let Some(value) = outcome.value() {
            self.history.insert(0, value.clone());
            self.history.truncate(3);
        }
        let error = outcome.result.as_ref().err().cloned();
        answer::plain(source, Some(&outcome), error.as_ref())?;
        self.memory = outcome.memory;
        Ok(())
    }
}
