//! A list of steps: starting one, giving it what it waits for, finishing it.

use std::sync::Arc;

use scrollback_store::StepStatus;
use serde_json::{Value, json};

use super::{Action, Advancing, AgentCall, Going, Halt, LaneContext, StepDelivery, StepRow, Write};
use crate::error::RunError;
use crate::passed_values::{EntryId, Passed};
use crate::quota::Amount;
use crate::state::{Calling, Lane, LaneChild, Pause, RunPhase};
use crate::usage::RunUsage;
use crate::{Conditional, FlowBranch, Hitl, MicroDollars, Step, StepKind, TurnRole};

impl Advancing {
    /// Goes on with a lane until it has to wait, or is over.
    pub(super) fn proceed(&mut self, steps: &[Step], lane: &mut Lane, around: LaneContext<'_>) -> Going {
        loop {
            let Some(step) = steps.get(lane.at) else { return Going::Over(Ok(lane.previous.clone())) };
            if around.halt == Halt::Yes {
                return Going::Waiting;
            }
            let key = format!("{}{}", lane.prefix, step.name);
            if self.stands_by(&key) {
                lane.child = LaneChild::Ready;
                return Going::Waiting;
            }
            self.room = self.room.saturating_sub(1);
            match self.start(step, lane, key, around) {
                Going::Waiting => return Going::Waiting,
                Going::Over(Ok(_)) => {}
                Going::Over(Err(error)) => return Going::Over(Err(error)),
            }
        }
    }

    /// Starts the step a lane is at. When it is over at once, the lane stands behind it.
    fn start(&mut self, step: &Step, lane: &mut Lane, key: String, around: LaneContext<'_>) -> Going {
        if let Some(when) = &step.when
            && !self.eval(when, lane, &key).is_true()
        {
            self.step(lane, step, &key, StepStatus::Skipped);
            self.event(Some(&key), "step.skipped", json!({}));
            Arc::make_mut(&mut lane.outputs)
                .insert(step.name.clone(), (Passed::default(), StepStatus::Skipped));
            lane.at += 1;
            return Going::Over(Ok(lane.previous.clone()));
        }
        let input = match self.render(&step.input, lane, &key) {
            Ok(input) => input,
            Err(error) => return self.fail(step, lane, &key, error, None),
        };
        let account = self.state.quota.open(&key, step.limits, lane.account);
        let mut row = self.row(lane, step, &key, StepStatus::Running);
        row.input = Some(input.value.as_ref().clone());
        self.event(
            Some(&key),
            "step.started",
            json!({ "kind": step.kind.step_type(), "attempt": row.attempt }),
        );
        match &step.kind {
            StepKind::Template(template) => match self.render(template, lane, &key) {
                Ok(mut output) => {
                    if output.said.is_none() {
                        output = Passed::new(Value::from(output.text().into_owned()));
                    }
                    self.room = self.room.saturating_sub(output.text().len() / super::BYTES_PER_STEP);
                    self.write(Write::Step(Box::new(row)));
                    self.finish(step, lane, &key, output, around, None)
                }
                Err(error) => self.fail(step, lane, &key, error, None),
            },
            StepKind::Agent(_) => {
                let evaluation = self.state.evaluation(&key, "");
                row.evaluation = Some(evaluation);
                self.write(Write::Step(Box::new(row)));
                lane.child = LaneChild::Calling(Calling { account });
                self.state.calling.insert(key.clone());
                self.out.push(Action::Call(Box::new(AgentCall {
                    key,
                    within: lane.within.clone(),
                    step: step.name.clone(),
                    input,
                    scope: lane.scope.clone(),
                    own: lane.own.clone().unwrap_or_default(),
                    account,
                    evaluation,
                })));
                Going::Waiting
            }
            StepKind::Hitl(hitl) => self.ask(step, hitl, lane, &key, row),
            StepKind::Loop(inner) => {
                self.write(Write::Step(Box::new(row)));
                self.enter_loop(step, inner, lane, &key, input, account, around)
            }
            StepKind::Conditional(choice) => {
                self.write(Write::Step(Box::new(row)));
                self.choose(step, choice, lane, &key, input, account, around)
            }
            StepKind::Parallel(_) | StepKind::Map(_) => {
                self.write(Write::Step(Box::new(row)));
                self.enter_branches(step, lane, &key, &input, account, around)
            }
        }
    }

    /// Asks a person.
    fn ask(&mut self, step: &Step, hitl: &Hitl, lane: &mut Lane, key: &str, mut row: StepRow) -> Going {
        let message = match self.render(&hitl.message, lane, key) {
            Ok(message) => message,
            Err(error) => return self.fail(step, lane, key, error, None),
        };
        row.status = StepStatus::Paused;
        row.input = Some(Value::from(&*message.text()));
        self.write(Write::Step(Box::new(row)));
        let pause = Pause { name: step.name.clone(), message, input_schema: hitl.input_schema.clone() };
        self.event(Some(key), "run.paused", json!({ "step": key }));
        self.state.asking.insert(key.into(), pause.clone());
        lane.child = LaneChild::Asking(pause);
        Going::Waiting
    }

