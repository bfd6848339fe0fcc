//! Models: how they are named, and what is known about each.

mod facts;
mod family;
mod name;
mod usual;

pub use facts::{ModelFacts, facts, names};
pub(crate) use family::ModelLine;
pub use name::{BadModel, BadModelKind, ModelName, Provider};
pub use usual::usual_model;
