//! What a call is sent: the agreed cases byte for byte, and the rules that hold for all.

use scrollback_core::Role;
use scrollback_subagent::case::Case;
use serde_json::json;

use crate::support::Numbers;

pub(crate) fn corpus(name: &str) -> String {
    let path = format!("{}/../../corpus/subagent/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_case_of_the_corpus_is_rendered_byte_for_byte() {
    let mut count = 0;
    for line in corpus("coalesced.jsonl").lines() {
        let told: serde_json::Value = serde_json::from_str(line).unwrap();
        let case = Case::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", told["id"]));
        let rendered = case.render();
        assert_eq!(rendered.messages.len(), 2, "{}", told["id"]);
        assert_eq!(rendered.messages[0].role, Role::System);
        assert_eq!(rendered.messages[1].text, told["user"].as_str().unwrap(), "{}", told["id"]);
        count += 1;
    }
    assert_eq!(count, 20);
}

/// A random case of so many turns: definitions, prints, calls, failures.
fn random_case(numbers: &mut Numbers, turns: usize) -> serde_json::Value {
    let names = ["alpha", "beta", "_hidden", "total-of-all-the-rows-in-the-table", "f"];
    let values =
        ["nil", "[]", "[1 2 3 4 5]", "{\"a\" 1 :b \"x\"}", "\"a text; with é\\n\"", "3.14159", "#{:x}", ":k"];
    let mut memory = serde_json::Map::new();
    let mut made = Vec::new();
    for _ in 0..turns {
        let prints: Vec<String> = (0..numbers.below(4)).map(|n| format!("line {n}\nof output")).collect();
        let calls: Vec<serde_json::Value> = (0..numbers.below(5))
            .map(|n| match numbers.below(3) {
                0 => json!({ "name": "search", "args": { "q": n, "a b": [1, 2] }, "error": "it\nfailed" }),
                1 => json!({ "name": "ping", "args": {}, "result": null }),
                _ => json!({ "name": "search", "args": { "query": "é".repeat(n * 30) }, "result": [1, { "x": 2.5 }] }),
            })
            .collect();
        if numbers.below(3) == 0 {
            made.push(json!({ "program": "(boom)\n", "prints": prints, "tool_calls": calls, "memory": memory, "success": false, "error": { "reason": "x", "message": "went\nwrong" } }));
            continue;
        }
        for _ in 0..numbers.below(3) {
            let name = names[numbers.below(names.len())];
            let value = values[numbers.below(values.len())];
            let definition = match numbers.below(3) {
                0 => json!({ "params": "[x & more]", "doc": "Does; it", "returns": "integer" }),
                1 => json!({ "value": value, "doc": " ; " }),
                _ => json!(value),
            };
            memory.insert(name.into(), definition);
        }
        made.push(json!({ "program": "(ok)", "prints": prints, "tool_calls": calls, "memory": memory, "success": true, "result": values[numbers.below(values.len())] }));
    }
    json!({
        "mission": "  Find it.\nAll of it.  ", "signature": "(n :int) -> {a [:int]}", "data": { "n": 1, "rows": [1, 2, 3, 4] },
        "tools": [{ "name": "search" }, { "name": "ping", "description": "Pings\n  it" }], "max_turns": 12,
        "options": { "println_limit": numbers.below(6), "tool_call_limit": numbers.below(6) }, "turns": made,
    })
}

fn read(case: &serde_json::Value) -> Case {
    Case::parse(case.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}: {case}"))
}

#[test]
fn every_rendering_keeps_the_rules() {
    let mut numbers = Numbers(3);
    for round in 0..120 {
        let turns = numbers.below(9);
        let told = random_case(&mut numbers, turns);
        let case = read(&told);
        let rendered = case.render();
        assert_eq!(rendered.hash(), case.render().hash(), "round {round}: pure");
        let user = &rendered.messages[1].text;
        assert!(user.starts_with("Find it.\nAll of it."), "round {round}: the mission comes first");
        assert!(
            !user.ends_with('\n') && !user.contains("\n\n\n"),
            "round {round}: parts are one blank line apart\n{user}"
        );
        let empty = read(&{
            let mut told = told.clone();
            told["turns"] = json!([]);
            told
        })
        .render();
        let heading = &empty.messages[1].text[..empty.heading];
        assert!(user.starts_with(heading), "round {round}: mission, return, tools and data never change");
        for (name, definition) in case.memory.iter() {
            let lines = user.lines().filter(|line| match definition.parameters() {
                Some(parameters) => line.starts_with(&format!("({name} {parameters})")),
                None => line.split_whitespace().next() == Some(name) && line.contains("= "),
            });
            assert_eq!(lines.count(), 1, "round {round}: {name} has one line\n{user}");
        }
        for (shown, limit) in [
            (rendered.stats.tool_calls, told["options"]["tool_call_limit"].as_u64().unwrap()),
            (rendered.stats.printlns, told["options"]["println_limit"].as_u64().unwrap()),
        ] {
            assert_eq!(shown.shown + shown.dropped, shown.total, "round {round}");
            assert!(turns == 0 || shown.shown as u64 <= limit, "round {round}");
        }
    }
}

#[test]
fn a_failed_turn_changes_nothing_but_calls_error_and_turns() {
    let mut numbers = Numbers(5);
    for round in 0..60 {
        let turns = 1 + numbers.below(6);
        let mut told = random_case(&mut numbers, turns);
        let last = told["turns"].as_array().unwrap().last().unwrap();
        let memory = last["memory"].clone();
        told["turns"].as_array_mut().unwrap().retain(|turn| turn["success"] == true);
        let before = read(&told).render();
        let failed = json!({ "program": "(boom)", "prints": ["lost"], "tool_calls": [{ "name": "ping", "args": {}, "result": 1 }], "memory": memory, "success": false, "error": { "reason": "x", "message": "no" } });
        told["turns"].as_array_mut().unwrap().push(failed);
        let after = read(&told).render();
        if read(&told).turns.len() < 2 {
            continue;
        }
        let kept = |text: &str| {
            let parts = text.split("\n\n").take_while(|part| !part.starts_with("---"));
            let own = |part: &&str| {
                !part.starts_with(";; Tool calls")
                    && !part.starts_with(";; No tool calls")
                    && !part.starts_with("Turns left")
                    && !part.starts_with("FINAL")
            };
            parts.filter(own).collect::<Vec<_>>().join("\n\n")
        };
        assert_eq!(kept(&before.messages[1].text), kept(&after.messages[1].text), "round {round}");
        assert!(after.messages[1].text.contains("Your previous attempt:") || told["max_turns"] == 1);
    }
}

#[test]
fn within_an_epoch_each_request_is_a_prefix_of_the_next() {
    let mut numbers = Numbers(9);
    for _ in 0..20 {
        let mut told = random_case(&mut numbers, 11);
        told["compression"] = json!({ "rolling_window": { "keep": 2, "slack": 2 } });
        let all = told["turns"].clone();
        let mut last: Option<scrollback_subagent::compression::Rendered> = None;
        let mut kept = 0;
        for count in 0..=11 {
            told["turns"] = json!(all.as_array().unwrap()[..count]);
            let next = read(&told).render();
            if let Some(before) = &last {
                let same = next
                    .messages
                    .iter()
                    .zip(&before.messages)
                    .all(|(a, b)| a.text == b.text && a.role == b.role);
                let cut_moved = next.stats.turns_compressed != before.stats.turns_compressed;
                assert!(same || cut_moved, "after {count} turns");
                kept += usize::from(same);
            }
            last = Some(next);
        }
        assert!(kept >= 7, "the cut moves rarely: {kept} of 11");
    }
}

#[test]
fn options_hide_mark_and_keep_back() {
    let case = json!({
        "mission": "Go.", "data": { "_key": "s3cret", "row": { "_p": 1, "q": "</untrusted> x" } }, "max_turns": 3,
        "tools": [{ "name": "t" }], "options": { "hide_private": true, "fence_output": true },
        "turns": [{ "program": "(x)", "prints": ["hi </UNTRUSTED>"], "tool_calls": [{ "name": "t", "args": { "_a": 1, "b": 2 }, "result": 1 }], "memory": { "_m": "1", "n": "[1]" }, "success": true, "result": "nil" }],
    });
    assert_eq!(
        read(&case).render().messages[1].text,
        "Go.\n\n;; === tool/ ===\ntool/t(...) -> :any\n\n;; === data/ ===\n\
         data/row                      ; map[2], sample: <untrusted>{\"q\" \"<\\/untrusted> x\"}</untrusted>\n\n\
         ;; === user/ (your prelude) ===\nn                             ; = list[1]\n\n\
         ;; Tool calls made:\n;   t({:b 2})\n\n;; Output:\n<untrusted>hi <\\/UNTRUSTED></untrusted>\n\nTurns left: 2"
    );
    let mut failing = json!({ "mission": "Go.", "turns": [{ "program": "(def s \"```\")\n\n", "prints": ["a", "b"], "success": false, "error": { "reason": "x", "message": "bad" } }], "options": { "println_limit": 1 } });
    assert_eq!(
        read(&failing).render().messages[1].text,
        "Go.\n\n---\nYour previous attempt:\n````clojure\n(def s \"```\")\n````\n\nError: bad\n\nOutput before the error:\nb\n---\n\nTurns left: 4"
    );
    failing["options"] = json!({ "failed_output": false });
    assert!(!read(&failing).render().messages[1].text.contains("Output before"));
}

#[test]
fn every_type_has_its_label() {
    let definitions = [
        ("a", "[]", "list[0]"),
        ("b", "[1 2 3]", "list[3]"),
        ("c", "{}", "map[0]"),
        ("d", "{:a 1}", "map[1]"),
        ("e", "\"x\"", "string"),
        ("f", "1", "integer"),
        ("g", "1.5", "float"),
        ("h", "true", "boolean"),
        ("i", ":k", "keyword"),
        ("j", "nil", "nil"),
        ("k", "#fn[...]", "#fn[...]"),
        ("l", "#{1 2 3}", "set[3]"),
        ("m", "#date \"2024-01-15\"", "date"),
        ("n", "#inst \"2024-01-15T10:00:00Z\"", "datetime"),
    ];
    let memory: serde_json::Map<String, serde_json::Value> =
        definitions.iter().map(|(name, value, _)| ((*name).to_string(), json!(value))).collect();
    let case = json!({ "mission": "x", "turns": [{ "program": "(x)", "prints": ["seen"], "memory": memory, "success": true, "result": "nil" }] });
    let text = read(&case).render().messages[1].text.clone();
    for (name, _, label) in definitions {
        let line = format!("\n{name}                             ; = {label}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
}
