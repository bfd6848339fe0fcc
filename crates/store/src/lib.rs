//! Durable records: everything `scrollback-core` can view, kept on disk.
//!
//! - A [`Store`] keeps conversations. [`open`] finds it by URL: one SQLite file ([`Sqlite`], the default), a PostgreSQL
//!   database for many machines (`Postgres`, with the feature `postgres`), or [`Memory`]. All three pass the same [`conformance`] suite.
//! - [`Tx`] is what one commit writes, as a value. [`Records::commit`] writes all of it or nothing, and answers once it is
//!   durable. An entry with the same evaluation and sequence and the same body is a repeat and changes nothing.
//! - A [`Recipient`] is whom a conversation is with; [`history()`] is what is handed to a model about it, [`compact()`]
//!   replaces its older turns by a summary, [`FollowUps`] says when to get in touch.
//! - Both chains of `scrollback-core` run through every record: one makes tampering evident ([`Records::verify`]), the other
//!   finds the conversation a list of messages continues ([`Records::find_prefix`]).
//! - [`Records::search`] finds everything ever said; [`transfer`] reads and writes other tools' files.
//!
//! The store reads no clock: times are given by the caller. What it means is written once, in `engine`, over the few things
//! a database can do with rows; SQL is in `sql`, `sqlite` and `postgres`, and nowhere else.
//!
//! ```
//! use scrollback_core::{Entry, Role, Time};
//! use scrollback_store::{Expected, NewEntry, Recipient, RecordsExt, Tenant, open};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = open("sqlite::memory:", Time(0)).await?;
//! let (tenant, anna) = (Tenant::default(), Recipient::parse("anna")?);
//! let said = NewEntry::evaluation([Entry::text(Role::User, "hello"), Entry::text(Role::Assistant, "hi")], Time(0));
//! let appended = store.append_for(&tenant, Time(0), &anna, Expected::At(0), said).await?;
//! assert_eq!((appended.first, appended.last), (0, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod body;
mod compact;
pub mod conformance;
mod conversation;
mod due;
mod engine;
mod entry;
pub mod erasure;
mod error;
mod follow;
mod history;
mod id;
mod memory;
mod pace;
#[cfg(feature = "postgres")]
mod postgres;
mod precompute;
pub mod prune;
pub mod recall;
mod request;
mod rows;
mod run;
mod run_rows;
mod search;
mod session;
mod size;
mod sql;
mod sqlite;
mod status;
mod store;
mod table;
pub mod transfer;
mod tx;
mod url;
mod words;

pub use body::{hex, unhex};
pub use compact::{Compaction, CompactionPlan, Offline, Summarizer, compact, plan, settle, summary_input};
pub use conversation::{Conversation, FollowUp, FollowUps, HistorySettings, NewConversation, Status};
pub use due::{Between, Due, due};
pub use engine::calls::PendingCall;
pub use engine::commit::Leased;
pub use engine::erase::{Erase, ErasedCount};
pub use engine::examine::Examined;
pub use engine::fork::{Branch, Continued};
pub use engine::prune::{Emptied, KeptBody};
pub use engine::session::SESSION_CONVERSATIONS;
pub use engine::verify::{IntegrityProblem, ProblemKind, Verified};
pub use entry::{Appended, Expected, NewEntry, StoredEntry};
pub use error::{ErrorKind, StoreError, StoreResult};
pub use follow::{Followed, follow};
pub use history::{History, history};
pub use id::{ConversationId, Recipient, Tenant, new_call, new_evaluation};
pub use memory::{Faults, Memory};
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
pub use run::{Alias, Evaluation, Event, Key, KeyLimits, KeyUse, Lease, Run, Sent, Span, Step};
pub use search::{Cursor, Filter, Hit, Hits, Query};
pub use session::{
    ConversationKind, MatchScope, Session, SessionId, SessionListing, SessionPage, SessionTree, TreeLine,
};
pub use size::{Shrunk, Sizes};
pub use sqlite::{
    Access, Durability, Follow, GooseSession, Options, Restored, SCHEMA, Saved, Sqlite, read_goose, restore,
};
pub use status::{CallStatus, EvaluationStatus, RunKind, RunStatus, StepStatus, StepType};
pub use store::{
    ApiKeys, BoxFuture, CallListing, CallPage, Listing, Page, Recent, Records, RecordsExt, RunListing,
    RunPage, RunRecords, Store, Summary, Which,
};
pub use tx::{Committed, ForkChild, Tx};
pub use url::{Url, open, open_for};
