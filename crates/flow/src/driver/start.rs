//! Beginning a run, and going on with one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use scrollback_agent::lease::{Held, holder, lease};
use scrollback_store::{
    ConversationId, Leased, NewConversation, Recipient, Run, RunKind, RunStatus, Step, StepStatus, StepType,
    StoreError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer;
use super::ledger::{Batch, Ledger, SpanRow};
use super::refusal::{RefusedKind, RunRefused};
use super::replay::RestoredRun;
use super::report::{RunReport, current_status, pauses_of, usage_of};
use super::{Engine, Shared, drive};
use crate::advance::{Action, FlowEvent, RunEnd};
use crate::error::{RunError, RunErrorKind};
use crate::settings::{FlowSettings, Set, SettingOrigin};
use crate::state::RunState;
use crate::usage::RunUsage;
use crate::{Flow, Prompts, QuotaLimits, ReadOptions};

/// Shortest part of a run's id that may stand for it.
const SHORTEST_PREFIX: usize = 4;
/// Longest id that may be given to a run.
const LONGEST_ID: usize = 128;

/// Who is told the id of a run.
pub type Created = Arc<dyn Fn(&str) + Send + Sync>;

/// A run that shall begin.
pub struct RunStart {
    /// The flow, which was read from `text`.
    pub flow: Arc<Flow>,
    /// The whole text of the flow.
    pub text: String,
    /// What it is called if it does not say.
    pub stem: String,
    /// The folder of its file.
    pub folder: PathBuf,
    /// What configuration and flags said when it was read.
    pub settings: FlowSettings,
    /// What was doubtful about it.
    pub warnings: Vec<Value>,
    /// What the run is given.
    pub input: Option<String>,
    /// The person it is run for: its conversation is one of theirs, found and erased by their name.
    pub recipient: Option<Recipient>,
    /// The id it shall have: beginning it twice is beginning it once.
    pub id: Option<String>,
    /// Told the id once the run is durable.
    pub created: Option<Created>,
}

/// A run that shall go on.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// Its id, or the beginning of it.
    pub run: String,
    /// A person's answer.
    pub answer: Option<StepAnswer>,
    /// Other limits of the run, where they are given.
    pub limits: QuotaLimits,
}

/// A person's answer.
#[derive(Clone, Debug, Default)]
pub struct StepAnswer {
    /// The key of the step that asked; none if only one did.
    pub step: Option<String>,
    /// The answer.
    pub text: String,
}

/// What is stored with a run besides the flow, so that it goes on without any file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Stored {
    pub(crate) settings: FlowSettings,
    pub(crate) folder: PathBuf,
    pub(crate) stem: String,
    pub(crate) prompts: BTreeMap<String, String>,
    pub(crate) warnings: Vec<Value>,
    pub(crate) resumes: u64,
}

impl Stored {
    pub(crate) fn of(run: &Run) -> Self {
        run.settings.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }
}

