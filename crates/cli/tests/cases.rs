//! The public cases: each line of `corpus/core/*.jsonl` is one batch line for `curate` and what must come of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::scrollback;
use serde_json::{Map, Value, json};

/// `index` → `manager/reason`.
fn told(list: &Value) -> Value {
    let entries = list.as_array().unwrap().iter().map(|item| {
        let name = format!("{}/{}", item["manager"].as_str().unwrap(), item["reason"].as_str().unwrap());
        (item["index"].to_string(), Value::from(name))
    });
    Value::Object(entries.collect::<Map<_, _>>())
}

#[test]
fn every_public_case_is_answered_as_expected() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/core");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    let mut count = 0;
    for file in files {
        let cases: Vec<Value> = std::fs::read_to_string(&file)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let lines: Vec<String> = cases
            .iter()
            .map(|case| {
                let mut line = case["line"].clone();
                line["id"] = case["name"].clone();
                line.to_string()
            })
            .collect();
        let run = scrollback(&["curate", "--batch", "-"], &lines.join("\n"));
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        let answers: Vec<Value> =
            run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), cases.len());
        for (case, answer) in cases.iter().zip(&answers) {
            assert_eq!(answer["id"], case["name"]);
            check(case, answer);
            count += 1;
        }
    }
    assert!(count >= 54, "{count} cases");
}

fn check(case: &Value, answer: &Value) {
    let name = case["name"].as_str().unwrap();
    for (key, wanted) in case["expect"].as_object().unwrap() {
        let got = match key.as_str() {
            "error" => answer["error"]["code"].clone(),
            _ if !answer["error"].is_null() => panic!("{name}: {}", answer["error"]),
            "messages" | "epoch" | "events" => answer[key].clone(),
            "dropped" | "changed" => told(&answer[key]),
            "warnings" => {
                answer[key].as_array().unwrap().iter().map(|warning| warning["code"].clone()).collect()
            }
            "decisions" => json!(answer[key].as_array().unwrap().len()),
            "tokens" => answer["tokens"]["curated"].clone(),
            other => panic!("{name}: no check for {other}"),
        };
        assert_eq!(got, *wanted, "{name}: {key}");
    }
}
