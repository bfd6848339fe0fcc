//! The reply on its way to the client, and the copy that is read for the record.
//!
//! Bytes go on as they come. A copy is read after each piece was handed on, so no delta waits for it. Only the end waits: the
//! piece that makes the reply whole is handed on once the reply is durable, because a client that has it may go on at once
//! and must find it in the record.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use scrollback_agent::StopSignal;
use scrollback_agent::config::Abandoned;
use scrollback_agent::provider::{Passed, ProviderError, UsedKeys};
use scrollback_core::json;
use scrollback_core::stream::{Assembler, Reply, StreamError};
use scrollback_core::wire::Wire;
use scrollback_store::Tenant;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::background::in_turn;
use super::client_request::ReplyShape;
use super::used_keys::hide;
use crate::App;
use crate::memory::Share;
use crate::problem::HttpProblem;

/// Pieces that may wait for a slow client before its provider is no longer read.
const WAITING: usize = 32;
/// How long a provider may take to close a stream whose reply is whole.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes of a reply that are kept for the record; what is longer is passed on, and recorded as cut.
const MAX_KEPT: usize = 64 << 20;

/// Where the bytes of a reply come from.
pub(crate) enum ReplySource {
    Passed(Box<Passed>),
    /// Bytes that are there already.
    Given(std::collections::VecDeque<Bytes>),
}

impl ReplySource {
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, ProviderError>> {
        match self {
            ReplySource::Passed(passed) => passed.next().await,
            ReplySource::Given(pieces) => pieces.pop_front().map(Ok),
        }
    }
}

/// Time limits of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) first: Duration,
    pub(crate) idle: Duration,
    pub(crate) whole: Duration,
}

/// How a reply ended.
#[derive(Debug)]
pub(crate) struct ReplyEnd {
    pub(crate) reply: Reply,
    /// The bytes as they came.
    pub(crate) bytes: Bytes,
    /// When the first byte came.
    pub(crate) first: Option<Instant>,
    /// What it takes of the server's memory.
    _share: Share,
}

/// Why the bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyEndReason {
    /// The provider closed the reply.
    Closed,
    /// The connection broke, or took too long.
    Broken,
    /// The client went away.
    Abandoned,
}

/// The end of the client's body.
#[derive(Debug)]
pub(crate) struct Pipe(mpsc::Sender<Result<Bytes, Cut>>);

/// A reply that ends before its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reply broke off")
    }
}

impl std::error::Error for Cut {}

/// The client's body: whatever is put into the pipe.
#[derive(Debug)]
pub(crate) struct Piped(mpsc::Receiver<Result<Bytes, Cut>>);

impl Body for Piped {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        self.0.poll_recv(cx).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// A pipe and the body at its end.
pub(crate) fn pipe() -> (Pipe, Piped) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Pipe(sender), Piped(receiver))
}

impl Pipe {
    /// Hands bytes on; whether the client takes them in time.
    pub(crate) async fn give(&self, bytes: Bytes, patience: Duration) -> bool {
        matches!(timeout(patience, self.0.send(Ok(bytes))).await, Ok(Ok(())))
    }

    /// Ends the body before its end, so that the client sees that something is missing.
    pub(crate) async fn cut(self) {
        let _ = self.0.send(Err(Cut)).await;
    }
}

/// Reads a copy of a reply.
enum ReplyReader {
    Events(Box<Assembler>),
    Whole(Wire),
}

/// A reply that is passed on while it is read.
pub(crate) struct Tee {
    source: ReplySource,
    reader: ReplyReader,
    kept: Vec<Bytes>,
    size: usize,
    /// What is handed on when the reply is durable.
    held: Vec<Bytes>,
    complete: Option<Instant>,
    first: Option<Instant>,
    patience: Patience,
    began: Instant,
    /// Whether the connection broke before anything was handed on.
    broken: bool,
    /// What the kept bytes take of the server's memory.
    memory: Share,
}

