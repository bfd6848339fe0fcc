//! PTC-Lisp: the language a model writes when a sub-agent works. A small, eager, deterministic subset of Clojure with
//! three namespaces (`tool/`, `data/`, `user/`), captured prints, and limits that no program gets around.
//!
//! - [`Program::compile`] reads and analyses a source once; [`Program::run`] runs it any number of times.
//! - An [`Env`] is everything a run is given: data, tools, [`Memory`], [`Limits`]. Nothing else is in its reach.
//! - An [`Outcome`] is its complete result: a [`Value`] or an [`Error`], the new memory, prints, tool calls.
//! - A [`Run`] is the same as a state machine, for hosts that answer tool calls in their own time.
//! - [`builtins`] is the one table of functions that the analyser, `doc`, hints and the reference all read.
//!
//! Source goes through three stages: the reader makes forms with positions, the analyser makes code, the machine runs
//! it. None of them, nor printing, comparing or dropping a value, recurses on the native stack as data nests: bad
//! input costs at most the numbers in [`Limits`]. There is no I/O here, no clock, no randomness, no thread.
//!
//! ```
//! use scrollback_lisp::{Env, Program, Tool, Value};
//!
//! let program = Program::compile(r#"
//!     (def found (tool/search {:query "rust"}))
//!     (println "found" (count found))
//!     (return (map :title found))
//! "#)?;
//! let search = Tool::new("search", None, |_call| {
//!     Value::from_json(r#"[{"title": "The Book"}]"#).ok_or_else(|| "no JSON".into())
//! });
//! let outcome = program.run(&mut Env::new().tool(search));
//! assert_eq!(outcome.value().map(|value| value.to_string()).as_deref(), Some(r#"["The Book"]"#));
//! assert_eq!(outcome.prints, ["found 1"]);
//! assert_eq!(outcome.tool_calls[0].name, "search");
//! assert!(outcome.memory.get("found").is_some());
//! # Ok::<(), scrollback_lisp::Error>(())
//! ```
#![allow(
    clippy::unnecessary_box_returns,
    reason = "an error is boxed where it is made, and stays so on its way"
)]
#![allow(clippy::mutable_key_type, reason = "the scratch memory of a pattern takes no part in its order")]
#![allow(clippy::cast_possible_wrap, reason = "lengths in memory fit 63 bits")]

mod builtin;
mod compile;
mod env;
mod error;
mod fit;
mod hashing;
mod hint;
mod limits;
mod memory;
mod outcome;
mod program;
mod read;
pub mod reference;
mod run;
mod saved;
mod signature;
mod value;

pub use builtin::{Arity, Builtin, Family};
pub use env::{Env, Executor, Tool, ToolCall, ToolJob};
pub use error::{Error, Reason, SourcePosition};
pub use fit::{Accepted, Mismatch, Validation};
pub use limits::{CancelToken, Clock, Limits};
pub use memory::{Definition, Memory};
pub use outcome::{Outcome, ProgramEnd, ProgramUsage, ToolRecord};
pub use program::Program;
pub use run::{PendingCall, Run, RunStep, ToolResult};
pub use saved::Saved;
pub use signature::{BadSignature, Base, Signature, Type};
pub use value::{Date, Duration, Function, Instant, Keyword, Map, Pattern, Set, Text, Value, Vector};

/// Every builtin with its family, in the order of the reference.
pub fn builtins() -> &'static [(Family, &'static Builtin)] {
    builtin::table()
}

/// Every special form with its shape, in the order of the reference.
pub fn special_forms() -> &'static [(&'static str, &'static str)] {
    compile::special_forms()
}
