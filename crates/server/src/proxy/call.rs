//! One call from beginning to end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use scrollback_agent::ModelSummarizer;
use scrollback_agent::config::Recording;
use scrollback_agent::exchange::{
    AnsweredCall, AttemptEnd, Exchange, OnOverflow, OpenCall, Recorder, Unanswered, next_summary,
    serve_summary,
};
use scrollback_agent::journal::JournalRows;
use scrollback_agent::provider::{Credential, ErrorKind, ProviderError};
use scrollback_core::json;
use scrollback_core::request::{PrepareError, Prepared, Reference, provider_edits};
use scrollback_core::wire::{Body as WireBody, Wire};
use scrollback_core::{Entry, Status};
use scrollback_store::{CallStatus, Sent, StoreError, Summarizer};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::admission::TenantSlot;
use super::background::{in_turn, join_result, unfinished};
use super::call_log::CallLog;
use super::caller::{ProviderRefusal, ProxyCaller, StartedReply, told};
use super::client_request::{ClientRequest, Endpoint, RequestTarget, header as text_of};
use super::identity::{self, Carries, ClientName};
use super::policy::{CallPlan, not_prepared, policy};
use super::provider_state::{ProviderState, remember_thread, unresolved};
use super::record::{Ending, RecordedCall, TRIES, can_confirm_by_reading, store_is_slow};
use super::session::RequestOrigin;
use super::tee::pipe;
use super::upstreams::{Answerer, answerer, passed_back};
use crate::auth::{ApiCaller, unknown};
use crate::memory::Share;
use crate::problem::HttpProblem;
use crate::{App, body, quota};

/// How often a request is sent anew because its provider does not hold what it goes on from, or keeps no such things.
const MOST_RESENT: usize = 2;
/// How long the store may take before a client is told that it does not answer.
pub(super) const STORE: Duration = Duration::from_secs(30);

/// A call under way.
pub(super) struct ProxyCall {
    pub(super) app: App,
    pub(super) caller: ApiCaller,
    pub(super) headers: HeaderMap,
    pub(super) answerer: Answerer,
    pub(super) began: Instant,
    /// What is known about it for its line in the log.
    pub(super) log: Option<Arc<CallLog>>,
    _seat: TenantSlot,
    /// What the body takes of the server's memory.
    _share: Share,
}

/// Who waits for the response.
pub(super) type ResponseSender = oneshot::Sender<Result<Response, HttpProblem>>;

/// Answers a request that is understood.
///
/// It is work of its own, because the client may go away before anything came back: then it is cancelled and written down as
/// such, or goes on for the record.
pub(super) async fn answer(
    app: &App,
    target: RequestTarget,
    request: Request,
) -> Result<Response, HttpProblem> {
    let (call, asked) = ProxyCall::begin(app, target, request).await?;
    let origin = RequestOrigin::of(&call.caller, &call.headers, &asked, &app.settings.recipient_from)?;
    let carries = identity::carries(&call.headers, &origin)?;
    let policy = policy(&app.settings, &call.caller.tenant, &call.headers, &asked)?;
    if let Some(model) = &asked.model {
        app.calibrations.recall(&*app.store, &call.caller.tenant, model).await;
    }
    call.owns_previous(&asked).await?;
    call.can_be_charged(&asked)?;
    let state = ProviderState::of(&call, &asked).await?;
    let plan = Arc::new(CallPlan::new(app, &call.caller.tenant, asked, origin, carries, policy, state));
    let checking = plan.begin_check();
    let (client, response) = oneshot::channel();
    let task = app.tasks.enter();
    // Boxed, because it is large and moved several times before it runs.
    tokio::spawn(Box::pin(async move {
        let _task = task;
        call.run(plan, checking, client).await;
    }));
    response.await.unwrap_or_else(|_| Err(unfinished()))
}

/// The result of asking, once the record is no longer needed for it.
enum AskOutcome {
    Begun(Box<(StartedReply, Prepared, OpenCall)>),
    Refused(Box<(ProviderRefusal, Prepared, String)>),
    Left,
}

