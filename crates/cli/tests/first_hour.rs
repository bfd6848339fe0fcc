//! What a person meets in the first hour: which conversation was read, what may be left out, what the binary suggests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support::{folder, repository, scripted, scrollback, scrollback_in};
use serde_json::{Value, json};

const CHAT: &str = r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"one"},{"role":"assistant","content":"1"},{"role":"user","content":"two"}]"#;

fn session() -> String {
    repository("examples/session.jsonl")
}

#[test]
fn commands_say_which_of_several_conversations_they_used() {
    let file = session();
    for command in [&["tokens"][..], &["check"], &["curate", "-m", "turn_window(1)"]] {
        let run = scrollback(&[command, &[&file]].concat(), "");
        assert!(
            run.stderr.contains("note: conversation 1 of 3 (--conversation N for another, --all)"),
            "{run:?}"
        );
        let run = scrollback(&[command, &[&file, "--conversation", "3"]].concat(), "");
        assert!(!run.stderr.contains("conversation 1 of 3"), "{run:?}");
        let run = scrollback(&[command, &[&file, "--all"]].concat(), "");
        for number in 1..=3 {
            assert!(run.stderr.contains(&format!("note: conversation {number} of 3")), "{run:?}");
        }
    }
    let second = scrollback(&["tokens", &file, "--conversation", "2", "--json"], "").json();
    assert_eq!((&second["conversation"], &second["conversations"]), (&json!(2), &json!(3)));
    let all = scrollback(&["tokens", &file, "--all", "--json"], "");
    let all: Vec<Value> = all.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(all.len(), 3);
    assert_eq!(all[1], second, "the same conversation counts the same, alone and among all");
    assert_ne!(all[0]["total"], all[1]["total"]);
    let curated = scrollback(&["curate", &file, "--conversation", "2", "--json"], "").json();
    assert_eq!((&curated["conversation"], &curated["counts"]["original"]), (&json!(2), &json!(2)));
}

#[test]
fn a_conversation_is_counted_from_1_and_one_that_is_not_there_is_refused() {
    let file = session();
    let none = scrollback(&["check", &file, "--conversation", "4", "--json"], "");
    assert_eq!((none.code, none.json()["error"]["code"].as_str()), (4, Some("bad_input")));
    assert!(none.stderr.contains("there is no conversation 4"), "{none:?}");
    assert_eq!(scrollback(&["check", &file, "--conversation", "0"], "").code, 2);
    assert_eq!(scrollback(&["check", &file, "--conversation", "1", "--all"], "").code, 2);
}

