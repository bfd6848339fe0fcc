//! Letting go of what model calls were sent, the oldest first.

use std::collections::HashMap;

use scrollback_core::{Link, Time};

use super::sent;
use crate::body::unhex;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::request::{ListItem, items};
use crate::rows::{Blob, PartRow, Rows, SentRow};
use crate::status::CallStatus;
use crate::table::Scan;

/// A call whose bodies are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBody {
    /// Its conversation.
    pub conversation: ConversationId,
    /// Its id.
    pub id: String,
}

/// Calls whose bodies are kept and that began before a moment, the oldest first. Calls under way are left alone.
pub(crate) async fn oldest<R: Rows>(
    rows: &mut R,
    tenant: Option<&Tenant>,
    before: Time,
    most: usize,
) -> Result<Vec<KeptBody>, StoreError> {
    let mut found: Vec<SentRow> = Vec::new();
    for column in ["template", "request", "response"] {
        let mut scan = Scan::new()
            .below("started_at", before.to_string())
            .present(column)
            .ascending(&["started_at", "id"])
            .limit(most);
        if let Some(tenant) = tenant {
            scan = scan.equal("tenant", tenant.as_str());
        }
        found.extend(rows.scan::<SentRow>(scan).await?);
    }
    found.retain(|row| row.sent.status != CallStatus::Sent);
    found.sort_by(|one, other| {
        (one.sent.started_at, &one.sent.id).cmp(&(other.sent.started_at, &other.sent.id))
    });
    found.dedup_by(|one, other| {
        one.sent.id == other.sent.id && one.sent.conversation == other.sent.conversation
    });
    found.truncate(most);
    let kept = |row: SentRow| KeptBody { conversation: row.sent.conversation, id: row.sent.id };
    Ok(found.into_iter().map(kept).collect())
}

/// Calls that were emptied, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emptied {
    /// Those that had bodies.
    pub calls: u64,
    /// Bytes that nothing refers to any more, as they were kept.
    pub bytes: u64,
}

/// Empties calls: that they were made, and what they used, stays.
pub(crate) async fn empty<R: Rows>(rows: &mut R, calls: &[KeptBody]) -> Result<Emptied, StoreError> {
    let mut emptied = Emptied::default();
    for call in calls {
        let found: Option<SentRow> =
            rows.get(vec![call.conversation.as_str().into(), call.id.as_str().into()]).await?;
        let Some(row) = found.filter(|row| row.sent.status != CallStatus::Sent) else { continue };
        if let Some(freed) = sent::empty(rows, row).await? {
            emptied.calls += 1;
            emptied.bytes += freed.bytes;
        }
    }
    Ok(emptied)
}

/// How many of the oldest calls would have to be emptied for so many bytes to be freed. Nothing is written: what calls share is
/// counted here as it would be there, and goes with the last of them.
async fn would_free<R: Rows>(rows: &mut R, calls: &[KeptBody], wanted: u64) -> Result<Emptied, StoreError> {
    let (mut emptied, mut shared) = (Emptied::default(), SharedBodies::default());
    for call in calls {
        if emptied.bytes >= wanted {
            break;
        }
        let found: Option<SentRow> =
            rows.get(vec![call.conversation.as_str().into(), call.id.as_str().into()]).await?;
        let Some(row) = found else { continue };
        emptied.calls += 1;
        emptied.bytes += row.template.as_ref().map_or(0, |list| list.len() as u64);
        for hash in [&row.request, &row.response].into_iter().flatten() {
            emptied.bytes += shared.blob(rows, &row.tenant, hash).await?;
        }
        let mut open = row.template.as_deref().and_then(items).unwrap_or_default();
        while let Some(item) = open.pop() {
            match item {
                ListItem::Blob { blob } => {
                    if let Some(hash) = unhex(&blob) {
                        emptied.bytes += shared.blob(rows, &row.tenant, &hash).await?;
                    }
                }
                ListItem::Part { part } => {
                    let Some(hash) = unhex(&part) else { continue };
                    let Some(list) = shared.part(rows, &call.conversation, &hash).await? else { continue };
                    emptied.bytes += list.len() as u64;
                    open.extend(items(&list).unwrap_or_default());
                }
                ListItem::Text(_) | ListItem::Run(..) | ListItem::Copy(..) => {}
            }
        }
    }
    Ok(emptied)
}

/// The same of the oldest calls that began before a moment.
pub(crate) async fn to_free<R: Rows>(
    rows: &mut R,
    tenant: Option<&Tenant>,
    before: Time,
    bytes: u64,
) -> Result<Emptied, StoreError> {
    let calls = oldest(rows, tenant, before, usize::MAX / 2).await?;
    would_free(rows, &calls, bytes).await
}

/// How often what calls share would still be referred to, while it is only counted what would go.
#[derive(Debug, Default)]
struct SharedBodies {
    blobs: HashMap<(Tenant, Vec<u8>), u64>,
    parts: HashMap<(ConversationId, Link), u64>,
}

impl SharedBodies {
    /// One reference to a blob less: its bytes, if that was the last.
    async fn blob<R: Rows>(&mut self, rows: &mut R, tenant: &Tenant, hash: &[u8]) -> Result<u64, StoreError> {
        let key = (tenant.clone(), hash.to_vec());
        if !self.blobs.contains_key(&key) || self.blobs.get(&key) == Some(&1) {
            let row: Option<Blob> = rows.get(vec![tenant.as_str().into(), hash.into()]).await?;
            let Some(row) = row else { return Ok(0) };
            let left = self.blobs.entry(key).or_insert(row.refs);
            *left = left.saturating_sub(1);
            return Ok(if *left == 0 { row.bytes.len() as u64 } else { 0 });
        }
        if let Some(left) = self.blobs.get_mut(&key) {
            *left = left.saturating_sub(1);
        }
        Ok(0)
    }

    /// One reference to a part less: what it names, if that was the last.
    async fn part<R: Rows>(
        &mut self,
        rows: &mut R,
        conversation: &ConversationId,
        hash: &Link,
    ) -> Result<Option<String>, StoreError> {
        let key = (conversation.clone(), *hash);
        if self.parts.get(&key).is_some_and(|left| *left > 1) {
            if let Some(left) = self.parts.get_mut(&key) {
                *left -= 1;
            }
            return Ok(None);
        }
        let row: Option<PartRow> = rows.get(vec![conversation.as_str().into(), hash.into()]).await?;
        let Some(row) = row else { return Ok(None) };
        let left = self.parts.entry(key).or_insert(row.refs);
        *left = left.saturating_sub(1);
        Ok((*left == 0).then_some(row.items))
    }
}
