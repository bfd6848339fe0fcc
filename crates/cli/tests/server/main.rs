//! The server as clients meet it: the real binary, requests over TCP, a provider that does what a test says.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod process;
mod upstream;

mod browser;
mod conversations;
mod curating;
mod destination;
mod echoes;
mod exchanges;
mod flows;
mod hostile;
mod keys;
mod many;
mod packages;
mod same_chain;
mod shown;
mod streams;
#[cfg(feature = "otel")]
mod telemetry;
