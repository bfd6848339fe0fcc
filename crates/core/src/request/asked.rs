//! What a caller wants to send besides the record.

use std::sync::OnceLock;

use bytes::Bytes;

use super::marks::ClientMarks;
use crate::chain::Link;
use crate::entry::Entry;
use crate::json::{self, Raw};
use crate::model::ModelName;
use crate::wire::check::{CheckOptions, Size, Strictness, Violation, check};
use crate::wire::repair::{Repair, mend};
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
    /// Whether it goes on from something that its provider holds and the list does not show.
    pub refers: bool,
}

/// What a caller wants to send besides the record.
#[derive(Debug)]
pub struct Asked {
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
    as_it_came: OnceLock<AsItCame>,
}

/// A client's own bytes, repaired where their provider would refuse them.
#[derive(Debug)]
pub(super) struct AsItCame {
    pub(super) body: Bytes,
    pub(super) prefix_hash: Link,
    pub(super) repairs: Vec<Repair>,
}

impl Asked {
    /// A request of our own: settings and tools around messages that come from the record.
    pub fn ours(wire: Wire, model: ModelName, dialect: Option<String>, around: Body) -> Self {
        Asked {
            wire,
            model: Some(model),
            dialect,
            around,
            instructions: Vec::new(),
            client: None,
            as_it_came: OnceLock::new(),
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
        let as_it_came = OnceLock::new();
        Asked { wire, model, dialect, around, instructions, client: Some(client), as_it_came }
    }

    /// Looks whether the client's own bytes can be sent, so that [`prepare`](super::prepare) need not: it takes time in
    /// proportion to the body, and may be done on another thread.
    pub fn check_client(&self) {
        let _ = self.as_it_came();
    }

    pub(super) fn check_options(&self, size: Size) -> CheckOptions<'_> {
        CheckOptions {
            model: self.model.as_ref(),
            dialect: self.dialect.as_deref(),
            size,
            ..CheckOptions::default()
        }
    }

    /// The client's own bytes, repaired where need be; none where there is no client.
    pub(super) fn as_it_came(&self) -> Option<&AsItCame> {
        let client = self.client.as_ref()?;
        Some(self.as_it_came.get_or_init(|| self.checked(client)))
    }

    fn checked(&self, client: &ClientBody) -> AsItCame {
        let body = client.bytes.clone();
        let as_it_is = |prefix_hash| AsItCame { body: body.clone(), prefix_hash, repairs: Vec::new() };
        let Ok(raw) = json::check_bytes(&body) else { return as_it_is([0; 32]) };
        // Whether it is too large is for the manager and the provider to say.
        let options = self.check_options(Size::NotJudged);
        let matters = |violation: &Violation| {
            // What the provider holds is not in the list, and pairs with what is.
            let held = client.refers && PAIRS.contains(&violation.rule);
            violation.is_fatal(Strictness::Lenient) && !held
        };
        if !check(self.wire, raw, options).iter().any(matters) {
            return as_it_is(chain_of(self.wire, raw));
        }
        let repaired = mend(self.wire, raw, options, &matters);
        let prefix_hash = json::check(&repaired.body).map_or([0; 32], |raw| chain_of(self.wire, raw));
        AsItCame { body: repaired.body.into(), prefix_hash, repairs: repaired.repairs }
    }

    /// The cache marks of the client's request.
    pub(super) fn marks(&self) -> ClientMarks {
        let body = self.client.as_ref().and_then(|client| json::check_bytes(&client.bytes).ok());
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
