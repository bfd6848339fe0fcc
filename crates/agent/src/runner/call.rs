//! One request to a model, tried again where that does no harm.

use std::sync::Arc;
use std::time::Duration;

use scrollback_core::stream::Reply;
use scrollback_core::{Dropped, Epoch, Time, json};
use scrollback_store::{Sent, new_evaluation};
use serde::Serialize;
use serde_json::value::RawValue;

use super::error::{EvaluationError, Phase};
use super::evaluation::Evaluation;
use super::limits::GiveUp;
use super::spans::Tried;
use super::spend::Spent;
use crate::effects::between;
use crate::event::{ReplyReceived, RequestSent, Throttled};
use crate::journal::{Rows, Viewed};
use crate::provider::{Broken, ErrorKind, Provider, ProviderError, Request};

/// A request that is ready to go out, and what is known about it.
pub(crate) struct Outgoing {
    /// The JSON text.
    pub(crate) body: Arc<str>,
    /// Messages in the record.
    pub(crate) original: usize,
    /// Messages of the view.
    pub(crate) curated: usize,
    /// Tokens of the view.
    pub(crate) tokens: usize,
    /// The view's epoch, where a sticky manager is at work.
    pub(crate) epoch: Option<Epoch>,
    /// What the view is made of.
    pub(crate) view: Vec<Shown>,
    /// What the view leaves out; only where somebody else keeps the record, who asks for it.
    pub(crate) left_out: Vec<Dropped>,
    /// Chain over the bytes of the messages.
    pub(crate) prefix_hash: [u8; 32],
    /// What had to be mended.
    pub(crate) repairs: Vec<String>,
}

/// One message of a view, as traces show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Shown {
    /// An entry of the record.
    Entry {
        /// Its position.
        index: u64,
        /// Whether it is sent otherwise than it was said.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        changed: bool,
    },
    /// One message that stands for turns of a sub-agent.
    Coalesced {
        /// The entries it stands for.
        coalesced: Vec<u64>,
        /// The strategy that left them out.
        strategy: &'static str,
    },
    /// Something that was never said.
    Synthetic {
        /// What it is: `summary`, `interrupted`, `prompt`.
        synthetic: &'static str,
    },
}

/// One attempt at a request, for whoever traces what models are sent.
#[derive(Clone, Debug, Serialize)]
pub struct Attempt<'a> {
    /// Which call of the evaluation it is, from 1.
    pub n: u32,
    /// Which attempt at it, from 1.
    pub attempt: u32,
    /// The body that was sent.
    pub request: &'a RawValue,
    /// What it shows of the record.
    pub view: &'a [Shown],
    /// The epoch's number, where a sticky manager is at work.
    pub epoch: Option<u64>,
    /// `ok`, or the kind of error.
    pub status: &'a str,
    /// What it used.
    pub usage: Option<&'a Spent>,
    /// What had to be mended before it could be sent.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub repairs: &'a [String],
}

/// A reply, and the row about it that is written with it.
pub(crate) struct Answered {
    pub(crate) reply: Reply,
    pub(crate) sent: Option<Sent>,
}

/// Why there is no reply.
pub(crate) struct Unanswered {
    pub(crate) error: EvaluationError,
    /// What the provider said, where it was asked.
    pub(crate) provider: Option<ProviderError>,
    /// What came of the reply before it broke off.
    pub(crate) partial: Option<Reply>,
}

impl From<EvaluationError> for Unanswered {
    fn from(error: EvaluationError) -> Self {
        Unanswered { error, provider: None, partial: None }
    }
}

/// How an attempt ended.
enum Ended {
    Reply(Box<Reply>),
    Broken(Broken),
    /// The time was up, or somebody asked to stop.
    Halted(EvaluationError, Option<Reply>),
}

/// Whether somebody has seen part of a reply, so that it cannot be taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Something,
}