#[test]
fn check_without_a_wire_uses_the_one_the_messages_are_in() {
    let chat = scrollback(&["check", "-"], CHAT);
    assert_eq!((chat.code, chat.stdout.as_str()), (0, "valid for openai-chat\n"), "{chat:?}");
    let anthropic = scrollback(&["check", &repository("examples/anthropic.json"), "--json"], "").json();
    assert_eq!(anthropic["wire"], "anthropic");
    let transcript = scrollback(&["check", &session(), "--json"], "").json();
    assert_eq!(transcript["wire"], "anthropic", "a session of Claude Code is in the Messages wire");
    let nothing = scrollback(&["check", "-", "--json"], r#"{"temperature": 1}"#);
    assert_eq!(
        (nothing.code, nothing.json()["error"]["code"].as_str()),
        (4, Some("bad_input")),
        "{nothing:?}"
    );
}

#[test]
fn findings_of_one_rule_are_one_line_and_all_of_them_for_programs() {
    let orphans: Vec<Value> = (0..12)
        .map(|number| json!({ "role": "tool", "tool_call_id": format!("c{number}"), "content": "lost" }))
        .collect();
    let list =
        json!([[json!({ "role": "user", "content": "go" })].as_slice(), &orphans].concat()).to_string();
    let run = scrollback(&["check", "-", "--for", "openai-chat"], &list);
    assert_eq!(run.code, 4);
    let rules: Vec<&str> = run
        .stdout
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .filter(|rule| rule.len() > 1)
        .collect();
    let distinct: std::collections::BTreeSet<&&str> = rules.iter().collect();
    assert_eq!(rules.len(), distinct.len(), "each rule has one line:\n{}", run.stdout);
    assert!(
        run.stdout.contains("/messages/1")
            && run.stdout.contains("(and at 11 other places, last /messages/12"),
        "{}",
        run.stdout
    );
    let told = scrollback(&["check", "-", "--for", "openai-chat", "--json"], &list).json();
    assert!(told["violations"].as_array().unwrap().len() >= 12, "{told}");
}

#[test]
fn numbers_and_models_are_taken_as_people_write_them() {
    let plain =
        scrollback(&["curate", "-", "-m", "token_budget(16000)", "--model", "openai:gpt-4o", "--json"], CHAT);
    assert_eq!(plain.code, 0, "{plain:?}");
    for (manager, model) in [
        ("token_budget(16k)", "gpt-4o"),
        ("token_budget(16_000)", "openai:gpt-4o"),
        (r#"{"token_budget": {"max_tokens": "16k"}}"#, "gpt-4o"),
    ] {
        let run = scrollback(&["curate", "-", "-m", manager, "--model", model, "--json"], CHAT);
        assert_eq!(run.stdout, plain.stdout, "{manager} {model}: {run:?}");
    }
    assert_eq!(
        scrollback(&["tokens", "-", "--model", "gpt-4o", "--json"], CHAT).json()["model"],
        "openai:gpt-4o"
    );
    for unknown in ["gpt-9000", "llama3"] {
        let run = scrollback(&["tokens", "-", "--model", unknown, "--json"], CHAT);
        assert_eq!((run.code, run.json()["error"]["code"].as_str()), (2, Some("unknown_model")), "{run:?}");
    }
    let bad = scrollback(&["curate", "-", "-m", r#"{"token_budget": {"max_tokens": "16kk"}}"#], CHAT);
    assert_eq!(bad.code, 2, "{bad:?}");
}

#[test]
fn an_explanation_can_be_only_about_what_was_dropped_or_changed() {
    let long = json!([
        { "role": "user", "content": "first" },
        { "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "type": "function", "function": { "name": "ls", "arguments": "{}" } }] },
        { "role": "tool", "tool_call_id": "c", "content": "x".repeat(500) },
        { "role": "user", "content": "second" },
    ])
    .to_string();
    let explained = |managers: &[&str], which: &[&str]| {
        let run = scrollback(&[&["curate", "-"], managers, which].concat(), &long);
        assert_eq!(run.code, 0, "{run:?}");
        run.stderr
    };
    let cut = &["-m", "turn_window(1)"];
    assert!(explained(cut, &["--explain"]).contains("second"));
    assert_eq!(explained(cut, &["--explain"]), explained(cut, &["--explain", "all"]));
    let dropped = explained(cut, &["--explain", "dropped"]);
    assert!(dropped.contains("in an older turn") && !dropped.contains("second"), "{dropped}");
    assert_eq!(dropped, explained(cut, &["--explain=dropped"]));
    let short = &["-m", "tool_result_truncator(50)"];
    let changed = explained(short, &["--explain", "changed"]);
    assert!(changed.contains("shortened") && !changed.contains("first"), "{changed}");
    assert_eq!(scrollback(&["curate", "-", "--explain=lost"], &long).code, 2);
    let folder = folder("explain-first");
    std::fs::write(folder.join("chat.json"), CHAT).unwrap();
    let file_after_flag = scrollback_in(&folder, &["curate", "--explain", "chat.json"], b"");
    assert_eq!(file_after_flag.code, 0, "the word after --explain can be the file: {file_after_flag:?}");
}

#[test]
fn what_was_left_out_can_be_written_to_a_file_byte_for_byte() {
    let folder = folder("dropped");
    let odd = r#"{"content" : "\u00e9","role":"user","weight":0}"#;
    let list = format!(
        r#"[{{"role":"system","content":"s"}},{odd},{{"role":"assistant","content":"1"}},{{"role":"user","content":"two"}}]"#
    );
    let run = scrollback_in(
        &folder,
        &["curate", "-", "-m", "turn_window(1)", "--dropped", "out.json"],
        list.as_bytes(),
    );
    assert_eq!(run.code, 0, "{run:?}");
    let written = std::fs::read_to_string(folder.join("out.json")).unwrap();
    assert_eq!(written, format!("[\n{odd},\n{{\"role\":\"assistant\",\"content\":\"1\"}}\n]\n"));
    assert!(!run.stdout.contains("weight"), "{run:?}");
    let nothing = scrollback_in(&folder, &["curate", "-", "--dropped", "none.json"], CHAT.as_bytes());
    assert_eq!(nothing.code, 0);
    assert_eq!(std::fs::read_to_string(folder.join("none.json")).unwrap(), "[]\n");
}

const FLOW: &str = "version: \"1\"\nsteps: [{ name: say, template: \"you said {{ input }}\" }]\n";

#[test]
fn a_run_that_reads_its_input_refuses_to_start_without_it() {
    let folder = folder("no-input");
    std::fs::write(folder.join("flow.yaml"), FLOW).unwrap();
    let refused = scrollback_in(&folder, &["run", "flow.yaml", "--json"], b"");
    assert_eq!((refused.code, refused.json()["error"]["code"].as_str()), (2, Some("usage")), "{refused:?}");
    assert!(refused.stderr.contains("--input TEXT"), "{refused:?}");
    let listed = scrollback_in(&folder, &["lens", "list", "--json"], b"").json();
    assert_eq!(listed["error"]["code"], "not_found", "nothing has begun, so there is no store: {listed}");
    let given = scrollback_in(&folder, &["run", "flow.yaml", "--input", "hello"], b"");
    assert_eq!((given.code, given.stdout.as_str()), (0, "you said hello\n"), "{given:?}");
    std::fs::write(
        folder.join("fixed.yaml"),
        "version: \"1\"\nsteps: [{ name: say, template: \"always\" }]\n",
    )
    .unwrap();
    let fixed = scrollback_in(&folder, &["run", "fixed.yaml"], b"");
    assert_eq!(
        (fixed.code, fixed.stdout.as_str()),
        (0, "always\n"),
        "a flow that reads no input needs none: {fixed:?}"
    );
}

const AGENT: &str = "name: travel\nmodel: offline:script=script.yaml\ntools:\n  - name: weather\n    description: the weather\n    parameters: { type: object }\n    command: [sh, -c, 'echo sunny-and-warm']\n";
const SCRIPT: &str = "- {calls: [{name: weather, arguments: {}, id: a}]}\n- {reply: It is sunny.}\n";

#[test]
fn an_agent_takes_its_prompt_as_an_argument_and_tells_results_when_asked() {
    let folder = scripted("agent-prompt", "agent.yaml", AGENT, SCRIPT);
    let quiet = scrollback_in(&folder, &["agent", "agent.yaml", "How is the weather?"], b"");
    assert_eq!((quiet.code, quiet.stdout.as_str()), (0, "It is sunny.\n"), "{quiet:?}");
    assert!(!quiet.stderr.contains("sunny-and-warm"), "{quiet:?}");
    let told = scrollback_in(&folder, &["agent", "agent.yaml", "How is the weather?", "-v"], b"");
    assert!(told.stderr.contains("weather → sunny-and-warm"), "{told:?}");
    let both = scrollback_in(&folder, &["agent", "agent.yaml", "a", "--input", "b"], b"");
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn files_of_agents_are_validated_with_carets_and_have_schemas() {
    let folder = scripted("agent-validate", "agent.yaml", AGENT, SCRIPT);
    let good = scrollback_in(&folder, &["validate", "agent.yaml"], b"");
    assert_eq!(
        (good.code, good.stdout.as_str()),
        (0, "agent.yaml is valid: agent travel, 1 tool\n"),
        "{good:?}"
    );
    std::fs::write(
        folder.join("wrong.yaml"),
        AGENT.replace("model:", "modell:").replace("travel", "tra vel"),
    )
    .unwrap();
    let wrong = scrollback_in(&folder, &["validate", "wrong.yaml"], b"");
    assert_eq!(wrong.code, 4, "{wrong:?}");
    assert!(wrong.stderr.contains("error[unknown_key]: unknown key; did you mean `model`?"), "{wrong:?}");
    assert!(wrong.stderr.contains("at wrong.yaml:2:1") && wrong.stderr.contains("^^^^^^"), "{wrong:?}");
    let json = scrollback_in(&folder, &["validate", "wrong.yaml", "--json"], b"").json();
    assert_eq!((&json["valid"], json["errors"].as_array().unwrap().len()), (&json!(false), 2), "{json}");
    assert_eq!(json["errors"][1]["line"], 2);
    std::fs::write(folder.join("sub.yaml"), "name: count\nmission: Count.\nmax_turns: many\n").unwrap();
    let sub = scrollback_in(&folder, &["validate", "sub.yaml"], b"");
    assert!(sub.code == 4 && sub.stderr.contains("(max_turns)"), "{sub:?}");
    std::fs::write(folder.join("sub.yaml"), "name: count\nmission: Count.\n").unwrap();
    let sub = scrollback_in(&folder, &["validate", "sub.yaml"], b"");
    assert_eq!(sub.stdout, "sub.yaml is valid: sub-agent count, 0 tools\n", "{sub:?}");
    let flow = scrollback_in(&folder, &["validate", "agent.yaml", "--as", "flow"], b"");
    assert_eq!(flow.code, 4, "{flow:?}");
}

#[test]
fn schemas_of_agents_agree_with_their_readers() {
    let folder = folder("agent-schemas");
    let names = scrollback(&["schema"], "").stdout;
    assert!(names.contains("agent ") && names.contains("subagent "), "{names}");
    let cases: [(&str, bool, &str); 12] = [
        ("agent", true, AGENT),
        (
            "agent",
            true,
            "name: a\nsystem: { file: s.txt }\nhistory: [{ sliding_window: 20 }]\nlimits: { deadline_s: 5 }\n",
        ),
        (
            "agent",
            true,
            "name: a\ntools: { ask: { human: { question: Which? } }, files: { mcp: { command: [x] } } }\n",
        ),
        (
            "agent",
            true,
            "name: a\noutput: { fields: { city: text } }\ntool_choice: required\nthrottle: { attempts: 2 }\n",
        ),
        ("agent", false, "name: a\nlimits: { deadline: 5 }\n"),
        ("agent", false, "name: a\noutput: {}\n"),
        ("agent", false, "name: a\ntools: [{ name: x, lisp: '(+ 1 1)' }]\n"),
        ("agent", false, "model: offline:echo\n"),
        ("subagent", true, "name: s\nmission: Go.\nlimits: { timeout: 5s, memory_limit: 1MiB, fuel: 10 }\n"),
        ("subagent", true, "mission: Go.\ntools: { one: { lisp: '1', signature: '() -> :int' } }\n"),
        ("subagent", false, "mission: Go.\nturns: 3\n"),
        ("subagent", false, "mission: Go.\nsystem_prompt: { begin: x }\n"),
    ];
    std::fs::write(folder.join("s.txt"), "Be brief.").unwrap();
    for (kind, valid, yaml) in cases {
        let schema: Value = serde_json::from_str(&scrollback(&["schema", kind], "").stdout).unwrap();
        let document = scrollback_agent::document::parse(yaml).unwrap().to_json();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        assert_eq!(
            validator.is_valid(&document),
            valid,
            "the schema on {yaml}: {:?}",
            validator.iter_errors(&document).map(|error| error.to_string()).collect::<Vec<_>>()
        );
        std::fs::write(folder.join("case.yaml"), yaml).unwrap();
        let run = scrollback_in(&folder, &["validate", "case.yaml", "--as", kind], b"");
        assert_eq!(run.code == 0, valid, "the reader on {yaml}: {run:?}");
    }
}

#[test]
fn words_in_the_wrong_order_are_put_right() {
    let run = scrollback(&["history", "append", "alice", "--content", "hello"], "");
    assert_eq!((run.code, run.stderr.lines().count()), (2, 1), "{run:?}");
    assert!(run.stderr.contains("did you mean `scrollback history alice append …`?"), "{run:?}");
    let json = scrollback(&["history", "status", "bob", "closed", "--json"], "").json();
    assert_eq!(json["error"]["suggestion"], "scrollback history bob status");
    let other = scrollback(&["history", "alice", "apend"], "");
    assert!(other.code == 2 && !other.stderr.contains("comes before"), "{other:?}");
}

#[test]
fn an_import_sums_its_notes_up_by_kind() {
    let folder = folder("import-notes");
    let lines: Vec<String> = (0..3)
        .map(|number| std::fs::read_to_string(session()).unwrap().replace("5f2c", &format!("5f2{number}")))
        .collect();
    for (number, text) in lines.iter().enumerate() {
        std::fs::write(folder.join(format!("{number}.jsonl")), text).unwrap();
    }
    let run = scrollback_in(&folder, &["import", "0.jsonl", "1.jsonl", "2.jsonl"], b"");
    assert_eq!(run.code, 0, "{run:?}");
    let notes: Vec<&str> = run.stderr.lines().filter(|line| line.contains("file-history-snapshot")).collect();
    assert_eq!(notes, ["note: file-history-snapshot, 3 times"], "{run:?}");
}
