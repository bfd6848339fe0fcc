//! The pure heart of Scrollback: it keeps everything that was said, and gives each model call only what that call
//! needs.
//!
//! - A [`Record`] is the complete, append-only history of one conversation: [`Entry`] after [`Entry`], with the
//!   [`Decision`]s about it among them.
//! - A [`HistoryManager`] is a pure function from [`View`] to [`View`]; [`manager`] has them all, and
//!   [`manager::parse`] reads one from text or JSON.
//! - A [`View`] is what one call receives. It never holds half of a tool exchange, never loses the system entry or
//!   the task, and [explains](View::explain) every entry it leaves out or changes.
//! - A [`wire::Wire`] reads a provider's messages into entries and prints a view as messages, byte for byte.
//!
//! Nothing here does I/O, reads a clock, draws a random number or panics; times and ids are given by the caller.
//!
//! ```
//! use scrollback_core::{CurationContext, Record, json, manager, wire::{ParseOptions, Wire}};
//!
//! let body = json::check(r#"[{"role":"system","content":"Be brief."},
//!     {"role":"user","content":"hello"}, {"role":"assistant","content":"hi"},
//!     {"role":"user","content":"what is 6 x 7?"}]"#)?;
//! let mut record = Record::new();
//! for entry in Wire::OpenaiChat.parse(body, &ParseOptions::default())?.entries {
//!     record.append(entry)?;
//! }
//!
//! let cx = CurationContext::default();
//! let view = record.view(&cx, &*manager::parse("turn_window(1)")?)?;
//! assert_eq!(view.render(Wire::OpenaiChat, &cx).messages, [
//!     r#"{"role":"system","content":"Be brief."}"#,
//!     r#"{"role":"user","content":"what is 6 x 7?"}"#,
//! ]);
//! assert_eq!(view.explain().dropped[0].reason.as_str(), "older_turn");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod auto;
mod base64;
mod block;
mod chain;
mod config;
mod context;
mod decision;
mod entry;
mod error;
mod event;
pub mod identity;
mod input_format;
pub mod json;
pub mod manager;
pub mod model;
pub mod nearest;
mod need;
mod ranges;
pub mod recall;
mod record;
pub mod redact;
pub mod replay;
pub mod request;
pub mod stream;
mod summary;
mod text;
pub mod tokens;
pub mod transcript;
mod view;
pub mod wire;

pub use auto::ledger::{LEDGER_HEADING, LedgerPart};
pub use block::{
    Arguments, Block, BlockKind, CallStyle, Marks, Media, MediaKind, MediaSource, Reasoning, ToolCall,
    ToolResult,
};
pub use chain::{Link, body_hash, first_link, link, link_over};
pub use context::{CurationContext, RecallWishes, Summaries, Tools, Unfinished};
pub use decision::{Decision, PlanItem, Span, SummaryPlace};
pub use entry::{ContentState, Entry, Meta, Origin, Part, Role, Status, Time, Usage};
pub use error::CurationError;
pub use event::HistoryCurated;
pub use identity::{PREFIX_START, next_prefix, prefixes};
pub use input_format::InputFormat;
pub use manager::HistoryManager;
pub use record::{AppendError, Record, Slot, Tombstone};
pub use summary::{settle_offline, summarize_offline};
pub use text::{RawJson, Text};
pub use view::{
    Changed, Dropped, Epoch, Explanation, Fidelity, INTERRUPTED, ItemSource, Reason, SUMMARY_HEADING, View,
    ViewItem, Warning,
};
