//! How one client's request is to be sent on: what it asks, under which policy, and how the request is made from its record.

use std::sync::{Arc, LazyLock};

use axum::http::HeaderMap;
use scrollback_agent::config::ServerSettings;
use scrollback_agent::exchange::{CuratedRequests, Make};
use scrollback_agent::provider::ErrorKind;
use scrollback_agent::runner::Repair;
use scrollback_core::manager::{self, Fit, SharedManager};
use scrollback_core::request::{
    CallerRequest as Wanted, Carries as Carried, ClientBody, Invalid, Policy, PrepareError, Prepared,
    Reference, RequestTokens, Surroundings, Threads, names_items, prepare,
};
use scrollback_core::wire::{Body, ParseOptions};
use scrollback_core::{CurationContext, Entry, Record, Role, Tools, json};
use scrollback_store::{ConversationId, Tenant};
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};

use super::background::LARGE;
use super::client_request::{ClientRequest, header};
use super::echo::OWN_ID;
use super::identity::{Carries, Strangers};
use super::provider_state::{ProviderState, ThreadFields, unresolved};
use super::session::RequestOrigin;
use crate::App;
use crate::problem::HttpProblem;

/// What is said about a view that nothing changed.
pub(crate) const PASSTHROUGH: &str = "passthrough";

/// A request on its way, as far as it does not depend on the record.
pub(crate) struct CallPlan {
    pub(crate) asked: ClientRequest,
    /// Who asks, and in which session.
    pub(crate) origin: RequestOrigin,
    pub(crate) carries: Carries,
    pub(crate) strangers: Strangers,
    pub(crate) policy: Arc<Policy>,
    /// What a view depends on beside the record.
    pub(crate) cx: Arc<CurationContext>,
    /// What the thread was created with that the request continues.
    pub(crate) fields: Option<Arc<ThreadFields>>,
    wanted: Arc<Wanted>,
}

/// What fits the model.
static USUAL: LazyLock<SharedManager> = LazyLock::new(|| Arc::new(Fit::default()));

/// How a request is curated: as it says itself, as the first policy that fits says, or by what fits its model.
pub(crate) fn policy(
    settings: &ServerSettings,
    tenant: &Tenant,
    headers: &HeaderMap,
    asked: &ClientRequest,
) -> Result<Policy, HttpProblem> {
    let invalid = match settings.repair {
        Repair::Auto => Invalid::RepairedOrSent,
        Repair::Never => Invalid::RefusedOrSent,
    };
    if let Some(text) = header(headers, "x-scrollback-managers") {
        let manager = manager::parse(text).map_err(|error| {
            HttpProblem::bad_request("bad_managers", format!("x-scrollback-managers: {error}"))
                .with("path", error.path())
        })?;
        return Ok(Policy::for_client(manager, invalid));
    }
    let route = asked.endpoint.route();
    let fits = settings.policies.iter().find(|policy| {
        let qualified = asked.model.as_ref().map(ToString::to_string);
        policy.fits(tenant, &asked.named, route)
            || qualified.is_some_and(|name| policy.fits(tenant, &name, route))
    });
    let configured = fits.map(|policy| &policy.managers).or(settings.managers.as_ref());
    Ok(Policy::for_client(Arc::clone(configured.unwrap_or(&USUAL)), invalid))
}

impl CallPlan {
    pub(crate) fn new(
        app: &App,
        tenant: &Tenant,
        mut asked: ClientRequest,
        origin: RequestOrigin,
        carries: Carries,
        policy: Policy,
        state: ProviderState,
    ) -> Self {
        let ProviderState { fields, threads, strangers } = state;
        let around = RequestFrame::of(&mut asked, fields.as_deref());
        let mut cx = CurationContext::for_model(asked.model.clone());
        cx.tools = around.tools;
        cx.wire = Some(asked.wire());
        app.catalog.configure(&mut cx);
        cx.output = asked.output;
        app.calibrations.apply(tenant, &mut cx);
        // What only this server has cannot be left to the provider.
        let held_here = asked.refers.as_ref().is_some_and(|reference| reference.id().contains(OWN_ID));
        let from_record = carries == Carries::News || held_here || threads == Threads::NotKept;
        let client = ClientBody {
            bytes: asked.body.clone(),
            carries: if from_record { Carried::News } else { Carried::History },
            refers: asked.refers.clone(),
            threads,
            surroundings: around.surroundings,
        };
        let wanted = Wanted::of_client(
            asked.wire(),
            asked.model.clone(),
            asked.model.as_ref().and_then(|model| app.catalog.dialect(model)),
            around.body,
            around.instructions,
            client,
        );
        let (policy, cx, wanted) = (Arc::new(policy), Arc::new(cx), Arc::new(wanted));
        CallPlan { asked, origin, carries, strangers, policy, cx, fields, wanted }
    }

    /// Begins to look at the client's own bytes on another thread, if they are many.
    pub(crate) fn begin_check(&self) -> Option<JoinHandle<()>> {
        let wanted = (self.asked.body.len() >= LARGE).then(|| Arc::clone(&self.wanted))?;
        Some(spawn_blocking(move || wanted.check_client()))
    }