impl ProxyCall {
    /// Lets a request in and reads it.
    pub(super) async fn begin(
        app: &App,
        target: RequestTarget,
        request: Request,
    ) -> Result<(Box<ProxyCall>, ClientRequest), HttpProblem> {
        let (parts, body) = request.into_parts();
        let caller = parts.extensions.get::<ApiCaller>().cloned().ok_or_else(unknown)?;
        caller.may_call()?;
        let limits = &app.settings.limits;
        let seat = app.room.enter(&caller.tenant, limits.concurrent)?;
        quota::admit(app, &caller).await?;
        let mut share = app.memory.share(&caller.tenant);
        let bytes = body::read(body, &parts.headers, limits, &mut share).await?;
        let began = Instant::now();
        let asked = ClientRequest::taken(&app.heavy_turns, &caller.tenant, target, bytes, *limits).await?;
        let upstream = app.upstreams.get(&app.catalog, asked.endpoint.provider(), &asked.named);
        let upstream = upstream
            .map_err(|error| HttpProblem::new(StatusCode::BAD_GATEWAY, error.code(), error.to_string()))?;
        let answerer = answerer(upstream, asked.model.as_ref(), &parts.headers, app.address);
        let headers = parts.headers;
        let log = parts.extensions.get::<Arc<CallLog>>().cloned();
        if let Some(log) = &log {
            log.note(|facts| {
                facts.model = Some(asked.named.clone()).filter(|model| !model.is_empty());
                facts.session = super::session::session_id(&headers, &asked).map(String::from);
            });
        }
        let call = Box::new(ProxyCall {
            app: app.clone(),
            caller,
            headers,
            answerer,
            began,
            log,
            _seat: seat,
            _share: share,
        });
        Ok((call, asked))
    }

    /// An error if what a call uses becomes known to no one: its provider works on after the reply, and the key has a limit.
    fn can_be_charged(&self, asked: &ClientRequest) -> Result<(), HttpProblem> {
        let limits = self.caller.key.as_deref().map(|key| &key.limits);
        let is_limited = limits.is_some_and(|limits| {
            limits.tokens_per_minute.is_some() || limits.microdollars_per_day.is_some()
        });
        let WireBody::Object { raw, .. } = &asked.around else { return Ok(()) };
        if !is_limited || asked.wire() != Wire::OpenaiResponses {
            return Ok(());
        }
        let in_background = json::check(raw)
            .is_ok_and(|raw| raw.get("background").is_some_and(|wanted| wanted.text() == "true"));
        if !in_background {
            return Ok(());
        }
        let detail = "the key is limited in tokens or dollars, and what a response in the background uses is not told in its reply: \
                      leave out `background`, or use a key without those limits";
        Err(HttpProblem::new(StatusCode::FORBIDDEN, "not_counted", detail))
    }

    /// An error if another tenant's response, thread or object would be read with our key.
    pub(super) async fn owns_previous(&self, asked: &ClientRequest) -> Result<(), HttpProblem> {
        self.owns_conversation(asked).await?;
        self.owns_objects(asked.wire(), &asked.body).await?;
        let (Some(previous), Some(reference)) = (identity::previous(asked), &asked.refers) else {
            return Ok(());
        };
        let shared =
            self.caller.key.is_some() && !matches!(self.answerer, Answerer::Upstream(_, Credential::Theirs));
        if !shared {
            return Ok(());
        }
        let known = self.app.store.alias(&self.caller.tenant, previous.source, &previous.id).await?;
        known.map(|_| ()).ok_or_else(|| unresolved(reference))
    }

    /// An error if a request names a provider's conversation, under our key, that this tenant is not known to have.
    async fn owns_conversation(&self, asked: &ClientRequest) -> Result<(), HttpProblem> {
        if !self.shares_provider_key() || asked.wire() != Wire::OpenaiResponses {
            return Ok(());
        }
        // The body may name a response too, which is then what the request goes on from.
        let body = asked.body.clone();
        let named = move || {
            let named = json::check_bytes(&body).ok()?.get("conversation")?;
            let named = if named.kind() == json::JsonKind::Object { named.get("id") } else { Some(named) };
            named.and_then(|id| Some(id.string()?.into_owned()))
        };
        let Some(id) = in_turn(&self.app.heavy_turns, &self.caller.tenant, asked.body.len(), named).await?
        else {
            return Ok(());
        };
        let known = self.app.store.alias(&self.caller.tenant, identity::BY_THREAD, &id).await?;
        known.map(|_| ()).ok_or_else(|| unresolved(&Reference::Conversation(id)))
    }

