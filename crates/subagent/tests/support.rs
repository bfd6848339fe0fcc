//! Missions against scripted models, with what was really sent kept.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{
    Environment, ModelInfo, Provider, ProviderError, ReplyStream, Request, Scripted,
};
use scrollback_agent::tool::{Function, Tool, tool};
use scrollback_agent::{BoxFuture, FakeClock};
use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;
use scrollback_lisp::Value;
use scrollback_subagent::{Host, InheritedSettings, Overlay, Step, SubAgent, SubagentFile};
use serde_json::{Value as Json, json};

/// Bodies of requests, in order.
pub(crate) type Bodies = Arc<Mutex<Vec<Json>>>;

/// A model that reads out a script.
pub(crate) fn scripted(script: &str) -> Arc<dyn Provider> {
    let model = ModelName::parse("offline:script=test").unwrap();
    let script = Script::parse(script).unwrap_or_else(|problems| panic!("{problems:?}"));
    Arc::new(Scripted::new(model, Arc::new(script)))
}

/// A script of replies with one program each.
pub(crate) fn programs(programs: &[&str]) -> Arc<dyn Provider> {
    let replies: Vec<Json> =
        programs.iter().map(|program| json!({ "reply": format!("```clojure\n{program}\n```") })).collect();
    scripted(&json!(replies).to_string())
}

/// A model that is a function of the request, and remembers nothing else.
pub(crate) struct Thinking<F>(pub(crate) F);

impl<F> std::fmt::Debug for Thinking<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Thinking")
    }
}

impl<F: Fn(&Json) -> String + Send + Sync> Provider for Thinking<F> {
    fn describe(&self) -> ModelInfo {
        ModelInfo { model: ModelName::parse("offline:script=thinking").unwrap(), wire: Wire::OpenaiChat }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<ReplyStream, ProviderError>> {
        let reply = (self.0)(&serde_json::from_str(&request.body).unwrap());
        let once = scripted(&json!([{ "reply": reply }]).to_string());
        Box::pin(async move { once.call(request).await })
    }
}

/// A host whose clock stands still, and which keeps what was sent.
pub(crate) fn host() -> (Arc<Host>, Bodies) {
    let (host, bodies) = plain_host();
    (Arc::new(host), bodies)
}

pub(crate) fn plain_host() -> (Host, Bodies) {
    let bodies = Bodies::default();
    let kept = Arc::clone(&bodies);
    let host = Host {
        clock: Arc::new(FakeClock::default()),
        trace: Some(Arc::new(move |attempt| {
            kept.lock().unwrap().push(serde_json::from_str(attempt.request.get()).unwrap());
        })),
        ..Host::default()
    };
    (host, bodies)
}

pub(crate) fn environment() -> Environment {
    Arc::new(|name| (name == "TOKEN").then(|| "secret".into()))
}

/// An agent from the text of a file.
pub(crate) async fn agent(yaml: &str) -> SubAgent {
    let file = SubagentFile::parse(yaml, Path::new("."), &Overlay::default(), &environment());
    let file = file.unwrap_or_else(|problems| panic!("{problems:?}"));
    file.connect(&scrollback_agent::provider::Catalog::default()).await.unwrap()
}

pub(crate) fn with(model: Arc<dyn Provider>) -> InheritedSettings {
    InheritedSettings { model: Some(model), ..InheritedSettings::default() }
}

/// Runs an agent in memory.
pub(crate) async fn run(agent: &SubAgent, settings: &InheritedSettings, host: &Arc<Host>) -> Step {
    agent.run(&BTreeMap::new(), settings, host, &mut host.journal()).await.unwrap()
}

/// The text of one message of one request.
pub(crate) fn text(bodies: &Bodies, request: usize, message: usize) -> String {
    bodies.lock().unwrap()[request]["messages"][message]["content"].as_str().unwrap().to_string()
}

/// A tool that is a function of its arguments.
pub(crate) fn function(
    name: &str,
    run: impl Fn(Json) -> Result<Json, String> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let made: Function = tool(name, "", json!({ "type": "object" }), move |args: Json| {
        let answer = run(args);
        async move { answer }
    });
    Arc::new(made)
}

/// What a mission ended with, in one line.
pub(crate) fn ended(step: &Step) -> String {
    match &step.outcome {
        Ok(value) => format!("done {value}"),
        Err(fail) => format!("{} {}", fail.reason.as_str(), fail.message),
    }
}

pub(crate) fn value(text: &str) -> Value {
    Value::read(text).unwrap()
}

/// Numbers that look random, from a seed.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit.max(1) as u64) as usize
    }
}
