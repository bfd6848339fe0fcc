//! Flows: YAML pipelines whose loops hold conversations.
//!
//! A flow is read once, completely, before anything runs:
//!
//! - [`Flow::read`] turns the text of a flow into a [`Flow`], or into [`Problems`]: everything that is wrong with it, each
//!   with its place, a code and the word that was probably meant.
//! - A [`Flow`] is plain data: agents, and [`Step`]s of seven [`Kind`]s. Whatever was left out has its value, whatever is
//!   named exists, and which steps of a conversational loop become turns is decided ([`TurnSources`]).
//! - An [`Expression`] decides; it has a value whatever the data, within a bounded number of operations.
//! - A [`Template`] renders texts; what it inserts is never read again.
//! - Both look their [`Name`]s up in [`Names`], which whoever runs a flow provides.
//! - [`Settings`] are what configuration and flags say; each knows where it comes from.
//!
//! Nothing in these modules waits, calls anybody or reads a clock; prompt files are the one thing read from disk.

pub mod expression;
pub mod model;
pub mod problem;
mod read;
pub mod reference;
pub mod settings;
pub mod template;

pub use expression::{Evaluated, Expression, ExpressionError};
pub use model::{
    Agent, AgentStep, Bounds, Branch, Conditional, Conversation, Exit, Flow, HistoryManagement, Hitl, Kind,
    Limits, Loop, Map, MicroDollars, Mode, OnBranchFailure, OnMaxLoops, Parallel, Seed, SeedFrom, Step,
    Strategy, ToolArtifacts, TurnRole, TurnSources,
};
pub use problem::{Code, Problem, Problems};
pub use read::{NotCallable, Prompts, Read, Source, callable_model};
pub use reference::{Key, Name, Names, Reference};
pub use settings::Settings;

/// The JSON Schema (2020-12) of the format, for editors. It agrees with [`Flow::read`] about the shape of a flow; what
/// only makes sense as a whole (names, expressions, templates, prices) is for the reader.
pub const SCHEMA: &str = include_str!("../flow.schema.json");

pub use template::{Template, TemplateError, TooLarge};
