//! The pure heart of Scrollback.

pub mod model;
pub mod nearest;
pub mod tokens;
