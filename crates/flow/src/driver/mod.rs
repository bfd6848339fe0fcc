//! The thin shell of a run: asks agents and people, writes what follows, and goes on.
//!
//! Everything that one event leads to is one commit of the store. So a run that was killed at any instant stands before an
//! event or after it, and [`Engine::resume`] goes on from there: what is finished is read, what was under way is done again.

mod agent_runner;
mod answer;
mod call;
mod ledger;
mod manager_summaries;
mod meter;
mod prepare;
mod recorder;
mod refusal;
mod replay;
mod report;
mod start;
pub(crate) mod trace;
mod turn_summaries;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use scrollback_agent::provider::{Catalog, Environment, NoProvider, Provider};
use scrollback_agent::telemetry::Telemetry;
use scrollback_agent::tool::{RecallNames, RecallPlace, Toolbox, recall_tools};
use scrollback_agent::{Clock, Random, Seeded, StopSignal, SystemClock};
use scrollback_core::Time;
use scrollback_core::redact::Redactor;
use scrollback_core::stream::Delta;
use scrollback_store::{ConversationId, Run, Store, StoreError, Tenant};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::advance::{Action, AgentCall, FlowEvent, RunEnd, advance};
use crate::error::{RunError, RunErrorKind};
use crate::state::RunState;
use crate::usage::RunUsage;
use crate::{Agent, Flow};
use call::Called;
pub(crate) use call::spoken;
pub(crate) use ledger::name_of;
use ledger::{Batch, Ledger};
pub use refusal::{RefusedKind, RunRefused};
pub(crate) use report::questions_of;
pub use report::{PauseReport, RunReport, current_status, pauses_of};
pub use scrollback_store::RunStatus;
pub(crate) use start::resumes;
pub use start::{Created, Resume, RunStart, StepAnswer};
use trace::Teller;
pub use trace::{Telling, Watcher};

/// Finds the provider of a model that a file in a folder names.
pub type Providers = Arc<dyn Fn(&str, &Path) -> Result<Arc<dyn Provider>, NoProvider> + Send + Sync>;
/// Who is shown the pieces of replies, with the key of the step.
pub type Preview = Arc<dyn Fn(&str, &Delta) + Send + Sync>;

/// Who is told the id and status of a run each time its row was written: what is told is durable.
pub type StatusWatcher = Arc<dyn Fn(&str, RunStatus) + Send + Sync>;

/// Whether histories reach agents. Off only where tests prove that they notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Injection {
    /// As flows say.
    On,
    /// No agent is sent any history.
    Off,
}

impl Default for Injection {
    fn default() -> Self {
        if cfg!(feature = "no-injection") { Injection::Off } else { Injection::On }
    }
}

/// What runs flows. Fields may be set before the first run.
#[derive(Clone)]
pub struct Engine {
    /// Where runs are kept.
    pub store: Arc<dyn Store>,
    /// Whose they are.
    pub tenant: Tenant,
    /// Who serves which model.
    pub providers: Providers,
    /// Prices and windows of models.
    pub catalog: Arc<Catalog>,
    /// Where tools find what headers name.
    pub environment: Environment,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance, which spreads retries.
    pub random: Arc<dyn Random>,
    /// What takes secrets out of everything that is shown.
    pub redactor: Arc<Redactor>,
    /// Asks runs to stop.
    pub stop: StopSignal,
    /// Called with everything that happens.
    pub watcher: Option<Watcher>,
    /// Called with each status of a run, once it is durable.
    pub status_watcher: Option<StatusWatcher>,
    /// Called with the same, and with the redacted messages of each prompt, to export them.
    pub exporter: Option<Watcher>,
    /// Called with replies as they come.
    pub preview: Option<Preview>,
    /// Where spans of the work are sent.
    pub telemetry: Telemetry,
    #[doc(hidden)]
    pub injection: Injection,
    /// Asked before every commit. Trials let the process die here.
    #[doc(hidden)]
    pub before_commit: Option<BeforeCommit>,
}

#[doc(hidden)]
pub type BeforeCommit = Arc<dyn Fn() -> Result<(), StoreError> + Send + Sync>;

