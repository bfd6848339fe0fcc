//! The one path from a record to a provider and back.
//!
//! ```text
//! summaries → prepare (pure) → decisions and the call's row, durable → provider → reply → row completed with the reply
//!                 ▲                                                      │
//!                 └──────────── ladder: one decision ◀── too large ──────┘
//! ```
//!
//! The runner, the proxy, flows, sub-agents and summaries all ask their models through an [`Exchange`]. What differs between
//! them is small and is theirs: a [`Recorder`] says where things are written, a [`Caller`] where the reply goes, who may
//! cancel, and whether a failure is tried again.
//!
//! A request is made by [`scrollback_core::request::prepare`]. What it decided, and a row that says that the provider is
//! about to be asked, are durable before the request leaves; so no call can vanish, and another process sees the same cuts.

mod attempt;
mod builder;
mod calibrations;
mod call_row;
mod client_call;
mod lost_calls;
mod retry;
mod spans;
mod spend;
mod summaries;

use std::sync::Arc;
use std::time::Duration;

use scrollback_core::request::{Ladder, Policy, PrepareError, Prepared, RequestTokens, Stated};
use scrollback_core::stream::Reply;
use scrollback_core::{CurationContext, Record, Time, View};
use scrollback_store::{CallStatus, ConversationId, NewEntry, Sent, StoreError, Tenant, new_call};
use uuid::Uuid;

use crate::effects::BoxFuture;
use crate::event::{ContextTightened, RequestSent};
use crate::journal::{JournalRows, Viewed};
use crate::provider::{ErrorKind, Overflow, ProviderError};

pub(crate) use attempt::{Direct, Watch, WholeReply, direct};
pub use builder::{Composed, CuratedRequests, Make, RequestBuilder, Write};
pub use calibrations::Calibrations;
pub use client_call::send_on;
pub use lost_calls::mark_lost;
pub(crate) use retry::GiveUp;
pub use retry::Throttle;
pub use spans::chat_span;
pub(crate) use spans::said_in;
pub use spend::{AttemptUsage, Prices};
pub use summaries::{SummaryOutcome, SummaryText, next_summary, serve_summary, summary_instructions};

/// Where an exchange writes what it does.
pub trait Recorder: Send {
    /// Everything that was said so far.
    fn record(&self) -> &Record;

    /// The conversation; none for a record in memory.
    fn conversation(&self) -> Option<&ConversationId>;

    /// Whose data it is.
    fn tenant(&self) -> Tenant;

    /// Looks at the record. A recorder that serves others on its thread may do it elsewhere where there is much to look at.
    fn look<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Record) -> T + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>>;

    /// Writes entries and rows at once, durably where there is a store, and then takes the entries into the record.
    fn write(
        &mut self,
        entries: Vec<NewEntry>,
        rows: JournalRows,
        at: Time,
    ) -> BoxFuture<'_, Result<Vec<u64>, StoreError>>;
}

/// What is known about one attempt while it is under way.
#[derive(Clone, Debug)]
pub struct OpenCall {
    /// What it is found by.
    pub id: String,
    /// Its row, as it was written before the provider was asked; none for a record in memory.
    pub row: Option<Sent>,
    /// Which attempt at its request it is, from 1.
    pub attempt: u32,
    /// When it began.
    pub began: Time,
}

/// How an attempt ended, for the row, the trace and the span about it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptEnd<'a> {
    /// How it ended.
    pub status: &'a CallStatus,
    /// The reply, whole or as far as it came.
    pub reply: Option<&'a Reply>,
    /// What it used.
    pub spent: &'a AttemptUsage,
    /// How long the first byte of the reply took, in milliseconds; none where that was not measured.
    pub first_byte_milliseconds: Option<u64>,
}