impl Engine {
    /// Begins a run and runs it as far as it goes.
    pub async fn start(&self, start: RunStart) -> Result<RunReport, RunRefused> {
        let hash = blake3::hash(start.text.as_bytes()).to_hex().to_string();
        if let Some(id) = &start.id {
            let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-.:".contains(letter);
            if id.is_empty() || id.len() > LONGEST_ID || !id.chars().all(fits) {
                let message = format!("an id has 1 to {LONGEST_ID} letters, digits, `_`, `-`, `.` or `:`");
                return Err(RunRefused::new(RefusedKind::BadId, message));
            }
            let found = self.store.runs(&self.tenant, id, 2).await?.into_iter().find(|run| run.id == *id);
            if let Some(run) = found {
                return self.again(run, &hash, start.input.as_deref()).await;
            }
        }
        let id = start.id.clone().unwrap_or_else(new_id);
        let now = self.clock.now();
        let conversation = ConversationId::new(now);
        let me = holder();
        let stored = Stored {
            settings: start.settings,
            folder: start.folder,
            stem: start.stem,
            prompts: start.flow.prompt_files.clone(),
            warnings: start.warnings,
            resumes: 0,
        };
        let mut run = Run {
            id: id.clone(),
            tenant: self.tenant.clone(),
            kind: RunKind::Flow,
            name: start.flow.name.clone(),
            hash,
            text: start.text,
            settings: stored.text(),
            status: RunStatus::Running,
            conversation: Some(conversation.clone()),
            input: start.input.clone(),
            output: None,
            error: None,
            usage: None,
            lease: Some(lease(&me, &*self.clock)),
            started_at: now,
            ended_at: None,
        };
        let state = RunState::new(Arc::clone(&start.flow), &id, start.input.as_deref());
        let store = Arc::clone(&self.store);
        let ledger = Ledger::begin(store, self.tenant.clone(), id.as_str().into(), conversation.clone());
        let shared = Arc::new(Shared::new(self.clone(), state, ledger, 0));
        let actions = shared.advance(FlowEvent::Started);
        let mut batch = Batch { run: Some(Box::new(run.clone())), ..Batch::default() };
        batch.spans.push(run_span(&run, StepStatus::Running));
        // The run is stored before it is announced, and before any model is asked.
        let (first, rest): (Vec<Action>, Vec<Action>) =
            actions.into_iter().partition(|action| matches!(action, Action::Write(_)));
        for action in first {
            if let Action::Write(write) = action {
                batch.add(write, now, |key, kind, data| shared.teller.number(now, key, kind, &data));
            }
        }
        let told = batch.events.clone();
        let create = NewConversation { recipient: start.recipient, ..NewConversation::new(conversation) };
        shared.ledger.lock().await.commit(batch, now, Some(create)).await?;
        let held = Held::keep(&self.store, &self.tenant, Leased::Run(id.clone()), me, &self.clock);
        if let Some(created) = &start.created {
            created(&id);
        }
        if let Some(watcher) = &self.status_watcher {
            watcher(&id, RunStatus::Running);
        }
        for told in &told {
            shared.teller.show(told, || None);
        }
        let ended = drive(&shared, &mut run, rest, Batch::default(), BTreeMap::new()).await;
        held.release().await;
        self.report_after(&run, ended).await
    }

    /// A run that was begun under that id before.
    async fn again(&self, run: Run, hash: &str, input: Option<&str>) -> Result<RunReport, RunRefused> {
        if run.hash != hash || run.input.as_deref() != input {
            let message = format!(
                "run {:?} exists with another flow or input; choose another id, or omit --id",
                run.id
            );
            return Err(RunRefused::new(RefusedKind::IdInUse, message));
        }
        match current_status(&run, self.clock.now()) {
            RunStatus::Interrupted => self.resume(Resume { run: run.id, ..Resume::default() }).await,
            RunStatus::Running => Err(busy()),
            RunStatus::Paused | RunStatus::Done | RunStatus::Failed => self.report(&run).await,
        }
    }

    /// The run of an id, or of the beginning of one.
    pub async fn find(&self, prefix: &str) -> Result<Run, RunRefused> {
        let found = self.store.runs(&self.tenant, prefix, 3).await?;
        let unknown = |hint: &str| {
            let message =
                format!("there is no run {prefix:?}{hint}; `scrollback lens list` shows what there is");
            RunRefused::new(RefusedKind::UnknownRun, message)
        };
        if let Some(exact) = found.iter().find(|run| run.id == prefix) {
            return Ok(exact.clone());
        }
        if prefix.len() < SHORTEST_PREFIX {
            return Err(unknown(" (give at least 4 characters of its id)"));
        }
        match found.as_slice() {
            [] => Err(unknown("")),
            [one] => Ok(one.clone()),
            several => {
                let ids: Vec<&str> = several.iter().map(|run| run.id.as_str()).collect();
                let message = format!("several runs begin with {prefix:?}: {}, …", ids.join(", "));
                Err(RunRefused::new(RefusedKind::AmbiguousRun, message))
            }
        }
    }

