//! The pure heart of Scrollback.
#![doc = ""]
