//! Runs of flows: how they stand, and how a paused one goes on with the answer a person gives over HTTP or in the lens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use scrollback_agent::StopSignal;
use scrollback_agent::event::RunChanged;
use scrollback_agent::provider::Catalog;
use scrollback_agent::telemetry::Telemetry;
use scrollback_core::redact::Redactor;
use scrollback_flow::QuotaLimits;
use scrollback_flow::driver::{Engine, RefusedKind, Resume, RunRefused, StatusWatcher, StepAnswer};
use scrollback_flow::lens;
use scrollback_store::{BoxFuture, Run, RunListing, RunPage, RunStatus, Store, Tenant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

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
}

impl AnswerRefused {
    fn into_problem(self) -> HttpProblem {
        let (status, code, detail) = match self {
            AnswerRefused::NotWaiting(why) => (StatusCode::CONFLICT, "not_waiting", why),
            AnswerRefused::DoesNotFit(why) => (StatusCode::UNPROCESSABLE_ENTITY, "answer_does_not_fit", why),
            AnswerRefused::Busy(why) => (StatusCode::CONFLICT, "busy", why),
            AnswerRefused::Unreadable(why) => (StatusCode::CONFLICT, "flow_unreadable", why),
            AnswerRefused::Store(why) => (StatusCode::SERVICE_UNAVAILABLE, "store_error", why),
        };
        HttpProblem::new(status, code, detail)
    }
}

impl From<RunRefused> for AnswerRefused {
    fn from(refused: RunRefused) -> Self {
        let message = refused.to_string();
        match refused.kind() {
            RefusedKind::InvalidAnswer => AnswerRefused::DoesNotFit(message),
            RefusedKind::Busy => AnswerRefused::Busy(message),
            RefusedKind::Store => AnswerRefused::Store(message),
            RefusedKind::InvalidFlow => AnswerRefused::Unreadable(message),
            _ => AnswerRefused::NotWaiting(message),
        }
    }
}

/// Continues paused runs: [`FlowRuns`], or a script in tests.
pub trait Runs: Send + Sync {
    /// Takes an answer and lets the run go on. The answer is durable when this returns; the status is `running` while the
    /// run goes on, or how it ended. `watcher` is told every status from then on.
    fn answer(
        &self,
        answer: PersonAnswer,
        watcher: StatusWatcher,
    ) -> BoxFuture<'_, Result<RunStatus, AnswerRefused>>;
}

/// Continues paused flows, each in a task of its own.
pub struct FlowRuns {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    redactor: Arc<Redactor>,
    stop: StopSignal,
    telemetry: Telemetry,
    under_way: Mutex<Vec<JoinHandle<()>>>,
    /// Where they run: not on the threads that serve connections, which a flow would keep from doing so.
    runtime: Handle,
}

impl FlowRuns {
    /// Made on the runtime that is to run them. They end at the next safe point once `stop` is asked for.
    pub fn new(
        store: Arc<dyn Store>,
        catalog: Catalog,
        redactor: Redactor,
        telemetry: Telemetry,
        stop: StopSignal,
    ) -> Self {
        let (catalog, redactor) = (Arc::new(catalog), Arc::new(redactor));
        let (under_way, runtime) = (Mutex::default(), Handle::current());
        FlowRuns { store, catalog, redactor, stop, telemetry, under_way, runtime }
    }

    /// Waits for the runs that were going on when they were asked to stop.
    pub async fn end(&self) {
        let under_way = std::mem::take(&mut *self.lock());
        for run in under_way {
            let _ = run.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine(&self, tenant: &Tenant) -> Engine {
        let store = Arc::clone(&self.store);
        let (catalog, redactor) = (Arc::clone(&self.catalog), Arc::clone(&self.redactor));
        let mut engine = Engine::new(store, tenant.clone(), catalog, redactor);
        engine.stop = self.stop.clone();
        engine.telemetry = self.telemetry.clone();
        engine
    }

    async fn take(&self, answer: PersonAnswer, watcher: StatusWatcher) -> Result<RunStatus, AnswerRefused> {
        let (first, mut status) = mpsc::channel(2);
        let mut engine = self.engine(&answer.tenant);
        engine.status_watcher = Some({
            let (first, is_told) = (first.clone(), AtomicBool::new(false));
            Arc::new(move |run: &str, status: RunStatus| {
                watcher(run, status);
                // The first commit holds the answer. The request may have been given up meanwhile.
                if !is_told.swap(true, Ordering::Relaxed) {
                    let _ = first.try_send(Ok(status));
                }
            })
        });
        let answered = StepAnswer { step: answer.step, text: answer.text };
        let resume = Resume { run: answer.run, answer: Some(answered), limits: QuotaLimits::default() };
        let task = self.runtime.spawn(async move {
            let ended = engine.resume(resume).await;
            // Read only if nothing was committed before: the answer was refused, or had been given already.
            let _ = first.send(ended.map(|report| report.status)).await;
        });
        {
            let mut under_way = self.lock();
            under_way.retain(|task| !task.is_finished());
            under_way.push(task);
        }
        match status.recv().await {
            Some(outcome) => outcome.map_err(AnswerRefused::from),
            // The task panicked before its first commit.
            None => Err(AnswerRefused::Store("the run could not be continued; nothing was changed".into())),
        }
    }
}

impl Runs for FlowRuns {
    fn answer(
        &self,
        answer: PersonAnswer,
        watcher: StatusWatcher,
    ) -> BoxFuture<'_, Result<RunStatus, AnswerRefused>> {
        Box::pin(self.take(answer, watcher))
    }
}

/// Hands an answer to what continues runs; a problem if this server was given nothing that does.
pub(crate) async fn answer(app: &App, answer: PersonAnswer) -> Result<RunStatus, HttpProblem> {
    let Some(runs) = app.runs() else {
        return Err(HttpProblem::new(
            StatusCode::NOT_IMPLEMENTED,
            "no_runner",
            "this server does not run flows; answer with `scrollback resume RUN --input TEXT`",
        ));
    };
    let (told, tenant) = (app.clone(), answer.tenant.clone());
    let watcher: StatusWatcher = Arc::new(move |run: &str, status: RunStatus| {
        told.events.tell(&tenant, About::Run, || RunChanged { run: run.into(), status });
    });
    runs.answer(answer, watcher).await.map_err(AnswerRefused::into_problem)
}

/// A page of runs as they stand now.
pub(crate) async fn page(app: &App, tenant: &Tenant, listing: RunListing) -> Result<RunPage, HttpProblem> {
    Ok(lens::run_page(&*app.store, tenant, listing, app.now()).await?)
}

/// The run of exactly that id, as it stands now.
pub(crate) async fn find(app: &App, tenant: &Tenant, id: &str) -> Result<Run, HttpProblem> {
    let found = lens::run_named(&*app.store, tenant, id, app.now()).await?;
    found.ok_or_else(|| HttpProblem::not_found("run"))
}
