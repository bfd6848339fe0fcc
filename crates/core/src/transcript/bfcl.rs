//! BFCL multi-turn: scripts of what a user says turn by turn, and the calls that would be right in each turn.

use std::collections::BTreeMap;

use super::chat::{self, ChatMessage, Writing, call, literal};
use super::values::{
    JsonAt, Values, finished, first_record, has_key, has_list, id_of, note, other_members, values,
};
use super::{FoundMessage, Note, ReadConversation, Source, Transcript, TranscriptError, python};
use crate::json::{JsonKind, Raw};

/// What is said in each conversation that has calls, since no model made them.
const NOTED: &str = "calls are the expected ones, with ids of our own, and have no results";

/// Whether the text is a script or an answer: turns under `question` or `ground_truth`, each a list.
pub(crate) fn looks_like(text: &str) -> bool {
    let turns = |record: Raw<'_>, key: &str| {
        has_list(record, key)
            && record.get(key).into_iter().flat_map(Raw::elements).all(|turn| turn.kind() == JsonKind::Array)
    };
    (has_key(text, "question") || has_key(text, "ground_truth"))
        && first_record(text).is_some_and(|record| {
            record.get("id").is_some() && (turns(record, "question") || turns(record, "ground_truth"))
        })
}

/// What is known of one id: both halves may stand in the text, in either order.
#[derive(Default)]
struct Script<'a> {
    question: Option<(JsonAt<'a>, Raw<'a>)>,
    answer: Option<(JsonAt<'a>, Raw<'a>)>,
    notes: Vec<Note>,
}

/// Reads one conversation per id: in each turn the user's messages, then the expected calls.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let Values { found, failed } = values(text)?;
    let mut transcript = Transcript { conversations: Vec::new(), failed };
    let mut scripts: Vec<(String, Script<'_>)> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for record in found.into_iter().flat_map(JsonAt::records) {
        let half = match read_half(record) {
            Ok(half) => half,
            Err(error) => {
                transcript.failed.push(error);
                continue;
            }
        };
        let at = *known.entry(half.id.clone()).or_insert(scripts.len());
        if at == scripts.len() {
            scripts.push((half.id, Script::default()));
        }
        let Some((_, script)) = scripts.get_mut(at) else { continue };
        let twice = (script.question.is_some() && half.question.is_some())
            || (script.answer.is_some() && half.answer.is_some());
        if twice {
            transcript
                .failed
                .push(record.error(record.raw, "the id appears twice; the first one is kept".into()));
            continue;
        }
        script.question = script.question.or(half.question.map(|turns| (record, turns)));
        script.answer = script.answer.or(half.answer.map(|turns| (record, turns)));
        script.notes.extend(half.notes);
    }
    for (id, script) in scripts {
        let conversation = script.conversation(id, &mut transcript.failed);
        transcript.conversations.push(conversation);
    }
    finished(transcript)
}

/// One record of the text.
struct Half<'a> {
    id: String,
    question: Option<Raw<'a>>,
    answer: Option<Raw<'a>>,
    notes: Vec<Note>,
}

