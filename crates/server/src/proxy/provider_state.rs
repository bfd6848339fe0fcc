//! What providers hold between requests: message threads, responses, conversations.
//!
//! A request that goes on from such a thing carries only what is new. The record has the rest, so the whole list can be sent
//! wherever the view has to change, the provider has lost what it held, or it keeps no such things. What the record does not
//! have is how a thread was created: its instructions as they were spelled, and its tools. That is kept here for threads that
//! are in use, and read from the recorded calls otherwise.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use scrollback_core::json;
use scrollback_core::request::{Reference, Threads};
use scrollback_core::wire::{Body, Wire};
use scrollback_store::{CallListing, ConversationId, Tenant};
use serde_json::json;

use super::background::in_turn;
use super::call::ProxyCall;
use super::client_request::ClientRequest;
use super::identity::{BY_MESSAGE, Strangers};
use super::upstreams::Answerer;
use crate::App;
use crate::problem::HttpProblem;

/// Threads whose fields are kept: each is used for minutes.
const MAX_THREADS: usize = 1024;
/// Bytes of their fields; the tools of one client are about a hundred kilobytes.
const MAX_BYTES: usize = 32 << 20;
/// Providers that are remembered to keep no threads.
const MAX_PROVIDERS: usize = 256;
/// Calls of a conversation that are looked through for the one that created a thread: after a restart, and then once.
const MAX_CALLS: usize = 64;
/// Forks that are followed back to the conversation in which a thread was created.
const MAX_FORKS: usize = 8;

/// What a thread was created with, as JSON texts. A request that continues it leaves them out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadFields {
    system: Option<String>,
    tools: Option<String>,
}

impl ThreadFields {
    /// The fields of a request that does not continue a thread.
    fn of(body: &[u8]) -> Option<Self> {
        let raw = json::check_bytes(body).ok()?;
        if Reference::of(Wire::Anthropic, raw).is_some() {
            return None;
        }
        let text = |key: &str| raw.get(key).map(|value| value.text().to_string());
        Some(ThreadFields { system: text("system"), tools: text("tools") })
    }

    fn bytes(&self) -> usize {
        [&self.system, &self.tools].into_iter().flatten().map(String::len).sum()
    }

    /// What stands around the messages of a request that continues the thread, with what the thread was created with. Tools
    /// that the request names itself are the same, or its provider refuses them.
    pub(super) fn around(&self, body: &Body) -> Body {
        let names = |key: &str| match body {
            Body::Object { raw, .. } => json::check(raw).is_ok_and(|raw| raw.get(key).is_some()),
            Body::List => false,
        };
        let body = match &self.system {
            Some(system) => body.with("system", system),
            None => body.without(&["system"]),
        };
        match &self.tools {
            Some(tools) if !names("tools") => body.with("tools", tools),
            _ => body,
        }
    }
}

/// What is remembered about threads. Forgetting costs a look into the store.
#[derive(Debug, Default)]
pub(crate) struct ThreadMemory(Mutex<ReplyOwners>);

#[derive(Debug, Default)]
struct ReplyOwners {
    /// By the newest message of each thread.
    fields: HashMap<(Tenant, String), Arc<ThreadFields>>,
    /// The same, oldest first.
    order: VecDeque<(Tenant, String)>,
    bytes: usize,
    /// Providers that refused a request because of its thread.
    without_threads: HashSet<String>,
}

impl ReplyOwners {
    fn remove(&mut self, key: &(Tenant, String)) {
        if let Some(fields) = self.fields.remove(key) {
            self.bytes -= fields.bytes();
            self.order.retain(|kept| kept != key);
        }
    }
}

impl ThreadMemory {
    fn get(&self, tenant: &Tenant, message: &str) -> Option<Arc<ThreadFields>> {
        self.memory().fields.get(&(tenant.clone(), message.to_string())).cloned()
    }

    /// Notes what the thread was created with whose newest message is this one.
    fn keep(&self, tenant: &Tenant, message: &str, fields: Arc<ThreadFields>) {
        let mut memory = self.memory();
        let key = (tenant.clone(), message.to_string());
        memory.remove(&key);
        memory.bytes += fields.bytes();
        memory.order.push_back(key.clone());
        memory.fields.insert(key, fields);
        while memory.bytes > MAX_BYTES || memory.order.len() > MAX_THREADS {
            let Some(oldest) = memory.order.front().cloned() else { break };
            memory.remove(&oldest);
        }
    }

    fn forget(&self, tenant: &Tenant, message: &str) {
        self.memory().remove(&(tenant.clone(), message.to_string()));
    }

    /// Whether a provider is known to keep no threads.
    pub(super) fn are_refused_by(&self, provider: &str) -> bool {
        self.memory().without_threads.contains(provider)
    }

    /// Notes that a provider keeps no threads.
    pub(super) fn refused_by(&self, provider: &str) {
        let mut memory = self.memory();
        if memory.without_threads.len() < MAX_PROVIDERS {
            memory.without_threads.insert(provider.into());
        }
    }

