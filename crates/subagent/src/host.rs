//! What sub-agents run in: clock, chance, models, where records are kept.

use std::sync::Arc;

use scrollback_agent::EventBus;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::{Catalog, Provider};
use scrollback_agent::runner::{Deadline, Runner, Throttle, Trace};
use scrollback_agent::telemetry::Telemetry;
use scrollback_agent::{Clock, Random, Seeded, StopSignal, SystemClock};
use scrollback_core::Record;
use scrollback_store::{Store, Tenant};

/// What sub-agents run in; an agent and all it calls share one.
#[derive(Clone)]
pub struct Host {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance, which spreads retries.
    pub random: Arc<dyn Random>,
    /// Who is told what happens.
    pub bus: Arc<EventBus>,
    /// What the configuration says about models.
    pub catalog: Arc<Catalog>,
    /// Asks everything to stop.
    pub stop: StopSignal,
    /// Who is told of every attempt at a request.
    pub trace: Option<Trace>,
    /// Where records are kept; in memory if nowhere.
    pub store: Option<(Arc<dyn Store>, Tenant)>,
    /// Who is sent spans of what is done.
    pub telemetry: Telemetry,
}

impl Default for Host {
    fn default() -> Self {
        Host {
            clock: Arc::new(SystemClock),
            random: Arc::new(Seeded::default()),
            bus: Arc::new(EventBus::default()),
            catalog: Arc::new(Catalog::default()),
            stop: StopSignal::default(),
            trace: None,
            store: None,
            telemetry: Telemetry::default(),
        }
    }
}

impl Host {
    /// A record of its own for one mission.
    pub fn journal(&self) -> Journal {
        match &self.store {
            Some((store, tenant)) => Journal::begin(Arc::clone(store), tenant.clone(), self.clock.now()),
            None => Journal::memory(Record::new()),
        }
    }

    /// The part that asks a model.
    pub(crate) fn runner(
        &self,
        provider: Arc<dyn Provider>,
        throttle: Throttle,
        deadline: Option<Deadline>,
    ) -> Runner {
        let mut runner = Runner::new(provider);
        runner.clock = Arc::clone(&self.clock);
        runner.random = Arc::clone(&self.random);
        runner.bus = Arc::clone(&self.bus);
        runner.catalog = Arc::clone(&self.catalog);
        runner.stop = self.stop.clone();
        runner.trace.clone_from(&self.trace);
        (runner.throttle, runner.deadline) = (throttle, deadline);
        runner
    }
}