    /// Records, asks, and gives the client what came.
    async fn run(
        self: Box<Self>,
        plan: Arc<CallPlan>,
        checking: Option<JoinHandle<()>>,
        mut client: ResponseSender,
    ) {
        if let Some(checking) = checking
            && let Err(problem) = join_result(checking).await
        {
            let _ = client.send(Err(problem));
            return;
        }
        let (recorded, outcome) = match self.ask(&plan, &mut client).await {
            Ok(asked) => asked,
            Err(problem) => {
                let _ = client.send(Err(problem));
                return;
            }
        };
        match outcome {
            AskOutcome::Left => {}
            AskOutcome::Refused(refused) => {
                let (refused, prepared, id) = *refused;
                let response = self.pass_refusal(&plan.asked, &recorded, &prepared, &id, refused);
                let _ = client.send(Ok(response));
            }
            AskOutcome::Begun(begun) => {
                let (begun, prepared, call) = *begun;
                self.pass_back(&plan, recorded, prepared, call, begun, client).await;
            }
        }
    }

    /// Finds the record of a request and asks. The place of a request is looked for again where it was guessed wrong, or
    /// where another call wrote there first: nothing was asked by then.
    async fn ask(
        &self,
        plan: &Arc<CallPlan>,
        client: &mut ResponseSender,
    ) -> Result<(Box<RecordedCall>, AskOutcome), HttpProblem> {
        let mut last = None;
        for tried in 0..TRIES {
            let beginning = RecordedCall::begin(&self.app, &self.caller.tenant, &self.headers, plan, tried);
            let mut recorded = match tokio::time::timeout(STORE, beginning).await {
                Ok(Ok(recorded)) => recorded,
                Ok(Err(problem)) => self.without_record(plan, problem)?,
                Err(_) => self.without_record(plan, store_is_slow())?,
            };
            match self.ask_within(plan, client, &mut recorded).await {
                Ok(outcome) => return Ok((recorded, outcome)),
                // Nothing is durable and nothing was asked.
                Err(NotAsked::Store(error))
                    if !recorded.is_written() && can_confirm_by_reading(error.kind()) =>
                {
                    last = Some(error);
                }
                Err(NotAsked::Store(error)) => {
                    let problem = if recorded.timed_out { store_is_slow() } else { error.into() };
                    if recorded.is_written() {
                        return Err(problem);
                    }
                    let mut recorded = self.without_record(plan, problem)?;
                    let outcome = self.ask_within(plan, client, &mut recorded).await;
                    return Ok((recorded, outcome.map_err(NotAsked::problem)?));
                }
                Err(NotAsked::Problem(problem)) => return Err(problem),
            }
        }
        Err(last.map_or_else(|| HttpProblem::not_found("conversation"), HttpProblem::from))
    }

    /// A request that is served although it cannot be recorded, where that is allowed.
    fn without_record(
        &self,
        plan: &CallPlan,
        problem: HttpProblem,
    ) -> Result<Box<RecordedCall>, HttpProblem> {
        let best_effort = self.app.settings.record == Recording::BestEffort
            && plan.carries == Carries::History
            && problem.status.is_server_error();
        if !best_effort {
            return Err(problem);
        }
        self.app.metrics.add("scrollback_record_failures_total", &[("part", "request")], 1.0);
        tracing::warn!(code = problem.code, "a request was served without a record");
        Ok(RecordedCall::nowhere(&self.app, &self.caller.tenant, plan))
    }

    async fn ask_within(
        &self,
        plan: &Arc<CallPlan>,
        client: &mut ResponseSender,
        recorded: &mut RecordedCall,
    ) -> Result<AskOutcome, NotAsked> {
        if plan.summarizes() {
            Box::pin(self.serve_summary(plan, recorded)).await?;
        }
        let mut caller = ProxyCaller {
            call: self,
            plan,
            client,
            evaluation: recorded.evaluation,
            conversation: recorded.conversation().map(ToString::to_string),
            id: String::new(),
            first_byte: None,
        };
        let cx = plan.cx_in(recorded.conversation());
        let mut exchange = Exchange {
            recorder: recorded,
            caller: &mut caller,
            policy: &plan.policy,
            cx: &cx,
            overflow: OnOverflow::Tighten,
        };
        let mut asked = exchange.ask(&plan.make()).await;
        // What the provider does not hold is sent from the record, if it is there. Otherwise the client learns what its
        // provider said, and sends it.
        for _ in 0..MOST_RESENT {
            let Err(Unanswered::Refused(refused)) = &asked else { break };
            let kind = refused.refusal.error.kind;
            let Some(make) = plan.make_from_record(kind) else { break };
            if kind == ErrorKind::StateUnsupported
                && plan.asked.in_thread
                && let Answerer::Upstream(upstream, _) = &self.answerer
            {
                self.app.threads.refused_by(upstream.place().0);
            }
            match exchange.ask(&make).await {
                Err(Unanswered::Prepare(PrepareError::Unresolved(_))) => break,
                other => asked = other,
            }
        }
        match asked {
            Ok(AnsweredCall { reply, prepared, call }) => {
                Ok(AskOutcome::Begun(Box::new((reply, prepared, call))))
            }
            Err(Unanswered::Refused(refused)) => {
                let refused = *refused;
                Ok(AskOutcome::Refused(Box::new((refused.refusal, refused.prepared, refused.call.id))))
            }
            Err(Unanswered::Stopped(..)) => Ok(AskOutcome::Left),
            Err(Unanswered::Store(error)) => Err(NotAsked::Store(error)),
            Err(Unanswered::Prepare(error)) => Err(NotAsked::Problem(not_prepared(&error))),
        }
    }

