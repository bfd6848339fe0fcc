//! Which server this is, for programs that find one and want to know whether to use it.

use schemars::JsonSchema;
use scrollback_core::model::Provider;
use serde::Serialize;

use super::operation::{ApiRequest, Nothing, Operation};
use crate::HttpProblem;

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation::get(
        "/server",
        "getServer",
        "Which server this is: its version, its store, and the providers it passes requests on to.",
        one,
    )]
}

/// A server.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Server")]
pub(crate) struct ServerAnswer {
    /// Its version.
    version: &'static str,
    /// Where it keeps its record, without passwords.
    store: String,
    /// The providers it passes requests on to.
    upstreams: UpstreamsAnswer,
}

/// Base URLs of providers; null where requests cannot be passed on.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Upstreams")]
pub(crate) struct UpstreamsAnswer {
    /// For clients of `OpenAI`.
    openai: Option<String>,
    /// For clients of Anthropic.
    anthropic: Option<String>,
    /// For clients of Gemini.
    gemini: Option<String>,
}

async fn one(asking: ApiRequest, _: Nothing) -> Result<ServerAnswer, HttpProblem> {
    let app = &asking.app;
    // A server whose store does not answer cannot be used.
    app.store.keys().await?;
    let base = |provider| Some(app.upstreams.get(&app.catalog, provider, "").ok()?.base_url());
    Ok(ServerAnswer {
        version: env!("CARGO_PKG_VERSION"),
        store: app.store.describe(),
        upstreams: UpstreamsAnswer {
            openai: base(Provider::OpenAi),
            anthropic: base(Provider::Anthropic),
            gemini: base(Provider::Gemini),
        },
    })
}
