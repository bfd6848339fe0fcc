//! The record: everything that was said in one conversation, in order, for good.

mod cache;
pub(crate) mod decided;
pub(crate) mod groups;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::block::ToolCall;
use crate::context::CurationContext;
use crate::decision::Decision;
use crate::entry::{Entry, Role, Time};
use crate::tokens::{Counter, Method, Tokenizer, entry_tokens};
use crate::view::View;
use cache::Cache;
use decided::Decided;
use groups::{Group, Groups, Reach};

/// Most entries a record holds: positions are kept in 32 bits, which is a hundred years of talking.
const MAX_ENTRIES: usize = u32::MAX as usize - 1;
/// Replies whose reported usage calibrates estimates.
const CALIBRATION_REPLIES: usize = 20;

/// One place of a record.
#[derive(Clone, Debug)]
pub enum Slot {
    /// Something said.
    Message(Arc<Entry>),
    /// A curation choice.
    Decision(Arc<Decision>, Time),
    /// Something said that was erased by request; place, role and time stay.
    Erased(Tombstone),
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
    next_sequence: HashMap<Uuid, u64>,
    pub(crate) groups: Groups,
    pub(crate) decided: Decided,
    pub(crate) cache: Cache,
    /// Replies that say what their input cost, for calibration.
    reported: Vec<(u32, u64)>,
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

impl Record {
    /// An empty record.
    pub fn new() -> Self {
        Record::default()
    }

    /// Adds an entry at the end and returns its position.
    pub fn append(&mut self, entry: Entry) -> Result<u64, AppendError> {
        let expected = self.next_sequence.get(&entry.evaluation_id).copied().unwrap_or(0);
        if entry.sequence != expected {
            return Err(AppendError::SequenceGap { expected, found: entry.sequence });
        }
        let position = self.next_position()?;
        self.next_sequence.insert(entry.evaluation_id, expected + 1);
        if self.groups.push(position, &entry) == Reach::Old {
            self.views_changed();
        }
        if let Some(input) = entry.meta.as_ref().and_then(|meta| meta.usage.as_ref()?.input()) {
            self.reported.push((position, input));
        }
        self.cache.push();
        self.messages += 1;
        self.slots.push(Slot::Message(Arc::new(entry)));
        Ok(u64::from(position))
    }

    /// Records a decision, which every later view repeats, and returns its position.
    pub fn decide(&mut self, decision: Decision, at: Time) -> Result<u64, AppendError> {
        let position = self.next_position()?;
        self.check_decision(&decision).map_err(AppendError::BadDecision)?;
        if let Decision::Interrupted { call_ids } = &decision {
            let slots = &self.slots;
            self.groups.close(call_ids, |group| {
                missing_calls(slots, group).iter().filter_map(|call| call_id(call)).collect()
            });
        }
        self.decided.push(u64::from(position), &decision, &mut self.groups);
        self.views_changed();
        self.groups.skip();
        self.cache.push();
        self.slots.push(Slot::Decision(Arc::new(decision), at));
        Ok(u64::from(position))
    }

    /// Replaces the entry at `position` by a tombstone. Views leave its whole group out from then on.
    /// False if there is no message at that place.
    pub fn erase(&mut self, position: u64) -> bool {
        let Some(slot @ Slot::Message(_)) = self.slots.get_mut(position as usize) else { return false };
        let Slot::Message(entry) = &*slot else { return false };
        let tombstone = Tombstone {
            role: entry.role,
            evaluation_id: entry.evaluation_id,
            sequence: entry.sequence,
            created_at: entry.created_at,
        };
        *slot = Slot::Erased(tombstone);
        self.groups.erase(position as u32);
        self.reported.retain(|(at, _)| u64::from(*at) != position);
        self.cache.forget_counts(position as u32);
        self.views_changed();
        true
    }

    /// What one call would be sent: the coherent record, with its decisions, through `manager`.
    pub fn view(
        &self,
        cx: &CurationContext,
        manager: &dyn crate::HistoryManager,
    ) -> Result<View<'_>, crate::CurationError> {
        manager.curate(View::of(self, cx), cx)
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

    /// Tokens of everything that was said, as a list of messages without overhead.
    pub fn tokens(&self, counter: Counter) -> u64 {
        self.calibrated(counter, self.sum(counter.tokenizer, self.slots.len()) as usize) as u64
    }

    /// Tokens of the entry at `position` as recorded, calibrated; 0 for decisions and tombstones.
    pub(crate) fn entry_tokens(&self, counter: Counter, position: u32) -> usize {
        self.calibrated(counter, self.raw_tokens(counter.tokenizer, position))
    }

    /// Tokens of the entry at `position` as recorded and as counted; 0 for decisions and tombstones.
    pub(crate) fn raw_tokens(&self, tokenizer: Tokenizer, position: u32) -> usize {
        match self.slots.get(position as usize) {
            Some(Slot::Message(entry)) => {
                self.cache.entry_tokens(tokenizer, position, || entry_tokens(tokenizer, entry))
            }
            _ => 0,
        }
    }

    /// Tokens of everything before `end`, as counted.
    fn sum(&self, tokenizer: Tokenizer, end: usize) -> u64 {
        self.cache.sum(tokenizer, end, |at| self.raw_tokens(tokenizer, at))
    }

    /// Scales an estimate by what replies reported; exact counts stay.
    pub(crate) fn calibrated(&self, counter: Counter, tokens: usize) -> usize {
        if counter.method == Method::Exact || self.reported.is_empty() {
            return tokens;
        }
        let factor = self.cache.calibration(self.slots.len(), || self.calibration(counter.tokenizer));
        (tokens as f64 * factor).ceil() as usize
    }

