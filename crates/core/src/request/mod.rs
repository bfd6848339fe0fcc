//! What one provider call sends.

mod shared;
mod template;

pub use template::{Piece, Template};
