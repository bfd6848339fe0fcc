//! Recorded calls and what they saw: a call's row says which record, which managers and which model, and core repeats it.

use std::sync::Arc;

use scrollback_agent::provider::Provider;
use scrollback_core::model::{self, ModelName};
use scrollback_core::tokens::Factor;
use scrollback_core::wire::Wire;
use scrollback_core::{CurationContext, HistoryManager, Record, Summaries, Tools, manager};
use scrollback_store::{CallListing, ConversationId, Sent, Tenant};
use serde_json::Value;

use crate::visibility::{CallVisibility, SentBody};
use crate::{App, HttpProblem};
use scrollback_core::replay::{RepeatedCall, RequestFrame};

/// A model by its name, which may leave out the provider where the model is known or the wire tells.
pub(crate) fn model_named(name: &str, wire: Option<Wire>) -> Result<ModelName, HttpProblem> {
    ModelName::resolve(name, wire.and_then(Wire::provider))
        .map_err(|error| HttpProblem::bad_request("unknown_model", error.to_string()))
}

/// The provider of a model that a request names. Only those that are configured: a script would be a file of this machine.
pub(crate) fn provider_named(app: &App, name: &str) -> Result<Arc<dyn Provider>, HttpProblem> {
    let model = model_named(name.split_once("?api=").map_or(name, |(model, _)| model), None)?;
    if model.provider() == model::Provider::Offline && model.model() != "echo" {
        let detail = "of the offline models only offline:echo answers requests";
        return Err(HttpProblem::bad_request("unknown_model", detail));
    }
    let found = app.catalog.provider_named(name);
    found.map_err(|error| HttpProblem::bad_request(error.code(), error.to_string()))
}

/// A manager in any of its forms.
pub(crate) fn manager_from(value: &serde_json::Value) -> Result<Arc<dyn HistoryManager>, HttpProblem> {
    manager::parse_value(value).map_err(|error| {
        let problem = HttpProblem::bad_request(error.code(), error.to_string()).with("path", error.path());
        if error.known().is_empty() { problem } else { problem.with("known", error.known().to_vec()) }
    })
}

/// The context of a view for a model, with the windows this server was told.
pub(crate) fn context(app: &App, model: Option<ModelName>) -> CurationContext {
    let mut cx = CurationContext::for_model(model);
    app.catalog.configure(&mut cx);
    cx
}

/// What a recorded call asked for, to be repeated. A model or manager that is no longer known is told as such.
pub(crate) fn asked(app: &App, call: &Sent, tools: Option<Tools>) -> Result<RepeatedCall, String> {
    let manager = match serde_json::from_str(&call.managers) {
        Ok(value) => manager::parse_value(&value),
        Err(_) => manager::parse(&call.managers),
    };
    let manager = manager.map_err(|error| format!("its managers cannot be read: {error}"))?;
    let mut cx = CurationContext {
        tools,
        wire: Wire::named(&call.wire),
        output: output(call),
        summaries: Summaries::Recorded,
        ..context(app, ModelName::parse(&call.model).ok())
    };
    cx = cx.in_conversation(call.conversation.as_str());
    if let Some(factor) = call.factor {
        cx.counter = cx.counter.with_factor(Factor::of(factor));
    }
    Ok(RepeatedCall { upto: call.upto, manager, cx })
}

/// The tools a request offered.
pub(crate) fn tools(call: &Sent) -> Option<Tools> {
    RequestFrame::read(Wire::named(&call.wire), call.request.as_deref()).tools
}

/// The newest call of a conversation, with what was sent; none if there was no call.
pub(crate) async fn newest(
    app: &App,
    tenant: &Tenant,
    id: &ConversationId,
) -> Result<Option<Sent>, HttpProblem> {
    let listing = CallListing { conversation: Some(id.clone()), limit: 1, after: None };
    match app.store.calls(tenant, listing).await?.calls.first() {
        Some(call) => Ok(Some(app.store.call(tenant, &call.id).await?)),
        None => Ok(None),
    }
}

/// How many tokens a request allows its reply, where it says so.
pub(crate) fn output(call: &Sent) -> Option<u64> {
    RequestFrame::read(None, call.request.as_deref()).output
}

/// The record a call was made from, without what was appended later; none if nothing was.
pub(crate) fn record_upto(record: &Record, upto: u64) -> Result<Option<Record>, String> {
    match record.slots().get(..upto as usize) {
        Some(before) if before.len() < record.len() => {
            Record::restore(before.iter().cloned()).map(Some).map_err(|error| error.to_string())
        }
        _ => Ok(None),
    }
}

/// What a call saw of its record. In words, why that cannot be said.
pub(crate) async fn sight(
    app: &App,
    tenant: &Tenant,
    call: &Sent,
) -> Result<Result<CallVisibility, String>, HttpProblem> {
    let is_reported = crate::known_calls::is_reported(call);
    let below = (!is_reported).then_some(call.upto);
    let record = app.store.record(tenant, &call.conversation, below).await?;
    let (asked, call) = (asked(app, call, tools(call)), call.clone());
    crate::blocking(move || {
        let counting = CurationContext::for_model(ModelName::parse(&call.model).ok());
        let tokens = crate::visibility::tokens(&record, &counting);
        if is_reported {
            let then = crate::known_calls::record_at(&record, call.upto)?;
            return Ok(CallVisibility::of(&then, &asked, None, &tokens)?.reported(call.upto, &tokens));
        }
        CallVisibility::of(&record, &asked, sent_body(&call).as_ref(), &tokens)
    })
    .await
}

/// The request of a call, where its bytes are kept and its wire is known.
pub(crate) fn sent_body(call: &Sent) -> Option<SentBody<'_>> {
    Some(SentBody { wire: Wire::named(&call.wire)?, bytes: call.request.as_deref()? })
}

/// Managers the way people write them, from the JSON that is kept: `sticky(token_budget(4200), high=4200)`.
pub(crate) fn spelled(managers: &str) -> String {
    serde_json::from_str(managers).map_or_else(|_| managers.to_string(), |value| spell(&value))
}

fn spell(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        Value::Array(list) if list.is_empty() => "passthrough".into(),
        Value::Array(list) => list.iter().map(spell).collect::<Vec<_>>().join(" → "),
        Value::Object(members) => {
            let all = members.iter().map(|(name, options)| match options {
                Value::Object(options) if options.is_empty() => name.clone(),
                Value::Object(options) => format!("{name}({})", arguments(options)),
                Value::Null => name.clone(),
                other => format!("{name}({})", spell(other)),
            });
            all.collect::<Vec<_>>().join(" → ")
        }
        other => other.to_string(),
    }
}

/// Options, the first without its name.
fn arguments(options: &serde_json::Map<String, Value>) -> String {
    let one = |(place, (name, value)): (usize, (&String, &Value))| {
        let value = if value.is_object() { spell(value) } else { value.to_string() };
        if place == 0 { value } else { format!("{name}={value}") }
    };
    options.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn managers_are_spelled_as_people_write_them_and_read_back() {
        for text in [
            "passthrough",
            "sliding_window(20)",
            "sticky(token_budget(4200), low=2400)",
            "fit",
            "pin(1, last=2)",
        ] {
            let config = manager::parse(text).unwrap().config();
            let spelled = spelled(&config.to_string());
            assert_eq!(manager::parse(&spelled).unwrap().config(), config, "{text} became {spelled}");
        }
        assert_eq!(spelled("[]"), "passthrough");
        assert_eq!(spelled(r#"["fit",{"turn_window":{"max_turns":3}}]"#), "fit → turn_window(3)");
        assert_eq!(spelled("not json"), "not json");
    }
}
