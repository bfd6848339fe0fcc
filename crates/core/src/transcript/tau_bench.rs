//! tau-bench: runs of a task, each with its reward and a list of chat messages.

use super::chat::{self, ChatMessage};
use super::values::{each_record, first_record, has_key, has_list, id_of, other_members};
use super::{FoundMessage, Source, Transcript, TranscriptError};
use crate::json::JsonKind;

/// Whether the text is a run or a list of runs.
pub(crate) fn looks_like(text: &str) -> bool {
    has_key(text, "traj")
        && first_record(text).is_some_and(|run| has_list(run, "traj") && run.get("task_id").is_some())
}

/// Reads one conversation per run; its id is `task_id/trial`.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    each_record(text, |record, transcript| {
        let run = record.object("a run")?;
        let list = run
            .get("traj")
            .filter(|list| list.kind() == JsonKind::Array)
            .ok_or_else(|| record.error(record.raw, "the run has no list `traj`".into()))?;
        let messages = list.elements().enumerate().map(|(index, from)| {
            let source = Source { line: index + 1, id: None };
            ChatMessage {
                found: FoundMessage { raw: from.text().into(), source, ..FoundMessage::default() },
                record,
                from,
            }
        });
        let mut conversation = chat::conversation(messages.collect(), &mut transcript.failed);
        conversation.id = match (id_of(run.get("task_id")), id_of(run.get("trial"))) {
            (Some(task), Some(trial)) => Some(format!("{task}/{trial}")),
            (task, _) => task,
        };
        conversation.notes.extend(other_members(&run, &["task_id", "trial", "traj"]));
        transcript.conversations.push(conversation);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RUNS: &str = include_str!("../../../../corpus/transcript/tau-bench/runs.json");

    #[test]
    fn every_run_is_a_conversation_with_its_messages_verbatim() {
        assert!(looks_like(RUNS));
        let transcript = read(RUNS).unwrap();
        let ids: Vec<_> = transcript.conversations.iter().map(|run| run.id.as_deref().unwrap()).collect();
        assert_eq!(ids, ["4/0", "4/1"]);
        let run = &transcript.conversations[0];
        for entry in &run.entries {
            assert!(RUNS.contains(entry.origin.raw.as_ref()));
        }
        assert_eq!(run.entries[2].tool_call_id().as_deref(), Some("call_1"));
        let notes: Vec<_> =
            run.notes.iter().map(|note| (note.kind.as_str(), note.raw.as_deref().unwrap())).collect();
        assert_eq!(notes, [("reward", "1.0"), ("info", r#"{"source": "user"}"#)]);
    }

    #[test]
    fn a_bad_message_or_run_is_set_aside_with_its_place() {
        let transcript = read(RUNS).unwrap();
        let run = &transcript.conversations[1];
        assert_eq!(run.sources.iter().map(|source| source.line).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(transcript.failed.iter().map(|error| error.line).collect::<Vec<_>>(), [10, 13]);
        assert!(RUNS.get(transcript.failed[0].byte..).unwrap().starts_with(r#"{"role": "narrator""#));
        assert!(read(r#"{"messages":[]}"#).unwrap_err().problem.contains("no list `traj`"));
    }

    #[test]
    fn a_single_run_is_read_alone() {
        let transcript = read(r#"{"task_id":"t","traj":[{"role":"user","content":"hi"}]}"#).unwrap();
        assert_eq!(transcript.conversations[0].id.as_deref(), Some("t"));
        assert_eq!(transcript.conversations[0].entries.len(), 1);
    }
}
