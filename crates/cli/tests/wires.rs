//! `check`, `convert`, and every command on every format, as scripts meet them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::{Run, folder, scrollback, scrollback_in};
use serde_json::{Value, json};

const OPEN_CALL: &str = r#"[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"well?"}]"#;

const CLAUDE: &str = r#"{"system":"Be brief.","messages":[{"role":"user","content":"weather?"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"t1","name":"get","input":{"city":"Oslo"}},{"type":"tool_use","id":"t2","name":"get","input":{"city":"Rome"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a long answer about Oslo"},{"type":"tool_result","tool_use_id":"t2","content":"20"},{"type":"text","text":"quick!"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"so","signature":"c2ln"},{"type":"text","text":"4 and 20"}]},{"role":"user","content":"thanks"}]}"#;

fn json_of(run: &Run) -> Value {
    assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    run.json()
}

#[test]
fn a_broken_list_is_exit_4_with_rule_and_place() {
    let run = scrollback(&["check", "-", "--for", "openai-chat", "--json"], OPEN_CALL);
    let answer = json_of(&run);
    assert_eq!((run.code, run.stderr.as_str()), (4, ""));
    assert_eq!((&answer["wire"], &answer["valid"]), (&json!("openai-chat"), &json!(false)));
    let violation = &answer["violations"][0];
    assert_eq!(violation["rule"], "OC-1");
    assert_eq!(violation["path"], "/messages/1/tool_calls/0");
    assert_eq!(violation["severity"], "R");
    assert!(violation["message"].is_string() && violation.get("model_gate").is_none());

    let plain = scrollback(&["check", "-", "--for", "openai-chat"], OPEN_CALL);
    assert_eq!(plain.code, 4);
    assert!(plain.stdout.starts_with("R OC-1   /messages/1/tool_calls/0  "), "{}", plain.stdout);
    assert!(plain.stdout.ends_with("not valid for openai-chat: 1 refused (--repair fixes this)\n"));
}

#[test]
fn a_repaired_list_is_printed_and_passes() {
    let run = scrollback(&["check", "-", "--for", "openai-chat", "--repair", "--json"], OPEN_CALL);
    let answer = json_of(&run);
    assert_eq!(run.code, 0);
    assert_eq!(answer["repairs"][0]["rule"], "OC-1");
    assert_eq!(answer["messages"][2]["content"], "[interrupted: no result was recorded]");
    let again =
        scrollback(&["check", "-", "--for", "openai-chat", "--json"], &answer["messages"].to_string());
    assert_eq!((again.code, json_of(&again)["valid"].clone()), (0, json!(true)));
}

#[test]
fn gates_and_hearsay_do_not_count_until_asked() {
    let prefill = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#;
    let check = |extra: &[&str], body: &str, wire: &str| {
        let mut args = vec!["check", "-", "--for", wire, "--json"];
        args.extend(extra);
        let run = scrollback(&args, body);
        (run.code, json_of(&run)["violations"].clone())
    };
    let (code, found) = check(&[], prefill, "anthropic");
    assert_eq!((code, &found[0]["rule"]), (0, &json!("AN-12")));
    assert!(found[0]["model_gate"].is_string());
    let (code, found) = check(&["--model", "anthropic:claude-opus-4-6"], prefill, "anthropic");
    assert_eq!((code, &found[0]["rule"]), (4, &json!("AN-12")));
    assert!(found[0].get("model_gate").is_none());
    assert_eq!(check(&["--model", "anthropic:claude-haiku-4-5"], prefill, "anthropic"), (0, json!([])));

    let empty = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[]}]"#;
    let (code, found) = check(&[], empty, "openai-chat");
    assert_eq!((code, &found[0]["rule"], &found[0]["unverified"]), (0, &json!("OC-6"), &json!(true)));
    assert_eq!(check(&["--strict"], empty, "openai-chat").0, 4);
}