    /// How the request is made from its record.
    pub(crate) fn make(&self) -> Make {
        Arc::new(CuratedRequests { asked: Arc::clone(&self.wanted), policy: Arc::clone(&self.policy) })
    }

    /// How the request is made from its record instead, where its provider refused it because of what it goes on from: with
    /// the whole list, and no reference. None where that is not what was wrong.
    pub(crate) fn make_from_record(&self, refusal: ErrorKind) -> Option<Make> {
        let refers = self.asked.refers.is_some();
        let threads = match refusal {
            ErrorKind::StateLost if refers || names_items(self.asked.wire(), &self.asked.around) => {
                Threads::Kept
            }
            ErrorKind::StateUnsupported if refers || self.asked.in_thread => Threads::NotKept,
            _ => return None,
        };
        let asked = Arc::new(self.wanted.from_record(threads)?);
        Some(Arc::new(CuratedRequests { asked, policy: Arc::clone(&self.policy) }))
    }

    /// The request whose tokens are counted: always with the whole list, where the record has it.
    pub(crate) fn prepared_to_count(&self, record: &Record) -> Result<Prepared, PrepareError> {
        let refers = self.asked.refers.is_some() || self.asked.in_thread;
        let whole = refers.then(|| self.wanted.from_record(Threads::NotKept)).flatten();
        match whole.map(|whole| prepare(record, &whole, &self.policy, &self.cx)) {
            None | Some(Err(PrepareError::Unresolved(_))) => self.prepared(record),
            Some(prepared) => prepared,
        }
    }

    /// The request that a record gives, at once.
    pub(crate) fn prepared(&self, record: &Record) -> Result<Prepared, PrepareError> {
        prepare(record, &self.wanted, &self.policy, &self.cx)
    }

    /// The context in a conversation, whose handles stand in placeholders where the model has a tool to read them.
    pub(crate) fn cx_in(&self, conversation: Option<&ConversationId>) -> Arc<CurationContext> {
        match conversation {
            Some(id) => Arc::new(CurationContext::clone(&self.cx).in_conversation(id.as_str())),
            None => Arc::clone(&self.cx),
        }
    }

    /// Whether the managers may ask for summaries.
    pub(crate) fn summarizes(&self) -> bool {
        self.policy.written.contains("summarize")
    }
}

/// What stands around the messages of a request, where all of them are sent.
struct RequestFrame {
    body: Body,
    instructions: Vec<Entry>,
    tools: Option<Tools>,
    surroundings: Surroundings,
}

impl RequestFrame {
    /// As the request has it; for one that continues a thread, with what the thread was created with.
    fn of(asked: &mut ClientRequest, fields: Option<&ThreadFields>) -> Self {
        let continues = matches!(asked.refers, Some(Reference::Message(_)));
        let instructions = asked.entries.get(..asked.lead()).unwrap_or_default().to_vec();
        let own = RequestFrame {
            body: asked.around.clone(),
            instructions,
            tools: asked.tools.take(),
            surroundings: Surroundings::Known,
        };
        if !continues {
            return own;
        }
        let Some(fields) = fields else {
            return RequestFrame { surroundings: Surroundings::WithProvider, ..own };
        };
        let body = fields.around(&own.body);
        let Body::Object { raw, .. } = &body else { return own };
        let whole =
            json::check(raw).ok().and_then(|raw| asked.wire().parse(raw, &ParseOptions::default()).ok());
        let Some(whole) = whole else {
            return RequestFrame { surroundings: Surroundings::WithProvider, ..own };
        };
        let is_field = |entry: &Entry| entry.role == Role::System && !entry.origin.raw.starts_with('{');
        let instructions = whole.entries.into_iter().take_while(is_field).collect();
        RequestFrame { body, instructions, tools: whole.tools, surroundings: Surroundings::Known }
    }
}

/// What the client is told about its view: `entries=12/340; tokens=7914/121030 (tools 310); by=fit`. The tokens are ours, of the
/// whole request and of the whole record; those of the tool definitions are named apart, where there are any.
pub(crate) fn view_header(prepared: &Prepared) -> String {
    let (shown, all) = prepared.entries;
    let RequestTokens { tools, total, .. } = prepared.tokens.unwrap_or_default();
    let recorded = prepared.tokens_recorded.unwrap_or(total);
    let by = if prepared.by.is_empty() { PASSTHROUGH.to_string() } else { prepared.by.join(",") };
    let tools = if tools > 0 { format!(" (tools {tools})") } else { String::new() };
    format!("entries={shown}/{all}; tokens={total}/{recorded}{tools}; by={by}")
}

/// What the client is told where no request can be made.
pub(crate) fn not_prepared(error: &PrepareError) -> HttpProblem {
    let broken = match error {
        PrepareError::Invalid { broken, .. } => broken,
        PrepareError::Unresolved(reference) => return unresolved(reference),
        _ => return HttpProblem::bad_request(error.code(), error.to_string()),
    };
    let (rule, path) = broken.first().cloned().unwrap_or_default();
    let list: Vec<_> = broken.iter().map(|(rule, path)| json!({ "rule": rule, "path": path })).collect();
    let detail = format!("the messages break rule {rule} of their provider at {path}, and are not repaired");
    HttpProblem::bad_request("invalid_messages", detail)
        .with("rule", rule)
        .with("path", path)
        .with("violations", list)
}
