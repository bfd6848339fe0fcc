//! The binary as people and scripts meet it: output, error lines and exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::{Run, folder, repository, scrollback, scrollback_in};
use serde_json::{Value, json};

const CHAT: &str = r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"two"}]"#;

/// One line on standard error, and an error object on standard output when asked for.
#[track_caller]
fn fails(run: &Run, code: i32, part: &str) {
    assert_eq!(run.code, code, "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    assert!(run.stderr.contains(part), "{part:?} is not in {run:?}");
}

#[track_caller]
fn fails_with(args: &[&str], input: &str, exit: i32, code: &str, path: Option<&str>) {
    let plain = scrollback(args, input);
    assert_eq!((plain.code, plain.stderr.lines().count(), plain.stdout.as_str()), (exit, 1, ""), "{plain:?}");
    let mut args = args.to_vec();
    args.push("--json");
    let run = scrollback(&args, input);
    assert_eq!((run.code, run.stderr.lines().count(), run.stdout.lines().count()), (exit, 1, 1), "{run:?}");
    let error = &run.json()["error"];
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].as_str().is_some_and(|message| !message.contains('\n')));
    if let Some(path) = path {
        assert_eq!(error["path"], path, "{error}");
    }
}

#[test]
fn list_in_list_out_one_message_a_line() {
    let run = scrollback(&["curate", "-", "-m", "turn_window(1)"], CHAT);
    assert_eq!(run.code, 0);
    assert_eq!(
        run.stdout,
        "[\n{\"role\":\"system\",\"content\":\"Be brief.\"},\n{\"role\":\"user\",\"content\":\"two\"}\n]\n"
    );
    assert_eq!(run.stderr, "");
}

#[test]
fn object_in_same_object_out_with_its_other_keys_untouched() {
    let body = r#"{"model":"x","temperature":1.0e0,"messages":[{"content":"a","role":"user"},{"role":"assistant","content":"b"}],"n":12345678901234567890123,"\u0065xtra":null}"#;
    let run = scrollback(&["curate", "-"], body);
    assert_eq!(
        run.stdout,
        "{\"model\":\"x\",\"temperature\":1.0e0,\"messages\":[\n{\"content\":\"a\",\"role\":\"user\"},\n{\"role\":\"assistant\",\"content\":\"b\"}\n],\"n\":12345678901234567890123,\"\\u0065xtra\":null}\n"
    );
}

#[test]
fn messages_go_back_byte_for_byte() {
    let odd = r#"{"content" : "\u00e9\/\ud83d\ude00","role":"user", "name":"N","x":1.50e+2,"weight":0,"y":[null, {"a":{}}]}"#;
    let run = scrollback(&["curate", "-", "--json"], &format!("[{odd}]"));
    assert!(run.stdout.contains(odd), "{}", run.stdout);
    let pretty = "[\n  {\n    \"role\": \"user\",\n    \"content\": \"a  b\\n\"\n  }\n]";
    assert_eq!(
        scrollback(&["curate", "-"], pretty).stdout,
        "[\n{\"role\":\"user\",\"content\":\"a  b\\n\"}\n]\n"
    );
}

#[test]
fn json_answers_have_every_key() {
    let run = scrollback(&["curate", "-", "-m", "sliding_window(1)", "--json"], CHAT);
    let answer = run.json();
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "messages",
            "wire",
            "view",
            "dropped",
            "changed",
            "warnings",
            "counts",
            "tokens",
            "events",
            "decisions",
            "epoch",
            "lost"
        ]
    );
    assert_eq!(answer["wire"], "openai-chat");
    assert_eq!(answer["view"], json!([{ "index": 0 }, { "index": 3 }]));
    assert_eq!(
        answer["dropped"][0],
        json!({ "index": 1, "manager": "sliding_window", "reason": "outside_window" })
    );
    assert_eq!(answer["counts"], json!({ "original": 4, "curated": 2 }));
    assert_eq!(answer["tokens"]["tokenizer"], "o200k_base");
    assert_eq!(answer["epoch"], Value::Null);
}