#[test]
fn what_was_sent_before_shows_what_reasoning_is_bound_to() {
    let folder = folder("bound");
    std::fs::write(folder.join("before.json"), CLAUDE).unwrap();
    std::fs::write(folder.join("after.json"), CLAUDE.replace("a long answer about Oslo", "[cleared]"))
        .unwrap();
    let args =
        ["check", "after.json", "--for", "anthropic", "--model", "anthropic:claude-fable-5-2", "--json"];
    let rules = |run: &Run| -> Vec<String> {
        let violations = json_of(run)["violations"].clone();
        violations.as_array().unwrap().iter().map(|one| one["rule"].as_str().unwrap().into()).collect()
    };
    assert!(!rules(&scrollback_in(&folder, &args, b"")).contains(&"AN-34".to_string()));
    let mut with = args.to_vec();
    with.extend(["--previous", "before.json"]);
    let run = scrollback_in(&folder, &with, b"");
    assert!(rules(&run).contains(&"AN-34".to_string()), "{run:?}");
    assert_eq!(run.code, 4);
    with.push("--repair");
    let repaired = json_of(&scrollback_in(&folder, &with, b""));
    assert_eq!(repaired["messages"][3]["content"], json!([{ "type": "text", "text": "4 and 20" }]));
    assert_eq!(repaired["messages"][1]["content"][0]["type"], "thinking");
}

#[test]
fn conversion_lists_what_is_lost_where_it_stood() {
    let run = scrollback(&["convert", "-", "--to", "openai-chat", "--json"], CLAUDE);
    let answer = json_of(&run);
    assert_eq!((&answer["from"], &answer["to"]), (&json!("anthropic"), &json!("openai-chat")));
    assert_eq!(answer["messages"].as_array().unwrap().len(), 8);
    let lost: Vec<(&str, &str)> = answer["lost"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lost| (lost["what"].as_str().unwrap(), lost["path"].as_str().unwrap()))
        .collect();
    assert_eq!(lost, [("reasoning", "/messages/1/content/0"), ("reasoning", "/messages/3/content/0")]);
    let unknown = scrollback(&["convert", "-", "--to", "openai"], CLAUDE);
    assert_eq!(unknown.code, 2);
    for wire in ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock", "scrollback"] {
        assert!(unknown.stderr.contains(wire), "{unknown:?}");
    }
}

#[test]
fn there_and_back_the_conversation_is_the_same() {
    let list = r#"[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"t","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"not json"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{\"__raw\":\"x\"}"}},{"id":"c3","type":"function","function":{"name":"f","arguments":"{\"n\": 1.50}"}}]},{"role":"tool","tool_call_id":"c1","content":"r1"},{"role":"tool","tool_call_id":"c2","content":""},{"role":"tool","tool_call_id":"c3","content":"r3"},{"role":"user","content":"ok"}]"#;
    for wire in ["openai-responses", "anthropic", "gemini", "bedrock", "scrollback"] {
        let there = scrollback(&["convert", "-", "--to", wire], list);
        assert_eq!(there.code, 0, "{wire}: {there:?}");
        let back =
            scrollback(&["convert", "-", "--from", wire, "--to", "openai-chat", "--json"], &there.stdout);
        let mut messages = json_of(&back)["messages"].clone();
        // Bedrock has no empty result.
        if messages[4]["content"] == "(empty)" {
            messages[4]["content"] = json!("");
        }
        assert_eq!(messages, serde_json::from_str::<Value>(list).unwrap(), "{wire}");
    }
}

#[test]
fn entries_of_one_message_share_its_index_on_every_wire() {
    let answer = json_of(&scrollback(&["curate", "-", "-m", "turn_window(2)", "--json"], CLAUDE));
    assert_eq!(answer["counts"], json!({ "original": 8, "curated": 4 }));
    assert_eq!(
        answer["view"],
        json!([{ "index": null }, { "index": 2 }, { "index": 3, "changed": true }, { "index": 4 }])
    );
    assert_eq!(answer["changed"][0]["reason"], "bound_reasoning");
    assert_eq!(answer["system"], "Be brief.");
    let dropped: Vec<Value> =
        answer["dropped"].as_array().unwrap().iter().map(|drop| drop["index"].clone()).collect();
    assert_eq!(dropped, [0, 1, 2, 2]);
}

