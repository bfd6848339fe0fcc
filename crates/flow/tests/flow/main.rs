//! Flows, run against agents that keep what they were sent. Every test of a loop asserts on requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod bounds;
mod control;
mod conversation;
mod crash;
mod failing;
mod generated;
mod pause;
mod pure;
mod quotas;
mod secrets;
mod support;
