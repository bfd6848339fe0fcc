//! The list of models: the provider's, or where no provider answers those that are known here.

use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use scrollback_core::model::{self, ModelName, Provider, facts};
use serde_json::{Value, json};

use super::Version;
use super::pass_through::{self, who, whose};
use super::upstreams::Answerer;
use crate::App;
use crate::auth::{ApiCaller, unknown};
use crate::problem::HttpProblem;

/// Answers a request for the list of models. Clients ask when they start, so it is answered whatever happens: a provider that
/// cannot be reached, or does not answer, is none, and is not waited for a second time soon.
pub(super) async fn answer(app: &App, version: Version, request: Request) -> Result<Response, HttpProblem> {
    let caller = request.extensions().get::<ApiCaller>().cloned().ok_or_else(unknown)?;
    caller.may_call()?;
    let provider = whose(version, request.headers());
    if let Answerer::Upstream(..) = who(app, provider, request.headers())?
        && !app.upstreams.is_silent(provider)
    {
        let asking =
            tokio::time::timeout(app.settings.limits.connect, pass_through::pass(app, version, request));
        match asking.await {
            Ok(Err(problem)) if problem.status.is_server_error() => {
                if problem.code.starts_with("upstream_") {
                    app.upstreams.note_silence(provider);
                }
            }
            Ok(answer) => return answer,
            Err(_) => app.upstreams.note_silence(provider),
        }
    }
    let names = known(app, provider);
    let body = match provider {
        Provider::Gemini => gemini_list(&names),
        _ => common_list(&names, app),
    };
    Ok(([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response())
}

/// The models of a provider: those the configuration names, and those in the built-in table.
fn known(app: &App, provider: Provider) -> Vec<String> {
    let configured = app.catalog.model_names().into_iter().filter_map(|name| {
        let (of, model) = name.split_once(':')?;
        let fits = of == provider.name() || (provider == Provider::OpenAi && of == "openai-compatible");
        fits.then(|| model.to_string())
    });
    let mut names: Vec<String> = configured.chain(std::iter::once("offline:echo".to_string())).collect();
    let listed: Vec<String> = model::names(provider)
        .filter(|name| !names.iter().any(|known| known == name))
        .map(String::from)
        .collect();
    names.extend(listed);
    names
}

/// The list as the packages of `OpenAI` and Anthropic both read it.
fn common_list(names: &[String], app: &App) -> Value {
    let now = app.now();
    let list: Vec<Value> = names
        .iter()
        .map(|id| {
            json!({
                "id": id, "object": "model", "type": "model", "display_name": id, "owned_by": "scrollback",
                "created": now.0 / 1000, "created_at": now.to_string(),
            })
        })
        .collect();
    json!({
        "object": "list", "has_more": false, "first_id": names.first(), "last_id": names.last(), "data": list,
    })
}

/// The list as Google's packages read it.
fn gemini_list(names: &[String]) -> Value {
    let list = names.iter().map(|name| {
        let window = ModelName::parse(&format!("gemini:{name}"))
            .ok()
            .and_then(|name| facts(&name))
            .map(|facts| facts.context_window);
        json!({
            "name": format!("models/{name}"), "displayName": name, "inputTokenLimit": window,
            "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
        })
    });
    json!({ "models": list.collect::<Vec<_>>() })
}
