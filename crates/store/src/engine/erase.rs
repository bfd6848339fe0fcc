//! Erasing: bodies go, places stay, the chain holds.

use std::collections::{BTreeMap, BTreeSet};

use scrollback_core::{Decision, Slot, Time};
use serde::Serialize;

use super::lineage::{self, Lineage};
use super::request::Requests;
use super::sent::Freed;
use super::{append, calls, commit, fact, large, read, sent, session};
use crate::body;
use crate::conversation::Conversation;
use crate::erasure::Pseudonyms;
use crate::error::StoreError;
use crate::id::{ConversationId, Recipient, Tenant};
use crate::rows::{DECISION, EntryRow, MESSAGE, Rows, SentRow, SummaryRow, TOMBSTONE};
use crate::run::{Alias, Event, Run, Span, Step};
use crate::session::Session;
use crate::status::{CallStatus, RunKind};
use crate::table::{Scan, Table};

/// Foreign ids looked through in one step.
const ALIASES: usize = 2_000;

/// What to erase of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Erase {
    /// Everything that was said.
    All,
    /// These ranges of positions, both ends included.
    Positions(Vec<(u64, u64)>),
    /// Everything that was said, and everything by which the person it was said with can be recognised: their name, which a
    /// pseudonym takes the place of, titles, and the ids by which clients know the conversation.
    Person(Recipient),
}

impl Erase {
    /// Whether nothing that was said stays.
    fn is_everything(&self) -> bool {
        !matches!(self, Erase::Positions(_))
    }
}

/// What was erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ErasedCount {
    /// Messages.
    pub erased: u64,
    /// Summaries that stood for them.
    pub summaries: u64,
    /// Other decisions that repeat them.
    pub decisions: u64,
    /// Model calls whose request and response were emptied.
    pub sent: u64,
    /// Model calls that had not ended; their replies are not kept.
    pub under_way: u64,
    /// Forks that share what was erased.
    pub forks: u64,
    /// Runs whose inputs, outputs, steps, spans and events were emptied.
    pub runs: u64,
    /// Steps of them.
    pub steps: u64,
    /// Spans of them.
    pub spans: u64,
    /// Events of them.
    pub events: u64,
    /// Entries that searches found by their words.
    pub words: u64,
    /// Large texts and files that nothing else refers to.
    pub blobs: u64,
    /// Names of the person and ids given by clients that a pseudonym took the place of.
    pub names: u64,
    /// Pages of the file that were given back.
    pub free_pages: u64,
    /// Whether copies are left in the file or its log that others still read. They go by themselves when those are done.
    pub pending: bool,
}

