//! What runs agents over Scrollback records. Effects live here: models, clocks, chance.
//!
//! - An [`EventBus`] tells what happens; a [`session::Session`] keeps typed state that those events change.
//! - A [`provider::Provider`] answers requests: over HTTP, or offline for tests and first steps.
//! - A [`tool::Tool`] does what a model asks for: a Rust function, a command, an HTTP request, a tool of an MCP server,
//!   a person.
//! - An [`exchange`] is the one path from a record to a provider and back; everyone here who asks a model goes through it.
//! - A [`runner::Runner`] asks a model, runs what it calls, and records every word in a [`journal::Journal`] before the
//!   next effect; each request is a curated view of that record.
//! - A [`lease`] is the right to work on something, which ends with its holder.
//! - A [`react::AgentSession`] thinks, acts and answers, query after query; its [`trajectory`] is a reading of the record.
//! - [`telemetry`] sends spans of all this to a collector, where one is configured.
//! - A [`document`] is what people write, YAML or JSON, read with the place of every value.
//!
//! Clock and chance are given ([`Clock`], [`Random`]), so that everything here repeats exactly in a test.

pub mod agent_file;
mod bus;
pub mod config;
pub mod document;
mod effects;
mod error;
pub mod event;
pub mod exchange;
pub mod journal;
pub mod lease;
mod net;
pub mod provider;
pub mod react;
pub mod runner;
pub mod session;
mod summarizer;
pub mod telemetry;
pub mod tool;
pub mod trajectory;

pub use bus::{Event, EventBus, HandlerError, HandlerFailure, PublishResult, Published, Subscription};
pub use effects::{BoxFuture, Clock, FakeClock, Random, Seeded, StopSignal, SystemClock, between, later};
pub use error::{AgentError, AgentErrorKind};
pub use summarizer::ModelSummarizer;
