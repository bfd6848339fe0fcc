//! How an evaluation asks: what differs between it and others who go through the [exchange](crate::exchange).

use std::sync::Arc;
use std::time::Duration;

use scrollback_core::request::{CallerRequest, Invalid, Policy, PrepareError, Prepared, RequestMessage};
use scrollback_core::stream::{Delta, Reply};
use scrollback_core::{CurationContext, Entry, Role, Time, json};
use scrollback_store::{CallStatus, Sent, summary_input};
use serde::Serialize;
use serde_json::value::RawValue;

use super::error::{EvaluationError, EvaluationErrorKind, FailurePhase};
use super::evaluation::{CallReport, Evaluation};
use super::{Repair, Runner};
use crate::effects::BoxFuture;
use crate::event::{ReplyReceived, Throttled};
use crate::exchange::{
    self, AnsweredCall, AttemptEnd, AttemptUsage, Attempted, Caller, Composed, CuratedRequests, Direct,
    Exchange, ExchangeEvent, GiveUp, GivesUp, Make, OnOverflow, OpenCall, PartOf, Recorder, Refusal,
    RefusedCall, SummaryOutcome, Unanswered, Watch, WholeReply, Write, serve_summary, summary_instructions,
};
use crate::lease::holder;
use crate::provider::body::{Wishes, around};
use crate::provider::{ErrorKind, ModelInfo, Provider, ProviderError, Request, ResponseFormat};
use crate::telemetry::{Chat, SpanId};

/// One attempt at a request, for traces of what models are sent.
#[derive(Clone, Debug, Serialize)]
pub struct Attempt<'a> {
    /// Which call of the evaluation it is, from 1.
    pub n: u32,
    /// Which attempt at it, from 1.
    pub attempt: u32,
    /// The body that was sent.
    pub request: &'a RawValue,
    /// What it shows of the record.
    pub view: &'a [RequestMessage],
    /// The epoch's number, where a sticky manager is at work.
    pub epoch: Option<u64>,
    /// `ok`, or the kind of error.
    pub status: &'a str,
    /// What it used.
    pub usage: Option<&'a AttemptUsage>,
    /// What had to be repaired before it could be sent.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub repairs: &'a [String],
}

/// A reply, and the row about it that is written with it.
pub struct Replied {
    /// The whole reply.
    pub reply: Reply,
    /// The row about the call.
    pub sent: Option<Sent>,
}

/// Why there is no reply, and the part of one that came before it broke off.
pub struct NoReply {
    /// Why there is none.
    pub error: EvaluationError,
    /// What had come of it until then.
    pub partial: Option<Reply>,
}

impl From<EvaluationError> for NoReply {
    fn from(error: EvaluationError) -> Self {
        NoReply { error, partial: None }
    }
}

/// An evaluation, as the exchange sees it.
struct EvaluationCaller<'e> {
    runner: &'e Runner,
    provider: Arc<dyn Provider>,
    info: ModelInfo,
    part_of: PartOf,
    conversation: String,
    span: SpanId,
    id: uuid::Uuid,
    tenant: scrollback_store::Tenant,
    spent: &'e mut AttemptUsage,
    /// Requests so far, and what is reported about each.
    asked: &'e mut u32,
    calls: &'e mut Vec<CallReport>,
}

