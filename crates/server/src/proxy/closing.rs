//! The end of a call: what came of it is written down, counted and told.

use std::time::Instant;

use bytes::Bytes;
use scrollback_agent::config::Recording;
use scrollback_agent::provider::{Overflow, ProviderError, without_secret};
use scrollback_agent::runner::Spent;
use scrollback_core::model::facts;
use scrollback_core::stream::Reply;
use scrollback_core::tokens::Tokenizer;
use scrollback_core::{Entry, Status, Time};
use scrollback_store::{Sent, hex};
use serde_json::{Value, json};

use super::asked::{Asked, Endpoint};
use super::call::{Call, STORE};
use super::record::{Recorded, store_is_slow};
use super::spans::Tried;
use super::tee::{Ended, How};
use super::upstreams::Answerer;
use super::view::Outgoing;
use crate::problem::Problem;
use crate::quota;

/// The word for a reply whose client went away.
pub(super) const TRUNCATED_CLIENT: &str = "truncated_client";

/// How an attempt ended.
pub(super) struct Outcome<'a> {
    status: &'a str,
    /// What came back, without keys.
    response: Option<Bytes>,
    spent: Option<&'a Spent>,
}

impl<'a> Outcome<'a> {
    /// An attempt that no reply came of.
    pub(super) fn failed(status: &'a str, response: Option<Bytes>) -> Self {
        Outcome { status, response, spent: None }
    }
}

impl Call {
    /// Writes the reply down, and what is known about the call.
    pub(super) async fn finish(
        mut self: Box<Self>,
        asked: &Asked,
        recorded: Option<Box<Recorded>>,
        outgoing: &Outgoing,
        ended: &Ended,
        request_id: Option<String>,
    ) -> Result<(), Problem> {
        let reply = &ended.reply;
        let spent = self.spent(asked, outgoing, reply);
        let word = match (&reply.problem, reply.meta.status) {
            (Some(problem), _) => ProviderError::told(problem).kind.as_str(),
            (None, Status::Complete) => "ok",
            (None, Status::TruncatedClient) => TRUNCATED_CLIENT,
            (None, _) => "truncated_upstream",
        };
        self.count(asked, word);
        self.log(asked, recorded.as_deref(), ended, word, &spent);
        let tried = Tried { word, reply: Some(reply), spent: Some(&spent) };
        self.tell_span(asked, recorded.as_deref(), outgoing, &tried);
        quota::charge(&self.app, &self.caller, spent.total(), spent.cost_usd).await;
        let Some(recorded) = recorded else { return Ok(()) };
        // A history made shorter is the client's; nobody said it.
        let said = asked.endpoint != Endpoint::Compact;
        let entry = said.then(|| reply.entry().ok()).flatten().map(|mut entry: Entry| {
            let meta = entry.meta.get_or_insert_default();
            meta.model_asked = Some(asked.named.clone());
            meta.provider = Some(self.provider().into());
            meta.request_id = request_id;
            entry
        });
        let response = Some(self.without_keys(ended.bytes.clone()));
        let id = reply.meta.response_id.clone().filter(|_| asked.endpoint == Endpoint::Responses);
        let outcome = Outcome { status: word, response, spent: Some(&spent) };
        self.close(asked, recorded, outgoing, outcome, entry, id).await
    }

    /// Records how the last attempt ended, the ones before it, and the reply if there is one.
    pub(super) async fn close(
        &mut self,
        asked: &Asked,
        recorded: Box<Recorded>,
        outgoing: &Outgoing,
        outcome: Outcome<'_>,
        reply: Option<Entry>,
        response: Option<String>,
    ) -> Result<(), Problem> {
        let row = self.sent(asked, &recorded, outgoing, outcome);
        let mut calls = std::mem::take(&mut self.ended);
        calls.push(row);
        let began = Instant::now();
        let finished = tokio::time::timeout(STORE, recorded.finish(&self.app, reply, calls, response)).await;
        self.app.metrics.time("scrollback_seconds", &[("part", "commit")], began.elapsed().as_secs_f64());
        let Err(problem) = finished.map_err(|_| store_is_slow()).and_then(|finished| Ok(finished?)) else {
            return Ok(());
        };
        self.app.metrics.add("scrollback_record_failures_total", &[("part", "reply")], 1.0);
        match self.app.settings.record {
            Recording::Required => Err(problem),
            Recording::BestEffort => {
                tracing::warn!(code = problem.code, "a reply was served without a record");
                Ok(())
            }
        }
    }

