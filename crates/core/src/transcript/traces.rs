//! Traces: spans of model calls, by the conventions of `OpenInference` and of `OpenTelemetry` for generative AI.
//!
//! Each span has the whole prompt of its call. Spans whose prompt goes on from an earlier one are one conversation, which is the
//! longest prompt and what was answered; any other span begins a conversation of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::chat::{self, ChatMessage, Writing, call, compact, literal};
use super::values::{JsonAt, each_record, first_record, id_of};
use super::{FoundMessage, Source, Transcript, TranscriptError};
use crate::entry::{Meta, Time, Usage};
use crate::json::{self, JsonKind, Raw};

/// Keys under which a span's prompt begins.
const PROMPTS: [&str; 2] = ["llm.input_messages.", "gen_ai.input.messages"];
/// Keys one of which the outermost object of a trace has.
const OUTERMOST: [&str; 4] = ["spans", "resourceSpans", "span_attributes", "attributes"];

/// Whether the text has spans of model calls in it.
pub(crate) fn looks_like(text: &str) -> bool {
    PROMPTS.iter().any(|key| memchr::memmem::find(text.as_bytes(), key.as_bytes()).is_some())
        && first_record(text).is_some_and(|first| OUTERMOST.iter().any(|key| first.get(key).is_some()))
}

/// Reads the calls of every trace in the order in which they were made.
pub(crate) fn read(text: &str) -> Result<Transcript, TranscriptError> {
    let mut calls: Vec<SpanCall<'_>> = Vec::new();
    let mut transcript = each_record(text, |record, _| {
        record.object("a trace")?;
        spans(record, &mut calls);
        Ok(())
    })?;
    if calls.is_empty() {
        let problem = "no span of the trace has the messages of a model call".into();
        return Err(TranscriptError { line: 0, byte: 0, problem });
    }
    calls.sort_by(|one, other| one.began.cmp(&other.began));
    let mut threads: Vec<Thread<'_>> = Vec::new();
    for call in calls {
        let goes_on = |thread: &&mut Thread<'_>| {
            call.trace == thread.trace && !thread.prompt.is_empty() && call.prompt.starts_with(&thread.prompt)
        };
        match threads.iter_mut().rev().find(goes_on) {
            Some(thread) => thread.go_on(call),
            None => threads.push(Thread::begin(call)),
        }
    }
    for thread in threads {
        let id = thread.trace.clone();
        let mut conversation = chat::conversation(thread.messages(), &mut transcript.failed);
        conversation.id = id;
        transcript.conversations.push(conversation);
    }
    Ok(transcript)
}

/// One model call, as its span tells it.
struct SpanCall<'a> {
    record: JsonAt<'a>,
    span: Raw<'a>,
    trace: Option<String>,
    /// When it began, as it is written; times of one trace are written alike.
    began: String,
    prompt: Vec<String>,
    answer: Vec<String>,
    meta: Meta,
}

/// Calls that go on from each other.
struct Thread<'a> {
    trace: Option<String>,
    prompt: Vec<String>,
    last: SpanCall<'a>,
    /// What is known about replies, by their place in the prompt.
    metas: BTreeMap<usize, (Meta, Option<Time>)>,
}

impl<'a> Thread<'a> {
    fn begin(call: SpanCall<'a>) -> Self {
        let mut thread = Thread {
            trace: call.trace.clone(),
            prompt: call.prompt.clone(),
            last: call,
            metas: BTreeMap::new(),
        };
        thread.know();
        thread
    }

    fn go_on(&mut self, call: SpanCall<'a>) {
        self.prompt.clone_from(&call.prompt);
        self.last = call;
        self.know();
    }

    fn know(&mut self) {
        self.metas.insert(self.prompt.len(), (self.last.meta.clone(), Time::parse(&self.last.began)));
    }

    fn messages(self) -> Vec<ChatMessage<'a>> {
        let (record, span) = (self.last.record, self.last.span);
        let all = self.prompt.into_iter().chain(self.last.answer);
        let message = |(place, raw): (usize, String)| {
            let (meta, time) =
                self.metas.get(&place).cloned().map_or((None, None), |(meta, time)| (Some(meta), time));
            let source = Source { line: place + 1, id: None };
            let meta = meta.filter(|_| raw.starts_with("{\"role\":\"assistant\""));
            ChatMessage { found: FoundMessage { raw, source, time, meta }, record, from: span }
        };
        all.enumerate().map(message).collect()
    }
}

