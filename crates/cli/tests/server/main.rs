//! The server as clients meet it: the real binary, requests over TCP, a provider that does what a test says.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// The support code of the store's tests is shared, and both have what tests may need.
#![allow(clippy::duplicate_mod)]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod process;
mod upstream;

mod attack;
mod browser;
mod busy_port;
mod conversations;
mod curating;
mod destination;
mod echoes;
mod erasure;
mod exchanges;
mod flows;
mod gemini;
mod hostile;
mod keys;
mod many;
mod operating;
mod packages;
mod people;
mod provider_state;
mod recall;
mod same_chain;
mod sessions;
mod shown;
mod streams;
#[cfg(feature = "otel")]
mod telemetry;
mod transport;
mod wrap;
