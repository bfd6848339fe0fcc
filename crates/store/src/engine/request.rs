//! Requests in the store: written as what they share with the record, and put together again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use scrollback_core::request::{BodyPiece, BodyTemplate};
use scrollback_core::{Link, Slot};

use super::lineage::{self, Lineage};
use super::read;
use super::sent::Freed;
use super::verify::ProblemKind;
use crate::body::{self, unhex};
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::precompute::Packed;
use crate::request::{Layout, ListItem, items};
use crate::rows::{Blob, EntryRow, PartRow, Rows, SentRow};
use crate::run::Sent;

/// Positions that lie no further apart are read together.
const NEAR: u64 = 16;

/// Counts one more reference to everything a list names. What was kept before is not looked into: it refers to its own
/// parts and blobs once, however many lists name it.
pub(crate) async fn refer<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &ConversationId,
    layout: &Layout,
    packed: &mut Packed,
) -> Result<(), StoreError> {
    let mut open = items(&layout.list).unwrap_or_default();
    while let Some(item) = open.pop() {
        match item {
            ListItem::Blob { blob } => {
                let Some(hash) = unhex(&blob) else { continue };
                if let Some(bytes) = layout.blobs.get(&hash) {
                    rows.refer(&packed.blob(tenant, hash, bytes)).await?;
                }
            }
            ListItem::Part { part } => {
                let Some(hash) = unhex(&part) else { continue };
                let Some(text) = layout.parts.get(&hash) else { continue };
                let known: Option<PartRow> = rows.get(key(conversation, &hash)).await?;
                if let Some(known) = known {
                    rows.change(&known, &PartRow { refs: known.refs + 1, ..known.clone() }).await?;
                } else {
                    open.extend(items(text).unwrap_or_default());
                    let conversation = conversation.clone();
                    rows.put(&PartRow { conversation, hash, items: text.clone(), refs: 1 }).await?;
                }
            }
            ListItem::Text(_) | ListItem::Run(..) | ListItem::Copy(..) => {}
        }
    }
    Ok(())
}

/// Counts one reference less to everything a list names. What nothing refers to any more goes, and is what is answered.
pub(crate) async fn release<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &ConversationId,
    list: &str,
) -> Result<Freed, StoreError> {
    let mut freed = Freed::default();
    let mut open = items(list).unwrap_or_default();
    while let Some(item) = open.pop() {
        match item {
            ListItem::Blob { blob } => {
                if let Some(hash) = unhex(&blob) {
                    freed.blob(rows.release(tenant, &hash).await?);
                }
            }
            ListItem::Part { part } => {
                let Some(hash) = unhex(&part) else { continue };
                let key = key(conversation, &hash);
                match rows.get::<PartRow>(key.clone()).await? {
                    Some(known) if known.refs > 1 => {
                        rows.change(&known, &PartRow { refs: known.refs - 1, ..known.clone() }).await?;
                    }
                    Some(known) => {
                        freed.bytes += known.items.len() as u64;
                        open.extend(items(&known.items).unwrap_or_default());
                        rows.remove::<PartRow>(key).await?;
                    }
                    None => {}
                }
            }
            ListItem::Text(_) | ListItem::Run(..) | ListItem::Copy(..) => {}
        }
    }
    Ok(freed)
}

fn key(conversation: &ConversationId, hash: &Link) -> Vec<crate::table::ColumnValue> {
    vec![conversation.as_str().into(), hash.into()]
}

/// Why a request cannot be put together.
#[derive(Debug)]
pub(crate) enum UnreadableRequest {
    /// What is stored is not what was written.
    Damaged(ProblemKind, String),
    /// The database failed.
    Failed(StoreError),
}

impl From<StoreError> for UnreadableRequest {
    fn from(error: StoreError) -> Self {
        UnreadableRequest::Failed(error)
    }
}

impl From<UnreadableRequest> for StoreError {
    fn from(why: UnreadableRequest) -> Self {
        match why {
            UnreadableRequest::Damaged(_, why) => {
                StoreError::damaged(format!("a model call is damaged: {why} (run scrollback verify)"))
            }
            UnreadableRequest::Failed(error) => error,
        }
    }
}

