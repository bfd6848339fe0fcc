//! Writing a conversation as it was somewhere else: same id, same positions, same links.

use super::lineage::Lineage;
use super::{append, session};
use crate::body;
use crate::conversation::Conversation;
use crate::entry::StoredEntry;
use crate::error::{ErrorKind, StoreError};
use crate::precompute;
use crate::rows::Rows;
use crate::session::Session;

/// Adds places to a conversation that is new here or ends where they begin. What they say was verified by the caller.
pub(crate) async fn restore<R: Rows>(
    rows: &mut R,
    conversation: Conversation,
    session: Option<Session>,
    places: Vec<StoredEntry>,
) -> Result<(), StoreError> {
    let before = rows.lock(&conversation.id).await?;
    if before.as_ref().is_some_and(|before| before.tenant != conversation.tenant) {
        return Err(StoreError::new(ErrorKind::Exists, "the conversation belongs to another tenant"));
    }
    let mut row = conversation;
    if let Some(before) = &before {
        row.key.clone_from(&before.key);
    } else if let Some(key) = &row.key {
        rows.lock_name(&format!("{}\n{key}", row.tenant)).await?;
        // Another conversation is current here; this one is kept beside it.
        if super::lineage::with_key(rows, &row.tenant, key).await?.is_some() {
            row.key = None;
        }
    }
    if let Some(session) = session {
        session::restore(rows, session).await?;
    }
    rows.put(&row).await?;
    session::note_main(rows, &row).await?;
    let mut written = Vec::with_capacity(places.len());
    for placed in &places {
        let body = body::write(&placed.slot);
        for (hash, bytes) in &body.large {
            rows.refer(&precompute::blob(&row.tenant, *hash, bytes)).await?;
        }
        let hashes = [&placed.body_hash, &placed.link];
        written.push(append::row(&row, placed.position, &placed.slot, body.text, hashes, placed.prefix));
    }
    rows.add(&written).await?;
    let lineage = Lineage::of(rows, &row).await?;
    for placed in &places {
        append::derive(rows, &row, &lineage, placed.position, &placed.slot, None).await?;
    }
    Ok(())
}
