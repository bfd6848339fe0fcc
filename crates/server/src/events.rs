//! Live events for listening clients.

use scrollback_agent::Event;
use scrollback_core::Time;
use scrollback_store::Tenant;
use serde_json::{Value, json};
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

/// What an event is about.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// An entry of a conversation.
    Entry {
        /// The conversation.
        conversation: &'a str,
        /// When it was recorded.
        at: Time,
    },
    /// A call of a model.
    Call {
        /// The conversation; none where nothing is recorded.
        conversation: Option<&'a str>,
        /// What it is found by.
        call: &'a str,
        /// When it happened.
        at: Time,
    },
    /// A run, which the event itself names.
    Run,
}

/// An event as listeners read it: its name, what it is about, and its own members.
pub(crate) fn as_told<E: Event>(about: About<'_>, event: &E) -> Value {
    let mut told = match about {
        About::Entry { conversation, at } => {
            json!({ "event": E::NAME, "conversation": conversation, "created_at": at.to_string() })
        }
        About::Call { conversation, call, at } => json!({
            "event": E::NAME, "conversation": conversation, "call": call, "created_at": at.to_string(),
        }),
        About::Run => json!({ "event": E::NAME }),
    };
    if let (Some(members), Value::Object(own)) = (told.as_object_mut(), json!(event)) {
        members.extend(own);
    }
    told
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

    /// Tells those who listen of an event: one of those that agents tell on their bus, under the same name.
    pub fn tell<E: Event>(&self, tenant: &Tenant, about: About<'_>, event: impl FnOnce() -> E) {
        if self.are_heard() {
            let data = as_told(about, &event());
            // That no one listens any more is not a failure.
            let _ = self.0.send(Live { tenant: tenant.clone(), event: E::NAME, data });
        }
    }

    /// Listens from now on, to all tenants; the listener passes on only what belongs to its caller.
    pub fn listen(&self) -> broadcast::Receiver<Live> {
        self.0.subscribe()
    }
}