/// Finds the spans of model calls in a record, however deep they stand.
fn spans<'a>(record: JsonAt<'a>, calls: &mut Vec<SpanCall<'a>>) {
    let mut open = vec![record.raw];
    while let Some(value) = open.pop() {
        if value.kind() == JsonKind::Object {
            let named = value.get("span_attributes").or_else(|| value.get("attributes"));
            if let Some(call) = named.and_then(|attributes| call_of(record, value, attributes)) {
                calls.push(call);
            }
            for key in ["spans", "resourceSpans", "scopeSpans", "child_spans"] {
                open.extend(value.get(key).into_iter().flat_map(Raw::elements));
            }
        }
    }
}

fn call_of<'a>(record: JsonAt<'a>, span: Raw<'a>, attributes: Raw<'a>) -> Option<SpanCall<'a>> {
    let known = attributes_of(attributes);
    let (mut prompt, answer) = if known.contains_key("gen_ai.input.messages") {
        (semantic(&known, "gen_ai.input.messages"), semantic(&known, "gen_ai.output.messages"))
    } else {
        (numbered(&known, "llm.input_messages."), numbered(&known, "llm.output_messages."))
    };
    if prompt.is_empty() {
        return None;
    }
    if let Some(instructions) = known.get("gen_ai.system_instructions") {
        let text = json::check(instructions).map_or_else(|_| instructions.to_string(), texts_of);
        prompt.insert(0, Writing::new().text("role", "system").text("content", &text).end());
    }
    let text = |keys: &[&str]| keys.iter().find_map(|key| known.get(*key)).map(ToString::to_string);
    let number = |keys: &[&str]| text(keys).and_then(|text| text.parse::<u64>().ok());
    let cached =
        number(&["llm.token_count.prompt_details.cache_read", "gen_ai.usage.cache_read.input_tokens"]);
    let input = number(&["llm.token_count.prompt", "gen_ai.usage.input_tokens"]);
    let usage = Usage {
        input_uncached: input.map(|input| input.saturating_sub(cached.unwrap_or(0))),
        cache_read: cached,
        output: number(&["llm.token_count.completion", "gen_ai.usage.output_tokens"]),
        ..Usage::default()
    };
    let time = ["timestamp", "start_time", "startTimeUnixNano"].iter().find_map(|key| id_of(span.get(key)));
    let trace = ["trace_id", "traceId"].iter().find_map(|key| id_of(span.get(key)));
    Some(SpanCall {
        record,
        span,
        trace: trace.or_else(|| id_of(span.get("context").and_then(|context| context.get("trace_id")))),
        began: time.unwrap_or_default(),
        prompt,
        answer,
        meta: Meta {
            model_served: text(&["llm.model_name", "gen_ai.response.model", "gen_ai.request.model"]),
            usage: Some(usage),
            ..Meta::default()
        },
    })
}

/// The attributes of a span by name, as texts: of an object, or of a list of keys and typed values.
fn attributes_of(attributes: Raw<'_>) -> BTreeMap<String, Cow<'_, str>> {
    let text = |value: Raw<'_>| match value.kind() {
        JsonKind::String => value.string().map(Cow::into_owned).unwrap_or_default(),
        _ => value.text().to_string(),
    };
    if attributes.kind() == JsonKind::Object {
        return attributes
            .members()
            .map(|(key, value)| (key.into_owned(), Cow::Owned(text(value))))
            .collect();
    }
    let pair = |one: Raw<'_>| {
        let key = one.get("key")?.string()?.into_owned();
        let (_, value) = one.get("value")?.members().next()?;
        Some((key, Cow::Owned(text(value))))
    };
    attributes.elements().filter_map(pair).collect()
}

/// Messages that are spread over numbered attributes.
fn numbered(known: &BTreeMap<String, Cow<'_, str>>, start: &str) -> Vec<String> {
    let mut messages: BTreeMap<usize, BTreeMap<&str, &str>> = BTreeMap::new();
    for (key, value) in known {
        let Some((number, name)) = key.strip_prefix(start).and_then(|rest| rest.split_once(".message."))
        else {
            continue;
        };
        if let Ok(number) = number.parse() {
            messages.entry(number).or_default().insert(name, value);
        }
    }
    messages.values().map(|members| written(members)).collect()
}

fn written(members: &BTreeMap<&str, &str>) -> String {
    let role = match members.get("role").copied().unwrap_or("user") {
        "assistant" | "model" | "ai" => "assistant",
        "system" | "developer" => "system",
        // Some agents name results of tools so.
        "tool" if members.contains_key("tool_call_id") => "tool",
        _ => "user",
    };
    let parts = members
        .iter()
        .filter(|(key, _)| key.starts_with("contents.") && key.ends_with(".message_content.text"));
    let parts: Vec<&str> = parts.map(|(_, text)| *text).collect();
    let content = members.get("content").map_or_else(|| parts.join("\n"), ToString::to_string);
    let mut message = Writing::new().text("role", role);
    if let Some(id) = members.get("tool_call_id").filter(|_| role == "tool") {
        message = message.text("tool_call_id", id);
    }
    message = message.text("content", &content);
    let calls: Vec<String> = (0..)
        .map_while(|number| {
            let of =
                |name: &str| members.get(format!("tool_calls.{number}.tool_call.{name}").as_str()).copied();
            let name = of("function.name")?;
            let id = of("id").map_or_else(|| format!("call_{number}"), String::from);
            Some(call(&id, name, &literal(of("function.arguments").unwrap_or("{}"))))
        })
        .collect();
    if !calls.is_empty() {
        message = message.raw("tool_calls", &format!("[{}]", calls.join(",")));
    }
    message.end()
}