#[test]
fn summaries_made_in_place_come_back_as_decisions() {
    let run = scrollback(&["curate", "-", "-m", "summarize(max_turns=1, keep_recent=1)", "--json"], CHAT);
    let answer = run.json();
    assert_eq!(
        answer["view"],
        json!([{ "index": 0 }, { "synthetic": "summary", "covers": [1, 2] }, { "index": 3 }])
    );
    let decision = &answer["decisions"][0];
    assert_eq!(
        (&decision["decision"], &decision["covers"], &decision["by"]),
        (&json!("summary"), &json!([[1, 2]]), &json!("offline"))
    );
    assert_eq!(answer["dropped"][0]["by"], decision["position"]);
    assert_eq!(
        answer["messages"][1]["content"],
        "Summary of the earlier conversation:\n- user: one\n- assistant: 1"
    );
}

#[test]
fn closed_calls_name_their_id() {
    let pending = r#"[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}]"#;
    let run = scrollback(&["curate", "-", "--unfinished", "close", "--json"], pending);
    assert_eq!(run.json()["view"][2], json!({ "synthetic": "interrupted", "call_id": "a" }));
}

#[test]
fn the_example_explains_itself() {
    let example = repository("examples/support.json");
    let args =
        ["curate", &example, "-m", "tool_result_truncator(200)", "-m", "sliding_window(8)", "--explain"];
    let run = scrollback(&args, "");
    assert_eq!(run.code, 0);
    for part in [
        "9 of 15 messages",
        "left out by sliding_window: outside the window",
        "shortened by tool_result_truncator, 3,525 → 200 characters",
        "left out by coherence: a call whose results are not all there",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert!(!run.stderr.contains('\u{1b}'), "no colours where there is no terminal");
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap().as_array().unwrap().len(), 9);
}

#[test]
fn several_managers_compose_in_order() {
    let run = scrollback(&["curate", "-", "-m", "turn_window(2)", "-m", "sliding_window(0)", "--json"], CHAT);
    assert_eq!(run.json()["dropped"][0]["manager"], "sliding_window");
}

#[test]
fn bad_input_is_exit_4_with_a_path() {
    let message = |message: &str| format!("[{{\"role\":\"user\",\"content\":\"x\"}},{message}]");
    let cases: Vec<(String, &str, Option<&str>)> = vec![
        (String::new(), "bad_json", None),
        ("{".into(), "bad_json", None),
        ("[1,]".into(), "bad_json", Some("/messages/1")),
        (
            "{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}".into(),
            "bad_json",
            Some("/messages/0/content"),
        ),
        ("[{\"role\":\"user\",\"content\":\"\u{0}\"}]".into(), "bad_json", Some("/messages/0/content")),
        ("\u{feff}[]".into(), "bad_json", None),
        (format!("{}{}", "[".repeat(129), "]".repeat(129)), "bad_json", None),
        ("3".into(), "bad_input", None),
        ("{}".into(), "bad_input", None),
        ("{\"messages\":3}".into(), "bad_input", Some("/messages")),
        (message("3"), "bad_message", Some("/messages/1")),
        (message("{}"), "bad_message", Some("/messages/1/role")),
        (message("{\"role\":3}"), "bad_message", Some("/messages/1/role")),
        (message("{\"role\":\"robot\"}"), "bad_message", Some("/messages/1/role")),
        (message("{\"role\":\"user\",\"content\":3}"), "bad_message", Some("/messages/1/content")),
        (message("{\"role\":\"user\",\"content\":[3]}"), "bad_message", Some("/messages/1/content/0")),
        (
            message("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":3}]}"),
            "bad_message",
            Some("/messages/1/content/0/text"),
        ),
        (
            message("{\"role\":\"assistant\",\"tool_calls\":{}}"),
            "bad_message",
            Some("/messages/1/tool_calls"),
        ),
        (
            message("{\"role\":\"assistant\",\"tool_calls\":[3]}"),
            "bad_message",
            Some("/messages/1/tool_calls/0"),
        ),
        (
            message("{\"role\":\"assistant\",\"tool_calls\":[{\"id\":3}]}"),
            "bad_message",
            Some("/messages/1/tool_calls/0/id"),
        ),
        (message("{\"role\":\"user\",\"role\":\"system\"}"), "bad_json", Some("/messages/1")),
        (
            message("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\"text\":\"b\"}]}"),
            "bad_json",
            Some("/messages/1/content/0"),
        ),
    ];
    for (input, code, path) in cases {
        for command in ["curate", "tokens"] {
            fails_with(&[command, "-"], &input, 4, code, path);
        }
    }
    let run = scrollback_in(&folder("utf8"), &["curate", "-"], b"[\"\xff\"]");
    fails(&run, 4, "not UTF-8");
}