#[test]
fn a_wire_that_needs_a_user_first_gets_one_within_the_budget() {
    let list = r#"[{"role":"user","content":"one two three four"},{"role":"assistant","content":"five six seven eight"},{"role":"user","content":"nine"}]"#;
    for limit in 12..40 {
        let manager = format!("token_budget({limit})");
        let args = ["curate", "-", "-m", &manager, "--to", "anthropic", "--no-task", "--json"];
        let answer = json_of(&scrollback(&args, list));
        if answer.get("error").is_some() {
            continue;
        }
        assert!(answer["tokens"]["curated"].as_u64().unwrap() <= limit, "{answer}");
        if answer["counts"]["curated"] == 0 {
            continue;
        }
        assert_eq!(answer["messages"][0]["role"], "user", "{answer}");
        let counted =
            scrollback(&["tokens", "-", "--json"], &json!({ "messages": answer["messages"] }).to_string());
        assert_eq!(json_of(&counted)["total"], answer["tokens"]["curated"], "{answer}");
    }
}

#[test]
fn transcripts_are_read_where_messages_are() {
    let session = concat!(
        r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":"hi"}}"#,
        "\n",
        r#"{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"s","timestamp":"2026-01-01T00:00:01Z","message":{"id":"m","role":"assistant","content":[{"type":"text","text":"hello"}]}}"#,
        "\n{broken\n"
    );
    let run = scrollback(&["convert", "-", "--to", "openai-chat", "--json"], session);
    let answer = json_of(&run);
    assert_eq!(answer["from"], "claude-code");
    assert_eq!(
        answer["messages"],
        json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "hello" }])
    );
    assert!(run.stderr.contains("line 3"), "{run:?}");
    let checked = scrollback(&["check", "-", "--for", "openai-chat", "--json"], session);
    assert_eq!((checked.code, json_of(&checked)["valid"].clone()), (0, json!(true)));
    let tokens = scrollback(&["tokens", "-", "--from", "claude-code"], session);
    assert!(tokens.stdout.ends_with("tokens (exact, o200k_base)\n"), "{tokens:?}");
    let wrong = scrollback(&["curate", "-", "--from", "codex"], "nothing of the kind");
    assert_eq!((wrong.code, wrong.stderr.lines().count()), (4, 1), "{wrong:?}");
}

#[test]
fn batches_answer_every_line_and_go_on() {
    let folder = folder("wire-batch");
    let several = r#"[{"task_id":1,"trial":0,"reward":1.0,"traj":[{"role":"user","content":"a"}]},{"task_id":2,"trial":0,"reward":0.0,"traj":[{"role":"user","content":"b"}]}]"#;
    std::fs::write(folder.join("several.json"), several).unwrap();
    let lines = [
        r#"{"id":1,"for":"openai-chat","messages":[{"role":"user","content":"a","role":"tool"}]}"#,
        "{",
        r#"{"id":3,"for":"gemini","contents":[{"role":"function","parts":[{"text":"a"}]}],"repair":true}"#,
        r#"{"id":4,"for":"anthropic","system":"s","messages":[{"role":"user","content":"a"}]}"#,
        r#"{"id":5,"for":"nowhere","messages":[]}"#,
        r#"{"id":6,"for":"openai-chat","file":"several.json"}"#,
        r#"{"id":7,"for":"openai-chat","messages":[],"input":"x"}"#,
    ];
    let run = scrollback_in(&folder, &["check", "--batch", "-"], lines.join("\n").as_bytes());
    assert_eq!(run.code, 0);
    let answers: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 8, "{}", run.stdout);
    assert_eq!(answers[0]["error"]["code"], "bad_json");
    assert_eq!(
        (&answers[1]["error"]["line"], &answers[1]["error"]["byte"]),
        (&json!(2), &json!(lines[0].len() + 2))
    );
    assert_eq!(answers[2]["contents"][0]["role"], "user");
    assert_eq!(answers[3]["valid"], true);
    assert_eq!(answers[4]["error"]["code"], "unknown_wire");
    assert_eq!((&answers[5]["conversation"], &answers[6]["conversation"]), (&json!(0), &json!(1)));
    assert_eq!(answers[7]["error"]["code"], "bad_input");
}

