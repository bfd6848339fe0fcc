//! From an agent and what it is given to a mission under way: run anew, resumed, or called by another agent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use scrollback_agent::journal::Journal;
use scrollback_agent::later;
use scrollback_agent::lease::{Held, holder, lease};
use scrollback_agent::provider::Provider;
use scrollback_agent::runner::{AttemptUsage, CannotResume, CannotResumeKind, Deadline, Prompt, Throttle};
use scrollback_agent::telemetry::Telemetry;
use scrollback_core::Time;
use scrollback_core::tokens::Counter;
use scrollback_lisp::{Env, Limits, Tool, Value};
use scrollback_store::{ConversationId, Leased, Run, RunStatus, Tx};
use serde_json::json;
use uuid::Uuid;

use super::agent::{InheritedSettings, MAX_DEPTH, SubAgent, TURN_BUDGET};
use super::compression::{Chosen, Compression};
use super::error::SubagentError;
use super::host::Host;
use super::input::Input;
use super::mission_loop::Working;
use super::record::RecordedMission;
use super::step::{EndReason, Fail, Sent, Step};
use super::tools::AgentTool;
use super::turn::{as_json, spent_json};

/// Longer than any program waits for its tools, which have their own limits.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Attempts at a request.
const ATTEMPTS: u32 = 3;
/// The first wait between them.
const BASE: Duration = Duration::from_secs(1);

/// What an agent shares with those it calls and is called by.
#[derive(Clone)]
pub(crate) struct Family {
    /// Turns that may be used: those of the whole family, then those of every agent on the way that has a budget.
    turns: Vec<SharedTurns>,
    max_depth: usize,
    depth: usize,
    pub(crate) deadline: Option<Time>,
    pub(crate) parent: Option<Uuid>,
    /// Who is sent spans of what it does.
    pub(crate) telemetry: Telemetry,
}

/// Turns that an agent and those it calls have together.
#[derive(Clone)]
struct SharedTurns {
    used: Arc<AtomicUsize>,
    most: usize,
}

impl SharedTurns {
    fn new(most: usize) -> Self {
        SharedTurns { used: Arc::default(), most }
    }
}

impl Family {
    /// The depth of an agent that no other agent called.
    fn root(agent: &SubAgent, host: &Host) -> Self {
        Family {
            turns: vec![SharedTurns::new(agent.limits.turn_budget.unwrap_or(TURN_BUDGET))],
            max_depth: agent.limits.max_depth.unwrap_or(MAX_DEPTH),
            depth: 1,
            deadline: agent.limits.mission_timeout.map(|time| later(host.clock.now(), time)),
            parent: None,
            telemetry: host.telemetry.clone(),
        }
    }

    /// That of an agent this one calls. What it says about itself holds besides, never instead.
    pub(crate) fn child(&self, agent: &SubAgent) -> Self {
        let mut child = Family { depth: self.depth + 1, ..self.clone() };
        child.turns.extend(agent.limits.turn_budget.map(SharedTurns::new));
        if let Some(own) = agent.limits.max_depth {
            child.max_depth = self.max_depth.min(self.depth.saturating_add(own));
        }
        child
    }

    /// The same, called by an evaluation.
    pub(crate) fn called_by(&self, parent: Uuid, telemetry: Telemetry) -> Self {
        Family { parent: Some(parent), telemetry, ..self.clone() }
    }

    /// Takes one turn of those that are left to all.
    pub(crate) fn take_turn(&self) -> Result<(), Fail> {
        // The smallest circle first: what it refuses is no turn of the others.
        for turns in self.turns.iter().rev() {
            if turns.used.fetch_add(1, Ordering::SeqCst) >= turns.most {
                let plural = if turns.most == 1 { " was" } else { "s were" };
                let message = format!(
                    "{} turn{plural} used by this agent and those it called; raise turn_budget",
                    turns.most
                );
                return Err(Fail::new(EndReason::TurnBudgetExhausted, message));
            }
        }
        Ok(())
    }

    /// How many turns all have used together.
    pub(crate) fn turns_used(&self) -> usize {
        self.turns.first().map_or(0, |turns| turns.used.load(Ordering::SeqCst).min(turns.most))
    }