    pub(super) fn provider(&self) -> &'static str {
        match &self.answerer {
            Answerer::Echo => "offline",
            Answerer::Upstream(upstream, _) => upstream.provider().name(),
        }
    }

    /// Who is asked, as models are named.
    pub(super) fn model(&self, asked: &Asked) -> String {
        match (&self.answerer, &asked.model) {
            (Answerer::Echo, _) => "offline:echo".to_string(),
            (_, Some(model)) => model.to_string(),
            (_, None) => asked.named.clone(),
        }
    }

    /// What was used: as reported, else as counted here.
    fn spent(&self, asked: &Asked, outgoing: &Outgoing, reply: &Reply) -> Spent {
        let asked_of = asked.model.as_ref().filter(|_| !matches!(self.answerer, Answerer::Echo));
        let prices = asked_of.map(|model| self.app.catalog.prices(model)).unwrap_or_default();
        let usage = reply.meta.usage.as_ref();
        let guess = match (usage.and_then(|usage| usage.output), &reply.raw) {
            (None, Some(raw)) => Tokenizer::O200kBase.count(raw),
            _ => 0,
        };
        Spent::reported(usage, (outgoing.tokens(), guess), prices)
    }

    pub(super) fn count(&self, asked: &Asked, word: &str) {
        let labels = [("wire", asked.wire().name()), ("status", word)];
        self.app.metrics.add("scrollback_upstream_requests_total", &labels, 1.0);
        if word.starts_with("truncated") {
            self.app.metrics.add("scrollback_truncated_total", &[("side", word)], 1.0);
        }
    }

    fn log(&self, asked: &Asked, recorded: Option<&Recorded>, ended: &Ended, word: &str, spent: &Spent) {
        let (metrics, model) = (&self.app.metrics, counted_as(asked));
        for (kind, tokens) in
            [("input", spent.input), ("output", spent.output), ("cache_read", spent.cache_read)]
        {
            let labels = [("model", model), ("kind", kind)];
            metrics.add("scrollback_tokens_total", &labels, tokens as f64);
        }
        if let Some(cost) = spent.cost_usd {
            metrics.add("scrollback_cost_usd_total", &[("model", model)], cost);
        }
        let milliseconds = self.began.elapsed().as_millis() as u64;
        tracing::info!(
            gen_ai.operation.name = "chat",
            gen_ai.request.model = asked.named,
            gen_ai.provider.name = self.provider(),
            gen_ai.conversation.id = recorded.map(|recorded| recorded.conversation.as_str()),
            gen_ai.usage.input_tokens = spent.input,
            gen_ai.usage.output_tokens = spent.output,
            call = self.id,
            tenant = self.caller.tenant.as_str(),
            status = word,
            left = ended.how == How::Abandoned,
            milliseconds,
            "called"
        );
        let first = ended.first.map(|first| first.into_std().saturating_duration_since(self.began));
        self.tell("ReplyReceived", recorded, || {
            json!({
                "status": word, "model": asked.named, "usage": spent, "stop": ended.reply.meta.stop,
                "milliseconds": milliseconds, "first_byte_milliseconds": first.map(|first| first.as_millis() as u64),
            })
        });
    }

    /// Tells whoever listens that a request goes out, and what it shows.
    pub(super) fn tell_sent(&self, recorded: Option<&Recorded>, outgoing: &Outgoing) {
        let ((shown, all), (tokens, of)) = (outgoing.told.entries, outgoing.told.tokens.unwrap_or_default());
        self.tell("HistoryCurated", recorded, || {
            json!({
                "original_count": all, "curated_count": shown, "original_tokens": of, "curated_tokens": tokens,
                "by": outgoing.told.by,
            })
        });
        self.tell("RequestSent", recorded, || {
            json!({
                "attempt": self.ended.len() + 1, "tokens": outgoing.tokens(),
                "prefix_hash": hex(&outgoing.prefix_hash), "epoch": outgoing.epoch,
            })
        });
    }

    /// Tells whoever listens that a request was too large, and is made smaller.
    pub(super) fn tell_tightened(
        &self,
        recorded: &Recorded,
        overflow: Overflow,
        before: &Outgoing,
        after: &Outgoing,
    ) {
        self.tell("ContextTightened", Some(recorded), || {
            json!({ "step": "cut", "limit": overflow.limit, "before": before.tokens(), "after": after.tokens() })
        });
    }

    fn tell(&self, event: &'static str, recorded: Option<&Recorded>, more: impl FnOnce() -> Value) {
        self.app.events.tell(&self.caller.tenant, event, || {
            let mut told = json!({
                "event": event,
                "conversation": recorded.map(|recorded| recorded.conversation.as_str()),
                "position": recorded.map(|recorded| recorded.record().len()),
                "call": self.id,
                "created_at": self.app.now().to_string(),
            });
            if let (Some(members), Value::Object(more)) = (told.as_object_mut(), more()) {
                members.extend(more);
            }
            told
        });
    }

    /// Bytes without any key that this call was made with.
    pub(super) fn without_keys(&self, bytes: Bytes) -> Bytes {
        let bytes = match &self.answerer {
            Answerer::Upstream(upstream, _) => upstream.without_key(bytes),
            Answerer::Echo => bytes,
        };
        // What is no key at all may well be a word of the reply.
        let keys = crate::auth::presented(&self.headers).filter(|key| key.len() >= SHORTEST_KEY);
        keys.fold(bytes, without_secret)
    }

    /// The row about an attempt.
    pub(super) fn sent(
        &self,
        asked: &Asked,
        recorded: &Recorded,
        outgoing: &Outgoing,
        outcome: Outcome<'_>,
    ) -> Sent {
        let (now, took) = (self.app.now(), self.began.elapsed().as_millis() as i64);
        Sent {
            id: self.id.clone(),
            conversation: recorded.conversation.clone(),
            run: None,
            step: None,
            evaluation: Some(recorded.evaluation),
            upto: recorded.record().len() as u64,
            managers: outgoing.managers.to_string(),
            wire: asked.wire().name().into(),
            model: self.model(asked),
            epoch: outgoing.epoch,
            prefix_hash: Some(outgoing.prefix_hash.to_vec()),
            request: Some(outgoing.body.to_vec()),
            response: outcome.response.map(|bytes| bytes.to_vec()),
            status: outcome.status.into(),
            attempt: self.ended.len() as u64 + 1,
            usage: outcome.spent.and_then(|spent| serde_json::to_string(spent).ok()),
            started_at: Time(now.0 - took),
            ended_at: Some(now),
            tokens: None,
            factor: None,
            holder: None,
        }
    }
}

/// The name a model is counted under: clients may write anything, and every name that is counted is kept.
fn counted_as(asked: &Asked) -> &str {
    let known = asked.model.as_ref().is_some_and(|model| facts(model).is_some());
    if known { &asked.named } else { "other" }
}

/// Shortest text that is taken for a key in what a provider sends back.
const SHORTEST_KEY: usize = 12;
