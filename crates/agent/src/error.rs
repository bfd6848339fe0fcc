//! The error of everything in this crate that is refused before a model is asked, except for providers and documents, whose
//! errors say more.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why something is refused. Act on its kind; the message is one line for people.
#[derive(Clone, Debug)]
pub struct AgentError {
    kind: AgentErrorKind,
    message: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kinds of [`AgentError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AgentErrorKind {
    /// A query without a question in it.
    BlankQuery,
    /// A session that would be its own parent.
    OwnParent,
    /// A limit that cannot be kept.
    Limit,
    /// Handlers of an event failed.
    Handlers,
    /// A snapshot that cannot be taken or restored. The session is as it was.
    Snapshot,
    /// A result of a tool use that is unknown.
    UnknownCall,
    /// A second result of one tool use.
    AnsweredBefore,
    /// The record takes no more.
    Append,
    /// A tool that cannot be offered.
    Tool,
    /// The settings of an MCP server are wrong: no name, no command, a bad URL or header.
    ServerSetting,
    /// An MCP server does not start, does not answer, or does not speak the protocol.
    ServerUnreachable,
    /// An MCP server does not have a tool that is allowed.
    ServerTool,
}

impl AgentError {
    pub(crate) fn new(kind: AgentErrorKind, message: impl Into<String>) -> Self {
        AgentError { kind, message: message.into(), source: None }
    }

    pub(crate) fn caused(kind: AgentErrorKind, error: impl Error + Send + Sync + 'static) -> Self {
        AgentError { kind, message: error.to_string(), source: Some(Arc::new(error)) }
    }

    /// Which kind it is.
    pub fn kind(&self) -> AgentErrorKind {
        self.kind
    }
}

impl PartialEq for AgentError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message) == (other.kind, &other.message)
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for AgentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
