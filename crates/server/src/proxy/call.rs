//! One call from beginning to end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use scrollback_agent::config::{Abandoned, Recording};
use scrollback_agent::provider::{
    Credential, ErrorKind, Overflow, Passed, PassedRequest, ProviderError, Upstream,
};
use scrollback_store::{Sent, new_evaluation};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::aside::{came_of, unfinished};
use super::asked::{Asked, Endpoint, Shape, header as text_of};
use super::closing::{Outcome, TRUNCATED_CLIENT};
use super::echo::Echo;
use super::identity::{self, Carries};
use super::record::{Recorded, record_first, store_is_slow};
use super::room::Seat;
use super::spans::Tried;
use super::tee::{Patience, Source, Tee, pipe};
use super::upstreams::{Answerer, answerer, passed_back, passed_on};
use super::view::{Curating, Outgoing, policy};
use crate::auth::{Caller, unknown};
use crate::problem::Problem;
use crate::{App, body, quota};

/// Longest error of a provider that is read before it is handed on.
const MAX_ERROR: usize = 1 << 20;
/// How long the store may take before a client is told that it does not answer.
pub(super) const STORE: Duration = Duration::from_secs(30);

/// A call under way.
pub(super) struct Call {
    pub(super) app: App,
    pub(super) caller: Caller,
    pub(super) headers: HeaderMap,
    pub(super) answerer: Answerer,
    /// What it is found by in the lens.
    pub(super) id: String,
    pub(super) began: Instant,
    /// Attempts that ended, for the record.
    pub(super) ended: Vec<Sent>,
    _seat: Seat,
}

/// Answers a request that is understood.
///
/// What follows the recording is work of its own, because the client may go away before anything came back: then it is
/// cancelled and written down as such, or goes on for the record.
pub(super) async fn answer(app: &App, endpoint: Endpoint, request: Request) -> Result<Response, Problem> {
    let (call, asked) = Call::begin(app, endpoint, request).await?;
    let carries = identity::carries(&call.headers, &asked)?;
    let policy = policy(&app.settings, &call.caller.tenant, &call.headers, &asked)?;
    let curating = Arc::new(Curating::new(app, asked, carries, policy));
    let checking = curating.begin_check();
    let recorded = call.record(&curating).await?;
    let (client, response) = oneshot::channel();
    let task = app.tasks.enter();
    // Boxed, because it is large and moved several times before it runs.
    tokio::spawn(Box::pin(async move {
        let _task = task;
        call.run(curating, checking, recorded, client).await;
    }));
    response.await.unwrap_or_else(|_| Err(unfinished()))
}

/// Whoever waits for the response.
type Client = oneshot::Sender<Result<Response, Problem>>;

impl Call {
    /// Makes the request, asks, and gives the client what came.
    async fn run(
        mut self: Box<Self>,
        curating: Arc<Curating>,
        checking: Option<JoinHandle<()>>,
        recorded: Option<Box<Recorded>>,
        mut client: Client,
    ) {
        let (mut recorded, mut outgoing) = match made_ready(&curating, checking, recorded).await {
            Ok(ready) => ready,
            Err(problem) => {
                let _ = client.send(Err(problem));
                return;
            }
        };
        let mut answered =
            self.attempt_counting(&mut client, &curating, recorded.as_deref_mut(), &mut outgoing).await;
        if let Attempt::Refused(refused) = answered {
            let retried = self.retried(&mut client, &curating, (recorded, outgoing), refused);
            // Most are not refused, and need no room for it.
            (recorded, outgoing, answered) = match Box::pin(retried).await {
                Ok(retried) => retried,
                Err(problem) => {
                    let _ = client.send(Err(problem));
                    return;
                }
            };
        }
        let asked = &curating.asked;
        match answered {
            Attempt::Left => Box::pin(self.left(asked, recorded, &outgoing)).await,
            Attempt::Begun(begun) => self.pass_back(asked, recorded, &outgoing, begun, client).await,
            Attempt::Refused(refused) => {
                let response = Box::pin(self.pass_refusal(asked, recorded, &outgoing, refused)).await;
                let _ = client.send(response);
            }
        }
    }

