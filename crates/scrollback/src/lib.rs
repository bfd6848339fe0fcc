//! Conversations that are kept whole and sent in part.
//!
//! A program that talks to a language model needs two things: a place where everything that was said is kept, and for each
//! call the part of it that the call needs. This crate is both. What was said is a [`Record`], which only grows. What a call
//! is sent is a [`View`], made from the record by a *manager* such as `sliding_window(20)`.
//!
//! # A first program
//!
//! [`Store::open`] opens a file, or makes it. A conversation has a name: a person, a channel, a ticket.
//!
//! ```
//! use scrollback::{Entry, Store, Wire};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open("sqlite::memory:").await?; // a program that is restarted says sqlite:chat.db
//! let mut chat = store.conversation("anna").await?;
//! chat.append(Entry::system("Be brief.")).await?;
//! chat.append(Entry::user("What is 6 x 7?")).await?;
//!
//! let view = chat.view("sliding_window(20)")?;
//! let request = view.request(Wire::Anthropic);
//! assert_eq!(request.to_value()["system"], "Be brief.");
//! assert_eq!(request.to_value()["messages"][0]["content"], "What is 6 x 7?");
//!
//! chat.append(Entry::assistant("42")).await?;
//! # Ok::<(), scrollback::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An append is durable when it returns. Open the same file again, and `conversation("anna")` goes on where it stopped.
//!
//! # What a request holds
//!
//! [`View::request`] gives the part of a request that is the conversation: the messages, and the instructions where the
//! provider has a field for them. Add the model and what else the provider asks for with [`Request::with`]. A view never
//! holds half of a tool exchange and never loses the system entry or the task, and [`View::explain`] names the manager and
//! the reason for every entry that it leaves out or changes:
//!
//! ```
//! use scrollback::{Entry, Record, View};
//!
//! let mut record = Record::new();
//! for (number, text) in ["one", "two", "three"].into_iter().enumerate() {
//!     record.append(Entry::user(text).stamped(scrollback::Uuid::nil(), number as u64, scrollback::Time(0)))?;
//! }
//! let view = View::of(&record, "sliding_window(1)")?;
//! assert_eq!(view.len(), 1);
//! assert_eq!(view.explain().dropped[0].manager, "sliding_window");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Managers are composed in a list, `"[tool_result_truncator(2000), sliding_window(40)]"`; [`manager`] has them all. A list
//! of messages that is kept elsewhere is curated in one call with [`curate`].
//!
//! # Times, ids and repeats
//!
//! An append has the time of the system's clock and a new evaluation id. Both can be given with [`Append`]; a program that
//! repeats an append with the same evaluation and sequence writes nothing twice:
//!
//! ```
//! use scrollback::{Append, Entry, Store, Time, Uuid};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let store = Store::open("sqlite::memory:").await?;
//! let mut chat = store.conversation("anna").await?;
//! let once = Append { at: Some(Time(0)), evaluation: Some(Uuid::from_u128(7)), ..Entry::user("hello").into() };
//! chat.append(once.clone()).await?;
//! chat.append(once).await?;
//! assert_eq!(chat.record().len(), 1);
//! # Ok::<(), scrollback::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without a runtime
//!
//! [`blocking`] has the same store and conversation with methods that wait.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `store` (default) | [`Store`], [`Conversation`] and [`blocking`], in one file (`sqlite:PATH`) |
//! | `postgres` | `Store::open("postgres://…")` |
//! | `agent` | `scrollback::agent`: models, tools and the loop around them |
//! | `flow` | `scrollback::flow`: pipelines written in YAML |
//!
//! The crates underneath are re-exported whole ([`core`], [`store`]), so that everything they can do is within reach.

#[cfg(feature = "store")]
pub mod blocking;
#[cfg(feature = "store")]
mod conversation;
mod curate;
mod error;
#[cfg(feature = "store")]
mod keeping;
#[cfg(feature = "store")]
mod lookup;
mod messages;
#[cfg(feature = "store")]
mod open;
#[cfg(feature = "store")]
mod recall;
mod shown;
mod simulate;
mod view;

#[cfg(feature = "store")]
pub use conversation::{Append, Conversation};
pub use curate::{Curated, CuratedPiece, CuratedPieces, Explaining, curate, curate_pieces};
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "store")]
pub use lookup::{Handle, place_json};
pub use messages::{message_of_events, model_named, read_messages, request_for, wire_named};
#[cfg(feature = "store")]
pub use open::Store;
#[cfg(feature = "store")]
pub use recall::{SearchHit, SearchOptions};
pub use shown::{SentView, ViewOptions};
pub use simulate::{
    LostValue, ReplayContent, ReplaySource, ReplaySources, SimulatedConversation, SimulationOptions,
    SimulationReport, UnreadTranscript, simulate,
};
pub use view::{Request, View};

#[cfg(feature = "agent")]
pub use scrollback_agent as agent;
pub use scrollback_core as core;
pub use scrollback_core::model::ModelName;
pub use scrollback_core::wire::Wire;
pub use scrollback_core::{
    CurationContext, Decision, Entry, Explanation, HistoryManager, Record, Role, Time, manager,
};
#[cfg(feature = "flow")]
pub use scrollback_flow as flow;
#[cfg(feature = "store")]
pub use scrollback_store as store;
#[cfg(feature = "store")]
pub use scrollback_store::{ConversationId, Followed, Recipient, Tenant};
pub use serde_json;
pub use uuid::{self, Uuid};
