//! A conversation of our own, for those who look before they record: an agent with tools whose history is cut twice.
//!
//! It is recorded as the proxy would have recorded it: entries, a request for each reply, and cuts where the budget was
//! passed. Nothing in it is a provider's; its token counts are ours and marked so.

use std::sync::Arc;

use axum::response::{IntoResponse, Redirect, Response};
use scrollback_core::model::{ModelFacts, ModelName, facts};
use scrollback_core::tokens::entry_tokens;
use scrollback_core::wire::{Body, ParseOptions, Wire};
use scrollback_core::{CurationContext, Entry, Record, Role, Time, ViewItem, json, manager};
use scrollback_store::{ConversationId, Expected, NewConversation, Sent, Tenant, Tx, new_evaluation};

use super::viewer::Viewer;
use crate::usage::Spent;
use crate::{App, HttpProblem};

const MESSAGES: &str = include_str!("assets/sample.json");
const MODEL: &str = "openai:gpt-4o";
const MANAGERS: &str = "sticky(token_budget(4200), low=2400)";
/// The request around the messages.
const AROUND: &str = r#"{"model":"gpt-4o","temperature":0.2,"messages":[]}"#;
/// How long each entry took, so that the timeline reads like one.
const PACE: i64 = 4_200;

pub(crate) async fn load(viewer: Viewer) -> Response {
    let loaded = async {
        viewer.caller.may_write()?;
        record(&viewer.app, viewer.tenant()).await
    };
    match loaded.await {
        Ok(id) => Redirect::to(&format!("/lens/conversations/{id}")).into_response(),
        Err(problem) => viewer.answer(Err(problem)),
    }
}

/// Writes the sample in one commit, and returns its id.
pub(crate) async fn record(app: &App, tenant: &Tenant) -> Result<ConversationId, HttpProblem> {
    let (id, tx) = sample(tenant, app.now()).map_err(|error| {
        HttpProblem::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the sample cannot be read: {error}"),
        )
    })?;
    app.store.commit(tx).await?;
    Ok(id)
}

/// The sample as one commit: it ended just now.
fn sample(tenant: &Tenant, now: Time) -> Result<(ConversationId, Tx), Box<dyn std::error::Error>> {
    let parsed = Wire::OpenaiChat.parse(json::check(MESSAGES)?, &ParseOptions::default())?;
    let from = parsed.entries.iter().fold(now.0, |at, _| at - PACE);
    let id = ConversationId::new(now);
    let mut tx = Tx::new(tenant, now);
    tx.create(NewConversation {
        title: Some("Sample: a bicycle workshop's assistant".into()),
        ..NewConversation::new(id.clone())
    });
    let mut course = Course {
        tx,
        record: Record::new(),
        cx: CurationContext::for_model(ModelName::parse(MODEL).ok()),
        manager: manager::parse(MANAGERS)?,
        id: id.clone(),
        before: Vec::new(),
        epoch: 0,
        calls: 0,
    };
    let (mut evaluation, mut sequence) = (new_evaluation(), 0);
    for (number, entry) in (0..).zip(parsed.entries) {
        if entry.role == Role::User {
            (evaluation, sequence) = (new_evaluation(), 0);
        }
        let at = Time(from + number * PACE);
        if entry.role == Role::Assistant {
            course.call(&entry, at)?;
        }
        course.say(entry.stamped(evaluation, sequence, at))?;
        sequence += 1;
    }
    Ok((id, course.tx))
}

struct Course {
    tx: Tx,
    record: Record,
    cx: CurationContext,
    manager: Arc<dyn scrollback_core::HistoryManager>,
    id: ConversationId,
    before: Vec<ViewItem>,
    epoch: u64,
    calls: i64,
}

impl Course {
    fn say(&mut self, entry: Entry) -> Result<(), scrollback_core::AppendError> {
        let at = self.record.append(entry.clone())?;
        self.tx.append(&self.id, Expected::At(at), vec![entry.into()]);
        Ok(())
    }

    /// Writes down the call that a reply answered: first the cut, if one was due.
    fn call(&mut self, reply: &Entry, ended: Time) -> Result<(), Box<dyn std::error::Error>> {
        let view = self.record.view(&self.cx, self.manager.as_ref())?;
        let cut = view.cut().filter(|_| view.epoch().is_some_and(|epoch| epoch.id != self.epoch)).cloned();
        self.epoch = view.epoch().map_or(self.epoch, |epoch| epoch.id);
        let began = Time(ended.0 - PACE / 2);
        if let Some(cut) = cut {
            let at = self.record.decide(cut.clone(), began)?;
            self.tx.append(&self.id, Expected::At(at), vec![cut.into()]);
        }
        let view = self.record.view(&self.cx, self.manager.as_ref())?;
        let count = view.count(&self.cx);
        let items: Vec<ViewItem> = view.items().collect();
        let same =
            self.before.iter().zip(&items).take_while(|(one, other)| one.source == other.source).count();
        let shared: usize = count.per_entry.iter().take(same).sum();
        let around = Body::Object { raw: AROUND.into(), key: "messages" };
        let request = view.render(Wire::OpenaiChat, &self.cx).body(Wire::OpenaiChat, Some(&around));
        let spent = spent(&self.cx, count.total as u64, shared as u64, reply);
        self.calls += 1;
        self.tx.sent(Sent {
            id: new_evaluation().to_string(),
            conversation: self.id.clone(),
            run: None,
            step: None,
            evaluation: None,
            upto: self.record.len() as u64,
            managers: self.manager.config().to_string(),
            wire: Wire::OpenaiChat.name().into(),
            model: MODEL.into(),
            epoch: view.epoch().map(|epoch| epoch.id),
            prefix_hash: None,
            request: Some(request.into_bytes()),
            response: Some(reply.origin.raw.as_bytes().to_vec()),
            status: "ok".into(),
            attempt: 1,
            usage: serde_json::to_string(&spent).ok(),
            started_at: began,
            ended_at: Some(Time(began.0 + 700 + (self.calls * 337) % 900)),
            tokens: None,
            factor: None,
            holder: None,
        });
        self.before = items;
        Ok(())
    }
}

/// What a call like this would use, counted here.
fn spent(cx: &CurationContext, input: u64, shared: u64, reply: &Entry) -> Spent {
    let cached = if shared < 1_024 { 0 } else { shared / 128 * 128 };
    let output = entry_tokens(cx.counter.tokenizer, reply) as u64;
    let price = |prices: ModelFacts| {
        let read = prices.cache_read_per_mtok.or(prices.input_per_mtok)?;
        let sum = (input - cached) as f64 * prices.input_per_mtok?
            + cached as f64 * read
            + output as f64 * prices.output_per_mtok?;
        Some(sum / 1e6)
    };
    Spent {
        input,
        output,
        cache_read: cached,
        cost_usd: cx.model.as_ref().and_then(facts).and_then(price),
        estimated: true,
        ..Spent::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_sample_is_a_conversation_with_calls_and_cuts() {
        let (_, tx) = sample(&Tenant::default(), Time(1_800_000_000_000)).unwrap();
        let told = format!("{tx:?}");
        assert!(told.matches("Cut {").count() >= 2, "its history is cut more than once");
        assert!(told.matches("Sent(").count() >= 20, "every reply has its call");
    }
}
