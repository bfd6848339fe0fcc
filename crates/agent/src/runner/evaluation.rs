//! One evaluation under way: what it has recorded, what it used, and its next round.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use scrollback_core::request::{Policy, Stamp, news};
use scrollback_core::{CurationContext, Decision, Entry, Role, Slot, Time};
use scrollback_store::{Evaluation as Row, EvaluationStatus, Leased, NewEntry, Run, Sent, new_evaluation};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::caller::{NoReply, Replied, policy};
use super::error::{EvaluationError, EvaluationErrorKind, FailurePhase};
use super::{Evaluated, EvaluationEnd, Prompt, Question, Runner};
use crate::bus::Event;
use crate::event::{
    ConversationRecorded, EvaluationCompleted, EvaluationFailed, PromptRendered, RecordedEntry,
};
use crate::exchange::AttemptUsage;
use crate::journal::{Journal, JournalRows};
use crate::lease::{Held, holder, lease};
use crate::provider::{ToolChoice, body};
use crate::telemetry::SpanId;

/// One request of an evaluation, however many attempts there were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallReport {
    /// Which it is, from 1.
    pub n: u32,
    /// How often it was tried.
    pub attempts: u32,
    /// Messages in the record.
    pub original: usize,
    /// Messages it was sent.
    pub curated: usize,
    /// Tokens it was sent: instructions, tools and messages together.
    pub tokens: usize,
    /// Those of the instructions.
    pub instructions: usize,
    /// Those of the tool definitions.
    pub tools: usize,
    /// Those of everything else that was said.
    pub messages: usize,
    /// The epoch's number, where a sticky manager is at work.
    pub epoch: Option<u64>,
}

/// How often a tool was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolReport {
    /// All calls.
    pub calls: u32,
    /// Those that failed.
    pub errors: u32,
}

/// What a round came to.
pub(crate) enum Round {
    /// The model replied.
    Replied(String),
    /// Its calls were run; it is to be asked again.
    Acted,
    /// A person is asked.
    Paused(Question),
}

/// An evaluation under way.
pub struct Evaluation<'r> {
    /// What runs it.
    pub runner: &'r Runner,
    /// Where its entries are written.
    pub journal: &'r mut Journal,
    pub(crate) prompt: &'r Prompt,
    /// Its id, which its entries carry.
    pub id: Uuid,
    pub(crate) cx: Arc<CurationContext>,
    /// The runner's manager, which says what it did, and how requests are checked.
    pub policy: Arc<Policy>,
    /// Which of the tools the model may or must call now.
    pub(super) choice: ToolChoice,
    /// The next number of the evaluation's entries.
    pub(super) sequence: u64,
    pub(super) first_position: Option<u64>,
    pub(super) started_at: Time,
    pub(super) held: Option<Held>,
    pub(super) holder: String,
    /// What a person answered, until it is recorded.
    pub(super) answer: Option<String>,
    /// The run it is part of, and the row about it that is written with the first entry.
    pub run: Option<Box<Run>>,
    /// What it has used so far.
    pub spent: AttemptUsage,
    /// Requests so far.
    pub(super) asked: u32,
    pub(super) calls: Vec<CallReport>,
    pub(super) tools: BTreeMap<String, ToolReport>,
    /// Error results since the last success.
    pub(super) errors_in_a_row: u32,
    /// How often the model was asked for a next step.
    pub rounds: u32,
    /// What its span is called.
    pub(super) span: SpanId,
}

impl<'r> Evaluation<'r> {
    /// An evaluation that has not begun. Loops of other kinds than the runner's, such as that of a sub-agent, are built on it.
    pub fn new(runner: &'r Runner, journal: &'r mut Journal, prompt: &'r Prompt) -> Self {
        let info = runner.provider.describe();
        let mut cx = CurationContext::for_model(Some(info.model.clone()));
        cx.tools = Some(body::tools(info.wire, &runner.tools.specs()));
        cx.wire = Some(info.wire);
        cx.unfinished = runner.unfinished;
        runner.catalog.configure(&mut cx);
        cx.session =
            runner.session.clone().map(|session| -> Arc<dyn std::any::Any + Send + Sync> { session });
        cx.output = body::output_limit(&info, runner.sampling);
        if let Some(conversation) = journal.conversation().filter(|_| !journal.is_elsewhere()) {
            // Positions of a journal that is kept elsewhere are not those of the record.
            cx = cx.in_conversation(conversation.as_str());
        }
        let policy = policy(runner, &prompt.name, journal.is_elsewhere());
        Evaluation {
            id: new_evaluation(),
            cx: Arc::new(cx),
            policy: Arc::new(policy),
            choice: runner.tool_choice.clone(),
            sequence: 0,
            first_position: None,
            started_at: runner.clock.now(),
            held: None,
            holder: holder(),
            answer: None,
            run: None,
            spent: AttemptUsage::default(),
            asked: 0,
            calls: Vec::new(),
            tools: BTreeMap::new(),
            errors_in_a_row: 0,
            rounds: 0,
            span: SpanId::random(),
            runner,
            journal,
            prompt,
        }
    }

