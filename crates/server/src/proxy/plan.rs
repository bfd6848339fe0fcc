//! How one client's request is to be sent on: what it asks, under which policy, and how the request is made from its record.

use std::sync::{Arc, LazyLock};

use axum::http::HeaderMap;
use scrollback_agent::config::ServerSettings;
use scrollback_agent::exchange::Make;
use scrollback_agent::runner::Repair;
use scrollback_core::manager::{self, Fit, SharedManager};
use scrollback_core::request::{
    Asked as Wanted, Carries as Carried, ClientBody, Invalid, Policy, PrepareError, Prepared, RequestTokens,
    prepare,
};
use scrollback_core::{CurationContext, Record};
use scrollback_store::Tenant;
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};

use super::aside::LARGE;
use super::asked::{Asked, header};
use super::echo::OWN_ID;
use super::identity::Carries;
use crate::App;
use crate::problem::Problem;

/// What is said about a view that nothing changed.
pub(crate) const PASSTHROUGH: &str = "passthrough";

/// A request on its way, as far as it does not depend on the record.
pub(crate) struct Plan {
    pub(crate) asked: Asked,
    pub(crate) carries: Carries,
    pub(crate) policy: Arc<Policy>,
    /// What a view depends on beside the record.
    pub(crate) cx: Arc<CurationContext>,
    wanted: Arc<Wanted>,
}

/// What fits the model.
static USUAL: LazyLock<SharedManager> = LazyLock::new(|| Arc::new(Fit::default()));

/// How a request is curated: as it says itself, as the first policy that fits says, or by what fits its model.
pub(crate) fn policy(
    settings: &ServerSettings,
    tenant: &Tenant,
    headers: &HeaderMap,
    asked: &Asked,
) -> Result<Policy, Problem> {
    let invalid = match settings.repair {
        Repair::Auto => Invalid::RepairedOrSent,
        Repair::Never => Invalid::RefusedOrSent,
    };
    if let Some(text) = header(headers, "x-scrollback-managers") {
        let manager = manager::parse(text).map_err(|error| {
            Problem::bad_request("bad_managers", format!("x-scrollback-managers: {error}"))
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

impl Plan {
    pub(crate) fn new(
        app: &App,
        tenant: &Tenant,
        mut asked: Asked,
        carries: Carries,
        policy: Policy,
    ) -> Self {
        let mut cx = CurationContext::for_model(asked.model.clone());
        cx.tools = asked.tools.take();
        cx.wire = Some(asked.wire());
        cx.windows = app.catalog.windows();
        cx.output = asked.output;
        app.calibrations.apply(tenant, &mut cx);
        let refers = asked.previous.is_some() || asked.thread.is_some();
        // What only this server has cannot be left to the provider.
        let held_here = asked.previous.as_ref().is_some_and(|id| id.contains(OWN_ID));
        let in_body = if carries == Carries::News || held_here { Carried::News } else { Carried::History };
        let wanted = Wanted::of_client(
            asked.wire(),
            asked.model.clone(),
            asked.model.as_ref().and_then(|model| app.catalog.dialect(model)),
            asked.around.clone(),
            asked.entries.get(..asked.lead()).unwrap_or_default().to_vec(),
            ClientBody { bytes: asked.body.clone(), carries: in_body, refers },
        );
        Plan { asked, carries, policy: Arc::new(policy), cx: Arc::new(cx), wanted: Arc::new(wanted) }
    }

    /// Begins to look at the client's own bytes on another thread, if they are many.
    pub(crate) fn begin_check(&self) -> Option<JoinHandle<()>> {
        let wanted = (self.asked.body.len() >= LARGE).then(|| Arc::clone(&self.wanted))?;
        Some(spawn_blocking(move || wanted.check_client()))
    }

    /// How the request is made from its record.
    pub(crate) fn make(&self) -> Make {
        let (wanted, policy) = (Arc::clone(&self.wanted), Arc::clone(&self.policy));
        Arc::new(move |record, cx| prepare(record, &wanted, &policy, cx))
    }

    /// The request that a record gives, at once.
    pub(crate) fn prepared(&self, record: &Record) -> Result<Prepared, PrepareError> {
        prepare(record, &self.wanted, &self.policy, &self.cx)
    }

    /// Whether the managers may ask for summaries.
    pub(crate) fn summarizes(&self) -> bool {
        self.policy.written.contains("summarize")
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
pub(crate) fn not_prepared(error: &PrepareError) -> Problem {
    let PrepareError::Invalid { broken, .. } = error else {
        return Problem::bad_request(error.code(), error.to_string());
    };
    let (rule, path) = broken.first().cloned().unwrap_or_default();
    let list: Vec<_> = broken.iter().map(|(rule, path)| json!({ "rule": rule, "path": path })).collect();
    let detail = format!("the messages break rule {rule} of their provider at {path}, and are not repaired");
    Problem::bad_request("invalid_messages", detail)
        .with("rule", rule)
        .with("path", path)
        .with("violations", list)
}