    /// Runs the branch that a value selects.
    #[allow(clippy::too_many_arguments, reason = "what every step starts with")]
    fn choose(
        &mut self,
        step: &Step,
        choice: &Conditional,
        lane: &mut Lane,
        key: &str,
        input: Passed,
        account: Option<crate::quota::AccountId>,
        around: LaneContext<'_>,
    ) -> Going {
        let value = self.eval(&choice.condition, lane, key).value;
        let wanted = crate::expression::as_text(&value);
        let found = choice.branches.iter().position(|branch| *branch.name == *wanted);
        let Some((name, steps)) = branch_of(choice, found) else {
            return self.finish(step, lane, key, input, around, None);
        };
        let mut inner = lane.inside(format!("{key}.{name}/"), key.into(), input, account);
        let going = self.proceed(steps, &mut inner, around);
        self.chosen(step, lane, key, found, inner, going, around)
    }

    #[allow(clippy::too_many_arguments, reason = "what every step ends with")]
    fn chosen(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        branch: Option<usize>,
        inner: Lane,
        going: Going,
        around: LaneContext<'_>,
    ) -> Going {
        match going {
            Going::Waiting => {
                lane.child = LaneChild::Choice(branch, Box::new(inner));
                Going::Waiting
            }
            Going::Over(Ok(output)) => {
                lane.outputs = inner.outputs;
                lane.own = inner.own;
                self.finish(step, lane, key, output, around, None)
            }
            Going::Over(Err(error)) => self.fail(step, lane, key, error, None),
        }
    }

    /// Gives a step what it waits for, and goes on. None if no step waits for that.
    pub(super) fn deliver(
        &mut self,
        steps: &[Step],
        lane: &mut Lane,
        key: &str,
        delivery: StepDelivery,
        around: LaneContext<'_>,
    ) -> Option<Going> {
        let step = steps.get(lane.at)?;
        let own = format!("{}{}", lane.prefix, step.name);
        if !key.starts_with(&own) {
            return None;
        }
        let going = match std::mem::take(&mut lane.child) {
            LaneChild::Calling(calling) if key == own && delivery.ends_call() => {
                self.called(step, lane, key, &calling, delivery, around)
            }
            LaneChild::Ready if key == own && matches!(delivery, StepDelivery::Continued) => {
                self.state.ready.remove(key);
                Going::Over(Ok(lane.previous.clone()))
            }
            LaneChild::Asking(pause) if key == own => {
                let StepDelivery::Answered { text, value } = delivery else {
                    lane.child = LaneChild::Asking(pause);
                    return None;
                };
                self.answered(step, lane, key, pause, &text, value, around)
            }
            LaneChild::Loop(mut frame) => {
                let StepKind::Loop(inner) = &step.kind else { return None };
                if let (Some(output), StepDelivery::Continued) = (&frame.next, &delivery) {
                    self.state.ready.remove(key);
                    let output = output.clone();
                    let going = self.iterate_from(step, inner, lane, &own, *frame, output, around);
                    return Some(self.after(steps, lane, going, around));
                }
                let inside = around.inside(inner);
                let Some(going) = self.deliver(&inner.body, &mut frame.lane, key, delivery, inside) else {
                    lane.child = LaneChild::Loop(frame);
                    return None;
                };
                self.iterate(step, inner, lane, &own, *frame, going, around)
            }
            LaneChild::Choice(branch, mut inner) => {
                let StepKind::Conditional(choice) = &step.kind else { return None };
                let (_, steps) = branch_of(choice, branch)?;
                let Some(going) = self.deliver(steps, &mut inner, key, delivery, around) else {
                    lane.child = LaneChild::Choice(branch, inner);
                    return None;
                };
                self.chosen(step, lane, &own, branch, *inner, going, around)
            }
            LaneChild::Branches(mut frame) => {
                if self.deliver_to_branch(step, &mut frame, key, delivery, around).is_none() {
                    lane.child = LaneChild::Branches(frame);
                    return None;
                }
                self.join(step, lane, &own, *frame, around)
            }
            other => {
                lane.child = other;
                return None;
            }
        };
        Some(self.after(steps, lane, going, around))
    }

    /// Goes on behind a step that is over.
    fn after(&mut self, steps: &[Step], lane: &mut Lane, going: Going, around: LaneContext<'_>) -> Going {
        match going {
            Going::Over(Ok(_)) => self.proceed(steps, lane, around),
            other => other,
        }
    }

