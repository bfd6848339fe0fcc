//! Why a program did not give a value.

use std::fmt;

use crate::value::Value;

/// What kind of trouble it is: the word that hosts, tests and models act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The text is not a program.
    ParseError,
    /// A special form has the wrong shape.
    InvalidForm,
    /// `recur` has the wrong number of arguments.
    InvalidArity,
    /// `cond` and its relatives need pairs.
    InvalidCondForm,
    /// A step of `->` and its relatives is no symbol, keyword or list.
    InvalidThreadForm,
    /// `where` has the wrong shape.
    InvalidWhereForm,
    /// `where` knows no such operator.
    InvalidWhereOperator,
    /// Nothing can be bound to such a pattern.
    UnsupportedPattern,
    /// `%` outside `#()`, or `%0`.
    InvalidPlaceholder,
    /// An undefined name.
    UnboundVar,
    /// A bare name that is both a tool and a data key.
    AmbiguousReference,
    /// No tool has this name.
    UnknownTool,
    /// Something that is no function was called.
    NotCallable,
    /// A builtin, keyword, map or set was given the wrong number of arguments.
    ArityError,
    /// A closure was given the wrong number of arguments.
    ArityMismatch,
    /// An argument is of the wrong type.
    TypeError,
    /// Division by zero and the like.
    ArithmeticError,
    /// An index outside a vector.
    IndexError,
    /// A value cannot be taken apart by a pattern.
    DestructureError,
    /// Anything else that goes wrong while running.
    RuntimeError,
    /// A tool failed, or was called in a way that it cannot take.
    ToolError,
    /// A branch of `pmap` failed.
    PmapError,
    /// A branch of `pcalls` failed.
    PcallsError,
    /// Too many steps.
    FuelExceeded,
    /// Too many `recur` jumps.
    LoopLimitExceeded,
    /// Too much time.
    Timeout,
    /// Too much memory.
    MemoryExceeded,
    /// Calls nested too deeply.
    DepthExceeded,
    /// Too many tool calls.
    ToolLimitExceeded,
    /// The host asked for an end.
    Cancelled,
    /// The program ended itself with `fail`.
    Failed,
}

impl Reason {
    /// The reason as it is written everywhere outside Rust.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::ParseError => "parse_error",
            Reason::InvalidForm => "invalid_form",
            Reason::InvalidArity => "invalid_arity",
            Reason::InvalidCondForm => "invalid_cond_form",
            Reason::InvalidThreadForm => "invalid_thread_form",
            Reason::InvalidWhereForm => "invalid_where_form",
            Reason::InvalidWhereOperator => "invalid_where_operator",
            Reason::UnsupportedPattern => "unsupported_pattern",
            Reason::InvalidPlaceholder => "invalid_placeholder",
            Reason::UnboundVar => "unbound_var",
            Reason::AmbiguousReference => "ambiguous_reference",
            Reason::UnknownTool => "unknown_tool",
            Reason::NotCallable => "not_callable",
            Reason::ArityError => "arity_error",
            Reason::ArityMismatch => "arity_mismatch",
            Reason::TypeError => "type_error",
            Reason::ArithmeticError => "arithmetic_error",
            Reason::IndexError => "index_error",
            Reason::DestructureError => "destructure_error",
            Reason::RuntimeError => "runtime_error",
            Reason::ToolError => "tool_error",
            Reason::PmapError => "pmap_error",
            Reason::PcallsError => "pcalls_error",
            Reason::FuelExceeded => "fuel_exceeded",
            Reason::LoopLimitExceeded => "loop_limit_exceeded",
            Reason::Timeout => "timeout",
            Reason::MemoryExceeded => "memory_exceeded",
            Reason::DepthExceeded => "depth_exceeded",
            Reason::ToolLimitExceeded => "tool_limit_exceeded",
            Reason::Cancelled => "cancelled",
            Reason::Failed => "failed",
        }
    }

    /// Whether it was found before anything ran: the program's text is at fault.
    pub fn is_static(self) -> bool {
        matches!(
            self,
            Reason::ParseError
                | Reason::InvalidForm
                | Reason::InvalidArity
                | Reason::InvalidCondForm
                | Reason::InvalidThreadForm
                | Reason::InvalidWhereForm
                | Reason::InvalidWhereOperator
                | Reason::UnsupportedPattern
                | Reason::InvalidPlaceholder
                | Reason::UnboundVar
                | Reason::UnknownTool
        )
    }

    /// Whether a limit of the run was reached. The first limit ends the whole run, also from inside `pmap`.
    pub fn is_limit(self) -> bool {
        matches!(
            self,
            Reason::FuelExceeded
                | Reason::LoopLimitExceeded
                | Reason::Timeout
                | Reason::MemoryExceeded
                | Reason::DepthExceeded
                | Reason::ToolLimitExceeded
                | Reason::Cancelled
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where in the source something is: both counted from 1, columns in graphemes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourcePosition {
    /// The line.
    pub line: u32,
    /// The column in it.
    pub column: u32,
}

/// Why a program did not give a value, in words that let its author repair it.
#[derive(Clone, Debug)]
pub struct Error {
    /// What kind of trouble it is.
    pub reason: Reason,
    /// One sentence.
    pub message: String,
    /// What to do about it, where something is likely.
    pub hint: Option<String>,
    /// Where in the program.
    pub at: Option<SourcePosition>,
    /// The text of the form there, shortened.
    pub form: Option<String>,
    /// For `pmap_error` and `pcalls_error`: what went wrong in the branch.
    pub cause: Option<Box<Error>>,
    /// For `failed`: what `fail` was given.
    pub value: Option<Value>,
}

impl Error {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Error { reason, message: message.into(), hint: None, at: None, form: None, cause: None, value: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Message and hint as one text, the way a model is shown them.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\nhint: {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Error {}

/// An error on its way: boxed, because it is rare and results are everywhere.
pub(crate) type Fault = Box<Error>;

/// A fault of this reason and message.
pub(crate) fn fault<T>(reason: Reason, message: impl Into<String>) -> Result<T, Fault> {
    Err(Box::new(Error::new(reason, message)))
}
