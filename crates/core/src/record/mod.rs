//! The record: everything that was said in one conversation, in order, for good.

mod cache;
mod count;
pub(crate) mod decisions;
pub(crate) mod groups;
mod judge;
mod missing_ids;
pub(crate) mod positions;
mod restore;

use std::collections::hash_map::Entry as Entered;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::block::ToolCall;
use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::{Entry, Role, Time};
use crate::ranges::Ranges;
use crate::recall::RecallTool;
use crate::view::View;
use cache::Cache;
use decisions::DecidedState;
use groups::{AppendEffect, Group, Groups};
use positions::RequestPositions;

/// Most entries a record holds: positions are kept in 32 bits, which is a hundred years of talking.
const MAX_ENTRIES: usize = u32::MAX as usize - 1;

/// One place of a record.
#[derive(Clone, Debug)]
pub enum Slot {
    /// Something said.
    Message(Arc<Entry>),
    /// A curation choice.
    Decision(Arc<Decision>, Time),
    /// Something said that was erased by request; place, role and time stay.
    Erased(Box<Tombstone>),
}

impl Slot {
    /// When it was said, decided, or had been said.
    pub fn created_at(&self) -> Time {
        match self {
            Slot::Message(entry) => entry.created_at,
            Slot::Decision(_, at) => *at,
            Slot::Erased(tombstone) => tombstone.created_at,
        }
    }
}

/// What stays of an erased entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Who had spoken.
    pub role: Role,
    /// In which evaluation.
    pub evaluation_id: Uuid,
    /// At which place of it.
    pub sequence: u64,
    /// When.
    pub created_at: Time,
    /// Hash of what was said, so that the chain still holds.
    pub body_hash: crate::chain::Link,
}

/// The complete, append-only history of one conversation.
///
/// Appending keeps every index up to date in amortised constant time, so a view of a long record costs what the
/// view costs, not what the record does.
///
/// ```
/// use scrollback_core::{CurationContext, Entry, Record, Role, manager};
/// let mut record = Record::new();
/// for (n, text) in ["one", "two", "three"].iter().enumerate() {
///     record.append(Entry::text(Role::User, text).stamped(uuid::Uuid::nil(), n as u64, Default::default()))?;
/// }
/// let view = record.view(&CurationContext::default(), &*manager::parse("sliding_window(1)")?)?;
/// let sent: Vec<String> = view.items().map(|item| item.entry.content().unwrap()).collect();
/// assert_eq!(sent, ["three"]);
/// assert_eq!(record.len(), 3); // the record keeps all of it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Record {
    slots: Vec<Slot>,
    messages: usize,
    /// How many of the messages were erased.
    erased: usize,
    next_sequence: HashMap<Uuid, u64>,
    pub(crate) groups: Groups,
    pub(crate) decided: DecidedState,
    pub(crate) cache: Cache,
    /// What requests need wherever a cut lies.
    pub(crate) standing: RequestPositions,
    /// Whether the model is known to have a tool that reads handles: it called one, or what it was told at the start names one.
    pub(crate) knows_recall: bool,
    /// Calls without ids that wait for a result.
    unnamed: missing_ids::Unnamed,
    /// Counts what changes views other than by adding at their end; part of every fold's key.
    pub(crate) version: u64,
}

/// Why something was not appended. Nothing is written in that case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The entry is not the next of its evaluation.
    SequenceGap {
        /// The next number of that evaluation.
        expected: u64,
        /// The number given.
        found: u64,
    },
    /// The decision names what is not there or only part of a group.
    BadDecision(String),
    /// The record is full.
    Full,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::SequenceGap { expected, found } => {
                write!(f, "sequence {found} does not follow: the next one of this evaluation is {expected}")
            }
            AppendError::BadDecision(why) => f.write_str(why),
            AppendError::Full => write!(f, "the record holds {MAX_ENTRIES} entries and takes no more"),
        }
    }
}

impl std::error::Error for AppendError {}

/// Entries at the start whose texts may name the tools that a client holds back until the model looks for them.
const BEGINNING: u32 = 8;
/// The end of the name that clients give to the tool which searches.
const SEARCH_TOOL: &str = "scrollback__search";
/// The name that Codex gives to the tools of our server together.
const SERVER: &str = "mcp__scrollback";

/// Whether an entry shows that the model has a tool to read handles with.
fn tells_of_recall(position: u32, entry: &Entry) -> bool {
    let calls = || entry.tool_calls().any(|call| RecallTool::called(&call.name.as_str()).is_some());
    let names = || entry.texts().any(|text| text.as_str().contains(SEARCH_TOOL));
    // What a client answers to a search for tools defines those that it held back.
    let defines = || {
        let raw: &str = &entry.origin.raw;
        let head = raw.get(..256).unwrap_or(raw);
        head.contains("tool_search_output") && raw.contains(SERVER)
            || head.contains("tool_reference") && raw.contains(SEARCH_TOOL)
    };
    match entry.role {
        Role::Assistant => calls() || defines(),
        Role::System | Role::User => position < BEGINNING && names() || defines(),
        Role::Tool => defines(),
    }
}

