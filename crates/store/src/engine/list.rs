//! Lists and single rows, inside a tenant.

use scrollback_core::{Record, Time};
use uuid::Uuid;

use super::lineage::{self, Lineage};
use super::{large, read};
use crate::body;
use crate::conversation::Conversation;
use crate::entry::StoredEntry;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::Rows;
use crate::run::{Evaluation, Run};
use crate::search::Cursor;
use crate::store::{Listing, Page, RunListing, RunPage, Which};
use crate::table::{Scan, Table};

/// Most runs whose ids are compared with a prefix.
const MAX_RUNS: usize = 10_000;

/// A page of conversations, written last first.
pub(crate) async fn list<R: Rows>(
    rows: &mut R,
    tenant: Option<&Tenant>,
    what: &Listing,
) -> Result<Page, StoreError> {
    let mut scan = Scan::new();
    if let Some(tenant) = tenant {
        scan = scan.equal("tenant", tenant.as_str());
    }
    if let Which::With(recipient) = &what.which {
        scan = scan.equal("recipient", recipient.as_str());
    }
    if let Which::InSession(session) = &what.which {
        scan = scan.equal("session_id", session.as_str());
    }
    match what.status {
        // Unset reads idle, so both are looked for; the rest is sorted out below.
        Some(status) if status != crate::Status::Idle => scan = scan.equal("status", status.name()),
        _ => {}
    }
    let idle_only = what.status == Some(crate::Status::Idle);
    let mut after = what.after.as_ref().map(read_cursor).transpose()?;
    let (mut page, mut more) = (Vec::new(), true);
    while more && page.len() <= what.limit {
        let values = after.as_ref().map(|(at, id)| vec![(*at).into(), id.as_str().into()]);
        let wanted = what.limit + 1;
        let found = rows
            .scan::<Conversation>(scan.clone().descending(&["updated_at", "id"]).after(values).limit(wanted))
            .await?;
        more = found.len() == wanted;
        after = found.last().map(|last| (last.updated_at, last.id.clone()));
        page.extend(found.into_iter().filter(|row| !idle_only || row.status() == crate::Status::Idle));
    }
    let more = page.len() > what.limit;
    page.truncate(what.limit);
    let next = page.last().filter(|_| more).map(|last| Cursor(format!("{}.{}", last.updated_at.0, last.id)));
    let mut conversations = Vec::with_capacity(page.len());
    for conversation in page {
        let messages = messages(rows, &conversation).await?;
        conversations.push((conversation, messages));
    }
    Ok(Page { conversations, next })
}

pub(super) fn read_cursor(cursor: &Cursor) -> Result<(Time, ConversationId), StoreError> {
    let parts = cursor.as_str().split_once('.');
    let read = parts.and_then(|(at, id)| Some((Time(at.parse().ok()?), ConversationId::parse(id)?)));
    read.ok_or_else(Cursor::bad)
}

/// The messages of a record, erased ones included: everything that is no decision.
pub(crate) async fn messages<R: Rows>(rows: &mut R, conversation: &Conversation) -> Result<u64, StoreError> {
    let lineage = Lineage::of(rows, conversation).await?;
    let decisions = lineage.count(rows, |scan| scan.absent("role")).await?;
    Ok(conversation.head.saturating_sub(decisions))
}

/// The record of a conversation, or what it was below a position.
pub(crate) async fn record<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
    below: Option<u64>,
) -> Result<Record, StoreError> {
    let conversation = lineage::conversation(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    let below = below.unwrap_or(u64::MAX).min(conversation.head);
    read::record(rows, tenant, &lineage, below).await
}

/// The places of a conversation from a position on, below another.
pub(crate) async fn entries<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
    from: u64,
    below: u64,
) -> Result<Vec<StoredEntry>, StoreError> {
    let conversation = lineage::conversation(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    let below = below.min(conversation.head);
    read::range(rows, tenant, &lineage, from.min(below), below).await
}

pub(crate) async fn evaluation<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: Uuid,
) -> Result<Option<Evaluation>, StoreError> {
    let Some(found) = rows.get::<Evaluation>(vec![id.as_bytes().as_slice().into()]).await? else {
        return Ok(None);
    };
    let owner: Option<Conversation> = rows.get(vec![found.conversation.as_str().into()]).await?;
    Ok(owner.filter(|owner| owner.tenant == *tenant).map(|_| found))
}

