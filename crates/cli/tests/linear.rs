//! No input costs more than its size: instructions are counted by valgrind, so the numbers are the same on every machine.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{folder, required};

/// Parts of the smaller input; the larger one has four times as many. So few that counting every instruction stays quick.
const PARTS: usize = 150;
/// How much more four times the input may cost: sorting and hashing are a little more than linear.
const MOST: f64 = 5.5;

/// An input that someone may send, with so many parts.
type Input = fn(usize) -> Value;

fn call(id: &str) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": "{}" } })
}

fn result(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "x" })
}

/// Calls of one id in one message, and as many results.
fn calls_of_one_id(parts: usize) -> Value {
    let mut list = vec![json!({ "role": "user", "content": "go" })];
    let calls: Vec<Value> = (0..parts).map(|_| call("c")).collect();
    list.push(json!({ "role": "assistant", "content": null, "tool_calls": calls }));
    list.extend((0..parts).map(|_| result("c")));
    Value::Array(list)
}

/// The same, a message for each call.
fn messages_of_one_id(parts: usize) -> Value {
    let mut list = vec![json!({ "role": "user", "content": "go" })];
    list.extend(
        (0..parts).map(|_| json!({ "role": "assistant", "content": null, "tool_calls": [call("c")] })),
    );
    list.extend((0..parts).map(|_| result("c")));
    Value::Array(list)
}

/// Results that answer nothing.
fn orphans(parts: usize) -> Value {
    let said = json!({ "role": "user", "content": "go" });
    std::iter::once(said).chain((0..parts).map(|number| result(&format!("c{number}")))).collect()
}

/// Calls and results without ids, in the old form.
fn calls_without_ids(parts: usize) -> Value {
    let old =
        json!({ "role": "assistant", "content": null, "function_call": { "name": "w", "arguments": "{}" } });
    let answer = json!({ "role": "function", "name": "w", "content": "18" });
    (0..parts).map(|_| old.clone()).chain((0..parts).map(|_| answer.clone())).collect()
}

/// Gemini's calls and results, which have no ids.
fn contents_without_ids(parts: usize) -> Value {
    let calls: Vec<Value> =
        (0..parts).map(|_| json!({ "functionCall": { "name": "f", "args": {} } })).collect();
    let results: Vec<Value> =
        (0..parts).map(|_| json!({ "functionResponse": { "name": "f", "response": { "a": 1 } } })).collect();
    json!({ "contents": [
        { "role": "user", "parts": [{ "text": "go" }] },
        { "role": "model", "parts": calls },
        { "role": "user", "parts": results },
    ] })
}

