//! The pure heart of Scrollback.
#![doc = ""]

pub mod redact;
