//! The walls around the record: each test is named after a promise and fails when the wall has a hole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod bounds;
mod browsers;
mod callers;
mod charges;
mod fairness;
mod keys;
mod provider;
mod provider_objects;
mod replies;
mod searches;
mod secrets;
mod sessions;
mod store;
#[allow(dead_code, reason = "shared with the tests of the web pages")]
#[path = "../web/support.rs"]
mod support;
