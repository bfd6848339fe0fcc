//! What a request used that is passed on without being understood: its reply is read for the provider's own count, and no more.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use bytes::Bytes;
use scrollback_agent::exchange::{AttemptUsage, Prices};
use scrollback_core::Usage;
use scrollback_core::json::{self, Raw};
use scrollback_core::model::{ModelName, Provider};

use super::background::in_turn;
use super::call_log::CallLog;
use crate::App;
use crate::auth::ApiCaller;
use crate::problem::HttpProblem;
use crate::quota;

/// Bytes at the beginning and at the end of a reply that are kept: the count stands at either.
const KEPT: usize = 64 << 10;
/// Longest count that is read.
const LONGEST: usize = 4 << 10;
/// Paths whose replies are texts, which count if the provider says nothing.
const WRITES: &str = "/completions";
/// A path that costs nothing.
const FREE: &str = "/moderations";

/// What one request uses, added up while its reply passes.
pub(super) struct PassedUsage {
    app: App,
    caller: ApiCaller,
    log: Option<Arc<CallLog>>,
    prices: Prices,
    /// Tokens of the request, as far as can be told from its size.
    asked: u64,
    writes: bool,
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
    events: u64,
}

impl PassedUsage {
    /// Of a request; none if it does not make a provider work.
    pub(super) async fn of(
        app: &App,
        caller: &ApiCaller,
        log: Option<Arc<CallLog>>,
        provider: Provider,
        asked: (&Method, &str, &Bytes),
    ) -> Result<Option<Self>, HttpProblem> {
        let (method, path, body) = asked;
        if *method != Method::POST || path == FREE || path.starts_with("/responses/") {
            return Ok(None);
        }
        let text = body.clone();
        let named = move || {
            let raw = json::check_bytes(&text).ok()?;
            Some(raw.get("model").and_then(Raw::string).map(std::borrow::Cow::into_owned))
        };
        let in_body = in_turn(&app.heavy_turns, &caller.tenant, body.len(), named).await?;
        // What is no JSON is a file: sounds and pictures have many bytes for a token.
        let asked = body.len() as u64 / if in_body.is_some() { 4 } else { 1024 };
        let in_path =
            path.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(name, _)| name.to_string());
        let named = in_body.flatten().or(in_path).unwrap_or_default();
        let model = ModelName::parse(&format!("{}:{named}", provider.name())).ok();
        let prices = model.map(|model| app.catalog.prices(&model)).unwrap_or_default();
        if let Some(log) = &log {
            log.note(|facts| facts.model = Some(named.clone()).filter(|name| !name.is_empty()));
        }
        Ok(Some(PassedUsage {
            app: app.clone(),
            caller: caller.clone(),
            log,
            prices,
            asked,
            writes: path == WRITES,
            head: Vec::new(),
            tail: Vec::new(),
            bytes: 0,
            events: 0,
        }))
    }

    /// An error if the key is limited in dollars and this request's cannot be counted.
    pub(super) fn has_price(&self) -> Result<(), HttpProblem> {
        let limits = self.caller.key.as_deref().map(|key| &key.limits);
        if limits.is_none_or(|limits| limits.microdollars_per_day.is_none()) || self.prices.input.is_some() {
            return Ok(());
        }
        let detail = "the key is limited in dollars, and the price of this request is not known: give the model a price in the \
                      configuration, or use a key without that limit";
        Err(HttpProblem::new(StatusCode::FORBIDDEN, "no_price", detail))
    }

    /// Reads a piece of the reply.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let event = |line: &&[u8]| line.starts_with(b"data:");
        self.events += bytes.split(|byte| *byte == b'\n').filter(event).count() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest.get(rest.len().saturating_sub(KEPT)..).unwrap_or_default());
        if self.tail.len() > 2 * KEPT {
            self.tail.drain(..self.tail.len() - KEPT);
        }
    }

    /// Counts what was used, however the reply ended.
    pub(super) async fn charge(self) {
        let reported = [&self.tail, &self.head].into_iter().find_map(|part| reported(part));
        let wrote = match self.events {
            _ if !self.writes => 0,
            0 => self.bytes / 4,
            events => events,
        };
        let guess = (self.asked as usize, wrote as usize);
        let spent = AttemptUsage::reported(reported.as_ref(), guess, self.prices);
        if let Some(log) = &self.log {
            log.note(|facts| {
                facts.tokens_in = Some(spent.input);
                facts.tokens_out = Some(spent.output);
                facts.cost_usd = spent.cost_usd;
            });
        }
        quota::charge(&self.app, &self.caller, spent.total(), spent.cost_usd).await;
    }
}

/// The last count that a part of a reply has.
fn reported(part: &[u8]) -> Option<Usage> {
    let text = String::from_utf8_lossy(part);
    ["\"usage\"", "\"usageMetadata\""].iter().find_map(|name| {
        text.rmatch_indices(name).find_map(|(at, name)| usage_at(text.get(at + name.len()..)?))
    })
}

/// The count after its name.
fn usage_at(text: &str) -> Option<Usage> {
    let object = text.trim_start().strip_prefix(':')?.trim_start();
    let mut depth = 0_usize;
    let end = object.bytes().take(LONGEST).position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    });
    let raw = json::check(object.get(..=end?)?).ok()?;
    let number = |names: &[&str]| names.iter().find_map(|name| raw.get(name)?.text().parse::<u64>().ok());
    let all = number(&["total_tokens", "totalTokenCount"]);
    let output = number(&["completion_tokens", "output_tokens", "candidatesTokenCount"]);
    let input = number(&["prompt_tokens", "input_tokens", "promptTokenCount"]);
    let input = input.or_else(|| Some(all?.saturating_sub(output.unwrap_or(0))))?;
    Some(Usage { input_uncached: Some(input), output: Some(output.unwrap_or(0)), ..Usage::default() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn counts_are_found_wherever_they_stand_and_not_in_texts() {
        let cases: [(&str, Option<(u64, u64)>); 7] = [
            (r#"{"data":[],"usage":{"prompt_tokens":8,"total_tokens":8}}"#, Some((8, 0))),
            (
                r#"{"usage" : {"input_tokens":3,"input_tokens_details":{"text_tokens":3},"output_tokens":40},"data":[]}"#,
                Some((3, 40)),
            ),
            (
                "data: {\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":5}}\n\ndata: [DONE]\n",
                Some((2, 5)),
            ),
            (r#"{"usageMetadata":{"totalTokenCount":9}}"#, Some((9, 0))),
            (r#"{"choices":[{"text":"\"usage\":{\"prompt_tokens\":1}"}]}"#, None),
            (r#"{"usage":{"prompt_tokens":"#, None),
            ("", None),
        ];
        for (text, wanted) in cases {
            let found = reported(text.as_bytes());
            assert_eq!(found.map(|usage| (usage.input().unwrap(), usage.output.unwrap())), wanted, "{text}");
        }
    }
}
