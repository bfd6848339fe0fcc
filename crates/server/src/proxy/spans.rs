//! What a collector is told about a call: one span for every attempt.

use scrollback_agent::runner::Spent;
use scrollback_agent::telemetry::{Chat, Place, Sampled, SpanId, names};
use scrollback_core::Time;
use scrollback_core::stream::Reply;
use uuid::Uuid;

use super::asked::{Asked, header};
use super::call::Call;
use super::record::Recorded;
use super::view::Outgoing;

/// What an attempt came to.
#[derive(Default)]
pub(super) struct Tried<'a> {
    /// What is kept about it under `status`: `ok`, or how it failed.
    pub(super) word: &'a str,
    pub(super) reply: Option<&'a Reply>,
    pub(super) spent: Option<&'a Spent>,
}

impl Call {
    /// Tells of an attempt. Nothing waits for it, and what was said is looked through on a thread of its own.
    pub(super) fn tell_span(
        &self,
        asked: &Asked,
        recorded: Option<&Recorded>,
        outgoing: &Outgoing,
        tried: &Tried<'_>,
    ) {
        let telemetry = self.app.telemetry();
        if !telemetry.is_on() {
            return;
        }
        let place = match header(&self.headers, "traceparent").and_then(Place::of_traceparent) {
            Some((_, Sampled::No)) => return,
            Some((place, Sampled::Yes)) => place,
            None => telemetry.place(Uuid::parse_str(&self.id).unwrap_or_default(), SpanId::random()),
        };
        let now = self.app.now();
        let began = Time(now.0 - self.began.elapsed().as_millis() as i64);
        let chat = Chat {
            place,
            // An attempt begins where the one before it ended.
            time: (self.ended.last().and_then(|sent| sent.ended_at).unwrap_or(began), now),
            provider: self.provider(),
            model: &asked.named,
            conversation: recorded.map_or(&self.id, |recorded| recorded.conversation.as_str()),
            reply: tried.reply.map(|reply| &reply.meta),
            spent: tried.spent,
            error: Some(tried.word).filter(|word| *word != "ok"),
        };
        let mut span = chat.span();
        span.say(names::CALL, &self.id);
        span.say(names::TENANT, self.caller.tenant.as_str());
        if !telemetry.wants_content() {
            return telemetry.tell(|_| span);
        }
        let (telemetry, said) = (telemetry.clone(), outgoing.said(asked).to_vec());
        let answered = tried.reply.and_then(|reply| reply.entry().ok());
        tokio::task::spawn_blocking(move || {
            telemetry.tell(|content| match content {
                Some(content) => span.with_messages(content, said.iter(), answered.as_ref()),
                None => span,
            });
        });
    }
}
