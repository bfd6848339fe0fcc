//! Live changes, as server-sent events.
//!
//! What this server does itself is told at once. What other processes write to the same store is found by looking at the
//! newest conversations and runs once a second, so the lens follows an agent that runs elsewhere too. Events name
//! conversation and position, never the text.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use schemars::JsonSchema;
use scrollback_agent::Event;
use scrollback_agent::event::{EntryRecorded, RunChanged};
use scrollback_core::Slot;
use scrollback_store::{ConversationId, Listing, RunListing, RunStatus, Tenant};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};

use super::operation::{ApiRequest, Operation};
use crate::events::as_told;
use crate::{About, ApiCaller, App, HttpProblem, Live};

/// How often the store is looked at for what others wrote.
const LOOK: Duration = Duration::from_secs(1);
/// How long a look at the newest runs is good for all listeners of a tenant.
const SHARED: Duration = Duration::from_millis(750);
/// How often a quiet connection hears that it is still there.
const QUIET: Duration = Duration::from_secs(15);
/// Conversations looked at: those written last.
const NEWEST: usize = 50;
/// Runs looked at: those that began last, and those that were going on.
const NEWEST_RUNS: usize = 20;
/// Events that wait for a slow listener.
const WAITING: usize = 64;

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation::text(
        "text/event-stream",
        "/events",
        "listen",
        "What happens from now on, as server-sent events.",
        listen,
    )]
}

/// What to listen to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListenQuery {
    /// Only what happens in this conversation.
    conversation: Option<String>,
}

/// Tells that an entry is durable.
pub(crate) fn recorded(app: &App, tenant: &Tenant, id: &ConversationId, position: u64, role: &'static str) {
    let about = About::Entry { conversation: id.as_str(), at: app.now() };
    app.events.tell(tenant, about, || EntryRecorded { position, role, evaluation_id: None });
}

async fn listen(asking: ApiRequest, query: ListenQuery) -> Result<Response, HttpProblem> {
    let only = match query.conversation {
        None => None,
        Some(id) => {
            let id = ConversationId::parse(&id).ok_or_else(|| {
                HttpProblem::bad_request("bad_conversation", "`conversation` is not the id of a conversation")
            })?;
            Some(id)
        }
    };
    let (told, hear) = mpsc::channel::<Result<Bytes, Infallible>>(WAITING);
    let listener = Listener {
        bus: asking.app.events.listen(),
        tenant: asking.tenant().clone(),
        caller: asking.caller.clone(),
        app: asking.app.clone(),
        only,
        heads: HashMap::new(),
        runs: HashMap::new(),
        told,
    };
    tokio::spawn(listener.run());
    let mut response = Response::new(Body::new(EventBody(hear)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A channel as the body of a response.
struct EventBody(mpsc::Receiver<Result<Bytes, Infallible>>);

impl http_body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(http_body::Frame::data)))
    }
}

struct Listener {
    app: App,
    bus: broadcast::Receiver<Live>,
    tenant: Tenant,
    caller: ApiCaller,
    only: Option<ConversationId>,
    /// The next position of each conversation, as far as it was told.
    heads: HashMap<ConversationId, u64>,
    /// How each run stood when it was told.
    runs: HashMap<String, RunStatus>,
    told: mpsc::Sender<Result<Bytes, Infallible>>,
}

impl Listener {
    /// Sends events until the client stops listening.
    async fn run(mut self) {
        // A client that reads its state after this event misses nothing from then on.
        let began = event("Listening", &json!({ "event": "Listening" }));
        if self.look(Telling::Nothing).await.is_none() || self.say(began).await.is_none() {
            return;
        }
        let (mut look, mut quiet) = (tokio::time::interval(LOOK), tokio::time::interval(QUIET));
        quiet.reset();
        loop {
            let gone = self.told.clone();
            let on = tokio::select! {
                live = self.bus.recv() => match live {
                    Ok(live) => self.pass_on(live).await,
                    // Too slow: what was missed is found by looking.
                    Err(broadcast::error::RecvError::Lagged(_)) => Some(()),
                    Err(broadcast::error::RecvError::Closed) => None,
                },
                // A key that was revoked meanwhile hears no more.
                _ = look.tick() => if self.caller.is_still_known(&self.app).await {
                    self.look(Telling::News).await
                } else {
                    None
                },
                _ = quiet.tick() => self.say(": quiet\n\n".into()).await,
                () = gone.closed() => None,
            };
            if on.is_none() {
                return;
            }
        }
    }

