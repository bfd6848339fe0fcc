//! A reply on its way: pieces as they come, the whole at the end.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use scrollback_core::stream::{Assembler, Delta, Reply};
use scrollback_core::wire::Wire;
use scrollback_core::{Status, json};

use super::UsedKeys;
use super::error::{ErrorKind, ProviderError};
use crate::effects::BoxFuture;

/// Where the bytes of a reply come from.
pub(super) trait ReplyBytes: Send {
    /// The next bytes; none at the end.
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, ProviderError>>>;
}

/// Bytes that are there already, and how they end.
pub(super) struct FinishedBytes {
    pub(super) chunks: VecDeque<Bytes>,
}

impl ReplyBytes for FinishedBytes {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, ProviderError>>> {
        Box::pin(std::future::ready(self.chunks.pop_front().map(Ok)))
    }
}

/// A reply on its way.
///
/// [`next`](Self::next) gives its pieces; [`finish`](Self::finish) the whole, reading on if need be. A caller that leaves
/// before the end calls [`cancel`](Self::cancel), or just drops it: the provider is not kept waiting either way.
pub struct ReplyStream {
    source: Box<dyn ReplyBytes>,
    form: ReplyForm,
    pieces: VecDeque<Delta>,
    /// Why the bytes ended early.
    broken: Option<ProviderError>,
    ended: bool,
    /// What is taken out of the whole.
    keys: UsedKeys,
}

/// How the bytes are written.
enum ReplyForm {
    Events(Box<Assembler>),
    Body(Wire, Vec<u8>),
}

/// A reply that did not become whole.
#[derive(Debug)]
pub struct Broken {
    /// Why.
    pub error: ProviderError,
    /// The result.
    pub partial: Option<Reply>,
}

impl ReplyStream {
    /// A reply that comes as events.
    pub(super) fn events(wire: Wire, source: Box<dyn ReplyBytes>) -> Result<Self, ProviderError> {
        let assembler = Assembler::new(wire)
            .map_err(|error| ProviderError::new(ErrorKind::InvalidRequest, error.to_string()))?;
        Ok(ReplyStream::new(ReplyForm::Events(Box::new(assembler)), source))
    }

    /// A reply that comes as one body.
    pub(super) fn body(wire: Wire, source: Box<dyn ReplyBytes>) -> Self {
        ReplyStream::new(ReplyForm::Body(wire, Vec::new()), source)
    }

    fn new(form: ReplyForm, source: Box<dyn ReplyBytes>) -> Self {
        ReplyStream {
            source,
            form,
            pieces: VecDeque::new(),
            broken: None,
            ended: false,
            keys: UsedKeys::default(),
        }
    }

    /// The same, with the keys that it was asked for: they are in nothing that is kept of it.
    pub(super) fn asked_with(self, keys: UsedKeys) -> Self {
        ReplyStream { keys, ..self }
    }

    /// The next piece; none when there are no more.
    pub async fn next(&mut self) -> Option<Delta> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Some(piece);
            }
            if self.ended {
                return None;
            }
            match self.source.next().await {
                Some(Ok(bytes)) => match &mut self.form {
                    ReplyForm::Events(assembler) => {
                        let pieces = &mut self.pieces;
                        assembler.watch(&bytes, |piece| pieces.push_back(piece));
                    }
                    ReplyForm::Body(_, whole) => whole.extend_from_slice(&bytes),
                },
                Some(Err(error)) => {
                    self.broken = Some(error);
                    self.ended = true;
                }
                None => self.ended = true,
            }
        }
    }

    /// The whole reply.
    pub async fn finish(mut self) -> Result<Reply, Broken> {
        while self.next().await.is_some() {}
        let mut reply = match self.form {
            ReplyForm::Events(assembler) => assembler.finish(),
            ReplyForm::Body(wire, whole) => {
                let Ok(body) = json::check_bytes(&whole) else {
                    let message = "the provider's answer is not JSON";
                    let error =
                        self.broken.unwrap_or_else(|| ProviderError::new(ErrorKind::Truncated, message));
                    return Err(Broken { error, partial: None });
                };
                Reply::from_body(wire, body)
            }
        };
        self.keys.hide_in(&mut reply);
        let error = match (self.broken, &reply.problem, reply.meta.status) {
            // A reply that was whole before the connection broke is whole.
            (_, None, Status::Complete) => return Ok(reply),
            (_, Some(problem), _) => ProviderError::reported(problem),
            (Some(broken), None, _) => broken,
            (None, None, _) => ProviderError::new(ErrorKind::Truncated, "the reply broke off before its end"),
        };
        let partial = Some(reply).filter(|reply| reply.raw.is_some());
        Err(Broken { error, partial })
    }

    /// The reply as far as it came before its reader left.
    pub fn cancel(self) -> Option<Reply> {
        match self.form {
            ReplyForm::Events(assembler) => {
                let mut reply = assembler.finish_cancelled();
                self.keys.hide_in(&mut reply);
                Some(reply).filter(|reply| reply.raw.is_some())
            }
            ReplyForm::Body(..) => None,
        }
    }
}

impl fmt::Debug for ReplyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}
