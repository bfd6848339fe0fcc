//! Retention: what is kept for how long, and how large a store may become.
//!
//! Exact bodies of calls go first, because the entries they were made of stay. A conversation that is old enough is erased,
//! with tombstones in its places. Everything is done in small commits, so that no writer waits for long.

use std::collections::BTreeMap;

use scrollback_core::{Slot, Time};

use crate::conversation::Conversation;
use crate::engine::erase::Erase;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::pace::LongWorkStep;
use crate::store::{Listing, Store};

/// Calls emptied in one commit: a few milliseconds of the writer.
const TOGETHER: usize = 8;
/// Calls looked up at once.
const LOOKED_UP: usize = 256;
/// Conversations looked at once.
const PAGE: usize = 500;
/// Free pages given back at once: a few milliseconds of the writer.
const PAGES: u64 = 256;

/// The end of the year 9999, after which no time has four digits.
const LAST: Time = Time(253_402_300_799_000);

/// What is to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneLimits {
    /// Bodies of calls that began before this.
    pub sent_before: Option<Time>,
    /// Conversations without a recipient that were written last before this.
    pub conversations_before: Option<Time>,
    /// Conversations with a recipient that were written last before this.
    pub recipients_before: Option<Time>,
    /// Bytes that may be in use; the oldest bodies of calls go until it is no more.
    pub max_bytes: Option<u64>,
}

/// Whether anything is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneMode {
    /// It is.
    Prune,
    /// It is only counted.
    Count,
}

/// What went, or would go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Calls whose bodies went.
    pub calls: u64,
    /// Conversations that were erased.
    pub conversations: u64,
    /// Messages in them.
    pub entries: u64,
    /// Bytes of what is kept before.
    pub bytes_before: u64,
    /// Bytes of what is kept afterwards.
    pub bytes_after: u64,
    /// Bytes that are still in use beyond what is allowed, when there is nothing left that may go.
    pub over: u64,
}

/// Removes what is beyond the limits. All tenants' if none is named.
pub async fn prune(
    store: &dyn Store,
    tenant: Option<&Tenant>,
    limits: PruneLimits,
    doing: PruneMode,
    now: Time,
) -> Result<Pruned, StoreError> {
    let before = measure(store, &limits).await?;
    let mut pruned = Pruned { bytes_before: before, bytes_after: before, ..Pruned::default() };
    if let Some(before) = limits.sent_before {
        pruned.calls += bodies(store, tenant, before, doing).await?;
    }
    let mut of_tenants: BTreeMap<Tenant, Vec<ConversationId>> = BTreeMap::new();
    for (conversation, messages) in old(store, tenant, &limits).await? {
        pruned.conversations += 1;
        pruned.entries += messages;
        of_tenants.entry(conversation.tenant).or_default().push(conversation.id);
    }
    if doing == PruneMode::Count {
        let over = limits.max_bytes.map_or(0, |most| before.saturating_sub(most));
        if over > 0 {
            // Bodies that go by their age are among the oldest, so they are not counted twice.
            let emptied = store.bodies_to_free(tenant, LAST, over).await?;
            pruned.calls = pruned.calls.max(emptied.calls);
            pruned.over = over.saturating_sub(emptied.bytes);
        }
        return Ok(pruned);
    }
    for (tenant, ids) in of_tenants {
        store.erase_each(&tenant, ids, Erase::All, "retention", now).await?;
    }
    if let Some(most) = limits.max_bytes {
        let mut left = store.live().await?;
        while left > most {
            let oldest = store.oldest_bodies(tenant, LAST, LOOKED_UP).await?;
            let mut any = false;
            for some in oldest.chunks(TOGETHER) {
                let step = LongWorkStep::begin();
                let emptied = store.empty_bodies(some.to_vec()).await?;
                step.rest().await;
                pruned.calls += emptied.calls;
                any |= emptied.calls > 0;
                left = left.saturating_sub(emptied.bytes);
                if left <= most {
                    break;
                }
            }
            if !any {
                break;
            }
            if left <= most {
                // What was freed is an estimate: pages hold more than one row.
                left = store.live().await?;
            }
        }
    }
    loop {
        let step = LongWorkStep::begin();
        if store.shrink(PAGES).await?.left == 0 {
            break;
        }
        step.rest().await;
    }
    pruned.bytes_after = measure(store, &limits).await?;
    pruned.over = limits.max_bytes.map_or(0, |most| pruned.bytes_after.saturating_sub(most));
    Ok(pruned)
}

/// Bytes in use; exact, which may take long, where they decide what goes.
async fn measure(store: &dyn Store, limits: &PruneLimits) -> Result<u64, StoreError> {
    if limits.max_bytes.is_some() { store.live().await } else { store.used().await }
}

/// Empties calls that began before a moment.
async fn bodies(
    store: &dyn Store,
    tenant: Option<&Tenant>,
    before: Time,
    doing: PruneMode,
) -> Result<u64, StoreError> {
    if doing == PruneMode::Count {
        return Ok(store.oldest_bodies(tenant, before, usize::MAX / 2).await?.len() as u64);
    }
    let mut emptied = 0;
    loop {
        let oldest = store.oldest_bodies(tenant, before, LOOKED_UP).await?;
        let mut now = 0;
        for some in oldest.chunks(TOGETHER) {
            let step = LongWorkStep::begin();
            now += store.empty_bodies(some.to_vec()).await?.calls;
            step.rest().await;
        }
        if now == 0 {
            return Ok(emptied);
        }
        emptied += now;
    }
}

/// Conversations that are old enough, and still have something said in them.
///
/// One whose forks are younger stays: the forks show what was said in it.
async fn old(
    store: &dyn Store,
    tenant: Option<&Tenant>,
    limits: &PruneLimits,
) -> Result<Vec<(Conversation, u64)>, StoreError> {
    let limit_of = |row: &Conversation| match row.recipient {
        Some(_) => limits.recipients_before.or(limits.conversations_before),
        None => limits.conversations_before,
    };
    let (mut found, mut after) = (Vec::new(), None);
    if limits.conversations_before.is_none() && limits.recipients_before.is_none() {
        return Ok(found);
    }
    loop {
        let page = store.list(tenant, Listing { limit: PAGE, after, ..Listing::default() }).await?;
        for (row, messages) in page.conversations {
            let Some(before) = limit_of(&row).filter(|before| row.updated_at < *before) else { continue };
            // An erased conversation keeps its places, and nothing that was said.
            let said = store.recent(&row.tenant, &row.id, 1).await?;
            let places = said.lead.iter().chain(&said.turns);
            let has_words = said.summary.is_some()
                || places.into_iter().any(|placed| matches!(placed.slot, Slot::Message(_)));
            if messages > 0 && has_words && !has_younger(store, &row, before).await? {
                found.push((row, messages));
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}

async fn has_younger(store: &dyn Store, row: &Conversation, before: Time) -> Result<bool, StoreError> {
    for branch in store.branches(&row.tenant, &row.id).await? {
        if branch.conversation != row.id
            && store.conversation(&row.tenant, &branch.conversation).await?.updated_at >= before
        {
            return Ok(true);
        }
    }
    Ok(false)
}
