//! Transcripts: what other tools keep of a conversation, read into entries.
//!
//! Each format has one file with a function from text to [`ReadConversation`]s. A reader turns what it finds into messages
//! of the wire that holds them best and lets the wire read those, so that there is one way into an [`Entry`]. What is
//! not a message is kept as a [`Note`], never dropped in silence.

mod atif;
mod bfcl;
pub mod cassette;
mod chat;
mod claude_code;
mod codex;
mod draft;
mod format;
mod goose;
mod inspect;
mod langchain;
mod lines;
mod openai_finetune;
mod openhands;
mod print;
mod python;
mod sharegpt;
mod strands;
mod stream;
mod swe_agent;
mod tau_bench;
mod traces;
mod values;
mod yaml;

use std::fmt;
use std::sync::Arc;

use crate::decision::Decision;
use crate::entry::{Entry, Meta, Time};
use crate::json;
use crate::record::{AppendError, Record, Slot};
use crate::wire::{ParseOptions, Wire, WireError};

pub use format::{Format, detect, read};
pub use goose::{GooseRow, read_rows as read_goose_rows};
pub use strands::read_folder as read_strands_folder;
pub use stream::TranscriptStream;

/// One conversation found in a transcript.
#[derive(Clone, Debug, Default)]
pub struct ReadConversation {
    /// The tool's own id of the session, where it has one.
    pub id: Option<String>,
    /// The conversation it branched off or works for (forks, sidechains, sub-agents), and the message there.
    pub parent: Option<Parent>,
    /// How it hangs on that conversation.
    pub relation: Relation,
    /// What the tool calls it.
    pub title: Option<String>,
    /// What was said, in order, as one evaluation counted from sequence 0.
    pub entries: Vec<Entry>,
    /// For each entry, the line (or place in the list) it was read from, from 1, and the source's own id of it.
    pub sources: Vec<Source>,
    /// Decisions the source had taken: summaries, cuts, pins. Positions are indexes into `entries`; each is to be
    /// recorded once `after` entries are there.
    pub decisions: Vec<SourceDecision>,
    /// What was found beside messages, in order.
    pub notes: Vec<Note>,
    /// The tools on offer, if the source says.
    pub tools: Option<crate::context::Tools>,
    /// Entries of it that a [`TranscriptStream`] handed over earlier. Decisions count from there.
    pub before: usize,
}

/// How a conversation hangs on the one it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relation {
    /// It says the same up to a place, and goes on in its own way.
    #[default]
    Branch,
    /// A helper that was started there, with a history of its own.
    Helper,
}

impl ReadConversation {
    /// The wire its messages are in.
    pub fn wire(&self) -> Wire {
        self.entries.first().map_or(Wire::OpenaiChat, |entry| entry.origin.wire)
    }

    /// The first `take` entries as a record, with the decisions of the source among them. A decision that the record
    /// does not accept is noted instead.
    pub fn into_record(self, take: Option<usize>) -> Result<(Record, Vec<Note>), AppendError> {
        let mut record = Record::new();
        let mut notes = self.notes;
        let mut decisions = self.decisions.into_iter().peekable();
        let mut positions: Vec<u64> = Vec::with_capacity(self.entries.len());
        for (index, entry) in self.entries.into_iter().take(take.unwrap_or(usize::MAX)).enumerate() {
            while let Some(decided) = decisions.next_if(|decided| decided.after <= index) {
                decide(&mut record, decided, &positions, entry.created_at, &mut notes);
            }
            let (evaluation, at) = (entry.evaluation_id, entry.created_at);
            positions.push(record.append(entry.stamped(evaluation, index as u64, at))?);
        }
        let last = record.slots().last().map_or(Time::default(), Slot::created_at);
        for decided in decisions.filter(|decided| decided.after <= positions.len()) {
            decide(&mut record, decided, &positions, last, &mut notes);
        }
        Ok((record, notes))
    }
}

/// Records a decision of the source about the entries that are there.
fn decide(record: &mut Record, decided: SourceDecision, positions: &[u64], at: Time, notes: &mut Vec<Note>) {
    // What lies past the last entry is the place of the decision itself.
    let here = record.len() as u64;
    let place = |index: u64| positions.get(index as usize).copied().unwrap_or(here);
    if let Err(error) = record.decide(decided.decision.moved(place), at) {
        notes.push(Note {
            line: 0,
            kind: format!("a decision of the source cannot be applied: {error}"),
            raw: None,
        });
    }
}