    fn memory(&self) -> MutexGuard<'_, ReplyOwners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known about what a request goes on from.
#[derive(Debug, Default)]
pub(crate) struct ProviderState {
    /// What the thread was created with that it continues; none if it continues none, or if that is no longer known.
    pub(super) fields: Option<Arc<ThreadFields>>,
    /// Whether the provider that is asked keeps threads.
    pub(super) threads: Threads,
    /// What becomes of it if another caller was answered that.
    pub(super) strangers: Strangers,
}

impl ProviderState {
    pub(super) async fn of(call: &ProxyCall, asked: &ClientRequest) -> Result<Self, HttpProblem> {
        let fields = thread_fields(&call.app, &call.caller.tenant, asked).await?;
        let refused = match &call.answerer {
            Answerer::Echo => false,
            Answerer::Upstream(upstream, _) => call.app.threads.are_refused_by(upstream.place().0),
        };
        let threads = if asked.in_thread && refused { Threads::NotKept } else { Threads::Kept };
        Ok(ProviderState { fields, threads, strangers: call.strangers() })
    }
}

/// What the thread was created with that a request continues; none if it continues none, or if that is no longer known.
async fn thread_fields(
    app: &App,
    tenant: &Tenant,
    asked: &ClientRequest,
) -> Result<Option<Arc<ThreadFields>>, HttpProblem> {
    let Some(Reference::Message(message)) = &asked.refers else { return Ok(None) };
    if let Some(fields) = app.threads.get(tenant, message) {
        return Ok(Some(fields));
    }
    let Some(alias) = app.store.alias(tenant, BY_MESSAGE, message).await? else { return Ok(None) };
    let mut conversation = Some(alias.conversation);
    for _ in 0..MAX_FORKS {
        let Some(id) = conversation.take() else { break };
        if let Some(fields) = recorded_fields(app, tenant, &id).await? {
            let fields = Arc::new(fields);
            app.threads.keep(tenant, message, Arc::clone(&fields));
            return Ok(Some(fields));
        }
        conversation = app.store.conversation(tenant, &id).await?.parent;
    }
    Ok(None)
}

/// The fields of the newest recorded request of a conversation that has all of its own.
async fn recorded_fields(
    app: &App,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Option<ThreadFields>, HttpProblem> {
    let listing = CallListing { conversation: Some(id.clone()), limit: MAX_CALLS, after: None };
    for call in app.store.calls(tenant, listing).await?.calls {
        if call.wire != Wire::Anthropic.name() {
            continue;
        }
        let request = app.store.call(tenant, &call.id).await?.request;
        if let Some(fields) = request.as_deref().and_then(ThreadFields::of) {
            return Ok(Some(fields));
        }
    }
    Ok(None)
}

/// Notes that the next request of a thread will go on from this message.
pub(super) async fn remember_thread(
    call: &ProxyCall,
    asked: &ClientRequest,
    fields: Option<&Arc<ThreadFields>>,
    message: &str,
) -> Result<(), HttpProblem> {
    let (app, tenant) = (&call.app, &call.caller.tenant);
    let fields = if let Some(fields) = fields {
        Some(Arc::clone(fields))
    } else {
        let body = asked.body.clone();
        let read = move || ThreadFields::of(&body).map(Arc::new);
        in_turn(&app.heavy_turns, tenant, asked.body.len(), read).await?
    };
    if let Some(Reference::Message(previous)) = &asked.refers {
        app.threads.forget(tenant, previous);
    }
    if let Some(fields) = fields {
        app.threads.keep(tenant, message, fields);
    }
    Ok(())
}

/// What a client is told that goes on from something which is not here: the error its provider documents for that, on which
/// clients send the whole conversation.
pub(super) fn unresolved(reference: &Reference) -> HttpProblem {
    match reference {
        Reference::Message(_) => {
            let detail = "No thread state was found for the requested `previous_message_id`. Replay the full \
                          conversation with thread: {\"type\": \"create\"} to start a new thread.";
            HttpProblem::new(StatusCode::NOT_FOUND, "thread_not_found", detail)
                .with("details", json!({ "error_code": "thread_not_found" }))
        }
        Reference::Response(id) => {
            let detail = format!("Previous response with id '{id}' not found.");
            HttpProblem::bad_request("previous_response_not_found", detail)
                .with("path", "previous_response_id")
        }
        Reference::Conversation(id) => {
            let detail = format!("Conversation with id '{id}' not found.");
            HttpProblem::new(StatusCode::NOT_FOUND, "conversation_not_found", detail)
                .with("path", "conversation")
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_thread_keeps_what_it_was_created_with() {
        let create = br#"{"system":[{"type":"text","text":"Be brief."}],"tools":[{"name":"look"}],"messages":[],"thread":{"type":"create"}}"#;
        let fields = ThreadFields::of(create).unwrap();
        let raw = r#"{"model":"m","system":"header","messages":[],"thread":{"type":"continue","previous_message_id":"msg_1"}}"#;
        assert_eq!(ThreadFields::of(raw.as_bytes()), None);
        let Body::Object { raw, .. } = fields.around(&Body::Object { raw: raw.into(), key: "messages" })
        else {
            unreachable!("an object")
        };
        let whole: serde_json::Value = serde_json::from_str(&raw).unwrap();
        assert_eq!(whole["system"], json!([{ "type": "text", "text": "Be brief." }]));
        assert_eq!(whole["tools"], json!([{ "name": "look" }]));
    }

    #[test]
    fn only_so_many_threads_are_remembered() {
        let (memory, tenant) = (ThreadMemory::default(), Tenant::default());
        let fields = |size: usize| Arc::new(ThreadFields { system: Some("x".repeat(size)), tools: None });
        for number in 0..4 {
            memory.keep(&tenant, &number.to_string(), fields(MAX_BYTES / 3));
        }
        assert_eq!(memory.get(&tenant, "0"), None);
        assert!(memory.get(&tenant, "3").is_some());
        memory.forget(&tenant, "3");
        assert_eq!(memory.get(&tenant, "3"), None);
        assert!(memory.get(&Tenant::parse("other").unwrap(), "2").is_none(), "threads have owners");
        let kept = memory.memory();
        assert!(kept.bytes <= MAX_BYTES && kept.order.len() == kept.fields.len());
    }
}