impl Engine {
    /// An engine over a store, with the models of a catalog. What it shows goes through the redactor.
    pub fn new(
        store: Arc<dyn Store>,
        tenant: Tenant,
        catalog: Arc<Catalog>,
        redactor: Arc<Redactor>,
    ) -> Self {
        let known = Arc::clone(&catalog);
        Engine {
            store,
            tenant,
            providers: Arc::new(move |name, folder| known.provider_in(name, folder)),
            catalog,
            environment: Arc::new(|name| std::env::var(name).ok()),
            clock: Arc::new(SystemClock),
            random: Arc::new(Seeded::default()),
            redactor,
            stop: StopSignal::default(),
            watcher: None,
            status_watcher: None,
            exporter: None,
            preview: None,
            telemetry: Telemetry::default(),
            injection: Injection::default(),
            before_commit: None,
        }
    }
}

/// A run under way, as its steps share it.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) flow: Arc<Flow>,
    pub(crate) run: Arc<str>,
    pub(crate) conversation: ConversationId,
    pub(crate) teller: Teller,
    pub(crate) ledger: tokio::sync::Mutex<Ledger>,
    /// Held while a summary is written.
    pub(crate) condensing: tokio::sync::Mutex<()>,
    state: Mutex<Option<RunState>>,
    /// What happened since the last commit.
    noted: Mutex<Vec<Telling>>,
    providers: Mutex<BTreeMap<String, Arc<dyn Provider>>>,
    tools: tokio::sync::Mutex<BTreeMap<String, Toolbox>>,
}