impl Record {
    /// An empty record.
    pub fn new() -> Self {
        Record::default()
    }

    /// An empty record with room for so many entries.
    pub fn with_room(entries: usize) -> Self {
        let mut record = Record::default();
        record.slots.reserve(entries);
        record.next_sequence.reserve(entries);
        record.groups.reserve(entries);
        record.cache.reserve(entries);
        record
    }

    /// Adds an entry at the end and returns its position.
    pub fn append(&mut self, entry: Entry) -> Result<u64, AppendError> {
        self.share(Arc::new(entry))
    }

    /// Adds an entry that others hold too, without copying it.
    pub fn share(&mut self, entry: Arc<Entry>) -> Result<u64, AppendError> {
        let position = self.next_position()?;
        let entry = missing_ids::with_ids(self, entry);
        let next = self.next_sequence.entry(entry.evaluation_id);
        let expected = match &next {
            Entered::Occupied(next) => *next.get(),
            Entered::Vacant(_) => 0,
        };
        if entry.sequence != expected {
            return Err(AppendError::SequenceGap { expected, found: entry.sequence });
        }
        *next.or_insert(0) += 1;
        if self.groups.push(position, &entry) == AppendEffect::Old {
            self.views_changed();
        }
        if let Some(group) = self.groups.of(position) {
            self.standing.push(group, &entry);
        }
        self.cache.push();
        self.messages += 1;
        if !self.knows_recall {
            self.knows_recall = tells_of_recall(position, &entry);
        }
        self.slots.push(Slot::Message(entry));
        Ok(u64::from(position))
    }

    /// Adds an entry that others hold too and whose tokens they have counted.
    pub fn share_counted(
        &mut self,
        entry: Arc<Entry>,
        tokenizer: crate::tokens::Tokenizer,
        tokens: usize,
    ) -> Result<u64, AppendError> {
        let position = self.share(entry)?;
        self.cache.entry_tokens(tokenizer, position as u32, || tokens);
        Ok(position)
    }

    /// Records a decision, which every later view repeats, and returns its position.
    pub fn decide(&mut self, decision: Decision, at: Time) -> Result<u64, AppendError> {
        let position = self.next_position()?;
        self.judge(&decision).map_err(AppendError::BadDecision)?;
        if let Decision::Interrupted { call_ids } = &decision {
            let slots = &self.slots;
            self.groups.interrupt(call_ids, |group| {
                missing_calls(slots, group).into_iter().filter_map(call_id).collect()
            });
        }
        self.decided.push(u64::from(position), &decision, &self.groups);
        // These two change no view of core's, so what is remembered about folds stays true.
        if !matches!(decision, Decision::Turn { .. } | Decision::SummaryFailed { .. }) {
            self.views_changed();
        }
        self.groups.skip();
        self.cache.push();
        self.slots.push(Slot::Decision(Arc::new(decision), at));
        Ok(u64::from(position))
    }

    /// Replaces the entry at `position` by a tombstone. Views leave its whole group out from then on.
    /// False if there is no message at that place.
    pub fn erase(&mut self, position: u64) -> bool {
        let Some(slot) = self.slots.get_mut(position as usize) else { return false };
        let Slot::Message(entry) = &*slot else { return false };
        let tombstone = Tombstone {
            role: entry.role,
            evaluation_id: entry.evaluation_id,
            sequence: entry.sequence,
            created_at: entry.created_at,
            body_hash: crate::chain::body_hash(position, slot),
        };
        *slot = Slot::Erased(Box::new(tombstone));
        self.erased += 1;
        self.groups.erase(position as u32);
        self.cache.forget_counts(position as u32);
        self.erase_from_ledgers(position);
        self.views_changed();
        true
    }

    /// Takes the words of an erased entry out of every recorded ledger and notice.
    fn erase_from_ledgers(&mut self, position: u64) {
        if !self.decided.has_words() {
            return;
        }
        self.decided.forget_plans();
        for (at, slot) in (0..).zip(&mut self.slots) {
            let Slot::Decision(decision, _) = slot else { continue };
            if !matches!(&**decision, Decision::Plan { .. } | Decision::Cut { .. }) {
                continue;
            }
            if decision.repeats(|entry| entry == position) {
                *decision = Arc::new(Decision::clone(decision).without_words_of(position));
            }
            match &**decision {
                Decision::Cut { notice, .. } => self.decided.renotice(at, notice.as_deref()),
                plan => self.decided.push(at, plan, &self.groups),
            }
        }
    }

