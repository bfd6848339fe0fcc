//! Where a run stands: a tree of lanes, one for every list of steps that is under way.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use scrollback_store::StepStatus;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::RunError;
use crate::passed_values::{EntryId, Passed};
use crate::quota::{AccountId, Quota};
use crate::turns::{LoopScope, Turn, role_of};
use crate::usage::RunUsage;
use crate::{Flow, FlowName, Names};

/// Where a run stands. Only [`advance`](crate::advance::advance) moves it.
pub struct RunState {
    pub(crate) flow: Arc<Flow>,
    pub(crate) run: Arc<str>,
    pub(crate) input: Passed,
    pub(crate) root: Lane,
    pub(crate) scopes: BTreeMap<Arc<str>, LoopScope>,
    pub(crate) quota: Quota,
    /// What all calls used so far.
    pub(crate) usage: RunUsage,
    /// Which try at a step it is; the first if none is named.
    pub(crate) attempts: BTreeMap<String, u64>,
    /// Keys of agent steps under way.
    pub(crate) calling: BTreeSet<String>,
    /// Questions that wait for an answer, by key.
    pub(crate) asking: BTreeMap<String, Pause>,
    /// Keys of steps that start when the run is told to go on.
    pub(crate) ready: BTreeSet<String>,
    /// Keys of steps that were written down, while what was recorded happens again.
    pub(crate) recorded: HashSet<String>,
    /// Why steps failed that are not tried again: a branch around them may fail. By key, while what was recorded happens
    /// again.
    pub(crate) excused: HashMap<String, RunError>,
    pub(crate) phase: RunPhase,
}

/// Whether new steps start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunPhase {
    /// Nothing has happened yet.
    New,
    /// What was recorded happens again: limits were judged then.
    Replaying,
    /// Steps start as they come.
    Running,
    /// The run was asked to stop.
    Stopping,
    /// The run is over.
    Over,
}

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Pause {
    /// The step's name.
    pub name: String,
    /// What the person is shown.
    pub message: Passed,
    /// What the answer must fit; none: any text that is not blank.
    pub input_schema: Option<Value>,
}

/// One list of steps under way.
#[derive(Default)]
pub(crate) struct Lane {
    /// What keys of its steps begin with.
    pub(crate) prefix: String,
    /// What its steps are shown inside, by key: an iteration, or a step; none at the top.
    pub(crate) within: Option<String>,
    /// The step it is at.
    pub(crate) at: usize,
    /// The latest output.
    pub(crate) previous: Passed,
    /// What steps visible from here came to, by name.
    pub(crate) outputs: Arc<BTreeMap<String, (Passed, StepStatus)>>,
    /// The innermost loop: its input, and the iteration from 1.
    pub(crate) looped: Option<(Passed, u32)>,
    /// The item a `map` works on, and its number from 0.
    pub(crate) item: Option<(Arc<Value>, u64)>,
    /// The innermost conversational loop, by key.
    pub(crate) scope: Option<Arc<str>>,
    /// Turns of a branch that wait for their siblings; none outside branches of the scope.
    pub(crate) own: Option<Vec<Arc<Turn>>>,
    /// What its calls are charged to.
    pub(crate) account: Option<AccountId>,
    pub(crate) child: LaneChild,
}

/// What a lane's step is doing.
#[derive(Default)]
pub(crate) enum LaneChild {
    /// It has not started.
    #[default]
    None,
    /// It starts when the run is told to go on.
    Ready,
    /// An agent was asked.
    Calling(Calling),
    /// A person was asked.
    Asking(Pause),
    /// A body is repeated.
    Loop(Box<LoopFrame>),
    /// A branch was selected; none: the default.
    Choice(Option<usize>, Box<Lane>),
    /// Branches, or items, run side by side.
    Branches(Box<Branches>),
}

/// A call under way.
pub(crate) struct Calling {
    pub(crate) account: Option<AccountId>,
}

/// A loop under way.
pub(crate) struct LoopFrame {
    pub(crate) input: Passed,
    pub(crate) iteration: u32,
    pub(crate) account: Option<AccountId>,
    pub(crate) lane: Lane,
    /// What the next iteration starts from, where it starts when the run is told to go on.
    pub(crate) next: Option<Passed>,
}

/// Branches under way.
pub(crate) struct Branches {
    pub(crate) slots: Vec<BranchSlot>,
    pub(crate) account: Option<AccountId>,
    /// A branch failed for good: calls under way finish, and nothing new starts.
    pub(crate) failing: bool,
}

/// One branch or item.
pub(crate) struct BranchSlot {
    pub(crate) prefix: String,
    pub(crate) lane: Lane,
    pub(crate) share: Option<AccountId>,
    pub(crate) standing: BranchState,
}

/// How far a branch is.
pub(crate) enum BranchState {
    Waiting,
    Active,
    Done(Passed),
    Failed(RunError),
}

impl Lane {
    /// Whether an agent is asked anywhere in it, or a step is about to start.
    pub(crate) fn is_busy(&self) -> bool {
        match &self.child {
            LaneChild::Calling(_) | LaneChild::Ready => true,
            LaneChild::None | LaneChild::Asking(_) => false,
            LaneChild::Loop(frame) => frame.lane.is_busy(),
            LaneChild::Choice(_, lane) => lane.is_busy(),
            LaneChild::Branches(branches) => branches.slots.iter().any(|slot| slot.lane.is_busy()),
        }
    }

