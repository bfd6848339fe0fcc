//! The commands about flows.

pub(crate) mod args;
pub(crate) mod init;
pub(crate) mod lens;
pub(crate) mod load;
pub(crate) mod problem_text;
mod progress;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod validate;
