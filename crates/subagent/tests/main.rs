//! Sub-agents: what they are shown, what they do, and what is kept of it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod fuzz;
#[path = "../../agent/tests/support/http.rs"]
mod http;
mod lived;
#[path = "../../agent/tests/support/mcp_server.rs"]
mod mcp_server;
mod missions;
mod nesting;
mod recorded;
mod rendering;
mod search;
mod servers;
mod support;
mod too_large;
