//! The pure middle of a run: what happened in, what is to be done out. No clock, no waiting, no record.
//!
//! A run is a tree of lanes. An event finds its lane by key, finishes the step there, and the lane goes on to the next
//! step that has to wait for a model, a tool or a person; what is finished on the way finishes what it is inside. All that follows from one
//! event is one commit, so a crash leaves a run before an event or after it, never between.
//!
//! Where a run stands is not stored: [`replay`](crate::driver) gives the same events again and comes to the same state.

mod branches;
mod event;
mod lane;
mod loops;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::{RunError, RunErrorKind};
use crate::expression::Evaluated;
use crate::passed_values::{EntryId, Passed};
use crate::state::{Here, Lane, RunPhase, RunState};
use crate::turns::{Turn, field_text};
use crate::usage::RunUsage;
use crate::{Expression, FlowTemplate, LoopMemory, Step, StepKind, TurnRole};
pub use event::{Action, AgentCall, FlowEvent, RunEnd, StepRow, Write};

/// Steps that follow from one event at most: a loop over templates waits for nothing, and a request to stop shall be
/// heard. Enough that the commits do not count.
const STEPS_AT_ONCE: usize = 256;
/// Bytes of rendered text that count as one more step, so that what one commit holds is bounded.
const BYTES_PER_STEP: usize = 16 * 1024;

/// What follows from one event in a run. Late or repeated events change nothing, so replay is safe.
pub fn advance(state: RunState, event: FlowEvent) -> (RunState, Vec<Action>) {
    let mut machine = Advancing { state, out: Vec::new(), room: STEPS_AT_ONCE };
    machine.take(event);
    (machine.state, machine.out)
}

/// A state on its way to the next.
struct Advancing {
    state: RunState,
    out: Vec<Action>,
    /// How many more steps may start at once.
    room: usize,
}

/// How far a lane came. A pause or a stop is no result: the lane just waits.
enum Going {
    Waiting,
    Over(Result<Passed, RunError>),
}

/// What is around a lane.
#[derive(Clone, Copy)]
struct LaneContext<'f> {
    /// The innermost conversational loop.
    conversation: Option<&'f LoopMemory>,
    /// Whether steps start.
    halt: Halt,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Halt {
    No,
    /// Nothing new starts: the run was asked to stop, or a branch failed.
    Yes,
}

/// What reaches a step that waits.
enum StepDelivery {
    Replied { entry: EntryId, text: Arc<str>, value: Value, usage: RunUsage },
    Failed { error: RunError, usage: RunUsage },
    Answered { text: Arc<str>, value: Value },
    Continued,
    Stopped,
}

impl StepDelivery {
    /// Whether it says how a call ended.
    fn ends_call(&self) -> bool {
        matches!(self, StepDelivery::Replied { .. } | StepDelivery::Failed { .. } | StepDelivery::Stopped)
    }
}

impl Advancing {
    fn take(&mut self, event: FlowEvent) {
        let flow = Arc::clone(&self.state.flow);
        let mut root = std::mem::take(&mut self.state.root);
        let around = |machine: &Advancing| {
            let halt = if machine.state.phase == RunPhase::Stopping { Halt::Yes } else { Halt::No };
            LaneContext { conversation: None, halt }
        };
        let going = match event {
            FlowEvent::Started if matches!(self.state.phase, RunPhase::New | RunPhase::Replaying) => {
                if self.state.phase == RunPhase::New {
                    self.state.phase = RunPhase::Running;
                }
                if let Some(said) = &self.state.input.said {
                    let (id, text) = (said.id, Arc::clone(&said.text));
                    self.write(Write::Entry { id, role: scrollback_core::Role::User, text });
                }
                self.event(None, "run.started", json!({ "flow": flow.name, "limits": flow.limits }));
                Some(self.proceed(&flow.steps, &mut root, around(self)))
            }
            FlowEvent::Stopping if self.state.phase == RunPhase::Running => {
                self.state.phase = RunPhase::Stopping;
                Some(Going::Waiting)
            }
            FlowEvent::Started | FlowEvent::Stopping => None,
            FlowEvent::Replied { key, entry, text, value, usage } => {
                let delivery = StepDelivery::Replied { entry, text, value, usage };
                self.deliver(&flow.steps, &mut root, &key, delivery, around(self))
            }
            FlowEvent::Failed { key, error, usage } => {
                let delivery = StepDelivery::Failed { error, usage };
                self.deliver(&flow.steps, &mut root, &key, delivery, around(self))
            }
            FlowEvent::Answered { key, text, value } => {
                let delivery = StepDelivery::Answered { text, value };
                self.deliver(&flow.steps, &mut root, &key, delivery, around(self))
            }
            FlowEvent::Continued { key } => {
                self.deliver(&flow.steps, &mut root, &key, StepDelivery::Continued, around(self))
            }
            FlowEvent::Stopped { key } => {
                self.deliver(&flow.steps, &mut root, &key, StepDelivery::Stopped, around(self))
            }
        };
        self.state.root = root;
        if let Some(going) = going {
            self.conclude(going);
        }
    }

