//! What was said, as people read it: markdown with code in colours, edits as differences, files as files.
//!
//! Every function here takes a text that the viewer may see and gives markup that is inert: each piece of it went through
//! [`said`](super::text::said), and no tag, attribute or address of a text becomes one of the page, but for links that a
//! person follows by hand. Nothing is loaded from elsewhere.

mod code;
mod folded_json;
mod markdown;
mod speech;
mod tools;

pub(crate) use folded_json::folded_json;
use markdown::markdown;
pub(crate) use speech::speech;
pub(crate) use tools::{action, exit_code};