impl Tee {
    pub(crate) fn new(
        wire: Wire,
        shape: ReplyShape,
        source: ReplySource,
        patience: Patience,
        memory: Share,
    ) -> Self {
        let reader = match shape {
            ReplyShape::Events => Assembler::new(wire).ok(),
            ReplyShape::List => Assembler::of_list(wire).ok(),
            ReplyShape::Whole => None,
        };
        let reader = reader.map(|assembler| ReplyReader::Events(Box::new(assembler)));
        Tee {
            source,
            reader: reader.unwrap_or(ReplyReader::Whole(wire)),
            kept: Vec::new(),
            size: 0,
            held: Vec::new(),
            complete: None,
            first: None,
            patience,
            began: Instant::now(),
            broken: false,
            memory,
        }
    }

    /// Reads the first piece and says what it amounts to, before anything is handed on; an error that comes inside a reply
    /// is seen here in time.
    pub(crate) async fn peek(&mut self) -> Option<StreamError> {
        let first = timeout(self.patience.idle, self.source.next()).await;
        self.broken = matches!(first, Err(_) | Ok(Some(Err(_))));
        if let Ok(Some(Ok(bytes))) = first {
            self.take(&bytes);
            self.held.push(bytes);
            if let ReplyReader::Events(assembler) = &self.reader {
                // Only a beginning can be an error and nothing else; looking into it costs a copy.
                let small = self.size <= 64 << 10;
                return small.then(|| assembler.so_far().problem).flatten();
            }
        }
        None
    }

    /// The bytes so far.
    pub(crate) fn kept(&self) -> &[Bytes] {
        &self.kept
    }