    /// The result of a call.
    fn called(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        calling: &Calling,
        delivery: StepDelivery,
        around: LaneContext<'_>,
    ) -> Going {
        self.state.calling.remove(key);
        match delivery {
            StepDelivery::Replied { entry, text, value, usage } => {
                self.charge(calling, usage);
                let output = Passed::said(value, entry, text);
                self.finish(step, lane, key, output, around, Some(usage))
            }
            StepDelivery::Failed { error, usage } => {
                self.charge(calling, usage);
                self.fail(step, lane, key, error, Some(usage))
            }
            // The call is made again when the run goes on; until then the lane stands still.
            StepDelivery::Stopped | StepDelivery::Answered { .. } | StepDelivery::Continued => Going::Waiting,
        }
    }

    /// Counts what a step used. While it ran, its calls were charged as they were made; a replay charges them here.
    fn charge(&mut self, calling: &Calling, usage: RunUsage) {
        self.state.usage = self.state.usage.and(usage);
        if self.state.phase == RunPhase::Replaying {
            let used = Amount { tokens: usage.total(), micros: usage.cost.unwrap_or(MicroDollars(0)) };
            self.state.quota.settle(calling.account, Amount::default(), used);
        }
    }

    /// What a person answered: the question may become a turn, the answer does if its loop wants it.
    #[allow(clippy::too_many_arguments, reason = "what every step ends with")]
    fn answered(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        pause: Pause,
        text: &Arc<str>,
        value: Value,
        around: LaneContext<'_>,
    ) -> Going {
        self.state.asking.remove(key);
        let StepKind::Hitl(hitl) = &step.kind else { return Going::Waiting };
        let mut message = pause.message;
        if hitl.question_turn && around.conversation.is_some() {
            self.mark(lane, key, "question", &mut message, TurnRole::Assistant, None);
        }
        let evaluation = self.state.evaluation(key, "");
        let id = EntryId { evaluation, sequence: 0 };
        self.write(Write::Entry { id, role: scrollback_core::Role::User, text: Arc::clone(text) });
        let output = Passed::said(value, id, Arc::clone(text));
        self.finish(step, lane, key, output, around, None)
    }

    /// A step is done: its turn, its row, and the lane stands behind it.
    pub(super) fn finish(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        output: Passed,
        around: LaneContext<'_>,
        usage: Option<RunUsage>,
    ) -> Going {
        self.finish_with(step, lane, key, output, around, usage, json!({}))
    }

    /// The same, with something to tell.
    #[allow(clippy::too_many_arguments, reason = "what every step ends with")]
    pub(super) fn finish_with(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        mut output: Passed,
        around: LaneContext<'_>,
        usage: Option<RunUsage>,
        told: Value,
    ) -> Going {
        self.turn(step, lane, key, &mut output, around.conversation);
        let mut row = self.row(lane, step, key, StepStatus::Done);
        row.output = Some(output.value.as_ref().clone());
        row.usage = usage;
        row.evaluation = match step.kind {
            StepKind::Agent(_) | StepKind::Hitl(_) => output.entry().map(|entry| entry.evaluation),
            // Only what the step itself made an entry.
            _ => output
                .entry()
                .map(|entry| entry.evaluation)
                .filter(|made| *made == self.state.evaluation(key, "output")),
        };
        self.write(Write::Step(Box::new(row)));
        self.event(Some(key), "step.finished", told);
        Arc::make_mut(&mut lane.outputs).insert(step.name.clone(), (output.clone(), StepStatus::Done));
        lane.previous = output.clone();
        lane.child = LaneChild::None;
        lane.at += 1;
        Going::Over(Ok(output))
    }

    /// A step failed, and with it everything it is inside.
    pub(super) fn fail(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        error: RunError,
        usage: Option<RunUsage>,
    ) -> Going {
        let mut row = self.row(lane, step, key, StepStatus::Failed);
        row.error = Some(error.clone());
        row.usage = usage;
        self.write(Write::Step(Box::new(row)));
        self.event(Some(key), "step.failed", json!({ "code": error.code }));
        Arc::make_mut(&mut lane.outputs).insert(step.name.clone(), (Passed::default(), StepStatus::Failed));
        Going::Over(Err(error))
    }

    /// What is known about a step so far.
    fn row(&self, lane: &Lane, step: &Step, key: &str, status: StepStatus) -> StepRow {
        StepRow {
            key: key.into(),
            within: lane.within.clone(),
            kind: step.kind.step_type(),
            asks: matches!(step.kind, StepKind::Agent(_)),
            status,
            attempt: self.state.attempt(key),
            input: None,
            output: None,
            evaluation: None,
            usage: None,
            error: None,
        }
    }

    fn step(&mut self, lane: &Lane, step: &Step, key: &str, status: StepStatus) {
        let row = self.row(lane, step, key, status);
        self.write(Write::Step(Box::new(row)));
    }
}

/// The steps that were selected, and the name of their branch.
fn branch_of(choice: &Conditional, branch: Option<usize>) -> Option<(&str, &[Step])> {
    match branch {
        Some(number) => {
            choice.branches.get(number).map(|FlowBranch { name, steps }| (name.as_str(), &**steps))
        }
        None => choice.default_branch.as_deref().map(|steps| ("default", steps)),
    }
}
