//! The store and its conversations for programs without an async runtime: the same methods, which wait.
//!
//! ```
//! use scrollback::{Entry, Wire, blocking::Store};
//!
//! let store = Store::open("sqlite::memory:")?;
//! let mut chat = store.conversation("anna")?;
//! chat.append(Entry::user("hello"))?;
//! assert_eq!(chat.view("sliding_window(20)")?.request(Wire::Gemini).to_value()["contents"][0]["role"], "user");
//! # Ok::<(), scrollback::Error>(())
//! ```
//!
//! Called from a thread that runs async tasks, they would stop all of them; there they fail with
//! [`crate::ErrorKind::Blocking`], and the async form is the one to use.

use std::future::Future;
use std::sync::Arc;

use scrollback_core::Record;
use scrollback_store::ConversationId;
use scrollback_store::erasure::Certificate;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::conversation::Append;
use crate::error::{Error, ErrorKind, Result};
use crate::view::View;

/// [`crate::Store`], whose methods wait.
#[derive(Clone, Debug)]
pub struct Store {
    runtime: Arc<Waiter>,
    store: crate::Store,
}

/// [`crate::Conversation`], whose methods wait.
#[derive(Debug)]
pub struct Conversation {
    runtime: Arc<Waiter>,
    chat: crate::Conversation,
}

impl Store {
    /// Opens the store at a URL: [`crate::Store::open`].
    pub fn open(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::new(ErrorKind::Blocking, error))?;
        let runtime = Arc::new(Waiter(Some(runtime)));
        let store = runtime.wait(crate::Store::open(url))?;
        Ok(Store { runtime, store })
    }

    /// The same store as another tenant sees it: [`crate::Store::tenant`].
    pub fn tenant(&self, name: &str) -> Result<Self> {
        Ok(Store { runtime: Arc::clone(&self.runtime), store: self.store.tenant(name)? })
    }

    /// The conversation with a person or channel: [`crate::Store::conversation`].
    pub fn conversation(&self, with: &str) -> Result<Conversation> {
        let chat = self.runtime.wait(self.store.conversation(with))?;
        Ok(Conversation { runtime: Arc::clone(&self.runtime), chat })
    }

    /// Erases a person: [`crate::Store::erase`].
    pub fn erase(&self, recipient: &str, reason: &str) -> Result<Certificate> {
        self.runtime.wait(self.store.erase(recipient, reason))
    }
}

impl Conversation {
    /// Appends; durable when this returns: [`crate::Conversation::append`].
    pub fn append(&mut self, append: impl Into<Append>) -> Result<()> {
        self.runtime.wait(self.chat.append(append))
    }

    /// Reads the record again: [`crate::Conversation::reload`].
    pub fn reload(&mut self) -> Result<()> {
        self.runtime.wait(self.chat.reload())
    }

    /// What the next call is sent: [`crate::Conversation::view`].
    pub fn view(&self, manager: &str) -> Result<View<'_>> {
        self.chat.view(manager)
    }

    /// The model that is called: [`crate::Conversation::set_model`].
    pub fn set_model(&mut self, name: &str) -> Result<()> {
        self.chat.set_model(name)
    }

    /// Everything that was said.
    pub fn record(&self) -> &Record {
        self.chat.record()
    }

    /// The id of the conversation; an error until its first append.
    pub fn id(&self) -> Result<&ConversationId> {
        self.chat.id()
    }
}

/// The runtime that the methods wait on. There is always one until it is dropped.
#[derive(Debug)]
struct Waiter(Option<Runtime>);

impl Waiter {
    /// Waits for an answer, unless this thread has other work that would stand still meanwhile.
    fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.0 {
            Some(runtime) if Handle::try_current().is_err() => runtime.block_on(work),
            _ => {
                let message =
                    "a blocking call on a thread that runs async tasks: use scrollback::Store there";
                Err(Error::new(ErrorKind::Blocking, message))
            }
        }
    }
}

impl Drop for Waiter {
    /// A runtime that is dropped waits for its threads, which panics on a thread that runs async tasks.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
