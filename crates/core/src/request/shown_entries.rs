//! What a request body holds of each recorded entry: a statement about the bytes that were sent, not about the managers.
//!
//! The body is read, and its entries are compared with those of the record block by block: wires put several entries into one
//! message, or several messages into one entry. What is compared is what the blocks say, as in the chain of
//! [`prefixes`](crate::prefixes), so that another spelling or another cache mark is no rewriting.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::new_entries::lead_of;
use super::reference::Reference;
use super::shared::{common_end, common_start};
use crate::block::{Block, BlockKind};
use crate::chain::Link;
use crate::entry::{Entry, Role};
use crate::identity::block_said;
use crate::json;
use crate::record::{Record, Slot};
use crate::wire::{ParseOptions, Wire};

/// Recorded texts that are compared with one text that is in the body and not in the record, so that time stays linear.
const NEAREST: usize = 64;
/// Results with the same call id that are compared with one in the body.
const SAME_ID: usize = 8;
/// Fewest bytes that a rewritten text shares with the recorded one, at its beginning and end together.
const SHARED: usize = 16;

/// What a request body holds of a recorded entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its exact bytes.
    Exact,
    /// The same thing, in another spelling.
    Respelled,
    /// The same thing, but a cache mark was added, moved or taken away.
    MarksMoved,
    /// Something else in its place, or only a part of it.
    Rewritten {
        /// The texts that were sent instead.
        sent: String,
    },
    /// Nothing, but the request refers to earlier ones that its provider holds.
    Held,
    /// Nothing.
    Absent,
}

impl Presence {
    /// Whether the provider was given the entry as it is recorded.
    pub fn is_as_recorded(&self) -> bool {
        matches!(self, Presence::Exact | Presence::Respelled | Presence::MarksMoved | Presence::Held)
    }
}

/// Says for the position of every message, erased ones included, what a body holds of it. None if the body cannot be read.
///
/// The record must be the one that the request was made from: without what was appended later. Takes time proportional to the
/// record and the body together.
///
/// ```
/// use scrollback_core::{Entry, Record, Role, Time, request::{Presence, seen}, wire::Wire};
/// let mut record = Record::new();
/// for (sequence, text) in (0..).zip(["Hello.", "What is in my inbox?"]) {
///     record.append(Entry::text(Role::User, text).stamped(uuid::Uuid::nil(), sequence, Time(0))).unwrap();
/// }
/// let body = br#"{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"text","text":"What is in my inbox?"}]}]}"#;
///
/// let seen = seen(&record, Wire::OpenaiChat, body).unwrap();
/// assert_eq!((&seen[&0], &seen[&1]), (&Presence::Absent, &Presence::Respelled));
/// ```
pub fn seen(record: &Record, wire: Wire, body: &[u8]) -> Option<BTreeMap<u64, Presence>> {
    let body = json::check_bytes(body).ok()?;
    let sent = wire.parse(body, &ParseOptions::default()).ok()?.entries;
    let refers = Reference::of(wire, body).is_some();
    let (positions, recorded) = in_view_order(record);
    let (recorded, sent) = (EntryList::of(recorded), EntryList::of(sent.iter().collect()));
    let pairs = Pairs::of(&recorded, &sent);
    let first = pairs.of_recorded.iter().position(Option::is_some).unwrap_or(recorded.units.len());

    let mut seen = BTreeMap::new();
    for (position, slot) in (0..).zip(record.slots()) {
        if !matches!(slot, Slot::Decision(..)) {
            seen.insert(position, Presence::Absent);
        }
    }
    for (index, position) in positions.into_iter().enumerate() {
        let presence = match pairs.presence(index, &recorded, &sent) {
            Presence::Absent if refers && recorded.ends_before(index, first) => Presence::Held,
            presence => presence,
        };
        seen.insert(position, presence);
    }
    Some(seen)
}

