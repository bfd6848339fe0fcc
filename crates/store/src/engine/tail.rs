//! What a history is made of, read without what lies in between: the lead, the newest turns, the summary in force.

use scrollback_core::{Decision, Slot};

use super::lineage::{self, Lineage};
use super::{list, read};
use crate::entry::StoredEntry;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::Rows;
use crate::store::Recent;

/// Reads the lead and the last `turns` turns that no summary stands for, and nothing in between.
pub(crate) async fn recent<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
    turns: usize,
) -> Result<Recent, StoreError> {
    let conversation = lineage::conversation(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    let summary = lineage.summary(rows).await?;
    let messages = list::messages(rows, &conversation).await?;
    let natural = lead_end(rows, &lineage, conversation.head).await?;
    let lead = lead(rows, tenant, &lineage, natural).await?;
    let start = if turns == 0 {
        conversation.head
    } else {
        let users = lineage.newest(rows, turns + 1, |scan| scan.is("role", "user")).await?;
        let begins = users.get(turns - 1).filter(|_| users.len() > turns).map_or(natural, |row| row.position);
        begins.max(summary.as_ref().map_or(0, |summary| summary.covers_to + 1))
    };
    let turns = read::range(rows, tenant, &lineage, start.max(natural), conversation.head).await?;
    Ok(Recent { conversation, lead, turns, summary: summary.map(Into::into), messages })
}

/// Where the leading system entries end.
async fn lead_end<R: Rows>(rows: &mut R, lineage: &Lineage, head: u64) -> Result<u64, StoreError> {
    let mut end = 0;
    loop {
        let page = lineage.rows(rows, end, head.min(end + 8)).await?;
        let leading = page.iter().take_while(|row| row.role.as_deref() == Some("system")).count() as u64;
        end += leading;
        if leading < 8 {
            return Ok(end);
        }
    }
}

/// The entries that stand first: those a decision chose last, else the leading system entries.
async fn lead<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    lineage: &Lineage,
    natural: u64,
) -> Result<Vec<StoredEntry>, StoreError> {
    let decisions = lineage.newest(rows, usize::MAX >> 1, |scan| scan.absent("role")).await?;
    for placed in read::places(rows, tenant, &decisions).await? {
        if let Slot::Decision(decision, _) = &placed.slot
            && let Decision::Lead { positions } = decision.as_ref()
        {
            let mut lead = Vec::new();
            for at in positions {
                lead.extend(read::range(rows, tenant, lineage, *at, at + 1).await?);
            }
            return Ok(lead);
        }
    }
    read::range(rows, tenant, lineage, 0, natural).await
}
