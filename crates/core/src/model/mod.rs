//! Models: how they are named, and what is known about each.

mod facts;
mod name;

pub use facts::{ModelFacts, facts};
pub use name::{BadModel, BadModelKind, ModelName, Provider};
