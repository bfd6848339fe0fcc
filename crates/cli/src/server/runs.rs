//! Paused flows that are answered from the lens or over HTTP: the server takes the answer, the engine of flows goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scrollback_agent::StopSignal;
use scrollback_agent::config::Config;
use scrollback_agent::provider::Catalog;
use scrollback_agent::telemetry::Telemetry;
use scrollback_core::redact::Redactor;
use scrollback_flow::QuotaLimits;
use scrollback_flow::driver::{self, Engine, RefusedKind, Resume, RunReport};
use scrollback_server::runs::{AnswerRefused, PersonAnswer, Runs};
use scrollback_store::{RunStatus, Store, Tenant};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// How often the store is asked whether an answer is written.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Continues paused flows, each in a task of its own.
pub(super) struct Flows {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    redactor: Arc<Redactor>,
    stop: StopSignal,
    /// Who is sent spans of what they do.
    pub(super) telemetry: Telemetry,
    under_way: Mutex<Vec<JoinHandle<()>>>,
    /// Where they run: not on the threads that serve connections, which a flow would keep from doing so.
    runtime: Handle,
}

impl Flows {
    /// Made on the runtime that is to run them.
    pub(super) fn new(store: Arc<dyn Store>, config: &Config, redactor: Redactor, stop: &StopSignal) -> Self {
        let (catalog, redactor) = (Arc::new(config.catalog()), Arc::new(redactor));
        Flows {
            store,
            catalog,
            redactor,
            stop: stop.clone(),
            telemetry: Telemetry::default(),
            under_way: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    /// Waits for the runs that were going on when the server was asked to stop; they end at the next safe point.
    pub(super) async fn end(&self) {
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

    async fn take(&self, answer: PersonAnswer) -> Result<RunStatus, AnswerRefused> {
        let engine = self.engine(&answer.tenant);
        let (tenant, run) = (answer.tenant, answer.run.clone());
        let answered = driver::StepAnswer { step: answer.step, text: answer.text };
        let resume = Resume { run: answer.run, answer: Some(answered), limits: QuotaLimits::default() };
        let (told, mut ended) = tokio::sync::oneshot::channel();
        let task = self.runtime.spawn(async move {
            // The listener may be gone; how it ended is in the store.
            let _ = told.send(engine.resume(resume).await);
        });
        {
            let mut under_way = self.lock();
            under_way.retain(|task| !task.is_finished());
            under_way.push(task);
        }
        // The row says `running` from the commit on that holds the answer.
        loop {
            match tokio::time::timeout(LOOK_AGAIN, &mut ended).await {
                Ok(Ok(outcome)) => {
                    return outcome.map(|report: RunReport| report.status).map_err(|why| refused(&why));
                }
                Ok(Err(_)) => {
                    return Err(AnswerRefused::NotWaiting("the run ended without an output".into()));
                }
                Err(_) => {}
            }
            let rows = self.store.runs(&tenant, &run, 1).await.unwrap_or_default();
            if rows.iter().any(|row| row.id == run && row.status == RunStatus::Running) {
                return Ok(RunStatus::Running);
            }
        }
    }
}

impl Runs for Flows {
    fn answer(
        &self,
        answer: PersonAnswer,
    ) -> scrollback_store::BoxFuture<'_, Result<scrollback_store::RunStatus, AnswerRefused>> {
        Box::pin(self.take(answer))
    }
}

fn refused(why: &driver::RunRefused) -> AnswerRefused {
    let message = why.to_string();
    match why.kind() {
        RefusedKind::InvalidAnswer => AnswerRefused::DoesNotFit(message),
        RefusedKind::Busy => AnswerRefused::Busy(message),
        RefusedKind::Store => AnswerRefused::Store(message),
        RefusedKind::InvalidFlow => AnswerRefused::Unreadable(message),
        RefusedKind::UnknownRun
        | RefusedKind::AmbiguousRun
        | RefusedKind::AnswerMissing
        | RefusedKind::StepMissing
        | RefusedKind::UnknownStep
        | RefusedKind::NotWaiting
        | RefusedKind::NothingToResume
        | RefusedKind::IdInUse
        | RefusedKind::BadId => AnswerRefused::NotWaiting(message),
    }
}