    /// Notes turns that were used before.
    fn used(&self, count: usize) {
        for turns in &self.turns {
            turns.used.fetch_add(count, Ordering::SeqCst);
        }
    }
}

/// A mission that is ready to be run.
pub(crate) struct MissionPlan {
    pub(crate) agent: SubAgent,
    pub(crate) input: Input,
    pub(crate) chosen: Chosen,
    pub(crate) strategy: Arc<dyn Compression>,
    pub(crate) settings: InheritedSettings,
    pub(crate) host: Arc<Host>,
    pub(crate) family: Family,
    pub(crate) tools: Arc<BTreeMap<String, AgentTool>>,
    pub(crate) env: Env,
    pub(crate) limits: Limits,
    pub(crate) warnings: Vec<String>,
}

impl MissionPlan {
    fn new(
        agent: &SubAgent,
        more: &BTreeMap<String, Value>,
        settings: InheritedSettings,
        host: &Arc<Host>,
        family: Family,
    ) -> Result<Self, SubagentError> {
        // Where no model will be asked, nothing has to fit.
        let (data, warnings) = match &agent.obstacle {
            Some(_) => (agent.data().clone(), Vec::new()),
            None => agent.given(more)?,
        };
        let chosen = settings.compression.clone().unwrap_or_default();
        let model = settings.model.as_ref().map(|model| model.describe().model);
        let input = Input {
            mission: agent.mission().expand(&data).trim().to_string(),
            signature: agent.signature().cloned(),
            tools: agent.tools().values().map(|tool| tool.line().clone()).collect(),
            data,
            descriptions: agent.descriptions.clone(),
            system: settings.system_prompt.clone().unwrap_or_default().generate(),
            max_turns: agent.max_turns.max(1),
            retry_turns: agent.retry_turns,
            counter: Counter::for_model(model.as_ref()),
        };
        let own = agent.limits.mission_timeout.map(|time| later(host.clock.now(), time));
        let deadline = [own, family.deadline].into_iter().flatten().min();
        let mut plan = MissionPlan {
            strategy: chosen.build(),
            chosen,
            settings,
            host: Arc::clone(host),
            family: Family { deadline, ..family },
            tools: Arc::new(agent.tools().clone()),
            env: Env::new(),
            limits: Limits {
                time: agent.limits.timeout,
                deadline: PATIENCE,
                fuel: agent.limits.fuel,
                ..Limits::default()
            },
            warnings,
            input,
            agent: agent.clone(),
        };
        plan.env = plan.environment();
        Ok(plan)
    }

    /// What programs are given.
    fn environment(&self) -> Env {
        let env = Env::new().validation(self.agent.validation);
        let env = self.input.data.iter().fold(env, |env, (name, value)| env.data(name, value.clone()));
        let tools = self.input.tools.iter();
        tools.fold(env, |env, tool| env.tool(Tool::pending(&tool.name, tool.signature.clone())))
    }

    /// The provider to ask, or why there is none.
    fn model(&self) -> Result<Arc<dyn Provider>, Fail> {
        if let Some(fail) = &self.agent.obstacle {
            return Err(fail.clone());
        }
        if self.family.depth > self.family.max_depth {
            let message = format!("agents may call agents {} deep; raise max_depth", self.family.max_depth);
            return Err(Fail::new(EndReason::MaxDepthExceeded, message));
        }
        let message = "there is no model; name one in the agent's file, or give --model";
        self.settings.model.clone().ok_or_else(|| Fail::new(EndReason::LlmRequired, message))
    }

    /// A mission that ended before it began.
    fn unbegun(&self, fail: Fail) -> Step {
        Step {
            name: self.agent.name.clone(),
            outcome: Err(fail),
            turns: Vec::new(),
            memory: scrollback_lisp::Memory::default(),
            signature: self.input.signature.clone(),
            descriptions: self.agent.descriptions.clone(),
            usage: AttemptUsage::default(),
            trace_id: scrollback_store::new_evaluation(),
            parent_trace_id: self.family.parent,
            children: Vec::new(),
            run: None,
            sent: Sent { input: self.input.clone(), compression: self.chosen.clone(), calls: Vec::new() },
            warnings: self.warnings.clone(),
        }
    }

