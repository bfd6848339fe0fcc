//! Every rule of the Anthropic wire has a body that keeps it, and one that breaks it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use scrollback_core::json::{self, Raw};
use scrollback_core::model::ModelName;
use scrollback_core::wire::check::{CheckOptions, Severity, Strictness, Violation, check, rules, unseen};
use scrollback_core::wire::{ParseOptions, Wire};
use serde_json::Value;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/wire")
}

/// A fixture file.
struct Fixture {
    text: String,
    /// The body, where it grew beyond what is in the file.
    grown: Option<String>,
}

impl Fixture {
    fn read(path: &Path) -> Option<Fixture> {
        let text = std::fs::read_to_string(path).ok()?;
        let value: Value = serde_json::from_str(&text).unwrap();
        let grown = value.get("grow").map(|grow| {
            let mut body = value["body"].clone();
            let steps = grow.as_array().cloned().unwrap_or_else(|| vec![grow.clone()]);
            for step in steps {
                let times = usize::try_from(step["times"].as_u64().unwrap()).unwrap();
                let target = body.pointer_mut(step["path"].as_str().unwrap()).unwrap();
                *target = Value::String(step["text"].as_str().unwrap().repeat(times));
            }
            body.to_string()
        });
        Some(Fixture { text, grown })
    }

    fn get(&self, key: &str) -> Option<Raw<'_>> {
        json::check(&self.text).unwrap().get(key)
    }

    fn body(&self) -> Raw<'_> {
        self.grown.as_deref().map_or_else(|| self.get("body").unwrap(), |body| json::check(body).unwrap())
    }

    fn check(&self) -> Vec<Violation> {
        let model = self.get("model").map(|model| ModelName::parse(&model.string().unwrap()).unwrap());
        let options =
            CheckOptions { model: model.as_ref(), previous: self.get("previous"), ..CheckOptions::default() };
        check(Wire::Anthropic, self.body(), options)
    }

    fn expected(&self) -> Vec<(String, String)> {
        let value: Value = serde_json::from_str(&self.text).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let expect = value["expect"].as_array().unwrap();
        expect.iter().map(|one| (text(&one["rule"]), text(&one["path"]))).collect()
    }
}

#[test]
fn every_rule_is_kept_by_one_body_and_broken_by_another() {
    for rule in rules(Wire::Anthropic) {
        let id = rule.id;
        let pass = Fixture::read(&corpus().join(format!("{id}.pass.json"))).expect(id);
        for violation in pass.check() {
            assert_ne!(violation.rule, id, "{id}.pass: {violation:?}");
            assert_ne!(violation.severity, Severity::Refused, "{id}.pass: {violation:?}");
        }
        let fail = Fixture::read(&corpus().join(format!("{id}.fail.json")));
        let shown = rule.severity != Severity::Allowed && !unseen(Wire::Anthropic).contains(&id);
        assert_eq!(fail.is_some(), shown, "{id}.fail");
        let Some(fail) = fail else { continue };
        if id == "AN-21" && Wire::Anthropic.parse(fail.body(), &ParseOptions::default()).is_err() {
            // Tokens are counted over what the wire reads.
            continue;
        }
        let found: Vec<_> = fail.check().into_iter().map(|one| (one.rule.to_owned(), one.path)).collect();
        assert_eq!(found, fail.expected(), "{id}.fail");
    }
}

#[test]
fn every_path_leads_somewhere() {
    for rule in rules(Wire::Anthropic) {
        let Some(fail) = Fixture::read(&corpus().join(format!("{}.fail.json", rule.id))) else { continue };
        let body: Value = serde_json::from_str(fail.body().text()).unwrap();
        for violation in fail.check() {
            // A member that was left out changed too.
            let there = body.pointer(&violation.path).is_some() || violation.rule == "AN-55";
            assert!(there, "{}: {}", rule.id, violation.path);
        }
    }
}

