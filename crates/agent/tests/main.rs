//! The tests of the agent, in one program: building and starting many takes longer than running them.
#![allow(missing_docs)]

mod bus;
mod curation;
mod hosting;
mod interfaces;
mod large_results;
mod long_task;
mod mcp;
mod one_path;
mod open_calls;
mod providers;
mod react;
mod resume;
mod runner;
mod session;
mod support;
mod tools;
