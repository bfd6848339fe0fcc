//! What may be appended: entries of a bounded size, entries that follow their evaluation, decisions about what is there.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Entered;

use scrollback_core::{AppendError, Decision, Entry, Record, Role, Slot};
use uuid::Uuid;

use super::lineage::Lineage;
use super::read;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::rows::{EntryRow, Rows};

/// Largest entry, in bytes of its message: above, something that is no conversation is being stored.
pub(crate) const MAX_ENTRY: usize = 64 * 1024 * 1024;

/// Whether a message can be stored at all.
pub(crate) fn storable(entry: &Entry) -> Result<(), StoreError> {
    let raw = entry.origin.raw.as_ref();
    if raw.len() > MAX_ENTRY {
        let message =
            format!("an entry of {} bytes is larger than the {MAX_ENTRY} that one may have", raw.len());
        return Err(StoreError::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

pub(crate) fn message(slot: &Slot) -> Option<&Entry> {
    match slot {
        Slot::Message(entry) => Some(entry),
        _ => None,
    }
}

/// Checks that a block of entries may follow: sequences without gaps, decisions about what is there. The next number of the
/// first message's evaluation is known.
pub(crate) async fn follows<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    lineage: &Lineage,
    head: u64,
    slots: &[Slot],
    first: u64,
) -> Result<Option<Record>, StoreError> {
    let needs_groups = |slot: &Slot| match slot {
        Slot::Decision(decision, _) => matches!(
            decision.as_ref(),
            Decision::Cut { .. } | Decision::Pin { .. } | Decision::Unpin { .. } | Decision::Summary { .. }
        ),
        _ => false,
    };
    if slots.iter().any(needs_groups) {
        let mut record = read::record(rows, tenant, lineage, head).await?;
        for slot in slots {
            let added = match slot {
                Slot::Message(entry) => record.append(Entry::clone(entry)),
                Slot::Decision(decision, at) => {
                    current_is_replaced(rows, lineage, decision).await?;
                    record.decide(Decision::clone(decision), *at)
                }
                Slot::Erased(_) => continue,
            };
            added.map_err(|error| refused(&error))?;
        }
        return Ok(Some(record));
    }
    let known = slots.iter().find_map(message).map(|entry| (entry.evaluation_id, first));
    let mut next: HashMap<Uuid, u64> = known.into_iter().collect();
    for (position, slot) in (head..).zip(slots) {
        match slot {
            Slot::Message(entry) => {
                let id = entry.evaluation_id;
                let expected = match next.entry(id) {
                    Entered::Occupied(known) => known.into_mut(),
                    Entered::Vacant(new) => new.insert(lineage.next_sequence(rows, id.as_bytes()).await?),
                };
                if entry.sequence != *expected {
                    return Err(refused(&AppendError::SequenceGap {
                        expected: *expected,
                        found: entry.sequence,
                    }));
                }
                *expected += 1;
            }
            Slot::Decision(decision, _) => {
                names_what_is_there(rows, lineage, head, position, slots, decision).await?;
            }
            Slot::Erased(_) => {}
        }
    }
    Ok(None)
}

/// A summary must name the one it takes the place of, or another writer's summary would be lost.
async fn current_is_replaced<R: Rows>(
    rows: &mut R,
    lineage: &Lineage,
    decision: &Decision,
) -> Result<(), StoreError> {
    let Decision::Summary { replaces, scope: None, .. } = decision else { return Ok(()) };
    let current = lineage.summary(rows).await?.map(|summary| summary.position);
    if *replaces == current {
        return Ok(());
    }
    Err(StoreError::new(ErrorKind::Stale, "another summary was written first; this one is dropped"))
}

/// The demands on decisions that need no groups.
async fn names_what_is_there<R: Rows>(
    rows: &mut R,
    lineage: &Lineage,
    head: u64,
    position: u64,
    slots: &[Slot],
    decision: &Decision,
) -> Result<(), StoreError> {
    let bad = |message: String| Err(StoreError::new(ErrorKind::BadDecision, message));
    let positions: Vec<u64> = match decision {
        Decision::Lead { positions }
        | Decision::Clear { positions, .. }
        | Decision::ProviderEdit { positions, .. }
        | Decision::Truncate { positions, .. } => positions.clone(),
        Decision::SummaryFailed { range: (first, last), .. } if first > last => {
            return bad(format!("invalid range: {first} is after {last}"));
        }
        Decision::SummaryFailed { range: (first, last), .. } => vec![*first, *last],
        Decision::Turn { entry, .. } => vec![*entry],
        _ => Vec::new(),
    };
    if let Some(beyond) = positions.iter().find(|at| **at >= position) {
        return bad(format!("position {beyond} is not in the record of {position} entries"));
    }
    let Decision::Lead { positions } = decision else { return Ok(()) };
    if positions.is_empty() {
        return bad("a lead without entries would leave the model without instructions".into());
    }
    for (place, at) in positions.iter().enumerate() {
        if positions.iter().take(place).any(|other| other == at) {
            return bad(format!("position {at} appears twice in the lead"));
        }
        let system = if let Some(slot) = at.checked_sub(head).and_then(|place| slots.get(place as usize)) {
            matches!(slot, Slot::Message(entry) if entry.role == Role::System)
        } else {
            let owner = lineage.owner(*at).map(ConversationId::as_str).unwrap_or_default();
            let row: Option<EntryRow> = rows.get(vec![owner.into(), (*at).into()]).await?;
            row.is_some_and(|row| row.kind == crate::rows::MESSAGE && row.role.as_deref() == Some("system"))
        };
        if !system {
            return bad(format!("position {at} is not a system entry and cannot be part of the lead"));
        }
    }
    Ok(())
}

pub(crate) fn refused(error: &AppendError) -> StoreError {
    let kind = match error {
        AppendError::SequenceGap { .. } => ErrorKind::SequenceGap,
        AppendError::BadDecision(_) => ErrorKind::BadDecision,
        AppendError::Full => ErrorKind::TooLarge,
    };
    StoreError::new(kind, error.to_string())
}
