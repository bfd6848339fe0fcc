//! One call from beginning to end.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use scrollback_agent::config::Recording;
use scrollback_agent::provider::{
    Credential, ErrorKind, Overflow, Passed, PassedRequest, ProviderError, Upstream, without_secret,
};
use scrollback_agent::runner::Spent;
use scrollback_core::stream::Reply;
use scrollback_core::{Entry, Status, Time};
use scrollback_store::{Sent, new_evaluation};
use serde_json::json;

use super::asked::{Asked, Endpoint, Shape, header as text_of};
use super::echo::Echo;
use super::identity::{self, Carries};
use super::record::{Recorded, record_first, store_is_slow};
use super::room::Seat;
use super::tee::{Ended, How, Patience, Source, Tee, pipe};
use super::upstreams::{Answerer, answerer, passed_back, passed_on};
use super::view::{Curating, Outgoing, PASSTHROUGH, Told, context, policy};
use crate::auth::{Caller, unknown};
use crate::problem::Problem;
use crate::{App, body, quota};

/// Longest error of a provider that is read before it is handed on.
const MAX_ERROR: usize = 1 << 20;
/// How long the store may take before a client is told that it does not answer.
const STORE: Duration = Duration::from_secs(30);

/// A call under way.
pub(super) struct Call {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) headers: HeaderMap,
    pub(super) answerer: Answerer,
    /// What it is found by in the lens.
    id: String,
    began: Instant,
    /// Attempts that ended, for the record.
    ended: Vec<Sent>,
    _seat: Seat,
}

/// Answers a request that is understood.
pub(super) async fn answer(app: &App, endpoint: Endpoint, request: Request) -> Result<Response, Problem> {
    let (mut call, asked) = Call::begin(app, endpoint, request).await?;
    let carries = identity::carries(&call.headers, &asked)?;
    let manager = policy(&app.settings, &call.caller.tenant, &call.headers, &asked)?;
    let cx = context(&app.catalog, &asked);
    let mut recorded = call.record(&asked, carries).await?;
    let curating = Curating { app, asked: &asked, carries, manager, cx };
    let mut outgoing = match &mut recorded {
        Some(recorded) => curating.outgoing(recorded).await?,
        None => untouched(&asked),
    };
    let mut answered = call.attempt(&asked, &outgoing).await;
    if let (Attempt::Refused(refused), Some(recorded)) = (&answered, &mut recorded)
        && let Some(overflow) = refused.overflow()
        && let Some(tightened) = curating.tightened(recorded, overflow, &outgoing).await?
    {
        let row =
            call.sent(&asked, recorded, &outgoing, 1, refused.status_word(), Some(refused.kept()), None);
        call.ended.push(row);
        call.id = new_evaluation().to_string();
        outgoing = tightened;
        answered = call.attempt(&asked, &outgoing).await;
    }
    match answered {
        Attempt::Begun(begun) => Ok(call.pass_back(asked, recorded, outgoing, begun)),
        Attempt::Refused(refused) => call.pass_refusal(&asked, recorded, &outgoing, refused).await,
    }
}

/// A request that nothing is known about but what it says.
fn untouched(asked: &Asked) -> Outgoing {
    let told =
        Told { entries: (asked.entries.len(), asked.entries.len()), tokens: (0, 0), by: PASSTHROUGH.into() };
    Outgoing {
        body: asked.body.clone(),
        said: asked.entries.clone(),
        told,
        epoch: None,
        prefix_hash: [0; 32],
        managers: "\"passthrough\"".into(),
        tokens: 0,
    }
}

/// What came of asking.
enum Attempt {
    /// A reply is on its way.
    Begun(Begun),
    /// Something else came, or nothing.
    Refused(Refused),
}

/// A reply whose beginning was seen.
struct Begun {
    status: StatusCode,
    headers: HeaderMap,
    tee: Tee,
}

/// An answer that is no reply.
struct Refused {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// What is kept of it: without keys.
    error: ProviderError,
}

impl Refused {
    /// The sizes a provider stated, if that is what is wrong.
    fn overflow(&self) -> Option<Overflow> {
        match self.error.kind {
            ErrorKind::ContextOverflow(overflow) => Some(overflow),
            _ => None,
        }
    }

