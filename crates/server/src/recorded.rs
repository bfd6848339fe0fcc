//! Recorded calls and what they saw: a call's row says which record, which managers and which model, and core repeats it.

use std::sync::Arc;

use scrollback_core::model::ModelName;
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, HistoryManager, Summaries, Tools, json, manager};
use scrollback_store::Sent;

use crate::replay::Asked;
use crate::{App, Problem};

/// A model by its name.
pub(crate) fn model_named(name: &str) -> Result<ModelName, Problem> {
    ModelName::parse(name).map_err(|error| Problem::bad_request("unknown_model", error.to_string()))
}

/// A manager in any of its forms.
pub(crate) fn manager_from(value: &serde_json::Value) -> Result<Arc<dyn HistoryManager>, Problem> {
    manager::parse_value(value).map_err(|error| {
        let problem = Problem::bad_request(error.code(), error.to_string()).with("path", error.path());
        if error.known().is_empty() { problem } else { problem.with("known", error.known().to_vec()) }
    })
}

/// The context of a view for a model, with the windows this server was told.
pub(crate) fn context(app: &App, model: Option<ModelName>) -> CurationContext {
    CurationContext { windows: app.catalog.windows(), ..CurationContext::for_model(model) }
}

/// What a recorded call asked for, to be repeated. A model or manager that is no longer known is told as such.
pub(crate) fn asked(app: &App, call: &Sent, tools: Option<Tools>) -> Result<Asked, String> {
    let manager = match serde_json::from_str(&call.managers) {
        Ok(value) => manager::parse_value(&value),
        Err(_) => manager::parse(&call.managers),
    };
    let manager = manager.map_err(|error| format!("its managers cannot be read: {error}"))?;
    let cx = CurationContext {
        tools,
        wire: Wire::named(&call.wire),
        summaries: Summaries::Recorded,
        ..context(app, ModelName::parse(&call.model).ok())
    };
    Ok(Asked { upto: call.upto, manager, cx })
}

/// The tools a request offered.
pub(crate) fn tools(call: &Sent) -> Option<Tools> {
    let (wire, request) = (Wire::named(&call.wire)?, call.request.as_deref()?);
    let body = json::check_bytes(request).ok()?;
    wire.parse(body, &ParseOptions::default()).ok()?.tools
}
