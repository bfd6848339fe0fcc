//! SWE-agent: a `.traj` whose `history` holds chat messages with more keys than the wire has.

use super::chat::{self, ChatMessage, with_member};
use super::values::{each_record, first_record, has_key, note, other_members};
use super::{FoundMessage, Note, Source, Transcript, TranscriptError};
use crate::entry::Meta;
use crate::json::{JsonKind, Raw};

/// Whether the text is an object with a `history` of messages that name their agent or kind.
pub(crate) fn looks_like(text: &str) -> bool {
    let ours = |message: Raw<'_>| {
        message.get("role").is_some()
            && ["agent", "message_type", "thought"].iter().any(|key| message.get(key).is_some())
    };
    has_key(text, "history")
        && first_record(text).is_some_and(|file| {
            file.get("history").is_some_and(|history| history.elements().next().is_some_and(ours))
        })
}

/// Reads the history as one conversation; steps, configuration and outcome stay as notes.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    each_record(text, |record, transcript| {
        let file = record.object("a trajectory")?;
        let history = file
            .get("history")
            .filter(|history| history.kind() == JsonKind::Array)
            .ok_or_else(|| record.error(record.raw, "the trajectory has no list `history`".into()))?;
        let mut notes = Vec::new();
        let messages = history.elements().enumerate().map(|(index, from)| {
            let found = message(index + 1, from, &mut notes);
            ChatMessage { found, record, from }
        });
        let mut conversation = chat::conversation(messages.collect(), &mut transcript.failed);
        conversation.notes.extend(notes);
        conversation.notes.extend(other_members(&file, &["history"]));
        transcript.conversations.push(conversation);
        Ok(())
    })
}

/// One entry of the history. An observation says in `tool_call_ids` what it answers; the first id is the one that was
/// sent, and a list of several is noted.
fn message(place: usize, raw: Raw<'_>, notes: &mut Vec<Note>) -> FoundMessage {
    let mut found = FoundMessage {
        raw: raw.text().into(),
        source: Source { line: place, id: None },
        ..FoundMessage::default()
    };
    if let Some(agent) = raw.get("agent").and_then(Raw::string) {
        let tags = [("agent".to_string(), agent.into_owned())].into();
        found.meta = Some(Meta { tags, ..Meta::default() });
    }
    let answers = raw.get("role").and_then(Raw::string).as_deref() == Some("tool");
    if let (true, None, Some(ids)) = (answers, raw.get("tool_call_id"), raw.get("tool_call_ids")) {
        let mut each = ids.elements();
        if let Some(first) = each.next() {
            found.raw = with_member(raw, "tool_call_id", first.text());
        }
        if each.next().is_some() {
            notes.push(note(place, "tool_call_ids", ids));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TRAJ: &str = include_str!("../../../../corpus/transcript/swe-agent/two_agents.traj");

    #[test]
    fn observations_get_the_id_they_answer_and_keep_everything_else() {
        assert!(looks_like(TRAJ));
        let transcript = read(TRAJ).unwrap();
        let conversation = &transcript.conversations[0];
        assert!(transcript.failed.is_empty());
        assert_eq!(
            conversation.entries[2].origin.raw.as_ref(),
            r#"{"role": "tool", "content": "a.py", "agent": "main", "message_type": "observation", "tool_call_ids": ["call_a"],"tool_call_id":"call_a"}"#
        );
        let ids: Vec<_> = conversation.entries.iter().map(crate::Entry::tool_call_id).collect();
        assert_eq!(ids, [None, None, Some("call_a".into()), None, Some("call_b".into())]);
        let agents: Vec<_> = conversation
            .entries
            .iter()
            .map(|entry| entry.meta.as_ref().unwrap().tags["agent"].as_str())
            .collect();
        assert_eq!(agents, ["main", "main", "main", "reviewer", "main"]);
    }

    #[test]
    fn what_is_no_message_is_noted() {
        let notes = read(TRAJ).unwrap().conversations.remove(0).notes;
        let kinds: Vec<_> = notes.iter().map(|note| (note.line, note.kind.as_str())).collect();
        assert_eq!(kinds, [(5, "tool_call_ids"), (0, "environment"), (0, "trajectory"), (0, "info")]);
        assert_eq!(notes[3].raw.as_deref(), Some(r#"{"exit_status": "submitted"}"#));
    }
}
