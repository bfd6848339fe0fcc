//! Why the store refused or failed.

use std::fmt;

/// What the store answers, or why not.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why the store refused or failed. Act on [`kind`](StoreError::kind); the message is one line for people and never
/// holds the text of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError {
    kind: ErrorKind,
    message: String,
    heads: Option<(u64, u64)>,
    given_up: bool,
}

/// The kinds of [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The URL names no store: unknown scheme, unknown option, nothing behind the colon.
    BadUrl,
    /// The store cannot be opened: missing folder, refused connection, wrong credentials.
    OpenFailed,
    /// The file is no database, or a database of something else. It was not altered.
    ForeignFile,
    /// The store was written by a newer program. It was not altered.
    SchemaNewer,
    /// The store can be read, not written.
    ReadOnly,
    /// The disk or the connection failed. Nothing was written.
    Io,
    /// The disk is full, or a quota is used up. Nothing was written; writing goes on when there is room.
    Full,
    /// The answer to a commit was lost: it is durable or it is not. Repeating it settles which.
    Unknown,
    /// Another writer wrote at that place, or the same place of an evaluation says something else.
    Conflict,
    /// There is no such thing in this tenant.
    NotFound,
    /// What this was about was erased while it was under way. Nothing of it was written.
    Erased,
    /// There is such a thing already.
    Exists,
    /// An entry is not the next of its evaluation.
    SequenceGap,
    /// A decision about what is not there, or about part of a group.
    BadDecision,
    /// A text that was to be imported cannot be read.
    BadText,
    /// An entry is larger than the store takes.
    TooLarge,
    /// Another summary came first.
    Stale,
    /// Another process holds the lease.
    Busy,
    /// Too much waits to be written. Nothing of this was; it may be tried again in a moment.
    Overloaded,
    /// What is stored is not what was written.
    Damaged,
    /// An argument that cannot be meant: a cursor of another list, a fork beyond the end.
    BadArgument,
}

impl ErrorKind {
    /// The code programs act on.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::BadUrl => "bad_url",
            ErrorKind::OpenFailed => "open_failed",
            ErrorKind::ForeignFile => "foreign_file",
            ErrorKind::SchemaNewer => "schema_newer",
            ErrorKind::ReadOnly => "read_only",
            ErrorKind::Io => "io",
            ErrorKind::Full => "full",
            ErrorKind::Unknown => "unknown_outcome",
            ErrorKind::Conflict => "conflict",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Erased => "erased",
            ErrorKind::Exists => "exists",
            ErrorKind::SequenceGap => "sequence_gap",
            ErrorKind::BadDecision => "bad_decision",
            ErrorKind::BadText => "bad_text",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Stale => "stale",
            ErrorKind::Overloaded => "overloaded",
            ErrorKind::Busy => "busy",
            ErrorKind::Damaged => "damaged",
            ErrorKind::BadArgument => "bad_argument",
        }
    }
}

impl StoreError {
    /// An error of that kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        StoreError { kind, message: message.into(), heads: None, given_up: false }
    }

    /// Another position was expected than the one there is.
    pub(crate) fn conflict(expected: u64, actual: u64) -> Self {
        let message =
            format!("the conversation has moved on: position {expected} was expected, the next is {actual}");
        StoreError { heads: Some((expected, actual)), ..StoreError::new(ErrorKind::Conflict, message) }
    }

    /// Nothing of that name in this tenant.
    pub(crate) fn not_found(what: impl fmt::Display) -> Self {
        StoreError::new(ErrorKind::NotFound, format!("there is no {what}"))
    }

    /// What is stored is not what was written.
    pub(crate) fn damaged(problem: impl Into<String>) -> Self {
        StoreError::new(ErrorKind::Damaged, problem)
    }

    /// Says whether the database gave up a transaction for the sake of another.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn given_up(mut self, given_up: bool) -> Self {
        self.given_up = given_up;
        self
    }

    /// Whether the database gave up the transaction for the sake of another: the same again may succeed.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn was_given_up(&self) -> bool {
        self.given_up
    }

    /// Which kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The code programs act on.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Of a conflict over a position: the one expected, and the next there is.
    pub fn heads(&self) -> Option<(u64, u64)> {
        self.heads
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}