#[test]
fn what_is_odd_but_legal_is_kept() {
    let nested = format!(
        "[{{\"role\":\"user\",\"content\":\"\\u0000\",\"x\":{}{}}}]",
        "[".repeat(126),
        "]".repeat(126)
    );
    let run = scrollback(&["curate", "-"], &nested);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("\\u0000"));
    assert_eq!(scrollback(&["curate", "-"], "[]").stdout, "[]\n");
    let legacy = r#"[{"role":"user","content":"q"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}]"#;
    let run = scrollback(&["curate", "-", "--json", "--explain"], legacy);
    assert_eq!(run.json()["counts"]["curated"], 3);
    assert!(run.stderr.contains("paired by name with its result"), "{}", run.stderr);
    // An old-style call has no id, so a `function` message closes it, by its name.
    let unanswered = r#"[{"role":"user","content":"q"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}]"#;
    let run = scrollback(&["curate", "-", "--json", "--unfinished", "close"], unanswered);
    let closed = json!({"role": "function", "name": "f", "content": "[interrupted: no result was recorded]"});
    assert_eq!(run.json()["messages"][2], closed);
}

#[test]
fn a_wrong_command_line_is_exit_2() {
    fails_with(&["curate", "-", "-m", "sliding_windw(2)"], CHAT, 2, "unknown_manager", Some(""));
    fails_with(
        &["curate", "-", "-m", "sliding_window(-2)"],
        CHAT,
        2,
        "bad_option",
        Some("/sliding_window/window_size"),
    );
    fails_with(
        &["curate", "-", "-m", "passthrough", "-m", "sliding_window"],
        CHAT,
        2,
        "missing_option",
        Some("/1/sliding_window/window_size"),
    );
    fails_with(&["curate", "-", "--model", "opnai:gpt-4o"], CHAT, 2, "unknown_model", None);
    fails_with(&["curate", "-", "--from", "telegram"], CHAT, 2, "unknown_wire", None);
    fails_with(&["curate", "-", "--wat"], CHAT, 2, "usage", None);
    fails_with(&["curate"], CHAT, 2, "usage", None);
    fails_with(&["curate", "-", "--take", "-1"], CHAT, 2, "usage", None);
    fails_with(&["curat", "-"], CHAT, 2, "usage", None);
    fails_with(&["tokens", "--batch", "x", "file"], CHAT, 2, "usage", None);
    // Configuration is judged before the input is looked for.
    fails(&scrollback(&["curate", "no-such-file", "-m", "nonsense("], ""), 2, "column 10");
}

#[test]
fn what_fails_otherwise_is_exit_1() {
    fails_with(&["curate", "no-such-file.json"], "", 1, "io", None);
    fails_with(&["curate", "."], "", 1, "io", None);
    fails_with(&["curate", "-", "-m", "token_budget(2)"], CHAT, 1, "budget_too_small", None);
    let run = scrollback(&["curate", "-", "-m", "token_budget(2)", "--json"], CHAT);
    let error = &run.json()["error"];
    assert_eq!((error["needed"].as_u64().unwrap(), &error["budget"]), (15, &json!(2)));
    fails_with(&["curate", "-", "-m", "fit"], CHAT, 1, "unknown_model", None);
}

#[test]
fn tokens_are_counted_and_labelled() {
    assert_eq!(scrollback(&["tokens", "-"], CHAT).stdout, "25 tokens (exact, o200k_base)\n");
    assert_eq!(
        scrollback(&["tokens", "-", "--model", "openai:gpt-4"], CHAT).stdout,
        "25 tokens (exact, cl100k_base)\n"
    );
    let run = scrollback(&["tokens", "-", "--model", "anthropic:claude-sonnet-4-5", "--json"], CHAT);
    let answer = run.json();
    assert_eq!(
        (&answer["model"], &answer["method"]),
        (&json!("anthropic:claude-sonnet-4-5"), &json!("estimate"))
    );
    let sum: u64 = answer["messages"].as_array().unwrap().iter().map(|tokens| tokens.as_u64().unwrap()).sum();
    assert_eq!(answer["total"].as_u64().unwrap(), sum + answer["overhead"].as_u64().unwrap());
    assert!(
        scrollback(&["tokens", "-", "--model", "openai:brand-new"], CHAT)
            .stdout
            .contains("estimate, o200k_base")
    );
    assert_eq!(scrollback(&["tokens", "-", "--take", "1", "--json"], CHAT).json()["messages"], json!([7]));
}