/// The messages of a record in the order in which requests show them: first the instructions that stand first now. Those whose
/// place they took are never shown.
fn in_view_order(record: &Record) -> (Vec<u64>, Vec<&Entry>) {
    let lead = lead_of(record);
    let is_system = |slot: &&Slot| matches!(slot, Slot::Message(entry) if entry.role == Role::System);
    let natural = record.slots().iter().take_while(is_system).count() as u64;
    let rest = (0..).zip(record.slots()).filter_map(|(position, slot)| match slot {
        Slot::Message(entry) if position >= natural && !entry.is_lead() => Some(position),
        _ => None,
    });
    let rest = rest.filter(|position| !lead.contains(position));
    let all = lead.iter().copied().chain(rest);
    all.filter_map(|position| Some((position, record.entry(position)?.as_ref()))).unzip()
}

/// One thing that is said: a block, or all of an entry whose blocks say nothing.
struct SaidUnit<'e> {
    said: Link,
    role: Role,
    block: Option<&'e Block>,
    /// The entry it is part of, by its place in the list.
    entry: usize,
}

/// The two things that have the id of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pairing {
    Call,
    Result,
}

impl SaidUnit<'_> {
    /// The id of the result, where it is one.
    fn answers(&self) -> Option<Cow<'_, str>> {
        match &self.block?.kind {
            BlockKind::ToolResult(result) => Some(result.call_id.as_ref()?.as_str()),
            _ => None,
        }
    }

    /// Whether it is a call or a result, and the id that both have.
    fn id(&self) -> Option<(Pairing, Cow<'_, str>)> {
        match &self.block?.kind {
            BlockKind::ToolCall(call) => Some((Pairing::Call, call.call_id.as_ref()?.as_str())),
            _ => Some((Pairing::Result, self.answers()?)),
        }
    }

    fn text(&self) -> Option<Cow<'_, str>> {
        match &self.block?.kind {
            BlockKind::Text(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The cache marks of the block and of what is in it.
    fn marks(&self) -> Vec<Option<&str>> {
        fn mark(block: &Block) -> Option<&str> {
            Some(block.marks.as_ref()?.cache_hint.as_ref()?.as_str())
        }
        let inner = match self.block.map(|block| &block.kind) {
            Some(BlockKind::ToolResult(result)) => &*result.content,
            _ => &[],
        };
        let mut marks: Vec<_> = self.block.into_iter().chain(inner).map(mark).collect();
        marks.retain(Option::is_some);
        marks
    }
}

/// A list of entries and what they say.
struct EntryList<'e> {
    entries: Vec<&'e Entry>,
    units: Vec<SaidUnit<'e>>,
    /// Where the units of each entry end.
    ends: Vec<usize>,
}

impl<'e> EntryList<'e> {
    fn of(entries: Vec<&'e Entry>) -> Self {
        let (mut units, mut ends) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
        for (index, entry) in entries.iter().copied().enumerate() {
            let before = units.len();
            units.extend(entry.blocks.iter().filter_map(|block| {
                let said = block_said(entry.role, block)?;
                Some(SaidUnit { said, role: entry.role, block: Some(block), entry: index })
            }));
            if units.len() == before {
                // Only its bytes tell it from others.
                let said = *blake3::hash(entry.origin.raw.as_bytes()).as_bytes();
                units.push(SaidUnit { said, role: entry.role, block: None, entry: index });
            }
            ends.push(units.len());
        }
        EntryList { entries, units, ends }
    }

    fn range(&self, entry: usize) -> std::ops::Range<usize> {
        let start = entry.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        start..self.ends.get(entry).copied().unwrap_or(start)
    }

    fn ends_before(&self, entry: usize, unit: usize) -> bool {
        self.ends.get(entry).is_some_and(|end| *end <= unit)
    }
}

/// A recorded unit's place in the body.
#[derive(Clone, Copy)]
struct Match {
    unit: usize,
    /// Whether the body says the same there.
    same: bool,
}

