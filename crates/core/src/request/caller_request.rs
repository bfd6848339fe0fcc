//! What a caller wants to send besides the record.

use std::sync::OnceLock;

use bytes::Bytes;

use super::cache_marks::ClientMarks;
use super::reference::{Reference, Threads, names_items};
use crate::chain::Link;
use crate::entry::Entry;
use crate::json::{self, Raw};
use crate::model::ModelName;
use crate::record::{Record, Slot};
use crate::wire::check::{CheckOptions, Size, Strictness, Violation, check};
use crate::wire::repair::{Repair, repair_if};
use crate::wire::replies::Replies;
use crate::wire::{Body, Wire, list_key, system_key};

/// Rules about pairs, which a list that goes on from something elsewhere cannot keep by itself.
const PAIRS: [&str; 4] = ["OR-1", "OR-2", "OR-4", "OR-5"];

/// How much of the history a client's request carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carries {
    /// All of it.
    #[default]
    History,
    /// Only what is new, or what the record alone has: the request must be made from the record.
    News,
}

/// A client's own request.
#[derive(Clone, Debug)]
pub struct ClientBody {
    /// Its bytes, as they came.
    pub bytes: Bytes,
    /// How much of the history is in it.
    pub carries: Carries,
    /// What it goes on from that its provider holds and the list does not show.
    pub refers: Option<Reference>,
    /// Whether its provider keeps message threads.
    pub threads: Threads,
    /// Whether everything that has to stand around the whole list is known.
    pub surroundings: Surroundings,
}

/// Whether everything that has to stand around the messages of a request is known here. A request that continues a thread
/// leaves out its instructions and tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surroundings {
    /// It is.
    #[default]
    Known,
    /// Only the provider has it: the whole list cannot be sent.
    WithProvider,
}

impl ClientBody {
    /// A request that refers to nothing.
    pub fn new(bytes: Bytes, carries: Carries) -> Self {
        let (threads, surroundings) = (Threads::default(), Surroundings::default());
        ClientBody { bytes, carries, refers: None, threads, surroundings }
    }
}

/// What a caller wants to send besides the record.
#[derive(Debug)]
pub struct CallerRequest {
    /// The provider's format.
    pub wire: Wire,
    /// The model; none where its name could not be read.
    pub model: Option<ModelName>,
    /// The kind of host, where it has rules of its own.
    pub dialect: Option<String>,
    /// Everything around the messages.
    pub around: Body,
    /// The instructions in the client's own spelling; empty where those of the record are sent.
    pub instructions: Vec<Entry>,
    /// The client's request, where there is a client.
    pub client: Option<ClientBody>,
    /// The client's own bytes, if no rule is broken in them.
    valid: OnceLock<Option<AsItCame>>,
}

/// A client's own bytes, repaired where their provider would refuse them.
#[derive(Clone, Debug)]
pub(super) struct AsItCame {
    pub(super) body: Bytes,
    pub(super) prefix_hash: Link,
    pub(super) repairs: Vec<Repair>,
}

impl CallerRequest {
    /// A request of our own: settings and tools around messages that come from the record.
    pub fn ours(wire: Wire, model: ModelName, dialect: Option<String>, around: Body) -> Self {
        CallerRequest {
            wire,
            model: Some(model),
            dialect,
            around,
            instructions: Vec::new(),
            client: None,
            valid: OnceLock::new(),
        }
    }

    /// A client's request, and what was read of it.
    pub fn of_client(
        wire: Wire,
        model: Option<ModelName>,
        dialect: Option<String>,
        around: Body,
        instructions: Vec<Entry>,
        client: ClientBody,
    ) -> Self {
        let valid = OnceLock::new();
        CallerRequest { wire, model, dialect, around, instructions, client: Some(client), valid }
    }

    /// The same request, made from the record whatever it refers to: the whole list, and no reference. None where there is no
    /// client.
    pub fn from_record(&self, threads: Threads) -> Option<Self> {
        let client = self.client.as_ref()?;
        let client = ClientBody { carries: Carries::News, threads, ..client.clone() };
        let (around, instructions) = (self.around.clone(), self.instructions.clone());
        Some(CallerRequest::of_client(
            self.wire,
            self.model.clone(),
            self.dialect.clone(),
            around,
            instructions,
            client,
        ))
    }

    /// Looks whether the client's own bytes can be sent, so that [`prepare`](super::prepare) need not: it takes time in
    /// proportion to the body, and may be done on another thread.
    pub fn check_client(&self) {
        if let Some(client) = &self.client {
            self.valid.get_or_init(|| self.if_valid(client));
        }
    }

