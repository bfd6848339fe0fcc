//! Live events for listening clients.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use scrollback_agent::Event;
use scrollback_agent::event::RunChanged;
use scrollback_core::Time;
use scrollback_store::{RunStatus, Tenant};
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
pub struct Events {
    live: broadcast::Sender<Live>,
    pub(crate) runs: RunLooks,
}

impl Default for Events {
    fn default() -> Self {
        Events { live: broadcast::Sender::new(WAITING), runs: RunLooks::default() }
    }
}

/// The status of the newest runs of each tenant. Nothing tells a server that another process changed a run, so listeners look into
/// the store; those of one tenant share a look.
#[derive(Debug, Default)]
pub(crate) struct RunLooks(Mutex<Looks>);

#[derive(Debug, Default)]
struct Looks {
    /// How often this server told that a run changed: what was looked up before that is not kept.
    changes: u64,
    found: HashMap<Tenant, (Instant, Vec<(String, RunStatus)>)>,
}

impl RunLooks {
    /// What the last look found if it is not older than `age`, else what `look` finds.
    pub(crate) async fn shared(
        &self,
        tenant: &Tenant,
        age: Duration,
        look: impl Future<Output = Vec<(String, RunStatus)>>,
    ) -> Vec<(String, RunStatus)> {
        let before = {
            let mut looks = self.looks();
            looks.found.retain(|_, (at, _)| at.elapsed() < age);
            if let Some((_, runs)) = looks.found.get(tenant) {
                return runs.clone();
            }
            looks.changes
        };
        let runs = look.await;
        let mut looks = self.looks();
        if looks.changes == before {
            looks.found.insert(tenant.clone(), (Instant::now(), runs.clone()));
        }
        runs
    }

    fn forget(&self) {
        let mut looks = self.looks();
        looks.changes += 1;
        looks.found.clear();
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events {
    /// Whether there is a listener.
    pub fn are_heard(&self) -> bool {
        self.live.receiver_count() > 0
    }

    /// Tells those who listen of an event: one of those that agents tell on their bus, under the same name.
    pub fn tell<E: Event>(&self, tenant: &Tenant, about: About<'_>, event: impl FnOnce() -> E) {
        if E::NAME == RunChanged::NAME {
            self.runs.forget();
        }
        if self.are_heard() {
            let data = as_told(about, &event());
            // That no one listens any more is not a failure.
            let _ = self.live.send(Live { tenant: tenant.clone(), event: E::NAME, data });
        }
    }

    /// Listens from now on, to all tenants; the listener passes on only what belongs to its caller.
    pub fn listen(&self) -> broadcast::Receiver<Live> {
        self.live.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listeners_share_a_look_until_a_run_changes() {
        let events = Events::default();
        let tenant = Tenant::default();
        let look = async |status| {
            let found = async { vec![("r".to_string(), status)] };
            events.runs.shared(&tenant, Duration::from_secs(600), found).await
        };
        assert_eq!(look(RunStatus::Running).await, look(RunStatus::Done).await, "the second did not look");
        events.tell(&tenant, About::Run, || RunChanged { run: "r".into(), status: RunStatus::Done });
        assert_eq!(look(RunStatus::Done).await, [("r".to_string(), RunStatus::Done)]);
    }
}