fn read_half(record: JsonAt<'_>) -> Result<Half<'_>, TranscriptError> {
    let members = record.object("a script")?;
    let bad = |problem: &str| record.error(record.raw, problem.into());
    let id = id_of(members.get("id")).ok_or_else(|| bad("the script has no `id`"))?;
    let turns = |key: &str| members.get(key).filter(|turns| turns.kind() == JsonKind::Array);
    let (question, answer) = (turns("question"), turns("ground_truth"));
    if question.is_none() && answer.is_none() {
        return Err(bad("neither `question` nor `ground_truth` is a list of turns"));
    }
    Ok(Half { id, question, answer, notes: other_members(&members, &["id", "question", "ground_truth"]) })
}

impl<'a> Script<'a> {
    fn conversation(self, id: String, failed: &mut Vec<TranscriptError>) -> ReadConversation {
        let mut messages: Vec<ChatMessage<'a>> = Vec::new();
        let mut notes = Vec::new();
        let turns =
            |half: Option<(JsonAt<'a>, Raw<'a>)>| half.into_iter().flat_map(|(_, turns)| turns.elements());
        let (mut said, mut right) = (turns(self.question), turns(self.answer));
        let (mut user, mut calls) = (said.next(), right.next());
        while user.is_some() || calls.is_some() {
            if let (Some(turn), Some((record, _))) = (user, self.question) {
                for from in turn.elements() {
                    let found = found(messages.len(), from.text().into());
                    messages.push(ChatMessage { found, record, from });
                }
            }
            if let (Some(turn), Some((record, _))) = (calls, self.answer) {
                if let Some(raw) = calling(messages.len(), turn) {
                    messages.push(ChatMessage { found: found(messages.len(), raw), record, from: turn });
                } else if turn.elements().next().is_some() || turn.kind() != JsonKind::Array {
                    notes.push(note(0, "ground_truth turn that is not a list of calls", turn));
                }
            }
            (user, calls) = (said.next(), right.next());
        }
        let mut conversation = chat::conversation(messages, failed);
        conversation.id = Some(id);
        if let Some((_, turns)) = self.answer {
            conversation.notes.push(Note { line: 0, kind: NOTED.into(), raw: None });
            conversation.notes.push(note(0, "ground_truth", turns));
        }
        conversation.notes.extend(notes);
        conversation.notes.extend(self.notes);
        conversation
    }
}

fn found(position: usize, raw: String) -> FoundMessage {
    FoundMessage { raw, source: Source { line: position + 1, id: None }, ..FoundMessage::default() }
}

/// The expected calls of a turn as one assistant message; none if there are none, or they are not written as calls.
fn calling(position: usize, turn: Raw<'_>) -> Option<String> {
    let mut calls = Vec::new();
    for (number, each) in turn.elements().enumerate() {
        let text = each.string()?;
        let (name, arguments) = python::call(&text);
        calls.push(call(&format!("sb_{position}_{number}"), name, &literal(&arguments)));
    }
    if calls.is_empty() {
        return None;
    }
    let list = format!("[{}]", calls.join(","));
    Some(Writing::new().text("role", "assistant").raw("content", "null").raw("tool_calls", &list).end())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::entry::Role;

    const SCRIPT: &str = include_str!("../../../../corpus/transcript/bfcl/script.jsonl");
    const ANSWER: &str = include_str!("../../../../corpus/transcript/bfcl/answer.jsonl");

    fn calls(conversation: &ReadConversation) -> Vec<(String, String, String)> {
        let calls = conversation.entries.iter().flat_map(crate::Entry::tool_calls);
        calls
            .map(|call| (call.call_id.clone().unwrap(), &call.name, &call.arguments))
            .map(|(id, name, arguments)| {
                (id.as_str().into(), name.as_str().into(), arguments.as_str().into())
            })
            .collect()
    }

    #[test]
    fn a_script_alone_is_what_the_user_says() {
        assert!(looks_like(SCRIPT));
        let transcript = read(SCRIPT).unwrap();
        let sizes: Vec<_> = transcript
            .conversations
            .iter()
            .map(|script| (script.id.as_deref(), script.entries.len()))
            .collect();
        assert_eq!(sizes, [(Some("m_0"), 2), (Some("m_1"), 1)]);
        assert!(transcript.conversations[0].entries.iter().all(|entry| entry.role == Role::User));
        let kinds: Vec<_> = transcript.conversations[0].notes.iter().map(|note| note.kind.as_str()).collect();
        assert_eq!(kinds, ["initial_config", "involved_classes"]);
    }

    #[test]
    fn an_answer_alone_is_a_group_of_calls_per_turn() {
        assert!(looks_like(ANSWER));
        let transcript = read(ANSWER).unwrap();
        let sizes: Vec<_> = transcript.conversations.iter().map(|script| script.entries.len()).collect();
        assert_eq!(sizes, [0, 3, 1]);
    }

    #[test]
    fn both_halves_are_joined_by_id_and_turn() {
        let transcript = read(&format!("{SCRIPT}{ANSWER}")).unwrap();
        let script = &transcript.conversations[0];
        let roles: Vec<_> = script.entries.iter().map(|entry| entry.role.as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "assistant", "user", "assistant"]);
        let expected = [
            ("sb_1_0", "mkdir", r#"{"name":"temp"}"#),
            ("sb_1_1", "cd", r#"{"folder":"temp"}"#),
            ("sb_2_0", "ls", r#"{"a":true}"#),
            ("sb_4_0", "sort", r#"{"__raw":"sort('list.txt')"}"#),
        ];
        assert_eq!(
            calls(script),
            expected.map(|(id, name, arguments)| (id.into(), name.into(), arguments.into()))
        );
        assert_eq!(transcript.conversations.len(), 3);
    }

    #[test]
    fn an_id_twice_or_a_record_of_another_kind_is_set_aside() {
        let transcript = read(&format!("{SCRIPT}{SCRIPT}{{\"id\":\"x\"}}\nnot json\n")).unwrap();
        assert_eq!(transcript.conversations.len(), 2);
        assert_eq!(transcript.failed.iter().map(|error| error.line).collect::<Vec<_>>(), [3, 4, 5, 6]);
    }
}
