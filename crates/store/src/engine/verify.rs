//! Verifying: whether the store says what was written.

use std::collections::{BTreeSet, HashMap};

use scrollback_core::{Link, PREFIX_START, Slot, body_hash, first_link, link_over, next_prefix};

use super::append::summary_row;
use super::calls::{self, CallLedger};
use super::lineage::{self, Lineage};
use super::request::{Requests, UnreadableRequest};
use crate::body;
use crate::conversation::Conversation;
use crate::error::{ErrorKind, StoreError};
use crate::id::{ConversationId, Tenant};
use crate::rows::{Blob, CallRow, EntryRow, Rows, SentRow, SummaryRow, TOMBSTONE};
use crate::table::Scan;

/// Entries read at a time, so that a conversation of any length takes the same memory.
const PAGE: usize = 4096;
/// Most threads that read them, and entries below which one is quicker.
const THREADS: usize = 8;
const WORTH_SHARING: usize = 256;

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityProblem {
    /// Where.
    pub conversation: ConversationId,
    /// At which position, if it is about one.
    pub position: Option<u64>,
    /// What kind of problem.
    pub problem: ProblemKind,
    /// One line for people.
    pub detail: String,
}

/// The kinds of [`IntegrityProblem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// A position is not there.
    MissingPosition,
    /// An entry does not say what was written.
    BodyChanged,
    /// An entry does not follow from the one before it.
    LinkBroken,
    /// The conversation ends elsewhere than its last entry does, or than was noted elsewhere.
    HeadMismatch,
    /// An evaluation has a gap.
    SequenceGap,
    /// What is derived from the entries does not follow from them; can be rebuilt.
    IndexStale,
    /// A blob is not there.
    BlobMissing,
    /// A blob is not what it is named after.
    BlobChanged,
    /// The request of a model call is not what was sent.
    RequestChanged,
    /// A row that belongs to no single conversation is not what was written.
    RowChanged,
    /// A page of the store, or an index, is damaged.
    PageDamaged,
}

impl ProblemKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            ProblemKind::MissingPosition => "missing_position",
            ProblemKind::BodyChanged => "body_changed",
            ProblemKind::LinkBroken => "link_broken",
            ProblemKind::HeadMismatch => "head_mismatch",
            ProblemKind::SequenceGap => "sequence_gap",
            ProblemKind::IndexStale => "index_stale",
            ProblemKind::BlobMissing => "blob_missing",
            ProblemKind::BlobChanged => "blob_changed",
            ProblemKind::RequestChanged => "request_changed",
            ProblemKind::RowChanged => "row_changed",
            ProblemKind::PageDamaged => "page_damaged",
        }
    }
}

/// What verifying one conversation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Messages looked at, erased ones included.
    pub entries: u64,
    /// Erased messages.
    pub erased: u64,
    /// What is wrong.
    pub problems: Vec<IntegrityProblem>,
    /// Rows of derived tables that were written anew; only when that was asked for.
    pub reindexed: u64,
}

