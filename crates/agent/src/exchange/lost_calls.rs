//! Calls whose process died before it was known how they ended.

use std::time::Duration;

use scrollback_core::Time;
use scrollback_store::{Store, StoreError};

use crate::lease::is_dead;

/// Marks calls as `lost` that no process will complete: those of processes of this machine that are dead, and those that began
/// longer ago than any call may take. Says how many there were.
///
/// A call's row is written before its provider is asked, so a process that dies meanwhile leaves it open. Calls of other
/// machines that may still be under way are left alone.
pub async fn mark_lost(store: &dyn Store, longest: Duration, now: Time) -> Result<u64, StoreError> {
    let dead: Vec<String> =
        store.call_holders().await?.into_iter().filter(|holder| is_dead(holder)).collect();
    let milliseconds = i64::try_from(longest.as_millis()).unwrap_or(i64::MAX);
    store.lose_calls(dead, Time(now.0.saturating_sub(milliseconds)), now).await
}