    /// Asks again with less, if what was asked was too much and is recorded.
    async fn retried(
        &mut self,
        client: &mut Client,
        curating: &Arc<Curating>,
        (recorded, outgoing): (Option<Box<Recorded>>, Outgoing),
        refused: Refused,
    ) -> Result<(Option<Box<Recorded>>, Outgoing, Attempt), Problem> {
        let Some(overflow) = refused.overflow() else {
            return Ok((recorded, outgoing, Attempt::Refused(refused)));
        };
        let Some(recorded) = recorded else { return Ok((None, outgoing, Attempt::Refused(refused))) };
        let (mut recorded, tightened) = curating.tightened(recorded, overflow, &outgoing).await?;
        let Some(mut tightened) = tightened else {
            return Ok((Some(recorded), outgoing, Attempt::Refused(refused)));
        };
        let asked = &curating.asked;
        let tried = Tried { word: refused.status_word(), ..Tried::default() };
        self.tell_span(asked, Some(&recorded), &outgoing, &tried);
        let outcome = Outcome::failed(refused.status_word(), Some(refused.body.clone()));
        let row = self.sent(asked, &recorded, &outgoing, outcome);
        self.ended.push(row);
        self.tell_tightened(&recorded, overflow, &outgoing, &tightened);
        self.id = new_evaluation().to_string();
        let answered = self.attempt_counting(client, curating, Some(&mut recorded), &mut tightened).await;
        Ok((Some(recorded), tightened, answered))
    }

    /// Asks once, and counts the request while it is on its way, unless that was necessary before.
    async fn attempt_counting(
        &self,
        client: &mut Client,
        curating: &Curating,
        mut recorded: Option<&mut Recorded>,
        outgoing: &mut Outgoing,
    ) -> Attempt {
        let asked = &curating.asked;
        if let Some(recorded) = &mut recorded
            && outgoing.told.tokens.is_none()
            && self.app.events.are_heard()
        {
            outgoing.told.tokens = Some(counted(curating, recorded).await);
        }
        self.tell_sent(recorded.as_deref(), outgoing);
        let asking = self.attempt_for(client, asked, outgoing);
        let Some(recorded) = recorded.filter(|_| outgoing.told.tokens.is_none()) else { return asking.await };
        let (answered, tokens) = meanwhile(asking, counted(curating, recorded)).await;
        outgoing.told.tokens = Some(tokens);
        answered
    }

    /// Asks once, unless the client goes away first and nobody else wants the reply.
    async fn attempt_for(&self, client: &mut Client, asked: &Asked, outgoing: &Outgoing) -> Attempt {
        let cancels = self.app.settings.abandoned == Abandoned::Cancel;
        tokio::select! {
            answered = self.attempt(asked, outgoing) => answered,
            () = client.closed(), if cancels => Attempt::Left,
        }
    }
}

/// What is sent on, of a record or as it came.
async fn made_ready(
    curating: &Arc<Curating>,
    checking: Option<JoinHandle<()>>,
    recorded: Option<Box<Recorded>>,
) -> Result<(Option<Box<Recorded>>, Outgoing), Problem> {
    if let Some(checking) = checking {
        came_of(checking).await?;
    }
    let Some(recorded) = recorded else {
        // Nothing is known about it but what it says.
        return Ok((None, Outgoing::untouched(&curating.asked, "\"passthrough\"".into())));
    };
    let (recorded, outgoing) = curating.outgoing(recorded).await?;
    Ok((Some(recorded), outgoing))
}

/// Tokens of a request that goes on as it came.
async fn counted(curating: &Curating, recorded: &mut Recorded) -> (usize, usize) {
    recorded.take_counts().await;
    curating.counted(recorded.record())
}

/// Waits for something, and does work of its own once everybody who was woken by the asking has had a turn: whoever writes
/// the request to its connection is one of them.
async fn meanwhile<T, W>(waiting: impl Future<Output = T>, work: impl Future<Output = W>) -> (T, W) {
    let working = async {
        tokio::task::yield_now().await;
        work.await
    };
    tokio::join!(waiting, working)
}

/// What came of asking.
enum Attempt {
    /// The client went away.
    Left,
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
}

impl Call {
    /// Lets a request in and reads it.
    pub(super) async fn begin(
        app: &App,
        endpoint: Endpoint,
        request: Request,
    ) -> Result<(Box<Call>, Asked), Problem> {
        let (parts, body) = request.into_parts();
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(unknown)?;
        caller.may_call()?;
        let limits = &app.settings.limits;
        let seat = app.room.enter(&caller.tenant, limits.concurrent)?;
        quota::admit(app, &caller).await?;
        let query = parts.uri.query().map(String::from);
        let bytes = body::read(body, &parts.headers, limits).await?;
        let began = Instant::now();
        let asked = Asked::taken(endpoint, bytes, query, *limits).await?;
        let upstream = app.upstreams.get(&app.catalog, endpoint.provider(), &asked.named);
        let upstream = upstream
            .map_err(|error| Problem::new(StatusCode::BAD_GATEWAY, error.code(), error.to_string()))?;
        let answerer = answerer(upstream, asked.model.as_ref(), &parts.headers, app.address);
        let call = Box::new(Call {
            app: app.clone(),
            caller,
            headers: parts.headers,
            answerer,
            id: new_evaluation().to_string(),
            began,
            ended: Vec::new(),
            _seat: seat,
        });
        Ok((call, asked))
    }

