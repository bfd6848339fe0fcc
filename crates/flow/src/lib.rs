//! Flows: YAML pipelines whose loops hold conversations.
//!
//! A flow is read once, completely, before anything runs:
//!
//! - [`Flow::read`] turns the text of a flow into a [`Flow`], or into [`Problems`]: everything that is wrong with it, each
//!   with its place, a code and the word that was probably meant.
//! - A [`Flow`] is plain data: agents, and [`Step`]s of seven [`StepKind`]s. Whatever was left out has its value, whatever is
//!   named exists, and which steps of a conversational loop become turns is decided ([`TurnSources`]).
//! - An [`Expression`] decides; it has a value whatever the data, within a bounded number of operations.
//! - A [`FlowTemplate`] renders texts; what it inserts is never read again.
//! - Both look their [`FlowName`]s up in [`Names`], which the driver of a flow provides.
//! - [`FlowSettings`] are what configuration and flags say; each knows where it comes from.
//!
//! Nothing in these modules waits, calls a model or reads a clock; prompt files are the one thing read from disk.
//!
//! A run of a flow has a pure middle and a thin shell:
//!
//! - [`advance()`](advance::advance) takes where a run stands ([`RunState`](state::RunState)) and what happened, and gives
//!   where it stands then and what is to be done.
//! - [`turns`], [`history`] and [`call_history`] decide what an agent is sent: which entries are turns, which of them fit, and
//!   how they stand in front of its input. [`quota`] is the arithmetic of limits.
//! - [`driver`] does what is to be done: it asks models, and writes each finished step in one commit of a store.
//! - [`lens`] shows what happened, from what is stored. [`schemas`] describe the documents it and the commands print.

pub mod advance;
pub mod call_history;
pub mod driver;
pub mod error;
pub mod expression;
pub mod history;
pub mod lens;
pub mod model;
pub mod passed_values;
pub mod problem;
pub mod quota;
mod read;
pub mod reference;
pub mod schemas;
pub mod settings;
pub mod state;
pub mod template;
pub mod turns;
pub mod usage;

pub use expression::{Evaluated, Expression, ExpressionError};
pub use model::{
    Agent, AgentStep, Bounds, Conditional, Exit, Flow, FlowBranch, HistoryManagement, HistoryMode, Hitl,
    Loop, LoopMemory, Managers, Map, MicroDollars, OnBranchFailure, OnMaxLoops, Parallel, QuotaLimits, Seed,
    SeedFrom, Step, StepKind, Strategy, ToolArtifacts, TurnRole, TurnSources,
};
pub use problem::{Code, FlowProblem, Problems};
pub use read::{NotCallable, Prompts, Read, ReadOptions, callable_model};
pub use reference::{FlowName, Names, PathKey, Reference};
pub use settings::FlowSettings;

pub use schemas::FLOW as SCHEMA;
pub use template::{FlowTemplate, TemplateError, TooLarge};
