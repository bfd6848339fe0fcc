//! The providers' own Python packages take what the binary prints.
//!
//! Every valid body of `corpus/wire` and every example of `corpus/sdk` is put on every wire, as it is and curated, and
//! `tests/sdk/validate.py` judges the results by the types in those packages. `./dev setup` installs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{folder, repository, required, scrollback};
use serde_json::{Map, Value, json};

const WIRES: [&str; 5] = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"];

/// The keys of a body that the binary prints.
const PRINTED: [&str; 8] =
    ["system", "instructions", "systemInstruction", "tools", "toolConfig", "messages", "input", "contents"];

/// How the examples are curated on the way to each wire.
const MANAGERS: [&str; 5] = [
    r#"["sliding_window(3)"]"#,
    r#"["turn_window(1)"]"#,
    r#"["clear_tool_results(0)"]"#,
    r#"["tool_result_truncator(10)"]"#,
    r#"["pin(first=1)", "sliding_window(2)"]"#,
];

/// Bodies that a provider takes and the types of its package do not: the fixture, the wire, and why it is right.
const EXCEPTIONS: [(&str, &str, &str); 7] = [
    ("OC-6.pass", "openai-chat", "null stands for no calls"),
    ("OC-15.pass", "openai-chat", "reasoning is in the dialect of other providers only"),
    ("OR-3.pass", "openai-responses", NO_ID),
    ("OR-5r.pass", "openai-responses", NO_ID),
    ("OR-16.pass", "openai-responses", NO_ID),
    ("OR-16.pass-older", "openai-responses", NO_ID),
    ("OR-17.pass", "openai-responses", NO_ID),
];

/// Clients such as Codex leave the ids of their replies away, and the provider takes that.
const NO_ID: &str = "a reply as a list of parts has no id";

/// A conversation to be printed.
struct Example {
    name: String,
    wire: String,
    body: Map<String, Value>,
}

/// A body that was printed, and the types it must fit.
struct Printed {
    name: String,
    how: &'static str,
    to: &'static str,
    types: String,
    body: Map<String, Value>,
}

fn examples(folder: &str, wanted: impl Fn(&str) -> bool) -> Vec<Example> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(repository(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let body = file["body"].as_object().unwrap().clone();
        let wire = file["wire"].as_str().unwrap().to_string();
        Example { name, wire, body: only_printed(body) }
    };
    let examples = paths.into_iter().map(read).filter(|example| wanted(&example.name));
    // Some bodies are no requests, and hold their messages under other keys.
    examples
        .filter(|example| ["messages", "input", "contents"].iter().any(|key| example.body.contains_key(*key)))
        .collect()
}

fn only_printed(body: Map<String, Value>) -> Map<String, Value> {
    body.into_iter().filter(|(key, _)| PRINTED.contains(&key.as_str())).collect()
}

