//! Who asks for a step: a runner as its agent is described.

use std::sync::Arc;
use std::time::Duration;

use scrollback_agent::EventBus;
use scrollback_agent::event::{ContextTightened, ReplyReceived, Throttled};
use scrollback_agent::provider::{Provider, ReplyDelivery, ResponseFormat, Sampling};
use scrollback_agent::runner::{Prompt, Runner, Throttle};
use scrollback_agent::tool::Toolbox;
use scrollback_core::manager::{Compose, Fit, Passthrough, SharedManager};
use scrollback_core::request::LadderStep;
use scrollback_core::{HistoryCurated, model};
use serde_json::{Value, json};

use super::call::Execution;
use super::manager_summaries::Settled;
use crate::{Agent, HistoryManagement, HistoryMode};

impl Execution<'_> {
    /// Who asks, as the agent is described.
    pub(super) fn runner(&self, agent: &Agent, provider: Arc<dyn Provider>, tools: Toolbox) -> Runner {
        let engine = &self.shared.engine;
        let mut runner = Runner::new(provider);
        runner.manager = self.manager(agent, &runner);
        runner.tools = tools;
        runner.clock = Arc::clone(&engine.clock);
        runner.random = Arc::clone(&engine.random);
        runner.catalog = Arc::clone(&engine.catalog);
        runner.stop = engine.stop.clone();
        runner.telemetry = engine.telemetry.of_run(&self.shared.run);
        runner.delivery = if agent.stream { ReplyDelivery::Streamed } else { ReplyDelivery::Whole };
        runner.call_timeout = agent.timeout;
        runner.sampling = Sampling {
            max_output_tokens: Some(agent.max_output_tokens),
            temperature: agent.temperature,
            top_p: agent.top_p,
        };
        runner.meter = Some(Arc::clone(&self.meter) as Arc<dyn scrollback_agent::runner::UsageMeter>);
        runner.throttle = throttle(agent.max_retries);
        runner.preview = engine.preview.as_ref().map(|preview| {
            let (preview, key) = (Arc::clone(preview), self.call.key.clone());
            Arc::new(move |delta: &scrollback_core::stream::Delta| preview(&key, delta))
                as scrollback_agent::runner::Sink
        });
        let bus = EventBus::new(Arc::clone(&engine.clock));
        self.listen(&bus);
        runner.bus = Arc::new(bus);
        runner
    }

    /// Managers of a list, then whatever fits the model's window.
    fn manager(&self, agent: &Agent, runner: &Runner) -> SharedManager {
        let info = runner.provider.describe();
        let known = self.shared.engine.catalog.windows().contains_key(&info.model.to_string())
            || model::facts(&info.model).is_some();
        let fit: Option<SharedManager> = known.then(|| {
            let fit = Fit { model: None, window: None, reserve: Some(agent.max_output_tokens) };
            Arc::new(fit) as SharedManager
        });
        let listed = match self.conversation.map(|conversation| &conversation.history) {
            Some(HistoryManagement::Managers(managers)) if agent.mode == HistoryMode::Chat => {
                Some(Arc::new(Settled(Arc::clone(&managers.manager))) as SharedManager)
            }
            _ => None,
        };
        match (listed, fit) {
            (Some(listed), Some(fit)) => Arc::new(Compose { managers: vec![listed, fit] }),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => Arc::new(Passthrough),
        }
    }

    /// What the runner tells is told as part of the run.
    fn listen(&self, bus: &EventBus) {
        let note = |kind: &'static str| {
            let (shared, key) = (Arc::clone(self.shared), self.call.key.clone());
            move |data: Value| shared.note(&key, kind, data)
        };
        let curated = note("history.curated");
        bus.subscribe::<HistoryCurated>(move |told| {
            if told.event.dropped > 0 || told.event.changed > 0 {
                curated(json!(told.event));
            }
            Ok(())
        });
        let responded = note("agent.response");
        bus.subscribe::<ReplyReceived>(move |told| {
            responded(json!(told.event));
            Ok(())
        });
        let overflowed = note("history.overflow");
        bus.subscribe::<ContextTightened>(move |told| {
            // A cut is told where it is written down: it lasts, and concerns the loop.
            if told.event.step != LadderStep::Cut.as_str() {
                overflowed(json!(told.event));
            }
            Ok(())
        });
        let retried = note("agent.retry");
        bus.subscribe::<Throttled>(move |told| {
            retried(json!(told.event));
            Ok(())
        });
    }

    pub(super) fn prompt(&self) -> Prompt {
        let agent = self.agent();
        let schema = agent.output_schema.clone();
        // Providers take objects at the top; other values are asked for in words and judged here.
        let object = schema.filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"));
        Prompt {
            name: self.call.step.clone(),
            system: agent.system_prompt.clone(),
            user: String::new(),
            response_format: object.map(|schema| ResponseFormat { name: "output".into(), schema }),
        }
    }
}

/// Retries as many as wanted, with the usual waits.
fn throttle(retries: u32) -> Throttle {
    let seconds = Duration::from_secs;
    let made = Throttle::new(retries + 1, Duration::from_millis(500), seconds(8), seconds(30));
    made.unwrap_or_default()
}
