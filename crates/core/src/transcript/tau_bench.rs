//! tau-bench: runs of a task, each with its reward and a list of chat messages.

use super::chat::{self, Message};
use super::values::{each_record, first_record, has_key, has_list, id_of, other_members};
use super::{Found, Source, Transcript, TranscriptError};
use crate::json::Kind;

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
            .filter(|list| list.kind() == Kind::Array)
            .ok_or_else(|| record.error(record.raw, "the run has no list `traj`".into()))?;
        let messages = list.elements().enumerate().map(|(index, from)| {
            let source = Source { line: index + 1, id: None };
            Message { found: Found { raw: from.text().into(), source, ..Found::default() }, record, from }
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
