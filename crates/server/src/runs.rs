//! Runs that wait for a person: who takes the answer is given from outside, because flows are run elsewhere.

use axum::http::StatusCode;
use scrollback_agent::event::RunChanged;
use scrollback_store::{BoxFuture, RunStatus, Tenant};

use crate::{About, App, HttpProblem};

/// An answer to the question a paused run asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonAnswer {
    /// Whose run it is.
    pub tenant: Tenant,
    /// The run.
    pub run: String,
    /// The step that asks; needed only where several do.
    pub step: Option<String>,
    /// What the person says.
    pub text: String,
}

/// Why an answer was not taken. The run stays as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerRefused {
    /// The run does not wait for an answer, or several steps do and none was named.
    NotWaiting(String),
    /// The answer does not fit what was asked for; why, in words.
    DoesNotFit(String),
    /// Another process is working on the run.
    Busy(String),
    /// The flow it was begun with cannot be read any more: a newer version wrote it, or it was damaged.
    Unreadable(String),
    /// The store failed.
    Store(String),
    /// This server cannot run flows.
    NoRunner,
}

impl AnswerRefused {
    pub(crate) fn into_problem(self) -> HttpProblem {
        let (status, code, detail) = match self {
            AnswerRefused::NotWaiting(why) => (StatusCode::CONFLICT, "not_waiting", why),
            AnswerRefused::DoesNotFit(why) => (StatusCode::UNPROCESSABLE_ENTITY, "answer_does_not_fit", why),
            AnswerRefused::Busy(why) => (StatusCode::CONFLICT, "busy", why),
            AnswerRefused::Unreadable(why) => (StatusCode::CONFLICT, "flow_unreadable", why),
            AnswerRefused::Store(why) => (StatusCode::SERVICE_UNAVAILABLE, "store_error", why),
            AnswerRefused::NoRunner => (
                StatusCode::NOT_IMPLEMENTED,
                "no_runner",
                "this server does not run flows; answer with `scrollback resume RUN --input TEXT`".into(),
            ),
        };
        HttpProblem::new(status, code, detail)
    }
}

/// Who continues paused runs.
pub trait Runs: Send + Sync {
    /// Takes an answer and lets the run go on. The answer is durable when this returns. The status is running while the
    /// run goes on, or says how it ended.
    fn answer(&self, answer: PersonAnswer) -> BoxFuture<'_, Result<RunStatus, AnswerRefused>>;
}

/// Hands an answer to the part that continues runs.
pub(crate) async fn answer(app: &App, answer: PersonAnswer) -> Result<RunStatus, AnswerRefused> {
    let tenant = answer.tenant.clone();
    let run = answer.run.clone();
    let Some(runs) = app.runs() else { return Err(AnswerRefused::NoRunner) };
    let status = runs.answer(answer).await?;
    app.events.tell(&tenant, About::Run, || RunChanged { run, status });
    Ok(status)
}
