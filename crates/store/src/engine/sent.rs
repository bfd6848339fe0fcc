//! Model calls: written, listed, opened, and given up when the process that made them is gone.

use std::collections::{BTreeSet, HashMap};

use scrollback_core::Time;

use super::lineage;
use super::list::{place_of, read_place};
use super::request::{self, Requests};
use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::precompute::Packed;
use crate::request::Layout;
use crate::rows::{Rows, SentRow};
use crate::run::Sent;
use crate::status::CallStatus;
use crate::store::{CallListing, CallPage};
use crate::table::{Scan, Table};

/// The word of [`CallStatus::Sent`], by which the databases have an index.
const OPEN: &str = "sent";

/// Writes a call. What it was sent and answered becomes blobs and parts; those of an earlier write of the same call are
/// let go if others came, and stay if none did.
pub(crate) async fn put<R: Rows>(
    rows: &mut R,
    conversation: &Conversation,
    mut sent: Sent,
    layout: Option<&Layout>,
    packed: &mut Packed,
) -> Result<(), StoreError> {
    let tenant = &conversation.tenant;
    let (request, response) = (sent.request.take(), sent.response.take());
    let mut row = SentRow {
        tenant: tenant.clone(),
        sent,
        request: None,
        response: None,
        template: None,
        request_hash: None,
    };
    let before: Option<SentRow> = rows.get(row.key()).await?;
    if before.as_ref().is_some_and(|before| before.sent.status == CallStatus::Erased) {
        let message =
            "the conversation of this call was erased while it was under way; the reply is not kept";
        return Err(StoreError::new(ErrorKind::Erased, message));
    }
    if let Some(layout) = layout {
        if let Some(last) = layout.highest.filter(|highest| *highest >= conversation.head) {
            let head = conversation.head;
            let message = format!("a request copies position {last}, and the conversation ends at {head}");
            return Err(StoreError::new(ErrorKind::BadArgument, message));
        }
        request::refer(rows, tenant, &conversation.id, layout, packed).await?;
        row.template = Some(layout.list.clone());
        row.request_hash = Some(layout.hash.to_vec());
    } else if let Some(bytes) = request {
        row.request = Some(put_blob(rows, tenant, &bytes, packed).await?);
    }
    if let Some(bytes) = response {
        row.response = Some(put_blob(rows, tenant, &bytes, packed).await?);
    }
    if let Some(mut before) = before {
        // What is not given again stays, and is not let go.
        if row.template.is_none() && row.request.is_none() {
            row.request = before.request.take();
            row.template = before.template.take();
            row.request_hash = before.request_hash.take();
        }
        if row.response.is_none() {
            row.response = before.response.take();
        }
        release(rows, &before).await?;
    }
    rows.put(&row).await
}

async fn put_blob<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    bytes: &[u8],
    packed: &mut Packed,
) -> Result<Vec<u8>, StoreError> {
    let hash = *blake3::hash(bytes).as_bytes();
    rows.refer(&packed.blob(tenant, hash, bytes)).await?;
    Ok(hash.to_vec())
}

/// What went because nothing refers to it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Freed {
    /// Blobs.
    pub(crate) blobs: u64,
    /// Bytes of blobs, parts and lists, as they were kept.
    pub(crate) bytes: u64,
}

impl Freed {
    /// Adds a blob that went, if one did.
    pub(crate) fn blob(&mut self, gone: Option<u64>) {
        self.blobs += u64::from(gone.is_some());
        self.bytes += gone.unwrap_or_default();
    }

    /// Adds what else went.
    pub(crate) fn and(&mut self, other: Freed) {
        self.blobs += other.blobs;
        self.bytes += other.bytes;
    }
}

/// Lets go of what a call was sent and answered.
async fn release<R: Rows>(rows: &mut R, row: &SentRow) -> Result<Freed, StoreError> {
    let mut freed = Freed::default();
    for hash in [&row.request, &row.response].into_iter().flatten() {
        if let Ok(hash) = hash.as_slice().try_into() {
            freed.blob(rows.release(&row.tenant, &hash).await?);
        }
    }
    if let Some(list) = &row.template {
        freed.bytes += list.len() as u64;
        freed.and(request::release(rows, &row.tenant, &row.sent.conversation, list).await?);
    }
    Ok(freed)
}

/// Empties a call: that it was made stays, what it was sent and answered goes. What was freed; none if it was empty.
pub(crate) async fn empty<R: Rows>(rows: &mut R, row: SentRow) -> Result<Option<Freed>, StoreError> {
    if row.request.is_none() && row.response.is_none() && row.template.is_none() {
        return Ok(None);
    }
    let freed = release(rows, &row).await?;
    rows.put(&SentRow { request: None, response: None, template: None, request_hash: None, ..row }).await?;
    Ok(Some(freed))
}

/// The calls of a conversation, as they were made.
pub(crate) async fn sent<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Vec<Sent>, StoreError> {
    lineage::conversation(rows, tenant, id).await?;
    let scan = Scan::new().equal("conversation_id", id.as_str()).ascending(&["started_at", "id"]);
    let mut requests = Requests::new(tenant, id);
    let mut calls = Vec::new();
    for row in rows.scan::<SentRow>(scan).await? {
        calls.push(requests.call(rows, row).await?);
    }
    Ok(calls)
}

