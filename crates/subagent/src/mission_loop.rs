//! The loop: ask, run the program, write down the turn, until the mission has come to an end.

use std::collections::VecDeque;
use std::sync::Arc;

use scrollback_agent::between;
use scrollback_agent::event::ToolInvoked;
use scrollback_agent::exchange::Make;
use scrollback_agent::journal::Journal;
use scrollback_agent::runner::{
    AttemptUsage, Evaluation, EvaluationEnd, EvaluationError, EvaluationErrorKind, FailurePhase, Prompt,
    Runner,
};
use scrollback_core::Role;
use scrollback_lisp::{CancelToken, Memory, Outcome, ProgramEnd, Reason, Validation, Value};
use uuid::Uuid;

use super::agent::OnMemoryLimit;
use super::compression::{TurnLedger, feedback};
use super::extract::extract;
use super::plan::MissionPlan;
use super::program::{Attempt, Played, Work};
use super::record::{
    Left, Opening, Positions, RecordedMission, mission_entry, raw_response, said, turn_entry,
};
use super::requests::{NextTurn, Requests};
use super::smaller_requests::Tightened;
use super::step::{EndReason, Fail, Sent, SentCall, Step, rounded};
use super::system_prompt::SystemPrompt;
use super::turn::{
    MEMORY_LIMIT_EXCEEDED, NO_CODE_FOUND, Turn, TurnError, TurnUsage, VALIDATION_ERROR, changed,
};
use super::turn_checks::{self, Sizes};

/// What the model is told when its reply has no program.
const NO_CODE: &str = "no program found: reply with one ```clojure block";

/// A mission under way.
pub(crate) struct Working<'r> {
    plan: &'r MissionPlan,
    pub(crate) evaluation: Evaluation<'r>,
    /// The turns so far, and what requests are made of. Alone here but while a request is under way.
    requests: Arc<Requests>,
    /// The values of the last programs, newest first.
    history: VecDeque<Value>,
    /// How much the definitions take.
    sizes: Sizes,
    calls: Vec<SentCall>,
    children: Vec<Uuid>,
    /// A reply that was recorded, and whose program was perhaps begun.
    unplayed: Option<u64>,
    warnings: Vec<String>,
    system_hash: String,
}

/// How a turn leaves the mission.
enum After {
    Next,
    Over(Result<Value, Fail>),
}

impl<'r> Working<'r> {
    pub(crate) fn new(
        plan: &'r MissionPlan,
        runner: &'r Runner,
        journal: &'r mut Journal,
        prompt: &'r Prompt,
    ) -> Self {
        Working {
            plan,
            evaluation: Evaluation::new(runner, journal, prompt),
            requests: Arc::new(Requests {
                strategy: Arc::clone(&plan.strategy),
                input: Arc::new(plan.input.clone()),
                wire: runner.provider.describe().wire,
                turns: Vec::new(),
                ledger: TurnLedger::default(),
                memory: Memory::default(),
                positions: Positions::default(),
            }),
            history: VecDeque::new(),
            sizes: Sizes::default(),
            calls: Vec::new(),
            children: Vec::new(),
            unplayed: None,
            warnings: plan.warnings.clone(),
            system_hash: SystemPrompt::identity(&plan.input.system).0,
        }
    }

    /// Records the instructions and the mission.
    pub(crate) async fn begin(&mut self) -> Result<(), Fail> {
        let model = self.evaluation.runner.provider.describe().model;
        let opening = Opening {
            agent: &self.plan.agent.name,
            input: &self.plan.input,
            compression: &self.plan.chosen,
            parent: self.plan.family.parent,
            model: &model,
        };
        self.requests_mut().weigh();
        let first = self.requests.render(&Tightened::default());
        let text = first.messages.get(1).map_or("", |message| &message.text);
        let entry = mission_entry(text, &opening);
        self.evaluation.begin_with(entry).await.map_err(|error| failed(&error))?;
        let record = self.evaluation.journal.record();
        let is_system = |at: &u64| record.entry(*at).is_some_and(|entry| entry.role == Role::System);
        let mission = (record.len() as u64).saturating_sub(1);
        let system = (0..mission).rev().find(is_system);
        self.requests_mut().positions = Positions { system, mission, turns: Vec::new() };
        Ok(())
    }

    fn requests_mut(&mut self) -> &mut Requests {
        Arc::make_mut(&mut self.requests)
    }