    fn status_word(&self) -> &'static str {
        self.error.kind.as_str()
    }

    fn kept(&self) -> Bytes {
        self.body.clone()
    }
}

impl Call {
    /// Lets a request in and reads it.
    pub(super) async fn begin(
        app: &App,
        endpoint: Endpoint,
        request: Request,
    ) -> Result<(Call, Asked), Problem> {
        let (parts, body) = request.into_parts();
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(unknown)?;
        caller.may_call()?;
        let limits = &app.settings.limits;
        let seat = app.room.enter(&caller.tenant, limits.concurrent)?;
        quota::admit(app, &caller).await?;
        let query = parts.uri.query().map(String::from);
        let bytes = body::read(body, &parts.headers, limits).await?;
        let began = Instant::now();
        let asked = Asked::read(endpoint, bytes, query, limits)?;
        let upstream = app.upstreams.get(&app.catalog, endpoint.provider(), &asked.named);
        let upstream = upstream
            .map_err(|error| Problem::new(StatusCode::BAD_GATEWAY, error.code(), error.to_string()))?;
        let answerer = answerer(upstream, asked.model.as_ref(), &parts.headers, app.address);
        let call = Call {
            app: app.clone(),
            caller,
            headers: parts.headers,
            answerer,
            id: new_evaluation().to_string(),
            began,
            ended: Vec::new(),
            _seat: seat,
        };
        Ok((call, asked))
    }

    /// Writes down what is new; none where that failed and is not required.
    async fn record(&self, asked: &Asked, carries: Carries) -> Result<Option<Recorded>, Problem> {
        self.owns_what_it_goes_on_from(asked).await?;
        let recording = record_first(&self.app, &self.caller.tenant, &self.headers, asked, carries);
        let recorded = match tokio::time::timeout(STORE, recording).await {
            Ok(recorded) => recorded,
            Err(_) => Err(store_is_slow()),
        };
        match recorded {
            Ok(recorded) => Ok(Some(recorded)),
            Err(problem)
                if self.app.settings.record == Recording::BestEffort && carries == Carries::History =>
            {
                self.app.metrics.add("scrollback_record_failures_total", &[("part", "request")], 1.0);
                tracing::warn!(code = problem.code, "a request was served without a record");
                Ok(None)
            }
            Err(problem) => Err(problem),
        }
    }

    /// An error if somebody else's response would be read with our key.
    async fn owns_what_it_goes_on_from(&self, asked: &Asked) -> Result<(), Problem> {
        let Some(previous) = &asked.previous else { return Ok(()) };
        let shared =
            self.caller.key.is_some() && !matches!(self.answerer, Answerer::Upstream(_, Credential::Theirs));
        if !shared {
            return Ok(());
        }
        match self.app.store.alias(&self.caller.tenant, identity::BY_RESPONSE, previous).await? {
            Some(_) => Ok(()),
            None => {
                let detail = format!("Previous response with id '{previous}' not found.");
                Err(Problem::bad_request("previous_response_not_found", detail)
                    .with("path", "previous_response_id"))
            }
        }
    }