/// The result of one attempt.
#[allow(clippy::large_enum_variant, reason = "there is one per attempt, and it is taken apart at once")]
pub enum Attempted<C: Caller + ?Sized> {
    /// A reply.
    Replied(C::Reply),
    /// Something else, or nothing.
    Refused(C::Refusal),
    /// The caller stopped waiting; what had come by then.
    Stopped(C::Stop, Option<Box<Reply>>),
}

/// An answer that is not a reply.
pub trait Refusal: Send {
    /// What went wrong.
    fn error(&self) -> &ProviderError;

    /// What had come of a reply before it broke off.
    fn partial(&self) -> Option<&Reply>;

    /// The bytes that came instead of a reply, as they are kept: without keys.
    fn bytes(&self) -> Option<Vec<u8>> {
        None
    }
}

/// What differs between those who ask.
pub trait Caller: Send {
    /// A reply, or one whose beginning was seen.
    type Reply: Send;
    /// An answer that is not a reply.
    type Refusal: Refusal;
    /// Why the caller stops: its time is up, its client has left.
    type Stop: Send;

    /// What time it is.
    fn now(&self) -> Time;

    /// The model asked, as calls name it.
    fn model(&self) -> String;

    /// The rows' links to what the call is part of.
    fn part_of(&self) -> PartOf;

    /// An error if the caller has to stop.
    fn check(&self) -> Result<(), Self::Stop>;

