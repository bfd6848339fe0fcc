//! One agent step: what it is sent, what it answers, and what is done when that does not fit.

use std::sync::{Arc, Mutex};

use scrollback_agent::journal::{Journal, Keeper};
use scrollback_agent::provider::{ErrorKind, Provider};
use scrollback_agent::runner::{EvaluationEnd, EvaluationError, EvaluationErrorKind, OnOverflow};
use scrollback_agent::tool::Toolbox;
use scrollback_core::tokens::Counter;
use scrollback_core::{Entry, Role};
use scrollback_store::{ConversationId, StepStatus, StepType, StoreError};
use serde_json::{Value, json};

use super::ledger::{Batch, LedgerItem};
use super::meter::StepMeter;
use super::recorder::{Stash, StepRecorder};
use super::{Injection, Shared};
use crate::advance::{AgentCall, FlowEvent, StepRow};
use crate::error::{RunError, RunErrorKind};
use crate::passed_values::EntryId;
use crate::usage::RunUsage;
use crate::{Agent, AgentStep, LoopMemory, Step, StepKind};

/// The result of a call, and what is to be written with it.
pub(crate) struct Called {
    pub(super) event: FlowEvent,
    pub(super) batch: Batch,
}

/// An agent step under way.
pub(crate) struct Execution<'s> {
    pub(super) shared: &'s Arc<Shared>,
    pub(super) call: &'s AgentCall,
    pub(super) step: &'s AgentStep,
    /// The conversational loop it is in, if its history is sent.
    pub(super) conversation: Option<&'s LoopMemory>,
    pub(super) provider: Arc<dyn Provider>,
    tools: Toolbox,
    pub(super) meter: Arc<StepMeter>,
    pub(super) keeper: Arc<StepRecorder>,
    pub(super) counter: Counter,
}

/// Why a step has no reply.
pub(super) enum Unanswered {
    /// The run was asked to stop.
    Stopped,
    Failed(RunError),
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Self {
        let code = match error.kind() {
            scrollback_store::ErrorKind::Busy => RunErrorKind::Busy,
            _ => RunErrorKind::StoreError,
        };
        Unanswered::Failed(RunError { step: None, ..RunError::new(code, "", error.to_string()) })
    }
}

/// Asks an agent. Whatever happens comes back as an event.
pub(super) async fn execute(shared: Arc<Shared>, call: AgentCall, before: RunUsage) -> Called {
    let flow = Arc::clone(&shared.flow);
    let (key, account) = (call.key.clone(), call.account);
    let found = find(&flow.steps, &call.step, None);
    let Some((Step { kind: StepKind::Agent(step), .. }, conversation)) = found else {
        let error = RunError::new(RunErrorKind::StoreError, &key, "the flow that is stored has no such step");
        return Called { event: FlowEvent::Failed { key, error, usage: before }, batch: Batch::default() };
    };
    let meter = Arc::new(StepMeter::new(&shared, &key, account, step.agent.max_output_tokens, before));
    let made = Execution::new(&shared, &call, step, conversation, &meter).await;
    let ended = match made {
        Ok(execution) => {
            let ended = execution.run().await;
            let (batch, _) = execution.keeper.take();
            ended.map_err(|unanswered| (unanswered, batch))
        }
        Err(unanswered) => Err((unanswered, Batch::default())),
    };
    let usage = meter.usage();
    match ended {
        Ok(mut called) => {
            if let FlowEvent::Replied { usage: used, .. } = &mut called.event {
                *used = usage;
            }
            called
        }
        Err((Unanswered::Stopped, mut batch)) => {
            batch.steps.push(StepRow { usage: Some(usage), ..running(&shared, &call) });
            Called { event: FlowEvent::Stopped { key }, batch }
        }
        Err((Unanswered::Failed(mut error), batch)) => {
            error.message = shared.teller.redact(&error.message);
            error.step = Some(key.clone());
            Called { event: FlowEvent::Failed { key, error, usage }, batch }
        }
    }
}

/// A step of that name, and the innermost conversational loop around it.
pub(super) fn find<'f>(
    steps: &'f [Step],
    name: &str,
    around: Option<&'f LoopMemory>,
) -> Option<(&'f Step, Option<&'f LoopMemory>)> {
    steps.iter().find_map(|step| {
        if step.name == name {
            return Some((step, around));
        }
        let inner = match &step.kind {
            StepKind::Loop(inner) => inner.conversation.as_ref().or(around),
            _ => around,
        };
        step.kind.bodies().into_iter().find_map(|body| find(body, name, inner))
    })
}

