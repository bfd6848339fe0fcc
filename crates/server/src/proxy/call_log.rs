//! One line in the log for every call, when it has ended.
//!
//! What is known about a call is learnt at several places: the router knows its path and status, the exchange its tokens, the
//! body its bytes. Each holds the same [`CallLog`] and notes its part; when the last of them lets go, the call has ended and
//! the line is written. So there is one line whatever happens: a refusal, a reply that is recorded after its client left, a
//! panic. Nothing of the conversation is in it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// What is known about a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallFacts {
    /// The model as the client named it.
    pub(crate) model: Option<String>,
    /// The session as the client named it.
    pub(crate) session: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) conversation: Option<String>,
    /// The id by which the call is found in the record.
    pub(crate) call: Option<String>,
    /// How it ended, as the record says it.
    pub(crate) outcome: Option<String>,
    /// The code of the problem, where we refused it ourselves.
    pub(crate) code: Option<&'static str>,
    pub(crate) tokens_in: Option<u64>,
    pub(crate) tokens_out: Option<u64>,
    pub(crate) tokens_cached: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
    /// What the client was told about its view.
    pub(crate) view: Option<String>,
    status: Option<u16>,
    first_byte: Option<u64>,
    last_byte: Option<u64>,
}

/// A call under way, and its line in the log when it has ended.
#[derive(Debug)]
pub(crate) struct CallLog {
    method: Method,
    /// Without the query, in which there may be a key.
    path: String,
    began: Instant,
    facts: Mutex<CallFacts>,
}

impl CallLog {
    fn facts(&self) -> MutexGuard<'_, CallFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes something.
    pub(crate) fn note(&self, learnt: impl FnOnce(&mut CallFacts)) {
        learnt(&mut self.facts());
    }

    /// Notes that bytes of the reply were handed to the client's connection.
    fn bytes_sent(&self) {
        let now = self.began.elapsed().as_millis() as u64;
        let mut facts = self.facts();
        facts.first_byte.get_or_insert(now);
        facts.last_byte = Some(now);
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        let facts = std::mem::take(&mut *self.facts());
        let milliseconds = self.began.elapsed().as_millis() as u64;
        let (first, last) =
            (facts.first_byte.unwrap_or(milliseconds), facts.last_byte.unwrap_or(milliseconds));
        // None where the client left before there was an answer.
        let status = facts.status.unwrap_or(0);
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    method = self.method.as_str(),
                    path = self.path,
                    model = facts.model,
                    session = facts.session,
                    status,
                    first_byte_ms = first,
                    last_byte_ms = last,
                    tokens_in = facts.tokens_in,
                    tokens_out = facts.tokens_out,
                    tokens_cached = facts.tokens_cached,
                    cost_usd = facts.cost_usd,
                    view = facts.view,
                    tenant = facts.tenant,
                    conversation = facts.conversation,
                    call = facts.call,
                    outcome = facts.outcome,
                    code = facts.code,
                    "call"
                )
            };
        }
        if status >= 400 {
            line!(warn);
        } else {
            line!(info);
        }
    }
}

/// Notes a call below `version`, and writes its line when it has ended.
pub(super) async fn log_calls(version: &'static str, mut request: Request, next: Next) -> Response {
    let log = Arc::new(CallLog {
        method: request.method().clone(),
        path: format!("{version}{}", request.uri().path()),
        began: Instant::now(),
        facts: Mutex::default(),
    });
    request.extensions_mut().insert(Arc::clone(&log));
    let response = next.run(request).await;
    log.note(|facts| facts.status = Some(response.status().as_u16()));
    response.map(|body| Body::new(Watched { body, log }))
}

/// A body that notes when its bytes are taken.
struct Watched {
    body: Body,
    log: Arc<CallLog>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let next = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(&next, Poll::Ready(Some(Ok(frame))) if frame.is_data()) {
            self.log.bytes_sent();
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
