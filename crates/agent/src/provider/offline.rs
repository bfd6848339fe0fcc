//! Providers that need no network: they answer with Chat Completions events, through the same reader as all others.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use scrollback_core::json::{self, quote};
use scrollback_core::model::ModelName;
use scrollback_core::tokens::{OVERHEAD, Tokenizer, entry_tokens};
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{Entry, Role};

use super::error::{ErrorKind, Overflow, ProviderError};
use super::reply::{FinishedBytes, ReplyStream};
use super::script::{Says, Script, ScriptedCall};
use super::{ModelInfo, Provider, ReplyDelivery, Request};
use crate::document::DocumentProblem;
use crate::effects::BoxFuture;

/// Characters in one event of a streamed text.
const PIECE: usize = 8;

/// Answers with the text of the last user message.
#[derive(Clone, Debug)]
pub struct Echo {
    model: ModelName,
}

impl Echo {
    /// The provider of that name.
    pub fn new(model: ModelName) -> Self {
        Echo { model }
    }
}

impl Provider for Echo {
    fn describe(&self) -> ModelInfo {
        ModelInfo { model: self.model.clone(), wire: Wire::OpenaiChat }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<ReplyStream, ProviderError>> {
        let said = entries(&request.body);
        let last = said.iter().rfind(|entry| entry.role == Role::User);
        let text = last.and_then(Entry::content).unwrap_or_default();
        let reply = OfflineReply { text: Some(text), calls: Vec::new(), fail_after: None };
        let usage = reply.usage(&said);
        Box::pin(std::future::ready(reply.stream(request.delivery, usage)))
    }
}

/// Answers as a script says.
#[derive(Clone, Debug)]
pub struct Scripted {
    model: ModelName,
    script: Arc<Script>,
}

impl Scripted {
    /// A provider that reads out a script.
    pub fn new(model: ModelName, script: Arc<Script>) -> Self {
        Scripted { model, script }
    }

    /// A provider that reads out the script in a file.
    pub fn load(model: ModelName, file: &Path) -> Result<Self, Vec<DocumentProblem>> {
        Ok(Scripted { model, script: Script::load(file)? })
    }

    fn answer(&self, request: &Request) -> Result<ReplyStream, ProviderError> {
        let Some((number, answer)) = self.script.next() else {
            let message = "the script has no more answers; add one, or begin it with `- loop: true`";
            return Err(ProviderError::new(ErrorKind::ScriptExhausted, message));
        };
        if let Some(mismatch) = answer.expect.and_then(|expect| expect.mismatch(&request.body)) {
            let message = format!("answer {number}: {mismatch}");
            let mut error = ProviderError::new(ErrorKind::ScriptMismatch, message);
            error.raw = Some(request.body.to_string());
            return Err(error);
        }
        match answer.says {
            Says::Error { kind, message, retry_after } => {
                let kind = match kind {
                    ErrorKind::ContextOverflow(_) => ErrorKind::ContextOverflow(Overflow::stated(&message)),
                    other => other,
                };
                let mut error = ProviderError::new(kind, message);
                error.retry_after = retry_after;
                Err(error)
            }
            Says::Reply { text, calls, fail_after } => {
                let reply = OfflineReply { text, calls, fail_after };
                let usage = answer.usage.unwrap_or_else(|| reply.usage(&entries(&request.body)));
                reply.stream(request.delivery, usage)
            }
        }
    }
}

impl Provider for Scripted {
    fn describe(&self) -> ModelInfo {
        ModelInfo { model: self.model.clone(), wire: Wire::OpenaiChat }
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<ReplyStream, ProviderError>> {
        Box::pin(std::future::ready(self.answer(&request)))
    }
}

/// What a request says.
fn entries(body: &str) -> Vec<Entry> {
    let parsed =
        json::check(body).ok().and_then(|body| Wire::OpenaiChat.parse(body, &ParseOptions::default()).ok());
    parsed.map_or_else(Vec::new, |parsed| parsed.entries)
}

/// A reply before it is written down.
struct OfflineReply {
    text: Option<String>,
    calls: Vec<ScriptedCall>,
    fail_after: Option<usize>,
}

impl OfflineReply {
    /// Input and output tokens.
    fn usage(&self, said: &[Entry]) -> (u64, u64) {
        let tokenizer = Tokenizer::O200kBase;
        let input = OVERHEAD + said.iter().map(|entry| entry_tokens(tokenizer, entry)).sum::<usize>();
        let text = self.text.as_deref().map_or(0, |text| tokenizer.count(text));
        let calls =
            self.calls.iter().map(|call| tokenizer.count(&call.name) + tokenizer.count(&call.arguments));
        (input as u64, (text + calls.sum::<usize>()) as u64)
    }

