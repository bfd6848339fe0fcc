//! Requests in the store: written as what they share with the record, and put together again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use scrollback_core::request::{Piece, Template};
use scrollback_core::{Link, Slot};

use super::lineage::{self, Lineage};
use super::read;
use super::verify::ProblemKind;
use crate::body::{self, unhex};
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::pack::Packed;
use crate::request::{Item, Layout, items};
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
            Item::Blob { blob } => {
                let Some(hash) = unhex(&blob) else { continue };
                if let Some(bytes) = layout.blobs.get(&hash) {
                    rows.refer(&packed.blob(tenant, hash, bytes)).await?;
                }
            }
            Item::Part { part } => {
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
            Item::Text(_) | Item::Run(..) | Item::Copy(..) => {}
        }
    }
    Ok(())
}

/// Counts one reference less to everything a list names. What nothing refers to any more goes.
pub(crate) async fn release<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &ConversationId,
    list: &str,
) -> Result<(), StoreError> {
    let mut open = items(list).unwrap_or_default();
    while let Some(item) = open.pop() {
        match item {
            Item::Blob { blob } => {
                if let Some(hash) = unhex(&blob) {
                    rows.release(tenant, &hash).await?;
                }
            }
            Item::Part { part } => {
                let Some(hash) = unhex(&part) else { continue };
                let key = key(conversation, &hash);
                match rows.get::<PartRow>(key.clone()).await? {
                    Some(known) if known.refs > 1 => {
                        rows.change(&known, &PartRow { refs: known.refs - 1, ..known.clone() }).await?;
                    }
                    Some(known) => {
                        open.extend(items(&known.items).unwrap_or_default());
                        rows.remove::<PartRow>(key).await?;
                    }
                    None => {}
                }
            }
            Item::Text(_) | Item::Run(..) | Item::Copy(..) => {}
        }
    }
    Ok(())
}

fn key(conversation: &ConversationId, hash: &Link) -> Vec<crate::table::Value> {
    vec![conversation.as_str().into(), hash.into()]
}

/// Why a request cannot be put together.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// What is stored is not what was written.
    Damaged(ProblemKind, String),
    /// The database failed.
    Failed(StoreError),
}

impl From<StoreError> for Unreadable {
    fn from(error: StoreError) -> Self {
        Unreadable::Failed(error)
    }
}

impl From<Unreadable> for StoreError {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Damaged(_, why) => {
                StoreError::damaged(format!("a model call is damaged: {why} (run scrollback verify)"))
            }
            Unreadable::Failed(error) => error,
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
    parts: HashMap<Link, Vec<Item>>,
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
    pub(crate) async fn call<R: Rows>(&mut self, rows: &mut R, row: SentRow) -> Result<Sent, Unreadable> {
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
    ) -> Result<BTreeSet<u64>, Unreadable> {
        let items = self.items(rows, list).await?;
        self.positions_in(rows, &items).await
    }

    async fn positions_in<R: Rows>(
        &mut self,
        rows: &mut R,
        items: &[Item],
    ) -> Result<BTreeSet<u64>, Unreadable> {
        let end = self.lineage(rows).await?.segments.last().map_or(0, |segment| segment.below);
        let mut positions = BTreeSet::new();
        for item in items {
            let (first, last) = match item {
                Item::Run(first, last) => (*first, *last),
                Item::Copy(position, ..) => (*position, *position),
                Item::Text(_) | Item::Blob { .. } | Item::Part { .. } => continue,
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
    ) -> Result<Vec<u8>, Unreadable> {
        let changed = |why: &str| Unreadable::Damaged(ProblemKind::RequestChanged, why.into());
        let hash =
            hash.and_then(|hash| hash.try_into().ok()).ok_or_else(|| changed("its hash is missing"))?;
        let items = self.items(rows, template).await?;
        let positions = self.positions_in(rows, &items).await?;
        self.read_messages(rows, &positions).await?;
        let mut pieces = Vec::new();
        for item in items {
            pieces.push(match item {
                Item::Text(text) => Piece::Text(text.into_bytes()),
                Item::Run(first, last) => Piece::Run { first, last },
                Item::Copy(position, start, end) => Piece::Copy { position, start, end },
                Item::Blob { blob } => {
                    let hash = unhex(&blob).ok_or_else(|| changed("it names a blob by no hash"))?;
                    Piece::Text(self.text(rows, &hash).await?)
                }
                Item::Part { .. } => continue,
            });
        }
        let body = Template::from_pieces(hash, pieces).body(|position| self.messages.get(&position).cloned());
        body.ok_or_else(|| changed("its request is not what its hash was made of"))
    }

    /// The items of a list, with those of its parts in their places.
    async fn items<R: Rows>(&mut self, rows: &mut R, list: &str) -> Result<Vec<Item>, Unreadable> {
        let unread = || Unreadable::Damaged(ProblemKind::RequestChanged, "its request cannot be read".into());
        let mut open = items(list).ok_or_else(unread)?;
        open.reverse();
        let mut flat = Vec::new();
        while let Some(item) = open.pop() {
            let Item::Part { part } = item else {
                flat.push(item);
                continue;
            };
            let hash = unhex(&part).ok_or_else(unread)?;
            if !self.parts.contains_key(&hash) {
                let row: Option<PartRow> = rows.get(key(&self.conversation, &hash)).await?;
                let missing =
                    || Unreadable::Damaged(ProblemKind::BlobMissing, format!("the part {part} is not there"));
                let row = row.ok_or_else(missing)?;
                // A part that is what it is named after cannot name itself, however indirectly.
                if *blake3::hash(row.items.as_bytes()).as_bytes() != hash {
                    let why = format!("the part {part} is not what was written");
                    return Err(Unreadable::Damaged(ProblemKind::BlobChanged, why));
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
    ) -> Result<(), Unreadable> {
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
    async fn whole<R: Rows>(&self, rows: &mut R, hash: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let named = || Unreadable::Damaged(ProblemKind::BlobMissing, "it names a blob by no hash".into());
        self.fetch(rows, &hash.try_into().map_err(|_| named())?).await
    }

    /// A text that other requests may name, too.
    async fn text<R: Rows>(&mut self, rows: &mut R, hash: &Link) -> Result<Vec<u8>, Unreadable> {
        if let Some(bytes) = self.blobs.get(hash) {
            return Ok(bytes.clone());
        }
        let bytes = self.fetch(rows, hash).await?;
        self.blobs.insert(*hash, bytes.clone());
        Ok(bytes)
    }

    async fn fetch<R: Rows>(&self, rows: &mut R, hash: &Link) -> Result<Vec<u8>, Unreadable> {
        let blob: Option<Blob> = rows.get(vec![self.tenant.as_str().into(), hash.into()]).await?;
        let missing = || {
            let why = format!("the blob {} is not there", body::hex(hash));
            Unreadable::Damaged(ProblemKind::BlobMissing, why)
        };
        let changed = |error: StoreError| Unreadable::Damaged(ProblemKind::BlobChanged, error.to_string());
        body::unpack(&blob.ok_or_else(missing)?).map_err(changed)
    }
}

fn missing(position: u64) -> Unreadable {
    let why = format!("position {position}, which its request copies, is not there");
    Unreadable::Damaged(ProblemKind::MissingPosition, why)
}