    /// Writes down what is new; none where that failed and is not required.
    async fn record(&self, curating: &Arc<Curating>) -> Result<Option<Box<Recorded>>, Problem> {
        let carries = curating.carries;
        self.owns_what_it_goes_on_from(&curating.asked).await?;
        let recording = record_first(&self.app, &self.caller.tenant, &self.headers, curating);
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
        let known = self.app.store.alias(&self.caller.tenant, identity::BY_RESPONSE, previous).await?;
        if known.is_some() {
            return Ok(());
        }
        let detail = format!("Previous response with id '{previous}' not found.");
        let problem = Problem::bad_request("previous_response_not_found", detail);
        Err(problem.with("path", "previous_response_id"))
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
                    Ok(passed) => {
                        return Attempt::Refused(Box::pin(self.refused(asked, passed, patience)).await);
                    }
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
            said: outgoing.said(asked),
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
        mut self: Box<Self>,
        asked: &Asked,
        recorded: Option<Box<Recorded>>,
        outgoing: &Outgoing,
        refused: Refused,
    ) -> Result<Response, Problem> {
        let told = self.told(asked, recorded.as_deref(), outgoing);
        self.count(asked, refused.status_word());
        let tried = Tried { word: refused.status_word(), ..Tried::default() };
        self.tell_span(asked, recorded.as_deref(), outgoing, &tried);
        if let Some(recorded) = recorded {
            let kept = self.without_keys(refused.body.clone());
            let outcome = Outcome::failed(refused.status_word(), Some(kept));
            self.close(asked, recorded, outgoing, outcome, None, None).await?;
        }
        let mut response = Response::new(Body::from(refused.body));
        *response.status_mut() = refused.status;
        *response.headers_mut() = passed_back(&refused.headers);
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().extend(told);
        Ok(response)
    }

    /// Writes down that the client went away before anything came back.
    async fn left(mut self: Box<Self>, asked: &Asked, recorded: Option<Box<Recorded>>, outgoing: &Outgoing) {
        self.count(asked, TRUNCATED_CLIENT);
        let tried = Tried { word: TRUNCATED_CLIENT, ..Tried::default() };
        self.tell_span(asked, recorded.as_deref(), outgoing, &tried);
        if let Some(recorded) = recorded {
            // Nobody is there to be told that it failed.
            let _ = self
                .close(asked, recorded, outgoing, Outcome::failed(TRUNCATED_CLIENT, None), None, None)
                .await;
        }
    }

    /// Hands the reply on while it comes, and ends it once it is durable.
    async fn pass_back(
        self: Box<Self>,
        asked: &Asked,
        recorded: Option<Box<Recorded>>,
        outgoing: &Outgoing,
        begun: Begun,
        client: Client,
    ) {
        let (pipe, piped) = pipe();
        let mut response = Response::new(Body::new(piped));
        *response.status_mut() = begun.status;
        *response.headers_mut() = passed_back(&begun.headers);
        response.headers_mut().extend(self.told(asked, recorded.as_deref(), outgoing));
        let request_id = ["x-request-id", "request-id"].iter().find_map(|name| text_of(&begun.headers, name));
        let request_id = request_id.map(String::from);
        // A client that is gone has dropped the other end of the pipe too.
        let _ = client.send(Ok(response));
        let (ended, rest) = begun.tee.run(&pipe, self.app.settings.abandoned).await;
        match self.finish(asked, recorded, outgoing, &ended, request_id).await {
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

    /// What the client is told beside the reply.
    pub(super) fn told(&self, asked: &Asked, recorded: Option<&Recorded>, outgoing: &Outgoing) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut tell = |name: &'static str, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        tell("x-scrollback-model", &self.model(asked));
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A request is written by a task of its own, which runs when whoever asks lets it.
    #[tokio::test]
    async fn counting_starts_when_the_request_was_written() {
        static ORDER: Mutex<Vec<&str>> = Mutex::new(Vec::new());
        let note = |what| {
            if let Ok(mut order) = ORDER.lock() {
                order.push(what);
            }
        };
        let (hand_over, handed) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let _ = handed.await;
            note("written");
            tokio::task::yield_now().await;
            let _ = answer.send(());
        });
        // The task waits for the request.
        tokio::task::yield_now().await;
        let asking = async {
            note("asked");
            let _ = hand_over.send(());
            let _ = answered.await;
            note("answered");
        };
        meanwhile(asking, async { note("counted") }).await;
        assert_eq!(
            ORDER.lock().map(|order| order.clone()).unwrap_or_default(),
            ["asked", "written", "counted", "answered"]
        );
    }
}
