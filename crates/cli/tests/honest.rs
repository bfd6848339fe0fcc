//! What commands print is all there is to say, and what they take is what they mean.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::support::{folder, scrollback, scrollback_in};

#[test]
fn values_of_any_depth_are_printed_as_json() {
    for depth in [127, 128, 300] {
        let source = "[".repeat(depth) + &"]".repeat(depth);
        let run = scrollback(&["lisp", "eval", &source, "--json"], "");
        assert_eq!(run.code, 0, "{depth}: {}", run.stderr);
        assert!(run.stdout.contains(&format!("\"json\":{source},")), "{depth}: {}", run.stdout);
        assert!(run.stdout.starts_with("{\"value\":\""), "{}", run.stdout);
    }
}

#[test]
fn a_tools_result_names_its_call() {
    let folder = folder("tool-result");
    let append = |more: &[&str]| {
        let args = ["history", "anna", "append", "--role", "tool", "--content", "42"];
        scrollback_in(&folder, &[&args, more].concat(), b"")
    };
    let refused = append(&[]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    assert!(refused.stderr.contains("--call-id"), "{}", refused.stderr);
    assert!(!folder.join("scrollback.db").exists(), "nothing was written");
    assert_eq!(append(&["--call-id", "c1"]).code, 0);
}

#[test]
fn a_repaired_body_is_printed_whole_as_json() {
    let folder = folder("repaired-whole");
    let body = json!({ "model": "gpt-4o", "temperature": 0.5, "messages": [
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{}" } }] }] });
    std::fs::write(folder.join("body.json"), body.to_string()).unwrap();
    let plain = scrollback_in(&folder, &["check", "body.json", "--for", "openai-chat", "--repair"], b"");
    let told =
        scrollback_in(&folder, &["check", "body.json", "--for", "openai-chat", "--repair", "--json"], b"");
    let (plain, told): (Value, Value) = (plain.json(), told.json());
    for (key, value) in plain.as_object().unwrap() {
        assert_eq!(&told[key], value, "{key}");
    }
    assert_eq!(told["repairs"][0]["rule"], "OC-1");
}

#[test]
fn an_export_to_a_file_says_what_it_wrote() {
    let folder = folder("export-told");
    for recipient in ["anna", "bert"] {
        assert_eq!(scrollback_in(&folder, &["history", recipient, "append", "--content", "hi"], b"").code, 0);
    }
    let run = scrollback_in(&folder, &["export", "--all", "--to", "all.jsonl", "--json"], b"");
    assert_eq!(
        run.json(),
        json!({ "ok": true, "to": "all.jsonl", "format": "scrollback", "conversations": 2 })
    );
    let plain = scrollback_in(&folder, &["export", "--all", "--to", "all.jsonl"], b"");
    assert_eq!((plain.code, plain.stdout.as_str()), (0, ""));
}

#[test]
fn an_agent_file_names_the_file_that_is_missing() {
    let folder = folder("agent-missing");
    std::fs::write(
        folder.join("AGENT.yaml"),
        "name: t\nmodel: offline:echo\nsystem: { file: instructions.md }\n",
    )
    .unwrap();
    let run = scrollback_in(&folder, &["agent", "AGENT.yaml", "--input", "hi"], b"");
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("instructions.md"), "{}", run.stderr);
}

#[test]
fn messages_without_ids_verify_and_show() {
    let folder = folder("without-ids");
    let gemini = json!({ "contents": [
        { "role": "user", "parts": [{ "text": "weather" }] },
        { "role": "model", "parts": [{ "functionCall": { "name": "w", "args": { "c": "Paris" } } }] },
        { "role": "user", "parts": [{ "functionResponse": { "name": "w", "response": { "r": 18 } } }] },
        { "role": "model", "parts": [{ "text": "18 degrees" }] },
    ] });
    let old = json!([
        { "role": "user", "content": "weather" },
        { "role": "assistant", "content": null, "function_call": { "name": "w", "arguments": "{\"c\":\"Paris\"}" } },
        { "role": "function", "name": "w", "content": "18" },
        { "role": "assistant", "content": "18 degrees" },
    ]);
    for (recipient, messages) in [("gemini", gemini), ("old", old)] {
        std::fs::write(folder.join("messages.json"), messages.to_string()).unwrap();
        let appended =
            scrollback_in(&folder, &["history", recipient, "append", "--file", "messages.json"], b"");
        assert_eq!(appended.code, 0, "{}", appended.stderr);
        let shown = scrollback_in(&folder, &["history", recipient, "show"], b"");
        assert!(shown.stdout.contains("w({\"c\":\"Paris\"})"), "{recipient}: {}", shown.stdout);
        assert_eq!(shown.stdout.lines().count(), 4, "{recipient}: {}", shown.stdout);
    }
    let verified = scrollback_in(&folder, &["verify"], b"");
    assert_eq!(verified.code, 0, "{}", verified.stdout);
}

#[test]
fn a_summary_that_failed_keeps_no_person_from_asking_again() {
    let folder = folder("compact-again");
    for number in 0..13 {
        for role in ["user", "assistant"] {
            let text = format!("{role} {number}");
            let args = ["history", "anna", "append", "--role", role, "--content", &text];
            assert_eq!(scrollback_in(&folder, &args, b"").code, 0);
        }
    }
    std::fs::write(folder.join("away.yaml"), "- error: {kind: auth}\n").unwrap();
    let compact = |model: &str| {
        scrollback_in(&folder, &["history", "anna", "compact", "--model", model, "--json"], b"")
    };
    let failed = compact("offline:script=away.yaml");
    assert_eq!(failed.code, 1, "{}{}", failed.stdout, failed.stderr);
    let again = compact("offline");
    assert_eq!(again.json()["compacted"], true, "{}", again.stdout);
}

#[test]
fn no_manager_parts_an_item_from_its_reasoning() {
    let folder = folder("parted");
    let id = |kind: &str, number: usize| format!("{kind}_{number:048x}");
    let mut input = vec![json!({ "role": "user", "content": "first question" })];
    for round in 0..4 {
        input.push(json!({ "type": "reasoning", "id": id("rs", round), "summary": [] }));
        input.push(json!({ "type": "function_call", "id": id("fc", round), "call_id": id("call", round), "name": "f", "arguments": "{}" }));
        input.push(json!({ "type": "function_call_output", "call_id": id("call", round), "output": "result ".repeat(30) }));
    }
    // Answered without another thought: its reasoning stands before the calls.
    input.push(json!({ "type": "message", "id": id("msg", 1), "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": "done", "annotations": [] }] }));
    input.push(json!({ "role": "user", "content": "next question" }));
    input.push(json!({ "type": "reasoning", "id": id("rs", 9), "summary": [] }));
    input.push(json!({ "type": "message", "id": id("msg", 2), "role": "assistant", "status": "completed",
        "content": [{ "type": "output_text", "text": "done", "annotations": [] }] }));
    input.push(json!({ "role": "user", "content": "last question" }));
    std::fs::write(folder.join("body.json"), json!({ "model": "gpt-5", "input": input }).to_string())
        .unwrap();
    let rules = |file: &str| -> Vec<String> {
        let run = scrollback_in(&folder, &["check", file, "--for", "openai-responses", "--json"], b"");
        let found = run.json()["violations"].as_array().unwrap().clone();
        found.iter().map(|one| one["rule"].as_str().unwrap().to_string()).collect()
    };
    assert!(!rules("body.json").contains(&"OR-5".to_string()));
    let mut dropped = 0;
    for manager in [
        "sliding_window(3)",
        "sliding_window(4)",
        "token_budget(120)",
        "relevant(100)",
        "auto(300)",
        "turn_window(2)",
        "sticky(token_budget(120))",
    ] {
        let curated = scrollback_in(&folder, &["curate", "body.json", "-m", manager], b"");
        assert_eq!(curated.code, 0, "{manager}: {}", curated.stderr);
        std::fs::write(folder.join("curated.json"), &curated.stdout).unwrap();
        assert!(!rules("curated.json").contains(&"OR-5".to_string()), "{manager}: {}", curated.stdout);
        dropped += usize::from(curated.stdout.contains("done") && !curated.stdout.contains(&id("msg", 1)));
    }
    assert!(dropped > 0, "no manager parted an item from its reasoning; the test needs another body");
}