impl Shared {
    fn new(engine: Engine, state: RunState, mut ledger: Ledger, next_event: u64) -> Self {
        ledger.before_commit.clone_from(&engine.before_commit);
        let teller = Teller::new(next_event, &engine);
        Shared {
            flow: Arc::clone(&state.flow),
            run: Arc::clone(&state.run),
            conversation: ledger.conversation.clone(),
            teller,
            ledger: tokio::sync::Mutex::new(ledger),
            condensing: tokio::sync::Mutex::new(()),
            state: Mutex::new(Some(state)),
            noted: Mutex::default(),
            providers: Mutex::default(),
            tools: tokio::sync::Mutex::default(),
            engine,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.engine.clock.now()
    }

    /// Looks at where the run stands, or changes what is not for the pure middle to change.
    pub(crate) fn with_state<T: Default>(&self, look: impl FnOnce(&mut RunState) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_mut().map(look).unwrap_or_default()
    }

    /// What follows from an event.
    fn advance(&self, event: FlowEvent) -> Vec<Action> {
        let mut held = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = held.take() else { return Vec::new() };
        let (state, actions) = advance(state, event);
        *held = Some(state);
        actions
    }

    pub(crate) fn tell(&self, key: Option<&str>, kind: &'static str, data: Value) -> Telling {
        self.teller.tell(self.now(), key.map(String::from), kind, data)
    }

    /// Tells something that is written with the next commit.
    pub(crate) fn note(&self, key: &str, kind: &'static str, data: Value) {
        let told = self.tell(Some(key), kind, data);
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }

    /// Writes a batch, with what was noted meanwhile.
    pub(crate) async fn commit(&self, mut batch: Batch) -> Result<(), StoreError> {
        batch.events.append(&mut self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        self.ledger.lock().await.commit(batch, self.now(), None).await
    }

    /// The provider of an agent's model, found once per run, so that a script continues where it stopped.
    pub(crate) fn provider(&self, agent: &Agent) -> Result<Arc<dyn Provider>, RunError> {
        let mut known = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("{}\n{}", agent.folder.display(), agent.model);
        if let Some(provider) = known.get(&name) {
            return Ok(Arc::clone(provider));
        }
        let found = (self.engine.providers)(&agent.model, &agent.folder).map_err(|error| {
            RunError::new(RunErrorKind::ProviderError, "", error.to_string())
                .with(json!({ "kind": error.code() }))
        })?;
        known.insert(name, Arc::clone(&found));
        Ok(found)
    }

    /// The tools of an agent; servers are started once per run.
    pub(crate) async fn tools(&self, agent: &Agent) -> Result<Toolbox, RunError> {
        let mut known = self.tools.lock().await;
        if let Some(tools) = known.get(&agent.name) {
            return Ok(tools.clone());
        }
        let tools = agent.tools.clone().connect().await.map_err(|error| {
            RunError::new(RunErrorKind::ToolErrors, "", error.to_string())
                .with(json!({ "kind": "mcp_server" }))
        })?;
        known.insert(agent.name.clone(), tools.clone());
        Ok(tools)
    }

    /// Adds the recall tools to a step's own, over the record of the run.
    pub(crate) fn add_recall(&self, tools: &mut Toolbox) -> Result<(), RunError> {
        let place = RecallPlace {
            store: Arc::clone(&self.engine.store),
            tenant: self.engine.tenant.clone(),
            conversation: self.conversation.clone(),
            clock: Arc::clone(&self.engine.clock),
        };
        for tool in recall_tools(&place, RecallNames::Prefixed) {
            tools
                .add(tool)
                .map_err(|error| RunError::new(RunErrorKind::ToolErrors, "", error.to_string()))?;
        }
        Ok(())
    }
}

/// Runs until no step is waiting for a model or a tool. `before` is what steps that are done again have used already.
async fn drive(
    shared: &Arc<Shared>,
    run: &mut Run,
    mut actions: Vec<Action>,
    mut batch: Batch,
    mut before: BTreeMap<String, RunUsage>,
) -> Result<RunEnd, StoreError> {
    let mut tasks: JoinSet<Called> = JoinSet::new();
    let mut ready: VecDeque<String> = VecDeque::new();
    let mut stopping = false;
    loop {
        let next = perform(shared, run, batch, actions).await?;
        if let Some(end) = next.end {
            return Ok(end);
        }
        for call in next.calls {
            let used = before.remove(&call.key).unwrap_or_default();
            // In a box: the future of a whole call is large, and would be copied each time it is moved.
            tasks.spawn(Box::pin(call::execute(Arc::clone(shared), call, used)));
        }
        ready.extend(next.ready);
        if !ready.is_empty() {
            // Nothing is waited for here, but a request to stop and replies that arrived meanwhile are still taken.
            tokio::task::yield_now().await;
        }
        let ended = tokio::select! {
            biased;
            ended = tasks.join_next(), if ready.is_empty() || !tasks.is_empty() => ended,
            () = shared.engine.stop.asked(), if !stopping => {
                stopping = true;
                ready.clear();
                batch = Batch::default();
                actions = shared.advance(FlowEvent::Stopping);
                continue;
            }
            () = std::future::ready(()), if !ready.is_empty() => {
                let next = ready.pop_front();
                batch = Batch::default();
                actions = next.map(|key| shared.advance(FlowEvent::Continued { key })).unwrap_or_default();
                continue;
            }
        };
        let Some(Ok(called)) = ended else {
            // A task that is gone without a word: nothing can be written about it.
            let error = RunError::new(RunErrorKind::StoreError, "", "a step ended without a result");
            return Ok(RunEnd::Failed(error));
        };
        if shared.engine.stop.is_asked() && !stopping {
            // The model or tool that was asked has reported it already.
            stopping = true;
            ready.clear();
            shared.advance(FlowEvent::Stopping);
        }
        batch = called.batch;
        actions = shared.advance(called.event);
    }
}

/// What is left to be done once everything is written down.
#[derive(Default)]
struct AfterCommit {
    /// Whom to ask.
    calls: Vec<AgentCall>,
    /// Steps that start as soon as the run goes on.
    ready: Vec<String>,
    /// How it ends, or waits.
    end: Option<RunEnd>,
}

/// Writes down what follows from an event, and says what is left to be done.
async fn perform(
    shared: &Arc<Shared>,
    run: &mut Run,
    mut batch: Batch,
    actions: Vec<Action>,
) -> Result<AfterCommit, StoreError> {
    let mut next = AfterCommit::default();
    let now = shared.now();
    // What was told while a step ran comes before what its end leads to.
    batch.events.append(&mut shared.noted.lock().unwrap_or_else(PoisonError::into_inner));
    for action in actions {
        match action {
            Action::Write(write) => {
                batch.add(write, now, |key, kind, data| shared.teller.tell(now, key, kind, data));
            }
            Action::Call(call) => next.calls.push(*call),
            Action::Continue(key) => next.ready.push(key),
            Action::End(how) => next.end = Some(how),
        }
    }
    if let Some(how) = &next.end {
        start::conclude(shared, run, how, &mut batch);
    }
    let status = batch.run.as_ref().map(|run| run.status);
    shared.commit(batch).await?;
    if let (Some(watcher), Some(status)) = (&shared.engine.status_watcher, status) {
        watcher(&shared.run, status);
    }
    Ok(next)
}
