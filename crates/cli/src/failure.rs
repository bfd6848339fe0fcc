//! How a command fails: one line for people, one object for programs, one exit code for scripts.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use scrollback_agent::config::BadConfig;
use scrollback_core::manager::{ConfigError, ConfigErrorKind};
use scrollback_core::wire::WireError;
use scrollback_core::{AppendError, CurationError};
use serde_json::{Map, Value, json};

/// The command line, or a manager on it, or the configuration file is wrong.
pub(crate) const USAGE: u8 = 2;
/// The document handed to the command is invalid.
pub(crate) const INVALID: u8 = 4;
/// Anything else.
pub(crate) const FAILED: u8 = 1;

/// Why a command could not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: u8,
    code: &'static str,
    message: String,
    /// Further members of the error object: `path`, `known`, numbers.
    details: Box<Map<String, Value>>,
    /// Further lines for people, where several things are wrong.
    more: Vec<String>,
    /// What stands under `errors` beside the error.
    errors: Vec<Value>,
    /// What people are shown in place of the lines, ready to print: lines of a document with marks under them.
    marked: Option<Box<str>>,
}

impl Failure {
    pub(crate) fn new(exit: u8, code: &'static str, message: impl Into<String>) -> Self {
        Failure {
            exit,
            code,
            message: message.into(),
            details: Box::default(),
            more: Vec::new(),
            errors: Vec::new(),
            marked: None,
        }
    }

    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.into(), value.into());
        self
    }

    /// Several things that are wrong at once, one line each.
    pub(crate) fn several(exit: u8, code: &'static str, lines: Vec<String>) -> Self {
        let mut lines = lines.into_iter();
        let first = lines.next().unwrap_or_default();
        Failure { more: lines.collect(), ..Failure::new(exit, code, first) }
    }

    /// A file or stream that could not be read or written.
    pub(crate) fn io(what: &str, error: &std::io::Error) -> Self {
        // "No such file or directory (os error 2)" says the same with less noise.
        let reason = error.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default().to_string();
        Failure::new(FAILED, "io", format!("{what}: {}", lower_first(&reason)))
    }

    /// A command line that clap refused, on one line.
    pub(crate) fn usage(error: &clap::Error) -> Self {
        let text = error.to_string();
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
            .filter(|line| !line.is_empty())
            .collect();
        let message = lines.join("; ").replace(":;", ":");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        Failure::new(USAGE, "usage", format!("{message} (see --help)"))
    }

    /// The same failure as a fault of the command line: what it names to be run cannot be read.
    pub(crate) fn into_usage(mut self) -> Self {
        self.exit = USAGE;
        self
    }

    /// The same failure, naming the file it is about where the input is at fault.
    pub(crate) fn about(mut self, file: &Path) -> Self {
        if self.exit == INVALID && file != Path::new("-") {
            self.message.insert_str(0, &format!("{}: ", file.display()));
        }
        self
    }

    /// The same failure with everything that is wrong, one object each; programs find it beside the error.
    pub(crate) fn listing(mut self, errors: Vec<Value>) -> Self {
        self.errors = errors;
        self
    }

    /// The same failure, shown to people as marked lines of a document.
    pub(crate) fn marked(mut self, text: String) -> Self {
        self.marked = Some(text.into());
        self
    }

    /// Whether the failure has that code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Whether the message has a word in it.
    pub(crate) fn says(&self, word: &str) -> bool {
        self.message.contains(word)
    }

    /// The same failure under another code.
    pub(crate) fn turned(mut self, exit: u8, code: &'static str) -> Self {
        (self.exit, self.code) = (exit, code);
        self
    }

    /// The same failure with a hint at the end of its line.
    pub(crate) fn hinting(mut self, hint: &str) -> Self {
        self.message.push_str(hint);
        self
    }

    /// The object programs get.
    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(members) = error.as_object_mut() {
            members.extend(self.details.as_ref().clone());
        }
        error
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

impl From<BadConfig> for Failure {
    fn from(error: BadConfig) -> Self {
        Failure::new(USAGE, "bad_config", error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let failure = Failure::new(USAGE, error.code(), error.to_string()).with("path", error.path());
        match error.kind() {
            ConfigErrorKind::UnknownManager | ConfigErrorKind::UnknownOption => {
                failure.with("known", error.known().to_vec())
            }
            _ if error.known().is_empty() => failure,
            _ => failure.with("known", error.known().to_vec()),
        }
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        let failure = Failure::new(INVALID, error.code(), error.to_string());
        if error.path().is_empty() { failure } else { failure.with("path", error.path()) }
    }
}

impl From<CurationError> for Failure {
    fn from(error: CurationError) -> Self {
        let failure = Failure::new(FAILED, error.code(), error.to_string());
        match error {
            CurationError::BudgetTooSmall { needed, budget }
            | CurationError::WindowTooSmall { needed, window: budget } => {
                failure.with("needed", needed).with("budget", budget)
            }
            CurationError::UnknownModel { model } => failure.with("model", model),
        }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        Failure::new(FAILED, "append", error.to_string())
    }
}

/// Prints a failure once: one line on standard error, and with `--json` an object on standard output.
pub(crate) fn report(failure: &Failure, json: bool) -> ExitCode {
    if failure.code == "broken_pipe" {
        return ExitCode::SUCCESS;
    }
    if json {
        let mut document = json!({ "error": failure.to_json() });
        if let Some(members) = document.as_object_mut().filter(|_| !failure.errors.is_empty()) {
            members.insert("errors".into(), failure.errors.clone().into());
        }
        let _ = writeln!(std::io::stdout(), "{document}");
    }
    if let Some(text) = failure.marked.as_deref().filter(|_| !json) {
        let _ = write!(anstream::stderr(), "{text}");
    } else {
        complain(&failure.message);
        failure.more.iter().for_each(|line| complain(line));
    }
    ExitCode::from(failure.exit)
}

/// One line on standard error about what went wrong.
pub(crate) fn complain(message: &str) {
    let one_line = message.replace(['\n', '\r'], " ");
    let _ = writeln!(
        anstream::stderr(),
        "{}error:{} {one_line}",
        anstyle::AnsiColor::Red.on_default().bold(),
        anstyle::Reset
    );
}
