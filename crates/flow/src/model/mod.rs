//! A flow as it is run: everything in it was checked, and nothing is left open.

mod agent;
mod conversation;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeStruct, Serializer};

pub use agent::{Agent, HistoryMode};
pub use conversation::{
    Bounds, HistoryManagement, LoopMemory, Managers, Seed, SeedFrom, Strategy, ToolArtifacts, TurnRole,
    TurnSources,
};
pub use step::{
    AgentStep, Conditional, Exit, FlowBranch, Hitl, Loop, Map, OnBranchFailure, OnMaxLoops, Parallel, Step,
    StepKind,
};

/// A pipeline. Only [`Flow::read`] makes one, so every name in it means something.
pub struct Flow {
    /// What it is called; the name of its file if it does not say.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Every agent it may use, its own and the configured ones, by name.
    pub agents: BTreeMap<String, Arc<Agent>>,
    /// What it does, in order; never empty.
    pub steps: Vec<Step>,
    /// What a run of it may use: a flag's wish before the flow's own before the configuration's.
    pub limits: QuotaLimits,
    /// The texts of the prompt files it names, by the path as written: a run keeps them, and resumes without the files.
    pub prompt_files: BTreeMap<String, String>,
}

impl Flow {
    /// Every step, a container before what it holds, in the order of the file.
    pub fn all_steps(&self) -> Vec<&Step> {
        let mut found = Vec::new();
        step::collect(&self.steps, &mut found);
        found
    }

    /// Whether anything in it says what the run was given: the first step's input, or a mention of `input`.
    pub fn reads_input(&self) -> bool {
        step::reads_input(&self.steps, step::At::Start)
    }

    /// The step of a name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.all_steps().into_iter().find(|step| step.name == name)
    }
}

/// Most that may be used, by a run or by a step and all inside it. None: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Tokens, in and out together.
    pub max_tokens: Option<u64>,
    /// Money.
    pub max_cost: Option<MicroDollars>,
}

/// As flows write them, and null where there is no limit.
impl Serialize for QuotaLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("Limits", 2)?;
        members.serialize_field("max_tokens", &self.max_tokens)?;
        members.serialize_field("max_cost_usd", &self.max_cost.map(MicroDollars::dollars))?;
        members.end()
    }
}

/// Money in millionths of a dollar: whole, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MicroDollars(pub u64);

impl MicroDollars {
    /// The nearest amount to a number of dollars; none below zero, and none beyond what can be counted.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let micros = (dollars * 1e6).round();
        // 2^53: every whole number up to here is exact.
        (0.0..=9_007_199_254_740_992.0).contains(&micros).then_some(MicroDollars(micros as u64))
    }

    /// The same in dollars.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }
}
