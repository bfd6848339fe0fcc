//! How the proxy asks: what differs between it and others who go through the exchange. The reply goes to a client while it
//! comes, the client may leave, and a failure is the client's to try again.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use bytes::{Bytes, BytesMut};
use scrollback_agent::config::Abandoned;
use scrollback_agent::event::{ContextTightened, ReplyPassedOn, RequestCurated, RequestSent};
use scrollback_agent::exchange::{
    AttemptEnd, AttemptUsage, Attempted, Caller, ExchangeEvent, OpenCall, PartOf, Refusal, chat_span, send_on,
};
use scrollback_agent::lease::holder;
use scrollback_agent::provider::{
    Credential, ErrorKind, Passed, PassedRequest, ProviderError, Upstream, UsedKeys,
};
use scrollback_agent::telemetry::{Chat, Sampled, SpanContext, SpanId, names};
use scrollback_agent::{BoxFuture, Event};
use scrollback_core::model::facts;
use scrollback_core::request::Prepared;
use scrollback_core::stream::Reply;
use scrollback_core::wire::Wire;
use scrollback_core::{Decision, Entry, Time};
use scrollback_store::CallStatus;
use uuid::Uuid;

use super::background::in_turn;
use super::call::{ProxyCall, ResponseSender};
use super::client_request::{ClientRequest, Endpoint, ReplyShape, header as text_of};
use super::echo::Echo;
use super::owned_objects::stay_in_account;
use super::policy::CallPlan;
use super::refusal::{self, Speaks};
use super::tee::{Patience, ReplySource, Tee};
use super::upstreams::{Answerer, passed_on};
use super::used_keys::used_keys;
use crate::About;
use crate::fair::Turn;
use crate::problem::HttpProblem;

/// Longest error of a provider that is read before it is handed on.
const MAX_ERROR: usize = 1 << 20;

/// A call, as the exchange sees it.
pub(super) struct ProxyCaller<'c> {
    pub(super) call: &'c ProxyCall,
    pub(super) plan: &'c Arc<CallPlan>,
    pub(super) client: &'c mut ResponseSender,
    pub(super) evaluation: Uuid,
    /// Where it is recorded, for those who listen.
    pub(super) conversation: Option<String>,
    /// The last attempt's id, by which the call is found.
    pub(super) id: String,
    /// When the first byte of the reply came, in milliseconds from the beginning.
    pub(super) first_byte: Option<u64>,
}

/// A reply whose beginning was seen.
pub(super) struct StartedReply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) tee: Tee,
    /// The turn at providers, until the reply has ended.
    pub(super) turn: Turn,
}

/// An answer that is not a reply.
pub(super) struct ProviderRefusal {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The body as it came, for the client.
    pub(super) body: Bytes,
    /// The same as it is kept: without keys.
    kept: Bytes,
    pub(super) error: ProviderError,
}

impl Refusal for ProviderRefusal {
    fn error(&self) -> &ProviderError {
        &self.error
    }

    fn partial(&self) -> Option<&Reply> {
        None
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        Some(self.kept.to_vec())
    }
}

/// The client went away before anything came back.
pub(super) struct Left;

