//! The result of an agent's query, as programs read it.

use scrollback_agent::react::{QueryStatus, SessionResult, Stopped};
use scrollback_agent::runner::{AttemptUsage, CallReport};
use scrollback_agent::trajectory::{Step, StepKind};
use serde::Serialize;
use serde_json::Value;

/// The `--json` object.
#[derive(Serialize)]
pub(super) struct AgentJson<'a> {
    status: QueryStatus,
    #[serde(rename = "answer")]
    text: Option<&'a str>,
    output: Option<&'a Value>,
    stopped: Stopped,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject<'a>>,
    evaluation_id: String,
    conversation: Option<&'a str>,
    iterations: u32,
    tools: Vec<ToolCalls<'a>>,
    usage: UsageObject<'a>,
    calls: &'a [CallReport],
    entries: usize,
    steps: Vec<StepObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: &'a str,
    phase: &'static str,
    message: &'a str,
}

#[derive(Serialize)]
struct ToolCalls<'a> {
    name: &'a str,
    calls: u32,
    errors: u32,
}

#[derive(Serialize)]
struct UsageObject<'a> {
    #[serde(flatten)]
    spent: &'a AttemptUsage,
    total: u64,
}

#[derive(Serialize)]
struct StepObject<'a> {
    kind: StepKind,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_data: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_id: Option<&'a str>,
    iteration: u32,
}

impl<'a> AgentJson<'a> {
    pub(super) fn of(result: &'a SessionResult, conversation: Option<&'a str>, entries: usize) -> Self {
        let error = result.error.as_ref();
        AgentJson {
            status: result.status,
            text: result.answer.as_deref(),
            output: result.output.as_ref(),
            stopped: result.stopped,
            error: error.map(|error| ErrorObject {
                code: error.code(),
                phase: error.phase.as_str(),
                message: &error.message,
            }),
            evaluation_id: result.evaluation_id.to_string(),
            conversation,
            iterations: result.iterations,
            tools: result
                .tools
                .iter()
                .map(|(name, report)| ToolCalls { name, calls: report.calls, errors: report.errors })
                .collect(),
            usage: UsageObject { spent: &result.usage, total: result.usage.total() },
            calls: &result.calls,
            entries,
            steps: result.steps.iter().map(step).collect(),
            question: result.question.as_ref().map(|question| question.text.as_str()),
        }
    }
}

fn step(step: &Step) -> StepObject<'_> {
    StepObject {
        kind: step.kind,
        content: &step.content,
        tool_data: step.tool_data.as_ref(),
        tool_use_id: step.tool_use_id.as_deref(),
        iteration: step.iteration,
    }
}