    fn take(&mut self, bytes: &Bytes) {
        self.first.get_or_insert_with(Instant::now);
        self.size += bytes.len();
        if self.size <= MAX_KEPT {
            self.kept.push(bytes.clone());
        }
        if let ReplyReader::Events(assembler) = &mut self.reader {
            assembler.feed(bytes);
            if assembler.is_complete() {
                self.complete.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Passes the reply on until it is whole or ends otherwise. What makes it whole is left in `held`.
    /// When `time_is_up`, what came so far is all that is recorded.
    pub(crate) async fn run(mut self, pipe: &Pipe, abandoned: Abandoned, time_is_up: &StopSignal) -> Unread {
        let mut listening = true;
        // What was looked at before goes first, except what ends the reply.
        if self.complete.is_none() && matches!(self.reader, ReplyReader::Events(_)) {
            for bytes in std::mem::take(&mut self.held) {
                listening &= pipe.give(bytes, self.patience.idle).await;
            }
        }
        let how = loop {
            if self.broken {
                break ReplyEndReason::Broken;
            }
            if !listening && abandoned == Abandoned::Cancel {
                break ReplyEndReason::Abandoned;
            }
            let deadline = match self.complete {
                Some(at) => at + LINGER,
                None => (Instant::now() + self.patience.idle).min(self.began + self.patience.whole),
            };
            let next = tokio::select! {
                next = timeout_at(deadline, self.source.next()) => next,
                () = pipe.0.closed(), if listening => {
                    listening = false;
                    continue;
                }
                () = time_is_up.asked() => break ReplyEndReason::Broken,
            };
            match next {
                Ok(Some(Ok(bytes))) => {
                    // The provider waits until there is room for what it says; where none comes, the reply ends here.
                    if self.memory.grow(bytes.len()).await.is_err() {
                        break ReplyEndReason::Broken;
                    }
                    listening &= self.pass(bytes, pipe, listening).await;
                }
                Ok(None) => break ReplyEndReason::Closed,
                // A reply that is whole needs no end of its connection.
                Ok(Some(Err(_))) | Err(_) if self.complete.is_some() => break ReplyEndReason::Closed,
                Ok(Some(Err(_))) | Err(_) => break ReplyEndReason::Broken,
            }
        };
        Unread { tee: self, how }
    }

    /// Hands a piece on and reads it; whether the client is still there.
    async fn pass(&mut self, bytes: Bytes, pipe: &Pipe, listening: bool) -> bool {
        match &self.reader {
            ReplyReader::Events(_) if self.complete.is_none() => {
                // Reading is quick; it comes first so that the piece that ends the reply can be held back.
                self.take(&bytes);
                if self.complete.is_some() {
                    self.held.push(bytes);
                    return true;
                }
                !listening || pipe.give(bytes, self.patience.idle).await
            }
            ReplyReader::Events(_) => {
                self.take(&bytes);
                self.held.push(bytes);
                true
            }
            // Which piece is the last is known when there is none after it.
            ReplyReader::Whole(_) => {
                self.take(&bytes);
                self.held.push(bytes);
                let before = self.held.len().saturating_sub(1);
                for ready in self.held.drain(..before).collect::<Vec<_>>() {
                    if listening && !pipe.give(ready, self.patience.idle).await {
                        return false;
                    }
                }
                true
            }
        }
    }

    fn end(self, how: ReplyEndReason) -> (ReplyEnd, LastPiece) {
        let bytes: Bytes = self.kept.concat().into();
        let reply = match self.reader {
            ReplyReader::Events(assembler) => match how {
                ReplyEndReason::Abandoned => assembler.finish_cancelled(),
                ReplyEndReason::Closed | ReplyEndReason::Broken => assembler.finish(),
            },
            ReplyReader::Whole(wire) => match json::check_bytes(&bytes) {
                Ok(body) if self.size <= MAX_KEPT => Reply::from_body(wire, body),
                _ => cut_whole(wire, how),
            },
        };
        let ended = ReplyEnd { reply, bytes, first: self.first, _share: self.memory };
        (ended, LastPiece { held: self.held, how, patience: self.patience.idle })
    }
}

/// A reply that has ended and is not read yet.
pub(crate) struct Unread {
    tee: Tee,
    how: ReplyEndReason,
}

impl Unread {
    /// Reads it, without the keys that the call was made with; a long one when it is the tenant's turn.
    pub(crate) async fn read(
        self,
        app: &App,
        tenant: &Tenant,
        keys: UsedKeys,
    ) -> Result<(ReplyEnd, LastPiece), HttpProblem> {
        let Unread { mut tee, how } = self;
        // What the bytes came from is no longer needed, and stays on the thread it was opened on.
        tee.source = ReplySource::Given(std::collections::VecDeque::new());
        let size = tee.size;
        let read = move || {
            let (mut ended, rest) = tee.end(how);
            hide(&keys, &mut ended);
            (ended, rest)
        };
        in_turn(&app.heavy_turns, tenant, size, read).await
    }
}

/// A reply in one piece that did not become whole: nothing of it can be read.
fn cut_whole(wire: Wire, how: ReplyEndReason) -> Reply {
    let status = match how {
        ReplyEndReason::Abandoned => scrollback_core::Status::TruncatedClient,
        ReplyEndReason::Closed | ReplyEndReason::Broken => scrollback_core::Status::TruncatedUpstream,
    };
    let meta = scrollback_core::Meta { status, ..scrollback_core::Meta::default() };
    Reply { wire, raw: None, meta, problem: None, notes: Vec::new(), applied_edits: Vec::new() }
}

/// What is handed on once the reply is durable.
pub(crate) struct LastPiece {
    held: Vec<Bytes>,
    how: ReplyEndReason,
    patience: Duration,
}

impl LastPiece {
    /// Hands on the rest, and ends the body as the provider's ended.
    pub(crate) async fn give(self, pipe: Pipe) {
        for bytes in self.held {
            if !pipe.give(bytes, self.patience).await {
                return;
            }
        }
        if self.how == ReplyEndReason::Broken {
            pipe.cut().await;
        }
    }
}