impl Caller for ProxyCaller<'_> {
    type Reply = StartedReply;
    type Refusal = ProviderRefusal;
    type Stop = Left;

    fn now(&self) -> Time {
        self.call.app.now()
    }

    fn model(&self) -> String {
        self.call.model(&self.plan.asked)
    }

    fn part_of(&self) -> PartOf {
        PartOf { evaluation: Some(self.evaluation), holder: Some(holder()), ..PartOf::default() }
    }

    fn check(&self) -> Result<(), Left> {
        Ok(())
    }

    /// Asks once, unless the client goes away first and the reply is not wanted without it.
    fn attempt<'a>(
        &'a mut self,
        prepared: &'a Prepared,
        call: &'a OpenCall,
    ) -> BoxFuture<'a, Attempted<Self>> {
        self.id.clone_from(&call.id);
        let cancels = self.call.app.settings.abandoned == Abandoned::Cancel;
        let (asking, asked) = (self.call, &self.plan.asked);
        let client = &mut *self.client;
        Box::pin(async move {
            tokio::select! {
                attempted = asking.attempt(asked, prepared, &call.id) => match attempted {
                    Ok(begun) => Attempted::Replied(begun),
                    Err(refused) => Attempted::Refused(*refused),
                },
                () = client.closed(), if cancels => Attempted::Stopped(Left, None),
                () = asking.app.time_is_up.asked() => Attempted::Stopped(Left, None),
            }
        })
    }

    fn wants_tokens(&self) -> bool {
        self.call.app.events.are_heard()
    }

    fn spend(&mut self, prepared: &Prepared, reply: Option<&Reply>, failed: bool) -> AttemptUsage {
        if failed || reply.is_none() {
            return AttemptUsage::default();
        }
        let asked = &self.plan.asked;
        let asked_of = asked.model.as_ref().filter(|_| !matches!(self.call.answerer, Answerer::Echo));
        let prices = asked_of.map(|model| self.call.app.catalog.prices(model)).unwrap_or_default();
        AttemptUsage::of_reply(reply, prepared.tokens.unwrap_or_default().total, prices)
    }

    fn status_of(&self, _: &Left) -> CallStatus {
        CallStatus::TruncatedClient
    }

    fn tell(&self, told: &ExchangeEvent<'_>) {
        let app = &self.call.app;
        match told {
            ExchangeEvent::Prepared(prepared) => {
                for decision in &prepared.decisions {
                    if let Decision::Cut { by, .. } | Decision::Plan { by, .. } = decision {
                        app.metrics.add("scrollback_cuts_total", &[("by", by)], 1.0);
                    }
                }
                if !prepared.repairs.is_empty() {
                    let wire = self.plan.asked.wire().name();
                    app.metrics.add("scrollback_repairs_total", &[("wire", wire)], 1.0);
                }
                self.say(|| {
                    let ((curated_count, original_count), tokens) =
                        (prepared.entries, prepared.tokens.unwrap_or_default());
                    RequestCurated {
                        original_count,
                        curated_count,
                        original_tokens: prepared.tokens_recorded.unwrap_or(tokens.total),
                        curated_tokens: tokens.total,
                        instruction_tokens: tokens.instructions,
                        tool_tokens: tokens.tools,
                        by: by(prepared),
                    }
                });
            }
            ExchangeEvent::Sent(event) => self.say(|| RequestSent::clone(event)),
            ExchangeEvent::Tightened(event) => {
                app.metrics.add("scrollback_cuts_total", &[("by", "overflow")], 1.0);
                self.say(|| ContextTightened::clone(event));
            }
        }
    }

    fn ended(&mut self, prepared: &Prepared, call: &OpenCall, ended: &AttemptEnd<'_>) {
        self.call.count(&self.plan.asked, ended.status.as_str());
        let usage = ended.reply.and_then(|reply| reply.meta.usage.as_ref());
        let tenant = &self.call.caller.tenant;
        self.call.app.calibrations.observe(tenant, &self.model(), prepared.tokens.as_ref(), usage);
        self.log(call, ended);
        self.span(prepared, call, ended);
    }
}

/// Who changed something, in one line.
fn by(prepared: &Prepared) -> String {
    if prepared.by.is_empty() { super::policy::PASSTHROUGH.into() } else { prepared.by.join(",") }
}

