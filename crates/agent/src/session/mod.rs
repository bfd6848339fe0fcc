//! The typed state of one agent: slices that events change through reducers.

mod reducer;
mod slice;
mod snapshot;

use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use scrollback_core::Time;
use uuid::Uuid;

use crate::bus::{Event, EventBus, HandlerError, Subscription};
use crate::error::{AgentError, AgentErrorKind};
use crate::event::{ConversationRecorded, RecordedEntry};
pub use reducer::{append, append_unique, replace_latest, replace_latest_by, upsert_by};
use slice::AnySlice;
pub use slice::{Slice, SliceChange, SliceItem, SliceKind};
pub use snapshot::{SliceSnapshot, Snapshot};

/// What a session begins with.
#[derive(Clone, Debug, Default)]
pub struct SessionStart {
    /// Its id.
    pub id: String,
    /// When it began.
    pub created_at: Time,
    /// Anything the application wants to know again.
    pub tags: BTreeMap<String, String>,
    /// The session it is part of.
    pub parent: Option<Arc<Session>>,
}

/// What a reducer knows beside the slice and the event.
#[derive(Debug)]
pub struct ReducerCx<'s> {
    /// The session.
    pub session_id: &'s str,
    /// When the event was published.
    pub created_at: Time,
}

/// The typed state of one agent.
///
/// Reading gives a whole slice and copies nothing. Reducers run one at a time, and only for events of this session.
///
/// ```
/// use std::sync::Arc;
/// use scrollback_agent::{Event, EventBus};
/// use scrollback_agent::session::{SliceItem, SliceKind, Session, SessionStart, append_unique};
///
/// #[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Fact(String);
/// impl SliceItem for Fact { const NAME: &'static str = "Fact"; const KIND: SliceKind = SliceKind::State; }
/// #[derive(serde::Serialize)]
/// struct Learned(String);
/// impl Event for Learned { const NAME: &'static str = "Learned"; }
///
/// let bus = Arc::new(EventBus::default());
/// let session = Session::new(&bus, SessionStart { id: "s1".into(), ..SessionStart::default() })?;
/// session.register::<Learned, Fact>(|facts, event, _| Ok(append_unique(facts, Fact(event.0.clone()))));
/// bus.publish("s1", &Learned("water is wet".into()));
/// bus.publish("s1", &Learned("water is wet".into()));
/// assert_eq!(session.select_all::<Fact>().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    id: String,
    created_at: Time,
    tags: BTreeMap<String, String>,
    parent: Option<Arc<Session>>,
    bus: Arc<EventBus>,
    children: RwLock<Vec<Arc<Session>>>,
    slices: RwLock<HashMap<TypeId, Box<dyn AnySlice>>>,
    /// Held by the reducer that runs.
    reducing: Mutex<()>,
}

/// The state of a session at one moment, shared with it.
pub struct Checkpoint {
    slices: HashMap<TypeId, Box<dyn AnySlice>>,
}

impl Session {
    /// A session on a bus, with the slice of what is recorded.
    pub fn new(bus: &Arc<EventBus>, start: SessionStart) -> Result<Arc<Self>, AgentError> {
        let SessionStart { id, created_at, mut tags, parent } = start;
        if parent.as_ref().is_some_and(|parent| parent.id == id) {
            let message = format!("session {id:?} cannot be its own parent");
            return Err(AgentError::new(AgentErrorKind::OwnParent, message));
        }
        tags.insert("session_id".into(), id.clone());
        if let Some(parent) = &parent {
            tags.insert("parent_session_id".into(), parent.id.clone());
        }
        let session = Arc::new(Session {
            id,
            created_at,
            tags,
            parent,
            bus: Arc::clone(bus),
            children: RwLock::default(),
            slices: RwLock::default(),
            reducing: Mutex::default(),
        });
        if let Some(parent) = &session.parent {
            let mut children = parent.children.write().unwrap_or_else(PoisonError::into_inner);
            children.push(Arc::clone(&session));
        }
        session.register::<ConversationRecorded, RecordedEntry>(|slice, event, _| {
            Ok(append(slice, event.recorded.clone()))
        });
        Ok(session)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its tags, its own id and its parent's among them.
    pub fn tags(&self) -> &BTreeMap<String, String> {
        &self.tags
    }

    /// Its parts and theirs, leaves first.
    pub fn descendants(&self) -> Vec<Arc<Session>> {
        let children = self.children.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut found = Vec::new();
        for child in children {
            found.extend(child.descendants());
            found.push(child);
        }
        found
    }

    /// Makes a type known, so that a snapshot may name it before any event did.
    pub fn define<T: SliceItem>(&self) {
        let mut slices = self.slices.write().unwrap_or_else(PoisonError::into_inner);
        slices.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(Slice::<T>::default()));
    }