impl ErasedCount {
    /// Adds what was erased elsewhere.
    pub(crate) fn and(&mut self, other: ErasedCount) {
        self.erased += other.erased;
        self.summaries += other.summaries;
        self.decisions += other.decisions;
        self.sent += other.sent;
        self.under_way += other.under_way;
        self.forks += other.forks;
        self.runs += other.runs;
        self.steps += other.steps;
        self.spans += other.spans;
        self.events += other.events;
        self.words += other.words;
        self.blobs += other.blobs;
        self.names += other.names;
        self.free_pages += other.free_pages;
        self.pending |= other.pending;
    }
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
        Erase::All | Erase::Person(_) => true,
        Erase::Positions(ranges) => ranges.iter().any(|(first, last)| (*first..=*last).contains(&position)),
    };
    let all = lineage.rows(rows, 0, conversation.head).await?;
    let (mut positions, mut evaluations) = (BTreeSet::new(), BTreeSet::new());
    let mut freed = Freed::default();
    for row in all.iter().filter(|row| row.kind == MESSAGE && wanted(row.position)) {
        positions.insert(row.position);
        evaluations.insert(row.evaluation.clone());
        freed.and(erase_row(rows, tenant, row, reason, at).await?);
    }
    let erased = positions.len() as u64;
    let mut count = ErasedCount { erased, words: erased, ..ErasedCount::default() };
    let mut readers = match positions.first().copied() {
        // Everyone who reads what was erased: its owner, this conversation, and all forks of them above the first place.
        Some(first) => {
            let owner = lineage.owner(first).unwrap_or(id).clone();
            let mut readers = vec![lineage::conversation(rows, tenant, &owner).await?];
            readers.extend(lineage::descendants(rows, &owner).await?);
            readers.retain(|reader| {
                reader.id == owner
                    || reader.fork_position.is_some_and(|fork| fork > first)
                    || reader.id == *id
            });
            count.forks = readers.iter().filter(|reader| reader.id != owner).count() as u64;
            readers
        }
        // What was said is gone already, or there was nothing. Titles, calls and runs are looked at all the same.
        None if what.is_everything() => vec![conversation],
        None => return Ok(count),
    };
    for reader in &mut readers {
        // Nothing is appended to it and no call of it written until this is done.
        *reader = commit::locked(rows, tenant, &reader.id).await?;
        let before = reader.clone();
        // Of the conversation itself nothing that was decided is of use any more, and some of it has words.
        let whole = what.is_everything() && reader.id == *id;
        let repeated =
            |decision: &Decision| whole || decision.repeats(|position| positions.contains(&position));
        let (summaries, decisions) = erase_decisions(rows, tenant, reader, repeated, reason, at).await?;
        count.summaries += summaries;
        count.decisions += decisions;
        if !positions.is_empty() || summaries + decisions > 0 {
            derive_anew(rows, tenant, reader).await?;
        }
        let held = if whole { HeldBy::Everything(at) } else { HeldBy::Positions(&positions, &evaluations) };
        let (sent, under_way, emptied) = empty_sent(rows, tenant, reader, held).await?;
        count.sent += sent;
        count.under_way += under_way;
        freed.and(emptied);
        // The titles of sessions and of what clients say are words of the conversation.
        if what.is_everything() || reader.scope.is_some() {
            reader.title = None;
            session::forget_title(rows, reader).await?;
        }
        if what.is_everything() {
            let (emptied, gone) = empty_runs(rows, tenant, &reader.id).await?;
            count.and(emptied);
            freed.and(gone);
        }
        if let (Erase::Person(person), true) = (what, reader.id == *id) {
            count.names += forget_person(rows, reader, person).await?;
        }
        if *reader != before || !positions.is_empty() || summaries + decisions + sent + under_way > 0 {
            // Always later than before: who has a copy of it must notice, also within the same millisecond.
            reader.updated_at = at.max(Time(before.updated_at.0.saturating_add(1)));
            rows.put(reader).await?;
        }
    }
    if let Erase::Person(person) = what {
        count.names += forget_session(rows, tenant, id, person).await?;
    }
    count.blobs = freed.blobs;
    Ok(count)
}

/// Takes away by whom a conversation can be told to be someone's. How many names that were.
async fn forget_person<R: Rows>(
    rows: &mut R,
    conversation: &mut Conversation,
    person: &Recipient,
) -> Result<u64, StoreError> {
    let pseudonym = fact::pseudonyms_made(rows).await?.person(&conversation.tenant, person);
    let theirs = conversation.recipient.as_ref().is_none_or(|known| known == person);
    let named = conversation.recipient.as_ref() == Some(person) && *person != pseudonym;
    let others = [conversation.key.is_some(), conversation.project.is_some(), conversation.scope.is_some()];
    if theirs {
        conversation.recipient = Some(pseudonym);
    }
    (conversation.key, conversation.project, conversation.scope) = (None, None, None);
    (conversation.status, conversation.status_at) = (None, None);
    // So no follow-up becomes due.
    (conversation.last_role, conversation.last_said_at) = (None, None);
    Ok(u64::from(named) + others.into_iter().filter(|there| *there).count() as u64)
}

/// Takes the client's own id away from a session in which nothing is left but what was erased.
async fn forget_session<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
    person: &Recipient,
) -> Result<u64, StoreError> {
    let conversation = lineage::conversation(rows, tenant, id).await?;
    let Some(known) = session::of_id(rows, tenant, &conversation.session).await? else { return Ok(0) };
    let pseudonyms = fact::pseudonyms_made(rows).await?;
    let erased = pseudonyms.person(tenant, person);
    if pseudonyms.text(tenant, &known.client_id) == known.client_id {
        return Ok(0);
    }
    // With the session's own id: the client may have begun another one under the same id after an earlier erasure.
    let client_id = pseudonyms.text(tenant, &format!("{}\n{}", known.client_id, known.id));
    let scan = Scan::new().equal("session_id", known.id.as_str());
    let all = rows.scan::<Conversation>(scan).await?;
    if all.iter().any(|one| one.recipient.as_ref() != Some(&erased)) {
        return Ok(0);
    }
    let caller = pseudonyms.text(tenant, &known.caller);
    rows.put(&Session { client_id, caller, title: None, ..known }).await?;
    Ok(1)
}