    /// The flow of a stored run, as it was when the run began.
    pub fn flow_of(&self, run: &Run) -> Result<Arc<Flow>, RunRefused> {
        self.flow_with(run, &Stored::of(run))
    }

    fn flow_with(&self, run: &Run, stored: &Stored) -> Result<Arc<Flow>, RunRefused> {
        let source = ReadOptions {
            stem: &stored.stem,
            folder: Path::new(&stored.folder),
            prompts: Prompts::Kept(&stored.prompts),
            settings: &stored.settings,
            catalog: &self.catalog,
            environment: &self.environment,
        };
        Ok(Arc::new(Flow::read(&run.text, &source)?.flow))
    }

    /// How a stored run stands.
    pub async fn report(&self, run: &Run) -> Result<RunReport, RunRefused> {
        let steps = self.store.steps(&self.tenant, &run.id).await?;
        let flow = self.flow_of(run).ok();
        Ok(RunReport::of(run, &steps, flow.as_ref(), &self.redactor, self.clock.now()))
    }

    async fn report_after(
        &self,
        run: &Run,
        ended: Result<RunEnd, StoreError>,
    ) -> Result<RunReport, RunRefused> {
        match ended {
            Ok(_) => {
                let found = self.find(&run.id).await?;
                self.report(&found).await
            }
            // What cannot be written cannot be read either: this is said from memory.
            Err(error) => {
                let code = match error.kind() {
                    scrollback_store::ErrorKind::Busy => RunErrorKind::Busy,
                    _ => RunErrorKind::StoreError,
                };
                let error = RunError { step: None, ..RunError::new(code, "", error.to_string()) };
                let mut report = RunReport::of(run, &[], None, &self.redactor, self.clock.now());
                (report.status, report.error) = (RunStatus::Failed, Some(error));
                Ok(report)
            }
        }
    }

    /// Goes on with a run. What is refused leaves it as it was.
    pub async fn resume(&self, resume: Resume) -> Result<RunReport, RunRefused> {
        let run = self.find(&resume.run).await?;
        if run.kind == RunKind::Subagent {
            let id = &run.id;
            let message = format!(
                "run {id} is a sub-agent's, and only flows are resumed here; \
                 go on with it: scrollback subagent AGENT.yaml --resume {id}"
            );
            return Err(RunRefused::new(RefusedKind::NotWaiting, message));
        }
        let now = self.clock.now();
        if current_status(&run, now) == RunStatus::Running {
            return Err(busy());
        }
        if let Some(answer) = &resume.answer
            && self.is_answered(&run, answer).await?
        {
            return self.report(&run).await;
        }
        may_resume(&run, resume.answer.is_some(), now)?;
        let me = holder();
        let before = run.lease.as_ref().map(|lease| lease.holder.as_str());
        let what = Leased::Run(run.id.clone());
        let held = Held::take(&self.store, &self.tenant, what, me, before, &self.clock).await?;
        let ended = self.resume_held(&run.id, resume).await;
        held.release().await;
        let (run, ended) = ended?;
        self.report_after(&run, ended).await
    }

