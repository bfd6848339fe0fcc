//! `prepare`: from a record to the bytes of one request, end to end, with no part of it replaced by a fake.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod anchor;
mod cuts;
mod fit;
mod ladder;
mod marks;
mod plans;
mod properties;
mod replies;
mod standing;
mod tokens;
mod usage;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use proptest::prelude::*;
use scrollback_core::manager::Passthrough;
use scrollback_core::model::ModelName;
use scrollback_core::request::{CallerRequest, Carries, ClientBody, Policy, Prepared, Stamp, news};
use scrollback_core::wire::{Body, ParseOptions, Wire, list_key};
use scrollback_core::{CurationContext, Decision, Entry, Record, Role, Time, json, manager};
use serde_json::{Value, json};

const CLAUDE: &str = "anthropic:claude-sonnet-4-5";
const GPT: &str = "openai:gpt-4o";

fn model(name: &str) -> ModelName {
    ModelName::parse(name).unwrap()
}

/// A context for a model, and the wire its requests go out on.
fn context(name: &str, wire: Wire) -> CurationContext {
    CurationContext { wire: Some(wire), ..CurationContext::for_model(Some(model(name))) }
}

fn policy(text: &str) -> Policy {
    Policy::new(manager::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// A request of our own, for a model of the wire's provider, with nothing but the model and an output limit around it.
fn ours(wire: Wire, name: &str) -> CallerRequest {
    let short = model(name).model().to_string();
    let mut raw = match wire {
        Wire::Anthropic => json!({ "model": short, "max_tokens": 1000 }),
        Wire::OpenaiChat | Wire::OpenaiResponses => json!({ "model": short }),
        _ => json!({}),
    };
    raw[list_key(wire)] = json!([]);
    let around = Body::Object { raw: raw.to_string().into(), key: list_key(wire) };
    CallerRequest::ours(wire, model(name), None, around)
}

/// What a client's body says: its instructions, what follows them, and the request.
struct Client {
    instructions: Vec<Entry>,
    said: Vec<Entry>,
    asked: CallerRequest,
    tools: Option<scrollback_core::Tools>,
}

fn client(wire: Wire, name: &str, body: &str) -> Client {
    let parsed = wire.parse(json::check(body).unwrap(), &ParseOptions::default()).unwrap();
    let lead = parsed.entries.iter().take_while(|entry| entry.role == Role::System).count();
    let mut instructions = parsed.entries;
    let said = instructions.split_off(lead);
    let bytes = ClientBody::new(Bytes::from(body.to_string()), Carries::History);
    let asked =
        CallerRequest::of_client(wire, Some(model(name)), None, parsed.body, instructions.clone(), bytes);
    Client { instructions, said, asked, tools: parsed.tools }
}

impl Client {
    /// Records what the body says beyond the `known` entries that follow its instructions.
    fn record(&self, record: &mut Record, known: usize) {
        let stamp =
            Stamp { evaluation: uuid::Uuid::nil(), sequence: record.message_count() as u64, at: Time(1) };
        for slot in news(record, &self.instructions, &self.said[known..], stamp) {
            record.take(slot).unwrap();
        }
    }
}

/// Records decisions, as every caller does before it sends the body.
fn record_all(record: &mut Record, decisions: &[Decision]) {
    for decision in decisions {
        record.decide(decision.clone(), Time(2)).unwrap_or_else(|error| panic!("{decision:?}: {error}"));
    }
}

fn cuts(decisions: &[Decision]) -> bool {
    decisions.iter().any(|decision| matches!(decision, Decision::Cut { .. }))
}

/// The messages of a body, one line of JSON each.
fn messages_of(wire: Wire, body: &[u8]) -> Vec<String> {
    let raw = json::check_bytes(body).unwrap();
    let list = raw.get(list_key(wire)).unwrap();
    list.elements().map(|message| json::one_line(message).into_owned()).collect()
}

/// The same without cache marks. A text with a mark has to be a block, so every plain text is written as one.
fn unmarked(wire: Wire, prepared: &Prepared) -> Vec<String> {
    let messages = messages_of(wire, &prepared.body);
    if wire != Wire::Anthropic {
        return messages;
    }
    let bare = |message: String| {
        let mut message: Value = serde_json::from_str(&message).unwrap();
        if let Some(text) = message["content"].as_str() {
            message["content"] = json!([{ "type": "text", "text": text }]);
        }
        for block in message["content"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
        message.to_string()
    };
    messages.into_iter().map(bare).collect()
}

/// One step of an agent's session, with the lengths of what is said in it.
#[derive(Clone, Debug)]
enum Step {
    /// The user says something; an answer to what was said before comes first.
    Ask(usize),
    /// The model calls tools, and they answer.
    Work(Vec<usize>),
}

fn step(longest: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (1..longest / 2).prop_map(Step::Ask),
        5 => prop::collection::vec(1..longest, 1..4).prop_map(Step::Work),
    ]
}

/// A text of so many characters that tokenizers find ordinary.
fn text(length: usize) -> String {
    "some words of a file that was read; ".chars().cycle().take(length).collect()
}

/// A session as chat messages: after each step there is a call, so its messages are listed step by step.
fn session(steps: &[Step]) -> Vec<Vec<Value>> {
    let mut calls = 0;
    let mut open = false;
    let mut all = Vec::new();
    for step in std::iter::once(&Step::Ask(40)).chain(steps) {
        let mut new = Vec::new();
        match step {
            Step::Ask(length) => {
                if open {
                    new.push(json!({ "role": "assistant", "content": "That is done." }));
                }
                new.push(json!({ "role": "user", "content": text(*length) }));
            }
            Step::Work(results) => {
                let ids: Vec<String> = (calls..).take(results.len()).map(|n| format!("call_{n}")).collect();
                calls += results.len();
                let call = |id: &String| {
                    json!({ "id": id, "type": "function",
                    "function": { "name": "read_file", "arguments": "{\"path\":\"a.rs\"}" } })
                };
                new.push(json!({ "role": "assistant", "content": "I look.",
                    "tool_calls": ids.iter().map(call).collect::<Vec<_>>() }));
                let result = |(id, length): (&String, &usize)| json!({ "role": "tool", "tool_call_id": id, "content": text(*length) });
                new.extend(ids.iter().zip(results).map(result));
            }
        }
        open = true;
        all.push(new);
    }
    all
}

/// Chat messages as entries of one evaluation, from a sequence number on.
fn read_chat(messages: &[Value], sequence: u64) -> Vec<Entry> {
    let body = Value::Array(messages.to_vec()).to_string();
    let parsed = Wire::OpenaiChat.parse(json::check(&body).unwrap(), &ParseOptions::default()).unwrap();
    (sequence..).zip(parsed.entries).map(|(n, entry)| entry.stamped(uuid::Uuid::nil(), n, Time(1))).collect()
}

fn say(record: &mut Record, messages: &[Value]) {
    for entry in read_chat(messages, record.message_count() as u64) {
        record.append(entry).unwrap();
    }
}

fn record_of(messages: &[Value]) -> Record {
    let mut record = Record::new();
    say(&mut record, messages);
    record
}

/// The body in which a client of a wire would send these chat messages, with a tool and settings around them.
fn body_of(wire: Wire, messages: &[Value]) -> Value {
    let record = record_of(messages);
    let cx = CurationContext::default();
    let rendered = record.view(&cx, &Passthrough).unwrap().render(wire, &cx);
    let mut body: Value = serde_json::from_str(&rendered.body(wire, None)).unwrap();
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    body["model"] = match wire {
        Wire::Anthropic => json!("claude-sonnet-4-5"),
        _ => json!("gpt-4o"),
    };
    body["tools"] = match wire {
        Wire::Anthropic => {
            json!([{ "name": "read_file", "description": "Reads.", "input_schema": schema }])
        }
        Wire::OpenaiResponses => {
            json!([{ "type": "function", "name": "read_file", "parameters": schema }])
        }
        _ => json!([{ "type": "function", "function": { "name": "read_file", "parameters": schema } }]),
    };
    if wire == Wire::Anthropic {
        body["max_tokens"] = json!(1000);
    }
    body
}

fn model_for(wire: Wire) -> &'static str {
    if wire == Wire::Anthropic { CLAUDE } else { GPT }
}

/// Files of the shared transcripts; none, with a notice, where they are absent.
fn shared(set: &str, ending: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(set);
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    if found.is_empty() {
        eprintln!("notice: the transcripts of {set} are not here; nothing was checked");
    }
    found.sort();
    found
}
