//! Runs of flows and sub-agents: listed, looked at step by step, and answered when they wait for a person.

use axum::http::StatusCode;
use schemars::JsonSchema;
use scrollback_store::{Cursor, Event, RunListing, RunStatus, Span, Step};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conversations::limit;
use super::operation::{ApiRequest, Nothing, Operation};
use super::shapes::{RunShape, value};
use crate::HttpProblem;
use crate::runs::{self, PersonAnswer, find};

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/runs", "listRuns", "Runs, those that began last first.", list),
        Operation::get("/runs/{id}", "getRun", "A run and its steps.", one),
        Operation::get("/runs/{id}/trace", "getTrace", "The spans and events of a run.", trace),
        Operation::post_as(
            StatusCode::ACCEPTED,
            "/runs/{id}/answer",
            "answerRun",
            "Answers the question a paused run asks, and lets it go on.",
            answer,
        )
        .fails(&[409, 422, 501]),
    ]
}

/// Which runs to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunsQuery {
    /// Only those with this status: `running`, `paused`, `interrupted`, `done` or `failed`.
    status: Option<String>,
    /// How many; 50 if not said, 500 at most.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// Where the page before ended: its `next`.
    after: Option<String>,
}

/// A page of runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Runs")]
pub(crate) struct RunsAnswer {
    /// Those that began last first.
    runs: Vec<RunShape>,
    /// Where the next page begins; null at the end.
    next: Option<String>,
}

async fn list(asking: ApiRequest, query: RunsQuery) -> Result<RunsAnswer, HttpProblem> {
    let listing = RunListing {
        status: query.status.as_deref().map(run_status_named).transpose()?,
        limit: limit(query.limit)?,
        after: query.after.as_deref().map(Cursor::parse).transpose()?,
    };
    let page = runs::page(&asking.app, asking.tenant(), listing).await?;
    Ok(RunsAnswer {
        runs: page.runs.iter().map(RunShape::of).collect(),
        next: page.next.map(|next| next.as_str().to_string()),
    })
}

/// The status of that name; a problem that lists the five otherwise.
pub(crate) fn run_status_named(name: &str) -> Result<RunStatus, HttpProblem> {
    name.parse().map_err(|_| {
        let known: Vec<&str> = RunStatus::ALL.iter().map(|status| status.as_str()).collect();
        let detail = format!("a run is one of: {}", known.join(", "));
        HttpProblem::bad_request("unknown_status", detail).with("known", known)
    })
}

/// A run and its steps.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunWithSteps")]
pub(crate) struct RunAnswer {
    #[serde(flatten)]
    run: RunShape,
    /// The text of its file.
    text: String,
    /// Its steps, by key.
    steps: Vec<StepShape>,
}

/// One step of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Step")]
pub(crate) struct StepShape {
    /// Its key, unique in its run.
    key: String,
    /// `step`, `loop`, `hitl`, `parallel`, `conditional` or `map`.
    kind: String,
    /// `running`, `paused`, `skipped`, `done` or `failed`.
    status: String,
    /// How often it was tried.
    attempt: u64,
    /// What it was given.
    input: Option<Value>,
    /// Its output; while it is paused, its question.
    output: Option<Value>,
    /// The evaluation it ran.
    evaluation: Option<String>,
    /// What it used.
    usage: Option<Value>,
    /// When it began.
    started_at: Option<String>,
    /// When it ended.
    ended_at: Option<String>,
    /// Why it failed.
    error: Option<Value>,
}

impl StepShape {
    fn of(step: Step) -> Self {
        StepShape {
            input: value(step.input.as_deref()),
            output: value(step.output.as_deref()),
            usage: value(step.usage.as_deref()),
            error: value(step.error.as_deref()),
            key: step.key,
            kind: step.kind.to_string(),
            status: step.status.to_string(),
            attempt: step.attempt,
            evaluation: step.evaluation.map(|id| id.to_string()),
            started_at: step.started_at.map(|at| at.to_string()),
            ended_at: step.ended_at.map(|at| at.to_string()),
        }
    }
}

async fn one(asking: ApiRequest, _: Nothing) -> Result<RunAnswer, HttpProblem> {
    let run = find(&asking.app, asking.tenant(), asking.part("id")).await?;
    let steps = asking.app.store.steps(asking.tenant(), &run.id).await?;
    Ok(RunAnswer {
        run: RunShape::of(&run),
        text: run.text,
        steps: steps.into_iter().map(StepShape::of).collect(),
    })
}

/// Which events to read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TraceQuery {
    /// Only events from this number on.
    from: Option<u64>,
}

/// The spans and events of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Trace")]
pub(crate) struct TraceAnswer {
    /// The run.
    run: String,
    /// Its spans, as they began.
    spans: Vec<SpanShape>,
    /// Its events, as they happened.
    events: Vec<EventShape>,
}

/// A stretch of time within a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Span")]
pub(crate) struct SpanShape {
    id: String,
    parent: Option<String>,
    name: String,
    /// The step it belongs to.
    key: Option<String>,
    status: Option<String>,
    started_at: String,
    ended_at: Option<String>,
    attributes: Option<Value>,
}

/// Something that happened in a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Event")]
pub(crate) struct EventShape {
    /// Its number within the run.
    sequence: u64,
    at: String,
    /// The step it is about.
    key: Option<String>,
    /// What happened.
    #[serde(rename = "type")]
    kind: String,
    data: Option<Value>,
}

async fn trace(asking: ApiRequest, query: TraceQuery) -> Result<TraceAnswer, HttpProblem> {
    let run = find(&asking.app, asking.tenant(), asking.part("id")).await?;
    let store = &asking.app.store;
    let spans = store.spans(asking.tenant(), &run.id).await?;
    let events = store.events(asking.tenant(), &run.id, query.from.unwrap_or(0)).await?;
    let span = |span: Span| SpanShape {
        attributes: value(span.attributes.as_deref()),
        id: span.id,
        parent: span.parent,
        name: span.name,
        key: span.key,
        status: span.status.map(|status| status.to_string()),
        started_at: span.started_at.to_string(),
        ended_at: span.ended_at.map(|at| at.to_string()),
    };
    let event = |event: Event| EventShape {
        data: value(event.data.as_deref()),
        sequence: event.sequence,
        at: event.at.to_string(),
        key: event.key,
        kind: event.kind,
    };
    Ok(TraceAnswer {
        run: run.id,
        spans: spans.into_iter().map(span).collect(),
        events: events.into_iter().map(event).collect(),
    })
}

/// An answer to a paused run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerShape {
    /// The answer. Where the question wants something else than a text, JSON.
    text: String,
    /// The step that asks; needed only where several do.
    #[serde(default)]
    step: Option<String>,
}

/// How the run goes on.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Answered")]
pub(crate) struct AnsweredShape {
    /// The run.
    run: String,
    /// How it stands now.
    status: String,
}

async fn answer(asking: ApiRequest, given: AnswerShape) -> Result<AnsweredShape, HttpProblem> {
    let run = find(&asking.app, asking.tenant(), asking.part("id")).await?;
    let answer =
        PersonAnswer { tenant: asking.tenant().clone(), run: run.id, step: given.step, text: given.text };
    let id = answer.run.clone();
    let status = runs::answer(&asking.app, answer).await?;
    Ok(AnsweredShape { run: id, status: status.to_string() })
}
