//! Erasing: bodies go, places stay, the chain holds.

use std::collections::BTreeSet;

use scrollback_core::{Slot, Time};

use super::lineage::{self, Lineage};
use super::request::Requests;
use super::{append, calls, commit, large, read, sent, session};
use crate::body;
use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::id::{ConversationId, Tenant};
use crate::rows::{DECISION, EntryRow, MESSAGE, Rows, SentRow, SummaryRow, TOMBSTONE};
use crate::run::{Event, Run, Span, Step};
use crate::table::{Scan, Table};

/// What to erase of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Erase {
    /// Everything that was said.
    All,
    /// These ranges of positions, both ends included.
    Positions(Vec<(u64, u64)>),
}

/// What was erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasedCount {
    /// Messages.
    pub erased: u64,
    /// Model calls whose request and response were emptied.
    pub sent: u64,
    /// Forks that share what was erased.
    pub forks: u64,
    /// Runs whose inputs, outputs, steps, spans and events were emptied.
    pub runs: u64,
    /// Whether copies are left in the file or its log that others still read. They go by themselves when those are done.
    pub pending: bool,
}

/// Erases messages of a conversation, and every summary that stands for one of them.
pub(crate) async fn erase<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
    what: &Erase,
    reason: &str,
    at: Time,
) -> Result<ErasedCount, StoreError> {
    let conversation = commit::locked(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    let wanted = |position: u64| match what {
        Erase::All => true,
        Erase::Positions(ranges) => ranges.iter().any(|(first, last)| (*first..=*last).contains(&position)),
    };
    let all = lineage.rows(rows, 0, conversation.head).await?;
    let (mut positions, mut evaluations) = (BTreeSet::new(), BTreeSet::new());
    for row in all.iter().filter(|row| row.kind == MESSAGE && wanted(row.position)) {
        positions.insert(row.position);
        evaluations.insert(row.evaluation.clone());
        erase_row(rows, tenant, row, reason, at).await?;
    }
    let Some(first) = positions.first().copied() else { return Ok(ErasedCount::default()) };

    // Everyone who reads what was erased: its owner, this conversation, and all forks of them above the first place.
    let owner = lineage.owner(first).unwrap_or(id).clone();
    let mut readers = vec![lineage::conversation(rows, tenant, &owner).await?];
    readers.extend(lineage::descendants(rows, &owner).await?);
    readers.retain(|reader| {
        reader.id == owner || reader.fork_position.is_some_and(|fork| fork > first) || reader.id == *id
    });
    let mut count = ErasedCount {
        erased: positions.len() as u64,
        forks: readers.iter().filter(|reader| reader.id != owner).count() as u64,
        ..ErasedCount::default()
    };
    for reader in &mut readers {
        // Nothing is appended to it and no call of it written until this is done.
        *reader = commit::locked(rows, tenant, &reader.id).await?;
        erase_repeated(rows, tenant, reader, &positions, reason, at).await?;
        derive_anew(rows, tenant, reader).await?;
        count.sent += empty_sent(rows, tenant, reader, &positions, &evaluations).await?;
        // The titles of sessions and of what clients say are words of the conversation.
        if *what == Erase::All || reader.scope.is_some() {
            reader.title = None;
            session::forget_title(rows, reader).await?;
        }
        reader.updated_at = at;
        rows.put(reader).await?;
        if *what == Erase::All {
            count.runs += empty_runs(rows, tenant, &reader.id).await?;
        }
    }
    Ok(count)
}

/// Empties what the runs of a conversation were given, answered and noted. That they ran stays, and what they ran.
async fn empty_runs<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &ConversationId,
) -> Result<u64, StoreError> {
    let of = Scan::new().equal("tenant", tenant.as_str()).equal("conversation_id", conversation.as_str());
    let runs = rows.scan::<Run>(of).await?;
    for run in &runs {
        empty(rows, tenant, run, |run| (run.input, run.output, run.error) = (None, None, None)).await?;
        let of_run = || Scan::new().equal("run_id", run.id.as_str());
        for step in rows.scan::<Step>(of_run()).await? {
            empty(rows, tenant, &step, |step| (step.input, step.output, step.error) = (None, None, None))
                .await?;
        }
        for span in rows.scan::<Span>(of_run()).await? {
            empty(rows, tenant, &span, |span| span.attributes = None).await?;
        }
        for event in rows.scan::<Event>(of_run()).await? {
            empty(rows, tenant, &event, |event| event.data = None).await?;
        }
    }
    Ok(runs.len() as u64)
}