impl Evaluation<'_> {
    /// Asks a model. Every attempt is a row of `sent` and a line of the trace; one reply comes of them all.
    pub(crate) async fn ask(
        &mut self,
        provider: &dyn Provider,
        outgoing: &Outgoing,
    ) -> Result<Answered, Unanswered> {
        self.asked += 1;
        let (mut attempt, mut waited) = (1, Duration::ZERO);
        loop {
            self.check_halt()?;
            if let Some(meter) = &self.runner.meter {
                meter.reserve(&provider.describe().model, outgoing.tokens)?;
            }
            let row = self.note_sent(provider, outgoing, attempt).await?;
            let began = self.now();
            let (ended, seen) = self.attempt(provider, outgoing, attempt).await;
            let (error, partial) = match ended {
                Ended::Reply(reply) => {
                    let spent = self.spend(provider, outgoing, Some(&reply));
                    self.trace(outgoing, attempt, "ok", Some(&spent));
                    let tried = Tried { began, reply: Some(&reply), spent: &spent, error: None };
                    self.tell_chat(provider, outgoing, &tried);
                    let row = row.map(|row| closed(row, "ok", Some(&reply), &spent, self.now()));
                    self.reported(attempt, outgoing);
                    return Ok(Answered { reply: *reply, sent: row });
                }
                Ended::Halted(error, partial) => {
                    let spent = self.spend(provider, outgoing, partial.as_ref());
                    self.trace(outgoing, attempt, &error.code, None);
                    let reply = partial.as_ref();
                    let tried = Tried { began, reply, spent: &spent, error: Some(&error.code) };
                    self.tell_chat(provider, outgoing, &tried);
                    self.close_sent(row, &error.code, partial.as_ref(), &spent).await?;
                    self.reported(attempt, outgoing);
                    return Err(Unanswered { error, provider: None, partial });
                }
                Ended::Broken(Broken { error, partial }) => (error, partial),
            };
            let spent = match partial.as_ref().filter(|partial| partial.meta.usage.is_some()) {
                Some(partial) => self.spend(provider, outgoing, Some(partial)),
                None => self.unspent(provider, outgoing, partial.as_ref()),
            };
            self.trace(outgoing, attempt, error.kind.as_str(), None);
            let (reply, word) = (partial.as_ref(), error.kind.as_str());
            self.tell_chat(provider, outgoing, &Tried { began, reply, spent: &spent, error: Some(word) });
            self.close_sent(row, error.kind.as_str(), partial.as_ref(), &spent).await?;
            match self.wait(&error, seen, attempt, waited).await {
                Ok(delay) => waited += delay,
                Err(given_up) => {
                    self.reported(attempt, outgoing);
                    return Err(Unanswered { error: given_up, provider: Some(error), partial });
                }
            }
            attempt += 1;
        }
    }

    /// One attempt, from the first byte sent to the last received.
    async fn attempt(&self, provider: &dyn Provider, outgoing: &Outgoing, attempt: u32) -> (Ended, Seen) {
        let began = self.now();
        self.tell(&RequestSent {
            attempt,
            tokens: outgoing.tokens,
            prefix_hash: scrollback_store::hex(&outgoing.prefix_hash),
            epoch: outgoing.epoch,
        });
        let remaining = self.runner.deadline.map(|deadline| deadline.remaining(began));
        let request = Request {
            body: Arc::clone(&outgoing.body),
            delivery: self.runner.delivery,
            timeout: remaining.unwrap_or(self.runner.call_timeout).min(self.runner.call_timeout),
        };
        let mut seen = Seen::Nothing;
        let mut stream = match self.unless_halted(provider.call(request)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return (Ended::Broken(Broken { error, partial: None }), seen),
            Err(halt) => return (Ended::Halted(halt, None), seen),
        };
        let mut first = None;
        loop {
            match self.unless_halted(stream.next()).await {
                Ok(Some(delta)) => {
                    first.get_or_insert_with(|| self.now());
                    if let Some(sink) = &self.runner.sink {
                        seen = Seen::Something;
                        sink(&delta);
                    }
                    if let Some(preview) = &self.runner.preview {
                        preview(&delta);
                    }
                }
                Ok(None) => break,
                Err(halt) => return (Ended::Halted(halt, stream.cancel()), seen),
            }
        }
        let ended = match stream.finish().await {
            Ok(reply) => Ended::Reply(Box::new(reply)),
            Err(broken) => Ended::Broken(broken),
        };
        let meta = match &ended {
            Ended::Reply(reply) => Some(&reply.meta),
            Ended::Broken(broken) => broken.partial.as_ref().map(|partial| &partial.meta),
            Ended::Halted(..) => None,
        };
        let milliseconds = |until: Time| between(began, until).as_millis() as u64;
        self.tell(&ReplyReceived {
            attempt,
            usage: meta.and_then(|meta| meta.usage.clone()),
            stop: meta.and_then(|meta| meta.stop.clone()),
            milliseconds: milliseconds(self.now()),
            first_byte_milliseconds: first.map(milliseconds),
        });
        (ended, seen)
    }

    /// Waits before the next attempt; otherwise why there is none.
    async fn wait(
        &self,
        error: &ProviderError,
        seen: Seen,
        attempt: u32,
        waited: Duration,
    ) -> Result<Duration, EvaluationError> {
        let broke_unseen = error.kind == ErrorKind::Truncated && seen == Seen::Nothing;
        if !error.kind.is_retry_safe() && !broke_unseen {
            return Err(EvaluationError::from(error));
        }
        let gave_up = |code: &str, why: String| {
            let message = format!("{why}; the last answer: {error}");
            EvaluationError::new(Phase::Request, code, message).because(error.kind)
        };
        let chance = self.runner.random.fraction();
        let delay = self.runner.throttle.delay(attempt, waited, error.retry_after, chance);
        let delay = delay.map_err(|why| match why {
            GiveUp::Attempts(count) => {
                let attempts = if count == 1 { "1 attempt".into() } else { format!("{count} attempts") };
                gave_up("attempts_exhausted", format!("gave up after {attempts}"))
            }
            GiveUp::Time(delay) => {
                gave_up("retry_time_exhausted", format!("waiting {} more would take too long", shown(delay)))
            }
        })?;
        let remaining = self.runner.deadline.map(|deadline| deadline.remaining(self.now()));
        if remaining.is_some_and(|remaining| remaining <= delay) {
            let why = format!("the deadline comes before the next attempt, in {}", shown(delay));
            return Err(gave_up("deadline_before_retry", why));
        }
        self.tell(&Throttled {
            attempt,
            kind: error.kind.as_str(),
            delay: delay.as_millis() as u64,
            retry_after: error.retry_after.map(|time| time.as_millis() as u64),
        });
        self.unless_halted(self.runner.clock.sleep(delay)).await?;
        Ok(delay)
    }

    /// Adds what a request used to what the evaluation used.
    fn spend(&mut self, provider: &dyn Provider, outgoing: &Outgoing, reply: Option<&Reply>) -> Spent {
        let usage = reply.and_then(|reply| reply.meta.usage.as_ref());
        let reported = usage.is_some_and(|usage| usage.output.is_some());
        let guess = reply.and_then(|reply| reply.raw.as_deref()).filter(|_| !reported).map_or(0, |raw| {
            // What nobody reported is estimated by the text, its JSON included.
            self.cx.counter.tokenizer.count(raw)
        });
        let prices = self.runner.prices_of(&provider.describe().model);
        let spent = Spent::reported(usage, (outgoing.tokens, guess), prices);
        self.spent.add(&spent);
        self.settle(&spent);
        spent
    }

    /// What a request that broke off without a word about its usage is charged: nothing, unless somebody keeps count
    /// of every attempt.
    fn unspent(&mut self, provider: &dyn Provider, outgoing: &Outgoing, partial: Option<&Reply>) -> Spent {
        match partial {
            Some(partial) if self.runner.meter.is_some() => self.spend(provider, outgoing, Some(partial)),
            _ => {
                self.settle(&Spent::default());
                Spent::default()
            }
        }
    }

    fn settle(&self, spent: &Spent) {
        if let Some(meter) = &self.runner.meter {
            meter.settle(spent);
        }
    }

    fn trace(&self, outgoing: &Outgoing, attempt: u32, status: &str, usage: Option<&Spent>) {
        let Some(trace) = &self.runner.trace else { return };
        let Ok(body) = json::check(&outgoing.body) else { return };
        let Ok(request) = RawValue::from_string(json::one_line(body).into_owned()) else { return };
        trace(&Attempt {
            n: self.asked,
            attempt,
            request: &request,
            view: &outgoing.view,
            epoch: outgoing.epoch.map(|epoch| epoch.id),
            status,
            usage,
            repairs: &outgoing.repairs,
        });
    }

    /// Writes down that a request goes out, before it does.
    async fn note_sent(
        &mut self,
        provider: &dyn Provider,
        outgoing: &Outgoing,
        attempt: u32,
    ) -> Result<Option<Sent>, EvaluationError> {
        let Some(conversation) = self.journal.conversation().cloned() else { return Ok(None) };
        let info = provider.describe();
        let sent = Sent {
            id: new_evaluation().to_string(),
            conversation,
            run: self.run.as_ref().map(|run| run.id.clone()),
            step: None,
            evaluation: Some(self.id),
            upto: self.journal.record().len() as u64,
            managers: self.runner.manager.config().to_string(),
            wire: info.wire.name().into(),
            model: info.model.to_string(),
            epoch: outgoing.epoch.map(|epoch| epoch.id),
            prefix_hash: Some(outgoing.prefix_hash.to_vec()),
            request: Some(outgoing.body.as_bytes().to_vec()),
            response: None,
            status: "sent".into(),
            attempt: attempt.into(),
            usage: None,
            started_at: self.now(),
            ended_at: None,
            tokens: None,
            factor: None,
            holder: None,
        };
        let view = self.journal.is_elsewhere().then(|| Viewed {
            shown: outgoing.view.clone(),
            left_out: outgoing.left_out.clone(),
            tokens: outgoing.tokens,
        });
        let rows = Rows { sent: vec![sent.clone()], view, ..Rows::default() };
        self.journal.write(Vec::new(), rows, self.now()).await?;
        Ok(Some(sent))
    }

    /// Writes down how a request ended that no entry comes of.
    async fn close_sent(
        &mut self,
        row: Option<Sent>,
        status: &str,
        partial: Option<&Reply>,
        spent: &Spent,
    ) -> Result<(), EvaluationError> {
        let Some(row) = row else { return Ok(()) };
        let row = closed(row, status, partial, spent, self.now());
        self.journal.write(Vec::new(), Rows { sent: vec![row], ..Rows::default() }, self.now()).await?;
        Ok(())
    }
}

/// The row of a request that ended.
fn closed(mut row: Sent, status: &str, reply: Option<&Reply>, spent: &Spent, now: Time) -> Sent {
    row.status = status.into();
    row.response = reply.and_then(|reply| reply.raw.as_ref()).map(|raw| raw.as_bytes().to_vec());
    row.usage = serde_json::to_string(spent).ok();
    row.ended_at = Some(now);
    row
}

fn shown(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
