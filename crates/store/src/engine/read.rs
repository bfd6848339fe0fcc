//! Reading a record back, and refusing to serve what is not what was written.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use scrollback_core::{Decision, Link, Record, Role, Slot, body_hash, first_link, link_over};

use super::lineage::Lineage;
use crate::body;
use crate::conversation::Conversation;
use crate::entry::{NewEntry, StoredEntry};
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::{Blob, EntryRow, Rows};
use crate::words::index_words;

/// The blobs that rows refer to, by name.
pub(crate) async fn blobs_of<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    entries: &[EntryRow],
) -> Result<HashMap<Link, Vec<u8>>, StoreError> {
    let mut blobs = HashMap::new();
    for entry in entries {
        for hash in body::references(&entry.body) {
            let Entry::Vacant(new) = blobs.entry(hash) else { continue };
            let found: Option<Blob> = rows.get(vec![tenant.as_str().into(), (&hash).into()]).await?;
            if let Some(found) = found {
                new.insert(body::unpack(&found)?);
            }
        }
    }
    Ok(blobs)
}

/// What rows say, each checked against the hash of what was written.
pub(crate) async fn places<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    entries: &[EntryRow],
) -> Result<Vec<StoredEntry>, StoreError> {
    let blobs = blobs_of(rows, tenant, entries).await?;
    entries.iter().map(|row| place(row, &blobs)).collect()
}

fn place(row: &EntryRow, blobs: &HashMap<Link, Vec<u8>>) -> Result<StoredEntry, StoreError> {
    let damaged = |why: &str| {
        let (conversation, position) = (&row.conversation, row.position);
        StoreError::damaged(format!(
            "position {position} of conversation {conversation} is damaged: {why} (run scrollback verify)"
        ))
    };
    let slot = body::read(row, blobs).map_err(|why| damaged(&why))?;
    let hash: Link = row.body_hash.as_slice().try_into().map_err(|_| damaged("its hash cannot be read"))?;
    let link: Link = row.link.as_slice().try_into().map_err(|_| damaged("its link cannot be read"))?;
    if row.kind != crate::rows::TOMBSTONE && body_hash(row.position, &slot) != hash {
        return Err(damaged("it differs from what was written"));
    }
    let prefix = row.prefix.as_deref().and_then(|prefix| prefix.try_into().ok());
    Ok(StoredEntry { position: row.position, slot, link, body_hash: hash, prefix })
}

/// The places of a record from a position on, below another.
pub(crate) async fn range<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    lineage: &Lineage,
    from: u64,
    below: u64,
) -> Result<Vec<StoredEntry>, StoreError> {
    let found = lineage.rows(rows, from, below).await?;
    let dense = (from..).zip(&found).all(|(position, row)| row.position == position);
    if !dense || (found.len() as u64) < below.saturating_sub(from) {
        return Err(StoreError::damaged("a position of the conversation is missing (run scrollback verify)"));
    }
    let places = places(rows, tenant, &found).await?;
    let root = lineage.segments.first().map(|segment| first_link(segment.conversation.as_str()));
    let mut before = root.filter(|_| from == 0);
    for placed in &places {
        let follows =
            |link: &Link| link_over(link, placed.position, &placed.slot, &placed.body_hash) == placed.link;
        if !before.as_ref().is_none_or(follows) {
            let position = placed.position;
            return Err(StoreError::damaged(format!(
                "position {position} does not follow from the one before it (run scrollback verify)"
            )));
        }
        before = Some(placed.link);
    }
    Ok(places)
}

/// The record below a position.
pub(crate) async fn record<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    lineage: &Lineage,
    below: u64,
) -> Result<Record, StoreError> {
    let places = range(rows, tenant, lineage, 0, below).await?;
    Record::restore(places.into_iter().map(|placed| placed.slot))
        .map_err(|error| StoreError::damaged(format!("the record is inconsistent: {error}")))
}

/// What stands at a position that a conversation holds itself, if there is something.
pub(crate) async fn at<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &ConversationId,
    position: u64,
) -> Result<Option<(EntryRow, Slot)>, StoreError> {
    let row: Option<EntryRow> = rows.get(vec![conversation.as_str().into(), position.into()]).await?;
    let Some(row) = row else { return Ok(None) };
    let placed = places(rows, tenant, std::slice::from_ref(&row)).await?.pop();
    Ok(placed.map(|placed| (row, placed.slot)))
}

/// The words of what stands at a position, whosever it is.
pub(crate) async fn words_at<R: Rows>(
    rows: &mut R,
    conversation: &ConversationId,
    position: u64,
) -> Result<String, StoreError> {
    let of: Option<Conversation> = rows.get(vec![conversation.as_str().into()]).await?;
    let Some(of) = of else { return Ok(String::new()) };
    let found = at(rows, &of.tenant, conversation, position).await?;
    Ok(found.map(|(_, slot)| words(&slot)).unwrap_or_default())
}

/// The words of a place as the index has them; none where nothing is said.
pub(crate) fn words(slot: &Slot) -> String {
    searchable(slot).map(|text| index_words(&text)).unwrap_or_default()
}

/// The texts of a place that search finds: what people, models and tools said, and summaries.
pub(crate) fn searchable(slot: &Slot) -> Option<String> {
    match slot {
        Slot::Message(entry) => said(entry),
        Slot::Decision(decision, _) => decided(decision).map(String::from),
        Slot::Erased(_) => None,
    }
}

/// The same of something that is on its way.
pub(crate) fn searchable_in(new: &NewEntry) -> Option<String> {
    match new {
        NewEntry::Message(entry) => said(entry),
        NewEntry::Decision(decision) => decided(decision).map(String::from),
    }
}

/// What an entry says: its texts, then its calls with their arguments, which are often the only place where a value stands.
fn said(entry: &scrollback_core::Entry) -> Option<String> {
    if entry.role == Role::System {
        return None;
    }
    let mut said = entry.content();
    for call in entry.tool_calls() {
        let said = said.get_or_insert_default();
        if !said.is_empty() {
            said.push('\n');
        }
        said.push_str(&call.name.as_str());
        said.push(' ');
        said.push_str(&spoken(&call.arguments.as_str()));
    }
    said
}

/// The arguments of a call without the escapes of JSON: read as letters, `\n` and the next word would be one word.
fn spoken(arguments: &str) -> Cow<'_, str> {
    if !arguments.contains('\\') {
        return Cow::Borrowed(arguments);
    }
    let mut out = String::with_capacity(arguments.len());
    let mut letters = arguments.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('n' | 't' | 'r' | 'b' | 'f') => out.push(' '),
            Some('u') => {
                let code: String = letters.by_ref().take(4).collect();
                let known = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                out.push(known.unwrap_or(' '));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Cow::Owned(out)
}

fn decided(decision: &Decision) -> Option<&str> {
    match decision {
        Decision::Summary { text, .. } => Some(text),
        _ => None,
    }
}
