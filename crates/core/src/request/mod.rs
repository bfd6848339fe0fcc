//! From a record to the exact bytes of one request, and why they are what they are.
//!
//! [`prepare`] is the one function that makes requests: for the runner, the proxy, flows, sub-agents, summaries and
//! simulations. It is pure. What must last is returned as [decisions](Prepared::decisions), which the caller records before
//! it sends the body; after that every later view repeats them.
//!
//! - [`CallerRequest`] is what the caller wants to send besides the record: a client's own body, or settings and tools of ours.
//! - [`Reference`] is what a request goes on from that its provider holds.
//! - [`named_objects`] are the things at its provider that a request names beside that.
//! - [`Policy`] says which manager curates, and what happens to a request that breaks its provider's rules.
//! - [`Ladder`] makes a request smaller, step by step, when it is too large for its model.
//! - [`BodyTemplate`] is a body as what it shares with the record, so that keeping every request takes little.
//! - [`seen`] says what a body holds of each recorded entry: as recorded, rewritten, or not at all.
//! - [`provider_edits`] is what the provider itself left out of a request, as decisions.
//! - [`news`] is what has to be appended before, so that the record says what the caller says.

pub(crate) mod cache_marks;
mod caller_request;
mod ladder;
mod new_entries;
mod objects;
mod prepare;
mod provider_edits;
mod reference;
mod shared;
mod shown_entries;
mod template;
mod tokens;

pub use caller_request::{CallerRequest, Carries, ClientBody, Surroundings};
pub use ladder::{Ladder, LadderStep, Stated, too_large};
pub use new_entries::{Stamp, lead_of, news};
pub use objects::{given_objects, named_objects};
pub use prepare::{
    Fidelity, Invalid, Policy, PrepareError, Prepared, RequestMessage, UnknownWindow, decisions, is_whole,
    prepare, prepare_items,
};
pub use provider_edits::provider_edits;
pub use reference::{Reference, Threads, is_in_thread, names_items};
pub use shown_entries::{Presence, seen};
pub use template::{BodyPiece, BodyTemplate};
pub use tokens::RequestTokens;
