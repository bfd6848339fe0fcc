//! The REST API and the lens: over the router for what programs see, in a real browser for what people see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod api;
mod browser;
mod calls;
mod cost;
mod inert;
mod lens;
mod mcp;
mod random;
mod real_sessions;
mod summaries;
mod support;