    fn throttle(&self) -> Throttle {
        let usual = || Throttle::new(ATTEMPTS, BASE, Duration::from_secs(8), Duration::from_secs(30));
        self.settings.llm_retry.or_else(|| usual().ok()).unwrap_or_default()
    }

    /// The row about the run, as it begins; none where nothing is kept, and for agents that were called.
    fn row(&self, conversation: Option<&ConversationId>) -> Option<Run> {
        if self.family.parent.is_some() {
            return None;
        }
        let tenant = self.host.store.as_ref().map(|(_, tenant)| tenant.clone())?;
        let text = self.agent.file.clone().unwrap_or_default();
        let data: serde_json::Map<String, serde_json::Value> =
            self.input.data.iter().map(|(name, value)| (name.clone(), as_json(value))).collect();
        let settings = json!({
            "mission": self.agent.mission().as_str(),
            "max_turns": self.input.max_turns,
            "compression": self.chosen.to_json(),
            "model": self.settings.model.as_ref().map(|model| model.describe().model.to_string()),
        });
        Some(Run {
            id: run_id(),
            tenant,
            kind: scrollback_store::RunKind::Subagent,
            name: self.agent.name.clone(),
            hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
            text,
            settings: Some(settings.to_string()),
            status: RunStatus::Running,
            conversation: conversation.cloned(),
            input: Some(serde_json::Value::Object(data).to_string()),
            output: None,
            error: None,
            usage: None,
            lease: None,
            started_at: self.host.clock.now(),
            ended_at: None,
        })
    }

    /// The row about the run, as it ends.
    async fn close(&self, mut row: Run, step: &Step) -> Result<(), scrollback_store::StoreError> {
        let Some((store, tenant)) = &self.host.store else { return Ok(()) };
        let now = self.host.clock.now();
        row.status = if step.outcome.is_ok() { RunStatus::Done } else { RunStatus::Failed };
        row.output = step.outcome.as_ref().ok().map(|value| as_json(value).to_string());
        row.error = step.outcome.as_ref().err().map(|fail| fail.to_json().to_string());
        row.usage = Some(spent_json(&step.usage).to_string());
        row.ended_at = Some(now);
        let mut tx = Tx::new(tenant, now);
        tx.run(row);
        store.commit(tx).await.map(|_| ())
    }
}

/// Sixteen letters and digits, of which a few tell one run from another.
fn run_id() -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let bits = Uuid::new_v4().as_u128();
    let letter = |place: u32| LETTERS.get((bits / 36_u128.pow(place) % 36) as usize).copied();
    (0..16).filter_map(letter).map(char::from).collect()
}

impl SubAgent {
    /// Runs the mission. `data` is laid over the agent's own, `settings` over the agent's own; an error if the data does
    /// not fit the signature, before anything is asked.
    pub async fn run(
        &self,
        data: &BTreeMap<String, Value>,
        settings: &InheritedSettings,
        host: &Arc<Host>,
        journal: &mut Journal,
    ) -> Result<Step, SubagentError> {
        let family = Family::root(self, host);
        self.run_in(data, settings.or(&self.settings), host, family, journal).await
    }

    /// The same as part of a family, with these settings.
    pub(crate) async fn run_in(
        &self,
        data: &BTreeMap<String, Value>,
        settings: InheritedSettings,
        host: &Arc<Host>,
        family: Family,
        journal: &mut Journal,
    ) -> Result<Step, SubagentError> {
        let plan = MissionPlan::new(self, data, settings, host, family)?;
        let model = match plan.model() {
            Ok(model) => model,
            Err(fail) => {
                let mut step = plan.unbegun(fail);
                finish(&plan, plan.row(None), None, &mut step).await;
                return Ok(step);
            }
        };
        let mut runner = host.runner(model, plan.throttle(), plan.family.deadline.map(Deadline::exactly));
        runner.telemetry = plan.family.telemetry.clone();
        let prompt = prompt(&plan);
        let me = holder();
        let row =
            plan.row(journal.conversation()).map(|row| Run { lease: Some(lease(&me, &*host.clock)), ..row });
        let mut working = Working::new(&plan, &runner, journal, &prompt);
        working.evaluation.run = row.clone().map(Box::new);
        let begun = working.begin().await;
        let held =
            row.as_ref().zip(host.store.as_ref()).filter(|_| begun.is_ok()).map(|(row, (store, tenant))| {
                Held::keep(store, tenant, Leased::Run(row.id.clone()), me.clone(), &host.clock)
            });
        let outcome = match begun {
            Ok(()) => working.turns().await,
            Err(fail) => Err(fail),
        };
        let mut step = working.end(outcome).await;
        finish(&plan, row, held, &mut step).await;
        Ok(step)
    }

