//! Recording what a caller's own list of messages says that the record does not say yet.

use scrollback_core::identity::continue_from;
use scrollback_core::request::{Stamp, lead_of, news};
use scrollback_core::{Decision, Entry, Record, Role, Slot, Time};

use crate::entry::{Expected, NewEntry};
use crate::error::StoreError;
use crate::id::{ConversationId, Recipient, Tenant, new_evaluation};
use crate::store::{RecordsExt, Store};

/// Where the messages of a list stand in the record of a recipient's conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// For each message of the list, leading instructions included, its position.
    pub positions: Vec<u64>,
    /// How many entries were appended.
    pub appended: usize,
    /// Whether the list left what was recorded, so that the conversation goes on in a fork.
    pub branched: bool,
}

/// Appends what a list of messages says that the record does not. The list may be the whole conversation or its newest part;
/// one that repeats the beginning and then says something else makes a fork the recipient's current conversation.
///
/// `record` is that of the current conversation. Another writer who came first is an error of kind `conflict`: read the record
/// again and repeat.
pub async fn follow(
    store: &dyn Store,
    tenant: &Tenant,
    recipient: &Recipient,
    record: &Record,
    list: &[Entry],
    at: Time,
) -> Result<Followed, StoreError> {
    let instructions = list.iter().take_while(|entry| entry.role == Role::System).count();
    let (instructions, said) = list.split_at(instructions);
    let mut found = continue_from(record, said);
    let fork;
    let mut record = record;
    if let Some(branch) = found.branch_at {
        let id = ConversationId::new(at);
        store.rewind(tenant, recipient, branch, id.clone(), at).await?;
        fork = store.record(tenant, &id, None).await?;
        record = &fork;
    }
    let new_said = said.get(found.new_from..).unwrap_or_default();
    let stamp = Stamp { evaluation: new_evaluation(), sequence: 0, at };
    let slots = news(record, instructions, new_said, stamp);
    let first = record.len() as u64;
    let lead = match slots.iter().rev().find_map(lead_in) {
        Some(positions) => positions,
        None if record.is_empty() => (0..instructions.len() as u64).collect(),
        None => lead_of(record),
    };
    let said_at = first + (slots.len() - new_said.len()) as u64;
    if !slots.is_empty() {
        let new = slots.iter().filter_map(NewEntry::of).collect();
        store.append_for(tenant, at, recipient, Expected::At(first), new).await?;
    }
    for (place, position) in found.places.iter_mut().skip(found.new_from).zip(said_at..) {
        *place = Some(position);
    }
    // What says nothing of its own may not be recorded: it stands where the entry before it does.
    let mut nearest = 0;
    let said = found.places.into_iter().map(|place| {
        nearest = place.unwrap_or(nearest);
        nearest
    });
    Ok(Followed {
        positions: lead.into_iter().take(instructions.len()).chain(said).collect(),
        appended: slots.len(),
        branched: found.branch_at.is_some(),
    })
}

fn lead_in(slot: &Slot) -> Option<Vec<u64>> {
    match slot {
        Slot::Decision(decision, _) => match decision.as_ref() {
            Decision::Lead { positions } => Some(positions.clone()),
            _ => None,
        },
        _ => None,
    }
}
