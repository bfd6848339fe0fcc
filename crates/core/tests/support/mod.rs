//! Random incoherent histories, and checks that know nothing of how views are made.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub
)]

use proptest::prelude::*;
use scrollback_core::wire::{ParseOptions, Wire};
use scrollback_core::{CurationContext, Entry, Record, Role, Unfinished, ViewItem, json};
use serde_json::{Value, json};

/// How many random cases a property is tried on: the usual number, or as many times that as a trial asks for.
pub fn cases(usual: u32) -> u32 {
    let times = std::env::var("SCROLLBACK_TRIAL_TIMES").ok().and_then(|times| times.parse().ok());
    usual.saturating_mul(times.unwrap_or(1))
}

/// One message of an unchecked history.
#[derive(Clone, Debug)]
pub enum Said {
    System(String),
    User(String),
    /// A user's text beside an image, with a name and an unknown member.
    Shown(String),
    Assistant {
        text: Option<String>,
        calls: Vec<(Option<u8>, &'static str)>,
    },
    Result {
        id: Option<u8>,
        text: String,
    },
}

pub const TOOLS: [&str; 3] = ["search", "read_file", "run"];

impl Said {
    pub fn to_json(&self) -> Value {
        match self {
            Said::System(text) => json!({ "role": "system", "content": text }),
            Said::User(text) => json!({ "role": "user", "content": text }),
            Said::Shown(text) => json!({
                "role": "user", "name": "ann", "x_note": 1.0,
                "content": [
                    { "type": "text", "text": text },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0K", "detail": "high" } },
                ],
            }),
            Said::Assistant { text, calls } => {
                let mut message = json!({ "role": "assistant", "content": text });
                if !calls.is_empty() {
                    message["tool_calls"] = calls.iter().map(|(id, tool)| call(*id, tool)).collect();
                }
                if calls.len() == 2 {
                    message["reasoning_content"] = json!("hm");
                }
                message
            }
            Said::Result { id, text } => {
                let mut message = json!({ "role": "tool", "content": text });
                if let Some(id) = id {
                    message["tool_call_id"] = json!(call_id(*id));
                }
                message
            }
        }
    }
}

/// Ids as models give them; two of them are refused by some provider.
fn call_id(number: u8) -> String {
    match number {
        4 => format!("call_{}", "x".repeat(70)),
        5 => "functions.read:5".into(),
        _ => format!("c{number}"),
    }
}

/// A call; `run` is called with free text.
fn call(id: Option<u8>, tool: &str) -> Value {
    let mut call = if tool == "run" {
        json!({ "type": "custom", "custom": { "name": tool, "input": "ls -l" } })
    } else {
        json!({ "type": "function", "function": { "name": tool, "arguments": "{\"path\":\"a.rs\"}" } })
    };
    if let Some(id) = id {
        call["id"] = json!(call_id(id));
    }
    call
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-d ]{0,12}",
        1 => "(alpha|beta|passport|number|file) (alpha|beta|passport|number)",
        1 => "[é😀\\n\"\\\\x]{0,8}",
        1 => Just("long result ".repeat(30)),
    ]
}

/// Any one message.
pub fn said() -> impl Strategy<Value = Said> {
    let id = || prop_oneof![9 => (0u8..6).prop_map(Some), 1 => Just(None)];
    let call = (id(), prop::sample::select(TOOLS.to_vec()));
    prop_oneof![
        1 => words().prop_map(Said::System),
        4 => words().prop_map(Said::User),
        1 => words().prop_map(Said::Shown),
        6 => (prop::option::of(words()), prop::collection::vec(call, 0..4))
            .prop_map(|(text, calls)| Said::Assistant { text, calls }),
        8 => (id(), words()).prop_map(|(id, text)| Said::Result { id, text }),
    ]
}

/// Histories with parallel, interleaved, duplicate, orphan, pending and re-used calls, often with a lead.
pub fn history(longest: usize) -> impl Strategy<Value = Vec<Said>> {
    (prop::bool::weighted(0.7), prop::collection::vec(said(), 0..longest)).prop_map(|(lead, mut history)| {
        if lead {
            history.insert(0, Said::System("You are terse.".into()));
        }
        history
    })
}

