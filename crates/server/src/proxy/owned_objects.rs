//! Which objects of a provider a tenant may name. Under the operator's key the provider shows each tenant what all of them keep
//! there, so a request may only name objects that this tenant was given in a reply.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use scrollback_agent::provider::Credential;
use scrollback_core::json::{self, Raw};
use scrollback_core::request::{given_objects, named_objects};
use scrollback_core::wire::{Body, Wire};
use scrollback_store::Tenant;

use super::background::in_turn;
use super::call::ProxyCall;
use super::client_request::ClientRequest;
use super::identity::{BY_OBJECT, ClientName, Strangers};
use super::tee::ReplyEnd;
use super::upstreams::Answerer;
use crate::problem::HttpProblem;

/// Objects that are remembered to be their tenant's: a long list names the same ones again and again.
const MAX_REMEMBERED: usize = 64 << 10;
/// Most objects of one reply that are noted.
const MAX_GIVEN: usize = 1024;
/// What an event of a stream has to hold to be read for objects.
const SIGNS: [&str; 3] = ["\"file_id\"", "\"container", "\"audio\""];

/// Objects that were found to be their tenant's.
#[derive(Debug, Default)]
pub(crate) struct KnownObjects(Mutex<HashSet<(Tenant, String)>>);

impl KnownObjects {
    fn has(&self, tenant: &Tenant, id: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(&(tenant.clone(), id.to_string()))
    }

    fn keep(&self, tenant: &Tenant, id: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What is forgotten is looked up in the store again.
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert((tenant.clone(), id));
    }
}

/// Headers that choose among the accounts which a provider's key opens.
const ACCOUNTS: [&str; 3] = ["openai-organization", "openai-project", "x-goog-user-project"];

/// Takes out of a request what would lead it into another of the operator's accounts.
pub(super) fn stay_in_account(headers: &mut HeaderMap) {
    for name in ACCOUNTS {
        headers.remove(name);
    }
}

impl ProxyCall {
    /// Whether callers of other tenants are served under the same key of the provider.
    pub(super) fn shares_provider_key(&self) -> bool {
        self.caller.key.is_some() && matches!(self.answerer, Answerer::Upstream(_, Credential::Ours))
    }

    /// What becomes of requests that go on from what another caller was answered.
    pub(super) fn strangers(&self) -> Strangers {
        // Also without keys of this server: a gateway in front may have told people apart.
        let ours = matches!(self.answerer, Answerer::Upstream(_, Credential::Ours));
        if ours { Strangers::Refused } else { Strangers::Apart }
    }

    /// An error if a request body names an object at the provider that this tenant was not given.
    pub(super) async fn owns_objects(&self, wire: Wire, body: &Bytes) -> Result<(), HttpProblem> {
        if !self.shares_provider_key() {
            return Ok(());
        }
        let (app, tenant, text) = (&self.app, &self.caller.tenant, body.clone());
        let named = move || json::check_bytes(&text).map(|raw| named_objects(wire, raw)).unwrap_or_default();
        for id in in_turn(&app.heavy_turns, tenant, body.len(), named).await? {
            if app.known_objects.has(tenant, &id) {
                continue;
            }
            if app.store.alias(tenant, BY_OBJECT, &id).await?.is_none() {
                return Err(not_owned(&id));
            }
            app.known_objects.keep(tenant, id);
        }
        Ok(())
    }

    /// The objects that a reply gives this tenant, by the names under which they are found again.
    pub(super) async fn given(
        &self,
        asked: &ClientRequest,
        ended: &ReplyEnd,
    ) -> Result<Vec<ClientName>, HttpProblem> {
        if !self.shares_provider_key() {
            return Ok(Vec::new());
        }
        let (wire, bytes, message) = (asked.wire(), ended.bytes.clone(), ended.reply.raw.clone());
        let keeps_items = wire == Wire::OpenaiResponses && !is_stateless(&asked.around);
        let read = move || {
            let mut given = objects_in(wire, &bytes);
            if let Some(Ok(items)) = message.as_deref().filter(|_| keeps_items).map(json::check) {
                let ids = items.elements().filter_map(|item| item.get("id").and_then(Raw::string));
                given.extend(ids.map(Cow::into_owned));
            }
            given
        };
        let given = in_turn(&self.app.heavy_turns, &self.caller.tenant, ended.bytes.len(), read).await?;
        let name = |id| ClientName { source: BY_OBJECT, id };
        Ok(given.into_iter().take(MAX_GIVEN).map(name).collect())
    }
}

/// Whether a request asks its provider to keep nothing.
fn is_stateless(around: &Body) -> bool {
    let Body::Object { raw, .. } = around else { return false };
    json::check(raw).is_ok_and(|raw| raw.get("store").is_some_and(|store| store.text() == "false"))
}

/// The objects in a reply that came in one piece, or as events.
fn objects_in(wire: Wire, bytes: &[u8]) -> BTreeSet<String> {
    if let Ok(whole) = json::check_bytes(bytes) {
        return given_objects(wire, whole);
    }
    let text = String::from_utf8_lossy(bytes);
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let data = data.filter(|data| SIGNS.iter().any(|sign| data.contains(sign)));
    data.filter_map(|data| json::check(data.trim()).ok())
        .flat_map(|event| given_objects(wire, event))
        .collect()
}

/// What a client is told that names an object which this tenant was not given.
fn not_owned(id: &str) -> HttpProblem {
    let detail = format!(
        "the provider's object {id:?} is not known here: with the operator's provider key, a request may only name files, \
         containers, items and the like that this tenant was given in a reply"
    );
    HttpProblem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn objects_are_found_in_streams_too() {
        let stream = concat!(
            "event: content_block_start\n",
            "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"x\",\"content\":[{\"file_id\":\"f\"}]}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"partial_json\":\"{\\\"file_id\\\":\\\"said\\\"}\"}}\n\n",
            "data: {\"type\":\"message_delta\",\"delta\":{\"container\":{\"id\":\"c\"}}}\n\n",
        );
        assert_eq!(
            objects_in(Wire::Anthropic, stream.as_bytes()).into_iter().collect::<Vec<_>>(),
            ["c", "f"]
        );
    }

    #[test]
    fn only_so_many_objects_are_remembered_and_each_for_its_tenant() {
        let (known, one, other) =
            (KnownObjects::default(), Tenant::parse("one").unwrap(), Tenant::parse("other").unwrap());
        for number in 0..=MAX_REMEMBERED {
            known.keep(&one, number.to_string());
        }
        assert!(known.0.lock().unwrap().len() <= MAX_REMEMBERED);
        assert!(known.has(&one, &MAX_REMEMBERED.to_string()));
        assert!(!known.has(&other, &MAX_REMEMBERED.to_string()));
    }
}
