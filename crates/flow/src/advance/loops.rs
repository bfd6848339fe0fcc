//! Loops: a body again and again, each execution with a history of its own if it is a conversation.

use std::sync::Arc;

use scrollback_store::StepStatus;
use serde_json::json;

use super::{Advancing, Going, Halt, LaneContext, Write};
use crate::error::{RunError, RunErrorKind};
use crate::passed_values::Passed;
use crate::quota::AccountId;
use crate::state::{Lane, LaneChild, LoopFrame, RunPhase};
use crate::{Loop, OnMaxLoops, SeedFrom, Step, TurnRole};

impl<'f> LaneContext<'f> {
    /// What is around the body of a loop. A plain loop is transparent; a conversation hides the one outside.
    pub(super) fn inside(self, inner: &'f Loop) -> LaneContext<'f> {
        LaneContext { conversation: inner.conversation.as_ref().or(self.conversation), halt: self.halt }
    }
}

impl Advancing {
    /// Begins a loop: its seed, and the first iteration.
    #[allow(clippy::too_many_arguments, reason = "what every step starts with")]
    pub(super) fn enter_loop<'f>(
        &mut self,
        step: &'f Step,
        inner: &'f Loop,
        lane: &mut Lane,
        key: &str,
        mut input: Passed,
        account: Option<AccountId>,
        around: LaneContext<'f>,
    ) -> Going {
        let mut first = lane.inside(String::new(), key.into(), Passed::default(), account);
        if let Some(conversation) = &inner.conversation {
            first.scope = Some(key.into());
            // Its turns are marked at once, whatever branches are outside.
            first.own = None;
            self.state.scopes.entry(key.into()).or_default();
            match &conversation.seed.from {
                SeedFrom::Nothing => {}
                SeedFrom::Input if input.is_blank() => {
                    let mut given = self.state.input.clone();
                    self.mark(&mut first, key, "seed", &mut given, TurnRole::User, None);
                }
                // What becomes an entry here is what the first iteration starts from, so that it is sent once.
                SeedFrom::Input => self.mark(&mut first, key, "seed", &mut input, TurnRole::User, None),
                SeedFrom::Text(template) => match self.render(template, lane, key) {
                    Ok(mut text) => self.mark(&mut first, key, "seed", &mut text, TurnRole::User, None),
                    Err(error) => return self.fail(step, lane, key, error, None),
                },
            }
            if let Some(scope) = self.state.scopes.get_mut(key) {
                scope.seed = scope.turns().first().map(|turn| turn.entry);
            }
        }
        let frame = LoopFrame { input: input.clone(), iteration: 0, account, lane: first, next: None };
        self.iterate_from(step, inner, lane, key, frame, input, around)
    }