    /// Says how the run ends or waits, if no step is waiting any more.
    fn conclude(&mut self, going: Going) {
        let end = match going {
            Going::Over(Ok(output)) => RunEnd::Done(output),
            Going::Over(Err(error)) => RunEnd::Failed(error),
            Going::Waiting if !self.state.calling.is_empty() => return,
            Going::Waiting if self.state.phase == RunPhase::Stopping => RunEnd::Stopped,
            Going::Waiting if !self.state.ready.is_empty() => return,
            Going::Waiting => RunEnd::Paused,
        };
        if matches!(end, RunEnd::Done(_) | RunEnd::Failed(_)) && self.state.phase != RunPhase::Replaying {
            self.state.phase = RunPhase::Over;
        }
        self.out.push(Action::End(end));
    }

    /// Whether a step has to wait before it starts: because much was done at once, or because what happens again has
    /// come to where the run stood, and from here on it must be written down.
    fn stands_by(&mut self, key: &str) -> bool {
        let waits = match self.state.phase {
            RunPhase::Replaying => !self.state.recorded.contains(key),
            _ => self.room == 0,
        };
        if waits {
            self.state.ready.insert(key.into());
            self.out.push(Action::Continue(key.into()));
        }
        waits
    }

    fn write(&mut self, write: Write) {
        self.out.push(Action::Write(write));
    }

    fn event(&mut self, key: Option<&str>, kind: &'static str, data: Value) {
        self.write(Write::Event { key: key.map(String::from), kind, data });
    }

    fn here<'s>(&'s self, lane: &'s Lane) -> Here<'s> {
        Here { input: &self.state.input, lane, scopes: &self.state.scopes }
    }

    /// The value of an expression at a place.
    fn eval(&mut self, expression: &Expression, lane: &Lane, key: &str) -> Evaluated {
        let evaluated = expression.eval(&self.here(lane));
        if evaluated.limit_reached {
            self.event(Some(key), "expression.limit", json!({ "expression": expression.as_str() }));
        }
        evaluated
    }

    /// What a template gives at a place: the value itself if it is exactly one reference, else a new text.
    fn render(&mut self, template: &FlowTemplate, lane: &Lane, key: &str) -> Result<Passed, RunError> {
        let mut missing = Vec::new();
        let passed = {
            let here = self.here(lane);
            let reference = template.as_single_reference();
            let whole = reference.filter(|reference| reference.keys.is_empty());
            match (whole.and_then(|reference| here.passed(&reference.name)), reference) {
                (Some(passed), _) => Ok(passed.clone()),
                (None, Some(reference)) if reference.value(&here).is_some() => {
                    Ok(Passed::new(reference.value(&here).unwrap_or_default().into_owned()))
                }
                _ => {
                    let text = template.render(&here, &mut |path| missing.push(path.to_string()));
                    text.map(|text| Passed::new(Value::from(text)))
                }
            }
        };
        for path in missing {
            self.event(Some(key), "template.missing", json!({ "path": path }));
        }
        passed.map_err(|error| RunError::new(RunErrorKind::OutputInvalid, key, error.to_string()))
    }

    /// Makes a step's output a turn, if its loop wants that.
    fn turn(
        &mut self,
        step: &Step,
        lane: &mut Lane,
        key: &str,
        passed: &mut Passed,
        conversation: Option<&LoopMemory>,
    ) {
        let Some(role) = conversation.and_then(|conversation| conversation.turns.role(&step.name)) else {
            return;
        };
        let field = match &step.kind {
            StepKind::Agent(agent) => agent.turn_field.clone(),
            _ => None,
        };
        self.mark(lane, key, "output", passed, role, field);
    }

    /// Makes something a turn of the lane's loop. A text that is no entry yet becomes one; a blank one is no turn.
    fn mark(
        &mut self,
        lane: &mut Lane,
        key: &str,
        part: &str,
        passed: &mut Passed,
        role: TurnRole,
        field: Option<String>,
    ) {
        let Some(scope) = lane.scope.clone() else { return };
        let text: Arc<str> = match &field {
            Some(path) => match field_text(&passed.value, path) {
                Some(text) => text.into(),
                None => return,
            },
            None if passed.is_blank() => return,
            None => passed.text().into_owned().into(),
        };
        let entry = match passed.entry() {
            Some(entry) => entry,
            None => self.say(key, part, passed, crate::turns::role_of(role)),
        };
        let known = self.state.scopes.get(&scope).is_some_and(|scope| scope.is_marked(entry));
        if known || lane.own.iter().flatten().any(|turn| turn.entry == entry) {
            return;
        }
        let turn = Arc::new(Turn::new(entry, role, field, text));
        match &mut lane.own {
            // Its siblings may be behind; the branches' turns are marked in order when all are there.
            Some(own) => own.push(turn),
            None => self.mark_now(&scope, key, turn),
        }
    }

    fn mark_now(&mut self, scope: &Arc<str>, key: &str, turn: Arc<Turn>) {
        self.state.scopes.entry(Arc::clone(scope)).or_default().mark(Arc::clone(&turn));
        let role = crate::turns::role_of(turn.role).as_str();
        self.write(Write::Mark { scope: Arc::clone(scope), turn });
        self.event(Some(key), "history.turn", json!({ "scope": &**scope, "role": role }));
    }

    /// Makes an entry of the record from a value that is not one yet.
    fn say(&mut self, key: &str, part: &str, passed: &mut Passed, role: scrollback_core::Role) -> EntryId {
        let id = EntryId { evaluation: self.state.evaluation(key, part), sequence: 0 };
        let text: Arc<str> = passed.text().into_owned().into();
        self.write(Write::Entry { id, role, text: Arc::clone(&text) });
        passed.said = Some(Arc::new(crate::passed_values::Said { id, text }));
        id
    }
}