    /// Adds the place of an entry that was erased before this record was read.
    pub(crate) fn bury(&mut self, tombstone: Tombstone) -> Result<u64, AppendError> {
        let entry = Entry::text(tombstone.role, "").stamped(
            tombstone.evaluation_id,
            tombstone.sequence,
            tombstone.created_at,
        );
        let position = self.append(entry)?;
        self.erase(position);
        if let Some(slot) = self.slots.get_mut(position as usize) {
            *slot = Slot::Erased(Box::new(tombstone));
        }
        Ok(position)
    }

    /// What one call would be sent: the coherent record, with its decisions, through `manager`.
    pub fn view(
        &self,
        cx: &CurationContext,
        manager: &dyn crate::HistoryManager,
    ) -> Result<View<'_>, crate::CurationError> {
        manager.curate(View::of(self, cx), cx)
    }

    /// What `manager` would like recorded before the next view is made: summaries to be written.
    pub fn plan(
        &self,
        cx: &CurationContext,
        manager: &dyn crate::HistoryManager,
    ) -> Vec<crate::manager::Ask> {
        manager.plan(&View::of(self, cx), cx)
    }

    /// The positions of all groups that have an entry between two positions, both included: what [`Decision::Pin`] is about.
    pub fn whole_groups(&self, first: u64, last: u64) -> Vec<u64> {
        let last = last.min((self.len() as u64).saturating_sub(1));
        let groups = (first..=last).filter_map(|at| self.groups.of(u32::try_from(at).ok()?));
        let groups = Ranges::of(groups);
        let mut positions: Vec<u64> = groups
            .iter()
            .filter_map(|group| self.groups.get(group))
            .flat_map(|group| group.positions().map(u64::from))
            .collect();
        positions.sort_unstable();
        positions
    }

    /// Number of places: messages, decisions and tombstones.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing was ever said.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Number of message entries, erased ones included.
    pub fn message_count(&self) -> usize {
        self.messages
    }

    /// Number of message entries that were erased.
    pub(crate) fn erased_count(&self) -> usize {
        self.erased
    }

    /// What stands at `position`.
    pub fn get(&self, position: u64) -> Option<&Slot> {
        self.slots.get(position as usize)
    }

    /// The places in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The entry at `position`, unless it is a decision or was erased.
    pub fn entry(&self, position: u64) -> Option<&Arc<Entry>> {
        match self.slots.get(position as usize) {
            Some(Slot::Message(entry)) => Some(entry),
            _ => None,
        }
    }

    /// The calls of a group that have no result, in call order.
    pub(crate) fn missing_calls(&self, group: &Group) -> Vec<&ToolCall> {
        missing_calls(&self.slots, group)
    }

    /// The tools whose results a group shows, in the order it shows them: those that came, then the missing ones.
    /// The call's word for its tool counts; where one entry uses an id for several calls, results answer in order.
    pub(crate) fn result_tools(&self, group: &Group) -> Vec<String> {
        let mut called: HashMap<String, VecDeque<String>> = HashMap::new();
        let opening = self.entry(u64::from(group.first));
        for call in opening.iter().flat_map(|entry| entry.open_calls()) {
            let name = call.name.as_str().into_owned();
            called.entry(call_id(call).unwrap_or_default()).or_default().push_back(name);
        }
        let answered = group.results.iter().map(|&at| {
            let entry = self.entry(u64::from(at));
            let id = entry.and_then(|entry| entry.tool_call_id()).unwrap_or_default();
            called.get_mut(&id).and_then(VecDeque::pop_front).unwrap_or_default()
        });
        let mut tools: Vec<String> = answered.collect();
        tools.extend(self.missing_calls(group).iter().map(|call| call.name.as_str().into_owned()));
        tools
    }

    fn next_position(&self) -> Result<u32, AppendError> {
        if self.slots.len() >= MAX_ENTRIES { Err(AppendError::Full) } else { Ok(self.slots.len() as u32) }
    }

    fn views_changed(&mut self) {
        self.version += 1;
        self.cache.forget_folds();
    }
}

fn call_id(call: &ToolCall) -> Option<String> {
    call.call_id.as_ref().map(|id| id.as_str().into_owned())
}

fn missing_calls<'r>(slots: &'r [Slot], group: &Group) -> Vec<&'r ToolCall> {
    let entry = |position: u32| match slots.get(position as usize) {
        Some(Slot::Message(entry)) => Some(entry),
        _ => None,
    };
    let Some(opening) = entry(group.first) else { return Vec::new() };
    let mut answered: HashMap<String, usize> = HashMap::new();
    for id in group.results.iter().filter_map(|&position| entry(position)?.tool_call_id()) {
        *answered.entry(id).or_default() += 1;
    }
    let is_open = |call: &&ToolCall| match call_id(call).and_then(|id| answered.get_mut(&id)) {
        Some(results) if *results > 0 => {
            *results -= 1;
            false
        }
        _ => true,
    };
    opening.open_calls().filter(is_open).collect()
}