/// Reads the requests and responses of one conversation. What several of them share is read once.
pub(crate) struct Requests<'t> {
    tenant: &'t Tenant,
    conversation: ConversationId,
    /// Read when a request copies from the record.
    lineage: Option<Lineage>,
    messages: HashMap<u64, Arc<str>>,
    parts: HashMap<Link, Vec<ListItem>>,
    blobs: HashMap<Link, Vec<u8>>,
}

impl<'t> Requests<'t> {
    pub(crate) fn new(tenant: &'t Tenant, conversation: &ConversationId) -> Self {
        Requests {
            tenant,
            conversation: conversation.clone(),
            lineage: None,
            messages: HashMap::new(),
            parts: HashMap::new(),
            blobs: HashMap::new(),
        }
    }

    /// A call with what was sent and what came back.
    pub(crate) async fn call<R: Rows>(
        &mut self,
        rows: &mut R,
        row: SentRow,
    ) -> Result<Sent, UnreadableRequest> {
        let request = match (&row.template, &row.request) {
            (Some(list), _) => Some(self.request(rows, list, row.request_hash.as_deref()).await?),
            (None, Some(hash)) => Some(self.whole(rows, hash).await?),
            (None, None) => None,
        };
        let response = match &row.response {
            Some(hash) => Some(self.whole(rows, hash).await?),
            None => None,
        };
        Ok(Sent { request, response, ..row.sent })
    }

    /// The positions that a request copies from.
    pub(crate) async fn positions<R: Rows>(
        &mut self,
        rows: &mut R,
        list: &str,
    ) -> Result<BTreeSet<u64>, UnreadableRequest> {
        let items = self.items(rows, list).await?;
        self.positions_in(rows, &items).await
    }

    async fn positions_in<R: Rows>(
        &mut self,
        rows: &mut R,
        items: &[ListItem],
    ) -> Result<BTreeSet<u64>, UnreadableRequest> {
        let end = self.lineage(rows).await?.segments.last().map_or(0, |segment| segment.below);
        let mut positions = BTreeSet::new();
        for item in items {
            let (first, last) = match item {
                ListItem::Run(first, last) => (*first, *last),
                ListItem::Copy(position, ..) => (*position, *position),
                ListItem::Text(_) | ListItem::Blob { .. } | ListItem::Part { .. } => continue,
            };
            if last >= end {
                return Err(missing(last));
            }
            positions.extend(first..=last);
        }
        Ok(positions)
    }

    async fn request<R: Rows>(
        &mut self,
        rows: &mut R,
        template: &str,
        hash: Option<&[u8]>,
    ) -> Result<Vec<u8>, UnreadableRequest> {
        let changed = |why: &str| UnreadableRequest::Damaged(ProblemKind::RequestChanged, why.into());
        let hash =
            hash.and_then(|hash| hash.try_into().ok()).ok_or_else(|| changed("its hash is missing"))?;
        let items = self.items(rows, template).await?;
        let positions = self.positions_in(rows, &items).await?;
        self.read_messages(rows, &positions).await?;
        let mut pieces = Vec::new();
        for item in items {
            pieces.push(match item {
                ListItem::Text(text) => BodyPiece::Text(text.into_bytes()),
                ListItem::Run(first, last) => BodyPiece::Run { first, last },
                ListItem::Copy(position, start, end) => BodyPiece::Copy { position, start, end },
                ListItem::Blob { blob } => {
                    let hash = unhex(&blob)
                        .ok_or_else(|| changed("it names a blob by something that is not a hash"))?;
                    BodyPiece::Text(self.text(rows, &hash).await?)
                }
                ListItem::Part { .. } => continue,
            });
        }
        let body =
            BodyTemplate::from_pieces(hash, pieces).body(|position| self.messages.get(&position).cloned());
        body.ok_or_else(|| changed("its request does not match its hash"))
    }

