//! Telling whoever listens what happens.

use scrollback_store::Tenant;
use serde_json::Value;
use tokio::sync::broadcast;

/// Events a listener may be behind before it misses some: a listener that slow reads the record instead.
const WAITING: usize = 1024;

/// Something that happened. It names conversation and position, never the text.
#[derive(Clone, Debug)]
pub struct Live {
    /// Whose it is; others are not told.
    pub tenant: Tenant,
    /// The event's name, as in `ConversationRecorded`.
    pub event: &'static str,
    /// What is known about it.
    pub data: Value,
}

/// Who listens to what happens.
#[derive(Debug)]
pub struct Events(broadcast::Sender<Live>);

impl Default for Events {
    fn default() -> Self {
        Events(broadcast::Sender::new(WAITING))
    }
}

impl Events {
    /// Whether anybody listens.
    pub fn are_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Tells everybody who listens.
    pub fn tell(&self, tenant: &Tenant, event: &'static str, data: impl FnOnce() -> Value) {
        if self.are_heard() {
            // Nobody listening any more is no failure.
            let _ = self.0.send(Live { tenant: tenant.clone(), event, data: data() });
        }
    }

    /// Listens from now on, to all tenants; whoever listens passes on what is its caller's.
    pub fn listen(&self) -> broadcast::Receiver<Live> {
        self.0.subscribe()
    }
}