    /// Takes up what was recorded.
    pub(crate) fn restore(&mut self, recorded: RecordedMission) {
        let memory = recorded.memory();
        self.sizes = Sizes::of(&memory);
        let values = recorded.turns.iter().rev().filter(|turn| turn.success());
        self.history = values.filter_map(|turn| turn.result.clone()).take(3).collect();
        self.children = recorded.children;
        self.unplayed = recorded.unplayed;
        let requests = self.requests_mut();
        (requests.memory, requests.positions, requests.turns) = (memory, recorded.positions, recorded.turns);
        requests.ledger.advance(&requests.turns);
        for (count, hash) in recorded.sent.into_iter().enumerate() {
            // What was written down when it was sent, so that a trace can tell whether this is the same.
            let call = SentCall { hash, ..self.call_before(count) };
            self.calls.push(call);
            if let Some(turn) = self.requests.turns.get(count) {
                self.evaluation.spent.add(&turn.usage.model);
            }
        }
    }

    /// What the call before a turn was sent, made again.
    fn call_before(&self, count: usize) -> SentCall {
        self.requests.call_before(self.evaluation.journal.record(), count)
    }

    /// Goes on after an interruption: first with a reply whose program has no end yet.
    pub(crate) async fn go_on(&mut self) -> Result<Value, Fail> {
        if let Some(position) = self.unplayed.take() {
            let call = self.call_before(self.requests.turns.len());
            self.calls.push(call);
            let before = self.evaluation.spent.clone();
            let reported =
                self.evaluation.journal.entry(position).and_then(|entry| entry.meta.as_ref()?.usage.clone());
            let prices = self.evaluation.runner.prices_of(&self.evaluation.runner.provider.describe().model);
            self.evaluation.spent.add(&AttemptUsage::reported(reported.as_ref(), (0, 0), prices));
            if let After::Over(outcome) = self.play(position, &before, Attempt::Again).await? {
                return outcome;
            }
        }
        self.turns().await
    }

    /// Turn after turn until the end.
    pub(crate) async fn turns(&mut self) -> Result<Value, Fail> {
        loop {
            let left = self.requests.ledger.turns_left(self.requests.turns.len(), &self.plan.input);
            if left == 0 {
                return Err(self.out_of_turns());
            }
            self.evaluation.check_halt().map_err(|error| failed(&error))?;
            self.plan.family.take_turn()?;
            if let After::Over(outcome) = self.turn().await? {
                return outcome;
            }
        }
    }

    fn out_of_turns(&self) -> Fail {
        let count = self.requests.turns.len();
        let plural = if count == 1 { "" } else { "s" };
        let last = self.requests.turns.last().and_then(|turn| turn.error.as_ref());
        let why = last.map_or_else(String::new, |error| format!("; the last error: {}", error.message));
        let (reason, hint) = match last {
            Some(error) if self.plan.input.max_turns == 1 && error.reason == NO_CODE_FOUND => {
                (EndReason::NoCodeFound, "")
            }
            _ => (EndReason::MaxTurnsExceeded, "; raise max_turns"),
        };
        Fail::new(reason, format!("{count} turn{plural} went by without a (return value){hint}{why}"))
    }

    /// What the next request is as the record stands.
    fn next_call(&self) -> SentCall {
        let record = self.evaluation.journal.record();
        let tightened = Tightened::of(record, &self.requests.positions, record.len() as u64);
        self.requests.call(record, tightened)
    }

    /// One turn: asks, runs, records.
    async fn turn(&mut self) -> Result<After, Fail> {
        self.requests_mut().weigh();
        let provider = Arc::clone(&self.evaluation.runner.provider);
        let call = self.next_call();
        self.calls.push(call);
        let before = self.evaluation.spent.clone();
        self.evaluation.rounds += 1;
        let (asked, own) = self.evaluation.without_tools(&provider, None);
        let (requests, policy) = (Arc::clone(&self.requests), Arc::clone(&self.evaluation.policy));
        let make: Make = Arc::new(NextTurn { requests, asked, policy, own });
        let entries = self.evaluation.journal.record().len();
        let answered = self.evaluation.ask(&provider, &make, self.evaluation.runner.overflow).await;
        drop(make);
        if self.evaluation.journal.record().len() > entries {
            // It was too large: what was sent in the end is smaller.
            let call = self.next_call();
            self.calls.pop();
            self.calls.push(call);
        }
        let answered = match answered {
            Ok(answered) => answered,
            Err(none) => return Err(failed(&self.evaluation.keep_partial(none).await)),
        };
        let entry = answered.reply.entry().map_err(|error| failed(&EvaluationError::unreadable(&error)))?;
        let recorded = self.evaluation.record_reply(entry, answered.sent).await;
        let position = recorded.map_err(|error| failed(&error))?;
        self.play(position, &before, Attempt::First).await
    }