    /// A lane inside this one, which sees what it sees.
    pub(crate) fn inside(
        &self,
        prefix: String,
        within: String,
        previous: Passed,
        account: Option<AccountId>,
    ) -> Lane {
        Lane {
            prefix,
            within: Some(within),
            at: 0,
            previous,
            outputs: Arc::clone(&self.outputs),
            looped: self.looped.clone(),
            item: self.item.clone(),
            scope: self.scope.clone(),
            own: self.own.clone(),
            account,
            child: LaneChild::None,
        }
    }
}

impl RunState {
    /// A run that has not begun. `input` is `None` if it was given nothing.
    pub fn new(flow: Arc<Flow>, run: &str, input: Option<&str>) -> Self {
        let input = match input.filter(|text| !text.trim().is_empty()) {
            Some(text) => {
                let id = EntryId { evaluation: evaluation_id(run, "", "input", 1), sequence: 0 };
                Passed::said(Value::from(text), id, text)
            }
            None => Passed::new(input.map_or(Value::Null, Value::from)),
        };
        let mut quota = Quota::default();
        let account = quota.open("run", flow.limits, None);
        let root = Lane { previous: input.clone(), account, ..Lane::default() };
        RunState {
            flow,
            run: run.into(),
            input,
            root,
            scopes: BTreeMap::new(),
            quota,
            usage: RunUsage::default(),
            attempts: BTreeMap::new(),
            calling: BTreeSet::new(),
            asking: BTreeMap::new(),
            ready: BTreeSet::new(),
            recorded: HashSet::new(),
            excused: HashMap::new(),
            phase: RunPhase::New,
        }
    }

    /// The flow it runs.
    pub fn flow(&self) -> &Arc<Flow> {
        &self.flow
    }

    /// The run's input.
    pub fn input(&self) -> &Passed {
        &self.input
    }

    /// What all calls used so far.
    pub fn usage(&self) -> RunUsage {
        self.usage
    }

    /// The questions that wait for an answer, by key.
    pub fn pauses(&self) -> &BTreeMap<String, Pause> {
        &self.asking
    }

    /// What conversational loops remember, by key of the loop.
    pub fn scopes(&self) -> &BTreeMap<Arc<str>, LoopScope> {
        &self.scopes
    }

    /// Which try at a step it is.
    pub(crate) fn attempt(&self, key: &str) -> u64 {
        self.attempts.get(key).copied().unwrap_or(1)
    }

    /// The evaluation of a step's execution, or of one part of it. Only what is asked again is a new evaluation.
    pub(crate) fn evaluation(&self, key: &str, part: &str) -> Uuid {
        let attempt = if part.is_empty() { self.attempt(key) } else { 1 };
        evaluation_id(&self.run, key, part, attempt)
    }
}

/// The evaluation id that belongs to a key of a run: the same whenever it is asked for.
pub fn evaluation_id(run: &str, key: &str, part: &str, attempt: u64) -> Uuid {
    let mut hash = blake3::Hasher::new();
    for text in ["evaluation", run, key, part] {
        hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hash.update(&attempt.to_le_bytes());
    let mut bytes = [0; 16];
    for (byte, from) in bytes.iter_mut().zip(hash.finalize().as_bytes()) {
        *byte = *from;
    }
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// What names stand for at a place of a run.
pub(crate) struct Here<'s> {
    pub(crate) input: &'s Passed,
    pub(crate) lane: &'s Lane,
    pub(crate) scopes: &'s BTreeMap<Arc<str>, LoopScope>,
}

impl Here<'_> {
    /// What a name that is passed on as it is stands for; none for what is made up on the spot.
    pub(crate) fn passed(&self, name: &FlowName) -> Option<&Passed> {
        match name {
            FlowName::Previous => Some(&self.lane.previous),
            FlowName::Input => Some(self.input),
            FlowName::LoopInput => self.lane.looped.as_ref().map(|(input, _)| input),
            FlowName::StepOutput(step) => self.lane.outputs.get(&**step).map(|(output, _)| output),
            _ => None,
        }
    }
}

impl Names for Here<'_> {
    fn value(&self, name: &FlowName) -> Option<Cow<'_, Value>> {
        let lane = self.lane;
        match name {
            FlowName::LoopIteration => {
                lane.looped.as_ref().map(|(_, iteration)| Cow::Owned(json!(iteration)))
            }
            FlowName::StepStatus(step) => {
                lane.outputs.get(&**step).map(|(_, status)| Cow::Owned(Value::from(status.as_str())))
            }
            FlowName::Item => lane.item.as_ref().map(|(item, _)| Cow::Borrowed(&**item)),
            FlowName::Index => lane.item.as_ref().map(|(_, index)| Cow::Owned(json!(index))),
            FlowName::History => {
                let scope = lane.scope.as_ref().and_then(|scope| self.scopes.get(scope))?;
                let turns = scope.turns().iter().chain(lane.own.iter().flatten());
                Some(Cow::Owned(turns_value(turns.map(|turn| (role_of(turn.role).as_str(), &*turn.text)))))
            }
            other => self.passed(other).map(|passed| Cow::Borrowed(&*passed.value)),
        }
    }
}

/// Turns as expressions and templates see them.
pub(crate) fn turns_value<'t>(turns: impl Iterator<Item = (&'t str, &'t str)>) -> Value {
    turns.map(|(role, content)| json!({ "role": role, "content": content })).collect()
}
