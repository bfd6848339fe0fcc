//! The short form of `./dev fuzz`: the same bodies over mutated seeds, on every test run.
#![allow(clippy::panic, clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;

use serde_json::Value;

#[path = "../../../fuzz/bodies.rs"]
mod bodies;

const CASES: usize = 10_000;
/// A case of these is tried on several wires or formats.
const LONG_CASES: usize = 4_000;

/// Every file below a folder of the corpus.
fn fixtures(folder: &str) -> Vec<Vec<u8>> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// The fixtures of a folder themselves, then mutations of them.
fn over_fixtures(folder: &str, start: u64, tokens: &[&str], body: fn(&[u8])) {
    let seeds = fixtures(folder);
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    assert!(seeds.len() > 10, "the fixtures were found");
    for seed in &seeds {
        body(seed);
    }
    let tokens: Vec<&[u8]> = tokens.iter().map(|token| token.as_bytes()).collect();
    let values: Vec<Value> = seeds.iter().filter_map(|seed| serde_json::from_slice(seed).ok()).collect();
    let mut numbers = Numbers(start);
    for _ in 0..LONG_CASES {
        body(&mutate(&mut numbers, &seeds, &tokens));
        if !values.is_empty() {
            body(rearrange(&mut numbers, &values).to_string().as_bytes());
        }
    }
}

/// The same numbers on every machine (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// One seed with a few bytes cut, repeated, replaced by tokens of the language or taken from another seed.
fn mutate(numbers: &mut Numbers, seeds: &[&[u8]], tokens: &[&[u8]]) -> Vec<u8> {
    let mut data = seeds[numbers.below(seeds.len())].to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(data.len() + 1);
        let end = at + numbers.below((data.len() - at).min(12) + 1);
        match numbers.below(6) {
            0 => drop(data.drain(at..end)),
            1 => drop(data.splice(at..end, tokens[numbers.below(tokens.len())].iter().copied())),
            2 => drop(data.splice(at..at, data[at..end].to_vec())),
            3 => data.truncate(at),
            4 => {
                let other = seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len() + 1);
                drop(data.splice(at..end, other[from..].iter().copied()));
            }
            _ => {
                if let Some(byte) = data.get_mut(at) {
                    *byte = numbers.next() as u8;
                }
            }
        }
    }
    data
}

/// One value with a few of its parts removed, repeated, or replaced by parts of another: JSON as before, if hardly sense.
fn rearrange(numbers: &mut Numbers, values: &[Value]) -> Value {
    let mut value = values[numbers.below(values.len())].clone();
    for _ in 0..=numbers.below(4) {
        let other = &values[numbers.below(values.len())];
        let taken = part(numbers, &mut other.clone()).take();
        match (part(numbers, &mut value), numbers.below(4)) {
            (Value::Array(list), 0) if !list.is_empty() => drop(list.remove(numbers.below(list.len()))),
            (Value::Array(list), 1) if !list.is_empty() => list.push(list[numbers.below(list.len())].clone()),
            (Value::Array(list), 2) => list.insert(numbers.below(list.len() + 1), taken),
            (Value::Object(map), 0) => {
                drop(map.keys().nth(numbers.below(map.len())).cloned().map(|key| map.remove(&key)));
            }
            (place, _) => *place = taken,
        }
    }
    value
}

/// Some part of a value.
fn part<'v>(numbers: &mut Numbers, value: &'v mut Value) -> &'v mut Value {
    let (mut value, mut depth) = (value, 1 + numbers.below(8));
    loop {
        depth -= 1;
        let children = match value {
            Value::Array(list) if depth > 0 => list.len(),
            Value::Object(map) if depth > 0 => map.len(),
            _ => 0,
        };
        if children == 0 {
            return value;
        }
        let chosen = numbers.below(children);
        value = match value {
            Value::Array(list) => &mut list[chosen],
            Value::Object(map) => map.values_mut().nth(chosen).unwrap(),
            _ => unreachable!(),
        };
    }
}

#[test]
fn messages_never_panic() {
    let cases = include_str!("../../../corpus/core/cases.jsonl");
    let seeds: Vec<Vec<u8>> = cases
        .lines()
        .filter_map(|line| {
            let case: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(case["line"]["messages"].to_string().into_bytes())
        })
        .filter(|seed| seed.len() < 1500)
        .collect();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    let tokens: Vec<&[u8]> = [
        "\"role\"",
        "\"tool\"",
        "\"user\"",
        "\"system\"",
        "\"assistant\"",
        "\"function\"",
        "null",
        "[]",
        "{}",
        "\"\"",
        "\\ud800",
        "\\ud83d\\ude00",
        "\\u0000",
        "1e400",
        "-",
        "\"tool_calls\":[",
        "\"tool_call_id\":\"a\"",
        "\"content\":[{\"type\":\"text\",\"text\":\"x\"}]",
        "\"function_call\":{\"name\":\"f\",\"arguments\":\"{}\"}",
        ",",
        ":",
        "]",
        "}",
        "\u{feff}",
        "\u{0}",
    ]
    .iter()
    .map(|token| token.as_bytes())
    .collect();
    let mut numbers = Numbers(1);
    for _ in 0..CASES {
        bodies::parse(&mutate(&mut numbers, &seeds, &tokens));
    }
}

