//! Sub-agents: a mission answered by programs in PTC-Lisp, turn by turn.
//!
//! ```text
//! turns, budget, deadline → render → model → program → run with data, tools, memory → turn recorded ↺
//! ```
//!
//! - A mission ([`PromptTemplate`]) with its [`Signature`](scrollback_lisp::Signature), tools and data is an [`Input`]: the same
//!   bytes at the start of every request, behind a static [`SystemPrompt`].
//! - A [`SubAgent`] is all of that with its limits; it runs in a [`Host`], and a [`Step`] is what its mission came to.
//! - A [`Turn`] is what one cycle came to. Turns are kept as entries of the record, and rebuilt from it.
//! - [`compression`] is what stands for the turns in the next request: a pure function from turns to messages.

pub mod ab;
mod agent;
mod cache;
pub mod case;
pub mod compression;
mod error;
mod extract;
mod file;
mod host;
mod input;
mod mission;
mod mission_loop;
mod plan;
mod program;
mod record;
mod requests;
mod show;
mod signature;
mod smaller_requests;
mod step;
mod system_prompt;
mod tools;
mod trace;
mod turn;
mod turn_checks;

pub use agent::{AgentLimits, InheritedSettings, MAX_DEPTH, OnMemoryLimit, SubAgent, TURN_BUDGET};
pub use error::{SubagentError, SubagentErrorKind};
pub use extract::extract;
pub use file::{Overlay, SCHEMA, SubagentFile};
pub use host::Host;
pub use input::{Input, ToolLine};
pub use mission::PromptTemplate;
pub use record::RecordedMission;
pub use show::{Private, Show};
pub use signature::read_signature;
pub use smaller_requests::Tightened;
pub use step::{EndReason, Fail, Sent, SentCall, Step};
pub use system_prompt::{SystemPrompt, VERSION};
pub use tools::{AgentTool, OutputForm};
pub use trace::{LineKind, SentCheck, TraceLine, Views, print_chain, print_trace};
pub use turn::{Turn, TurnError, TurnUsage};

/// How many turns a mission has where nothing is said.
pub const MAX_TURNS: usize = 5;