/// The foreign ids of some conversations, from a place in the list of all on; and where the next step begins.
pub(crate) async fn aliases_of<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    ids: &BTreeSet<ConversationId>,
    after: Option<(String, String)>,
) -> Result<(Vec<Alias>, Option<(String, String)>), StoreError> {
    let after = after.map(|(source, id)| vec![source.into(), id.into()]);
    let scan = Scan::new()
        .equal("tenant", tenant.as_str())
        .ascending(&["source", "source_id"])
        .after(after)
        .limit(ALIASES);
    let page = rows.scan::<Alias>(scan).await?;
    let last = page.last().filter(|_| page.len() == ALIASES);
    let next = last.map(|last| (last.source.clone(), last.source_id.clone()));
    Ok((page.into_iter().filter(|alias| ids.contains(&alias.conversation)).collect(), next))
}

/// Lets pseudonyms take the place of foreign ids: what is imported once more is still known, and cannot be read from here.
pub(crate) async fn forget_aliases<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    aliases: &[Alias],
) -> Result<u64, StoreError> {
    let pseudonyms = fact::pseudonyms_made(rows).await?;
    let mut forgotten = 0;
    for alias in aliases {
        let source_id = pseudonyms.text(tenant, &alias.source_id);
        if source_id != alias.source_id {
            rows.remove::<Alias>(alias.key()).await?;
            rows.put(&Alias { source_id, ..alias.clone() }).await?;
            forgotten += 1;
        }
    }
    Ok(forgotten)
}

/// What makes pseudonyms, if anything was erased by name yet.
pub(crate) async fn pseudonyms<R: Rows>(rows: &mut R) -> Result<Option<Pseudonyms>, StoreError> {
    fact::pseudonyms(rows).await
}

/// Empties what the runs of a conversation were given, answered and noted. That they ran stays, and which flow they ran. The
/// mission of a sub-agent is written for one run, so its text goes too.
async fn empty_runs<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &ConversationId,
) -> Result<(ErasedCount, Freed), StoreError> {
    let (mut count, mut freed) = (ErasedCount::default(), Freed::default());
    let of = Scan::new().equal("tenant", tenant.as_str()).equal("conversation_id", conversation.as_str());
    for run in rows.scan::<Run>(of).await? {
        let clear = |run: &mut Run| {
            (run.input, run.output, run.error) = (None, None, None);
            if run.kind == RunKind::Subagent {
                (run.text, run.settings) = (String::new(), None);
            }
        };
        let before = count;
        let changed = empty(rows, tenant, &run, clear, &mut freed).await?;
        let of_run = || Scan::new().equal("run_id", run.id.as_str());
        for step in rows.scan::<Step>(of_run()).await? {
            let clear = |step: &mut Step| (step.input, step.output, step.error) = (None, None, None);
            count.steps += u64::from(empty(rows, tenant, &step, clear, &mut freed).await?);
        }
        for span in rows.scan::<Span>(of_run()).await? {
            let clear = |span: &mut Span| span.attributes = None;
            count.spans += u64::from(empty(rows, tenant, &span, clear, &mut freed).await?);
        }
        for event in rows.scan::<Event>(of_run()).await? {
            let clear = |event: &mut Event| event.data = None;
            count.events += u64::from(empty(rows, tenant, &event, clear, &mut freed).await?);
        }
        count.runs += u64::from(changed || count != before);
    }
    Ok((count, freed))
}

/// Takes values out of a row, with the blobs that hold them. Whether there were some.
async fn empty<R: Rows, V: large::Values + Table + Clone + PartialEq + Sync>(
    rows: &mut R,
    tenant: &Tenant,
    row: &V,
    clear: impl FnOnce(&mut V) + Send,
    freed: &mut Freed,
) -> Result<bool, StoreError> {
    let mut cleared = row.clone();
    clear(&mut cleared);
    if cleared == *row {
        return Ok(false);
    }
    let mut after = [cleared];
    large::put_back(rows, tenant, &mut after).await?;
    let [mut after] = after;
    freed.and(large::put_away(rows, tenant, &mut after, Some(row.clone())).await?);
    rows.put(&after).await?;
    Ok(true)
}