/// Which unit of the body is which of the record.
struct Pairs {
    of_recorded: Vec<Option<Match>>,
    of_sent: Vec<Option<usize>>,
}

impl Pairs {
    fn of(recorded: &EntryList<'_>, sent: &EntryList<'_>) -> Self {
        let mut pairs =
            Pairs { of_recorded: vec![None; recorded.units.len()], of_sent: vec![None; sent.units.len()] };
        pairs.in_order(recorded, sent);
        pairs.by_id(recorded, sent);
        pairs.by_likeness(recorded, sent);
        pairs
    }

    fn join(&mut self, recorded: usize, sent: usize, same: bool) {
        if let (Some(one), Some(other)) = (self.of_recorded.get_mut(recorded), self.of_sent.get_mut(sent)) {
            (*one, *other) = (Some(Match { unit: sent, same }), Some(recorded));
        }
    }

    fn is_free(&self, recorded: usize) -> bool {
        self.of_recorded.get(recorded).is_some_and(Option::is_none)
    }

    /// What is said the same, in the same order. From the end, because what is left out is mostly old: of two entries that say
    /// the same the newer one is the one that was sent.
    fn in_order(&mut self, recorded: &EntryList<'_>, sent: &EntryList<'_>) {
        let mut places: HashMap<Link, Vec<usize>> = HashMap::new();
        for (index, unit) in recorded.units.iter().enumerate().filter(|(_, unit)| unit.answers().is_none()) {
            places.entry(unit.said).or_default().push(index);
        }
        let mut below = recorded.units.len();
        for (index, unit) in sent.units.iter().enumerate().rev() {
            let Some(places) = places.get_mut(&unit.said) else { continue };
            while places.last().is_some_and(|place| *place >= below) {
                places.pop();
            }
            if let Some(place) = places.pop() {
                below = place;
                self.join(place, index, true);
            }
        }
    }