    /// Passes on what this server told, if it is for this listener.
    async fn pass_on(&mut self, live: Live) -> Option<()> {
        let conversation =
            live.data.get("conversation").and_then(Value::as_str).and_then(ConversationId::parse);
        let position = live.data.get("position").and_then(Value::as_u64);
        let wanted = self.only.is_none() || self.only == conversation;
        if live.tenant != self.tenant || !wanted {
            return Some(());
        }
        if live.event == EntryRecorded::NAME
            && let (Some(id), Some(position)) = (conversation, position)
        {
            let head = self.heads.entry(id).or_insert(position);
            if position < *head {
                return Some(());
            }
            *head = position + 1;
        }
        let text = |key: &str| live.data.get(key).and_then(Value::as_str).map(String::from);
        if let (Some(run), Some(Ok(status))) = (text("run"), text("status").map(|word| word.parse())) {
            self.runs.insert(run, status);
        }
        self.say(event(live.event, &live.data)).await
    }

    /// Looks at the newest conversations, and tells what is new in them.
    async fn look(&mut self, telling: Telling) -> Option<()> {
        let found = if let Some(id) = &self.only {
            self.app.store.conversation(&self.tenant, id).await.map(|row| vec![row])
        } else {
            let listing = Listing { limit: NEWEST, ..Listing::default() };
            let page = self.app.store.list(Some(&self.tenant), listing).await;
            page.map(|page| page.conversations.into_iter().map(|(row, _)| row).collect())
        };
        // A store that does not answer now is asked again.
        for row in found.unwrap_or_default() {
            let before = self.heads.insert(row.id.clone(), row.head);
            // A conversation that was not there before is news from its first entry on.
            let from = before.unwrap_or(match telling {
                Telling::Nothing => row.head,
                Telling::News => row.fork_position.unwrap_or(0),
            });
            if row.head > from {
                // Of many at once the last is enough: clients read the rest from the record.
                let first = from.max(row.head.saturating_sub(WAITING as u64 / 2));
                let new = self.app.store.entries(&self.tenant, &row.id, first, row.head).await;
                for placed in new.unwrap_or_default() {
                    let at = placed.slot.created_at();
                    let about = About::Entry { conversation: row.id.as_str(), at };
                    let (position, role) = (placed.position, spoke(&placed.slot));
                    self.tell(about, &EntryRecorded { position, role, evaluation_id: None }).await?;
                }
            }
        }
        match self.only {
            None => self.look_at_runs(telling).await,
            Some(_) => Some(()),
        }
    }

    /// Looks at the newest runs and those that were going on, and tells which of them stand otherwise now.
    async fn look_at_runs(&mut self, telling: Telling) -> Option<()> {
        let (store, tenant) = (&self.app.store, &self.tenant);
        let now = self.app.now();
        let newest = async {
            let listing = RunListing { limit: NEWEST_RUNS, ..RunListing::default() };
            let page = scrollback_flow::lens::run_page(&**store, tenant, listing, now).await;
            let runs = page.map(|page| page.runs).unwrap_or_default();
            runs.into_iter().map(|run| (run.id, run.status)).collect()
        };
        let mut found = self.app.events.runs.shared(tenant, SHARED, newest).await;
        for (id, _) in self.runs.iter().filter(|(_, status)| **status == RunStatus::Running) {
            if !found.iter().any(|(known, _)| known == id) {
                let named = scrollback_flow::lens::run_named(&**store, tenant, id, now).await;
                found.extend(named.ok().flatten().map(|run| (run.id, run.status)));
            }
        }
        for (run, status) in found {
            let before = self.runs.insert(run.clone(), status);
            if matches!(telling, Telling::News) && before != Some(status) {
                self.tell(About::Run, &RunChanged { run, status }).await?;
            }
        }
        Some(())
    }

    async fn tell<E: Event>(&self, about: About<'_>, told: &E) -> Option<()> {
        self.say(event(E::NAME, &as_told(about, told))).await
    }

    async fn say(&self, text: String) -> Option<()> {
        self.told.send(Ok(text.into())).await.ok()
    }
}

/// The role; none for a decision.
fn spoke(slot: &Slot) -> &'static str {
    match slot {
        Slot::Message(entry) => entry.role.as_str(),
        Slot::Erased(tombstone) => tombstone.role.as_str(),
        Slot::Decision(..) => "decision",
    }
}

/// Whether what is found is told.
#[derive(Clone, Copy)]
enum Telling {
    /// It is where listening begins.
    Nothing,
    /// It is new.
    News,
}

/// One event in the form of the protocol. JSON has no raw line ends, so one `data` line holds it.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