/// The examples on every wire, by one run of the binary.
fn print(command: &str, examples: &[Example], managers: &'static str) -> Vec<Printed> {
    let pairs: Vec<(&Example, &'static str)> =
        examples.iter().flat_map(|example| WIRES.map(|to| (example, to))).collect();
    let lines: Vec<String> = pairs
        .iter()
        .map(|(example, to)| {
            let mut line = example.body.clone();
            line.insert("from".into(), json!(example.wire));
            line.insert("to".into(), json!(to));
            line.insert("managers".into(), serde_json::from_str(managers).unwrap());
            Value::Object(line).to_string()
        })
        .collect();
    let run = scrollback(&[command, "--batch", "-"], &lines.join("\n"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let answers: Vec<Map<String, Value>> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), pairs.len());
    pairs
        .into_iter()
        .zip(answers)
        .map(|((example, to), answer)| {
            let name = example.name.clone();
            assert!(!answer.contains_key("error"), "{name} to {to}: {}", answer["error"]);
            // What comes from Anthropic may hold what only its beta knows; nothing else turns into that.
            let beta = if to == "anthropic" && example.wire == to { "-beta" } else { "" };
            Printed { name, how: managers, to, types: format!("{to}{beta}"), body: only_printed(answer) }
        })
        .collect()
}

/// Why the packages would not take each of the bodies, given with the types they must fit; none where they would.
fn judge(python: &Path, name: &str, bodies: &[Value]) -> Vec<Option<String>> {
    let file = folder(name).join("bodies.jsonl");
    let lines: Vec<String> = bodies.iter().map(Value::to_string).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let output = Command::new(python)
        .arg(repository("tests/sdk/validate.py"))
        .stdin(File::open(&file).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    answers.map(|answer| answer["error"].as_str().map(str::to_string)).collect()
}

/// The Python that has the packages.
fn python() -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("venv-sdk/bin/python");
    required::file(&python, "the providers' Python packages", "that their types take what the binary prints")
}

#[test]
fn the_packages_of_the_providers_take_what_is_printed() {
    let Some(python) = python() else { return };
    let fixtures = examples("corpus/wire", |name| name.contains(".pass"));
    let rich = examples("corpus/sdk", |_| true);
    let mut bodies = print("convert", &fixtures, "[]");
    bodies.extend(print("convert", &rich, "[]"));
    for managers in MANAGERS {
        bodies.extend(print("curate", &rich, managers));
    }
    assert!(bodies.len() >= 900, "{} bodies", bodies.len());
    let lines: Vec<Value> =
        bodies.iter().map(|case| json!({ "wire": case.types, "body": case.body })).collect();
    let answers = judge(&python, "sdk", &lines);
    assert_eq!(answers.len(), bodies.len());
    let mut unused = EXCEPTIONS.to_vec();
    let mut refused = Vec::new();
    for (case, error) in bodies.iter().zip(answers) {
        let Some(error) = error else { continue };
        let is_exception = |(name, to, _): &(&str, &str, &str)| case.name == *name && case.to == *to;
        if EXCEPTIONS.iter().any(is_exception) {
            unused.retain(|exception| !is_exception(exception));
        } else {
            refused.push(format!("{} {} to {}: {error}", case.name, case.how, case.to));
        }
    }
    assert!(refused.is_empty(), "{} of {}:\n{}", refused.len(), bodies.len(), refused.join("\n"));
    assert!(unused.is_empty(), "no longer exceptions: {unused:?}");
}

#[test]
fn the_packages_refuse_what_is_wrong_deep_inside() {
    let Some(python) = python() else { return };
    let call = json!({ "id": "a", "type": "function", "function": { "name": "f", "arguments": {} } });
    let bodies = [
        ("openai-chat", "messages", json!([{ "role": "assistant", "tool_calls": [call] }])),
        ("openai-chat", "messages", json!([{ "role": "tool", "content": "no id" }])),
        ("openai-responses", "input", json!([{ "type": "function_call", "call_id": "a", "name": "f" }])),
        ("openai-responses", "input", json!([{ "role": "user", "content": "x", "unknown": 1 }])),
        ("anthropic", "messages", json!([{ "role": "user", "content": [{ "type": "text", "text": 1 }] }])),
        ("anthropic", "messages", json!([{ "role": "user", "content": [{ "type": "document" }] }])),
        ("anthropic-beta", "messages", json!([{ "role": "assistant", "content": [{ "type": "unknown" }] }])),
        ("gemini", "contents", json!([{ "role": "user", "parts": [{ "unknown": "x" }] }])),
        ("gemini", "contents", json!([{ "parts": [{ "functionCall": { "name": "f", "args": "x" } }] }])),
        ("bedrock", "messages", json!([{ "role": "user", "content": [{ "toolUse": { "name": "f" } }] }])),
        ("bedrock", "messages", json!([{ "role": "robot", "content": [{ "text": "x" }] }])),
    ];
    let lines = bodies.clone().map(|(wire, key, list)| json!({ "wire": wire, "body": { key: list } }));
    for (body, answer) in bodies.iter().zip(judge(&python, "sdk-wrong", &lines)) {
        assert!(answer.is_some(), "{body:?}");
    }
}