    /// The time of the runner's clock.
    pub fn now(&self) -> Time {
        self.runner.clock.now()
    }

    /// Publishes an event of this evaluation.
    pub fn tell<E: Event>(&self, event: &E) {
        self.runner.tell(event);
    }

    /// What tells this prompt from others: its instructions and its tools.
    pub(super) fn identity(&self) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(self.prompt.system.as_deref().unwrap_or_default().as_bytes());
        for spec in self.runner.tools.specs() {
            hash.update(format!("\n{}\n{}\n{}", spec.name, spec.description, spec.parameters).as_bytes());
        }
        hash.finalize().to_hex().to_string()
    }

    /// Records the instructions and the task.
    pub(crate) async fn begin(&mut self) -> Result<(), EvaluationError> {
        self.begin_with(Entry::text(Role::User, &self.prompt.user)).await
    }

    /// The same with a task that has more to it than its text.
    pub async fn begin_with(&mut self, task: Entry) -> Result<(), EvaluationError> {
        self.close_pending().await?;
        self.tell(&PromptRendered {
            prompt_name: self.prompt.name.clone(),
            evaluation_id: self.id,
            tools: self.runner.tools.specs().iter().map(|spec| spec.name.clone()).collect(),
            prompt_identity: self.identity(),
        });
        let instructions: Vec<Entry> =
            self.prompt.system.iter().map(|system| Entry::text(Role::System, system)).collect();
        let stamp = Stamp { evaluation: self.id, sequence: self.sequence, at: self.now() };
        for slot in news(self.journal.record(), &instructions, &[task], stamp) {
            match slot {
                Slot::Message(entry) => _ = self.record(Arc::unwrap_or_clone(entry), None).await?,
                Slot::Decision(decision, _) => _ = self.decide(Arc::unwrap_or_clone(decision)).await?,
                Slot::Erased(_) => {
                    let message = "cannot record an erased entry; start a new conversation";
                    return Err(EvaluationError::new(
                        FailurePhase::Request,
                        EvaluationErrorKind::Store(scrollback_store::ErrorKind::BadArgument),
                        message,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Round after round until the model replies, or too many.
    pub(crate) async fn rounds(&mut self, most: u32) -> Result<EvaluationEnd, EvaluationError> {
        while self.rounds < most {
            match self.round().await? {
                Round::Replied(text) => return self.replied(text),
                Round::Paused(question) => return Ok(EvaluationEnd::Paused(question)),
                Round::Acted => {}
            }
        }
        Err(EvaluationError::too_many_rounds(most))
    }

    /// The model's reply as what was asked for.
    fn replied(&self, text: String) -> Result<EvaluationEnd, EvaluationError> {
        let output = match &self.prompt.response_format {
            Some(format) => Some(structured(&text, &format.schema)?),
            None => None,
        };
        Ok(EvaluationEnd::Replied { text, output })
    }

    /// Asks the model once and runs what it calls.
    pub(crate) async fn round(&mut self) -> Result<Round, EvaluationError> {
        self.rounds += 1;
        self.check_halt()?;
        self.serve_summaries().await?;
        let replied = match self.ask_next().await {
            Ok(replied) => replied,
            Err(none) => return Err(self.keep_partial(none).await),
        };
        let position = self.take_reply(replied).await?;
        let Some(entry) = self.journal.entry(position).cloned() else {
            return Err(EvaluationError::new(
                FailurePhase::Response,
                EvaluationErrorKind::NoReply,
                "the reply was not recorded",
            ));
        };
        if entry.open_calls().next().is_none() {
            return Ok(Round::Replied(entry.content().unwrap_or_default()));
        }
        let paused = self.run_calls(&entry).await?;
        if matches!(self.choice, ToolChoice::Tool(_)) {
            // Forced once; asked for again and again the model could never reply.
            self.choice = ToolChoice::Auto;
        }
        Ok(paused.map_or(Round::Acted, Round::Paused))
    }

    /// Records a reply, and checks what it cost before anything else is done.
    pub(crate) async fn take_reply(&mut self, replied: Replied) -> Result<u64, EvaluationError> {
        let Replied { reply, sent } = replied;
        let mut entry = reply.entry().map_err(|error| EvaluationError::unreadable(&error))?;
        if let Some(format) = &self.prompt.response_format
            && entry.open_calls().next().is_none()
            && let Ok(output) = structured(&entry.content().unwrap_or_default(), &format.schema)
        {
            let meta = entry.meta.get_or_insert_default();
            meta.tags.insert("output".into(), output.to_string());
        }
        self.record_reply(entry, sent).await
    }

    /// Records what a model said, in whatever form it is kept.
    pub async fn record_reply(
        &mut self,
        mut entry: Entry,
        sent: Option<Sent>,
    ) -> Result<u64, EvaluationError> {
        let meta = entry.meta.get_or_insert_default();
        meta.model_asked = Some(self.runner.provider.describe().model.to_string());
        let position = self.record(entry, sent).await?;
        self.check_budget()?;
        Ok(position)
    }

    /// Records the part of a reply that broke off for good.
    pub async fn keep_partial(&mut self, none: NoReply) -> EvaluationError {
        let NoReply { error, partial } = none;
        let entry = partial.and_then(|partial| partial.entry().ok());
        match entry {
            Some(entry) => match self.record_reply(entry, None).await {
                Ok(_) => error,
                Err(worse) if worse.kind == EvaluationErrorKind::Budget => error,
                Err(worse) => worse,
            },
            None => error,
        }
    }

    /// Appends an entry as the next of the evaluation and tells of it, once it is durable.
    pub async fn record(&mut self, entry: Entry, sent: Option<Sent>) -> Result<u64, EvaluationError> {
        let now = self.now();
        let entry = entry.stamped(self.id, self.sequence, now);
        let first = self.first_position.is_none();
        let evaluation =
            first.then(|| self.row(EvaluationStatus::Running, Some(self.journal.record().len() as u64), now));
        let run = self.run.clone().filter(|_| first && self.journal.conversation().is_some());
        let (evaluation, sent) = (evaluation.flatten(), sent.into_iter().collect());
        let rows = JournalRows { evaluation, run, sent, ..JournalRows::default() };
        let positions = self.journal.write(vec![NewEntry::from(entry)], rows, now).await?;
        let position = positions.first().copied().unwrap_or(0);
        self.sequence += 1;
        self.first_position.get_or_insert(position);
        if self.held.is_none()
            && let Some((store, tenant)) = self.journal.store()
        {
            let what = Leased::Evaluation(self.id);
            self.held = Some(Held::keep(store, tenant, what, self.holder.clone(), &self.runner.clock));
        }
        self.told_of(position);
        Ok(position)
    }

    /// Tells that an entry is durable.
    pub(super) fn told_of(&self, position: u64) {
        let Some(entry) = self.journal.entry(position) else { return };
        self.tell(&ConversationRecorded {
            conversation: self.journal.conversation().map(ToString::to_string),
            recorded: RecordedEntry { entry: Arc::clone(entry), position },
        });
    }

    /// Records a decision, which every later view repeats.
    pub(super) async fn decide(&mut self, decision: Decision) -> Result<u64, EvaluationError> {
        let now = self.now();
        let written = self.journal.write(vec![decision.into()], JournalRows::default(), now).await?;
        Ok(written.first().copied().unwrap_or(0))
    }

    /// The row about this evaluation, where there is a store.
    fn row(&self, status: EvaluationStatus, first: Option<u64>, now: Time) -> Option<Row> {
        let conversation = self.journal.conversation()?.clone();
        let running = status == EvaluationStatus::Running;
        Some(Row {
            id: self.id,
            conversation,
            first_position: first,
            last_position: (self.journal.record().len() as u64).checked_sub(1).filter(|_| !running),
            count: self.sequence,
            status,
            prompt_identity: Some(self.identity()),
            lease: running.then(|| lease(&self.holder, &*self.runner.clock)),
            started_at: self.started_at,
            ended_at: (!running).then_some(now),
        })
    }

    /// Takes over what was learnt about the model, so that the next estimates are corrected by it.
    pub(super) fn calibrate(&mut self, tenant: &scrollback_store::Tenant) {
        if let Some(cx) = Arc::get_mut(&mut self.cx) {
            self.runner.calibrations.apply(tenant, cx);
        }
    }

    /// An error if the time is up or the run was asked to stop.
    pub fn check_halt(&self) -> Result<(), EvaluationError> {
        self.runner.check_halt()
    }

    /// An error if it took longer, or used more, than it may.
    pub(super) fn check_budget(&self) -> Result<(), EvaluationError> {
        self.runner.check_deadline()?;
        let over = self.runner.budget.and_then(|budget| budget.exceeded(&self.spent));
        over.map_or(Ok(()), |why| {
            Err(EvaluationError::new(FailurePhase::Budget, EvaluationErrorKind::Budget, why))
        })
    }

    /// Work that is dropped when the time is up or the run is asked to stop.
    pub async fn unless_halted<T>(&self, work: impl Future<Output = T>) -> Result<T, EvaluationError> {
        self.runner.unless_halted(work).await
    }

    /// Ends the evaluation: writes down how, and tells it.
    pub async fn end(self, ended: Result<EvaluationEnd, EvaluationError>) -> Evaluated {
        self.end_with_journal(ended).await.0
    }

    /// The same, and gives the journal back for reading.
    pub(crate) async fn end_with_journal(
        mut self,
        ended: Result<EvaluationEnd, EvaluationError>,
    ) -> (Evaluated, &'r mut Journal) {
        let mut ended = ended.unwrap_or_else(EvaluationEnd::Failed);
        // Work that ended in time may still have been recorded too late.
        if let (EvaluationEnd::Replied { .. }, Err(late)) = (&ended, self.runner.check_deadline()) {
            ended = EvaluationEnd::Failed(late);
        }
        let status = match &ended {
            EvaluationEnd::Replied { .. } => EvaluationStatus::Done,
            EvaluationEnd::Paused(_) => EvaluationStatus::Paused,
            EvaluationEnd::Failed(_) => EvaluationStatus::Failed,
        };
        if let Some(first) = self.first_position {
            let now = self.now();
            let rows =
                JournalRows { evaluation: self.row(status, Some(first), now), ..JournalRows::default() };
            if let Err(error) = self.journal.write(Vec::new(), rows, now).await
                && !matches!(ended, EvaluationEnd::Failed(_))
            {
                ended = EvaluationEnd::Failed(error.into());
            }
        }
        if let Some(held) = self.held.take() {
            held.release().await;
        }
        self.tell_invoked(&ended);
        match &ended {
            EvaluationEnd::Replied { text, .. } => self.tell(&EvaluationCompleted {
                evaluation_id: self.id,
                output: text.clone(),
                usage: self.spent.usage(),
            }),
            EvaluationEnd::Failed(error) => self.tell(&EvaluationFailed {
                evaluation_id: self.id,
                phase: error.phase.as_str(),
                code: error.code().into(),
                message: error.message.clone(),
            }),
            EvaluationEnd::Paused(_) => {}
        }
        let evaluated = Evaluated {
            evaluation_id: self.id,
            ended,
            spent: self.spent,
            calls: self.calls,
            tools: self.tools,
            rounds: self.rounds,
        };
        (evaluated, self.journal)
    }
}

/// A reply as the JSON that was asked for: the first object in it, which must fit the schema.
pub(crate) fn structured(text: &str, schema: &Value) -> Result<Value, EvaluationError> {
    let bad = |why: String| EvaluationError::new(FailurePhase::Response, EvaluationErrorKind::BadOutput, why);
    let Some(found) = first_object(text) else {
        return Err(bad("the reply has no JSON object in it, and one was asked for".into()));
    };
    if let Ok(validator) = jsonschema::validator_for(schema)
        && let Some(error) = validator.iter_errors(&found).next()
    {
        let path = error.instance_path.to_string();
        return Err(bad(format!("the reply does not fit what was asked for: {path}: {error}")));
    }
    Ok(found)
}

/// The first JSON object in a text, whatever stands around it.
pub(crate) fn first_object(text: &str) -> Option<Value> {
    let starts = text.match_indices('{').take(64);
    starts.filter_map(|(at, _)| text.get(at..)).find_map(|rest| {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        values.next().and_then(Result::ok).filter(Value::is_object)
    })
}
