//! Why something could not be done.

use std::fmt;

use scrollback_core::manager::ConfigError;
use scrollback_core::model::BadModel;
use scrollback_core::wire::WireError;
use scrollback_core::{AppendError, CurationError};

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done. Act on [`kind`](Error::kind); the message is one line for people and never holds the
/// text of a conversation. [`source`](std::error::Error::source) is the error of the crate that refused.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    code: &'static str,
    path: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text that names a manager cannot be read: unknown manager, unknown option, bad value.
    Manager,
    /// The name of a model cannot be read.
    Model,
    /// The messages are no JSON, or of no format that is known.
    Messages,
    /// The view cannot be made: what must stay is larger than the budget, or the model's window is not known.
    View,
    /// The store refused or failed.
    #[cfg(feature = "store")]
    Store(scrollback_store::ErrorKind),
    /// An invalid argument: an unknown wire, a text that is not a handle, a missing file.
    Input,
    /// The blocking form was called from a thread that runs async tasks, or the system gave it no runtime.
    Blocking,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error { kind, code: kind.code(), path: String::new(), source: source.into() }
    }

    /// The same error with a code of its own, and where in the input it is.
    pub(crate) fn at(self, code: &'static str, path: &str) -> Self {
        Error { code, path: path.into(), ..self }
    }

    /// The code programs act on, the same on the command line and over HTTP.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// JSON pointer to what is wrong in the input; empty where that is the whole, or nothing.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Of a conflict over a position: the one expected, and the next there is.
    #[cfg(feature = "store")]
    pub fn heads(&self) -> Option<(u64, u64)> {
        self.source
            .downcast_ref::<scrollback_store::StoreError>()
            .and_then(scrollback_store::StoreError::heads)
    }

    /// Which kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        let (code, path) = (error.code(), error.path().to_string());
        Error::new(ErrorKind::Manager, error).at(code, &path)
    }
}

impl From<BadModel> for Error {
    fn from(error: BadModel) -> Self {
        Error::new(ErrorKind::Model, error)
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        let (code, path) = (error.code(), error.path().to_string());
        Error::new(ErrorKind::Messages, error).at(code, &path)
    }
}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        Error::new(ErrorKind::Messages, error)
    }
}

impl From<CurationError> for Error {
    fn from(error: CurationError) -> Self {
        let code = error.code();
        Error::new(ErrorKind::View, error).at(code, "")
    }
}

#[cfg(feature = "store")]
impl From<scrollback_store::StoreError> for Error {
    fn from(error: scrollback_store::StoreError) -> Self {
        Error::new(ErrorKind::Store(error.kind()), error)
    }
}

impl ErrorKind {
    /// The code of errors of this kind that have none of their own.
    fn code(self) -> &'static str {
        match self {
            ErrorKind::Manager => "bad_manager",
            ErrorKind::Model => "unknown_model",
            ErrorKind::Messages => "bad_input",
            ErrorKind::View => "no_view",
            #[cfg(feature = "store")]
            ErrorKind::Store(kind) => kind.code(),
            ErrorKind::Input => "bad_argument",
            ErrorKind::Blocking => "blocking",
        }
    }
}
