//! The planner behind the manager `auto`: which prefix of the last view stays, and what a ledger keeps of the rest.
//!
//! A plan is made rarely and lasts: between two plans views only grow, so that a provider's prefix cache holds. [`cut`] makes
//! one, [`plan`] is what it says, [`ledger`] the lines it keeps of entries that are not shown whole.

pub(crate) mod cut;
pub(crate) mod ledger;
mod notice;
pub(crate) mod plan;
