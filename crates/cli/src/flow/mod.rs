//! The commands about flows.

pub(crate) mod args;
pub(crate) mod init;
pub(crate) mod lens;
pub(crate) mod load;
mod progress;
pub(crate) mod run;
pub(crate) mod schema;
mod shown;
pub(crate) mod validate;
mod words;