/// A manager of any kind, with small numbers so that bounds are met.
pub fn manager_text() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        Just("passthrough".to_string()),
        (0..9usize).prop_map(|n| format!("sliding_window({n})")),
        (0..5usize).prop_map(|n| format!("turn_window({n})")),
        (20..160usize).prop_map(|n| format!("token_budget({n})")),
        (0..40usize, prop::sample::select(vec!["head", "tail", "both"]))
            .prop_map(|(n, keep)| format!("tool_result_truncator({n}, suffix=\"..\", keep={keep})")),
        (0..4usize).prop_map(|n| format!("clear_tool_results({n}, placeholder=\"-\")")),
        (0..3usize).prop_map(|n| format!("clear_tool_results({n}, exclude_tools=[run])")),
        Just("active_tools([search])".to_string()),
        (0..3usize, 0..3usize).prop_map(|(a, b)| format!("pin(first={a}, last={b})")),
        Just("pin(where={\"contains\":\"passport\"})".to_string()),
        Just("pin(where={\"role\":\"tool\",\"tool\":\"search\"})".to_string()),
        (2..12usize).prop_map(|n| format!("trajectory_window({n}, preserve_first=1, preserve_last=1)")),
        (20..160usize).prop_map(|n| format!("relevant({n})")),
        (0..4usize, 0..4usize).prop_map(|(m, k)| format!("summarize(max_turns={m}, keep_recent={k})")),
        (1..9usize).prop_map(|m| format!("summarize(max_entries={m}, ratio=0.5, place=assistant)")),
        sticky_text(),
        (20..200usize).prop_map(|n| format!("fit(window={n}, reserve=0)")),
        (20..200usize).prop_map(|n| format!("auto({n}, need=50k)")),
    ];
    prop_oneof![
        3 => plain.clone(),
        2 => prop::collection::vec(plain.clone(), 0..4).prop_map(|all| format!("compose({})", all.join(", "))),
        1 => plain.prop_map(|inner| format!("observed({inner}, prompt_name=p)")),
    ]
}

/// A sticky manager over each inner that can be.
pub fn sticky_text() -> impl Strategy<Value = String> {
    let marks = (2..10usize).prop_flat_map(|high| (Just(high), 1..=high));
    let budget = (40..160usize).prop_flat_map(|high| (Just(high), 20..=high));
    prop_oneof![
        marks.clone().prop_map(|(high, low)| format!("sticky(sliding_window({high}), low={low})")),
        marks.clone().prop_map(|(high, low)| format!("sticky(turn_window({high}), low={low})")),
        budget.prop_map(|(high, low)| format!("sticky(token_budget({high}), low={low})")),
        marks.clone().prop_map(|(high, low)| {
            format!("sticky(trajectory_window({high}, preserve_first=1, preserve_last=1), low={low})")
        }),
        marks.prop_map(|(high, low)| format!(
            "sticky(clear_tool_results({high}, placeholder=\"-\"), low={low})"
        )),
    ]
}

/// What a caller may wish for.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    pub system: bool,
    pub task: bool,
    pub last: Option<usize>,
    pub unfinished: Unfinished,
}

impl Wishes {
    pub fn context(self) -> CurationContext {
        CurationContext {
            preserve_system: self.system,
            preserve_task: self.task,
            preserve_last_n: self.last,
            unfinished: self.unfinished,
            ..CurationContext::default()
        }
    }
}

pub fn wishes() -> impl Strategy<Value = Wishes> {
    let unfinished = prop_oneof![3 => Just(Unfinished::Drop), 1 => Just(Unfinished::Close)];
    (
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.8),
        prop::option::weighted(0.2, 0..5usize),
        unfinished,
    )
        .prop_map(|(system, task, last, unfinished)| Wishes { system, task, last, unfinished })
}