/// Verifies the own entries of a conversation and what hangs on them.
pub(crate) async fn verify<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Verified, StoreError> {
    let conversation = lineage::conversation(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    let own_from = conversation.fork_position.filter(|_| conversation.parent.is_some()).unwrap_or(0);
    let mut check = VerifyState::new(&conversation, own_from, &inherited(rows, &lineage, own_from).await?);

    if own_from > 0 {
        let mut at = 0;
        while at < own_from {
            let below = own_from.min(at + PAGE as u64);
            for placed in super::read::range(rows, tenant, &lineage, at, below).await? {
                check.ledger.note(placed.position, &placed.slot);
            }
            at = below;
        }
    }
    // Everything of the conversation, also what lies beyond its head.
    let mut from = 0;
    loop {
        let own = Scan::new().equal("conversation_id", id.as_str()).from("position", from);
        let page = rows.scan::<EntryRow>(own.ascending(&["position"]).limit(PAGE)).await?;
        let Some(last) = page.last() else { break };
        if last.position < from {
            // A damaged page: asked for again, the same row would come for ever.
            let what = "a row says another position than the one by which it is found";
            check.problem(Some(last.position), ProblemKind::RowChanged, what);
            break;
        }
        from = last.position.saturating_add(1);
        let blobs = check.blobs(rows, &page).await?;
        for (row, told) in page.iter().zip(read_all(&page, &blobs)) {
            check.row(row, told);
        }
        check.sequences(rows, &lineage, &page).await?;
    }
    check.end();
    check.calls(rows, own_from).await?;
    check.summaries(rows).await?;
    check.model_calls(rows).await?;
    Ok(check.verified)
}

/// What an entry says, and the hash of that; in words, why it cannot be told.
type ReadSlot = Result<(Slot, Link), String>;

/// Reads entries, on as many threads as there are cores: this is what verifying takes its time for.
fn read_all(page: &[EntryRow], blobs: &HashMap<Link, Vec<u8>>) -> Vec<ReadSlot> {
    let tell = |row: &EntryRow| {
        let slot = body::read(row, blobs)?;
        let hash = body_hash(row.position, &slot);
        Ok((slot, hash))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    if page.len() < WORTH_SHARING || threads < 2 {
        return page.iter().map(tell).collect();
    }
    std::thread::scope(|scope| {
        let parts = page.chunks(page.len().div_ceil(threads));
        let readers: Vec<_> =
            parts.map(|part| scope.spawn(move || part.iter().map(tell).collect::<Vec<ReadSlot>>())).collect();
        let lost =
            |part: &[EntryRow]| part.iter().map(|_| Err("a verification thread panicked".into())).collect();
        let parts = page.chunks(page.len().div_ceil(threads));
        readers
            .into_iter()
            .zip(parts)
            .flat_map(|(reader, part)| reader.join().unwrap_or_else(|_| lost(part)))
            .collect()
    })
}

/// The links and the prefix before a fork's own entries.
async fn inherited<R: Rows>(
    rows: &mut R,
    lineage: &Lineage,
    own_from: u64,
) -> Result<(Option<Link>, Link), StoreError> {
    let root = lineage.segments.first().map(|segment| first_link(segment.conversation.as_str()));
    if own_from == 0 {
        return Ok((root, PREFIX_START));
    }
    let before = |scan: Scan| scan.below("position", own_from);
    let link =
        lineage.newest(rows, 1, before).await?.first().and_then(|row| row.link.as_slice().try_into().ok());
    let said = lineage.newest(rows, 1, |scan| before(scan).present("prefix_hash")).await?;
    let prefix = said.first().and_then(|row| row.prefix.as_deref()?.try_into().ok());
    Ok((link, prefix.unwrap_or(PREFIX_START)))
}

struct VerifyState<'c> {
    conversation: &'c Conversation,
    verified: Verified,
    next: u64,
    /// The link before the next entry, as it is written down.
    link: Option<Link>,
    prefix: Link,
    /// The next number of each evaluation that was met.
    sequences: HashMap<Vec<u8>, u64>,
    ledger: CallLedger,
    summaries: Vec<SummaryRow>,
}

impl<'c> VerifyState<'c> {
    fn new(conversation: &'c Conversation, own_from: u64, (link, prefix): &(Option<Link>, Link)) -> Self {
        VerifyState {
            conversation,
            verified: Verified::default(),
            next: own_from,
            link: *link,
            prefix: *prefix,
            sequences: HashMap::new(),
            ledger: CallLedger::default(),
            summaries: Vec::new(),
        }
    }

    fn problem(&mut self, position: Option<u64>, problem: ProblemKind, detail: impl Into<String>) {
        let conversation = self.conversation.id.clone();
        self.verified.problems.push(IntegrityProblem {
            conversation,
            position,
            problem,
            detail: detail.into(),
        });
    }

    /// Looks at every blob the entries refer to.
    async fn blobs<R: Rows>(
        &mut self,
        rows: &mut R,
        page: &[EntryRow],
    ) -> Result<HashMap<Link, Vec<u8>>, StoreError> {
        let mut blobs = HashMap::new();
        for row in page {
            for hash in body::references(&row.body) {
                if blobs.contains_key(&hash) {
                    continue;
                }
                let key = vec![self.conversation.tenant.as_str().into(), (&hash).into()];
                match rows.get::<Blob>(key).await? {
                    None => self.problem(
                        Some(row.position),
                        ProblemKind::BlobMissing,
                        format!("the blob {} is missing", body::hex(&hash)),
                    ),
                    Some(blob) => match body::unpack(&blob) {
                        Ok(bytes) => {
                            blobs.insert(hash, bytes);
                        }
                        Err(error) => {
                            self.problem(Some(row.position), ProblemKind::BlobChanged, error.to_string());
                        }
                    },
                }
            }
        }
        Ok(blobs)
    }

    /// One entry: its place, its body, both chains.
    fn row(&mut self, row: &EntryRow, told: ReadSlot) {
        if row.position > self.next {
            let (first, last) = (self.next, row.position - 1);
            self.problem(
                Some(first),
                ProblemKind::MissingPosition,
                format!("positions {first} to {last} are missing"),
            );
            self.link = None;
        }
        if row.position < self.next {
            let detail = "the entry lies before the start of its conversation";
            self.problem(Some(row.position), ProblemKind::LinkBroken, detail);
        }
        self.next = self.next.max(row.position + 1);
        if row.kind != crate::rows::DECISION && row.role.is_some() {
            self.verified.entries += 1;
            self.verified.erased += u64::from(row.kind == TOMBSTONE);
        }
        let Some((hash, slot)) = self.body(row, told) else {
            // What follows cannot be judged by what cannot be read.
            self.link = row.link.as_slice().try_into().ok();
            self.prefix =
                row.prefix.as_deref().and_then(|prefix| prefix.try_into().ok()).unwrap_or(self.prefix);
            return;
        };
        self.chains(row, &slot, &hash);
        self.ledger.note(row.position, &slot);
        if let Slot::Decision(decision, at) = &slot {
            self.summaries.extend(summary_row(self.conversation, row.position, decision, *at));
        }
    }

    fn body(&mut self, row: &EntryRow, told: ReadSlot) -> Option<(Link, Slot)> {
        let position = Some(row.position);
        let (slot, said) = match told {
            Ok(told) => told,
            Err(why) => {
                let told = self.verified.problems.iter().any(|problem| problem.position == position);
                if !told {
                    self.problem(
                        position,
                        ProblemKind::BodyChanged,
                        format!("the entry cannot be read: {why}"),
                    );
                }
                return None;
            }
        };
        let Ok(written) = row.body_hash.as_slice().try_into() else {
            self.problem(position, ProblemKind::BodyChanged, "the hash of the entry cannot be read");
            return None;
        };
        if row.kind != TOMBSTONE && said != written {
            self.problem(position, ProblemKind::BodyChanged, "the entry does not match its hash");
        }
        if row.kind == TOMBSTONE && !body::is_grave(row) {
            let what = "what stays of the erased entry is not what was written";
            self.problem(position, ProblemKind::BodyChanged, what);
        }
        Some((written, slot))
    }

    fn chains(&mut self, row: &EntryRow, slot: &Slot, hash: &Link) {
        let position = Some(row.position);
        let link: Option<Link> = row.link.as_slice().try_into().ok();
        if let Some(before) = &self.link
            && link != Some(link_over(before, row.position, slot, hash))
        {
            self.problem(
                position,
                ProblemKind::LinkBroken,
                "the entry does not follow from the one before it",
            );
        }
        self.link = link;
        let prefix: Option<Link> = row.prefix.as_deref().and_then(|prefix| prefix.try_into().ok());
        let said = match slot {
            Slot::Message(entry) => next_prefix(&self.prefix, entry),
            // What was erased is taken at its word.
            Slot::Erased(_) => prefix,
            Slot::Decision(..) => None,
        };
        if prefix != said || row.prefix.is_some() != prefix.is_some() {
            self.problem(position, ProblemKind::LinkBroken, "the chain over what was said is broken here");
        }
        self.prefix = prefix.unwrap_or(self.prefix);
    }

    /// The conversation's own idea of where it ends.
    fn end(&mut self) {
        let (next, head) = (self.next, self.conversation.head);
        if next < head {
            let detail = format!("positions {next} to {} are missing", head - 1);
            self.problem(Some(next), ProblemKind::MissingPosition, detail);
        } else if next > head {
            let detail = format!("the conversation ends at {head}, its entries at {next}");
            self.problem(None, ProblemKind::HeadMismatch, detail);
        } else if self.link.is_some_and(|link| link != self.conversation.head_link) {
            self.problem(
                None,
                ProblemKind::HeadMismatch,
                "the link of the conversation is not that of its last entry",
            );
        } else if self.prefix != self.conversation.head_prefix {
            self.problem(
                None,
                ProblemKind::HeadMismatch,
                "the prefix of the conversation is not that of its last entry",
            );
        }
    }

    /// Evaluations count without gaps, in forks from where their ancestors had come.
    async fn sequences<R: Rows>(
        &mut self,
        rows: &mut R,
        lineage: &Lineage,
        own: &[EntryRow],
    ) -> Result<(), StoreError> {
        let ancestors = lineage.ancestors();
        for row in own {
            let (Some(evaluation), Some(found)) = (&row.evaluation, row.sequence) else { continue };
            let wanted = match self.sequences.get(evaluation) {
                Some(next) => *next,
                None if ancestors.segments.is_empty() => 0,
                None => ancestors.next_sequence(rows, evaluation).await?,
            };
            self.sequences.insert(evaluation.clone(), found + 1);
            if found != wanted {
                let detail = format!("number {found} of its evaluation where {wanted} should be");
                self.problem(Some(row.position), ProblemKind::SequenceGap, detail);
            }
        }
        Ok(())
    }

    /// The table of calls says what the entries say.
    async fn calls<R: Rows>(&mut self, rows: &mut R, own_from: u64) -> Result<(), StoreError> {
        if !self.verified.problems.is_empty() {
            return Ok(());
        }
        let scan = Scan::new().equal("conversation_id", self.conversation.id.as_str());
        let stored = rows.scan::<CallRow>(scan.ascending(&["call_id", "position"])).await?;
        let ledger = std::mem::take(&mut self.ledger);
        let wanted = ledger.rows(&self.conversation.id, own_from, &stored);
        let only = |these: &[CallRow], others: &[CallRow]| -> BTreeSet<u64> {
            these.iter().filter(|call| !others.contains(call)).map(|call| call.position).collect()
        };
        if wanted == stored {
            return Ok(());
        }
        for position in &only(&wanted, &stored) | &only(&stored, &wanted) {
            self.problem(
                Some(position),
                ProblemKind::IndexStale,
                "the table of calls disagrees with the record",
            );
        }
        Ok(())
    }

    /// What model calls were sent and answered can be read, and is what was written.
    async fn model_calls<R: Rows>(&mut self, rows: &mut R) -> Result<(), StoreError> {
        let (tenant, id) = (&self.conversation.tenant, &self.conversation.id);
        let scan = Scan::new().equal("conversation_id", id.as_str()).ascending(&["started_at", "id"]);
        let mut requests = Requests::new(tenant, id);
        for row in rows.scan::<SentRow>(scan).await? {
            let call = row.sent.id.clone();
            let (problem, why) = match requests.call(rows, row).await {
                Ok(_) => continue,
                Err(UnreadableRequest::Damaged(problem, why)) => (problem, why),
                Err(UnreadableRequest::Failed(error)) if error.kind() == ErrorKind::Damaged => {
                    (ProblemKind::RequestChanged, error.to_string())
                }
                Err(UnreadableRequest::Failed(error)) => return Err(error),
            };
            self.problem(None, problem, format!("model call {call}: {why}"));
        }
        Ok(())
    }

    /// The table of summaries says what the entries say.
    async fn summaries<R: Rows>(&mut self, rows: &mut R) -> Result<(), StoreError> {
        let derived = std::mem::take(&mut self.summaries);
        let scan =
            Scan::new().equal("conversation_id", self.conversation.id.as_str()).ascending(&["position"]);
        let stored = rows.scan::<SummaryRow>(scan).await?;
        if derived != stored {
            let position = derived.iter().chain(&stored).map(|row| row.position).min();
            self.problem(
                position,
                ProblemKind::IndexStale,
                "the table of summaries disagrees with the record",
            );
        }
        Ok(())
    }
}

/// Writes everything derived anew: calls, summaries, words. Returns how many rows changed.
pub(crate) async fn reindex<R: Rows>(
    rows: &mut R,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<u64, StoreError> {
    let conversation = super::commit::locked(rows, tenant, id).await?;
    let lineage = Lineage::of(rows, &conversation).await?;
    let own_from = conversation.fork_position.filter(|_| conversation.parent.is_some()).unwrap_or(0);
    let places = super::read::range(rows, tenant, &lineage, 0, conversation.head).await?;
    let slots: Vec<(u64, Slot)> = places.into_iter().map(|placed| (placed.position, placed.slot)).collect();
    let of_conversation = || Scan::new().equal("conversation_id", id.as_str());
    let mut changed = 0;

    changed += calls::rebuild(rows, id, own_from, &slots).await?;
    let own = || slots.iter().filter(|(position, _)| *position >= own_from);
    let wanted: Vec<SummaryRow> = own()
        .filter_map(|(position, slot)| match slot {
            Slot::Decision(decision, at) => summary_row(&conversation, *position, decision, *at),
            _ => None,
        })
        .collect();
    let stored = rows.scan::<SummaryRow>(of_conversation().ascending(&["position"])).await?;
    if wanted != stored {
        for summary in &stored {
            rows.remove::<SummaryRow>(vec![id.as_str().into(), summary.position.into()]).await?;
        }
        rows.add(&wanted).await?;
        changed += wanted.len().max(stored.len()) as u64;
    }
    for (position, slot) in own() {
        rows.unindex(id, *position).await?;
        let words = super::read::words(slot);
        if !words.is_empty() {
            rows.index(id, *position, &words).await?;
        }
    }
    Ok(changed)
}