impl EvaluationCaller<'_> {
    fn settle(&self, spent: &AttemptUsage) {
        if let Some(meter) = &self.runner.meter {
            meter.settle(spent);
        }
    }

    fn trace(&self, prepared: &Prepared, call: &OpenCall, ended: &AttemptEnd<'_>) {
        let Some(trace) = &self.runner.trace else { return };
        let Ok(body) = json::check_bytes(&prepared.body) else { return };
        let Ok(request) = RawValue::from_string(json::one_line(body).into_owned()) else { return };
        let repairs: Vec<String> =
            prepared.repairs.iter().map(|repair| format!("{} {}", repair.rule, repair.path)).collect();
        trace(&Attempt {
            n: *self.asked,
            attempt: call.attempt,
            request: &request,
            view: &prepared.shown,
            epoch: prepared.epoch.map(|epoch| epoch.id),
            status: ended.status.as_str(),
            usage: Some(ended.spent).filter(|_| *ended.status == CallStatus::Done),
            repairs: &repairs,
        });
    }

    /// Notes that a request was made, or made again.
    fn report(&mut self, prepared: &Prepared, attempts: u32) {
        let tokens = prepared.tokens.unwrap_or_default();
        let report = CallReport {
            n: *self.asked,
            attempts,
            original: prepared.entries.1,
            curated: prepared.entries.0,
            tokens: tokens.total,
            instructions: tokens.instructions,
            tools: tokens.tools,
            messages: tokens.messages,
            epoch: prepared.epoch.map(|epoch| epoch.id),
        };
        match self.calls.last_mut() {
            Some(last) if last.n == report.n => *last = report,
            _ => self.calls.push(report),
        }
    }
}

impl Caller for EvaluationCaller<'_> {
    type Reply = WholeReply;
    type Refusal = Direct;
    type Stop = EvaluationError;

    fn now(&self) -> Time {
        self.runner.clock.now()
    }

    fn model(&self) -> String {
        self.info.model.to_string()
    }

    fn part_of(&self) -> PartOf {
        self.part_of.clone()
    }

    fn check(&self) -> Result<(), EvaluationError> {
        self.runner.check_halt()
    }

    fn attempt<'a>(
        &'a mut self,
        prepared: &'a Prepared,
        call: &'a OpenCall,
    ) -> BoxFuture<'a, Attempted<Self>> {
        let runner = self.runner;
        let remaining = runner.deadline.map(|deadline| deadline.remaining(runner.clock.now()));
        let request = Request {
            body: String::from_utf8_lossy(&prepared.body).into(),
            delivery: runner.delivery,
            timeout: remaining.unwrap_or(runner.call_timeout).min(runner.call_timeout),
        };
        Box::pin(exchange::direct(&self.provider, request, call.attempt, runner))
    }

    fn again<'a>(
        &'a mut self,
        refusal: &'a Direct,
        attempt: u32,
        waited: Duration,
    ) -> BoxFuture<'a, Result<Duration, GivesUp<EvaluationError>>> {
        let runner = self.runner;
        Box::pin(async move {
            let error = refusal.error();
            let broke_unseen = error.kind == ErrorKind::Truncated && !refusal.seen;
            if !error.kind.is_retry_safe() && !broke_unseen {
                return Err(GivesUp::Refused);
            }
            let delay = runner.delay(error, attempt, waited).map_err(GivesUp::Because)?;
            runner.tell(&Throttled {
                attempt,
                kind: error.kind.as_str(),
                delay: delay.as_millis() as u64,
                retry_after: error.retry_after.map(|time| time.as_millis() as u64),
            });
            let slept = runner.unless_halted(runner.clock.sleep(delay)).await;
            slept.map(|()| delay).map_err(GivesUp::Because)
        })
    }

    fn reserve(&mut self, prepared: &Prepared) -> Result<(), EvaluationError> {
        let tokens = prepared.tokens.map_or(0, |tokens| tokens.total);
        self.runner.meter.as_ref().map_or(Ok(()), |meter| meter.reserve(&self.info.model, tokens))
    }

    fn spend(&mut self, prepared: &Prepared, reply: Option<&Reply>, failed: bool) -> AttemptUsage {
        let usage = reply.and_then(|reply| reply.meta.usage.as_ref());
        // A request that broke off without a word about its usage is charged only where every attempt is counted.
        if failed && usage.is_none() && (reply.is_none() || self.runner.meter.is_none()) {
            self.settle(&AttemptUsage::default());
            return AttemptUsage::default();
        }
        let prices = self.runner.prices_of(&self.info.model);
        let tokens = prepared.tokens.unwrap_or_default();
        let spent = AttemptUsage::of_reply(reply, tokens.total, prices);
        self.spent.add(&spent);
        self.settle(&spent);
        spent
    }

    fn status_of(&self, stop: &EvaluationError) -> CallStatus {
        match stop.kind {
            EvaluationErrorKind::Interrupted => CallStatus::Interrupted,
            kind => CallStatus::failed(kind.as_str()),
        }
    }

    fn tell(&self, told: &ExchangeEvent<'_>) {
        match told {
            ExchangeEvent::Prepared(prepared) => {
                prepared.events.iter().for_each(|event| self.runner.tell(event));
            }
            ExchangeEvent::Sent(event) => self.runner.tell(*event),
            ExchangeEvent::Tightened(event) => self.runner.tell(*event),
        }
    }

    fn ended(&mut self, prepared: &Prepared, call: &OpenCall, ended: &AttemptEnd<'_>) {
        if call.attempt == 1 {
            *self.asked += 1;
        }
        self.report(prepared, call.attempt);
        self.trace(prepared, call, ended);
        let usage = ended.reply.and_then(|reply| reply.meta.usage.as_ref());
        let model = self.info.model.to_string();
        self.runner.calibrations.observe(&self.tenant, &model, prepared.tokens.as_ref(), usage);
        self.runner.telemetry.tell(|content| {
            let chat = Chat {
                place: self.runner.telemetry.place(self.id, self.span).inside(),
                time: (call.began, self.now()),
                provider: self.info.model.provider().name(),
                model: self.info.model.model(),
                conversation: &self.conversation,
                reply: ended.reply.map(|reply| &reply.meta),
                spent: Some(ended.spent),
                error: ended.status.error(),
            };
            exchange::chat_span(&chat, || exchange::said_in(self.info.wire, &prepared.body), ended, content)
        });
    }
}