pub fn entries(history: &[Said]) -> Vec<Entry> {
    let body = Value::Array(history.iter().map(Said::to_json).collect()).to_string();
    Wire::OpenaiChat.parse(json::check(&body).unwrap(), &ParseOptions::default()).unwrap().entries
}

pub fn record_of(history: &[Said]) -> Record {
    let mut record = Record::new();
    for entry in entries(history) {
        record.append(entry).unwrap();
    }
    record
}

/// The messages a view becomes.
pub fn rendered<'r>(items: impl Iterator<Item = ViewItem> + 'r) -> Vec<String> {
    Wire::OpenaiChat.render(items, scrollback_core::wire::RenderOptions::default()).messages
}

/// Panics unless every call is answered right after it, exactly once, and every result has a call before it.
pub fn assert_coherent(messages: &[String]) {
    let messages: Vec<Value> =
        messages.iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().expect("a result in a view has an id");
            let at = open.iter().position(|call| call == id);
            open.swap_remove(at.unwrap_or_else(|| panic!("message {index}: result {id} has no open call")));
            continue;
        }
        assert!(open.is_empty(), "message {index}: calls {open:?} are not answered");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            open.push(call["id"].as_str().expect("a call in a view has an id").into());
        }
    }
    assert!(open.is_empty(), "calls {open:?} at the end are not answered");
}

/// Number of leading system entries that a coherent reading of the history starts with, and the last user entry.
pub fn anchors(record: &Record, cx: &CurationContext) -> (Vec<u64>, Option<u64>) {
    let coherent = record.view(cx, &scrollback_core::manager::Passthrough).unwrap();
    let positions: Vec<u64> = coherent
        .items()
        .filter_map(|item| match item.source {
            scrollback_core::ItemSource::Entry(position) => Some(position),
            _ => None,
        })
        .collect();
    let role = |position: &u64| record.entry(*position).map(|entry| entry.role);
    let lead =
        positions.iter().copied().take_while(|position| role(position) == Some(Role::System)).collect();
    let task = positions.iter().copied().rfind(|position| role(position) == Some(Role::User));
    (lead, task)
}

/// Does some harm to a list of messages of any wire.
pub fn break_list(list: &mut Value, place: usize, harm: u8) {
    let Some(messages) = list.as_array_mut().filter(|messages| !messages.is_empty()) else { return };
    let (at, other) = (place % messages.len(), place / 7 % messages.len());
    match harm {
        0 => {
            messages.remove(at);
        }
        1 => {
            let message = messages[at].clone();
            messages.insert(other, message);
        }
        2 => messages.swap(at, other),
        3 => messages.truncate(at + 1),
        _ => {
            let message = &mut messages[at];
            let blocks = ["content", "parts", "tool_calls"].into_iter().find(|key| message[*key].is_array());
            match (harm, blocks) {
                (4, Some(key)) => message[key] = json!([]),
                (5, Some(key)) => {
                    let blocks = message[key].as_array_mut().unwrap();
                    if let Some(block) = blocks.get(place / 3 % blocks.len().max(1)).cloned() {
                        blocks.push(block);
                    }
                }
                (6, Some(key)) => message[key].as_array_mut().unwrap().reverse(),
                (7, Some(key)) => {
                    let blocks = message[key].as_array_mut().unwrap();
                    blocks.retain(|_| place.is_multiple_of(2));
                }
                (8, _) if message.get("content").is_some() => message["content"] = json!("  "),
                (9, _) if message["role"] == "assistant" || message["role"] == "model" => {
                    message["role"] = json!("user");
                }
                (10, _) if message.get("call_id").is_some() => message["call_id"] = json!("x".repeat(70)),
                (11, _) if message.get("tool_call_id").is_some() => message["tool_call_id"] = json!("c/9 9"),
                _ => {}
            }
        }
    }
}

/// A JSON text without the white space between its values.
pub fn squeezed(text: &str) -> String {
    let (mut out, mut inside, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        if inside || !c.is_ascii_whitespace() {
            out.push(c);
        }
        inside ^= c == '"' && !escaped;
        escaped = inside && c == '\\' && !escaped;
    }
    out
}