/// The row of a step while it runs.
fn running(shared: &Shared, call: &AgentCall) -> StepRow {
    StepRow {
        key: call.key.clone(),
        within: call.within.clone(),
        kind: StepType::Step,
        asks: true,
        status: StepStatus::Running,
        attempt: shared.with_state(|state| state.attempt(&call.key)),
        input: Some(call.input.value.as_ref().clone()),
        output: None,
        evaluation: Some(call.evaluation),
        usage: None,
        error: None,
    }
}

impl<'s> Execution<'s> {
    async fn new(
        shared: &'s Arc<Shared>,
        call: &'s AgentCall,
        step: &'s AgentStep,
        conversation: Option<&'s LoopMemory>,
        meter: &Arc<StepMeter>,
    ) -> Result<Self, Unanswered> {
        let provider = shared.provider(&step.agent).map_err(Unanswered::Failed)?;
        let mut tools = shared.tools(&step.agent).await.map_err(Unanswered::Failed)?;
        if step.recall {
            shared.add_recall(&mut tools).map_err(Unanswered::Failed)?;
        }
        let counter = Counter::for_model(Some(&provider.describe().model));
        let keeper = Arc::new(StepRecorder {
            shared: Arc::clone(shared),
            conversation: shared.conversation.clone(),
            key: call.key.clone(),
            row: Some(running(shared, call)),
            meter: Arc::clone(meter),
            counter,
            stash: Mutex::new(Stash::default()),
        });
        let wanted = step.use_history && shared.engine.injection == Injection::On;
        Ok(Execution {
            shared,
            call,
            step,
            conversation: conversation.filter(|_| wanted),
            provider,
            tools,
            meter: Arc::clone(meter),
            keeper,
            counter,
        })
    }

    pub(super) fn agent(&self) -> &'s Agent {
        &self.step.agent
    }

    /// Asks until there is a reply that fits.
    async fn run(&self) -> Result<Called, Unanswered> {
        let mut asked_again = false;
        let mut runner = self.runner(&self.agent().clone(), Arc::clone(&self.provider), self.tools.clone());
        let prompt = self.prompt();
        loop {
            self.condense().await?;
            let sheet = self.prepare().await?;
            let in_text = self.turns_in_text();
            runner.overflow = in_text.as_ref().map_or(OnOverflow::Tighten, |_| OnOverflow::Fail);
            let mut journal = Journal::elsewhere(sheet.record, Arc::clone(&self.keeper) as Arc<dyn Keeper>);
            let evaluated = runner.carry_on(&mut journal, &prompt, self.call.evaluation).await;
            let error = match evaluated.ended {
                EvaluationEnd::Replied { .. } => None,
                EvaluationEnd::Failed(error) if error.kind == EvaluationErrorKind::BadOutput => None,
                EvaluationEnd::Failed(error) => Some(error),
                EvaluationEnd::Paused(question) => {
                    let message = format!("a tool asks a person ({}); use a hitl step", question.text);
                    return Err(self.failed(RunErrorKind::ToolErrors, message));
                }
            };
            if let Some(error) = error {
                match in_text.filter(|_| error.kind == EvaluationErrorKind::ContextOverflow) {
                    Some(turns) => self.halve(&turns).await?,
                    None => return Err(self.unanswered(&error)),
                }
                continue;
            }
            let (batch, reply) = self.keeper.take();
            let Some(reply) = reply else {
                return Err(self.failed(RunErrorKind::ProviderError, "the model did not reply".into()));
            };
            let text = spoken(&reply);
            match meaning(&text, self.agent().output_schema.as_ref()) {
                Ok(value) => return Ok(self.replied(batch, reply, &text, value)),
                Err(problem) if asked_again => {
                    self.keep(batch, reply).await?;
                    let message = format!("the reply does not fit output_schema, twice: {problem}");
                    return Err(self.failed(RunErrorKind::OutputInvalid, message));
                }
                Err(problem) => {
                    asked_again = true;
                    self.ask_again(batch, reply, &problem).await?;
                }
            }
        }
    }

    /// The reply that ends the step, with everything that is written with it.
    fn replied(&self, mut batch: Batch, reply: Entry, text: &str, value: Value) -> Called {
        let entry = EntryId { evaluation: reply.evaluation_id, sequence: reply.sequence };
        batch.items.push(LedgerItem::Entry(Box::new(reply)));
        let event = FlowEvent::Replied {
            key: self.call.key.clone(),
            entry,
            text: text.into(),
            value,
            usage: RunUsage::default(),
        };
        Called { event, batch }
    }

    /// Writes down a reply that was none.
    async fn keep(&self, mut batch: Batch, reply: Entry) -> Result<(), Unanswered> {
        batch.items.push(LedgerItem::Entry(Box::new(reply)));
        Ok(self.shared.commit(batch).await?)
    }

    /// Says what was wrong with a reply, as part of the step's own exchange.
    async fn ask_again(&self, mut batch: Batch, reply: Entry, problem: &str) -> Result<(), Unanswered> {
        let id = EntryId { evaluation: reply.evaluation_id, sequence: reply.sequence + 1 };
        let text = format!(
            "Your answer does not fit what was asked for: {problem}. Answer again with only the JSON value."
        );
        batch.items.push(LedgerItem::Entry(Box::new(reply)));
        batch.items.push(LedgerItem::said(id, Role::User, &text, self.shared.now()));
        batch.steps.push(StepRow { usage: Some(self.meter.usage()), ..running(self.shared, self.call) });
        Ok(self.shared.commit(batch).await?)
    }

    pub(super) fn failed(&self, code: RunErrorKind, message: String) -> Unanswered {
        Unanswered::Failed(RunError::new(code, &self.call.key, message))
    }

    /// Why there is no reply, in the words of flows.
    fn unanswered(&self, error: &EvaluationError) -> Unanswered {
        if let Some(breach) = self.meter.breach().filter(|_| error.kind == EvaluationErrorKind::Quota) {
            return Unanswered::Failed(RunError::quota(&self.call.key, &breach));
        }
        let failed = |code: RunErrorKind| RunError::new(code, &self.call.key, error.message.clone());
        Unanswered::Failed(match (error.kind, error.provider) {
            (EvaluationErrorKind::Interrupted, _) => return Unanswered::Stopped,
            (EvaluationErrorKind::BudgetTooSmall, _) | (EvaluationErrorKind::ContextOverflow, None) => {
                failed(RunErrorKind::ContextTooLarge)
            }
            (EvaluationErrorKind::ToolErrors, _) => failed(RunErrorKind::ToolErrors),
            (EvaluationErrorKind::TooManyRounds, _) => failed(RunErrorKind::TooManyRounds),
            (_, Some(ErrorKind::ContextOverflow(_))) => failed(RunErrorKind::ContextOverflow),
            (_, Some(ErrorKind::Timeout)) => failed(RunErrorKind::Timeout),
            (_, Some(ErrorKind::Truncated)) => failed(RunErrorKind::StreamCut),
            (_, Some(kind)) => failed(RunErrorKind::ProviderError).with(json!({ "kind": kind.as_str() })),
            (EvaluationErrorKind::InvalidRequest | EvaluationErrorKind::NoReply, None) => {
                failed(RunErrorKind::ProviderError).with(json!({ "kind": "invalid_request" }))
            }
            _ => failed(RunErrorKind::StoreError),
        })
    }
}

