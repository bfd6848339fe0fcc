//! One passing and one failing body per rule of the Gemini and the Bedrock wire.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use scrollback_core::json;
use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;
use scrollback_core::wire::check::{CheckOptions, Severity, Violation, check, rules};
use serde_json::{Value, json};

fn fixture(name: &str) -> Option<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/wire").join(name);
    let mut fixture: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).unwrap();
    if let Some(grow) = fixture.get("grow").cloned() {
        let text = grow["text"].as_str().unwrap().repeat(grow["times"].as_u64().unwrap() as usize);
        *fixture["body"].pointer_mut(grow["path"].as_str().unwrap()).unwrap() = text.into();
    }
    Some(fixture)
}

fn violations(wire: Wire, fixture: &Value) -> Vec<Violation> {
    let model = fixture.get("model").map(|name| ModelName::parse(name.as_str().unwrap()).unwrap());
    let body = fixture["body"].to_string();
    check(
        wire,
        json::check(&body).unwrap(),
        CheckOptions { model: model.as_ref(), ..CheckOptions::default() },
    )
}

#[test]
fn every_rule_has_a_body_that_keeps_it_and_one_that_breaks_it() {
    for wire in [Wire::Gemini, Wire::Bedrock] {
        for rule in rules(wire) {
            let pass = fixture(&format!("{}.pass.json", rule.id)).unwrap();
            for found in violations(wire, &pass) {
                assert!(
                    found.rule != rule.id && found.severity != Severity::Refused,
                    "{} passes, but {found:?}",
                    rule.id
                );
            }
            let fail = fixture(&format!("{}.fail.json", rule.id));
            assert_eq!(fail.is_none(), rule.severity == Severity::Allowed, "{}", rule.id);
            let Some(fail) = fail else { continue };
            let found = violations(wire, &fail);
            let places: Vec<Value> =
                found.iter().map(|found| json!({ "rule": found.rule, "path": found.path })).collect();
            assert_eq!(Value::from(places), fail["expect"], "{}: {found:#?}", rule.id);
            for found in found.iter().filter(|found| found.rule == rule.id) {
                assert_eq!((found.severity, found.model_gate), (rule.severity, None), "{}", rule.id);
            }
        }
    }
}

#[test]
fn a_thousand_messages_take_no_time() {
    let text = "The quick brown fox jumps over the lazy dog. ".repeat(10);
    let mut contents = Vec::new();
    let mut messages = Vec::new();
    for number in 0..250 {
        let id = format!("t{number}");
        contents.push(json!({ "role": "user", "parts": [{ "text": text }] }));
        contents.push(json!({ "role": "model", "parts": [{ "functionCall": { "name": "f", "args": {} } }] }));
        let response = json!({ "name": "f", "response": { "output": text } });
        contents.push(json!({ "role": "user", "parts": [{ "functionResponse": response }] }));
        contents.push(json!({ "role": "model", "parts": [{ "text": text }] }));
        let result = json!({ "toolUseId": id, "content": [{ "text": text }] });
        messages.push(json!({ "role": "user", "content": [{ "text": text }] }));
        let call = json!({ "toolUseId": id, "name": "f", "input": {} });
        messages.push(json!({ "role": "assistant", "content": [{ "toolUse": call }] }));
        messages.push(json!({ "role": "user", "content": [{ "toolResult": result }] }));
        messages.push(json!({ "role": "assistant", "content": [{ "text": text }] }));
    }
    for (wire, list) in [(Wire::Gemini, Value::from(contents)), (Wire::Bedrock, Value::from(messages))] {
        let body = list.to_string();
        let raw = json::check(&body).unwrap();
        let start = std::time::Instant::now();
        let found = check(wire, raw, CheckOptions::default());
        let took = start.elapsed();
        assert!(found.iter().all(|found| found.model_gate.is_some()), "{found:?}");
        eprintln!("{wire}: {took:?} for {} bytes", body.len());
        assert!(took.as_millis() < 50, "{wire}: {took:?}");
    }
}
