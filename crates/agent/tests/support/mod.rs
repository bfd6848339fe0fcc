//! What tests of agents share: a provider's server, an MCP server, runners.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

mod http;
pub mod mcp_server;
pub mod runner;

pub use http::{End, Reply, Server};