/// A text that is no JSON: what a file is called, what is done with it, and the text with so many parts.
type TextInput = (&'static str, &'static [&'static str], fn(usize) -> String);

const TEXTS: [TextInput; 5] = [
    ("sum.clj", &["lisp", "run", "FILE"], |parts| format!("(+ {})", "1 ".repeat(parts * 4))),
    ("nested.clj", &["lisp", "run", "FILE"], |parts| format!("[{}]", "[[[1 #_2 :a]]] ".repeat(parts))),
    ("anchors.yaml", &["validate", "FILE"], |parts| {
        format!("name: f\nx: [{}]\n", "&a b, *a, ".repeat(parts))
    }),
    ("claude.jsonl", &["import", "FILE", "--dry-run"], |parts| {
        let line = |number| {
            let parent = if number == 0 { Value::Null } else { json!(format!("u{}", number - 1)) };
            format!(
                "{}\n",
                json!({ "type": "user", "uuid": format!("u{number}"), "parentUuid": parent, "sessionId": "s",
                "timestamp": "2026-01-01T00:00:00Z", "message": { "role": "user", "content": "hello" } })
            )
        };
        (0..parts / 2).map(line).collect()
    }),
    ("lines.jsonl", &["import", "FILE", "--dry-run"], |parts| {
        "{\"role\":\"user\",\"content\":\"x\"}\n".repeat(parts)
    }),
];

/// A text that begins a secret again and again.
fn beginnings_of_secrets(parts: usize) -> Value {
    let begun = ["password=", "https://a:", "sk-ant-", "eyJ", "\"api_key\": \"", "Authorization: Bearer "];
    let text = begun.iter().fold(String::new(), |mut text, begun| {
        let _ = write!(text, "{}", begun.repeat(parts));
        text
    });
    json!([{ "role": "user", "content": text }])
}

/// One long run of one letter.
fn one_letter(parts: usize) -> Value {
    json!([{ "role": "user", "content": "a".repeat(parts * 40) }])
}

/// Instructions that a command takes.
fn instructions(valgrind: &Path, folder: &Path, arguments: &[&str]) -> u64 {
    let out = folder.join("callgrind");
    let mut command = Command::new(valgrind);
    command
        .args(["--tool=callgrind", "--error-exitcode=99", &format!("--callgrind-out-file={}", out.display())])
        .arg(env!("CARGO_BIN_EXE_scrollback"))
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    assert_ne!(command.status().unwrap().code(), Some(99), "{arguments:?}");
    let report = std::fs::read_to_string(&out).unwrap();
    let total =
        report.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    total.unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn four_times_the_input_takes_four_times_the_instructions() {
    let Some(valgrind) = required::program(&["valgrind"], "that no input costs more than its size") else {
        return;
    };
    let folder = folder("linear");
    let inputs: [(&str, &str, Input); 7] = [
        ("calls of one id", "openai-chat", calls_of_one_id),
        ("messages of one id", "openai-chat", messages_of_one_id),
        ("orphans", "openai-chat", orphans),
        ("calls without ids", "openai-chat", calls_without_ids),
        ("contents without ids", "gemini", contents_without_ids),
        ("beginnings of secrets", "openai-chat", beginnings_of_secrets),
        ("one letter", "openai-chat", one_letter),
    ];
    // What the program costs by itself.
    let none = folder.join("none.json");
    std::fs::write(&none, "[]").unwrap();
    let written = |name: &str, parts: usize, input: Input| -> PathBuf {
        let file = folder.join(format!("{}-{parts}.json", name.replace(' ', "-")));
        std::fs::write(&file, input(parts).to_string()).unwrap();
        file
    };
    let mut bases: HashMap<String, f64> = HashMap::new();
    let mut broken = Vec::new();
    for (name, wire, input) in inputs {
        let (small, large) = (written(name, PARTS, input), written(name, 4 * PARTS, input));
        let others = if wire == "gemini" { ["openai-chat", "anthropic"] } else { ["anthropic", "gemini"] };
        let commands: [Vec<&str>; 5] = [
            vec!["check", "FILE", "--for", wire, "--repair"],
            vec!["convert", "FILE", "--from", wire, "--to", others[0]],
            vec!["convert", "FILE", "--from", wire, "--to", others[1]],
            vec!["curate", "FILE", "--from", wire, "-m", "sliding_window(3)"],
            vec!["redact", "FILE"],
        ];
        for command in commands {
            let cost = |file: &Path| {
                let file = file.display().to_string();
                let arguments: Vec<&str> =
                    command.iter().map(|word| if *word == "FILE" { file.as_str() } else { word }).collect();
                instructions(&valgrind, &folder, &arguments)
            };
            let base = *bases.entry(command.join(" ")).or_insert_with(|| cost(&none) as f64);
            let [once, fourfold] = [&small, &large].map(|file| cost(file) as f64);
            // What is lost in the cost of starting is no proof of anything, and nothing to worry about.
            let growth = (fourfold - base) / (once - base).max(base / 20.0);
            if growth > MOST {
                broken.push(format!("{name}: {} grows by {growth:.1}", command.join(" ")));
            }
        }
    }
    for (name, command, text) in TEXTS {
        let cost = |parts: usize| {
            let file = folder.join(format!("{parts}-{name}"));
            std::fs::write(&file, text(parts)).unwrap();
            let file = file.display().to_string();
            let arguments: Vec<&str> =
                command.iter().map(|word| if *word == "FILE" { file.as_str() } else { word }).collect();
            instructions(&valgrind, &folder, &arguments) as f64
        };
        let (base, once, fourfold) = (cost(4), cost(PARTS), cost(4 * PARTS));
        let growth = (fourfold - base) / (once - base).max(base / 20.0);
        if growth > MOST {
            broken.push(format!("{name}: {} grows by {growth:.1}", command.join(" ")));
        }
    }
    assert!(
        broken.is_empty(),
        "four times the input should cost about four times as much:\n{}",
        broken.join("\n")
    );
}
