//! The event bus: delivers events, in order, to their subscribers.

use std::any::{Any, TypeId};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use scrollback_core::Time;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::effects::{Clock, SystemClock};
use crate::error::{AgentError, AgentErrorKind};

/// Something that happened. Immutable, and told as JSON under its name.
pub trait Event: Serialize + Send + Sync + 'static {
    /// Its name, under `event` in JSON.
    const NAME: &'static str;
}

/// An event with the session it happened in and the time.
#[derive(Debug)]
pub struct Published<'e, E> {
    /// The session.
    pub session_id: &'e str,
    /// When, by the clock of the bus.
    pub created_at: Time,
    /// What.
    pub event: &'e E,
}

/// Why a handler failed; any error will do.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// Names one subscription. Dropping it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subscription(u64);

/// Delivers events on the publisher's task, in order of subscription, to handlers of exactly their type.
///
/// ```
/// use scrollback_agent::{Event, EventBus};
/// #[derive(serde::Serialize)]
/// struct Arrived { guest: &'static str }
/// impl Event for Arrived { const NAME: &'static str = "Arrived"; }
///
/// let bus = EventBus::default();
/// bus.subscribe::<Arrived>(|told| {
///     assert_eq!((told.session_id, told.event.guest), ("s1", "Ada"));
///     Ok(())
/// });
/// let result = bus.publish("s1", &Arrived { guest: "Ada" });
/// assert_eq!((result.invoked, result.is_ok()), (1, true));
/// ```
pub struct EventBus {
    clock: Arc<dyn Clock>,
    handlers: RwLock<Handlers>,
}

/// Lists are shared, so that a delivery keeps the one it began with.
#[derive(Default)]
struct Handlers {
    next: u64,
    typed: HashMap<TypeId, Arc<Vec<Handler>>>,
    all: Arc<Vec<Handler>>,
}

#[derive(Clone)]
struct Handler {
    token: Subscription,
    name: &'static str,
    run: Arc<Subscriber>,
}

type Subscriber = dyn Fn(&PendingDelivery<'_>) -> Result<(), HandlerError> + Send + Sync;

struct PendingDelivery<'e> {
    session_id: &'e str,
    created_at: Time,
    event: &'e dyn Any,
    json: &'e dyn Fn() -> Value,
}

impl EventBus {
    /// A bus with a clock of its own.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        EventBus { clock, handlers: RwLock::default() }
    }

    /// Calls `handler` for every event of type `E` from the next one on.
    pub fn subscribe<E: Event>(
        &self,
        handler: impl Fn(Published<'_, E>) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> Subscription {
        let name = std::any::type_name_of_val(&handler);
        let run = move |delivery: &PendingDelivery<'_>| match delivery.event.downcast_ref::<E>() {
            Some(event) => {
                handler(Published { session_id: delivery.session_id, created_at: delivery.created_at, event })
            }
            None => Ok(()),
        };
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        let token = handlers.token();
        let list = handlers.typed.entry(TypeId::of::<E>()).or_default();
        Arc::make_mut(list).push(Handler { token, name, run: Arc::new(run) });
        token
    }

    /// Calls `handler` for every event there is, as JSON.
    pub fn subscribe_all(
        &self,
        handler: impl Fn(&Value) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> Subscription {
        let name = std::any::type_name_of_val(&handler);
        let run = move |delivery: &PendingDelivery<'_>| handler(&(delivery.json)());
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        let token = handlers.token();
        Arc::make_mut(&mut handlers.all).push(Handler { token, name, run: Arc::new(run) });
        token
    }

    /// Ends a subscription; false if there was none.
    pub fn unsubscribe(&self, token: Subscription) -> bool {
        let mut handlers = self.handlers.write().unwrap_or_else(PoisonError::into_inner);
        let Handlers { typed, all, .. } = &mut *handlers;
        typed.values_mut().chain([all]).any(|list| {
            let at = list.iter().position(|handler| handler.token == token);
            at.is_some_and(|at| {
                Arc::make_mut(list).remove(at);
                true
            })
        })
    }

    /// Delivers an event to all its subscribers. Handlers that fail are listed; publishing itself never fails.
    pub fn publish<E: Event>(&self, session_id: &str, event: &E) -> PublishResult {
        let (typed, all) = {
            let handlers = self.handlers.read().unwrap_or_else(PoisonError::into_inner);
            (handlers.typed.get(&TypeId::of::<E>()).cloned(), Arc::clone(&handlers.all))
        };
        let created_at = self.clock.now();
        let told = OnceCell::new();
        let json = || told.get_or_init(|| to_json(session_id, created_at, event)).clone();
        let delivery = PendingDelivery { session_id, created_at, event, json: &json };
        let mut result = PublishResult::default();
        for handler in in_order(typed.as_deref().map_or(&[], Vec::as_slice), &all) {
            result.invoked += 1;
            let outcome = catch_unwind(AssertUnwindSafe(|| (handler.run)(&delivery)));
            let error = match outcome {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(panic) => format!("panicked: {}", panic_message(&*panic)),
            };
            result.failures.push(HandlerFailure { handler: handler.name, error });
        }
        result
    }
}

impl Default for EventBus {
    fn default() -> Self {
        EventBus::new(Arc::new(SystemClock))
    }
}

impl fmt::Debug for EventBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBus").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Handlers {
    fn token(&mut self) -> Subscription {
        self.next += 1;
        Subscription(self.next)
    }
}

/// Two lists, each in order of subscription, as one.
fn in_order<'h>(typed: &'h [Handler], all: &'h [Handler]) -> impl Iterator<Item = &'h Handler> {
    let (mut typed, mut all) = (typed.iter().peekable(), all.iter().peekable());
    std::iter::from_fn(move || match (typed.peek(), all.peek()) {
        (Some(one), Some(other)) if other.token < one.token => all.next(),
        (Some(_), _) => typed.next(),
        (None, _) => all.next(),
    })
}

/// An event as JSON: its name, its session, its time, then its own fields.
fn to_json<E: Event>(session_id: &str, created_at: Time, event: &E) -> Value {
    let mut told = Map::new();
    told.insert("event".into(), E::NAME.into());
    told.insert("session_id".into(), session_id.into());
    told.insert("created_at".into(), created_at.to_string().into());
    if let Ok(Value::Object(fields)) = serde_json::to_value(event) {
        told.extend(
            fields
                .into_iter()
                .filter(|(key, _)| !matches!(key.as_str(), "event" | "session_id" | "created_at")),
        );
    }
    Value::Object(told)
}

/// The words of a panic, where it has any.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// The outcome of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishResult {
    /// How many handlers were called.
    pub invoked: usize,
    /// Those that failed, in order.
    pub failures: Vec<HandlerFailure>,
}

/// A handler that returned an error or panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerFailure {
    /// The handler, by the name of its type.
    pub handler: &'static str,
    /// What went wrong.
    pub error: String,
}

impl PublishResult {
    /// Whether no handler failed.
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }

    /// One error for all failures, for callers who care.
    pub fn raise(self) -> Result<(), AgentError> {
        if self.is_ok() {
            return Ok(());
        }
        let told: Vec<String> =
            self.failures.iter().map(|failure| format!("{}: {}", failure.handler, failure.error)).collect();
        let message = format!("{} of the handlers failed: {}", told.len(), told.join("; "));
        Err(AgentError::new(AgentErrorKind::Handlers, message))
    }
}
