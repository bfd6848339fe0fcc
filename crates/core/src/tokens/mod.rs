//! Tokens: what a text or an image costs a model.

mod calibration;
mod count;
mod image;
mod tokenizer;

pub use calibration::{Calibration, Factor};
pub use count::{Count, OVERHEAD, entry_tokens};
pub use image::{Detail, IMAGE_HEAD, data_url_head, image_size, image_tokens};
pub use tokenizer::{Counter, Method, Tokenizer};