    pub(super) fn check_options(&self, size: Size) -> CheckOptions<'_> {
        CheckOptions {
            model: self.model.as_ref(),
            dialect: self.dialect.as_deref(),
            size,
            ..CheckOptions::default()
        }
    }

    /// The client's own bytes, repaired where need be; none where there is no client. What the record knows as a provider's
    /// own reply needs no repair.
    pub(super) fn as_it_came(&self, record: &Record) -> Option<AsItCame> {
        let client = self.client.as_ref()?;
        let valid = self.valid.get_or_init(|| self.if_valid(client));
        Some(valid.clone().unwrap_or_else(|| self.repaired(client, record)))
    }

    /// Whether a breach has to be repaired.
    fn matters(client: &ClientBody, violation: &Violation) -> bool {
        // What the provider holds is not in the list, and pairs with what is.
        let held = client.refers.is_some() && PAIRS.contains(&violation.rule);
        violation.is_fatal(Strictness::Lenient) && !held
    }

    fn if_valid(&self, client: &ClientBody) -> Option<AsItCame> {
        let body = client.bytes.clone();
        let Ok(raw) = json::check_bytes(&body) else {
            return Some(AsItCame { body, prefix_hash: [0; 32], repairs: Vec::new() });
        };
        // Whether it is too large is for the manager and the provider to say.
        let violations = check(self.wire, raw, self.check_options(Size::NotJudged));
        if violations.iter().any(|violation| Self::matters(client, violation)) {
            return None;
        }
        let prefix_hash = chain_of(self.wire, raw);
        Some(AsItCame { body: body.clone(), prefix_hash, repairs: Vec::new() })
    }

    fn repaired(&self, client: &ClientBody, record: &Record) -> AsItCame {
        let body = client.bytes.clone();
        let as_it_is = |prefix_hash| AsItCame { body: body.clone(), prefix_hash, repairs: Vec::new() };
        let Ok(raw) = json::check_bytes(&body) else { return as_it_is([0; 32]) };
        let said = record.slots().iter().filter_map(|slot| match slot {
            Slot::Message(entry) => Some(entry.as_ref()),
            _ => None,
        });
        let replies = Replies::of(self.wire, said);
        let options = self.check_options(Size::NotJudged);
        let matters = |violation: &Violation| Self::matters(client, violation);
        let repaired = repair_if(self.wire, raw, options, &replies, &matters);
        if repaired.repairs.is_empty() {
            return as_it_is(chain_of(self.wire, raw));
        }
        let prefix_hash = json::check(&repaired.body).map_or([0; 32], |raw| chain_of(self.wire, raw));
        AsItCame { body: repaired.body.into(), prefix_hash, repairs: repaired.repairs }
    }

    /// Whether the client's list names items that its provider does not keep: the record has them.
    pub(super) fn names_unkept_items(&self) -> bool {
        let Body::Object { raw, .. } = &self.around else { return false };
        let unkept = || Raw::trusted(raw).get("store").is_some_and(|store| store.text() == "false");
        self.client.is_some() && names_items(self.wire, &self.around) && unkept()
    }

    /// The cache marks of the client's request.
    pub(super) fn marks(&self) -> ClientMarks {
        let Body::Object { raw, .. } = &self.around else { return ClientMarks::default() };
        let body = self.client.as_ref().and_then(|_| json::check(raw).ok());
        body.map(|body| ClientMarks::of(self.wire, body)).unwrap_or_default()
    }
}

/// Chain over the bytes of what is sent; equal prefixes have equal values.
pub(super) fn chain<'m>(system: Option<&str>, messages: impl Iterator<Item = &'m str>) -> Link {
    let start = *blake3::hash(system.unwrap_or_default().as_bytes()).as_bytes();
    messages.fold(start, |link, message| {
        let mut hash = blake3::Hasher::new();
        hash.update(&link).update(message.as_bytes());
        *hash.finalize().as_bytes()
    })
}

/// The same over a body.
fn chain_of(wire: Wire, body: Raw<'_>) -> Link {
    let system = system_key(wire).and_then(|key| body.get(key)).map(json::one_line);
    let list = body.get(list_key(wire)).into_iter().flat_map(Raw::elements);
    let messages: Vec<_> = list.map(json::one_line).collect();
    chain(system.as_deref(), messages.iter().map(AsRef::as_ref))
}