/// A body in which everything is wrong at once.
fn hostile(messages: usize) -> String {
    let mut list = Vec::new();
    for index in 0..messages {
        let seal = format!("c2lnbmF0dXJl{index}");
        list.push(match index % 3 {
            0 => serde_json::json!({ "role": "assistant", "content": [
                { "type": "thinking", "thinking": "t", "signature": seal, "cache_control": {} },
                { "type": "server_tool_use", "id": format!("s{index}"), "name": "advisor", "input": {} },
                { "type": "tool_use", "id": "a", "name": "n", "input": {} },
                { "type": "tool_use", "id": format!("b.{index}"), "name": "n", "input": {} }] }),
            1 => serde_json::json!({ "role": "user", "content": [
                { "type": "text", "text": "" },
                { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "image" }] },
                { "type": "advisor_tool_result", "tool_use_id": format!("s{}", index - 1) }] }),
            _ => serde_json::json!({ "role": "system", "content": [{ "type": "compaction", "content": "c", "signature": "s" }] }),
        });
    }
    serde_json::json!({ "model": "claude-fable-5-1", "messages": list }).to_string()
}

#[test]
fn time_grows_with_the_length_of_the_list() {
    let took = |messages: usize| {
        let (body, mut previous) = (hostile(messages), hostile(messages));
        previous = previous.replacen("\"text\":\"\"", "\"text\":\"changed\"", 1);
        let (body, previous) = (json::check(&body).unwrap(), json::check(&previous).unwrap());
        let start = Instant::now();
        let options = CheckOptions { previous: Some(previous), ..CheckOptions::default() };
        assert!(check(Wire::Anthropic, body, options).len() > messages);
        start.elapsed()
    };
    took(1000);
    let (short, long) = (took(2_000), took(40_000));
    assert!(long < short * 80 + Duration::from_millis(200), "{short:?} for 2000, {long:?} for 40000");
}

#[test]
fn anything_can_be_checked() {
    for text in [
        "[]",
        "{}",
        "null",
        "7",
        "\"x\"",
        "[null,1,\"x\",[],{}]",
        r#"{"messages":7}"#,
        r#"{"messages":[{"role":7,"content":7}]}"#,
        r#"[{"role":"user","content":[null,1,"x",[],{},{"type":7},{"type":"tool_result","content":[1,{"type":"image","source":{"data":"x"}}]}]}]"#,
        r#"{"tools":7,"system":7,"thinking":7,"thread":7,"cache_control":7,"messages":[{"role":"assistant","content":[{"type":"thinking"},{"type":"tool_use","id":7}]}]}"#,
    ] {
        let body = json::check(text).unwrap();
        check(Wire::Anthropic, body, CheckOptions::default());
        check(Wire::Anthropic, body, CheckOptions { previous: Some(body), ..CheckOptions::default() });
    }
}

/// Bodies the provider accepted, one JSON object `{"body": …}` a file, in the folder `SCROLLBACK_ACCEPTED`.
#[test]
#[ignore = "needs a folder of recorded bodies"]
fn what_was_accepted_is_not_refused() {
    let folder = std::env::var("SCROLLBACK_ACCEPTED").unwrap();
    let (mut bodies, mut refused) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let body = json::check(&text).unwrap().get("body").unwrap();
        let name = body.get("model").and_then(Raw::string);
        let model = name.map(|name| ModelName::parse(&format!("anthropic:{name}")).unwrap());
        let options = CheckOptions { model: model.as_ref(), ..CheckOptions::default() };
        bodies += 1;
        for violation in check(Wire::Anthropic, body, options) {
            refused += usize::from(violation.is_fatal(Strictness::Strict));
            println!("{}: {} {} {}", path.display(), violation.rule, violation.severity, violation.path);
        }
    }
    println!("{bodies} bodies, {refused} refused");
    assert_eq!(refused, 0);
}

#[test]
#[ignore = "takes time by the clock"]
fn a_thousand_messages_take_less_than_two_milliseconds() {
    let text = "some words of an answer that is as long as usual ".repeat(20);
    let list: Vec<Value> = (0..500)
        .flat_map(|turn| {
            let id = format!("toolu_{turn}");
            [
                serde_json::json!({ "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": format!("toolu_{}", turn - 1), "content": text }] }),
                serde_json::json!({ "role": "assistant", "content": [
                    { "type": "text", "text": text }, { "type": "tool_use", "id": id, "name": "read", "input": {} }] }),
            ]
        })
        .collect();
    let text = serde_json::json!({ "messages": list }).to_string();
    let body = json::check(&text).unwrap();
    let start = Instant::now();
    for _ in 0..20 {
        check(Wire::Anthropic, body, CheckOptions::default());
    }
    let took = start.elapsed() / 20;
    println!("{took:?} for {} bytes", text.len());
    assert!(took < Duration::from_millis(2), "{took:?}");
}
