//! The one error of this crate: why an agent, a mission, a case or a record is refused before anything is asked.

use std::error::Error;
use std::fmt::{self, Write};
use std::sync::Arc;

use scrollback_agent::provider::{NoProvider, NoProviderKind};
use scrollback_lisp::Mismatch;

/// Why something about a sub-agent is refused. Act on its kind; the message is one line for people.
#[derive(Clone, Debug)]
pub struct SubagentError {
    kind: SubagentErrorKind,
    message: String,
    mismatches: Vec<Mismatch>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kinds of [`SubagentError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubagentErrorKind {
    /// The mission is blank.
    BlankMission,
    /// The mission has a placeholder that is not a parameter of the signature.
    Placeholder,
    /// A name that is missing, reserved for programs, or used twice.
    Name,
    /// The agent needs a signature to be a tool.
    NoSignature,
    /// Data that does not fit the signature; [`SubagentError::mismatches`] has every place.
    Data,
    /// The step before returned something that is not a map, so it cannot be the data of the next.
    NotAMap,
    /// A compression setting that cannot be read.
    Compression,
    /// A rendering case that cannot be read.
    Case,
    /// A task of a comparison that cannot be read.
    Task,
    /// Entries that are not the record of a mission, or cannot be read.
    Record,
    /// An MCP server of the agent, or a tool of one.
    Server,
    /// The model of an agent that is a tool.
    Model(NoProviderKind),
}

impl SubagentError {
    pub(crate) fn new(kind: SubagentErrorKind, message: impl Into<String>) -> Self {
        SubagentError { kind, message: message.into(), mismatches: Vec::new(), source: None }
    }

    /// Something about a case, with its place.
    pub(crate) fn case(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let message = if path.is_empty() { message } else { format!("{path}: {message}") };
        SubagentError::new(SubagentErrorKind::Case, message)
    }

    pub(crate) fn record(problem: impl fmt::Display) -> Self {
        let message = format!("the record is not a mission of a sub-agent: {problem}");
        SubagentError::new(SubagentErrorKind::Record, message)
    }

    pub(crate) fn data(mismatches: Vec<Mismatch>) -> Self {
        const SHOWN: usize = 10;
        let shown: Vec<String> =
            mismatches.iter().take(SHOWN).map(|mismatch| format!("data {mismatch}")).collect();
        let mut message = shown.join("; ");
        if mismatches.len() > SHOWN {
            let _ = write!(message, "; and {} more", mismatches.len() - SHOWN);
        }
        SubagentError { mismatches, ..SubagentError::new(SubagentErrorKind::Data, message) }
    }

    pub(crate) fn server(error: impl Error + Send + Sync + 'static) -> Self {
        let made = SubagentError::new(SubagentErrorKind::Server, error.to_string());
        SubagentError { source: Some(Arc::new(error)), ..made }
    }

    pub(crate) fn model(error: NoProvider) -> Self {
        let made = SubagentError::new(SubagentErrorKind::Model(error.kind()), error.to_string());
        SubagentError { source: Some(Arc::new(error)), ..made }
    }

    /// Which kind it is.
    pub fn kind(&self) -> SubagentErrorKind {
        self.kind
    }

    /// Every place where data does not fit the signature.
    pub fn mismatches(&self) -> &[Mismatch] {
        &self.mismatches
    }
}

impl PartialEq for SubagentError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message) == (other.kind, &other.message)
    }
}

impl fmt::Display for SubagentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for SubagentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
