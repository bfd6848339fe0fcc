//! What all requests share.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use scrollback_agent::config::ServerSettings;
use scrollback_agent::exchange::Calibrations;
use scrollback_agent::provider::Catalog;
use scrollback_agent::telemetry::Telemetry;
use scrollback_agent::{Clock, StopSignal, SystemClock};
use scrollback_core::Time;
use scrollback_core::model::Provider;
use scrollback_core::redact::Redactor;
use scrollback_store::Store;

use crate::auth::{Keyring, Walls};
use crate::background_tasks::Tasks;
use crate::events::Events;
use crate::fair::Turns;
use crate::known_calls::ReportedCalls;
use crate::memory::MemoryBudget;
use crate::metrics::Metrics;
use crate::proxy::{self, CallsUnderWay, KnownObjects, RecentRecords, TenantSlots, ThreadMemory, Upstreams};
use crate::quota::QuotaClock;
use crate::ready::LastHeartbeat;
use crate::runs::Runs;
use crate::write_queue::WriteQueue;

/// Commits that wait for the store at once: as many as it syncs together under load. Beyond that, tenants take turns.
const STORE_TURNS: usize = 64;

/// What all requests share. Cheap to clone; clones are the same server.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// The parts of an [`App`].
pub struct Shared {
    /// Where records are kept.
    pub store: Arc<dyn Store>,
    /// How it behaves.
    pub settings: ServerSettings,
    /// The models, and how to reach them.
    pub catalog: Catalog,
    /// What takes secrets out of what people are shown.
    pub redactor: Arc<Redactor>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What is counted.
    pub metrics: Metrics,
    /// Who listens to what happens.
    pub events: Events,
    /// The API keys.
    pub(crate) keyring: Keyring,
    /// What continues paused runs, if anything does.
    runs: OnceLock<Arc<dyn Runs>>,
    /// Who is sent spans of calls.
    telemetry: OnceLock<Telemetry>,
    /// What was learnt about models from what their providers reported.
    pub calibrations: Arc<Calibrations>,
    /// Records used recently.
    pub(crate) lately: RecentRecords,
    /// When the store was verified last from the lens, and what was found.
    pub(crate) last_verified: crate::lens::LastVerified,
    /// Calls that imported transcripts report.
    pub(crate) reported_calls: ReportedCalls,
    /// What is known about message threads.
    pub(crate) threads: ThreadMemory,
    /// Objects at providers that were found to be their tenant's.
    pub(crate) known_objects: KnownObjects,
    /// Calls that wait for their reply.
    pub(crate) under_way: CallsUnderWay,
    /// Requests of each tenant.
    pub(crate) room: TenantSlots,
    /// Entries that wait for the store.
    pub(crate) waiting: WriteQueue,
    /// The memory of bodies and replies under way.
    pub(crate) memory: MemoryBudget,
    /// Turns at the store.
    pub(crate) store_turns: Turns,
    /// Turns at providers.
    pub(crate) upstream_turns: Turns,
    /// Turns at the machine's cores, for work on large texts.
    pub(crate) heavy_turns: Turns,
    /// Requests of each tenant to the REST API.
    pub(crate) api_room: TenantSlots,
    /// The last heartbeat of the store.
    pub(crate) last_heartbeat: LastHeartbeat,
    /// The secret of the store, once it was asked for.
    pub(crate) secret: tokio::sync::OnceCell<String>,
    /// Whether the database holds the server to one tenant's rows.
    pub(crate) walls: Walls,
    /// The time by which the use of keys is counted.
    pub(crate) quota_clock: QuotaClock,
    /// Asked for when the time to finish requests is up.
    pub(crate) time_is_up: StopSignal,
    /// Providers that requests are passed on to.
    pub(crate) upstreams: Upstreams,
    /// Work that goes on after its request.
    pub(crate) tasks: Tasks,
    /// Where it listens.
    pub address: SocketAddr,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    /// A server on a store, listening at an address, on the machine's clock.
    pub fn new(
        store: Arc<dyn Store>,
        settings: ServerSettings,
        catalog: Catalog,
        redactor: Redactor,
        address: SocketAddr,
    ) -> Self {
        App(Arc::new(Shared {
            store,
            catalog,
            redactor: Arc::new(redactor),
            clock: Arc::new(SystemClock),
            metrics: Metrics::default(),
            events: Events::default(),
            keyring: Keyring::default(),
            runs: OnceLock::new(),
            telemetry: OnceLock::new(),
            calibrations: Arc::default(),
            lately: RecentRecords::default(),
            last_verified: crate::lens::LastVerified::default(),
            reported_calls: ReportedCalls::default(),
            threads: ThreadMemory::default(),
            known_objects: KnownObjects::default(),
            under_way: CallsUnderWay::default(),
            room: TenantSlots::default(),
            waiting: WriteQueue::default(),
            memory: MemoryBudget::new(settings.limits.memory_bytes),
            store_turns: Turns::new(STORE_TURNS),
            upstream_turns: Turns::new(settings.limits.upstream_requests),
            // One core is left to those who serve connections.
            heavy_turns: Turns::new(std::thread::available_parallelism().map_or(1, usize::from) - 1),
            api_room: TenantSlots::default(),
            last_heartbeat: LastHeartbeat::default(),
            secret: tokio::sync::OnceCell::new(),
            walls: Walls::default(),
            quota_clock: QuotaClock::default(),
            time_is_up: StopSignal::default(),
            upstreams: Upstreams::new(settings.limits.connect),
            tasks: Tasks::default(),
            settings,
            address,
        }))
    }

    /// Says who continues paused runs. Only the first one said counts.
    pub fn continue_runs_with(&self, runs: Arc<dyn Runs>) {
        let _ = self.runs.set(runs);
    }

    /// Serves callers with keys although the database does not hold the server to one tenant's rows.
    pub fn serve_without_walls(&self) {
        self.walls.do_without();
    }

    /// Who continues paused runs.
    pub(crate) fn runs(&self) -> Option<&Arc<dyn Runs>> {
        self.runs.get()
    }

    /// Says who is sent spans of calls. Only the first one said counts.
    pub fn send_spans_to(&self, telemetry: Telemetry) {
        let _ = self.telemetry.set(telemetry);
    }

    /// Where spans of calls are sent; nowhere by default.
    pub(crate) fn telemetry(&self) -> &Telemetry {
        self.telemetry.get_or_init(Telemetry::default)
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.clock.now()
    }
}

/// The default provider of requests that name none, shown when the server starts.
#[derive(Clone, Debug)]
pub struct Answerers {
    /// Requests of `OpenAI`'s clients.
    pub openai: String,
    /// Requests of Anthropic's clients.
    pub anthropic: String,
    /// Requests of Gemini's clients.
    pub gemini: String,
}

impl App {
    /// Who answers requests that bring no key of their own.
    pub fn answerers(&self) -> Answerers {
        let who = |provider| proxy::who_answers(self, provider);
        Answerers {
            openai: who(Provider::OpenAi),
            anthropic: who(Provider::Anthropic),
            gemini: who(Provider::Gemini),
        }
    }
}
