//! Sub-agents: what they are shown, what they do, and what is kept of it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod fuzz;
mod missions;
mod nesting;
mod recorded;
mod rendering;
mod search;
mod support;