/// A page of model calls, newest first. Rows of other tenants are passed over: a call belongs to whose conversation it is in.
pub(crate) async fn calls<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    what: &CallListing,
) -> Result<CallPage, StoreError> {
    let mut scan = Scan::new();
    if let Some(id) = &what.conversation {
        lineage::conversation(rows, tenant, id).await?;
        scan = scan.equal("conversation_id", id.as_str());
    }
    let mut owners: HashMap<ConversationId, bool> = HashMap::new();
    let mut after = what.after.as_ref().map(read_place).transpose()?;
    let (mut calls, mut more) = (Vec::new(), true);
    while more && calls.len() <= what.limit {
        let values = after.as_ref().map(|(at, id)| vec![(*at).into(), id.as_str().into()]);
        let wanted = what.limit + 1;
        let page = scan.clone().descending(&["started_at", "id"]).after(values).limit(wanted);
        let found = rows.scan::<SentRow>(page).await?;
        more = found.len() == wanted;
        after = found.last().map(|last| (last.sent.started_at, last.sent.id.clone()));
        for row in found {
            let ours = if let Some(ours) = owners.get(&row.sent.conversation) {
                *ours
            } else {
                let ours = belongs(rows, tenant, &row.sent.conversation).await?;
                owners.insert(row.sent.conversation.clone(), ours);
                ours
            };
            if ours {
                calls.push(row.sent);
            }
        }
    }
    let more = calls.len() > what.limit;
    calls.truncate(what.limit);
    let next = calls.last().filter(|_| more).map(|last| place_of(last.started_at, &last.id));
    Ok(CallPage { calls, next })
}

/// A model call, with what was sent and what came back.
pub(crate) async fn call<R: Rows>(rows: &mut R, tenant: &Tenant, id: &str) -> Result<Sent, StoreError> {
    for row in rows.scan::<SentRow>(Scan::new().equal("id", id)).await? {
        if belongs(rows, tenant, &row.sent.conversation).await? {
            let mut requests = Requests::new(tenant, &row.sent.conversation);
            return Ok(requests.call(rows, row).await?);
        }
    }
    Err(StoreError::not_found(format!("call {id}")))
}

async fn belongs<R: Rows>(rows: &mut R, tenant: &Tenant, id: &ConversationId) -> Result<bool, StoreError> {
    let owner: Option<Conversation> = rows.get(vec![id.as_str().into()]).await?;
    Ok(owner.is_some_and(|owner| owner.tenant == *tenant))
}

/// The newest calls of a model, without their bodies.
pub(crate) async fn recent<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    model: &str,
    limit: usize,
) -> Result<Vec<Sent>, StoreError> {
    let scan = Scan::new().equal("tenant", tenant.as_str()).equal("model", model);
    let found = rows.scan::<SentRow>(scan.descending(&["started_at", "id"]).limit(limit)).await?;
    Ok(found.into_iter().map(|row| row.sent).collect())
}

/// The calls that have not ended, of all tenants. They have an index of their own; there are few.
async fn open<R: Rows>(rows: &mut R) -> Result<Vec<SentRow>, StoreError> {
    rows.scan(Scan::new().is("status", OPEN).ascending(&["started_at"])).await
}

/// Who made calls that have not ended.
pub(crate) async fn holders<R: Rows>(rows: &mut R) -> Result<Vec<String>, StoreError> {
    let holders: BTreeSet<String> = open(rows).await?.into_iter().filter_map(|row| row.sent.holder).collect();
    Ok(holders.into_iter().collect())
}

/// Gives up the calls of processes that are gone, and those that began too long ago; how many those are.
pub(crate) async fn lose<R: Rows>(
    rows: &mut R,
    gone: &[String],
    before: Time,
    now: Time,
) -> Result<u64, StoreError> {
    let is_lost = |sent: &Sent| {
        let holder_is_gone = sent.holder.as_ref().is_some_and(|holder| gone.contains(holder));
        sent.status == CallStatus::Sent && (holder_is_gone || sent.started_at < before)
    };
    let mut found: Vec<SentRow> = open(rows).await?;
    found.retain(|row| is_lost(&row.sent));
    // In one order, so that two who do this at once do not wait for each other.
    found.sort_by(|one, other| one.sent.conversation.as_str().cmp(other.sent.conversation.as_str()));
    let mut lost = 0;
    for row in found {
        rows.lock(&row.sent.conversation).await?;
        // It may have ended since: only who holds the lock of the conversation writes its calls.
        let Some(row) = rows.get::<SentRow>(row.key()).await?.filter(|row| is_lost(&row.sent)) else {
            continue;
        };
        let mut after = row.clone();
        after.sent.status = CallStatus::Lost;
        after.sent.ended_at = Some(now);
        rows.change(&row, &after).await?;
        lost += 1;
    }
    Ok(lost)
}