impl ProxyCaller<'_> {
    /// Tells those who listen what happens to the call.
    fn say<E: Event>(&self, event: impl FnOnce() -> E) {
        let app = &self.call.app;
        let about = About::Call { conversation: self.conversation.as_deref(), call: &self.id, at: app.now() };
        app.events.tell(&self.call.caller.tenant, about, event);
    }

    fn log(&self, call: &OpenCall, ended: &AttemptEnd<'_>) {
        let (app, asked, spent) = (&self.call.app, &self.plan.asked, ended.spent);
        let model = counted_as(asked);
        if ended.reply.is_some() {
            for (kind, tokens) in
                [("input", spent.input), ("output", spent.output), ("cache_read", spent.cache_read)]
            {
                let labels = [("model", model), ("kind", kind)];
                app.metrics.add("scrollback_tokens_total", &labels, tokens as f64);
            }
            if let Some(cost) = spent.cost_usd {
                app.metrics.add("scrollback_cost_usd_total", &[("model", model)], cost);
            }
        }
        let milliseconds = self.call.began.elapsed().as_millis() as u64;
        if let Some(log) = &self.call.log {
            log.note(|facts| {
                facts.conversation.clone_from(&self.conversation);
                facts.call = Some(call.id.clone());
                facts.outcome = Some(ended.status.to_string());
                if ended.reply.is_some() {
                    facts.tokens_in = Some(spent.input);
                    facts.tokens_out = Some(spent.output);
                    facts.tokens_cached = Some(spent.cache_read);
                    facts.cost_usd = spent.cost_usd;
                }
            });
        }
        if let Some(reply) = ended.reply {
            self.say(|| ReplyPassedOn {
                attempt: call.attempt,
                status: ended.status.clone(),
                model: asked.named.clone(),
                usage: spent.clone(),
                stop: reply.meta.stop.clone(),
                milliseconds,
                first_byte_milliseconds: self.first_byte,
            });
        }
    }

    /// Tells a collector. Nothing waits for it, and what was said is looked through on a thread of its own.
    fn span(&self, prepared: &Prepared, call: &OpenCall, ended: &AttemptEnd<'_>) {
        let telemetry = self.call.app.telemetry();
        if !telemetry.is_on() {
            return;
        }
        let place = match text_of(&self.call.headers, "traceparent").and_then(SpanContext::of_traceparent) {
            Some((_, Sampled::No)) => return,
            Some((place, Sampled::Yes)) => place,
            None => telemetry.place(Uuid::parse_str(&call.id).unwrap_or_default(), SpanId::random()),
        };
        let chat = Chat {
            place,
            time: (call.began, self.now()),
            provider: self.call.provider(),
            model: &self.plan.asked.named,
            conversation: self.conversation.as_deref().unwrap_or(&call.id),
            reply: ended.reply.map(|reply| &reply.meta),
            spent: ended.reply.map(|_| ended.spent),
            error: ended.status.error(),
        };
        let mut span = chat_span(&chat, Vec::new, ended, None);
        span.say(names::CALL, &call.id);
        span.say(names::TENANT, self.call.caller.tenant.as_str());
        if !telemetry.wants_content() {
            return telemetry.tell(|_| span);
        }
        let (telemetry, said) = (telemetry.clone(), said(prepared, &self.plan.asked).to_vec());
        let answered = ended.reply.and_then(|reply| reply.entry().ok());
        tokio::task::spawn_blocking(move || {
            telemetry.tell(|content| match content {
                Some(content) => span.with_messages(content, said.iter(), answered.as_ref()),
                None => span,
            });
        });
    }
}

/// What the model is shown.
pub(super) fn said<'a>(prepared: &'a Prepared, asked: &'a ClientRequest) -> &'a [Entry] {
    prepared.said.as_ref().unwrap_or(&asked.entries)
}

/// The name a model is counted under: clients may write anything, and every name that is counted is kept.
fn counted_as(asked: &ClientRequest) -> &str {
    let known = asked.model.as_ref().is_some_and(|model| facts(model).is_some());
    if known { &asked.named } else { "other" }
}