    /// Writes the summary that the managers ask for. One that fails leaves everything as it was.
    async fn serve_summary(&self, plan: &Arc<CallPlan>, recorded: &mut RecordedCall) -> Result<(), NotAsked> {
        let (policy, cx) = (Arc::clone(&plan.policy), plan.cx_in(recorded.conversation()));
        let wanted = recorded.look(move |record| next_summary(record, &*policy.manager, &cx)).await;
        let Some(ask) = wanted.map_err(NotAsked::Store)? else { return Ok(()) };
        let (app, record) = (&self.app, recorded.record());
        let write = |ask: scrollback_core::manager::SummaryAsk| async move {
            let provider = app.catalog.provider_named(&ask.summarizer).map_err(|error| error.to_string())?;
            let text = ModelSummarizer::new(provider).write(record, &ask).await?;
            Ok((text, None))
        };
        let (decision, _) = serve_summary(record, ask, write).await;
        let now = app.now();
        let written = recorded.write(vec![decision.into()], JournalRows::default(), now).await;
        written.map(|_| ()).map_err(NotAsked::Store)
    }

    /// Hands on what came instead of a reply, as it came.
    fn pass_refusal(
        &self,
        asked: &ClientRequest,
        recorded: &RecordedCall,
        prepared: &Prepared,
        id: &str,
        refused: ProviderRefusal,
    ) -> Response {
        let mut response = Response::new(Body::from(refused.body));
        *response.status_mut() = refused.status;
        *response.headers_mut() = passed_back(&refused.headers);
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().extend(told(self, asked, recorded.told(id), prepared));
        response
    }

    /// Hands the reply on while it comes, and ends it once it is durable.
    async fn pass_back(
        self: Box<Self>,
        plan: &Arc<CallPlan>,
        recorded: Box<RecordedCall>,
        prepared: Prepared,
        call: OpenCall,
        begun: StartedReply,
        client: ResponseSender,
    ) {
        let (pipe, piped) = pipe();
        let mut response = Response::new(Body::new(piped));
        *response.status_mut() = begun.status;
        *response.headers_mut() = passed_back(&begun.headers);
        response.headers_mut().extend(told(&self, &plan.asked, recorded.told(&call.id), &prepared));
        let request_id = ["x-request-id", "request-id"].iter().find_map(|name| text_of(&begun.headers, name));
        let request_id = request_id.map(String::from);
        // A client that is gone has dropped the other end of the pipe too.
        let _ = client.send(Ok(response));
        let ended = begun.tee.run(&pipe, self.app.settings.abandoned, &self.app.time_is_up).await;
        drop(begun.turn);
        let (ended, rest) = match ended.read(&self.app, &self.caller.tenant, self.keys()).await {
            Ok(read) => read,
            Err(problem) => {
                tracing::error!(code = problem.code, detail = problem.detail, "a reply could not be read");
                return pipe.cut().await;
            }
        };
        match self.finish(plan, recorded, &prepared, call, &ended, request_id).await {
            Ok(()) => rest.give(pipe).await,
            Err(problem) => {
                tracing::error!(
                    code = problem.code,
                    detail = problem.detail,
                    "a reply could not be recorded"
                );
                pipe.cut().await;
            }
        }
    }

