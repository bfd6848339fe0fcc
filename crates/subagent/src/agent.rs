//! A sub-agent as it is written down: its mission, what it may use, and how far it may go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use scrollback_agent::provider::Provider;
use scrollback_agent::runner::Throttle;
use scrollback_lisp::{Signature, Validation, Value};

use super::compression::Chosen;
use super::error::{SubagentError, SubagentErrorKind};
use super::mission::PromptTemplate;
use super::step::{EndReason, Fail, Step};
use super::system_prompt::SystemPrompt;
use super::tools::{AgentTool, by_name};

/// Names that programs end with.
const RESERVED: [&str; 2] = ["return", "fail"];

/// A sub-agent. Settings that are not given are inherited from its caller.
#[derive(Clone)]
pub struct SubAgent {
    /// What it is called.
    pub name: String,
    mission: PromptTemplate,
    signature: Option<Signature>,
    tools: BTreeMap<String, AgentTool>,
    data: BTreeMap<String, Value>,
    /// What names of its data, and of what it returns, mean: shown beside data, and handed on with what is returned.
    pub descriptions: BTreeMap<String, String>,
    /// Why it ends before a model is asked: the step it follows failed.
    pub(crate) obstacle: Option<Fail>,
    /// How many turns it has.
    pub max_turns: usize,
    /// How many more after returns that did not fit.
    pub retry_turns: usize,
    /// How far it may go.
    pub limits: AgentLimits,
    /// How values are held against signatures.
    pub validation: Validation,
    /// Decimals of floats in the value it returns; all of them if nothing is said.
    pub float_precision: Option<u32>,
    /// What may be inherited.
    pub settings: InheritedSettings,
    /// The text of the file it was read from.
    pub file: Option<String>,
}

/// What a sub-agent inherits unless it has its own.
#[derive(Clone, Default)]
pub struct InheritedSettings {
    /// The model.
    pub model: Option<Arc<dyn Provider>>,
    /// How requests are tried again.
    pub llm_retry: Option<Throttle>,
    /// How history is compressed.
    pub compression: Option<Chosen>,
    /// The instructions.
    pub system_prompt: Option<SystemPrompt>,
}

impl InheritedSettings {
    /// These where they say something, others where not.
    #[must_use]
    pub fn or(&self, other: &InheritedSettings) -> InheritedSettings {
        InheritedSettings {
            model: self.model.clone().or_else(|| other.model.clone()),
            llm_retry: self.llm_retry.or(other.llm_retry),
            compression: self.compression.clone().or_else(|| other.compression.clone()),
            system_prompt: self.system_prompt.clone().or_else(|| other.system_prompt.clone()),
        }
    }
}

/// How far a sub-agent may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLimits {
    /// Time one program may compute, without its tools.
    pub timeout: Duration,
    /// Time for the whole mission, model and tools included.
    pub mission_timeout: Option<Duration>,
    /// Units of work of one program.
    pub fuel: u64,
    /// Bytes of definitions that are kept from turn to turn, written down.
    pub memory_limit: usize,
    /// What happens beyond that.
    pub on_memory_limit: OnMemoryLimit,
    /// Turns of this agent and all it calls. Where it says nothing and is called itself, those of its caller hold alone,
    /// else [`TURN_BUDGET`]; they hold in any case.
    pub turn_budget: Option<usize>,
    /// How deep agents may call agents, this one included; inherited in the same way, else [`MAX_DEPTH`].
    pub max_depth: Option<usize>,
}

/// Turns of an agent and all it calls, where nothing is said: four missions of the usual length.
pub const TURN_BUDGET: usize = 20;
/// How deep agents may call agents, where nothing is said.
pub const MAX_DEPTH: usize = 3;

/// What happens when definitions take too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMemoryLimit {
    /// The turn fails, and its definitions are undone.
    #[default]
    FailTurn,
    /// The mission ends.
    Stop,
}

impl Default for AgentLimits {
    fn default() -> Self {
        let lisp = scrollback_lisp::Limits::default();
        AgentLimits {
            timeout: lisp.time,
            mission_timeout: None,
            fuel: lisp.fuel,
            // As much as a model could ever have read.
            memory_limit: 1 << 20,
            on_memory_limit: OnMemoryLimit::FailTurn,
            turn_budget: None,
            max_depth: None,
        }
    }
}

impl SubAgent {
    /// A sub-agent with a mission and a signature, and the usual limits.
    ///
    /// ```
    /// use scrollback_subagent::SubAgent;
    /// use scrollback_lisp::Signature;
    /// let signature = Signature::parse("(limit :int) -> [:string]").ok();
    /// assert!(SubAgent::new("Who spent more than {{limit}}?", signature.clone()).is_ok());
    /// assert!(SubAgent::new("Who spent more than {{limt}}?", signature).is_err());
    /// ```
    pub fn new(mission: &str, signature: Option<Signature>) -> Result<Self, SubagentError> {
        if mission.trim().is_empty() {
            return Err(blank());
        }
        let mission = PromptTemplate::parse(mission);
        mission.check(signature.as_ref())?;
        Ok(SubAgent {
            name: "subagent".into(),
            mission,
            signature,
            tools: BTreeMap::new(),
            data: BTreeMap::new(),
            descriptions: BTreeMap::new(),
            obstacle: None,
            max_turns: super::MAX_TURNS,
            retry_turns: 0,
            limits: AgentLimits::default(),
            validation: Validation::Enabled,
            float_precision: None,
            settings: InheritedSettings::default(),
            file: None,
        })
    }

