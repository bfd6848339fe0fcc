//! Letting go of what model calls were sent, the oldest first.

use super::sent;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::{Rows, SentRow};
use crate::status::CallStatus;
use crate::table::Scan;
use scrollback_core::Time;

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

/// Empties calls: that they were made, and what they used, stays. How many had bodies.
pub(crate) async fn empty<R: Rows>(rows: &mut R, calls: &[KeptBody]) -> Result<u64, StoreError> {
    let mut emptied = 0;
    for call in calls {
        let found: Option<SentRow> =
            rows.get(vec![call.conversation.as_str().into(), call.id.as_str().into()]).await?;
        if let Some(row) = found.filter(|row| row.sent.status != CallStatus::Sent) {
            emptied += u64::from(sent::empty(rows, row).await?);
        }
    }
    Ok(emptied)
}