    /// Begins the next iteration of a loop, and goes on.
    #[allow(clippy::too_many_arguments, reason = "what every step starts with")]
    pub(super) fn iterate_from<'f>(
        &mut self,
        step: &'f Step,
        inner: &'f Loop,
        lane: &mut Lane,
        key: &str,
        mut frame: LoopFrame,
        output: Passed,
        around: LaneContext<'f>,
    ) -> Going {
        match self.begin(inner, key, &mut frame, output, around) {
            Ok(going) => self.iterate(step, inner, lane, key, frame, going, around),
            Err(error) => self.fail(step, lane, key, error, None),
        }
    }

    /// Goes on with a loop after its body came so far.
    #[allow(clippy::too_many_arguments, reason = "what every step ends with")]
    pub(super) fn iterate<'f>(
        &mut self,
        step: &'f Step,
        inner: &'f Loop,
        lane: &mut Lane,
        key: &str,
        mut frame: LoopFrame,
        mut going: Going,
        around: LaneContext<'f>,
    ) -> Going {
        loop {
            let output = match going {
                Going::Waiting => {
                    lane.child = LaneChild::Loop(Box::new(frame));
                    return Going::Waiting;
                }
                Going::Over(Ok(output)) => output,
                Going::Over(Err(error)) => {
                    self.iteration(key, &frame, StepStatus::Failed);
                    return self.fail(step, lane, key, error, None);
                }
            };
            self.iteration(key, &frame, StepStatus::Done);
            match self.is_over(inner, &frame, key) {
                Ok(None) => {}
                Ok(Some(reason)) => {
                    lane.outputs = Arc::clone(&frame.lane.outputs);
                    if inner.conversation.is_none() {
                        lane.own = frame.lane.own;
                    }
                    let told = json!({ "reason": reason, "iterations": frame.iteration });
                    return self.finish_with(step, lane, key, output, around, None, told);
                }
                Err(error) => return self.fail(step, lane, key, error, None),
            }
            going = match self.begin(inner, key, &mut frame, output, around) {
                Ok(going) => going,
                Err(error) => return self.fail(step, lane, key, error, None),
            };
        }
    }

    /// Begins an iteration, unless nothing new starts; an error if nothing is left of the loop's quota.
    fn begin(
        &mut self,
        inner: &Loop,
        key: &str,
        frame: &mut LoopFrame,
        output: Passed,
        around: LaneContext<'_>,
    ) -> Result<Going, RunError> {
        if around.halt == Halt::Yes {
            return Ok(Going::Waiting);
        }
        let number = format!("{key}[{}]", frame.iteration + 1);
        let first = inner.body.first().map(|step| format!("{number}/{}", step.name)).unwrap_or_default();
        let ended = self.state.excused.get(key).filter(|_| !self.state.recorded.contains(&first));
        if let Some(error) = ended {
            return Err(error.clone());
        }
        // An iteration begins together with its first step.
        if self.stands_by(&first) {
            (frame.next, frame.lane.child) = (Some(output), LaneChild::Ready);
            return Ok(Going::Waiting);
        }
        frame.next = None;
        if let Some(breach) =
            self.state.quota.spent(frame.account).filter(|_| self.state.phase != RunPhase::Replaying)
        {
            self.event(Some(key), "quota.exceeded", json!(breach));
            return Err(RunError::quota(key, &breach));
        }
        frame.iteration += 1;
        let mut next = frame.lane.inside(format!("{number}/"), number, output, frame.account);
        next.looped = Some((frame.input.clone(), frame.iteration));
        frame.lane = next;
        let told = json!({ "iteration": frame.iteration, "of": inner.max_loops });
        self.event(Some(key), "loop.iteration", told);
        self.iteration(key, frame, StepStatus::Running);
        Ok(self.proceed(&inner.body, &mut frame.lane, around.inside(inner)))
    }

    /// Why a loop is over after an iteration, if it is.
    fn is_over(
        &mut self,
        inner: &Loop,
        frame: &LoopFrame,
        key: &str,
    ) -> Result<Option<&'static str>, RunError> {
        if let Some(exit) = &inner.exit
            && self.eval(&exit.expression, &frame.lane, key).is_true()
        {
            return Ok(Some("exit"));
        }
        if frame.iteration < inner.max_loops {
            return Ok(None);
        }
        match inner.exit.as_ref().map(|exit| exit.on_max_loops) {
            None => Ok(Some("times")),
            Some(OnMaxLoops::Continue) => Ok(Some("max_loops")),
            Some(OnMaxLoops::Fail) => {
                let most = inner.max_loops;
                let times = if most == 1 { "1 iteration".into() } else { format!("{most} iterations") };
                let message = format!(
                    "exit_expression was not true after {times}; raise max_loops, or write on_max_loops: continue"
                );
                Err(RunError::new(RunErrorKind::LoopLimit, key, message).with(json!({ "max_loops": most })))
            }
        }
    }

    fn iteration(&mut self, key: &str, frame: &LoopFrame, status: StepStatus) {
        let number = format!("{key}[{}]", frame.iteration);
        self.write(Write::Iteration { key: number, of: key.into(), status });
    }
}
