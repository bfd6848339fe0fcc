//! The commands about flows.

mod amounts;
pub(crate) mod args;
pub(crate) mod init;
pub(crate) mod lens;
pub(crate) mod load;
mod problem_text;
mod progress;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod validate;