    /// The same with another mission.
    pub fn with_mission(mut self, mission: &str) -> Result<Self, SubagentError> {
        if mission.trim().is_empty() {
            return Err(blank());
        }
        self.mission = PromptTemplate::parse(mission);
        self.mission.check(self.signature.as_ref())?;
        Ok(self)
    }

    /// Adds a tool.
    pub fn add_tool(&mut self, tool: AgentTool) -> Result<(), SubagentError> {
        let name = tool.line.name.clone();
        reserved("tool", &name)?;
        if self.tools.insert(name.clone(), tool).is_some() {
            return Err(unnamed(format!("two tools have the name {name:?}")));
        }
        Ok(())
    }

    /// Adds data, in place of what has the same name.
    pub fn add_data(&mut self, name: &str, value: Value) -> Result<(), SubagentError> {
        reserved("data", name)?;
        self.data.insert(name.into(), value);
        Ok(())
    }

    /// This agent as a tool of another: its data are the arguments, its return is the result.
    pub fn as_tool(&self, name: &str, description: Option<&str>) -> Result<AgentTool, SubagentError> {
        if self.signature.is_none() {
            return Err(no_signature(&self.name));
        }
        Ok(AgentTool::agent(name, description.map(String::from), Arc::new(self.clone())))
    }

    /// A prompt with a signature as a tool: one question to the model, whose program is the answer.
    pub fn llm_tool(
        name: &str,
        prompt: &str,
        signature: Signature,
        description: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<AgentTool, SubagentError> {
        let mut agent = SubAgent::new(prompt, Some(signature))?;
        (agent.name, agent.max_turns, agent.limits.mission_timeout) = (name.into(), 1, timeout);
        agent.as_tool(name, description)
    }

    /// The mission.
    pub fn mission(&self) -> &PromptTemplate {
        &self.mission
    }

    /// What it takes and returns.
    pub fn signature(&self) -> Option<&Signature> {
        self.signature.as_ref()
    }

    /// What it may call.
    pub fn tools(&self) -> &BTreeMap<String, AgentTool> {
        &self.tools
    }

    /// What it may read.
    pub fn data(&self) -> &BTreeMap<String, Value> {
        &self.data
    }

    /// Its data with more laid over it, made to fit the signature; with what was odd about it.
    pub(crate) fn given(
        &self,
        more: &BTreeMap<String, Value>,
    ) -> Result<(BTreeMap<String, Value>, Vec<String>), SubagentError> {
        let mut data = self.data.clone();
        data.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
        let Some(signature) = &self.signature else { return Ok((data, Vec::new())) };
        let args = data.iter().map(|(name, value)| (Value::str(name.as_str()), value.clone())).collect();
        let accepted = signature.accept(self.validation, &args).map_err(SubagentError::data)?;
        Ok((by_name(&accepted.args), accepted.warnings))
    }

    /// This agent with what another returned as its data, described as that one describes it; refused if it lacks what
    /// this one needs.
    ///
    /// After a step that failed no model is asked: run, the agent gives a step that ends as `chained_failure`, and so does
    /// every one after it, for the same cause.
    pub fn then(&self, step: &Step) -> Result<SubAgent, SubagentError> {
        let mut next = self.clone();
        let value = match &step.outcome {
            Ok(value) => value,
            Err(fail) => {
                next.obstacle = Some(chained(step, fail));
                return Ok(next);
            }
        };
        let Value::Map(returned) = value else {
            let label = value.label();
            let message = format!("the step before returned {label}; only a map can be the data of the next");
            return Err(SubagentError::new(SubagentErrorKind::NotAMap, message));
        };
        for (name, value) in by_name(returned) {
            next.add_data(&name, value)?;
            if let Some(text) = step.descriptions.get(&name) {
                next.descriptions.entry(name).or_insert_with(|| text.clone());
            }
        }
        next.given(&BTreeMap::new())?;
        Ok(next)
    }
}

/// The end of a step that follows one that failed; the first cause, however long the chain is.
fn chained(step: &Step, fail: &Fail) -> Fail {
    match fail.reason {
        EndReason::ChainedFailure => fail.clone(),
        reason => {
            let message = format!("{} ended before it ({}): {}", step.name, reason.as_str(), fail.message);
            Fail::new(EndReason::ChainedFailure, message)
        }
    }
}

fn blank() -> SubagentError {
    SubagentError::new(SubagentErrorKind::BlankMission, "the mission is blank; say what is to be done")
}

fn unnamed(problem: String) -> SubagentError {
    SubagentError::new(SubagentErrorKind::Name, problem)
}

/// The error about an agent that is to be a tool and does not say what it takes.
pub(crate) fn no_signature(name: &str) -> SubagentError {
    let message = format!(
        "the agent {name:?} has no signature, so it cannot be a tool; write one: \"(name :type) -> :type\""
    );
    SubagentError::new(SubagentErrorKind::NoSignature, message)
}

fn reserved(what: &str, name: &str) -> Result<(), SubagentError> {
    if RESERVED.contains(&name) {
        return Err(unnamed(format!("{what} {name:?}: programs end with ({name} …); give it another name")));
    }
    if name.is_empty() {
        return Err(unnamed(format!("{what}: a name is missing")));
    }
    Ok(())
}
