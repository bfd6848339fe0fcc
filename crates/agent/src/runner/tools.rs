//! The calls of a reply: run in order or side by side, each result recorded as soon as it is there.

use std::collections::VecDeque;
use std::sync::Arc;

use scrollback_core::{Entry, ToolCall};
use serde_json::json;
use tokio::task::JoinSet;

use super::Question;
use super::error::{EvaluationError, EvaluationErrorKind, FailurePhase};
use super::evaluation::Evaluation;
use crate::effects::between;
use crate::event::ToolInvoked;
use crate::session::Checkpoint;
use crate::tool::{Call, Resolved, ToolOutcome, ToolOutput, attempt, shorten};

/// A call that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueuedCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl QueuedCall {
    pub(super) fn of(call: &ToolCall) -> Option<Self> {
        let text = |text: &scrollback_core::Text| text.as_str().into_owned();
        let id = text(call.call_id.as_ref()?);
        Some(QueuedCall { id, name: text(&call.name), arguments: text(&call.arguments) })
    }
}

/// A call that ended.
struct Ran {
    call: QueuedCall,
    outcome: ToolOutcome,
    milliseconds: u64,
    /// Most bytes of a text it may answer with.
    max_output: usize,
    before: Option<Checkpoint>,
}

impl Evaluation<'_> {
    /// Runs the calls of an entry that have no result yet. A question for a person ends it early.
    pub(crate) async fn run_calls(&mut self, entry: &Entry) -> Result<Option<Question>, EvaluationError> {
        let calls = entry.open_calls().filter_map(QueuedCall::of).collect();
        self.run_waiting(calls).await
    }

    pub(super) async fn run_waiting(
        &mut self,
        mut calls: VecDeque<QueuedCall>,
    ) -> Result<Option<Question>, EvaluationError> {
        let mut running: JoinSet<Ran> = JoinSet::new();
        let mut question = None;
        loop {
            while question.is_none() && running.len() < self.runner.parallel.max(1) {
                let Some(call) = calls.pop_front() else { break };
                // Dropping the set ends what runs; what has no result stays pending.
                self.check_halt()?;
                self.start(call, &mut running);
            }
            let Some(ended) = self.unless_halted(running.join_next()).await? else { return Ok(question) };
            let Ok(ran) = ended else { continue };
            match ran.outcome {
                ToolOutcome::Ask(text) => {
                    question.get_or_insert(Question { call_id: ran.call.id, text });
                }
                ToolOutcome::Done(output) => {
                    let answer = answer(&ran.call.id, output, ran.max_output);
                    self.take_result(ran.call, answer, false, ran.milliseconds, ran.before).await?;
                }
                ToolOutcome::Failed(problem) => {
                    let problem = shorten(problem.as_bytes(), problem.len(), ran.max_output);
                    let parts = [json!({ "type": "text", "text": problem })];
                    let answer = Entry::answer(&ran.call.id, &parts, true);
                    self.take_result(ran.call, answer, true, ran.milliseconds, ran.before).await?;
                }
            }
        }
    }

    fn start(&self, call: QueuedCall, running: &mut JoinSet<Ran>) {
        let clock = Arc::clone(&self.runner.clock);
        let resolved = self.runner.tools.resolve(&call.name, &call.arguments);
        let alone = self.runner.parallel <= 1;
        let before = self.runner.session.as_ref().filter(|_| alone).map(|session| session.checkpoint());
        running.spawn(async move {
            let began = clock.now();
            let max_output = resolved.as_ref().map_or(1 << 20, |known| known.tool.spec().max_output);
            let outcome = match resolved {
                Err(problem) => ToolOutcome::Failed(problem),
                Ok(Resolved { tool, arguments }) => {
                    attempt(tool, Call { id: call.id.clone(), arguments }, &*clock).await
                }
            };
            let milliseconds = between(began, clock.now()).as_millis() as u64;
            Ran { call, outcome, milliseconds, max_output, before }
        });
    }

    /// Records a result and tells of it.
    pub(super) async fn take_result(
        &mut self,
        call: QueuedCall,
        answer: Entry,
        is_error: bool,
        milliseconds: u64,
        before: Option<Checkpoint>,
    ) -> Result<(), EvaluationError> {
        let result = answer.content().unwrap_or_default();
        let report = self.tools.entry(call.name.clone()).or_default();
        report.calls += 1;
        report.errors += u32::from(is_error);
        self.errors_in_a_row = if is_error { self.errors_in_a_row + 1 } else { 0 };
        self.record(answer, None).await?;
        let (call_id, name, arguments) = (call.id, call.name, call.arguments);
        let event = ToolInvoked { call_id, name, arguments, result, is_error, milliseconds };
        self.tell_tool(&event);
        self.invoked(&event, before);
        if self.errors_in_a_row >= self.runner.max_tool_errors {
            let count = self.errors_in_a_row;
            let message = format!("{count} calls in a row failed; the last: {}", event.result);
            return Err(EvaluationError::new(FailurePhase::Tool, EvaluationErrorKind::ToolErrors, message));
        }
        Ok(())
    }

    /// Tells of a call. Where a reducer fails, the state is as it was before the tool.
    fn invoked(&self, event: &ToolInvoked, before: Option<Checkpoint>) {
        let session = self.runner.session.as_ref();
        let before = before.or_else(|| session.map(|session| session.checkpoint()));
        let told = self.runner.bus.publish(self.runner.session_id(), event);
        let Err(failed) = told.raise() else { return };
        if let Some((session, before)) = session.zip(before) {
            session.go_back(&before);
        }
        self.tell(&crate::event::StateRolledBack {
            call_id: event.call_id.clone(),
            reason: failed.to_string(),
        });
    }
}

/// What a tool answered, as an entry.
fn answer(call_id: &str, output: ToolOutput, max_output: usize) -> Entry {
    match output {
        ToolOutput::Parts(parts) => Entry::answer(call_id, &parts, false),
        other => {
            let text = other.into_text();
            Entry::result(call_id, &shorten(text.as_bytes(), text.len(), max_output))
        }
    }
}