    fn stream(&self, delivery: ReplyDelivery, usage: (u64, u64)) -> Result<ReplyStream, ProviderError> {
        match delivery {
            ReplyDelivery::Streamed => {
                let chunks = self.events(usage).into_iter().map(Bytes::from).collect();
                ReplyStream::events(Wire::OpenaiChat, Box::new(FinishedBytes { chunks }))
            }
            ReplyDelivery::Whole => {
                let chunks = [Bytes::from(self.body(usage))].into();
                Ok(ReplyStream::body(Wire::OpenaiChat, Box::new(FinishedBytes { chunks })))
            }
        }
    }

    /// The reply as events; those after the break are missing.
    fn events(&self, usage: (u64, u64)) -> Vec<String> {
        let event = |delta: &str, reason: &str| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"finish_reason\":{reason}}}]}}\n\n"
            )
        };
        let mut events = vec![event("\"role\":\"assistant\"", "null")];
        let letters: Vec<char> = self.text.as_deref().unwrap_or_default().chars().collect();
        let shown = self.fail_after.map_or(letters.len(), |count| count.min(letters.len()));
        if self.text.is_some() && shown == 0 {
            events.push(event("\"content\":\"\"", "null"));
        }
        for piece in letters.get(..shown).unwrap_or_default().chunks(PIECE) {
            let piece: String = piece.iter().collect();
            events.push(event(&format!("\"content\":{}", quote(&piece)), "null"));
        }
        if self.fail_after.is_some() {
            return events;
        }
        for (index, call) in self.calls.iter().enumerate() {
            let call = format!("\"index\":{index},{}", members(call));
            events.push(event(&format!("\"tool_calls\":[{{{call}}}]"), "null"));
        }
        events.push(event("", &quote(self.reason())));
        let (input, output) = usage;
        events.push(format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output}}}}}\n\n"
        ));
        events.push("data: [DONE]\n\n".into());
        events
    }

    fn body(&self, usage: (u64, u64)) -> String {
        let mut message = String::from("\"role\":\"assistant\",\"content\":");
        message.push_str(&self.text.as_deref().map_or_else(|| "null".into(), quote));
        if !self.calls.is_empty() {
            let calls: Vec<String> = self.calls.iter().map(|call| format!("{{{}}}", members(call))).collect();
            let _ = write!(message, ",\"tool_calls\":[{}]", calls.join(","));
        }
        let ((input, output), reason) = (usage, quote(self.reason()));
        let broken = if self.fail_after.is_some() { "{" } else { "" };
        format!(
            "{broken}{{\"choices\":[{{\"index\":0,\"message\":{{{message}}},\"finish_reason\":{reason}}}],\
             \"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{output}}}}}"
        )
    }

    fn reason(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }
}

/// The members of a call.
fn members(call: &ScriptedCall) -> String {
    let id = quote(call.id.as_deref().unwrap_or_default());
    let (name, arguments) = (quote(&call.name), quote(&call.arguments));
    format!("\"id\":{id},\"type\":\"function\",\"function\":{{\"name\":{name},\"arguments\":{arguments}}}")
}