    /// Goes on with a run that is ours. Reads its status again, because another process may have resumed it meanwhile.
    async fn resume_held(
        &self,
        id: &str,
        resume: Resume,
    ) -> Result<(Run, Result<RunEnd, StoreError>), RunRefused> {
        let mut run = self.find(id).await?;
        if run.status != RunStatus::Running {
            // Ours now; what the row says was before.
            may_resume(&run, resume.answer.is_some(), self.clock.now())?;
        }
        let steps = self.store.steps(&self.tenant, id).await?;
        let mut stored = Stored::of(&run);
        let flag = |value| Set { value, from: SettingOrigin::Flag };
        if let Some(tokens) = resume.limits.max_tokens {
            stored.settings.flags.max_tokens = Some(flag(tokens));
        }
        if let Some(cost) = resume.limits.max_cost {
            stored.settings.flags.max_cost_usd =
                Some(Set { value: cost.dollars(), from: SettingOrigin::Flag });
        }
        let flow = self.flow_with(&run, &stored)?;
        let answer = match (run.status, &resume.answer) {
            (RunStatus::Paused, None) => {
                let open = pauses_of(&steps, Some(&flow), &self.redactor);
                let asked: Vec<String> =
                    open.iter().map(|pause| format!("{} ({})", pause.step, pause.message)).collect();
                let message =
                    format!("run {id} waits for an answer: {}; give it with --input", asked.join(", "));
                return Err(RunRefused::new(RefusedKind::AnswerMissing, message));
            }
            (RunStatus::Paused, Some(answer)) => {
                Some(chosen(&steps, &flow, answer).map_err(|refused| refused.redacted(&self.redactor))?)
            }
            _ => None,
        };
        stored.resumes += 1;
        run.settings = stored.text();
        let mut replayed = RestoredRun::of(self, flow, &run, &steps).await?;
        let shared = Arc::clone(&replayed.shared);
        let mut batch = Batch::default();
        (run.status, run.error, run.output, run.ended_at) = (RunStatus::Running, None, None, None);
        batch.run = Some(Box::new(run.clone()));
        batch.spans.push(run_span(&run, StepStatus::Running));
        let told = json!({
            "resumes": stored.resumes, "limits": shared.flow.limits, "usage": usage_of(&steps),
        });
        batch.events.push(shared.tell(None, "run.resumed", told));
        if let Some((key, text, value)) = answer {
            // What waited for this very answer waits no longer.
            replayed.actions.retain(|action| !matches!(action, Action::End(_)));
            let led_to = shared.advance(FlowEvent::Answered { key, text: text.into(), value });
            if led_to.is_empty() {
                let message = format!("run {id} is not at the step that its steps say; nothing was changed");
                return Err(RunRefused::new(RefusedKind::Store, message));
            }
            replayed.actions.extend(led_to);
        }
        let ended = drive(&shared, &mut run, replayed.actions, batch, replayed.before).await;
        Ok((run, ended))
    }

    /// Whether a question was answered with these very words before.
    async fn is_answered(&self, run: &Run, answer: &StepAnswer) -> Result<bool, RunRefused> {
        let (Some(wanted), Some(conversation)) = (&answer.step, &run.conversation) else { return Ok(false) };
        let steps = self.store.steps(&self.tenant, &run.id).await?;
        let done = steps.iter().find(|step| {
            step.key == *wanted && step.kind == StepType::Hitl && step.status == StepStatus::Done
        });
        let Some(evaluation) = done.and_then(|step| step.evaluation) else { return Ok(false) };
        let record = self.store.record(&self.tenant, conversation, None).await?;
        let said = record.slots().iter().any(|slot| match slot {
            scrollback_core::Slot::Message(entry) => {
                entry.evaluation_id == evaluation && entry.content().as_deref() == Some(&answer.text)
            }
            _ => false,
        });
        Ok(said)
    }
}

/// Whether a run in that standing goes on with an answer, or without.
fn may_resume(run: &Run, answered: bool, now: scrollback_core::Time) -> Result<(), RunRefused> {
    let status = current_status(run, now);
    let refused = |kind, message: &str| Err(RunRefused::new(kind, format!("run {}: {message}", run.id)));
    match (status, answered) {
        (RunStatus::Done, _) => {
            refused(RefusedKind::NothingToResume, "it is done, and nothing is left to do")
        }
        (RunStatus::Interrupted, true) => refused(
            RefusedKind::NotWaiting,
            "it was interrupted and does not wait for an answer; omit --input",
        ),
        (RunStatus::Failed, true) => {
            refused(RefusedKind::NotWaiting, "it failed and does not wait for an answer; omit --input")
        }
        (RunStatus::Running, _) => Err(busy()),
        _ => Ok(()),
    }
}

