//! A conversation while it is being read: its messages, and what the source knew about them.
//!
//! Readers think in messages; decisions speak of entries. A draft holds the one until the wire has made it the other.

use super::{FoundMessage, Note, ReadConversation, SourceDecision, Transcript, TranscriptError, read_placed};
use crate::decision::{Decision, SummaryPlace};
use crate::entry::{Entry, Role, Usage};
use crate::json::{JsonKind, Object};
use crate::wire::Wire;

/// A conversation whose messages have been found, but not yet read.
#[derive(Debug, Default)]
pub(super) struct ConversationDraft {
    /// Everything about it that needs no entries.
    pub(super) head: ReadConversation,
    /// Its messages, in order.
    pub(super) found: Vec<FoundMessage>,
    /// Where each message begins in the text.
    bytes: Vec<usize>,
    /// What happened between the messages: after how many of them, and what.
    pub(super) between: Vec<(usize, BetweenEntries)>,
}

/// What a source says between its messages.
#[derive(Debug, PartialEq)]
pub(super) enum BetweenEntries {
    /// One text took the place of the first so many messages.
    Summary { text: String, covers: usize, by: &'static str },
    /// The first so many messages are no longer sent.
    Cut { before: usize, by: &'static str },
    /// What the reply before this cost.
    Usage(Usage),
}

impl ConversationDraft {
    pub(super) fn push(&mut self, byte: usize, found: FoundMessage) {
        self.found.push(found);
        self.bytes.push(byte);
    }

    /// Something the source says now, after the messages so far.
    pub(super) fn say(&mut self, what: BetweenEntries) {
        self.between.push((self.found.len(), what));
    }

    pub(super) fn note(&mut self, line: usize, kind: impl Into<String>, raw: Option<&str>) {
        self.head.notes.push(Note { line, kind: kind.into(), raw: raw.map(Into::into) });
    }

    /// Keeps the members that have no place in a message, each as a note; empty ones say nothing.
    pub(super) fn note_rest(&mut self, line: usize, object: &Object<'_>, placed: &[&str]) {
        for (key, value) in object.members() {
            let empty = value.kind() == JsonKind::Null || matches!(value.text(), "{}" | "[]" | "\"\"");
            if !empty && !placed.contains(&key.as_ref()) {
                self.note(line, key.as_ref(), Some(value.text()));
            }
        }
    }

    /// Reads the messages by their wire. Those it refuses are reported, the others stay.
    pub(super) fn finish(self, wire: Wire, failed: &mut Vec<TranscriptError>) -> ReadConversation {
        let ConversationDraft { head, found, bytes, between } = self;
        let (mut conversation, places, refused) = read_good(wire, &found);
        for (index, problem) in refused {
            let line = found.get(index).map_or(0, |message| message.source.line);
            let byte = bytes.get(index).copied().unwrap_or_default();
            failed.push(TranscriptError { line, byte, problem });
        }
        for (after, what) in between {
            settle(&mut conversation, &places, after, what);
        }
        let mut notes = head.notes;
        notes.append(&mut conversation.notes);
        notes.sort_by_key(|note| note.line);
        ReadConversation {
            notes,
            entries: conversation.entries,
            sources: conversation.sources,
            decisions: conversation.decisions,
            ..head
        }
    }
}

/// Finishes drafts of one wire into a transcript.
pub(super) fn finish(
    drafts: Vec<ConversationDraft>,
    wire: Wire,
    mut failed: Vec<TranscriptError>,
) -> Transcript {
    let conversations = drafts.into_iter().map(|draft| draft.finish(wire, &mut failed)).collect();
    failed.sort_by_key(|failure| (failure.line, failure.byte));
    Transcript { conversations, failed }
}

/// The conversation, the message each entry came from, and the messages that were refused, with the reason.
type Good = (ReadConversation, Vec<usize>, Vec<(usize, String)>);

/// Reads all messages at once; if the wire refuses, finds out which ones it would not even read alone.
fn read_good(wire: Wire, found: &[FoundMessage]) -> Good {
    let all: Vec<&FoundMessage> = found.iter().collect();
    if let Ok((conversation, places)) = read_placed(wire, &all) {
        return (conversation, places, Vec::new());
    }
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for (index, message) in found.iter().enumerate() {
        match read_placed(wire, &[message]) {
            Ok(_) => good.push((index, message)),
            // The path within a list of our own making would only mislead.
            Err(error) => refused.push((index, error.at("").to_string())),
        }
    }
    let messages: Vec<&FoundMessage> = good.iter().map(|(_, message)| *message).collect();
    match read_placed(wire, &messages) {
        Ok((conversation, places)) => {
            let places = places.into_iter().filter_map(|place| good.get(place).map(|(index, _)| *index));
            (conversation, places.collect(), refused)
        }
        Err(error) => {
            let problem = error.at("").to_string();
            refused.extend(good.iter().map(|(index, _)| (*index, problem.clone())));
            (ReadConversation::default(), Vec::new(), refused)
        }
    }
}

/// Turns what a source said after so many messages into what holds for the entries they became.
fn settle(conversation: &mut ReadConversation, places: &[usize], after: usize, what: BetweenEntries) {
    let entries_of = |messages: usize| places.partition_point(|place| *place < messages);
    let after = entries_of(after);
    let decision = match what {
        BetweenEntries::Usage(usage) => {
            let reply =
                conversation.entries.iter_mut().take(after).rfind(|entry| entry.role == Role::Assistant);
            if let Some(reply) = reply {
                reply.meta.get_or_insert_default().usage = Some(usage);
            }
            return;
        }
        BetweenEntries::Summary { text, covers, by } => {
            // Instructions are anchored: a summary stands beside them, not for them.
            let first = conversation.entries.iter().take_while(|entry| entry.role == Role::System).count();
            let end = group_start(&conversation.entries, entries_of(covers).min(after));
            if end <= first {
                return;
            }
            let covers = vec![(first as u64, end as u64 - 1)];
            let by = by.to_string();
            Decision::Summary {
                covers,
                text,
                place: SummaryPlace::System,
                by,
                usage: None,
                replaces: None,
                scope: None,
            }
        }
        BetweenEntries::Cut { before, by } => {
            let before = group_start(&conversation.entries, entries_of(before).min(after));
            if before == 0 {
                return;
            }
            Decision::Cut {
                before: before as u64,
                held: None,
                by: by.into(),
                scope: None,
                kept: Vec::new(),
                owed: Vec::new(),
                notice: None,
                factor: None,
            }
        }
    };
    conversation.decisions.push(SourceDecision { after, decision });
}

/// The place at or before `at` where no exchange of call and result is split.
fn group_start(entries: &[Entry], at: usize) -> usize {
    if entries.get(at).is_none_or(|entry| entry.role != Role::Tool) {
        return at;
    }
    entries.iter().take(at).rposition(|entry| entry.role != Role::Tool).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Source;
    use super::*;

    fn draft(messages: &[&str]) -> ConversationDraft {
        let mut draft = ConversationDraft::default();
        for (index, raw) in messages.iter().enumerate() {
            let source = Source { line: index + 1, id: None };
            draft.push(index * 100, FoundMessage { raw: (*raw).into(), source, ..FoundMessage::default() });
        }
        draft
    }

    const TALK: [&str; 5] = [
        r#"{"role":"system","content":"Be brief."}"#,
        r#"{"role":"user","content":"weather?"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"w","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"c1","content":"rain"}"#,
        r#"{"role":"assistant","content":"Rain."}"#,
    ];

    #[test]
    fn a_message_the_wire_refuses_is_reported_and_the_others_are_read() {
        let mut failed = Vec::new();
        let read = draft(&[TALK[1], r#"{"role":"poet","content":"o"}"#, TALK[4]])
            .finish(Wire::OpenaiChat, &mut failed);
        assert_eq!(read.sources.iter().map(|source| source.line).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((failed[0].line, failed[0].byte, failed.len()), (2, 100, 1));
        assert!(!failed[0].problem.starts_with('/'), "{}", failed[0]);
    }

    #[test]
    fn a_summary_leaves_the_instructions_and_splits_no_exchange() {
        let mut draft = draft(&TALK);
        draft.say(BetweenEntries::Summary { text: "It rains.".into(), covers: 3, by: "test" });
        draft.say(BetweenEntries::Summary { text: "It rains.".into(), covers: 5, by: "test" });
        let read = draft.finish(Wire::OpenaiChat, &mut Vec::new());
        let covers: Vec<_> = read
            .decisions
            .iter()
            .map(|decided| match &decided.decision {
                Decision::Summary { covers, .. } => (decided.after, covers.clone()),
                _ => (0, Vec::new()),
            })
            .collect();
        assert_eq!(covers, [(5, vec![(1, 1)]), (5, vec![(1, 4)])]);
    }

    #[test]
    fn a_cut_moves_back_to_where_the_exchange_begins() {
        let mut draft = draft(&TALK);
        draft.say(BetweenEntries::Cut { before: 3, by: "test" });
        let read = draft.finish(Wire::OpenaiChat, &mut Vec::new());
        assert!(matches!(read.decisions[0].decision, Decision::Cut { before: 2, .. }));
    }

    #[test]
    fn usage_belongs_to_the_reply_before_it() {
        let mut draft = draft(&TALK[..4]);
        draft.say(BetweenEntries::Usage(Usage { output: Some(7), ..Usage::default() }));
        let read = draft.finish(Wire::OpenaiChat, &mut Vec::new());
        let usage = read.entries[2].meta.as_ref().unwrap().usage.as_ref().unwrap();
        assert_eq!(usage.output, Some(7));
    }
}