impl ProxyCall {
    /// Asks once.
    async fn attempt(
        &self,
        asked: &ClientRequest,
        prepared: &Prepared,
        id: &str,
    ) -> Result<StartedReply, Box<ProviderRefusal>> {
        let patience = self.patience(asked.shape);
        // What was made from the record may name objects that the client's own body did not.
        if prepared.body.as_ptr() != asked.body.as_ptr()
            && let Err(problem) = self.owns_objects(asked.wire(), &prepared.body).await
        {
            let error = ProviderError::new(ErrorKind::InvalidRequest, problem.detail.clone());
            return Err(refused_here(&problem, error, asked.wire()));
        }
        let turn = self.app.upstream_turns.take(&self.caller.tenant).await;
        let (status, headers, source) = match &self.answerer {
            Answerer::Echo => {
                (StatusCode::OK, echo_headers(asked.shape), self.echo(asked, prepared, id).await)
            }
            Answerer::Upstream(upstream, credential) => {
                match self.send(asked, prepared, upstream, credential, patience).await {
                    Ok(passed) if passed.status.is_success() => {
                        (passed.status, passed.headers.clone(), ReplySource::Passed(Box::new(passed)))
                    }
                    Ok(passed) => return Err(Box::pin(self.refused(asked, passed, patience)).await),
                    Err(error) => return Err(unreachable(&error, asked.wire())),
                }
            }
        };
        let events =
            text_of(&headers, "content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let shape = match asked.shape {
            _ if events => ReplyShape::Events,
            ReplyShape::List => ReplyShape::List,
            ReplyShape::Whole | ReplyShape::Events => ReplyShape::Whole,
        };
        let memory = self.app.memory.share(&self.caller.tenant);
        let mut tee = Tee::new(asked.wire(), shape, source, patience, memory);
        // An error that comes inside a reply is seen before anything was handed on.
        let problem = tee.peek().await.map(|problem| ProviderError::reported(&problem));
        match problem {
            Some(error) if matches!(error.kind, ErrorKind::ContextOverflow(_)) => {
                let body = Bytes::from(tee.kept().concat());
                let kept = self.without_keys(body.clone());
                Err(Box::new(ProviderRefusal { status, headers, body, kept, error }))
            }
            _ => Ok(StartedReply { status, headers, tee, turn }),
        }
    }

    fn patience(&self, shape: ReplyShape) -> Patience {
        let limits = &self.app.settings.limits;
        match shape {
            ReplyShape::Events | ReplyShape::List => {
                Patience { first: limits.first_byte, idle: limits.stream_idle, whole: limits.stream }
            }
            // A reply in one piece says nothing until all of it is written.
            ReplyShape::Whole => Patience { first: limits.stream, idle: limits.stream, whole: limits.stream },
        }
    }

    async fn send(
        &self,
        asked: &ClientRequest,
        prepared: &Prepared,
        upstream: &Upstream,
        credential: &Credential,
        patience: Patience,
    ) -> Result<Passed, ProviderError> {
        let request = self.passed(asked, prepared, credential, patience.first);
        send_on(upstream, request).await
    }

    /// The request as it is sent on.
    pub(super) fn passed(
        &self,
        asked: &ClientRequest,
        prepared: &Prepared,
        credential: &Credential,
        timeout: std::time::Duration,
    ) -> PassedRequest {
        let mut headers = passed_on(&self.headers, asked.endpoint.provider());
        if self.shares_provider_key() {
            stay_in_account(&mut headers);
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        PassedRequest {
            method: Method::POST,
            path: asked.path.clone(),
            headers,
            body: asked.as_it_stood(prepared.body.clone()),
            credential: credential.clone(),
            timeout,
        }
    }

    /// An answer of our own. Its tokens are counted and its text is copied, so that of a long request is made elsewhere.
    async fn echo(&self, asked: &ClientRequest, prepared: &Prepared, id: &str) -> ReplySource {
        let (wire, endpoint, shape, at) =
            (asked.wire(), asked.endpoint, asked.shape, self.app.now().0 / 1000);
        let (model, id, said) = (asked.named.clone(), id.to_string(), said(prepared, asked).to_vec());
        let answered = move || {
            let echo = Echo { wire, model: &model, id: &id, at, said: &said };
            match endpoint {
                Endpoint::Compact => vec![super::responses::compacted(&echo)],
                _ => echo.pieces(shape),
            }
        };
        let pieces = in_turn(&self.app.heavy_turns, &self.caller.tenant, asked.body.len(), answered).await;
        ReplySource::Given(pieces.unwrap_or_default().into())
    }

    /// Reads what came instead of a reply.
    async fn refused(
        &self,
        asked: &ClientRequest,
        mut passed: Passed,
        patience: Patience,
    ) -> Box<ProviderRefusal> {
        let mut body = BytesMut::new();
        while let Ok(Some(Ok(bytes))) = tokio::time::timeout(patience.idle, passed.next()).await {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_ERROR {
                break;
            }
        }
        let body = body.freeze();
        let text = String::from_utf8_lossy(&body);
        let error = ProviderError::of_answer(asked.wire(), passed.status.as_u16(), None, &text);
        let kept = self.without_keys(body.clone());
        Box::new(ProviderRefusal { status: passed.status, headers: passed.headers, body, kept, error })
    }

    pub(super) fn provider(&self) -> &'static str {
        match &self.answerer {
            Answerer::Echo => "offline",
            Answerer::Upstream(upstream, _) => upstream.provider().name(),
        }
    }

