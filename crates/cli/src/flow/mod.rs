//! The commands about flows.

pub(crate) mod args;
pub(crate) mod init;
pub(crate) mod load;
mod shown;
pub(crate) mod validate;