    /// Reported over estimated input of the last replies since the newest cut, within 0.5 and 3; 1 if unknown.
    fn calibration(&self, tokenizer: Tokenizer) -> f64 {
        let cut =
            self.decided.cut(None).and_then(|cut| self.groups.get(cut.before)).map_or(0, |group| group.first);
        let lead = self
            .groups
            .all
            .iter()
            .take_while(|group| group.role == Role::System && group.first < cut)
            .count();
        let before_cut = self.sum(tokenizer, cut as usize) - self.sum(tokenizer, lead);
        let (mut reported, mut estimated) = (0u64, 0u64);
        for &(at, input) in self.reported.iter().rev().take(CALIBRATION_REPLIES).filter(|(at, _)| *at >= cut)
        {
            reported += input;
            estimated += self.sum(tokenizer, at as usize).saturating_sub(before_cut);
        }
        if estimated == 0 { 1.0 } else { (reported as f64 / estimated as f64).clamp(0.5, 3.0) }
    }

    /// The calls of a group that have no result, in call order.
    pub(crate) fn missing_calls(&self, group: &Group) -> Vec<&ToolCall> {
        missing_calls(&self.slots, group)
    }

    /// Name of the tool whose result stands at `position`: the call's word for it, else its own.
    pub(crate) fn tool_name(&self, position: u32) -> Option<String> {
        let entry = self.entry(u64::from(position))?;
        let called = || {
            let id = entry.tool_call_id()?;
            let group = self.groups.get(self.groups.of(position)?)?;
            // Where one entry uses an id for several calls, its results answer them in order.
            let id_at = |at: u32| self.entry(u64::from(at)).and_then(|entry| entry.tool_call_id());
            let same_id = |at: &&u32| id_at(**at).as_ref() == Some(&id);
            let before = group.results.iter().take_while(|at| **at != position).filter(same_id).count();
            let opening = self.entry(u64::from(group.first))?;
            let call = opening.open_calls().filter(|call| call_id(call).as_ref() == Some(&id)).nth(before)?;
            Some(call.name.as_str().into_owned())
        };
        called().or_else(|| entry.tool_name())
    }

    fn next_position(&self) -> Result<u32, AppendError> {
        if self.slots.len() >= MAX_ENTRIES { Err(AppendError::Full) } else { Ok(self.slots.len() as u32) }
    }

    fn views_changed(&mut self) {
        self.version += 1;
        self.cache.forget_folds();
    }

    fn check_decision(&self, decision: &Decision) -> Result<(), String> {
        match decision {
            Decision::Lead { positions } => {
                self.check_positions(positions)?;
                match positions
                    .iter()
                    .find(|at| self.entry(**at).is_none_or(|entry| entry.role != Role::System))
                {
                    Some(at) => {
                        Err(format!("position {at} is not a system entry and cannot be part of the lead"))
                    }
                    None => Ok(()),
                }
            }
            Decision::Cut { before, held, .. } => {
                let whole = *before == self.len() as u64 || self.opens_group(*before);
                if !whole {
                    return Err(format!(
                        "a cut before position {before} would split a group, or there is none"
                    ));
                }
                match held.filter(|held| !self.opens_group(*held)) {
                    Some(held) => Err(format!("the held position {held} does not open a group")),
                    None => Ok(()),
                }
            }
            Decision::Clear { positions, .. } | Decision::Truncate { positions, .. } => {
                self.check_positions(positions)
            }
            Decision::Pin { positions } | Decision::Unpin { positions } => {
                self.check_positions(positions)?;
                self.check_whole(|at| positions.contains(&u64::from(at)), positions.iter().copied())
            }
            Decision::Summary { covers, .. } => {
                for (first, last) in covers {
                    if first > last || *last >= self.len() as u64 {
                        return Err(format!(
                            "the range {first} to {last} is not in the record of {} entries",
                            self.len()
                        ));
                    }
                }
                let covered =
                    |at: u32| covers.iter().any(|(first, last)| (*first..=*last).contains(&u64::from(at)));
                self.check_whole(covered, covers.iter().flat_map(|(first, last)| *first..=*last))
            }
            Decision::Turn { entry, .. } => self.check_positions(&[*entry]),
            Decision::SummaryFailed { .. } | Decision::Interrupted { .. } => Ok(()),
        }
    }

    fn check_positions(&self, positions: &[u64]) -> Result<(), String> {
        match positions.iter().find(|at| **at >= self.len() as u64) {
            Some(at) => Err(format!("position {at} is not in the record of {} entries", self.len())),
            None => Ok(()),
        }
    }

    /// Every group that has an entry among `positions` must have all of them there.
    fn check_whole(
        &self,
        chosen: impl Fn(u32) -> bool,
        positions: impl Iterator<Item = u64>,
    ) -> Result<(), String> {
        for position in positions {
            let Some(group) = self.groups.of(position as u32).and_then(|group| self.groups.get(group)) else {
                continue;
            };
            if let Some(missing) = group.positions().find(|at| !chosen(*at)) {
                return Err(format!(
                    "position {position} belongs to a group with position {missing}, which is not named"
                ));
            }
        }
        Ok(())
    }

    fn opens_group(&self, position: u64) -> bool {
        self.groups
            .of(position as u32)
            .and_then(|group| self.groups.get(group))
            .is_some_and(|group| u64::from(group.first) == position)
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
    let mut answered: Vec<String> =
        group.results.iter().filter_map(|&position| entry(position)?.tool_call_id()).collect();
    opening
        .open_calls()
        .filter(|call| match call_id(call).and_then(|id| answered.iter().position(|answer| *answer == id)) {
            Some(at) => {
                answered.swap_remove(at);
                false
            }
            None => true,
        })
        .collect()
}
