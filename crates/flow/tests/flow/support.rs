//! Running flows against agents that answer as they are told and keep every request they were sent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{
    Catalog, ModelInfo, Provider, ProviderError, ReplyStream, Request, Scripted,
};
use scrollback_agent::{BoxFuture, Clock, FakeClock, Seeded};
use scrollback_core::Time;
use scrollback_core::model::ModelName;
use scrollback_core::redact::{Options, Redactor};
use scrollback_core::wire::Wire;
use scrollback_flow::driver::{Engine, Resume, RunRefused, RunReport, RunStart, RunStatus, StepAnswer};
use scrollback_flow::{Flow, FlowSettings, Prompts, QuotaLimits, ReadOptions};
use scrollback_store::{Memory, Store, Tenant};
use serde_json::{Value, json};

/// One request, as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) model: String,
    pub(crate) body: Value,
}

impl Asked {
    /// The messages as `role: text`.
    pub(crate) fn said(&self) -> Vec<String> {
        let messages = self.body["messages"].as_array().cloned().unwrap_or_default();
        let text = |message: &Value| match &message["content"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        messages
            .iter()
            .map(|message| format!("{}: {}", message["role"].as_str().unwrap_or(""), text(message)))
            .collect()
    }

    /// The text of the last message.
    pub(crate) fn last(&self) -> String {
        self.body["messages"]
            .as_array()
            .and_then(|all| all.last())
            .map(|message| message["content"].as_str().unwrap_or("").to_string())
            .unwrap_or_default()
    }
}

/// What an agent answers: an item of a script.
pub(crate) type Reply = Arc<dyn Fn(&Asked, usize) -> Value + Send + Sync>;

/// A provider that answers by what it is asked, and keeps it.
struct Recording {
    model: ModelName,
    asked: Arc<Mutex<Vec<Asked>>>,
    reply: Reply,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.model.fmt(f)
    }
}

impl Provider for Recording {
    fn describe(&self) -> ModelInfo {
        ModelInfo { model: self.model.clone(), wire: Wire::OpenaiChat }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<ReplyStream, ProviderError>> {
        let body = serde_json::from_str(&request.body).unwrap();
        let asked = Asked { model: self.model.to_string(), body };
        let number = {
            let mut all = self.asked.lock().unwrap();
            all.push(asked.clone());
            all.len()
        };
        let item = (self.reply)(&asked, number);
        let script = Script::parse(&json!([item]).to_string()).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let scripted = Scripted::new(self.model.clone(), Arc::new(script));
        Box::pin(async move {
            // Others may be asked meanwhile, and are done before what is slow.
            let slow = asked.last().starts_with("slow");
            for _ in 0..if slow { 200 } else { 1 } {
                tokio::task::yield_now().await;
            }
            scripted.call(request).await
        })
    }
}

/// Everything a test needs to run flows.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
    pub(crate) folder: PathBuf,
    pub(crate) settings: FlowSettings,
}

impl Bench {
    /// Agents reply as `reply` says; runs are kept in memory.
    pub(crate) fn new(reply: impl Fn(&Asked, usize) -> Value + Send + Sync + 'static) -> Self {
        Bench::on(Arc::new(Memory::new()), reply)
    }

    /// The same over some store.
    pub(crate) fn on(
        store: Arc<dyn Store>,
        reply: impl Fn(&Asked, usize) -> Value + Send + Sync + 'static,
    ) -> Self {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let redactor = Arc::new(Redactor::new(&Options::default()).unwrap());
        let mut engine = Engine::new(store, Tenant::default(), Arc::new(Catalog::default()), redactor);
        let (log, reply): (_, Reply) = (Arc::clone(&asked), Arc::new(reply));
        engine.providers = Arc::new(move |name: &str, _: &Path| {
            let provider: Arc<dyn Provider> = Arc::new(Recording {
                model: ModelName::parse(name).unwrap(),
                asked: Arc::clone(&log),
                reply: Arc::clone(&reply),
            });
            Ok(provider)
        });
        let clock = Arc::new(FakeClock::at(Time(1_000_000)));
        engine.clock = clock as Arc<dyn Clock>;
        engine.random = Arc::new(Seeded::new(1));
        Bench { engine, asked, folder: PathBuf::from("."), settings: FlowSettings::default() }
    }

    /// Agents reply with what they were asked.
    pub(crate) fn echo() -> Self {
        Bench::new(|asked, _| json!({ "reply": asked.last() }))
    }

    pub(crate) fn flow(&self, yaml: &str) -> Flow {
        self.read(yaml).unwrap_or_else(|problems| panic!("{problems}"))
    }

    /// What is wrong with a flow.
    pub(crate) fn problems(&self, yaml: &str) -> String {
        self.read(yaml).err().map(|problems| problems.to_string()).unwrap_or_default()
    }

    fn read(&self, yaml: &str) -> Result<Flow, scrollback_flow::Problems> {
        let source = ReadOptions {
            stem: "test",
            folder: &self.folder,
            prompts: Prompts::Disk,
            settings: &self.settings,
            catalog: &self.engine.catalog,
            environment: &self.engine.environment,
        };
        Flow::read(yaml, &source).map(|read| read.flow)
    }

    pub(crate) fn start(&self, yaml: &str, input: Option<&str>) -> RunStart {
        RunStart {
            flow: Arc::new(self.flow(yaml)),
            text: yaml.into(),
            stem: "test".into(),
            folder: self.folder.clone(),
            settings: self.settings.clone(),
            warnings: Vec::new(),
            input: input.map(String::from),
            recipient: None,
            id: None,
            created: None,
        }
    }

    pub(crate) async fn run(&self, yaml: &str, input: &str) -> RunReport {
        self.engine.start(self.start(yaml, Some(input))).await.unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// Runs to its end; what came out.
    pub(crate) async fn done(&self, yaml: &str, input: &str) -> Value {
        let report = self.run(yaml, input).await;
        assert_eq!(report.status, RunStatus::Done, "{report:?}");
        report.output
    }

    /// Runs to its end; the code it fails with.
    pub(crate) async fn fails(&self, yaml: &str, input: &str) -> String {
        let report = self.run(yaml, input).await;
        assert_eq!(report.status, RunStatus::Failed, "{report:?}");
        report.error.map(|error| error.code.to_string()).unwrap_or_default()
    }

    pub(crate) async fn answer(&self, run: &str, text: &str) -> RunReport {
        self.try_answer(run, None, text).await.unwrap_or_else(|refused| panic!("{refused}"))
    }

    pub(crate) async fn try_answer(
        &self,
        run: &str,
        step: Option<&str>,
        text: &str,
    ) -> Result<RunReport, RunRefused> {
        let answer = Some(StepAnswer { step: step.map(String::from), text: text.into() });
        self.engine.resume(Resume { run: run.into(), answer, limits: QuotaLimits::default() }).await
    }

    pub(crate) async fn resume(&self, run: &str) -> Result<RunReport, RunRefused> {
        self.engine.resume(Resume { run: run.into(), ..Resume::default() }).await
    }

    /// Every request so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// What each request said.
    pub(crate) fn said(&self) -> Vec<Vec<String>> {
        self.asked().iter().map(Asked::said).collect()
    }
}