    /// Asks once.
    fn attempt<'a>(
        &'a mut self,
        prepared: &'a Prepared,
        call: &'a OpenCall,
    ) -> BoxFuture<'a, Attempted<Self>>;

    /// Waits before a failed request is tried again; an error where it is not. By default nothing is tried again: the
    /// client that sent the request decides.
    fn again<'a>(
        &'a mut self,
        refusal: &'a Self::Refusal,
        attempt: u32,
        waited: Duration,
    ) -> BoxFuture<'a, Result<Duration, GivesUp<Self::Stop>>> {
        let _ = (refusal, attempt, waited);
        Box::pin(std::future::ready(Err(GivesUp::Refused)))
    }

    /// Whether the tokens of a request that is sent as it came are wanted before it goes out; otherwise they are counted while
    /// its provider works.
    fn wants_tokens(&self) -> bool {
        true
    }

    /// Asks for room for a request of so many tokens; an error if there is none.
    fn reserve(&mut self, prepared: &Prepared) -> Result<(), Self::Stop> {
        let _ = prepared;
        Ok(())
    }

    /// What an attempt used, charged where the caller keeps accounts.
    fn spend(&mut self, prepared: &Prepared, reply: Option<&Reply>, failed: bool) -> AttemptUsage;

    /// The word under which a call is kept that the caller stopped.
    fn status_of(&self, stop: &Self::Stop) -> CallStatus;

    /// Hears what happens.
    fn tell(&self, told: &ExchangeEvent<'_>);

    /// Hears how an attempt ended: for traces and spans.
    fn ended(&mut self, prepared: &Prepared, call: &OpenCall, ended: &AttemptEnd<'_>);
}

/// Why a failed request is not tried again.
pub enum GivesUp<S> {
    /// It would not help; the refusal is the answer.
    Refused,
    /// The caller says why in its own words.
    Because(S),
}

/// What a call is part of.
#[derive(Clone, Debug, Default)]
pub struct PartOf {
    /// The evaluation.
    pub evaluation: Option<Uuid>,
    /// The run.
    pub run: Option<String>,
    /// Which process asks, so that calls of one that died are found.
    pub holder: Option<String>,
    /// Whether to report what the request shows: set when the caller stores the record itself.
    pub wants_view: bool,
}

/// What is told while an exchange is under way.
pub enum ExchangeEvent<'a> {
    /// A request was prepared.
    Prepared(&'a Prepared),
    /// It goes out.
    Sent(&'a RequestSent),
    /// It was too large, and the next is smaller.
    Tightened(&'a ContextTightened),
}

/// Whether a request that is too large is made smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOverflow {
    /// The ladder is walked, step by step.
    #[default]
    Tighten,
    /// It fails: half of what is sent would say nothing about the whole, as with a text to be summarised.
    Fail,
}

/// A reply, and the call that it is the reply to. [`Exchange::finish`] completes it.
pub struct AnsweredCall<C: Caller> {
    /// The reply.
    pub reply: C::Reply,
    /// What was sent.
    pub prepared: Prepared,
    /// The call, still open.
    pub call: OpenCall,
}

/// Why there is no reply.
#[allow(clippy::large_enum_variant, reason = "there is one per request, and it is taken apart at once")]
pub enum Unanswered<C: Caller> {
    /// The store did not take what has to be durable first. Nothing was asked.
    Store(StoreError),
    /// No request could be made.
    Prepare(PrepareError),
    /// The provider answered something else.
    Refused(Box<RefusedCall<C>>),
    /// The caller stopped; what had come by then, and what was sent if anything was.
    Stopped(C::Stop, Option<Box<Reply>>),
}

/// An answer that is not a reply, and what it answers.
pub struct RefusedCall<C: Caller> {
    /// The answer.
    pub refusal: C::Refusal,
    /// What was sent.
    pub prepared: Prepared,
    /// The call, completed.
    pub call: OpenCall,
    /// Set where the request was too large and no step was left that would make it smaller.
    pub too_large: Option<Stated>,
    /// Why it was not tried again, in the caller's words.
    pub because: Option<C::Stop>,
}

impl<C: Caller> From<StoreError> for Unanswered<C> {
    fn from(error: StoreError) -> Self {
        Unanswered::Store(error)
    }
}

/// One request to a provider and its reply, from record to record.
pub struct Exchange<'x, R: Recorder, C: Caller> {
    /// Where things are written.
    pub recorder: &'x mut R,
    /// Who asks.
    pub caller: &'x mut C,
    /// How the request is curated, as its row says.
    pub policy: &'x Arc<Policy>,
    /// What views depend on beside the record.
    pub cx: &'x Arc<CurationContext>,
    /// What is done about a request that is too large.
    pub overflow: OnOverflow,
}

impl<R: Recorder, C: Caller> Exchange<'_, R, C> {
    /// Makes the request and asks, until there is a reply or nothing is left to try.
    pub async fn ask(&mut self, make: &Make) -> Result<AnsweredCall<C>, Unanswered<C>> {
        let mut ladder = Ladder::default();
        loop {
            self.caller.check().map_err(|stop| Unanswered::Stopped(stop, None))?;
            let (making, cx) = (Arc::clone(make), Arc::clone(self.cx));
            let prepared = match self.recorder.look(move |record| making.make(record, &cx)).await? {
                Ok(prepared) => prepared,
                Err(PrepareError::TooLarge { stated, tokens }) => {
                    // A finding of our own: smaller before the provider is asked.
                    if self.tighten(make, &mut ladder, stated, &tokens).await? {
                        continue;
                    }
                    return Err(Unanswered::Prepare(PrepareError::TooLarge { stated, tokens }));
                }
                Err(error) => return Err(Unanswered::Prepare(error)),
            };
            match self.ask_prepared(prepared).await {
                Err(Unanswered::Refused(mut refused)) => {
                    let Some(stated) = overflow_of(refused.refusal.error()) else {
                        return Err(Unanswered::Refused(refused));
                    };
                    let tokens = self.tokens_of(&refused.prepared);
                    if !self.tighten(make, &mut ladder, stated, &tokens).await? {
                        refused.too_large = Some(stated);
                        return Err(Unanswered::Refused(refused));
                    }
                }
                other => return other,
            }
        }
    }

    /// Asks with a request that is made already: first what it decided and its row are durable.
    pub async fn ask_prepared(&mut self, mut prepared: Prepared) -> Result<AnsweredCall<C>, Unanswered<C>> {
        if prepared.tokens.is_none() && self.caller.wants_tokens() {
            prepared.tokens = Some(count(self.recorder, self.cx).await?);
        }
        self.caller.tell(&ExchangeEvent::Prepared(&prepared));
        let (mut attempt, mut waited) = (1, Duration::ZERO);
        loop {
            self.caller.check().map_err(|stop| Unanswered::Stopped(stop, None))?;
            self.caller.reserve(&prepared).map_err(|stop| Unanswered::Stopped(stop, None))?;
            let call = self.open(&mut prepared, attempt).await?;
            self.caller.tell(&ExchangeEvent::Sent(&RequestSent {
                attempt,
                tokens: prepared.tokens.map_or(0, |tokens| tokens.total),
                prefix_hash: scrollback_store::hex(&prepared.prefix_hash),
                epoch: prepared.epoch,
            }));
            let attempted = if prepared.tokens.is_some() {
                self.caller.attempt(&prepared, &call).await
            } else {
                let asking = self.caller.attempt(&prepared, &call);
                let (attempted, tokens) = meanwhile(asking, count(self.recorder, self.cx)).await;
                prepared.tokens = Some(tokens?);
                attempted
            };
            let refusal = match attempted {
                Attempted::Replied(reply) => return Ok(AnsweredCall { reply, prepared, call }),
                Attempted::Stopped(stop, partial) => {
                    let spent = self.caller.spend(&prepared, partial.as_deref(), false);
                    let status = self.caller.status_of(&stop);
                    let ended = AttemptEnd {
                        status: &status,
                        reply: partial.as_deref(),
                        spent: &spent,
                        first_byte_milliseconds: None,
                    };
                    self.close(&prepared, &call, &ended, None).await?;
                    return Err(Unanswered::Stopped(stop, partial));
                }
                Attempted::Refused(refusal) => refusal,
            };
            let spent = self.caller.spend(&prepared, refusal.partial(), true);
            let status = CallStatus::failed(refusal.error().kind.as_str());
            let ended = AttemptEnd {
                status: &status,
                reply: refusal.partial(),
                spent: &spent,
                first_byte_milliseconds: None,
            };
            self.close(&prepared, &call, &ended, refusal.bytes()).await?;
            match self.caller.again(&refusal, attempt, waited).await {
                Ok(delay) => waited += delay,
                Err(why) => {
                    let because = match why {
                        GivesUp::Refused => None,
                        GivesUp::Because(stop) => Some(stop),
                    };
                    let refused = RefusedCall { refusal, prepared, call, too_large: None, because };
                    return Err(Unanswered::Refused(Box::new(refused)));
                }
            }
            attempt += 1;
        }
    }

    /// What a reply completes: the account, the trace, the span. The row comes back, to be written with the reply.
    pub fn finish(
        &mut self,
        prepared: &Prepared,
        call: OpenCall,
        ended: &AttemptEnd<'_>,
        response: Option<Vec<u8>>,
    ) -> Option<Sent> {
        self.caller.ended(prepared, &call, ended);
        let now = self.caller.now();
        call.row.map(|row| call_row::closed(row, prepared, ended, response, now))
    }

    /// Takes the next step of the ladder and records it; whether there was one.
    async fn tighten(
        &mut self,
        make: &Make,
        ladder: &mut Ladder,
        stated: Stated,
        tokens: &RequestTokens,
    ) -> Result<bool, Unanswered<C>> {
        if self.overflow == OnOverflow::Fail {
            return Ok(false);
        }
        let (making, cx, mut steps, size) = (Arc::clone(make), Arc::clone(self.cx), *ladder, tokens.total);
        let found = self.recorder.look(move |record| {
            let found = making.smaller(&mut steps, record, &cx, stated, size);
            (steps, found)
        });
        let (steps, found) = found.await?;
        *ladder = steps;
        let Some((step, decision)) = found else { return Ok(false) };
        let now = self.caller.now();
        self.recorder.write(vec![decision.into()], JournalRows::default(), now).await?;
        let (making, cx) = (Arc::clone(make), Arc::clone(self.cx));
        let after = self.recorder.look(move |record| making.tokens(record, &cx)).await?;
        self.caller.tell(&ExchangeEvent::Tightened(&ContextTightened {
            step: step.as_str(),
            limit: stated.limit,
            before: tokens.total,
            after,
        }));
        Ok(true)
    }

    /// The tokens of a request, counted now if they were not.
    fn tokens_of(&self, prepared: &Prepared) -> RequestTokens {
        prepared
            .tokens
            .unwrap_or_else(|| RequestTokens::of(&View::of(self.recorder.record(), self.cx), self.cx))
    }

    /// Makes durable what was decided and that the provider is about to be asked.
    async fn open(&mut self, prepared: &mut Prepared, attempt: u32) -> Result<OpenCall, Unanswered<C>> {
        let began = self.caller.now();
        let id = new_call(began).to_string();
        let decisions: Vec<NewEntry> =
            std::mem::take(&mut prepared.decisions).into_iter().map(NewEntry::from).collect();
        let Some(conversation) = self.recorder.conversation().cloned() else {
            if !decisions.is_empty() {
                self.recorder.write(decisions, JournalRows::default(), began).await?;
            }
            return Ok(OpenCall { id, row: None, attempt, began });
        };
        let part_of = self.caller.part_of();
        let view = part_of.wants_view.then(|| Viewed {
            shown: prepared.shown.clone(),
            left_out: prepared.left_out.clone(),
            tokens: prepared.tokens.unwrap_or_default(),
        });
        let upto = (self.recorder.record().len() + decisions.len()) as u64;
        let row = call_row::opened(call_row::Opening {
            id: id.clone(),
            conversation,
            part_of,
            upto,
            managers: &self.policy.written,
            wire: self.cx.wire.map_or("", |wire| wire.name()),
            model: self.caller.model(),
            prepared,
            attempt,
            at: began,
        });
        let template = prepared.template.clone().filter(|_| row.request.is_none());
        let rows = JournalRows { sent: vec![row.clone()], template, view, ..JournalRows::default() };
        self.recorder.write(decisions, rows, began).await?;
        Ok(OpenCall { id, row: Some(Sent { request: None, ..row }), attempt, began })
    }

    /// Records how an attempt without a reply ended.
    async fn close(
        &mut self,
        prepared: &Prepared,
        call: &OpenCall,
        ended: &AttemptEnd<'_>,
        response: Option<Vec<u8>>,
    ) -> Result<(), Unanswered<C>> {
        let row = self.finish(prepared, call.clone(), ended, response);
        if let Some(row) = row {
            let now = self.caller.now();
            self.recorder
                .write(Vec::new(), JournalRows { sent: vec![row], ..JournalRows::default() }, now)
                .await?;
        }
        Ok(())
    }
}

/// Tokens of a request that shows everything.
async fn count<R: Recorder>(
    recorder: &mut R,
    cx: &Arc<CurationContext>,
) -> Result<RequestTokens, StoreError> {
    let cx = Arc::clone(cx);
    recorder.look(move |record| RequestTokens::of(&View::of(record, &cx), &cx)).await
}

/// Waits for something, and does work of its own once every task that the asking woke has had a turn: the one that writes the
/// request to its connection is among them.
async fn meanwhile<T, W>(waiting: impl Future<Output = T>, work: impl Future<Output = W>) -> (T, W) {
    let working = async {
        tokio::task::yield_now().await;
        work.await
    };
    tokio::join!(waiting, working)
}

/// The sizes a provider stated, if a request was too large for it.
pub fn overflow_of(error: &ProviderError) -> Option<Stated> {
    match error.kind {
        ErrorKind::ContextOverflow(Overflow { limit, size }) => Some(Stated { limit, size }),
        _ => None,
    }
}