    /// Lets events of type `E` change the slice of `T`. A reducer that fails or panics leaves it as it was, and counts
    /// as a handler that failed.
    pub fn register<E: Event, T: SliceItem>(
        self: &Arc<Self>,
        reduce: impl Fn(&Slice<T>, &E, &ReducerCx<'_>) -> Result<SliceChange<T>, HandlerError>
        + Send
        + Sync
        + 'static,
    ) -> Subscription {
        self.define::<T>();
        let session = Arc::downgrade(self);
        self.bus.subscribe::<E>(move |told| {
            let Some(session) = session.upgrade().filter(|session| session.id == told.session_id) else {
                return Ok(());
            };
            let _alone = session.reducing.lock().unwrap_or_else(PoisonError::into_inner);
            let cx = ReducerCx { session_id: &session.id, created_at: told.created_at };
            let before = session.select_all::<T>();
            let op = reduce(&before, told.event, &cx)?;
            session.put(before.after(op));
            Ok(())
        })
    }

    fn put<T: SliceItem>(&self, slice: Slice<T>) {
        let mut slices = self.slices.write().unwrap_or_else(PoisonError::into_inner);
        slices.insert(TypeId::of::<T>(), Box::new(slice));
    }

    /// The slice of a type as it is now; empty if there is none.
    pub fn select_all<T: SliceItem>(&self) -> Slice<T> {
        let slices = self.slices.read().unwrap_or_else(PoisonError::into_inner);
        let slice =
            slices.get(&TypeId::of::<T>()).and_then(|slice| slice.as_any().downcast_ref::<Slice<T>>());
        slice.cloned().unwrap_or_default()
    }

    /// The newest item of a type.
    pub fn latest<T: SliceItem>(&self) -> Option<T> {
        self.select_all::<T>().latest().cloned()
    }

    /// The items of a type that a predicate picks.
    pub fn select_where<T: SliceItem>(&self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        self.select_all::<T>().iter().filter(|item| wanted(item)).cloned().collect()
    }

    /// What was recorded of one evaluation.
    pub fn evaluation_history(&self, evaluation_id: Uuid) -> Vec<RecordedEntry> {
        self.select_where(|recorded: &RecordedEntry| recorded.entry.evaluation_id == evaluation_id)
    }

    /// The session as it is now.
    pub fn snapshot(&self, now: Time) -> Result<Snapshot, AgentError> {
        let slices = self.slices.read().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::with_capacity(slices.len());
        for slice in slices.values() {
            let items = slice.to_json().map_err(|(item, problem)| {
                snapshot::refused(format!("/slices/{}/items/{item}", slice.name()), problem)
            })?;
            let (name, kind) = (slice.name().to_string(), slice.kind().as_str().to_string());
            taken.push(SliceSnapshot { name, kind, items });
        }
        taken.sort_by(|a, b| a.name.cmp(&b.name));
        let children = self.children.read().unwrap_or_else(PoisonError::into_inner);
        Ok(Snapshot {
            version: snapshot::VERSION.into(),
            created_at: now.to_string(),
            session_id: self.id.clone(),
            parent_id: self.parent.as_ref().map(|parent| parent.id.clone()),
            children: children.iter().map(|child| child.id.clone()).collect(),
            tags: self.tags.clone(),
            slices: taken,
        })
    }

    /// The state slices as they are now. Nothing is copied.
    pub fn checkpoint(&self) -> Checkpoint {
        let slices = self.slices.read().unwrap_or_else(PoisonError::into_inner);
        let state = slices.iter().filter(|(_, slice)| slice.kind() == SliceKind::State);
        Checkpoint { slices: state.map(|(id, slice)| (*id, slice.shared())).collect() }
    }

    /// Goes back to a checkpoint of this session: its state is as it was then, logs keep what they have.
    pub fn go_back(&self, checkpoint: &Checkpoint) {
        let _alone = self.reducing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slices = self.slices.write().unwrap_or_else(PoisonError::into_inner);
        for (id, slice) in slices.iter_mut().filter(|(_, slice)| slice.kind() == SliceKind::State) {
            *slice = checkpoint.slices.get(id).map_or_else(|| slice.emptied(), |kept| kept.shared());
        }
    }

    /// Goes back to a snapshot: state slices are as they were then, logs keep what they have.
    pub fn rollback(&self, snapshot: &Snapshot) -> Result<(), AgentError> {
        let _alone = self.reducing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slices = self.slices.write().unwrap_or_else(PoisonError::into_inner);
        let known = slices.values().map(|slice| (slice.name(), &**slice)).collect();
        let restored = snapshot::restored(snapshot, &known)?;
        let types: HashMap<&'static str, TypeId> =
            slices.iter().map(|(id, slice)| (slice.name(), *id)).collect();
        for (name, slice) in restored {
            if let Some(id) = types.get(name) {
                slices.insert(*id, slice);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("created_at", &self.created_at)
            .field("tags", &self.tags)
            .finish_non_exhaustive()
    }
}