/// Takes values out of a row, with the blobs that hold them.
async fn empty<R: Rows, V: large::Values + Table + Clone + Sync>(
    rows: &mut R,
    tenant: &Tenant,
    row: &V,
    clear: impl FnOnce(&mut V) + Send,
) -> Result<(), StoreError> {
    let mut after = [row.clone()];
    large::put_back(rows, tenant, &mut after).await?;
    let [mut after] = after;
    clear(&mut after);
    large::put_away(rows, tenant, &mut after, Some(row.clone())).await?;
    rows.put(&after).await
}

/// Leaves a tombstone in the place of a row's body.
async fn erase_row<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    row: &EntryRow,
    reason: &str,
    at: Time,
) -> Result<(), StoreError> {
    for hash in body::references(&row.body) {
        rows.release(tenant, &hash).await?;
    }
    let body = body::grave(row, reason, at);
    rows.unindex(&row.conversation, row.position).await?;
    rows.put(&EntryRow { kind: TOMBSTONE.into(), body, ..row.clone() }).await
}

/// Erases the summaries and plans of a conversation that repeat words of an erased entry.
async fn erase_repeated<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &Conversation,
    positions: &BTreeSet<u64>,
    reason: &str,
    at: Time,
) -> Result<(), StoreError> {
    let scan = Scan::new()
        .equal("conversation_id", conversation.id.as_str())
        .absent("role")
        .ascending(&["position"]);
    let mut decisions = rows.scan::<EntryRow>(scan).await?;
    decisions.retain(|row| row.kind == DECISION);
    for (row, placed) in decisions.iter().zip(read::places(rows, tenant, &decisions).await?) {
        let Slot::Decision(decision, _) = &placed.slot else { continue };
        if decision.repeats(|position| positions.contains(&position)) {
            erase_row(rows, tenant, row, reason, at).await?;
            rows.remove::<SummaryRow>(vec![row.conversation.as_str().into(), row.position.into()]).await?;
        }
    }
    Ok(())
}

/// Counts and pairs anew what is left: results may now answer other calls, and turns have no summary.
async fn derive_anew<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &mut Conversation,
) -> Result<(), StoreError> {
    let lineage = Lineage::of(rows, conversation).await?;
    let record = read::record(rows, tenant, &lineage, conversation.head).await?;
    conversation.uncovered_turns = append::uncovered(&record, conversation.turns);
    let own_from = conversation.fork_position.filter(|_| conversation.parent.is_some()).unwrap_or(0);
    let slots: Vec<(u64, Slot)> = (0..).zip(record.slots().iter().cloned()).collect();
    calls::rebuild(rows, &conversation.id, own_from, &slots).await.map(|_| ())
}

/// Empties what was sent with an erased entry in it, and the replies of the evaluations that were erased.
async fn empty_sent<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &Conversation,
    erased: &BTreeSet<u64>,
    evaluations: &BTreeSet<Option<Vec<u8>>>,
) -> Result<u64, StoreError> {
    let Some(first) = erased.first().copied() else { return Ok(0) };
    let scan = Scan::new().equal("conversation_id", conversation.id.as_str());
    let mut requests = Requests::new(tenant, &conversation.id);
    let mut emptied = 0;
    for row in rows.scan::<SentRow>(scan).await? {
        let evaluation = row.sent.evaluation.map(|id| id.as_bytes().to_vec());
        let mut held = row.sent.upto > first || evaluation.is_none() || evaluations.contains(&evaluation);
        if let Some(list) = row.template.as_ref().filter(|_| !held) {
            // Whatever its row says: a request that copies what was erased held it. So may one that cannot be read.
            let copied = requests.positions(rows, list).await;
            held = copied.map_or(true, |copied| !copied.is_disjoint(erased));
        }
        if held && sent::empty(rows, row).await? {
            emptied += 1;
        }
    }
    Ok(emptied)
}