    /// Writes the reply down, and what is known about the call.
    async fn finish(
        &self,
        plan: &Arc<CallPlan>,
        mut recorded: Box<RecordedCall>,
        prepared: &Prepared,
        call: OpenCall,
        ended: &super::tee::ReplyEnd,
        request_id: Option<String>,
    ) -> Result<(), HttpProblem> {
        let (asked, reply) = (&plan.asked, &ended.reply);
        let status = match (&reply.problem, reply.meta.status) {
            (Some(problem), _) => CallStatus::failed(ProviderError::reported(problem).kind.as_str()),
            (None, Status::Complete) => CallStatus::Done,
            (None, Status::TruncatedClient) => CallStatus::TruncatedClient,
            (None, _) => CallStatus::TruncatedUpstream,
        };
        let (mut gone, _) = oneshot::channel();
        let first = ended.first.map(|first| first.into_std().saturating_duration_since(self.began));
        let mut caller = ProxyCaller {
            call: self,
            plan,
            client: &mut gone,
            evaluation: recorded.evaluation,
            conversation: recorded.conversation().map(ToString::to_string),
            id: call.id.clone(),
            first_byte: first.map(|first| first.as_millis() as u64),
        };
        let mut exchange = Exchange {
            recorder: &mut *recorded,
            caller: &mut caller,
            policy: &plan.policy,
            cx: &plan.cx,
            overflow: OnOverflow::Tighten,
        };
        let spent = scrollback_agent::exchange::Caller::spend(exchange.caller, prepared, Some(reply), false);
        let response = ended.bytes.to_vec();
        let outcome = AttemptEnd {
            status: &status,
            reply: Some(reply),
            spent: &spent,
            first_byte_milliseconds: exchange.caller.first_byte,
        };
        let row = exchange.finish(prepared, call, &outcome, Some(response));
        quota::charge(&self.app, &self.caller, spent.total(), spent.cost_usd).await;
        // A history made shorter is the client's; it was not said.
        let said = asked.endpoint != Endpoint::Compact;
        let entry = said.then(|| reply.entry().ok()).flatten().map(|mut entry: Entry| {
            let meta = entry.meta.get_or_insert_default();
            meta.model_asked = Some(asked.named.clone());
            meta.provider = Some(self.provider().into());
            meta.request_id = request_id.map(|id| self.without_keys_in(id));
            entry
        });
        let source = match asked.endpoint {
            Endpoint::Responses => Some(identity::BY_RESPONSE),
            Endpoint::Messages if asked.in_thread => Some(identity::BY_MESSAGE),
            _ => None,
        };
        let id = source.zip(reply.meta.response_id.clone()).map(|(source, id)| ClientName { source, id });
        if let Some(id) = id.as_ref().filter(|_| asked.in_thread) {
            remember_thread(self, asked, plan.fields.as_ref(), &id.id).await?;
        }
        let edits = if reply.applied_edits.is_empty() {
            Vec::new()
        } else {
            let (body, applied, cx) = (asked.body.clone(), reply.applied_edits.clone(), Arc::clone(&plan.cx));
            recorded.look(move |record| provider_edits(record, &body, &applied, &cx)).await?
        };
        let names = id.into_iter().chain(self.given(asked, ended).await?).collect();
        self.close(recorded, Ending { reply: entry, edits, names }, row).await
    }

    /// Records the reply and how the call ended.
    async fn close(
        &self,
        recorded: Box<RecordedCall>,
        ending: Ending,
        row: Option<Sent>,
    ) -> Result<(), HttpProblem> {
        let began = Instant::now();
        let finished = tokio::time::timeout(STORE, recorded.finish(ending, row)).await;
        self.app.metrics.time("scrollback_seconds", &[("part", "commit")], began.elapsed().as_secs_f64());
        let Err(problem) = finished.map_err(|_| store_is_slow()).and_then(|finished| Ok(finished?)) else {
            return Ok(());
        };
        self.app.metrics.add("scrollback_record_failures_total", &[("part", "reply")], 1.0);
        match self.app.settings.record {
            Recording::Required => Err(problem),
            Recording::BestEffort => {
                tracing::warn!(code = problem.code, "a reply was served without a record");
                Ok(())
            }
        }
    }
}

/// Why nothing was asked.
enum NotAsked {
    Store(StoreError),
    Problem(HttpProblem),
}

impl NotAsked {
    fn problem(self) -> HttpProblem {
        match self {
            NotAsked::Store(error) => error.into(),
            NotAsked::Problem(problem) => problem,
        }
    }
}