/// The question that is answered, and what the answer means.
fn chosen(
    steps: &[Step],
    flow: &Arc<Flow>,
    answer: &StepAnswer,
) -> Result<(String, String, Value), RunRefused> {
    let open: Vec<&Step> = steps.iter().filter(|step| step.status == StepStatus::Paused).collect();
    let keys: Vec<&str> = open.iter().map(|step| step.key.as_str()).collect();
    let key = match (&answer.step, keys.as_slice()) {
        (Some(wanted), _) if keys.contains(&wanted.as_str()) => wanted.clone(),
        (Some(wanted), _) => {
            let message = format!("no question of {wanted:?} is open; open are: {}", keys.join(", "));
            return Err(RunRefused::new(RefusedKind::UnknownStep, message));
        }
        (None, [only]) => (*only).to_string(),
        (None, _) => {
            let message = format!("several questions are open; say which with --step: {}", keys.join(", "));
            return Err(RunRefused::new(RefusedKind::StepMissing, message));
        }
    };
    let asked = flow.step(super::ledger::name_of(&key)).and_then(|step| match &step.kind {
        crate::StepKind::Hitl(hitl) => hitl.input_schema.as_ref(),
        _ => None,
    });
    let value = answer::meaning(&answer.text, asked)?;
    Ok((key, answer.text.clone(), value))
}

fn busy() -> RunRefused {
    RunRefused::new(RefusedKind::Busy, "another process works on this run; wait for it, or stop it first")
}

/// Notes in a run's row how it ends or waits.
pub(super) fn conclude(shared: &Shared, run: &mut Run, how: &RunEnd, batch: &mut Batch) {
    let usage = shared.with_state(|state| state.usage());
    let status = match how {
        RunEnd::Done(output) => {
            run.output = Some(output.value.to_string());
            RunStatus::Done
        }
        RunEnd::Failed(error) => {
            run.error = serde_json::to_string(error).ok();
            RunStatus::Failed
        }
        RunEnd::Paused => RunStatus::Paused,
        RunEnd::Stopped => RunStatus::Interrupted,
    };
    run.status = status;
    run.usage = serde_json::to_string(&usage).ok();
    run.ended_at = matches!(how, RunEnd::Done(_) | RunEnd::Failed(_)).then(|| shared.now());
    batch.spans.push(run_span(run, span_status(how)));
    let (kind, data) = match how {
        RunEnd::Paused => ("run.paused", json!({})),
        _ => ("run.finished", json!({ "status": status })),
    };
    batch.events.push(shared.tell(None, kind, data));
    batch.run = Some(Box::new(run.clone()));
}

/// The status of the whole run's span. A run that was stopped goes on, so its span has not ended.
fn span_status(how: &RunEnd) -> StepStatus {
    match how {
        RunEnd::Done(_) => StepStatus::Done,
        RunEnd::Failed(_) => StepStatus::Failed,
        RunEnd::Paused => StepStatus::Paused,
        RunEnd::Stopped => StepStatus::Running,
    }
}

/// The span of the whole run.
fn run_span(run: &Run, status: StepStatus) -> SpanRow {
    SpanRow {
        key: String::new(),
        within: None,
        name: format!("invoke_workflow {}", run.name),
        status,
        attributes: json!({ "gen_ai.operation.name": "invoke_workflow", "scrollback.run": run.id }),
    }
}

/// Sixteen random letters and digits.
fn new_id() -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut number = uuid::Uuid::new_v4().as_u128() ^ uuid::Uuid::new_v4().as_u128().rotate_left(61);
    let mut id = String::with_capacity(16);
    for _ in 0..16 {
        id.push(LETTERS.get((number % 36) as usize).map_or('a', |letter| char::from(*letter)));
        number /= 36;
    }
    id
}

/// How often a run was resumed.
pub(crate) fn resumes(run: &Run) -> u64 {
    Stored::of(run).resumes
}

/// What steps that are done again have used already.
pub(super) type Before = BTreeMap<String, RunUsage>;
