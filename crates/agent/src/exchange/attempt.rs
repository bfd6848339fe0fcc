//! One attempt at a provider of our own, from the first byte sent to the last received.

use std::sync::Arc;

use scrollback_core::Time;
use scrollback_core::stream::{Delta, Reply};

use super::{Attempted, Caller, Refusal};
use crate::effects::{BoxFuture, between};
use crate::event::ReplyReceived;
use crate::provider::{Broken, Provider, ProviderError, Request};

/// A whole reply, and how long its first byte took.
pub(crate) struct WholeReply {
    pub(crate) reply: Box<Reply>,
    /// None if it came in one piece.
    pub(crate) first_byte_milliseconds: Option<u64>,
}

/// A reply that did not become whole, and whether the caller saw part of it.
pub(crate) struct Direct {
    pub(crate) broken: Broken,
    /// Whether pieces were handed out that cannot be taken back.
    pub(crate) seen: bool,
}

impl Refusal for Direct {
    fn error(&self) -> &ProviderError {
        &self.broken.error
    }

    fn partial(&self) -> Option<&Reply> {
        self.broken.partial.as_ref()
    }
}

/// What the caller of a provider watches while the reply comes.
pub(crate) trait Watch: Sync {
    /// Why it stops waiting.
    type Stop: Send;

    /// What time it is.
    fn now(&self) -> Time;

    /// Takes a piece; whether it was shown to a person or program, so that it cannot be taken back.
    fn piece(&self, delta: &Delta) -> bool;

    /// Work that is dropped when the caller has to stop.
    fn unless_stopped<'a, T: Send + 'a>(
        &'a self,
        work: BoxFuture<'a, T>,
    ) -> BoxFuture<'a, Result<T, Self::Stop>>;

    /// Hears of a reply, whole or not.
    fn received(&self, event: &ReplyReceived);
}

/// Asks a provider once.
pub(crate) async fn direct<C, W>(
    provider: &Arc<dyn Provider>,
    request: Request,
    attempt: u32,
    watch: &W,
) -> Attempted<C>
where
    C: Caller<Reply = WholeReply, Refusal = Direct, Stop = W::Stop>,
    W: Watch,
{
    let (began, mut seen, mut first) = (watch.now(), false, None);
    let mut stream = match watch.unless_stopped(provider.call(request)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return Attempted::Refused(Direct { broken: Broken { error, partial: None }, seen });
        }
        Err(stop) => return Attempted::Stopped(stop, None),
    };
    loop {
        match watch.unless_stopped(Box::pin(stream.next())).await {
            Ok(Some(delta)) => {
                first.get_or_insert_with(|| watch.now());
                seen |= watch.piece(&delta);
            }
            Ok(None) => break,
            Err(stop) => return Attempted::Stopped(stop, stream.cancel().map(Box::new)),
        }
    }
    let ended = stream.finish().await;
    let meta = match &ended {
        Ok(reply) => Some(&reply.meta),
        Err(broken) => broken.partial.as_ref().map(|partial| &partial.meta),
    };
    let milliseconds = |until: Time| between(began, until).as_millis() as u64;
    let first_byte_milliseconds = first.map(milliseconds);
    watch.received(&ReplyReceived {
        attempt,
        usage: meta.and_then(|meta| meta.usage.clone()),
        stop: meta.and_then(|meta| meta.stop.clone()),
        milliseconds: milliseconds(watch.now()),
        first_byte_milliseconds,
    });
    match ended {
        Ok(reply) => Attempted::Replied(WholeReply { reply: Box::new(reply), first_byte_milliseconds }),
        Err(broken) => Attempted::Refused(Direct { broken, seen }),
    }
}
