//! Recall: looking up what was said, by words or by handle, from inside the agent.
//!
//! - A [`Handle`] names a place of a record for good: `sb:k7q2m9x4td#412`.
//! - A [`RecallTool`] is one of the four tools a model is offered. [`RecallRequest::parse`] reads what it was asked,
//!   with every mistake answered by a sentence the model can act on.
//! - The store looks up what a request names; [`found`] prints it as the text the model reads.
//!
//! Everything here is a function from values to values. The store does the searching and reading, so the tools behave
//! the same over every database and in every caller.

pub mod found;
mod handle;
mod obligations;
mod outline;
mod pattern;
mod request;
mod text;
mod tool;

pub use handle::{BadHandle, Handle, Tail};
pub(crate) use obligations::ObligationIndex;
pub use obligations::{Obligation, ObligationKind, obligations};
pub(crate) use outline::files_named;
pub use outline::{Outlined, outline};
pub use pattern::TextPattern;
pub use request::{
    AroundRequest, LineRange, ReadRequest, RecallRequest, RecallScope, Refusal, SearchRequest, Wanted,
};
pub use text::{exact_text, one_line};
pub use tool::RecallTool;