/// Messages that one attribute has as JSON, in parts.
fn semantic(known: &BTreeMap<String, Cow<'_, str>>, key: &str) -> Vec<String> {
    let Some(list) = known.get(key).and_then(|text| json::check(text).ok()) else { return Vec::new() };
    list.elements().flat_map(in_parts).collect()
}

/// The messages of one that has parts: results of tools are messages of their own.
fn in_parts(message: Raw<'_>) -> Vec<String> {
    let text = |value: Raw<'_>, key: &str| value.get(key).and_then(Raw::string).map(Cow::into_owned);
    let (mut said, mut calls, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for part in message.get("parts").into_iter().flat_map(Raw::elements) {
        let id = text(part, "id").unwrap_or_default();
        let value = |key: &str| match part.get(key) {
            Some(value) if value.kind() == JsonKind::String => value.text().to_string(),
            Some(value) => literal(&compact(value)),
            None => literal(""),
        };
        match text(part, "type").as_deref() {
            Some("tool_call") => {
                calls.push(call(&id, &text(part, "name").unwrap_or_default(), &value("arguments")));
            }
            Some("tool_call_response") => {
                let key = if part.get("response").is_some() { "response" } else { "result" };
                let result = Writing::new().text("role", "tool").text("tool_call_id", &id);
                results.push(result.raw("content", &value(key)).end());
            }
            _ => said.extend(text(part, "content")),
        }
    }
    if !results.is_empty() {
        return results;
    }
    let role = match text(message, "role").as_deref() {
        Some("assistant" | "model") => "assistant",
        Some("system") => "system",
        _ => "user",
    };
    let mut written = Writing::new().text("role", role).text("content", &said.join("\n"));
    if !calls.is_empty() {
        written = written.raw("tool_calls", &format!("[{}]", calls.join(",")));
    }
    vec![written.end()]
}

/// The texts of a list of parts.
fn texts_of(parts: Raw<'_>) -> String {
    let text = |part: Raw<'_>| {
        part.get("content").or_else(|| part.get("text")).and_then(Raw::string).map(Cow::into_owned)
    };
    parts.elements().filter_map(text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::entry::Role;

    const SPANS: &str = include_str!("../../../../corpus/transcript/traces/openinference.json");
    const OTLP: &str = include_str!("../../../../corpus/transcript/traces/genai.json");

    #[test]
    fn prompts_that_go_on_from_each_other_are_one_conversation() {
        assert!(looks_like(SPANS));
        let transcript = read(SPANS).unwrap();
        assert!(transcript.failed.is_empty(), "{:?}", transcript.failed);
        let lengths: Vec<usize> = transcript.conversations.iter().map(|one| one.entries.len()).collect();
        assert_eq!(lengths, [5, 2], "an agent's two calls, and a question beside them");
        let agent = &transcript.conversations[0];
        let roles: Vec<Role> = agent.entries.iter().map(|entry| entry.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
        assert_eq!(agent.entries[3].tool_call_id().as_deref(), Some("call_1"));
        let meta = agent.entries[4].meta.as_ref().unwrap();
        assert_eq!(
            (meta.model_served.as_deref(), meta.usage.as_ref().unwrap().input()),
            (Some("gpt-4o"), Some(90))
        );
        assert!(agent.entries[2].meta.is_some() && agent.entries[4].created_at.0 > 0);
    }

    #[test]
    fn the_conventions_of_opentelemetry_are_read_too() {
        assert!(looks_like(OTLP));
        let transcript = read(OTLP).unwrap();
        let entries = &transcript.conversations[0].entries;
        let roles: Vec<Role> = entries.iter().map(|entry| entry.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
        assert_eq!(entries[2].tool_calls().next().unwrap().arguments.as_str(), r#"{"city":"Bonn"}"#);
        assert_eq!(entries[4].content().as_deref(), Some("It rains in Bonn."));
    }

    #[test]
    fn a_trace_without_model_calls_says_so() {
        let problem = read(r#"{"trace_id":"t","spans":[{"span_attributes":{"a":1}}]}"#).unwrap_err().problem;
        assert!(problem.contains("no span"), "{problem}");
    }
}
