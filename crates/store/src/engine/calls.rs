//! The table of calls: which tool calls were made, and which entry answered each. Derived from the entries, by the rule by
//! which core pairs them: a result belongs to the nearest call before it that claimed its id.

use std::collections::{BTreeSet, HashMap, HashSet};

use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Role, Slot};

use super::lineage::Lineage;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::{CallRow, Rows};
use crate::table::Scan;

/// The ids of the calls that a client must answer, each once. Ids that were given to calls without one are no part of what was said:
/// they are given anew whenever the record is read.
fn claimed(entry: &Entry) -> Vec<String> {
    let mut ids: Vec<String> = entry
        .open_calls()
        .filter_map(|call| call.call_id.as_ref())
        .filter(|id| !id.is_own())
        .map(|id| id.as_str().into_owned())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

/// Notes the calls and results of an entry that is being appended.
pub(crate) async fn note<R: Rows>(
    rows: &mut R,
    lineage: &Lineage,
    conversation: &ConversationId,
    position: u64,
    entry: &Entry,
) -> Result<(), StoreError> {
    let call = |call_id: String| CallRow {
        conversation: conversation.clone(),
        call_id,
        position,
        result_position: None,
    };
    if entry.role == Role::Assistant {
        let made: Vec<CallRow> = claimed(entry).into_iter().map(call).collect();
        if !made.is_empty() {
            rows.add(&made).await?;
        }
    }
    let Some(id) = entry.tool_call_id() else { return Ok(()) };
    for segment in lineage.segments.iter().rev() {
        let scan = Scan::new()
            .equal("conversation_id", segment.conversation.as_str())
            .equal("call_id", id.as_str())
            .below("position", segment.below)
            .descending(&["position"])
            .limit(1);
        let Some(found) = rows.scan::<CallRow>(scan).await?.pop() else { continue };
        // What a parent was answered after the fork was not answered here.
        if found.result_position.is_none_or(|at| at >= segment.below) {
            let answered =
                CallRow { conversation: conversation.clone(), result_position: Some(position), ..found };
            rows.put(&answered).await?;
        }
        break;
    }
    Ok(())
}

/// The calls and results of a record, noted place by place: what the table should say.
#[derive(Default)]
pub(crate) struct CallLedger {
    calls: Vec<(String, u64, Option<u64>)>,
    latest: HashMap<String, usize>,
    /// The calls of the newest reply, by the name of their tool: some results have no id and are paired by name.
    newest: Vec<(String, usize)>,
    erased: HashSet<u64>,
}

impl CallLedger {
    /// Notes what a place says. Places come in order.
    pub(crate) fn note(&mut self, position: u64, slot: &Slot) {
        let entry = match slot {
            Slot::Message(entry) => entry,
            Slot::Erased(_) => {
                self.erased.insert(position);
                return;
            }
            Slot::Decision(..) => return,
        };
        if entry.role == Role::Assistant {
            for call_id in claimed(entry) {
                self.latest.insert(call_id.clone(), self.calls.len());
                self.calls.push((call_id, position, None));
            }
            let named = entry.tool_calls().filter_map(|call| {
                let place = self.latest.get(call.call_id.as_ref()?.as_str().as_ref())?;
                Some((call.name.as_str().into_owned(), *place))
            });
            self.newest = named.collect();
        }
        let answered = match entry.tool_call_id() {
            Some(id) => self.latest.get(&id).copied(),
            None => self.answered_by_name(entry),
        };
        let answered = answered.and_then(|place| self.calls.get_mut(place));
        if let Some((_, _, result)) = answered.filter(|(_, _, result)| result.is_none()) {
            *result = Some(position);
        }
    }

    /// The first call of the newest reply to the tool of a result, that has no result yet. Only Gemini pairs by name.
    fn answered_by_name(&self, entry: &Entry) -> Option<usize> {
        if entry.origin.wire != Wire::Gemini {
            return None;
        }
        let name = entry.tool_result()?.name.as_ref()?.as_str();
        let open = |place: usize| self.calls.get(place).is_some_and(|(_, _, result)| result.is_none());
        self.newest.iter().find(|(tool, place)| *tool == name && open(*place)).map(|(_, place)| *place)
    }

    /// The rows a conversation should have: its own calls, and the calls of its ancestors that it answered. Given those it
    /// has, because a result that was erased still counts as given.
    pub(crate) fn rows(
        self,
        conversation: &ConversationId,
        own_from: u64,
        stored: &[CallRow],
    ) -> Vec<CallRow> {
        let given: HashMap<(&str, u64), u64> = stored
            .iter()
            .filter_map(|call| {
                let at = call.result_position.filter(|at| self.erased.contains(at))?;
                Some(((call.call_id.as_str(), call.position), at))
            })
            .collect();
        let own = |position: u64, result: Option<u64>| {
            position >= own_from || result.is_some_and(|position| position >= own_from)
        };
        let mut calls: Vec<CallRow> = self
            .calls
            .into_iter()
            .filter(|(_, position, result)| own(*position, *result))
            .map(|(call_id, position, result)| {
                let result_position = given.get(&(call_id.as_str(), position)).copied().or(result);
                CallRow { conversation: conversation.clone(), call_id, position, result_position }
            })
            .collect();
        calls.sort_by(|a, b| (&a.call_id, a.position).cmp(&(&b.call_id, b.position)));
        calls
    }
}

/// Writes the rows of a conversation anew, where they are not what they should be; how many that were.
pub(crate) async fn rebuild<R: Rows>(
    rows: &mut R,
    id: &ConversationId,
    own_from: u64,
    slots: &[(u64, Slot)],
) -> Result<u64, StoreError> {
    let scan = Scan::new().equal("conversation_id", id.as_str()).ascending(&["call_id", "position"]);
    let stored = rows.scan::<CallRow>(scan).await?;
    let mut ledger = CallLedger::default();
    for (position, slot) in slots {
        ledger.note(*position, slot);
    }
    let wanted = ledger.rows(id, own_from, &stored);
    if wanted == stored {
        return Ok(0);
    }
    for call in &stored {
        let key = vec![id.as_str().into(), call.call_id.as_str().into(), call.position.into()];
        rows.remove::<CallRow>(key).await?;
    }
    rows.add(&wanted).await?;
    Ok(wanted.len().max(stored.len()) as u64)
}

/// A call that was not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCall {
    /// Its id.
    pub call_id: String,
    /// The entry that made it.
    pub position: u64,
}

/// The calls of a record that were not answered yet, oldest first.
pub(crate) async fn pending<R: Rows>(
    rows: &mut R,
    lineage: &Lineage,
) -> Result<Vec<PendingCall>, StoreError> {
    let mut open = BTreeSet::new();
    for segment in &lineage.segments {
        let mut scan = Scan::new().equal("conversation_id", segment.conversation.as_str());
        if lineage.segments.len() == 1 {
            // The usual case has an index of its own.
            scan = scan.absent("result_position");
        }
        for row in rows.scan::<CallRow>(scan).await?.into_iter().filter(|row| row.position < segment.below) {
            let answered = row.result_position.is_some_and(|at| at < segment.below);
            let call = (row.position, row.call_id);
            let _ = if answered { open.remove(&call) } else { open.insert(call) };
        }
    }
    Ok(open.into_iter().map(|(position, call_id)| PendingCall { call_id, position }).collect())
}

/// The same for a conversation of a tenant.
pub(crate) async fn of<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Vec<PendingCall>, StoreError> {
    let conversation = super::lineage::conversation(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    pending(rows, &lineage).await
}