    /// Runs the program of a recorded reply, and records its result.
    async fn play(&mut self, position: u64, spent: &AttemptUsage, attempt: Attempt) -> Result<After, Fail> {
        let began = self.evaluation.now();
        let Some(entry) = self.evaluation.journal.entry(position).cloned() else {
            return Err(Fail::new(EndReason::LlmError, "the reply was not recorded"));
        };
        let program = extract(&said(&entry));
        let played = match &program {
            Some(source) => Some(self.run_program(source, attempt).await?),
            None => None,
        };
        let mut turn = Turn {
            number: self.requests.turns.len() + 1,
            raw_response: raw_response(&entry),
            program,
            result: None,
            prints: Vec::new(),
            tool_calls: Vec::new(),
            memory: self.requests.memory.clone(),
            error: None,
            usage: TurnUsage { model: self.evaluation.spent.since(spent), ..TurnUsage::default() },
            defined: Vec::new(),
        };
        let mut children = Vec::new();
        let after = match played {
            None => {
                turn.error = Some(TurnError { reason: NO_CODE_FOUND.into(), message: NO_CODE.into() });
                After::Next
            }
            Some(Played { outcome, nested }) => {
                for child in nested {
                    children.extend(child.trace_id);
                    self.evaluation.spent.add(&child.spent);
                }
                match outcome {
                    Ok(outcome) => self.take(&mut turn, *outcome),
                    Err(error) => {
                        turn.error =
                            Some(TurnError { reason: error.reason.as_str().into(), message: error.text() });
                        After::Next
                    }
                }
            }
        };
        turn.usage.time = between(began, self.evaluation.now());
        self.record(position, turn, children, &after).await?;
        Ok(after)
    }

    async fn run_program(&mut self, source: &str, attempt: Attempt) -> Result<Played, Fail> {
        let plan = self.plan;
        let work = Arc::new(Work {
            host: Arc::clone(&plan.host),
            tools: Arc::clone(&plan.tools),
            limits: plan.limits.clone(),
            cancel: CancelToken::new(),
            attempt,
            settings: plan.settings.clone(),
            family: plan.family.called_by(self.evaluation.id, self.evaluation.telemetry_inside()),
            conversation: self.evaluation.conversation_id(),
            call_prefix: format!("{}_{}", self.evaluation.id, self.requests.turns.len() + 1),
        });
        let env = plan.env.clone().memory(&self.requests.memory).history(self.history.iter().cloned());
        let env = env.now(plan.host.clock.now().0);
        let played = work.play(source, env);
        self.evaluation.unless_halted(played).await.map_err(|error| failed(&error))
    }

    /// What the outcome of a program means for the turn and the mission.
    fn take(&mut self, turn: &mut Turn, outcome: Outcome) -> After {
        turn.prints = outcome.prints;
        if outcome.prints_dropped > 0 {
            turn.prints.push(format!("... {} more prints were not kept", outcome.prints_dropped));
        }
        turn.tool_calls = outcome.tool_calls;
        (turn.usage.fuel, turn.usage.memory_bytes) = (outcome.usage.fuel, outcome.usage.memory_bytes);
        self.warnings
            .extend(outcome.warnings.iter().map(|warning| format!("turn {}: {warning}", turn.number)));
        let (value, returns) = match outcome.result {
            Ok(ProgramEnd::Returned(value)) => (value, true),
            // With one turn there is no other way to answer.
            Ok(ProgramEnd::Value(value)) => (value, self.plan.input.max_turns == 1),
            Err(error) => {
                turn.error = Some(TurnError { reason: error.reason.as_str().into(), message: error.text() });
                if error.reason == Reason::Failed {
                    return After::Over(Err(Fail::new(EndReason::Failed, error.message)));
                }
                return After::Next;
            }
        };
        if returns && let Some(mismatch) = self.mismatch(&value, turn.number) {
            turn.error = Some(TurnError { reason: VALIDATION_ERROR.into(), message: mismatch });
            return After::Next;
        }
        let sizes =
            self.sizes.after(&self.requests.memory, &outcome.memory, self.plan.agent.limits.memory_limit);
        if let Err(message) = sizes.map(|sizes| self.sizes = sizes) {
            turn.error = Some(TurnError { reason: MEMORY_LIMIT_EXCEEDED.into(), message: message.clone() });
            return match self.plan.agent.limits.on_memory_limit {
                OnMemoryLimit::FailTurn => After::Next,
                OnMemoryLimit::Stop => After::Over(Err(Fail::new(EndReason::MemoryLimitExceeded, message))),
            };
        }
        turn.defined = changed(&self.requests.memory, &outcome.memory);
        turn.memory = outcome.memory;
        turn.result = Some(value.clone());
        if !returns {
            return After::Next;
        }
        let precision = self.plan.agent.float_precision;
        After::Over(Ok(precision.map_or(value.clone(), |decimals| rounded(&value, decimals, 0))))
    }