    /// Goes on with the newest mission of a record, whose run is `row`. The agent must be the one it was begun with.
    pub async fn resume(
        &self,
        row: Option<Run>,
        settings: &InheritedSettings,
        host: &Arc<Host>,
        journal: &mut Journal,
    ) -> Result<Step, CannotResume> {
        let refuse = |kind, message: String| Err(CannotResume::new(kind, message));
        let recorded = match RecordedMission::of(journal.record()) {
            Ok(recorded) if recorded.end.is_none() => recorded,
            Ok(_) => {
                return refuse(
                    CannotResumeKind::NothingToResume,
                    "nothing to resume: the mission has come to its end".into(),
                );
            }
            Err(error) => return refuse(CannotResumeKind::NothingToResume, error.to_string()),
        };
        let family = Family::root(self, host);
        family.used(recorded.family_turns);
        // The mission, its data and how it is told are those of the record; only tools and limits are the agent's.
        let told = InheritedSettings {
            compression: Some(recorded.compression.clone()),
            ..InheritedSettings::default()
        };
        let settings = settings.or(&told).or(&self.settings);
        let plan = match MissionPlan::new(self, &recorded.input.data, settings, host, family) {
            Ok(mut plan) => {
                plan.input.mission.clone_from(&recorded.input.mission);
                plan.input.descriptions.clone_from(&recorded.input.descriptions);
                plan.input.max_turns = plan.input.max_turns.max(recorded.input.max_turns);
                plan
            }
            Err(error) => return refuse(CannotResumeKind::PromptChanged, error.to_string()),
        };
        let shown = plan.strategy.shown();
        if plan.input.heading(shown) != recorded.input.heading(shown)
            || plan.input.system != recorded.input.system
        {
            let message = "signature, tools or instructions changed since the mission began; \
                           start a new run, or restore them";
            return refuse(CannotResumeKind::PromptChanged, message.into());
        }
        let model = match plan.model() {
            Ok(model) => model,
            Err(fail) => return Ok(plan.unbegun(fail)),
        };
        let mut runner = host.runner(model, plan.throttle(), plan.family.deadline.map(Deadline::exactly));
        runner.telemetry = plan.family.telemetry.clone();
        let prompt = prompt(&plan);
        let mut held = None;
        if let (Some(row), Some((store, tenant))) = (&row, &host.store) {
            let what = Leased::Run(row.id.clone());
            let before = row.lease.as_ref().map(|lease| lease.holder.clone());
            held = Some(Held::take(store, tenant, what, holder(), before.as_deref(), &host.clock).await?);
            let mut tx = Tx::new(tenant, host.clock.now());
            tx.run(Run { status: RunStatus::Running, error: None, ended_at: None, ..row.clone() });
            store.commit(tx).await?;
        }
        let mut working = Working::new(&plan, &runner, journal, &prompt);
        working.evaluation.run = row.clone().map(Box::new);
        working.evaluation.take_over(recorded.trace_id, recorded.first, recorded.next_sequence).await?;
        working.restore(recorded);
        let outcome = working.go_on().await;
        let mut step = working.end(outcome).await;
        finish(&plan, row, held, &mut step).await;
        Ok(step)
    }
}

fn prompt(plan: &MissionPlan) -> Prompt {
    Prompt {
        name: plan.agent.name.clone(),
        system: Some(plan.input.system.clone()),
        user: plan.input.mission.clone(),
        response_format: None,
    }
}

/// Writes down how the run ended, and gives its lease back.
async fn finish(plan: &MissionPlan, row: Option<Run>, held: Option<Held>, step: &mut Step) {
    let Some(row) = row else { return };
    step.run = Some(row.id.clone());
    if let Err(error) = plan.close(row, step).await {
        step.warnings.push(format!("how the run ended could not be written down: {error}"));
    }
    if let Some(held) = held {
        held.release().await;
    }
}