/// Leaves a tombstone in the place of a row's body.
async fn erase_row<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    row: &EntryRow,
    reason: &str,
    at: Time,
) -> Result<Freed, StoreError> {
    let mut freed = Freed::default();
    for hash in body::references(&row.body) {
        freed.blob(rows.release(tenant, &hash).await?);
    }
    let body = body::grave(row, reason, at);
    rows.unindex(&row.conversation, row.position).await?;
    rows.put(&EntryRow { kind: TOMBSTONE.into(), body, ..row.clone() }).await?;
    Ok(freed)
}

/// Erases the decisions of a conversation that repeat words of an erased entry: how many of them were summaries, and how many
/// were not.
async fn erase_decisions<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &Conversation,
    repeats: impl Fn(&Decision) -> bool + Send,
    reason: &str,
    at: Time,
) -> Result<(u64, u64), StoreError> {
    let mut erased = BTreeMap::from([(true, 0), (false, 0)]);
    let scan = Scan::new()
        .equal("conversation_id", conversation.id.as_str())
        .absent("role")
        .ascending(&["position"]);
    let mut decisions = rows.scan::<EntryRow>(scan).await?;
    decisions.retain(|row| row.kind == DECISION);
    for (row, placed) in decisions.iter().zip(read::places(rows, tenant, &decisions).await?) {
        let Slot::Decision(decision, _) = &placed.slot else { continue };
        if repeats(decision) {
            erase_row(rows, tenant, row, reason, at).await?;
            rows.remove::<SummaryRow>(vec![row.conversation.as_str().into(), row.position.into()]).await?;
            *erased.entry(matches!(**decision, Decision::Summary { .. })).or_default() += 1;
        }
    }
    let of = |kind: bool| erased.get(&kind).copied().unwrap_or_default();
    Ok((of(true), of(false)))
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

/// Which calls of a conversation hold what was erased.
enum HeldBy<'e> {
    /// All of them. Those that have not ended are closed at this time, so that no reply is written afterwards.
    Everything(Time),
    /// Those that were sent one of these positions, and those of these evaluations.
    Positions(&'e BTreeSet<u64>, &'e BTreeSet<Option<Vec<u8>>>),
}

/// Empties what was sent with an erased entry in it, and the replies of the evaluations that were erased: how many calls that
/// were, how many of them had not ended, and what went.
async fn empty_sent<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    conversation: &Conversation,
    held_by: HeldBy<'_>,
) -> Result<(u64, u64, Freed), StoreError> {
    let (mut emptied, mut under_way, mut freed) = (0, 0, Freed::default());
    let scan = Scan::new().equal("conversation_id", conversation.id.as_str());
    let (erased, evaluations) = match held_by {
        HeldBy::Positions(erased, evaluations) => (erased, evaluations),
        HeldBy::Everything(at) => {
            for mut row in rows.scan::<SentRow>(scan).await? {
                if row.sent.status == CallStatus::Sent {
                    (row.sent.status, row.sent.ended_at) = (CallStatus::Erased, Some(at));
                    rows.put(&row).await?;
                    under_way += 1;
                }
                if let Some(gone) = sent::empty(rows, row).await? {
                    emptied += 1;
                    freed.and(gone);
                }
            }
            return Ok((emptied, under_way, freed));
        }
    };
    let Some(first) = erased.first().copied() else { return Ok((0, 0, freed)) };
    let mut requests = Requests::new(tenant, &conversation.id);
    for row in rows.scan::<SentRow>(scan).await? {
        let evaluation = row.sent.evaluation.map(|id| id.as_bytes().to_vec());
        let mut held = row.sent.upto > first || evaluation.is_none() || evaluations.contains(&evaluation);
        if let Some(list) = row.template.as_ref().filter(|_| !held) {
            // Whatever its row says: a request that copies what was erased held it. So may one that cannot be read.
            let copied = requests.positions(rows, list).await;
            held = copied.map_or(true, |copied| !copied.is_disjoint(erased));
        }
        if held && let Some(gone) = sent::empty(rows, row).await? {
            emptied += 1;
            freed.and(gone);
        }
    }
    Ok((emptied, under_way, freed))
}