    /// Results and calls that share an id. Results may have moved to their calls, so they have no order of their own.
    fn by_id(&mut self, recorded: &EntryList<'_>, sent: &EntryList<'_>) {
        let mut places: HashMap<(Pairing, Cow<'_, str>), Vec<usize>> = HashMap::new();
        for (index, unit) in recorded.units.iter().enumerate().filter(|(index, _)| self.is_free(*index)) {
            if let Some(id) = unit.id() {
                places.entry(id).or_default().push(index);
            }
        }
        for (index, unit) in sent.units.iter().enumerate().rev() {
            let is_free = self.of_sent.get(index).is_some_and(Option::is_none);
            let Some(places) = unit.id().filter(|_| is_free).and_then(|id| places.get_mut(&id)) else {
                continue;
            };
            let says_the_same =
                |place: &usize| recorded.units.get(*place).is_some_and(|one| one.said == unit.said);
            let from = places.len().saturating_sub(SAME_ID);
            let same = places.get(from..).and_then(|last| last.iter().rposition(says_the_same));
            let found = match same {
                Some(at) => Some(places.remove(from + at)),
                None => places.pop(),
            };
            if let Some(place) = found {
                self.join(place, index, same.is_some());
            }
        }
    }

    /// Texts between the same neighbours that begin or end alike: the recorded one was shortened or changed.
    fn by_likeness(&mut self, recorded: &EntryList<'_>, sent: &EntryList<'_>) {
        let mut above = recorded.units.len();
        for (index, unit) in sent.units.iter().enumerate().rev() {
            if let Some(place) = self.of_sent.get(index).copied().flatten() {
                if unit.answers().is_none() {
                    above = place;
                }
                continue;
            }
            let Some(text) = unit.text() else { continue };
            let nearest = (above.saturating_sub(NEAREST)..above).rev();
            let found = nearest.take_while(|place| {
                // What stands before the next that was sent belongs to that one.
                let other = recorded.units.get(*place);
                self.is_free(*place) || other.is_some_and(|unit| unit.answers().is_some())
            });
            let found = found.filter(|place| self.is_free(*place)).find(|place| {
                recorded.units.get(*place).is_some_and(|other| {
                    other.role == unit.role && other.text().is_some_and(|other| is_alike(&other, &text))
                })
            });
            if let Some(place) = found {
                self.join(place, index, false);
                above = place;
            }
        }
    }

    /// What the body holds of a recorded entry.
    fn presence(&self, entry: usize, recorded: &EntryList<'_>, sent: &EntryList<'_>) -> Presence {
        let range = recorded.range(entry);
        let whole = range.len();
        let found: Vec<(usize, Match)> =
            range.filter_map(|unit| Some((unit, self.of_recorded.get(unit).copied().flatten()?))).collect();
        if found.is_empty() {
            return Presence::Absent;
        }
        let mut owners: Vec<usize> =
            found.iter().filter_map(|(_, at)| sent.units.get(at.unit)).map(|unit| unit.entry).collect();
        owners.dedup();
        if found.len() < whole || found.iter().any(|(_, at)| !at.same) {
            let texts = owners.iter().filter_map(|owner| sent.entries.get(*owner)?.content());
            return Presence::Rewritten { sent: texts.collect::<Vec<_>>().join("\n\n") };
        }
        if let ([owner], Some(one)) = (owners.as_slice(), recorded.entries.get(entry))
            && sent.entries.get(*owner).is_some_and(|other| one.origin.raw == other.origin.raw)
        {
            return Presence::Exact;
        }
        let marks_differ = found.iter().any(|(unit, at)| {
            recorded.units.get(*unit).map(SaidUnit::marks) != sent.units.get(at.unit).map(SaidUnit::marks)
        });
        if marks_differ { Presence::MarksMoved } else { Presence::Respelled }
    }
}

/// Whether one text may be a shortened or changed form of the other.
fn is_alike(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    let start = common_start(one, other);
    let end = common_end(one, other).min(shorter - start);
    start + end >= SHARED.max(shorter / 2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{Decision, Time};

    fn record_of(wire: Wire, body: &str) -> Record {
        let parsed = wire.parse(json::check(body).unwrap(), &ParseOptions::default()).unwrap();
        let mut record = Record::new();
        for (sequence, entry) in (0..).zip(parsed.entries) {
            record.append(entry.stamped(uuid::Uuid::nil(), sequence, Time(0))).unwrap();
        }
        record
    }

    fn told(record: &Record, wire: Wire, body: &str) -> String {
        let seen = seen(record, wire, body.as_bytes()).unwrap();
        let word = |presence: &Presence| match presence {
            Presence::Exact => '=',
            Presence::Respelled => 's',
            Presence::MarksMoved => 'm',
            Presence::Rewritten { .. } => 'r',
            Presence::Held => 'h',
            Presence::Absent => '-',
        };
        seen.values().map(word).collect()
    }

    const CLAUDE: &str = r#"{"model":"claude","system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Look around."},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"a","name":"f","input":{"x":1,"y":2}},{"type":"tool_use","id":"b","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"one"},{"type":"tool_result","tool_use_id":"b","content":"two"},{"type":"text","text":"go on"}]},{"role":"assistant","content":"Done."},{"role":"user","content":"go on"}]}"#;

    #[test]
    fn a_request_that_is_sent_as_it_came_is_as_recorded() {
        let record = record_of(Wire::Anthropic, CLAUDE);
        assert_eq!(told(&record, Wire::Anthropic, CLAUDE), "========");
    }

    #[test]
    fn spelling_is_no_rewriting_and_marks_are_told_apart() {
        let record = record_of(Wire::Anthropic, CLAUDE);
        let respelled = CLAUDE
            .replace(r#"{"x":1,"y":2}"#, r#"{"y": 2, "x": 1}"#)
            .replace("\"Done.\"", r#"[{"type":"text","text":"Done."}]"#);
        assert_eq!(told(&record, Wire::Anthropic, &respelled), "==s===s=");
        let marked = CLAUDE.replace(
            r#""content":"go on""#,
            r#""content":[{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]"#,
        );
        assert_eq!(told(&record, Wire::Anthropic, &marked), "=======m");
        assert_eq!(told(&record_of(Wire::Anthropic, &marked), Wire::Anthropic, CLAUDE), "=======m");
        let marked =
            CLAUDE.replace(r#""content":"two""#, r#""content":"two","cache_control":{"type":"ephemeral"}"#);
        assert_eq!(told(&record, Wire::Anthropic, &marked), "====m===");
        let chat = r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"Look around."},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1,\"y\":2}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"b","content":"two"},{"role":"tool","tool_call_id":"a","content":"one"},{"role":"user","content":"go on"},{"role":"assistant","content":"Done."},{"role":"user","content":"go on"}]"#;
        assert_eq!(
            told(&record, Wire::OpenaiChat, chat),
            "s=ssss==",
            "another wire, results in another order"
        );
    }

    #[test]
    fn what_is_missing_is_absent_and_what_differs_is_rewritten() {
        let record = record_of(Wire::Anthropic, CLAUDE);
        let shorter = r#"{"model":"claude","system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"go on"}]}"#;
        assert_eq!(told(&record, Wire::Anthropic, shorter), "=------=", "the newer of two that say the same");
        let cleared = CLAUDE.replace(r#""content":"one""#, r#""content":"[cleared]""#);
        assert_eq!(told(&record, Wire::Anthropic, &cleared), "===r====");
        let Some(Presence::Rewritten { sent }) =
            seen(&record, Wire::Anthropic, cleared.as_bytes()).unwrap().remove(&3)
        else {
            panic!("the result was cleared")
        };
        assert_eq!(sent, "[cleared]");
        let fewer = CLAUDE.replace(r#""input":{"x":1,"y":2}"#, r#""input":{"x":1}"#);
        assert_eq!(told(&record, Wire::Anthropic, &fewer), "==r=====");
        let long = format!("Look around.{}", " Then report.".repeat(40));
        let record = record_of(Wire::Anthropic, &CLAUDE.replace("Look around.", &long));
        assert_eq!(
            told(&record, Wire::Anthropic, &CLAUDE.replace("Look around.", &format!("{} …", &long[..200]))),
            "=r======",
            "shortened"
        );
        assert_eq!(
            told(
                &record,
                Wire::Anthropic,
                &CLAUDE.replace("Look around.", "A summary of what was said so far.")
            ),
            "=-======",
            "a text of our own is no version of what it stands for"
        );
    }

    #[test]
    fn entries_that_share_a_message_are_found_in_it() {
        let record = record_of(
            Wire::OpenaiChat,
            r#"[{"role":"system","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"},{"role":"user","content":"d"}]"#,
        );
        let merged = r#"{"system":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"messages":[{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}]}"#;
        assert_eq!(told(&record, Wire::Anthropic, merged), "ssss");
    }

    #[test]
    fn replaced_instructions_are_absent_and_what_the_provider_holds_is_not() {
        let mut record = record_of(
            Wire::OpenaiResponses,
            r#"[{"role":"system","content":"Monday."},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#,
        );
        let tuesday = Entry::text(Role::System, "Tuesday.").as_lead();
        record.append(tuesday.stamped(uuid::Uuid::nil(), 4, Time(0))).unwrap();
        record.decide(Decision::Lead { positions: vec![4] }, Time(0)).unwrap();
        let whole = r#"{"input":[{"role":"system","content":"Tuesday."},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#;
        let all = told(&record, Wire::OpenaiResponses, whole);
        assert!(all.starts_with("-===") && all.len() == 5 && !all.ends_with('-'), "{all}");
        let news = r#"{"previous_response_id":"resp_1","input":[{"role":"user","content":"c"}]}"#;
        assert_eq!(told(&record, Wire::OpenaiResponses, news), "-hh=h");
        assert_eq!(seen(&record, Wire::OpenaiResponses, b"not json"), None);
    }
}
