//! How a run stands, as programs read it.

use std::sync::Arc;

use scrollback_agent::lease::is_dead;
use scrollback_core::Time;
use scrollback_core::redact::Redactor;
use scrollback_store::{Lease, Run, RunStatus, Step, StepStatus};
use serde::Serialize;
use serde_json::{Value, json};

use super::ledger::name_of;
use crate::error::RunError;
use crate::usage::RunUsage;
use crate::{Flow, StepKind};

/// The status of a stored run now: one whose process is gone was interrupted.
pub fn current_status(run: &Run, now: Time) -> RunStatus {
    let alive = |lease: &Lease| lease.until > now && !is_dead(&lease.holder);
    match run.status {
        RunStatus::Running if !run.lease.as_ref().is_some_and(alive) => RunStatus::Interrupted,
        status => status,
    }
}

/// A question that waits, as programs read it. The message is redacted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PauseReport {
    /// The step's key.
    pub step: String,
    /// Its name.
    pub name: String,
    /// What the person is shown.
    pub message: String,
    /// What the answer must fit.
    pub input_schema: Value,
}

/// How a run stands, as programs read it. The output is the user's own data and comes as it is; messages are redacted.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// Its id.
    pub run: String,
    /// The flow's name.
    pub flow: String,
    /// How it stands.
    pub status: RunStatus,
    /// The last step's output.
    pub output: Value,
    /// Why it failed.
    pub error: Option<RunError>,
    /// The questions that wait.
    pub pauses: Vec<PauseReport>,
    /// What it used.
    pub usage: RunUsage,
    /// What was doubtful about the flow.
    pub warnings: Vec<Value>,
}

impl RunReport {
    /// The report of a stored run.
    pub fn of(run: &Run, steps: &[Step], flow: Option<&Arc<Flow>>, redactor: &Redactor, now: Time) -> Self {
        let status = current_status(run, now);
        let read = |text: &Option<String>| {
            text.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
        };
        let settings = read(&run.settings);
        RunReport {
            run: run.id.clone(),
            flow: run.name.clone(),
            status,
            output: if status == RunStatus::Done { read(&run.output) } else { Value::Null },
            error: run.error.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            pauses: if status == RunStatus::Paused { pauses_of(steps, flow, redactor) } else { Vec::new() },
            usage: usage_of(steps),
            warnings: settings.get("warnings").and_then(Value::as_array).cloned().unwrap_or_default(),
        }
    }
}

/// What all steps of a run used.
pub(crate) fn usage_of(steps: &[Step]) -> RunUsage {
    let usages = steps.iter().filter_map(|step| serde_json::from_str(step.usage.as_deref()?).ok());
    usages.fold(RunUsage::default(), RunUsage::and)
}

/// The questions that wait, from the rows of a run's steps.
pub fn pauses_of(steps: &[Step], flow: Option<&Arc<Flow>>, redactor: &Redactor) -> Vec<PauseReport> {
    let mut open = questions_of(steps, flow);
    for pause in &mut open {
        pause.message = redactor.text(&pause.message).text.into_owned();
    }
    open
}

/// The same as they were asked, secrets and all.
pub(crate) fn questions_of(steps: &[Step], flow: Option<&Arc<Flow>>) -> Vec<PauseReport> {
    let open = steps.iter().filter(|step| step.status == StepStatus::Paused);
    open.map(|step| {
        let name = name_of(&step.key);
        let asked = flow.and_then(|flow| flow.step(name)).and_then(|step| match &step.kind {
            StepKind::Hitl(hitl) => hitl.input_schema.clone(),
            _ => None,
        });
        let message: Value =
            step.input.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        PauseReport {
            step: step.key.clone(),
            name: name.into(),
            message: message.as_str().unwrap_or_default().into(),
            input_schema: asked.unwrap_or_else(|| json!({ "type": "string", "minLength": 1 })),
        }
    })
    .collect()
}