/// Where a conversation branched off another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Id of the other conversation.
    pub id: String,
    /// The source's own id of the last message both share, or of the message that started it.
    pub at: Option<String>,
}

/// Where an entry stands in its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The line, or the place in the list, from 1.
    pub line: usize,
    /// The source's own id.
    pub id: Option<String>,
}

/// A decision of the source, and when it was taken.
#[derive(Clone, Debug)]
pub struct SourceDecision {
    /// How many entries were there.
    pub after: usize,
    /// What was decided.
    pub decision: Decision,
}

/// Something in a transcript that is not a message, or that a reader had to assume.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The line, or the place in the list, from 1.
    pub line: usize,
    /// The source's own word for it, or what was assumed.
    pub kind: String,
    /// What stands there, verbatim, if it is a value.
    pub raw: Option<Arc<str>>,
}

/// A transcript that cannot be read, or a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptError {
    /// The line, from 1; 0 where the whole text is meant.
    pub line: usize,
    /// Byte offset of the trouble within the text.
    pub byte: usize,
    /// One lower-case line.
    pub problem: String,
}

impl fmt::Display for TranscriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.problem)
        } else {
            write!(f, "line {} (byte {}): {}", self.line, self.byte, self.problem)
        }
    }
}

impl std::error::Error for TranscriptError {}

/// What a transcript gave: its conversations, and the lines that could not be read (the rest was).
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// The main one first, where the source has one; otherwise in the order in which they begin.
    pub conversations: Vec<ReadConversation>,
    /// Lines that are broken; readers go on after them.
    pub failed: Vec<TranscriptError>,
}

/// One message a reader found, before its wire has read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundMessage {
    /// The message as JSON of the wire, in the source's own spelling wherever it has one.
    pub(crate) raw: String,
    /// Where it stood.
    pub(crate) source: Source,
    /// When it was said.
    pub(crate) time: Option<Time>,
    /// What the source knows about it. Of a message that becomes several entries, all get it.
    pub(crate) meta: Option<Meta>,
}

/// Reads messages of one wire into a conversation: entries in order, each with time, source and meta.
///
/// `Conversation::sources` tells for each entry which message it came from, so that decisions can be placed.
pub(crate) fn read_messages(wire: Wire, found: &[FoundMessage]) -> Result<ReadConversation, WireError> {
    let all: Vec<&FoundMessage> = found.iter().collect();
    Ok(read_placed(wire, &all)?.0)
}

/// Like [`read_messages`], and tells for each entry which of the messages it came from.
fn read_placed(wire: Wire, found: &[&FoundMessage]) -> Result<(ReadConversation, Vec<usize>), WireError> {
    let mut list = String::from("[");
    for (number, message) in found.iter().enumerate() {
        if number > 0 {
            list.push(',');
        }
        list.push_str(&message.raw);
    }
    list.push(']');
    let parsed = wire.parse(json::check(&list)?, &ParseOptions::default())?;
    let (mut conversation, mut places) = (ReadConversation::default(), Vec::new());
    for (mut entry, index) in parsed.entries.into_iter().zip(parsed.indexes) {
        let Some((index, message)) = index.and_then(|index| Some((index, found.get(index)?))) else {
            continue;
        };
        if let Some(time) = message.time {
            entry.created_at = time;
        }
        if let Some(meta) = &message.meta {
            entry.meta = Some(Box::new(meta.clone()));
        }
        conversation.entries.push(entry);
        conversation.sources.push(message.source.clone());
        places.push(index);
    }
    conversation.notes =
        parsed.notes.into_iter().map(|note| Note { line: 0, kind: note, raw: None }).collect();
    Ok((conversation, places))
}

/// The tools a list defines, read the way a request's are; none if it is no list.
fn tools_of(list: json::Raw<'_>) -> Option<crate::context::Tools> {
    if list.kind() != json::JsonKind::Array {
        return None;
    }
    let body = format!(r#"{{"messages":[],"tools":{}}}"#, list.text());
    Wire::OpenaiChat.parse(json::check(&body).ok()?, &ParseOptions::default()).ok()?.tools
}
