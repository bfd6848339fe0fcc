//! One run: its steps, its conversations, what it used.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use scrollback_store::{Run, StepType};
use serde_json::{Value, json};

use super::{Lens, Reveal, in_order, read, talks, updated};
use crate::driver::{RunRefused, RunReport, RunStatus, name_of, questions_of, resumes};
use crate::usage::RunUsage;
use crate::{Flow, StepKind};

impl Lens<'_> {
    /// A run, as a document. `flow` is the flow it runs, where that can be read.
    pub async fn show(&self, run: &Run, flow: Option<&Arc<Flow>>) -> Result<Value, RunRefused> {
        let steps = self.store.steps(self.tenant, &run.id).await?;
        let events = self.store.events(self.tenant, &run.id, 0).await?;
        let record = self.record(run).await?;
        let mut report = RunReport::of(run, &steps, flow, self.redactor, self.now);
        if self.reveal == Reveal::Everything && report.status == RunStatus::Paused {
            report.pauses = questions_of(&steps, flow);
        }
        let mut document = json!(report);
        let injected: HashSet<&str> = events
            .iter()
            .filter(|event| event.kind == "agent.prompt")
            .filter(|event| read(event.data.as_deref())["conversation_injected"] == json!(true))
            .filter_map(|event| event.key.as_deref())
            .collect();
        let updated = updated(run, &steps);
        let mut talks = talks(&record);
        for step in
            steps.iter().filter(|step| step.kind == StepType::Loop && holds_conversation(flow, &step.key))
        {
            // The conversation may still be empty.
            talks.entry(step.key.clone()).or_default();
        }
        let by_evaluation: BTreeMap<_, _> =
            steps.iter().filter_map(|step| Some((step.evaluation?, step.key.clone()))).collect();
        let shown: Vec<Value> = in_order(steps, &events)
            .into_iter()
            .map(|step| {
                let usage: RunUsage = step
                    .usage
                    .as_deref()
                    .and_then(|text| serde_json::from_str(text).ok())
                    .unwrap_or_default();
                json!({
                    "key": step.key,
                    "name": name_of(&step.key),
                    "kind": step.kind,
                    "status": step.status,
                    "attempt": step.attempt,
                    "input": self.shown_value(read(step.input.as_deref())),
                    "output": self.shown_value(read(step.output.as_deref())),
                    "error": self.shown_value(read(step.error.as_deref())),
                    "conversation_injected": injected.contains(step.key.as_str()),
                    "usage": usage,
                    "started_at": step.started_at.map(|time| time.to_string()),
                    "ended_at": step.ended_at.map(|time| time.to_string()),
                })
            })
            .collect();
        let conversations: Vec<Value> = talks
            .into_iter()
            .map(|(scope, talk)| {
                let turns: Vec<Value> = talk
                    .turns
                    .iter()
                    .map(|turn| {
                        json!({
                            "role": turn.role,
                            "content": self.shown(&turn.text),
                            "step": by_evaluation.get(&turn.evaluation),
                            "entry": turn.entry,
                        })
                    })
                    .collect();
                let summaries: Vec<Value> = talk
                    .summaries
                    .iter()
                    .map(|(at, covers, text)| json!({ "entry": at, "covers": covers, "content": self.shown(text) }))
                    .collect();
                json!({ "loop": name_of(&scope), "scope": scope, "turns": turns, "summaries": summaries })
            })
            .collect();
        if let Some(members) = document.as_object_mut() {
            members.insert(
                "input".into(),
                run.input.as_deref().map_or(Value::Null, |text| json!(self.shown(text))),
            );
            for said in ["output", "error"] {
                if let Some(value) = members.get_mut(said) {
                    *value = self.shown_value(value.take());
                }
            }
            members.insert("created_at".into(), json!(run.started_at.to_string()));
            members.insert("updated_at".into(), json!(updated.to_string()));
            members.insert("resumes".into(), json!(resumes(run)));
            members.insert("steps".into(), shown.into());
            members.insert("conversations".into(), conversations.into());
        }
        Ok(document)
    }
}

/// Whether the loop of a key holds a conversation.
fn holds_conversation(flow: Option<&Arc<Flow>>, key: &str) -> bool {
    let found = flow.and_then(|flow| flow.step(name_of(key)));
    found.is_some_and(|step| matches!(&step.kind, StepKind::Loop(inner) if inner.conversation.is_some()))
}