/// The text of a reply, as the model wrote it: text blocks only.
pub(crate) fn spoken(entry: &Entry) -> String {
    use scrollback_core::BlockKind;
    let texts = entry.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Text(text) => Some(text.as_str().into_owned()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What a reply means: itself, or the JSON value that was asked for.
fn meaning(text: &str, schema: Option<&Value>) -> Result<Value, String> {
    let Some(schema) = schema else { return Ok(Value::from(text)) };
    let bare = text.trim();
    let fenced = bare
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .map(|inner| inner.split_once('\n').map_or(inner, |(_, json)| json));
    let value = serde_json::from_str::<Value>(fenced.unwrap_or(bare).trim());
    let value = value.map_err(|error| format!("it is not a JSON value: {error}"))?;
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    let problem = validator.iter_errors(&value).next().map(|error| {
        let path = error.instance_path.to_string();
        if path.is_empty() { error.to_string() } else { format!("at {path}: {error}") }
    });
    problem.map_or(Ok(value), Err)
}

/// A recorder for calls that are not a step of their own, such as those that summarise.
pub(super) fn side_recorder(
    shared: &Arc<Shared>,
    conversation: &ConversationId,
    key: String,
    meter: &Arc<StepMeter>,
    counter: Counter,
) -> Arc<StepRecorder> {
    Arc::new(StepRecorder {
        shared: Arc::clone(shared),
        conversation: conversation.clone(),
        key,
        row: None,
        meter: Arc::clone(meter),
        counter,
        stash: Mutex::new(Stash::default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_its_text_or_the_value_that_was_asked_for() {
        assert_eq!(meaning(" {\"a\":1} ", None), Ok(Value::from(" {\"a\":1} ")));
        let schema =
            json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "integer" } } });
        assert_eq!(meaning(" {\"a\":1} ", Some(&schema)), Ok(json!({ "a": 1 })));
        assert_eq!(meaning("```json\n{\"a\":1}\n```", Some(&schema)), Ok(json!({ "a": 1 })));
        assert!(meaning("a = 1", Some(&schema)).is_err_and(|why| why.contains("not a JSON value")));
        assert!(meaning("{\"a\":\"x\"}", Some(&schema)).is_err_and(|why| why.contains("/a")));
        assert_eq!(meaning("[1, 2]", Some(&json!({ "type": "array" }))), Ok(json!([1, 2])));
    }
}