impl Watch for Runner {
    type Stop = EvaluationError;

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn piece(&self, delta: &Delta) -> bool {
        if let Some(preview) = &self.preview {
            preview(delta);
        }
        self.sink.as_ref().is_some_and(|sink| {
            sink(delta);
            true
        })
    }

    fn unless_stopped<'a, T: Send + 'a>(
        &'a self,
        work: BoxFuture<'a, T>,
    ) -> BoxFuture<'a, Result<T, EvaluationError>> {
        Box::pin(self.unless_halted(work))
    }

    fn received(&self, event: &ReplyReceived) {
        self.tell(event);
    }
}

impl Runner {
    /// How long to wait before the next attempt; otherwise why there is none.
    fn delay(
        &self,
        error: &ProviderError,
        attempt: u32,
        waited: Duration,
    ) -> Result<Duration, EvaluationError> {
        let gave_up = |kind: EvaluationErrorKind, why: String| {
            let message = format!("{why}; the last answer: {error}");
            EvaluationError::new(FailurePhase::Request, kind, message).because(error.kind)
        };
        let delay = self.throttle.delay(attempt, waited, error.retry_after, self.random.fraction());
        let delay = delay.map_err(|why| match why {
            GiveUp::Attempts(count) => {
                let attempts = if count == 1 { "1 attempt".into() } else { format!("{count} attempts") };
                gave_up(EvaluationErrorKind::AttemptsExhausted, format!("gave up after {attempts}"))
            }
            GiveUp::Time(delay) => gave_up(
                EvaluationErrorKind::RetryTimeExhausted,
                format!("waiting {} more would take too long", seconds(delay)),
            ),
        })?;
        let remaining = self.deadline.map(|deadline| deadline.remaining(self.clock.now()));
        if remaining.is_some_and(|remaining| remaining <= delay) {
            let why = format!("the deadline comes before the next attempt, in {}", seconds(delay));
            return Err(gave_up(EvaluationErrorKind::DeadlineBeforeRetry, why));
        }
        Ok(delay)
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

impl Evaluation<'_> {
    /// Asks with what the manager shows of the record.
    pub(crate) async fn ask_next(&mut self) -> Result<Replied, NoReply> {
        let provider = Arc::clone(&self.runner.provider);
        let info = provider.describe();
        let specs = self.runner.tools.specs();
        let wishes = Wishes {
            tools: &specs,
            choice: self.choice.clone(),
            format: self.prompt.response_format.as_ref(),
            delivery: self.runner.delivery,
            sampling: self.runner.sampling,
        };
        let asked = Arc::new(self.asked_of(&info, around(&info, &wishes)));
        let make: Make = Arc::new(CuratedRequests { asked, policy: Arc::clone(&self.policy) });
        self.ask(&provider, &make, self.runner.overflow).await
    }

    /// Asks with entries of our own making, written from the record: instructions and a text, no tools. Where the text tells
    /// what the record shows, a request that is too large becomes smaller as any other.
    pub(crate) async fn ask_with(
        &mut self,
        provider: &Arc<dyn Provider>,
        write: Write,
        format: Option<&ResponseFormat>,
        overflow: OnOverflow,
    ) -> Result<Replied, NoReply> {
        let (asked, own) = self.without_tools(provider, format);
        let make: Make = Arc::new(Composed { write, asked, policy: Arc::clone(&self.policy), own });
        self.ask(provider, &make, overflow).await
    }

    /// What is sent besides the entries of a request that offers no tools, and how it is counted.
    pub fn without_tools(
        &self,
        provider: &Arc<dyn Provider>,
        format: Option<&ResponseFormat>,
    ) -> (CallerRequest, CurationContext) {
        let info = provider.describe();
        let around = around(&info, &Wishes { format, delivery: self.runner.delivery, ..Wishes::default() });
        // No tools are offered, and another model may count otherwise.
        let mut own = CurationContext::for_model(Some(info.model.clone()));
        own.wire = Some(info.wire);
        own.windows = self.runner.catalog.windows();
        self.runner.calibrations.apply(&self.journal.tenant(), &mut own);
        (self.asked_of(&info, around), own)
    }

    fn asked_of(&self, info: &ModelInfo, around: scrollback_core::wire::Body) -> CallerRequest {
        CallerRequest::ours(info.wire, info.model.clone(), self.runner.catalog.dialect(&info.model), around)
    }

    /// Asks a model with a request that the caller makes. Every attempt is a row of `sent` and a line of the trace; together they give one reply.
    pub async fn ask(
        &mut self,
        provider: &Arc<dyn Provider>,
        make: &Make,
        overflow: OnOverflow,
    ) -> Result<Replied, NoReply> {
        let tenant = self.journal.tenant();
        if let Some((store, tenant)) = self.journal.store() {
            self.runner.calibrations.recall(&**store, tenant, &provider.describe().model).await;
        }
        self.calibrate(&tenant);
        let mut caller = EvaluationCaller {
            runner: self.runner,
            info: provider.describe(),
            provider: Arc::clone(provider),
            part_of: PartOf {
                evaluation: Some(self.id),
                run: self.run.as_ref().map(|run| run.id.clone()),
                holder: Some(holder()),
                wants_view: self.journal.is_elsewhere(),
            },
            conversation: self.conversation_id(),
            span: self.span,
            id: self.id,
            tenant,
            spent: &mut self.spent,
            asked: &mut self.asked,
            calls: &mut self.calls,
        };
        let mut exchange = Exchange {
            recorder: &mut *self.journal,
            caller: &mut caller,
            policy: &self.policy,
            cx: &self.cx,
            overflow,
        };
        match exchange.ask(make).await {
            Ok(AnsweredCall { reply: whole, prepared, call }) => {
                let WholeReply { reply, first_byte_milliseconds } = whole;
                let spent = exchange.caller.spend(&prepared, Some(&reply), false);
                let ended = AttemptEnd {
                    status: &CallStatus::Done,
                    reply: Some(&reply),
                    spent: &spent,
                    first_byte_milliseconds,
                };
                let row = exchange.finish(&prepared, call, &ended, None);
                Ok(Replied { reply: *reply, sent: row })
            }
            Err(unanswered) => Err(no_reply(unanswered)),
        }
    }

    /// Writes the summary that is asked for before the next view. One that fails leaves everything as it was.
    pub(crate) async fn serve_summaries(&mut self) -> Result<(), EvaluationError> {
        let wanted = exchange::next_summary(self.journal.record(), &*self.policy.manager, &self.cx);
        let Some(ask) = wanted else { return Ok(()) };
        let written = match ask.summarizer.as_str() {
            "offline" => Err(String::new()),
            _ => self.write_summary(&ask).await?,
        };
        let (decision, outcome) =
            serve_summary(self.journal.record(), ask, |_| std::future::ready(written)).await;
        self.decide(decision).await?;
        match outcome {
            SummaryOutcome::Written(event) => self.tell(&event),
            SummaryOutcome::Failed(event) => self.tell(&event),
        }
        Ok(())
    }

    /// What a model wrote, or why it wrote nothing. Halting is an error of the evaluation.
    async fn write_summary(
        &mut self,
        ask: &scrollback_core::manager::SummaryAsk,
    ) -> Result<exchange::SummaryText, EvaluationError> {
        let provider = match self.runner.catalog.provider_named(&ask.summarizer) {
            Ok(provider) => provider,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let text = summary_input(self.journal.record(), ask);
        let entries =
            vec![Entry::text(Role::System, &summary_instructions(ask)), Entry::text(Role::User, &text)];
        // Half of a text says nothing about the whole: a summary of what is too large has failed.
        let write: Write = Arc::new(move |_, _| Ok(entries.clone()));
        let asked = self.ask_with(&provider, write, None, OnOverflow::Fail).await;
        let Replied { reply, sent } = match asked {
            Ok(replied) => replied,
            Err(none) => {
                self.check_halt()?;
                return Ok(Err(none.error.to_string()));
            }
        };
        if let Some(sent) = sent {
            let rows = crate::journal::JournalRows { sent: vec![sent], ..Default::default() };
            self.journal.write(Vec::new(), rows, self.now()).await?;
        }
        self.check_budget()?;
        let text = reply.entry().ok().and_then(|entry| entry.content());
        Ok(Ok((text.unwrap_or_default(), reply.meta.usage)))
    }
}

/// Why there is no reply, in the words of evaluations.
fn no_reply(unanswered: Unanswered<EvaluationCaller<'_>>) -> NoReply {
    match unanswered {
        Unanswered::Store(error) => EvaluationError::from(error).into(),
        Unanswered::Prepare(PrepareError::Curation(error)) => EvaluationError::from(error).into(),
        Unanswered::Prepare(error) => {
            let kind = match error {
                PrepareError::TooLarge { .. } => EvaluationErrorKind::ContextOverflow,
                _ => EvaluationErrorKind::InvalidRequest,
            };
            EvaluationError::new(FailurePhase::Request, kind, error.to_string()).into()
        }
        Unanswered::Stopped(error, partial) => NoReply { error, partial: partial.map(|partial| *partial) },
        Unanswered::Refused(refused) => {
            let RefusedCall { refusal, prepared, too_large, because, .. } = *refused;
            let kind = refusal.error().kind;
            let error = match (too_large, because) {
                (Some(stated), _) => {
                    let tokens = prepared.tokens.unwrap_or_default();
                    let message = scrollback_core::request::too_large(stated, &tokens);
                    EvaluationError::new(FailurePhase::Request, EvaluationErrorKind::ContextOverflow, message)
                        .because(kind)
                }
                (None, Some(error)) => error,
                (None, None) => EvaluationError::from(refusal.error()),
            };
            NoReply { error, partial: refusal.broken.partial }
        }
    }
}

impl Repair {
    /// What this means for requests that break their provider's rules.
    pub(crate) fn policy(self) -> Invalid {
        match self {
            Repair::Auto => Invalid::Repaired,
            Repair::Never => Invalid::Refused,
        }
    }
}

/// The policy of a runner, under the name of a prompt.
pub(super) fn policy(runner: &Runner, prompt: &str, explains: bool) -> Policy {
    let manager = scrollback_core::manager::Observed {
        inner: Arc::clone(&runner.manager),
        prompt_name: Some(prompt.into()),
    };
    let written = runner.manager.config().to_string().into();
    Policy { written, invalid: runner.repair.policy(), explains, ..Policy::new(Arc::new(manager)) }
}
