//! Steps: what a flow does.

use std::sync::Arc;

use scrollback_store::StepType;
use serde_json::Value;

use super::{Agent, LoopMemory, QuotaLimits};
use crate::expression::Mention;
use crate::{Expression, FlowName, FlowTemplate};

/// One step. Its name is unique in the whole flow.
pub struct Step {
    /// What it is called.
    pub name: String,
    /// Whether it runs; always if none.
    pub when: Option<Expression>,
    /// What it receives.
    pub input: FlowTemplate,
    /// What it and all inside it may use.
    pub limits: QuotaLimits,
    /// What it does.
    pub kind: StepKind,
}

/// What a step does.
pub enum StepKind {
    /// Asks an agent.
    Agent(AgentStep),
    /// Renders a text.
    Template(FlowTemplate),
    /// Repeats a body.
    Loop(Box<Loop>),
    /// Waits for a person.
    Hitl(Hitl),
    /// Runs branches side by side.
    Parallel(Parallel),
    /// Runs the branch that a value selects.
    Conditional(Conditional),
    /// Runs a body once per item of a list.
    Map(Map),
}

impl StepKind {
    /// Its type as it is stored and written in a flow: agent and template steps are both `step`.
    pub fn step_type(&self) -> StepType {
        match self {
            StepKind::Agent(_) | StepKind::Template(_) => StepType::Step,
            StepKind::Loop(_) => StepType::Loop,
            StepKind::Hitl(_) => StepType::Hitl,
            StepKind::Parallel(_) => StepType::Parallel,
            StepKind::Conditional(_) => StepType::Conditional,
            StepKind::Map(_) => StepType::Map,
        }
    }

    /// The lists of steps inside it, in the order of the file.
    pub fn bodies(&self) -> Vec<&[Step]> {
        match self {
            StepKind::Agent(_) | StepKind::Template(_) | StepKind::Hitl(_) => Vec::new(),
            StepKind::Loop(inner) => vec![&inner.body],
            StepKind::Map(map) => vec![&map.body],
            StepKind::Parallel(parallel) => parallel.branches.iter().map(|branch| &*branch.steps).collect(),
            StepKind::Conditional(choice) => {
                let branches = choice.branches.iter().map(|branch| &*branch.steps);
                branches.chain(choice.default_branch.as_deref()).collect()
            }
        }
    }
}

/// `kind: step` with an agent.
pub struct AgentStep {
    /// Who is asked.
    pub agent: Arc<Agent>,
    /// Whether it is sent the history of the conversational loop around it; false outside one.
    pub use_history: bool,
    /// The field of a structured output that is its turn's text: `answer.question`.
    pub turn_field: Option<String>,
    /// Whether its agent may search and read the run's record.
    pub recall: bool,
}

/// `kind: hitl`.
pub struct Hitl {
    /// What the person is shown.
    pub message: FlowTemplate,
    /// What the answer must fit; none: any text that is not blank.
    pub input_schema: Option<Value>,
    /// Whether the message becomes an assistant turn before the answer.
    pub question_turn: bool,
}

/// `kind: parallel`.
pub struct Parallel {
    /// The branches, in order; never empty.
    pub branches: Vec<FlowBranch>,
    /// What a branch that fails does to the others.
    pub on_branch_failure: OnBranchFailure,
    /// Most branches that run at once.
    pub max_concurrency: usize,
}

/// Named steps of a `parallel` or `conditional`.
pub struct FlowBranch {
    /// Its name; in a `conditional` any text.
    pub name: String,
    /// What it does.
    pub steps: Vec<Step>,
}

/// What a branch that fails does to its `parallel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBranchFailure {
    /// The step fails, with the first failure in branch order.
    #[default]
    Fail,
    /// The branch's output is null.
    Ignore,
}

/// `kind: conditional`.
pub struct Conditional {
    /// Its value, as text ([`crate::expression::as_text`]), selects the branch.
    pub condition: Expression,
    /// What can be selected.
    pub branches: Vec<FlowBranch>,
    /// What runs if nothing is selected; if there is none, the previous value passes through.
    pub default_branch: Option<Vec<Step>>,
}

/// `kind: map`.
pub struct Map {
    /// The list.
    pub over: Expression,
    /// What is done with each item, as `item` and `index`.
    pub body: Vec<Step>,
    /// Most items that are worked on at once.
    pub max_concurrency: usize,
}

/// `kind: loop`.
pub struct Loop {
    /// What is repeated; never empty.
    pub body: Vec<Step>,
    /// Most iterations.
    pub max_loops: u32,
    /// When it is over before that; if there is none, it runs exactly `max_loops` times.
    pub exit: Option<Exit>,
    /// What makes it a conversation.
    pub conversation: Option<LoopMemory>,
}

/// When a loop is over.
pub struct Exit {
    /// Asked after each complete iteration.
    pub expression: Expression,
    /// What happens if it was never true.
    pub on_max_loops: OnMaxLoops,
}

/// What a loop does that reaches its most iterations with its exit never true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMaxLoops {
    /// It fails with `loop_limit`.
    #[default]
    Fail,
    /// It is done, with reason `max_loops`.
    Continue,
}

// The depth is that of the file, which its reader limits.
/// Adds steps and all inside them.
pub(super) fn collect<'s>(steps: &'s [Step], found: &mut Vec<&'s Step>) {
    for step in steps {
        found.push(step);
        for body in step.kind.bodies() {
            collect(body, found);
        }
    }
}

/// Where a list of steps runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// First of all: what is `previous` to it is the run's input.
    Start,
    /// After other steps.
    Later,
}

// The depth is that of the file, which its reader limits.
/// Whether steps, or any inside them, read the run's input.
pub(super) fn reads_input(steps: &[Step], at: At) -> bool {
    steps.iter().enumerate().any(|(number, step)| {
        let at = if number == 0 { at } else { At::Later };
        let reads = |mentions: &[Mention]| {
            mentions.iter().any(|mention| {
                mention.name == FlowName::Input || (mention.name == FlowName::Previous && at == At::Start)
            })
        };
        let own = match &step.kind {
            StepKind::Agent(_) => reads(step.input.mentions()),
            StepKind::Template(text) => reads(text.mentions()),
            StepKind::Hitl(hitl) => reads(hitl.message.mentions()),
            StepKind::Loop(inner) => inner.exit.as_ref().is_some_and(|exit| {
                exit.expression.mentions().iter().any(|mention| mention.name == FlowName::Input)
            }),
            StepKind::Conditional(choice) => reads(choice.condition.mentions()),
            StepKind::Map(map) => reads(map.over.mentions()),
            StepKind::Parallel(_) => false,
        };
        // What a container receives is `previous` to the first step inside it.
        let container = !matches!(step.kind, StepKind::Agent(_) | StepKind::Template(_) | StepKind::Hitl(_));
        let inside = if container && reads(step.input.mentions()) { At::Start } else { At::Later };
        own || step.when.as_ref().is_some_and(|when| reads(when.mentions()))
            || step.kind.bodies().into_iter().any(|body| reads_input(body, inside))
    })
}
