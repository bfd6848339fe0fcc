//! The store, opened.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use scrollback_core::Time;
use scrollback_store::erasure::{Certificate, ErasureMode, erase_recipient};
use scrollback_store::{Recipient, Tenant};

use crate::conversation::Conversation;
use crate::error::Result;

/// Where conversations are kept. Clones share it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<dyn scrollback_store::Store>,
    pub(crate) tenant: Tenant,
}

impl Store {
    /// Opens the store at a URL: `sqlite:PATH` (made if it is not there), `sqlite::memory:` for one that ends with the
    /// process, `postgres://…` with the feature `postgres`.
    pub async fn open(url: &str) -> Result<Self> {
        let inner = scrollback_store::open(url, now()).await?;
        Ok(Store { inner, tenant: Tenant::default() })
    }

    /// The same store as another tenant sees it: nothing of one tenant is found by another.
    pub fn tenant(&self, name: &str) -> Result<Self> {
        Ok(Store { inner: Arc::clone(&self.inner), tenant: Tenant::parse(name)? })
    }

    /// The conversation with a person or channel, with everything that was said in it. One that does not exist yet begins
    /// with its first append.
    pub async fn conversation(&self, with: &str) -> Result<Conversation> {
        let recipient = Recipient::parse(with)?;
        Conversation::load(Arc::clone(&self.inner), self.tenant.clone(), recipient).await
    }

    /// Erases a person: everything that was said with them, in all conversations, forks and sub-agents, and their name. The
    /// certificate says what is gone, and what is left where. Erase again to learn whether anything is still `pending`.
    pub async fn erase(&self, recipient: &str, reason: &str) -> Result<Certificate> {
        let recipient = Recipient::parse(recipient)?;
        let mode = ErasureMode::Erase;
        Ok(erase_recipient(self.inner.as_ref(), &self.tenant, &recipient, reason, mode, now()).await?)
    }

    /// The store with everything that `scrollback-store` can do: search, forks, erasing, verifying, runs.
    pub fn inner(&self) -> &Arc<dyn scrollback_store::Store> {
        &self.inner
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("at", &self.inner.describe()).field("tenant", &self.tenant).finish()
    }
}

/// The system's clock.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