#[test]
fn lines_without_end_are_refused_and_the_batch_goes_on() {
    let folder = folder("long-line");
    let mut text = format!(
        "{{\"id\":1,\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}]}}\n",
        "x".repeat(65 << 20)
    );
    text.push_str(r#"{"id":2,"messages":[{"role":"user","content":"a"}]}"#);
    std::fs::write(folder.join("cases.jsonl"), text).unwrap();
    let run = scrollback_in(&folder, &["tokens", "--batch", "cases.jsonl"], b"");
    let answers: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((run.code, answers.len()), (0, 2));
    assert_eq!((&answers[0]["error"]["line"], &answers[0]["error"]["byte"]), (&json!(1), &json!(0)));
    assert_eq!(answers[1]["total"], 8);
}

#[test]
fn dialects_of_the_configuration_reach_the_check() {
    let folder = folder("dialect");
    std::fs::write(
        folder.join("scrollback.toml"),
        "[models.\"openai-compatible:ds\"]\ndialect = \"deepseek\"\n",
    )
    .unwrap();
    let list = r#"[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"x"}]"#;
    let check = |model: &str| {
        scrollback_in(
            &folder,
            &["check", "-", "--for", "openai-chat", "--model", model, "--json"],
            list.as_bytes(),
        )
    };
    assert_eq!(json_of(&check("openai-compatible:ds"))["violations"][0]["rule"], "OC-15");
    assert_eq!(check("openai-compatible:other").code, 0);
}

#[test]
fn every_conversion_lists_exactly_what_it_loses() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/convert");
    let mut cases = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let case: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let (from, to) = (case["from"].as_str().unwrap(), case["to"].as_str().unwrap());
        let run =
            scrollback(&["convert", "-", "--from", from, "--to", to, "--json"], &case["body"].to_string());
        let mut answer = json_of(&run);
        let lost: Vec<Value> = answer["lost"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lost| json!({ "path": lost["path"], "what": lost["what"] }))
            .collect();
        assert_eq!(Value::from(lost), case["lost"], "{}", path.display());
        for key in ["lost", "from", "to"] {
            answer.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(answer, case["expect"], "{}", path.display());
        cases += 1;
    }
    assert!(cases >= 18, "only {cases} cases were found");
}

/// Thinking is switched off outside the messages, where the loop it is in cannot be sent with it.
#[test]
fn what_is_mended_outside_the_messages_reaches_the_request() {
    let body = r#"{"thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":4000,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}"#;
    let run = scrollback(
        &[
            "curate",
            "-",
            "--from",
            "anthropic",
            "--to",
            "anthropic",
            "--model",
            "anthropic:claude-sonnet-4-5",
        ],
        body,
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains(r#""thinking":{"type":"disabled"}"#), "{}", run.stdout);
}

/// Results that are shown beside their calls are not in order of position; each is told of all the same.
#[test]
fn every_mended_entry_of_a_list_with_late_results_is_marked() {
    let call = |id: &str| json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": id, "name": "f", "input": {} }] });
    let result = |id: &str| json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": "x" }] });
    let ids: Vec<String> = (0..6).map(|number| format!("a.{number}")).collect();
    let mut messages = vec![json!({ "role": "user", "content": "go" })];
    messages.extend(ids.iter().map(|id| call(id)));
    messages.extend(ids.iter().rev().map(|id| result(id)));
    let run = scrollback(
        &["curate", "-", "--from", "anthropic", "--to", "anthropic", "--json"],
        &json!({ "messages": messages }).to_string(),
    );
    let answer = json_of(&run);
    let view = answer["view"].as_array().unwrap();
    assert_eq!(view.len(), 13, "{answer}");
    assert!(view.iter().skip(1).all(|item| item["changed"] == true), "{}", answer["view"]);
}