#[test]
fn the_model_that_a_request_names_counts_and_judges_unless_another_is_named() {
    let request = |model: &str| {
        format!(
            r#"{{"model":"{model}","system":"You help.","tools":[{{"name":"f","input_schema":{{"type":"object"}}}}],
               "messages":[{{"role":"user","content":"hi"}},{{"role":"assistant","content":"yes"}}]}}"#
        )
    };
    let count = |arguments: &[&str], model: &str| scrollback(arguments, &request(model)).json();
    let named = count(&["tokens", "-", "--json"], "claude-opus-4-8");
    assert_eq!(
        (&named["model"], &named["method"]),
        (&json!("anthropic:claude-opus-4-8"), &json!("estimate"))
    );
    let part = |name: &str| named["parts"][name].as_u64().unwrap();
    let said = named["messages"].as_array().unwrap().iter().map(|tokens| tokens.as_u64().unwrap());
    assert_eq!(part("messages"), said.sum::<u64>());
    assert!(part("instructions") > 0 && part("tools") > 0);
    assert_eq!(part("instructions") + part("tools") + 3, named["overhead"].as_u64().unwrap());

    let other = count(&["tokens", "-", "--json", "--model", "openai:gpt-4"], "claude-opus-4-8");
    assert_eq!(other["tokenizer"], json!("cl100k_base"));
    assert_eq!(count(&["tokens", "-", "--json"], "nobody-knows-it")["model"], json!(null));
    assert_eq!(count(&["curate", "-", "--json"], "claude-opus-4-8")["tokens"]["method"], json!("estimate"));

    // This model refuses a list that ends with the assistant; older ones take it.
    let check = |model: &str| scrollback(&["check", "-", "--for", "anthropic"], &request(model)).code;
    assert_eq!((check("claude-opus-4-8"), check("claude-3-haiku-20240307")), (4, 0));
}