    /// Asks once.
    async fn attempt(&self, asked: &Asked, outgoing: &Outgoing) -> Attempt {
        let patience = self.patience(asked.shape);
        let (status, headers, source) = match &self.answerer {
            Answerer::Echo => (StatusCode::OK, echo_headers(asked.shape), self.echo(asked, outgoing)),
            Answerer::Upstream(upstream, credential) => {
                match self.ask(asked, outgoing, upstream, credential, patience).await {
                    Ok(passed) if passed.status.is_success() => {
                        (passed.status, passed.headers.clone(), Source::Passed(Box::new(passed)))
                    }
                    Ok(passed) => return Attempt::Refused(self.refused(asked, passed, patience).await),
                    Err(error) => return Attempt::Refused(unreachable(&error)),
                }
            }
        };
        let events =
            text_of(&headers, "content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let shape = if events { Shape::Events } else { Shape::Whole };
        let mut tee = Tee::new(asked.wire(), shape, source, patience);
        // An error that comes inside a reply is seen before anything was handed on.
        let problem = tee.peek().await.map(|problem| ProviderError::told(&problem));
        match problem {
            Some(error) if matches!(error.kind, ErrorKind::ContextOverflow(_)) => {
                let body = Bytes::from(tee.kept().concat());
                Attempt::Refused(Refused { status, headers, body, error })
            }
            _ => Attempt::Begun(Begun { status, headers, tee }),
        }
    }

    fn patience(&self, shape: Shape) -> Patience {
        let limits = &self.app.settings.limits;
        match shape {
            Shape::Events => {
                Patience { first: limits.first_byte, idle: limits.stream_idle, whole: limits.stream }
            }
            // A reply in one piece says nothing until all of it is written.
            Shape::Whole => Patience { first: limits.stream, idle: limits.stream, whole: limits.stream },
        }
    }

    async fn ask(
        &self,
        asked: &Asked,
        outgoing: &Outgoing,
        upstream: &Upstream,
        credential: &Credential,
        patience: Patience,
    ) -> Result<Passed, ProviderError> {
        let mut headers = passed_on(&self.headers);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = PassedRequest {
            method: Method::POST,
            path: asked.path(),
            headers,
            body: outgoing.body.clone(),
            credential: credential.clone(),
            timeout: patience.first,
        };
        upstream.pass(request).await
    }

    fn echo(&self, asked: &Asked, outgoing: &Outgoing) -> Source {
        let echo = Echo {
            wire: asked.wire(),
            model: &asked.named,
            id: &self.id,
            at: self.app.now().0 / 1000,
            said: &outgoing.said,
        };
        let pieces = match asked.endpoint {
            Endpoint::Compact => vec![super::responses::compacted(&echo)],
            _ => echo.pieces(asked.shape),
        };
        Source::Given(pieces.into())
    }

    /// Reads what came instead of a reply.
    async fn refused(&self, asked: &Asked, mut passed: Passed, patience: Patience) -> Refused {
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
        Refused { status: passed.status, headers: passed.headers, body, error }
    }

    /// Hands on what came instead of a reply, as it came, and writes down that it did.
    async fn pass_refusal(
        mut self,
        asked: &Asked,
        recorded: Option<Recorded>,
        outgoing: &Outgoing,
        refused: Refused,
    ) -> Result<Response, Problem> {
        let told = self.told(asked, recorded.as_ref(), outgoing);
        self.count(asked, refused.status_word());
        if let Some(recorded) = recorded {
            let attempt = self.ended.len() as u64 + 1;
            let kept = self.without_keys(refused.kept());
            let row = self.sent(asked, &recorded, outgoing, attempt, refused.status_word(), Some(kept), None);
            let mut calls = std::mem::take(&mut self.ended);
            calls.push(row);
            let finished = recorded.finish(&self.app, None, calls, None).await;
            self.must_be_kept(finished.map_err(Problem::from))?;
        }
        let mut response = Response::new(Body::from(refused.body));
        *response.status_mut() = refused.status;
        *response.headers_mut() = passed_back(&refused.headers);
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().extend(told);
        Ok(response)
    }

    /// Hands the reply on while it comes.
    fn pass_back(
        self,
        asked: Asked,
        recorded: Option<Recorded>,
        outgoing: Outgoing,
        begun: Begun,
    ) -> Response {
        let (pipe, piped) = pipe();
        let mut response = Response::new(Body::new(piped));
        *response.status_mut() = begun.status;
        *response.headers_mut() = passed_back(&begun.headers);
        response.headers_mut().extend(self.told(&asked, recorded.as_ref(), &outgoing));
        let request_id = ["x-request-id", "request-id"].iter().find_map(|name| text_of(&begun.headers, name));
        let request_id = request_id.map(String::from);
        let tasks = self.app.tasks.enter();
        let abandoned = self.app.settings.abandoned;
        tokio::spawn(async move {
            let _tasks = tasks;
            let (ended, rest) = begun.tee.run(&pipe, abandoned).await;
            match self.finish(&asked, recorded, &outgoing, &ended, request_id).await {
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
        });
        response
    }

    /// Writes the reply down, and what is known about the call.
    async fn finish(
        mut self,
        asked: &Asked,
        recorded: Option<Recorded>,
        outgoing: &Outgoing,
        ended: &Ended,
        request_id: Option<String>,
    ) -> Result<(), Problem> {
        let reply = &ended.reply;
        let spent = self.spent(asked, outgoing, reply);
        let word = match (&reply.problem, reply.meta.status) {
            (Some(problem), _) => ProviderError::told(problem).kind.as_str(),
            (None, Status::Complete) => "ok",
            (None, Status::TruncatedClient) => "truncated_client",
            (None, _) => "truncated_upstream",
        };
        self.count(asked, word);
        self.log(asked, recorded.as_ref(), ended, word, &spent);
        quota::charge(&self.app, &self.caller, spent.total(), spent.cost_usd).await;
        let Some(recorded) = recorded else { return Ok(()) };
        let said = asked.endpoint != Endpoint::Compact;
        let entry = said.then(|| reply.entry().ok()).flatten().map(|mut entry: Entry| {
            let meta = entry.meta.get_or_insert_default();
            meta.model_asked = Some(asked.named.clone());
            meta.provider = Some(self.provider().into());
            meta.request_id = request_id;
            entry
        });
        let attempt = self.ended.len() as u64 + 1;
        let kept = self.without_keys(ended.bytes.clone());
        let row = self.sent(asked, &recorded, outgoing, attempt, word, Some(kept), Some(&spent));
        let mut calls = std::mem::take(&mut self.ended);
        calls.push(row);
        let response = reply.meta.response_id.clone().filter(|_| asked.endpoint == Endpoint::Responses);
        let began = Instant::now();
        let finished = tokio::time::timeout(STORE, recorded.finish(&self.app, entry, calls, response)).await;
        self.app.metrics.time("scrollback_seconds", &[("part", "commit")], began.elapsed().as_secs_f64());
        self.must_be_kept(
            finished.map_err(|_| store_is_slow()).and_then(|finished| finished.map_err(Problem::from)),
        )
    }

    /// A failure to record, where recording is required.
    fn must_be_kept(&self, kept: Result<(), Problem>) -> Result<(), Problem> {
        let Err(problem) = kept else { return Ok(()) };
        self.app.metrics.add("scrollback_record_failures_total", &[("part", "reply")], 1.0);
        match self.app.settings.record {
            Recording::Required => Err(problem),
            Recording::BestEffort => {
                tracing::warn!(code = problem.code, "a reply was served without a record");
                Ok(())
            }
        }
    }

    fn provider(&self) -> &'static str {
        match &self.answerer {
            Answerer::Echo => "offline",
            Answerer::Upstream(upstream, _) => upstream.provider().name(),
        }
    }

    /// What was used: as reported, else as counted here.
    fn spent(&self, asked: &Asked, outgoing: &Outgoing, reply: &Reply) -> Spent {
        let prices = asked.model.as_ref().filter(|_| !matches!(self.answerer, Answerer::Echo));
        let prices = prices.map(|model| self.app.catalog.prices(model)).unwrap_or_default();
        let usage = reply.meta.usage.as_ref();
        let guess = match (usage.and_then(|usage| usage.output), &reply.raw) {
            (None, Some(raw)) => scrollback_core::tokens::Tokenizer::O200kBase.count(raw),
            _ => 0,
        };
        Spent::reported(usage, (outgoing.tokens, guess), prices)
    }

    fn count(&self, asked: &Asked, word: &str) {
        let labels = [("wire", asked.wire().name()), ("status", word)];
        self.app.metrics.add("scrollback_upstream_requests_total", &labels, 1.0);
        if word.starts_with("truncated") {
            self.app.metrics.add("scrollback_truncated_total", &[("side", word)], 1.0);
        }
    }

    fn log(&self, asked: &Asked, recorded: Option<&Recorded>, ended: &Ended, word: &str, spent: &Spent) {
        let metrics = &self.app.metrics;
        for (kind, tokens) in
            [("input", spent.input), ("output", spent.output), ("cache_read", spent.cache_read)]
        {
            let labels = [("model", asked.named.as_str()), ("kind", kind)];
            metrics.add("scrollback_tokens_total", &labels, tokens as f64);
        }
        if let Some(cost) = spent.cost_usd {
            metrics.add("scrollback_cost_usd_total", &[("model", asked.named.as_str())], cost);
        }
        let conversation = recorded.map(|recorded| recorded.conversation.as_str());
        tracing::info!(
            gen_ai.operation.name = "chat",
            gen_ai.request.model = asked.named,
            gen_ai.provider.name = self.provider(),
            gen_ai.conversation.id = conversation,
            gen_ai.usage.input_tokens = spent.input,
            gen_ai.usage.output_tokens = spent.output,
            call = self.id,
            tenant = self.caller.tenant.as_str(),
            status = word,
            left = ended.how == How::Abandoned,
            milliseconds = self.began.elapsed().as_millis() as u64,
            "called"
        );
        self.app.events.tell(&self.caller.tenant, "ReplyReceived", || {
            let first = ended
                .first
                .map(|first| first.into_std().saturating_duration_since(self.began).as_millis() as u64);
            json!({
                "event": "ReplyReceived", "conversation": conversation, "call": self.id, "status": word,
                "model": asked.named, "usage": spent, "stop": ended.reply.meta.stop,
                "milliseconds": self.began.elapsed().as_millis() as u64, "first_byte_milliseconds": first,
            })
        });
    }

    /// Bytes without any key that this call was made with.
    fn without_keys(&self, bytes: Bytes) -> Bytes {
        let mut bytes = match &self.answerer {
            Answerer::Upstream(upstream, _) => upstream.without_key(bytes),
            Answerer::Echo => bytes,
        };
        for key in crate::auth::presented(&self.headers) {
            bytes = without_secret(bytes, key);
        }
        bytes
    }

    /// The row about an attempt.
    #[allow(
        clippy::too_many_arguments,
        reason = "a row has that many columns, and only two places write one"
    )]
    fn sent(
        &self,
        asked: &Asked,
        recorded: &Recorded,
        outgoing: &Outgoing,
        attempt: u64,
        status: &str,
        response: Option<Bytes>,
        spent: Option<&Spent>,
    ) -> Sent {
        let (now, took) = (self.app.now(), self.began.elapsed().as_millis() as i64);
        let model = match (&self.answerer, &asked.model) {
            (Answerer::Echo, _) => "offline:echo".to_string(),
            (_, Some(model)) => model.to_string(),
            (_, None) => asked.named.clone(),
        };
        Sent {
            id: self.id.clone(),
            conversation: recorded.conversation.clone(),
            run: None,
            step: None,
            evaluation: Some(recorded.evaluation),
            upto: recorded.record().len() as u64,
            managers: outgoing.managers.clone(),
            wire: asked.wire().name().into(),
            model,
            epoch: outgoing.epoch,
            prefix_hash: Some(outgoing.prefix_hash.to_vec()),
            request: Some(outgoing.body.to_vec()),
            response: response.map(|bytes| bytes.to_vec()),
            status: status.into(),
            attempt,
            usage: spent.and_then(|spent| serde_json::to_string(spent).ok()),
            started_at: Time(now.0 - took),
            ended_at: Some(now),
        }
    }

    /// What the client is told beside the reply.
    pub(super) fn told(&self, asked: &Asked, recorded: Option<&Recorded>, outgoing: &Outgoing) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut tell = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        let model = match (&self.answerer, &asked.model) {
            (Answerer::Echo, _) => "offline:echo".to_string(),
            (_, Some(model)) => model.to_string(),
            (_, None) => asked.named.clone(),
        };
        tell("x-scrollback-model", &model);
        if let Some(recorded) = recorded {
            tell(identity::CONVERSATION, recorded.conversation.as_str());
            tell("x-scrollback-call", &self.id);
        }
        tell("x-scrollback-view", &outgoing.told.header());
        headers
    }
}

/// What is told when nobody answers.
fn unreachable(error: &ProviderError) -> Refused {
    let (status, code) = match error.kind {
        ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
        ErrorKind::InvalidRequest => (StatusCode::BAD_REQUEST, "bad_path"),
        _ => (StatusCode::BAD_GATEWAY, "upstream_unreachable"),
    };
    let response = Problem::new(status, code, error.to_string());
    let body = json!({ "type": "error", "error": { "type": "api_error", "code": code, "message": response.detail } });
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Refused { status, headers, body: Bytes::from(body.to_string()), error: error.clone() }
}

fn echo_headers(shape: Shape) -> HeaderMap {
    let kind = match shape {
        Shape::Events => "text/event-stream; charset=utf-8",
        Shape::Whole => "application/json",
    };
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if shape == Shape::Events {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    headers
}