pub(crate) async fn evaluations<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Vec<Evaluation>, StoreError> {
    lineage::conversation(rows, tenant, id).await?;
    rows.scan(Scan::new().equal("conversation_id", id.as_str()).descending(&["started_at", "id"])).await
}

pub(crate) async fn runs<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    prefix: &str,
    limit: usize,
) -> Result<Vec<Run>, StoreError> {
    if let Some(run) = rows.get::<Run>(vec![prefix.into()]).await?.filter(|run| run.tenant == *tenant) {
        let mut found = vec![run];
        large::put_back(rows, tenant, &mut found).await?;
        return Ok(found);
    }
    let read = if prefix.is_empty() { limit } else { MAX_RUNS };
    let scan = Scan::new().equal("tenant", tenant.as_str()).descending(&["started_at", "id"]).limit(read);
    let mut runs = rows.scan::<Run>(scan).await?;
    runs.retain(|run| run.id.starts_with(prefix));
    runs.truncate(limit);
    large::put_back(rows, tenant, &mut runs).await?;
    Ok(runs)
}

/// The rows of a run: steps, spans, or events from a number on.
pub(crate) async fn of_run<R: Rows, T: Table + large::Values>(
    rows: &mut R,
    tenant: &Tenant,
    run: &str,
    from: u64,
    order: &[&'static str],
) -> Result<Vec<T>, StoreError> {
    let owner: Option<Run> = rows.get(vec![run.into()]).await?;
    if owner.is_none_or(|owner| owner.tenant != *tenant) {
        return Err(StoreError::not_found(format!("run {run}")));
    }
    let mut scan = Scan::new().equal("run_id", run).ascending(order);
    if from > 0 {
        scan = scan.from("sequence", from);
    }
    let mut found = rows.scan(scan).await?;
    large::put_back(rows, tenant, &mut found).await?;
    Ok(found)
}

/// A page of runs, those that began last first.
pub(crate) async fn run_page<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    what: &RunListing,
) -> Result<RunPage, StoreError> {
    let mut scan = Scan::new().equal("tenant", tenant.as_str());
    if let Some(status) = &what.status {
        scan = scan.equal("status", status.as_str());
    }
    let after = what.after.as_ref().map(read_place).transpose()?;
    let values = after.map(|(at, id)| vec![at.into(), id.into()]);
    let page = scan.descending(&["started_at", "id"]).after(values).limit(what.limit + 1);
    let mut runs = rows.scan::<Run>(page).await?;
    let more = runs.len() > what.limit;
    runs.truncate(what.limit);
    let next = runs.last().filter(|_| more).map(|last| place_of(last.started_at, &last.id));
    large::put_back(rows, tenant, &mut runs).await?;
    Ok(RunPage { runs, next })
}

/// A place in a list by time: when, and which of that time. Ids are people's words, so they are spelled in digits.
pub(crate) fn place_of(at: Time, id: &str) -> Cursor {
    Cursor(format!("{}.{}", at.0, body::hex(id.as_bytes())))
}

pub(crate) fn read_place(cursor: &Cursor) -> Result<(Time, String), StoreError> {
    let parts = cursor.as_str().split_once('.');
    let read = parts.and_then(|(at, id)| Some((Time(at.parse().ok()?), spelled_out(id)?)));
    read.ok_or_else(Cursor::bad)
}

fn spelled_out(digits: &str) -> Option<String> {
    let pairs = (0..digits.len()).step_by(2);
    let bytes: Option<Vec<u8>> =
        pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect();
    String::from_utf8(bytes?).ok()
}