    /// The items of a list, with those of its parts in their places.
    async fn items<R: Rows>(&mut self, rows: &mut R, list: &str) -> Result<Vec<ListItem>, UnreadableRequest> {
        let unread =
            || UnreadableRequest::Damaged(ProblemKind::RequestChanged, "its request cannot be read".into());
        let mut open = items(list).ok_or_else(unread)?;
        open.reverse();
        let mut flat = Vec::new();
        while let Some(item) = open.pop() {
            let ListItem::Part { part } = item else {
                flat.push(item);
                continue;
            };
            let hash = unhex(&part).ok_or_else(unread)?;
            if !self.parts.contains_key(&hash) {
                let row: Option<PartRow> = rows.get(key(&self.conversation, &hash)).await?;
                let missing = || {
                    UnreadableRequest::Damaged(
                        ProblemKind::BlobMissing,
                        format!("the part {part} is missing"),
                    )
                };
                let row = row.ok_or_else(missing)?;
                // A part that is what it is named after cannot name itself, however indirectly.
                if *blake3::hash(row.items.as_bytes()).as_bytes() != hash {
                    let why = format!("the part {part} does not match its hash");
                    return Err(UnreadableRequest::Damaged(ProblemKind::BlobChanged, why));
                }
                self.parts.insert(hash, items(&row.items).ok_or_else(unread)?);
            }
            open.extend(self.parts.get(&hash).into_iter().flatten().rev().cloned());
        }
        Ok(flat)
    }

    async fn lineage<R: Rows>(&mut self, rows: &mut R) -> Result<&Lineage, StoreError> {
        let lineage = if let Some(lineage) = self.lineage.take() {
            lineage
        } else {
            let conversation = lineage::conversation(rows, self.tenant, &self.conversation).await?;
            Lineage::of(rows, &conversation).await?
        };
        Ok(self.lineage.insert(lineage))
    }

    /// Reads the messages that are not known yet.
    async fn read_messages<R: Rows>(
        &mut self,
        rows: &mut R,
        wanted: &BTreeSet<u64>,
    ) -> Result<(), UnreadableRequest> {
        let unknown: Vec<u64> =
            wanted.iter().copied().filter(|position| !self.messages.contains_key(position)).collect();
        for near in unknown.chunk_by(|one, next| next - one <= NEAR) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
            let found = self.lineage(rows).await?.clone().rows(rows, *first, last.saturating_add(1)).await?;
            let found: Vec<EntryRow> =
                found.into_iter().filter(|row| wanted.contains(&row.position)).collect();
            for placed in read::places(rows, self.tenant, &found).await? {
                if let Slot::Message(entry) = placed.slot {
                    self.messages.insert(placed.position, Arc::clone(&entry.origin.raw));
                }
            }
        }
        match wanted.iter().find(|position| !self.messages.contains_key(position)) {
            Some(position) => Err(missing(*position)),
            None => Ok(()),
        }
    }

    /// All of a request or response that is one blob.
    async fn whole<R: Rows>(&self, rows: &mut R, hash: &[u8]) -> Result<Vec<u8>, UnreadableRequest> {
        let named = || {
            UnreadableRequest::Damaged(
                ProblemKind::BlobMissing,
                "it names a blob by something that is not a hash".into(),
            )
        };
        self.fetch(rows, &hash.try_into().map_err(|_| named())?).await
    }

    /// A text that other requests may name, too.
    async fn text<R: Rows>(&mut self, rows: &mut R, hash: &Link) -> Result<Vec<u8>, UnreadableRequest> {
        if let Some(bytes) = self.blobs.get(hash) {
            return Ok(bytes.clone());
        }
        let bytes = self.fetch(rows, hash).await?;
        self.blobs.insert(*hash, bytes.clone());
        Ok(bytes)
    }

    async fn fetch<R: Rows>(&self, rows: &mut R, hash: &Link) -> Result<Vec<u8>, UnreadableRequest> {
        let blob: Option<Blob> = rows.get(vec![self.tenant.as_str().into(), hash.into()]).await?;
        let missing = || {
            let why = format!("the blob {} is missing", body::hex(hash));
            UnreadableRequest::Damaged(ProblemKind::BlobMissing, why)
        };
        let changed =
            |error: StoreError| UnreadableRequest::Damaged(ProblemKind::BlobChanged, error.to_string());
        body::unpack(&blob.ok_or_else(missing)?).map_err(changed)
    }
}

fn missing(position: u64) -> UnreadableRequest {
    let why = format!("position {position}, which its request copies, is missing");
    UnreadableRequest::Damaged(ProblemKind::MissingPosition, why)
}
