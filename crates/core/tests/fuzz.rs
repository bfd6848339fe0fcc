//! The short form of `./dev fuzz`: the same bodies over mutated seeds, on every test run.
#![allow(clippy::panic)]

#[path = "../../../fuzz/bodies.rs"]
mod bodies;

const CASES: usize = 20_000;

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