    /// Why a returned value does not fit, as the model is told; where that is only a warning, it is kept as one.
    fn mismatch(&mut self, value: &Value, turn: usize) -> Option<String> {
        let mode = self.plan.agent.validation;
        let text = turn_checks::mismatch(&self.plan.input.signature.as_ref()?.output, mode, value)?;
        if mode == Validation::WarnOnly {
            self.warnings.push(format!("turn {turn}: {text}"));
            return None;
        }
        Some(text)
    }

    /// Writes down a turn.
    async fn record(
        &mut self,
        reply: u64,
        turn: Turn,
        children: Vec<Uuid>,
        after: &After,
    ) -> Result<(), Fail> {
        self.tell_of_calls(&turn);
        let before = std::mem::replace(&mut self.requests_mut().memory, turn.memory.clone());
        if let Some(value) = turn.result.as_ref().filter(|_| turn.success()) {
            self.history.push_front(value.clone());
            self.history.truncate(3);
        }
        let requests = self.requests_mut();
        requests.turns.push(turn);
        requests.ledger.advance(&requests.turns);
        let Some(turn) = self.requests.turns.last() else { return Ok(()) };
        let told =
            feedback(turn, self.requests.ledger.turns_left(self.requests.turns.len(), &self.plan.input));
        let end = match after {
            After::Next => None,
            After::Over(Ok(_)) => Some(EndReason::Done.as_str()),
            After::Over(Err(fail)) => Some(fail.reason.as_str()),
        };
        let left = Left {
            sent: self.calls.last().map_or("", |call| &call.hash),
            system: (&self.system_hash, super::system_prompt::VERSION),
            children: &children,
            family_turns: self.plan.family.turns_used(),
            called: self.plan.family.parent.map(|_| self.plan.agent.name.as_str()),
            end,
        };
        let entry = turn_entry(turn, &before, &told, &left);
        let position = self.evaluation.record(entry, None).await.map_err(|error| failed(&error))?;
        self.requests_mut().positions.turns.push((reply, position));
        self.children.extend(children);
        Ok(())
    }

    fn tell_of_calls(&self, turn: &Turn) {
        for (at, call) in turn.tool_calls.iter().enumerate() {
            self.evaluation.tell(&ToolInvoked {
                call_id: format!("{}_{}_{at}", self.evaluation.id, turn.number),
                name: call.name.clone(),
                arguments: Value::Map(call.args.clone()).to_json(),
                result: call.result.as_ref().map_or_else(Clone::clone, Value::to_json),
                is_error: call.result.is_err(),
                milliseconds: call.duration.map_or(0, |time| time.as_millis() as u64),
            });
        }
    }

    /// Ends the mission.
    pub(crate) async fn end(self, outcome: Result<Value, Fail>) -> Step {
        let Working { plan, evaluation, requests, calls, children, warnings, .. } = self;
        let Requests { turns, memory, .. } = Arc::unwrap_or_clone(requests);
        let ended = match &outcome {
            Ok(value) => Ok(EvaluationEnd::Replied { text: value.to_json(), output: None }),
            Err(fail) => Err(EvaluationError::new(
                FailurePhase::Response,
                EvaluationErrorKind::Host(fail.reason.as_str()),
                fail.message.clone(),
            )),
        };
        let trace_id = evaluation.id;
        let evaluated = evaluation.end(ended).await;
        Step {
            name: plan.agent.name.clone(),
            outcome,
            turns,
            memory,
            signature: plan.input.signature.clone(),
            descriptions: plan.agent.descriptions.clone(),
            usage: evaluated.spent,
            trace_id,
            parent_trace_id: plan.family.parent,
            children,
            run: None,
            sent: Sent { input: plan.input.clone(), compression: plan.chosen.clone(), calls },
            warnings,
        }
    }
}

/// What an evaluation's error means for a mission.
fn failed(error: &EvaluationError) -> Fail {
    let reason = match (error.kind, error.phase) {
        (EvaluationErrorKind::Interrupted, _) => EndReason::Cancelled,
        (EvaluationErrorKind::DeadlineBeforeRetry, _) | (_, FailurePhase::Deadline) => {
            EndReason::MissionTimeout
        }
        _ => EndReason::LlmError,
    };
    match reason {
        EndReason::LlmError => Fail::new(reason, format!("{}: {}", error.code(), error.message)),
        EndReason::MissionTimeout => Fail::new(reason, format!("{}; raise mission_timeout", error.message)),
        _ => Fail::new(reason, error.message.clone()),
    }
}
