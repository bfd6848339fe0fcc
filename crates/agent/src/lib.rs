//! Runs agents over Scrollback records.

mod bus;
mod effects;
pub mod event;
pub mod session;

pub use bus::{
    Event, EventBus, HandlerError, HandlerFailure, HandlersFailed, PublishResult, Published, Token,
};
pub use effects::{Clock, FakeClock, Pending, Random, Seeded, SystemClock};
