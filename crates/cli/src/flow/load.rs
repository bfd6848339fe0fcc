//! A flow on the command line: its text, what is configured, and the result of reading it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scrollback_agent::config;
use scrollback_agent::document::{self, TextPosition};
use scrollback_agent::provider::{Catalog, Environment};
use scrollback_core::redact::Redactor;
use scrollback_flow::{Code, Flow, FlowProblem, FlowSettings, Problems, Prompts, Read, ReadOptions};
use serde_json::{Value, json};

use crate::failure::{Failure, USAGE};
use crate::input;

/// A flow's text and everything it is read with.
pub(crate) struct LoadedFlow {
    /// As it was named; `-` is standard input.
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    /// What stands for bytes that are no text.
    bad_byte: Option<usize>,
    pub(crate) settings: FlowSettings,
    pub(crate) catalog: Catalog,
    pub(crate) environment: Environment,
    pub(crate) redactor: Redactor,
}

/// Reads the file and the configuration. A file that cannot be opened is a mistake on the command line.
pub(crate) fn load(file: &Path) -> Result<LoadedFlow, Failure> {
    let config = config::load()?;
    let settings = FlowSettings::of(&config)?;
    let redactor = Redactor::new(&config.redaction())
        .map_err(|error| Failure::new(USAGE, "bad_config", error.to_string()))?;
    let bytes = input::read(file).map_err(Failure::into_usage)?;
    let bad_byte = std::str::from_utf8(&bytes).err().map(|error| error.valid_up_to());
    Ok(LoadedFlow {
        file: file.into(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
        bad_byte,
        catalog: config.catalog(),
        settings,
        environment: Arc::new(|name| std::env::var(name).ok()),
        redactor,
    })
}

impl LoadedFlow {
    /// The folder that paths in the flow are relative to; the working directory for standard input.
    pub(crate) fn folder(&self) -> PathBuf {
        let parent = self.file.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.map_or_else(|| PathBuf::from("."), PathBuf::from)
    }

    /// Whether the document has no such key.
    pub(crate) fn is_without(&self, key: &str) -> bool {
        document::parse(&self.text).is_ok_and(|node| node.get(key).is_none())
    }

    /// What the flow is called if it does not say.
    pub(crate) fn stem(&self) -> String {
        let stem = self.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.filter(|stem| stem != "-").unwrap_or_else(|| "flow".into())
    }

    /// Reads the flow; everything that is wrong with it otherwise. Messages hold no secrets.
    pub(crate) fn read(&self) -> Result<Read, Problems> {
        if let Some(byte) = self.bad_byte {
            let message = format!("not UTF-8 at byte {byte}; convert the file first");
            let at = place(&self.text, byte);
            let problem =
                FlowProblem { code: Code::YamlSyntax, message, path: String::new(), at, suggestion: None };
            return Err(Problems { errors: vec![problem], warnings: Vec::new() });
        }
        let (stem, folder) = (self.stem(), self.folder());
        let source = ReadOptions {
            stem: &stem,
            folder: &folder,
            prompts: Prompts::Disk,
            settings: &self.settings,
            catalog: &self.catalog,
            environment: &self.environment,
        };
        let clean =
            |problems: Vec<FlowProblem>| problems.into_iter().map(|problem| self.clean(problem)).collect();
        match Flow::read(&self.text, &source) {
            Ok(read) => Ok(Read { warnings: clean(read.warnings), ..read }),
            Err(found) => Err(Problems { errors: clean(found.errors), warnings: clean(found.warnings) }),
        }
    }

    fn clean(&self, problem: FlowProblem) -> FlowProblem {
        let message = self.redactor.text(&problem.message).text.into_owned();
        let path = self.redactor.text(&problem.path).text.into_owned();
        FlowProblem { message, path, ..problem }
    }

    /// The document that says what is wrong with a flow; `run` on an invalid flow prints it too.
    pub(crate) fn document(&self, valid: bool, errors: &[FlowProblem], warnings: &[FlowProblem]) -> Value {
        let list = |problems: &[FlowProblem]| problems.iter().map(object).collect::<Vec<_>>();
        json!({
            "valid": valid,
            "file": self.file.display().to_string(),
            "warnings": list(warnings),
            "errors": list(errors),
        })
    }
}

fn object(problem: &FlowProblem) -> Value {
    json!({
        "code": problem.code.as_str(),
        "message": problem.message,
        "path": problem.path,
        "line": problem.at.line,
        "column": problem.at.column,
        "suggestion": problem.suggestion,
    })
}

fn place(text: &str, byte: usize) -> TextPosition {
    let before: String = text
        .chars()
        .scan(0, |at, c| {
            *at += c.len_utf8();
            (*at <= byte).then_some(c)
        })
        .collect();
    let line = before.rsplit('\n').next().unwrap_or_default();
    TextPosition { line: 1 + before.matches('\n').count(), column: 1 + line.chars().count() }
}