#[test]
fn configurations_never_panic() {
    let seeds: Vec<&[u8]> = [
        "sliding_window(20)",
        "sticky(token_budget(8000, reserve=100), high=7000, low=10)",
        "pin(where={\"role\":\"user\"})",
        "{\"sticky\": {\"sliding_window\": 20}}",
        "[\"turn_window(3)\", {\"fit\": {\"window\": 1000}}]",
        "summarize(ratio=0.5, place=assistant, summarizer=openai:gpt-4o)",
        "relevant(100, weights={\"match\": 1})",
        "compose(passthrough, observed(clear_tool_results(3, exclude_tools=[a, b]), prompt_name=\"x\"))",
        "trajectory_window(max_steps=5, preserve_first=1)",
        "tool_result_truncator(10, suffix=\"...\", keep=both)",
        "active_tools",
    ]
    .iter()
    .map(|seed| seed.as_bytes())
    .collect();
    let tokens: Vec<&[u8]> = [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        "=",
        "\"",
        "-1",
        "1.5",
        "1e9",
        "99999999999999999999",
        "null",
        "true",
        "sticky(",
        "compose(",
        "sliding_window",
        "inner=",
        "é",
        "\\",
        ":",
        "low=1",
        "high=2",
        "fit",
    ]
    .iter()
    .map(|token| token.as_bytes())
    .collect();
    let mut numbers = Numbers(2);
    for _ in 0..CASES {
        bodies::config(&mutate(&mut numbers, &seeds, &tokens));
    }
    bodies::config("sticky(".repeat(100_000).as_bytes());
    bodies::config("[".repeat(100_000).as_bytes());
    bodies::config(format!("compose({})", "compose(".repeat(5000)).as_bytes());
}

/// What turns one JSON value into another.
#[rustfmt::skip]
const JSON: &[&str] = &[
    "null", "[]", "{}", r#""""#, r#"" ""#, "0", "true", r"\ud83d\ude00", r"\u0061", "1e400", ",", ":", "]", "}", " ", "\n",
];

/// The words of requests.
#[rustfmt::skip]
const REQUESTS: &[&str] = &[
    r#""role":"user""#, r#""role":"assistant""#, r#""role":"model""#, r#""role":"tool""#, r#""role":"system""#,
    r#""type":"tool_use""#, r#""type":"tool_result""#, r#""type":"reasoning""#, r#""type":"function_call""#,
    r#""type":"function_call_output""#, r#""call_id":"a""#, r#""tool_use_id":"a""#,
    r#""cache_control":{"type":"ephemeral"}"#, r#""content":[{"text":"x"}]"#, r#"{"text":""}"#,
    r#"{"role":"user","content":"x"},"#,
];

/// The words of event streams.
#[rustfmt::skip]
const EVENTS: &[&str] = &[
    "data: ", "event: ", "\n\n", "\r\n", "\r", "id: 1\n", "data: [DONE]\n\n", "\u{feff}",
    "event: ping\ndata: {}\n\n", r#""index":1"#, r#""index":0"#, r#""delta":{}"#, r#""type":"error""#,
];

/// The words of transcripts.
#[rustfmt::skip]
const TRANSCRIPTS: &[&str] = &[
    r#""type":"user""#, r#""type":"assistant""#, r#""parentUuid":null"#, r#""isSidechain":true"#, r#""role":"user""#,
    r#""content":"x""#, r#""traj":[]"#, r#""history":[]"#, r#""samples":[{}]"#, r#""conversations":[]"#,
    r#""from":"gpt""#, "- ", "  ", "|", "'", "\u{feff}",
];

#[test]
fn requests_of_every_wire_hold_their_promises() {
    over_fixtures("wire", 3, &[REQUESTS, JSON].concat(), bodies::wires);
}

#[test]
fn streams_do_not_depend_on_how_they_are_cut() {
    over_fixtures("stream", 4, &[EVENTS, JSON].concat(), bodies::stream);
}

#[test]
fn transcripts_never_panic() {
    over_fixtures("transcript", 5, &[TRANSCRIPTS, JSON].concat(), bodies::transcript);
}