#[test]
fn batches_answer_every_line_and_go_on_after_a_bad_one() {
    let file = folder("batch").join("chat.json");
    std::fs::write(&file, CHAT).unwrap();
    let lines = [
        format!(r#"{{"id":{{"a":1}},"messages":{CHAT},"managers":"turn_window(1)"}}"#),
        "not json".into(),
        "[1]".into(),
        format!(
            r#"{{"id":4,"file":{file:?},"take":2,"managers":["sliding_window(1)"],"context":{{"preserve_task":false}}}}"#
        ),
        r#"{"id":5,"messages":[],"manager":"x"}"#.into(),
        r#"{"id":6,"messages":[],"context":{"preserve":true}}"#.into(),
        r#"{"id":7}"#.into(),
        r#"{"id":8,"messages":[{"role":"robot"}]}"#.into(),
        String::new(),
        r#"{"messages":[]}"#.into(),
        r#"{"id":10,"file":"no-such-file"}"#.into(),
        r#"{"id":11,"messages":[],"context":{"unfinished":"maybe"}}"#.into(),
    ];
    let run = scrollback(&["curate", "--batch", "-"], &lines.join("\n"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let answers: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 11);
    assert!(run.stdout.starts_with(r#"{"id":{"a":1},"messages":"#));
    assert_eq!(answers[0]["counts"]["curated"], 2);
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&Value::Null, &json!("bad_json")));
    assert_eq!(answers[2]["error"]["code"], "bad_input");
    assert_eq!(
        (&answers[3]["id"], &answers[3]["view"]),
        (&json!(4), &json!([{ "index": 0 }, { "index": 1 }]))
    );
    assert_eq!(answers[4]["error"]["path"], "/manager");
    assert!(answers[4]["error"]["message"].as_str().unwrap().contains("did you mean `managers`?"));
    assert_eq!(answers[5]["error"]["path"], "/context/preserve");
    assert_eq!(answers[6]["error"]["code"], "bad_input");
    assert_eq!(answers[7]["error"]["path"], "/messages/0/role");
    assert_eq!(answers[8]["counts"]["original"], 0);
    assert_eq!(answers[9]["error"]["code"], "io");
    assert_eq!(answers[10]["error"]["code"], "bad_input");

    let run = scrollback(
        &["tokens", "--batch", "-"],
        &format!(r#"{{"id":1,"messages":{CHAT},"model":"openai:gpt-4o"}}"#),
    );
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).unwrap()["total"], 25);
    fails(&scrollback(&["curate", "--batch", "no-such-file"], ""), 1, "no-such-file");
}

#[test]
fn the_configuration_file_is_found_upwards_and_checked() {
    let root = folder("config");
    let below = root.join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    std::fs::write(
        root.join("scrollback.toml"),
        "[models.\"openai-compatible:mine\"]\ncontext_window = 64\n",
    )
    .unwrap();
    let args = ["curate", "-", "-m", "fit(reserve=0)", "--model", "openai-compatible:mine", "--json"];
    let run = scrollback_in(&below, &args, CHAT.as_bytes());
    assert_eq!(run.json()["counts"]["curated"], 4, "{run:?}");
    std::fs::write(root.join("scrollback.toml"), "[models.\"openai-compatible:mine\"]\ncontext_windw = 64\n")
        .unwrap();
    let run = scrollback_in(&below, &args, CHAT.as_bytes());
    fails(&run, 2, "line 2: unknown key `context_windw`");
    assert!(run.stderr.contains("did you mean `context_window`?"), "{}", run.stderr);
    assert_eq!(run.json()["error"]["code"], "bad_config");
    std::fs::write(root.join("scrollback.toml"), "[models.\"gpt-4o\"]\ncontext_window = 64\n").unwrap();
    fails(&scrollback_in(&below, &args, CHAT.as_bytes()), 2, "openai:gpt-4o");
}

#[test]
fn redact_replaces_every_hit_and_touches_nothing_else() {
    let text = "password=hunter2\nmail me at a@example.com, EMP-123456\n";
    assert_eq!(scrollback(&["redact", "-"], text).stdout, text.replace("hunter2", "[redacted:assignment]"));
    let run = scrollback(&["redact", "-", "--json"], text);
    assert_eq!(run.json()["counts"], json!({ "assignment": 1 }));
    assert_eq!(scrollback(&["redact", "-", "--json"], "").json(), json!({ "text": "", "counts": {} }));

    let root = folder("redact");
    let config = "[redact]\nemail = true\npatterns = ['EMP-[0-9]{6}']\n";
    std::fs::write(root.join("scrollback.toml"), config).unwrap();
    let run = scrollback_in(&root, &["redact", "-", "--json"], text.as_bytes());
    assert_eq!(run.json()["counts"], json!({ "assignment": 1, "custom": 1, "email": 1 }));
    std::fs::write(root.join("scrollback.toml"), "[redact]\npatterns = ['(']\n").unwrap();
    fails(&scrollback_in(&root, &["redact", "-"], b""), 2, "pattern 1");
    fails(&scrollback_in(&folder("redact2"), &["redact", "-"], b"\xff"), 4, "not UTF-8 at byte 0");
    fails(&scrollback(&["redact", "no-such-file"], ""), 1, "no-such-file");
}

#[test]
fn help_has_examples_and_completions_work() {
    for command in ["curate", "tokens", "redact", "completions"] {
        let run = scrollback(&[command, "--help"], "");
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("Example"), "{command}");
    }
    assert!(scrollback(&["--version"], "").stdout.starts_with("scrollback "));
    for shell in ["bash", "zsh", "fish"] {
        assert!(scrollback(&["completions", shell], "").stdout.contains("scrollback"));
    }
}

#[test]
fn a_large_input_is_no_trouble() {
    let message = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "lorem ipsum ".repeat(400));
    let body = format!("[{}]", vec![message; 2000].join(","));
    let run = scrollback(&["curate", "-", "-m", "sliding_window(3)", "--json"], &body);
    assert_eq!(run.json()["counts"], json!({ "original": 2000, "curated": 3 }));
}
