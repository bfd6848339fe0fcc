//! What is handed to a model about a conversation: the lead, the summary, the newest turns.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use scrollback_core::wire::{RenderOptions, Rendered, Wire};
use scrollback_core::{
    CurationContext, Decision, Entry, Fidelity, ItemSource, Record, Role, SUMMARY_HEADING, Slot, View,
    ViewItem,
};

use crate::conversation::Conversation;
use crate::entry::StoredEntry;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::store::{Recent, Store};

/// A conversation as a model should see it.
#[derive(Clone, Debug)]
pub struct History {
    /// The conversation.
    pub conversation: Conversation,
    /// The summary in force.
    pub summary: Option<String>,
    /// Lead, summary, and the newest turns as coherent groups.
    pub items: Vec<ViewItem>,
    /// Messages of the record, erased ones included.
    pub messages: u64,
}

impl History {
    /// The messages in a wire's form.
    pub fn render(&self, wire: Wire) -> Rendered {
        wire.render(self.items.iter().cloned(), RenderOptions::default())
    }
}

/// The last `turns` turns of a conversation that its summary does not stand for, after the lead and the summary. Of a
/// conversation without a user entry, everything. With no turns at all, lead and summary.
///
/// Reads what it shows and not what lies before, so its cost does not grow with the record.
pub async fn history(
    store: &dyn Store,
    tenant: &Tenant,
    id: &ConversationId,
    turns: usize,
) -> Result<History, StoreError> {
    let recent = store.recent(tenant, id, turns).await?;
    let mut items: Vec<ViewItem> = recent.lead.iter().filter_map(lead_item).collect();
    if let Some(summary) = &recent.summary {
        let text = format!("{SUMMARY_HEADING}\n{}", summary.text);
        items.push(ViewItem {
            source: ItemSource::Summary { covers: (summary.covers.0..=summary.covers.1).collect() },
            entry: Arc::new(Entry::text(Role::System, &text)),
            fidelity: Fidelity::AsSaid,
        });
    }
    items.extend(coherent(&recent)?);
    let Recent { conversation, summary, messages, .. } = recent;
    Ok(History { conversation, summary: summary.map(|summary| summary.text), items, messages })
}

fn lead_item(placed: &StoredEntry) -> Option<ViewItem> {
    let Slot::Message(entry) = &placed.slot else { return None };
    Some(ViewItem {
        source: ItemSource::Entry(placed.position),
        entry: Arc::clone(entry),
        fidelity: Fidelity::AsSaid,
    })
}

/// The newest turns as a record of their own, whose view is coherent; positions are those of the whole record.
fn coherent(recent: &Recent) -> Result<Vec<ViewItem>, StoreError> {
    let lead: BTreeSet<u64> = recent.lead.iter().map(|placed| placed.position).collect();
    let first = recent.turns.first().map_or(0, |placed| placed.position);
    let mut sequences: HashMap<uuid::Uuid, u64> = HashMap::new();
    let slots = recent.turns.iter().map(|placed| alone(&placed.slot, &mut sequences));
    let record = Record::restore(slots)
        .map_err(|error| StoreError::damaged(format!("the newest turns are inconsistent: {error}")))?;
    let view = View::of(&record, &CurationContext::default());
    let placed = |item: ViewItem| match item.source {
        ItemSource::Entry(at) => ViewItem { source: ItemSource::Entry(at + first), ..item },
        _ => item,
    };
    let items = view.items().map(placed);
    Ok(items.filter(|item| !matches!(item.source, ItemSource::Entry(at) if lead.contains(&at))).collect())
}

/// A place without what lies before it: evaluations count anew, and of decisions only those about calls still mean
/// something.
fn alone(slot: &Slot, sequences: &mut HashMap<uuid::Uuid, u64>) -> Slot {
    let mut next = |evaluation| {
        let sequence = sequences.entry(evaluation).or_default();
        *sequence += 1;
        *sequence - 1
    };
    match slot {
        Slot::Message(entry) => {
            let (evaluation, at) = (entry.evaluation_id, entry.created_at);
            Slot::Message(Arc::new(Entry::clone(entry).stamped(evaluation, next(evaluation), at)))
        }
        Slot::Erased(tombstone) => {
            let mut tombstone = tombstone.clone();
            tombstone.sequence = next(tombstone.evaluation_id);
            Slot::Erased(tombstone)
        }
        Slot::Decision(decision, at) => {
            let call_ids = match decision.as_ref() {
                Decision::Interrupted { call_ids } => call_ids.clone(),
                _ => Vec::new(),
            };
            Slot::Decision(Arc::new(Decision::Interrupted { call_ids }), *at)
        }
    }
}
