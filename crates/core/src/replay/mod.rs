//! Replaying conversations: what calls saw, what other managers would have sent, what that would have cost, and what it would
//! have lost. Nothing here asks a model or reads a clock, so the same transcript gives the same figures everywhere.

mod advice;
mod caching;
mod comparison;
mod course;
mod field;
mod figures;
mod judging;
mod needs;
mod prefix_break;
mod simulation;

pub use advice::{Advice, advice, cost, kept, on_frontier};
pub use caching::{CacheRetention, CacheRule};
pub use comparison::{CompareOptions, Losses, Replayed, RequestFrame, compare, length};
pub use course::{ByRole, RepeatedCall, Seen, course};
pub use field::{Entrant, Field};
pub use figures::{CallFigures, Figures, Loss, Lost, Tally};
pub use judging::{ForeignView, judge};
pub use needs::{Missing, Needs, Retained, Share, Stake};
pub use prefix_break::{BrokenPart, PrefixBreak, prefix_break};
pub use simulation::{Candidate, simulate};