    /// Who is asked, as models are named.
    pub(super) fn model(&self, asked: &ClientRequest) -> String {
        match (&self.answerer, &asked.model) {
            (Answerer::Echo, _) => "offline:echo".to_string(),
            (_, Some(model)) => model.to_string(),
            (_, None) => asked.named.clone(),
        }
    }

    fn count(&self, asked: &ClientRequest, word: &str) {
        let labels = [("wire", asked.wire().name()), ("status", word)];
        self.app.metrics.add("scrollback_upstream_requests_total", &labels, 1.0);
        if word.starts_with("truncated") {
            self.app.metrics.add("scrollback_truncated_total", &[("side", word)], 1.0);
        }
    }

    /// Bytes without any key that this call was made with.
    pub(super) fn without_keys(&self, bytes: Bytes) -> Bytes {
        self.keys().without(bytes)
    }

    /// A text without any key that this call was made with.
    pub(super) fn without_keys_in(&self, text: String) -> String {
        String::from_utf8_lossy(&self.without_keys(Bytes::from(text))).into_owned()
    }

    /// The keys that this call was made with.
    pub(super) fn keys(&self) -> UsedKeys {
        used_keys(&self.answerer, &self.headers)
    }
}

/// What is told when no provider answers.
fn unreachable(error: &ProviderError, wire: Wire) -> Box<ProviderRefusal> {
    let (status, code) = match error.kind {
        ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
        ErrorKind::InvalidRequest => (StatusCode::BAD_REQUEST, "bad_path"),
        _ => (StatusCode::BAD_GATEWAY, "upstream_unreachable"),
    };
    refused_here(&HttpProblem::new(status, code, error.to_string()), error.clone(), wire)
}

/// An answer of our own that stands where the provider's would.
fn refused_here(problem: &HttpProblem, error: ProviderError, wire: Wire) -> Box<ProviderRefusal> {
    let body = refusal::body(problem, Speaks::of(wire));
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Bytes::from(body.to_string());
    Box::new(ProviderRefusal { status: problem.status, headers, kept: body.clone(), body, error })
}

fn echo_headers(shape: ReplyShape) -> HeaderMap {
    let kind = match shape {
        ReplyShape::Events => "text/event-stream; charset=utf-8",
        ReplyShape::Whole | ReplyShape::List => "application/json",
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if shape == ReplyShape::Events {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    headers
}

/// Where a call was recorded.
pub(super) struct WrittenAt<'r> {
    pub(super) conversation: &'r str,
    pub(super) session: &'r str,
    pub(super) call: &'r str,
}

/// What the client is told beside the reply.
pub(super) fn told(
    call: &ProxyCall,
    asked: &ClientRequest,
    recorded: Option<WrittenAt<'_>>,
    prepared: &Prepared,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut tell = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    tell("x-scrollback-model", &call.model(asked));
    if let Some(recorded) = recorded {
        tell(super::identity::CONVERSATION, recorded.conversation);
        tell(super::identity::SESSION, recorded.session);
        tell("x-scrollback-call", recorded.call);
    }
    let view = super::policy::view_header(prepared);
    tell("x-scrollback-view", &view);
    if let Some(log) = &call.log {
        log.note(|facts| facts.view = Some(view));
    }
    headers
}
