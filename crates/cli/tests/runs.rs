//! `scrollback run`, `resume` and `lens`: the real binary, killed and resumed, with what every model call was sent.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Run, folder, repository, scripted, scrollback_in};
use serde_json::{Value, json};

/// A folder with a flow in it.
fn flow(name: &str, yaml: &str, script: &str) -> PathBuf {
    scripted(name, "flow.yaml", yaml, script)
}

fn scrollback(folder: &Path, args: &[&str]) -> Run {
    scrollback_in(folder, args, b"")
}

/// The JSON document of a command, which is all it prints on standard output.
fn document(folder: &Path, args: &[&str]) -> (i32, Value) {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let run = scrollback(folder, &all);
    (run.code, run.json())
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_example_runs_offline_to_its_end() {
    let mut found = 0;
    for entry in std::fs::read_dir(repository("examples/flows")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.extension().is_none_or(|ending| ending != "yaml") || name.contains(".script.") {
            continue;
        }
        let folder = folder(&format!("run-{name}"));
        let file = path.display().to_string();
        let begun = scrollback(
            &folder,
            &["run", &file, "--input", "Plan a trip to Lisbon", "--json", "--progress", "none"],
        );
        let mut report = begun.json();
        for answer in 0..60 {
            if report["status"] != "paused" {
                break;
            }
            let pause = &report["pauses"][0];
            let wants = pause["input_schema"]["type"].as_str().unwrap_or("string");
            let text = match wants {
                "string" if answer < 3 => "Yes, in May".to_string(),
                "string" => "thanks".into(),
                "boolean" => "true".into(),
                "integer" | "number" => "3".into(),
                _ => "{}".into(),
            };
            let (run, step) = (report["run"].as_str().unwrap(), pause["step"].as_str().unwrap());
            let next = scrollback(
                &folder,
                &["resume", run, "--step", step, "--input", &text, "--json", "--progress", "none"],
            );
            if next.code == 4 {
                // The example wants one of a few words.
                let words =
                    pause["input_schema"]["enum"].as_array().unwrap_or_else(|| panic!("{name}: {next:?}"));
                let word = words[0].as_str().unwrap();
                report = scrollback(
                    &folder,
                    &["resume", run, "--step", step, "--input", word, "--json", "--progress", "none"],
                )
                .json();
            } else {
                report = next.json();
            }
        }
        assert_eq!(report["status"], "done", "{name}: {report}");
        found += 1;
    }
    assert!(found >= 4, "{found}");
}

const CHAT: &str = r#"
version: "1"
name: chat
agents:
  clarify: { model: "offline:script=script.yaml", system_prompt: Ask one question. }
steps:
  - kind: loop
    name: chat
    limits: { max_tokens: 5000 }
    loop:
      conversation: true
      history_management: { strategy: truncate_tokens, max_tokens: 4096 }
      max_loops: 5
      exit_expression: "output == 'stop'"
      body:
        - { name: clarify }
        - { kind: hitl, name: ask }
"#;

#[test]
fn the_acceptance_of_the_seed_a_loop_with_a_person_over_processes() {
    let folder = flow("run-acceptance", CHAT, "- loop: true\n- reply: Which date?\n");
    let (code, first) = document(&folder, &["run", "flow.yaml", "--input", "Plan a trip"]);
    assert_eq!(code, 3);
    assert_eq!(keys(&first), ["run", "flow", "status", "output", "error", "pauses", "usage", "warnings"]);
    assert_eq!(keys(&first["pauses"][0]), ["step", "name", "message", "input_schema"]);
    assert_eq!(
        keys(&first["usage"]),
        ["calls", "input_tokens", "output_tokens", "total_tokens", "cost_usd", "estimated"]
    );
    let run = first["run"].as_str().unwrap();
    assert!(run.len() == 16 && run.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{run}");
    // The flow's file is gone; the run does not need it.
    std::fs::remove_file(folder.join("flow.yaml")).unwrap();
    let prefix = &run[..5];
    assert_eq!(document(&folder, &["resume", prefix, "--input", "in May"]).0, 3);
    let (code, done) = document(&folder, &["resume", prefix, "--input", "stop"]);
    assert_eq!((code, &done["status"], &done["output"]), (0, &json!("done"), &json!("stop")));
    // Lens shows the injected messages, by text and as a document.
    let (_, prompts) = document(&folder, &["lens", "prompt", prefix, "clarify", "--wire"]);
    let calls = prompts["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert_eq!((&calls[0]["conversation_injected"], &calls[0]["badge"]), (&json!(false), &Value::Null));
    assert_eq!(
        (&calls[1]["conversation_injected"], &calls[1]["badge"]),
        (&json!(true), &json!("conversation injected"))
    );
    let messages: Vec<Value> = calls[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| json!([m["source"], m["role"], m["content"]]))
        .collect();
    assert_eq!(
        messages,
        [
            json!(["system", "system", "Ask one question."]),
            json!(["history", "user", "Plan a trip"]),
            json!(["history", "assistant", "Which date?"]),
            json!(["input", "user", "in May"]),
        ]
    );
    let sent: Vec<&Value> =
        calls[1]["request"]["messages"].as_array().unwrap().iter().map(|m| &m["content"]).collect();
    assert_eq!(sent, ["Ask one question.", "Plan a trip", "Which date?", "in May"], "what really went out");
    for key in [
        "key",
        "call",
        "attempt",
        "model",
        "wire",
        "mode",
        "left_out",
        "tokens",
        "request_hash",
        "redactions",
    ] {
        assert!(calls[1].get(key).is_some(), "{key}");
    }
    assert_eq!(
        keys(&calls[1]["tokens"]),
        ["system", "history", "input", "instructions", "tools", "messages", "total", "exact"]
    );
    assert!(
        calls[1]["messages"].as_array().unwrap().iter().all(|m| m["entry"].is_u64()),
        "{}",
        calls[1]["messages"]
    );
    let text = scrollback(&folder, &["lens", "prompt", prefix, "chat[2]/clarify"]).stdout;
    assert!(
        text.starts_with("chat[2]/clarify  call 1  offline:script=script.yaml")
            && text.contains("[conversation injected]"),
        "{text}"
    );
    // The history is complete and its cost bounded.
    let (_, shown) = document(&folder, &["lens", "show", prefix]);
    let turns: Vec<Value> = shown["conversations"][0]["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| json!([t["role"], t["content"], t["step"]]))
        .collect();
    assert_eq!(
        turns,
        [
            json!(["user", "Plan a trip", null]),
            json!(["assistant", "Which date?", "chat[1]/clarify"]),
            json!(["user", "in May", "chat[1]/ask"]),
            json!(["assistant", "Which date?", "chat[2]/clarify"]),
            json!(["user", "stop", "chat[2]/ask"]),
        ]
    );
    assert_eq!((&shown["resumes"], &shown["usage"]["calls"]), (&json!(2), &json!(2)));
    assert_eq!(
        keys(&shown["steps"][0]),
        [
            "key",
            "name",
            "kind",
            "status",
            "attempt",
            "input",
            "output",
            "error",
            "conversation_injected",
            "usage",
            "started_at",
            "ended_at"
        ]
    );
    let order: Vec<&str> =
        shown["steps"].as_array().unwrap().iter().map(|s| s["key"].as_str().unwrap()).collect();
    assert_eq!(order, ["chat", "chat[1]/clarify", "chat[1]/ask", "chat[2]/clarify", "chat[2]/ask"]);
    let (_, trace) = document(&folder, &["lens", "trace", prefix]);
    let spans = trace["spans"].as_array().unwrap();
    assert_eq!(
        spans.iter().filter(|span| span["key"] == "chat").count(),
        1,
        "one span, however often it was resumed"
    );
    assert!(spans.iter().any(|span| span["name"] == "chat offline:script=script.yaml"));
    let kinds: Vec<&str> =
        trace["events"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    for kind in [
        "run.started",
        "step.started",
        "loop.iteration",
        "history.turn",
        "quota.reserved",
        "agent.prompt",
        "agent.response",
        "quota.reconciled",
        "step.finished",
        "run.paused",
        "run.resumed",
        "run.finished",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert!(!trace.to_string().contains("Plan a trip"), "texts are not copied into the trace");
    let (_, list) = document(&folder, &["lens"]);
    assert_eq!(
        keys(&list["runs"][0]),
        ["run", "flow", "status", "created_at", "updated_at", "steps", "usage"]
    );
}

#[test]
fn killed_by_its_own_tool_it_goes_on_and_no_finished_call_runs_twice() {
    // The tool notes that it ran, and the second time it runs it kills the process that called it.
    let yaml = r#"
version: "1"
agents:
  work:
    model: "offline:script=script.yaml"
    tools: [{ name: count, description: counts, parameters: { type: object }, command: [sh, tool.sh] }]
steps: [{ name: before, template: "go" }, { name: work }, { name: after, template: "after {{ previous }}" }]
"#;
    let script = "- {calls: [{name: count, arguments: {n: 1}, id: a}, {name: count, arguments: {n: 2}, id: b}]}\n- {reply: counted}\n";
    let folder = flow("run-killed", yaml, script);
    std::fs::write(folder.join("tool.sh"), "echo $SCROLLBACK_CALL_ID >> ran.txt\nif [ $(wc -l < ran.txt) -eq 2 ]; then kill -9 $PPID; sleep 5; fi\necho ok\n").unwrap();
    let killed = scrollback(&folder, &["run", "flow.yaml", "--id", "killed", "--progress", "none"]);
    assert_eq!(killed.code, -1, "{killed:?}");
    let (_, list) = document(&folder, &["lens", "list", "--status", "interrupted"]);
    assert_eq!(list["runs"][0]["run"], "killed", "{list}");
    std::fs::write(
        folder.join("script.yaml"),
        "- {expect: {contains: [\"ok\"], roles: [user, assistant, tool, tool]}, reply: counted}\n",
    )
    .unwrap();
    let (code, done) = document(&folder, &["resume", "killed"]);
    assert_eq!((code, &done["output"]), (0, &json!("after counted")), "{done}");
    assert_eq!(
        std::fs::read_to_string(folder.join("ran.txt")).unwrap(),
        "a\nb\nb\n",
        "the open call, with its id, and no other"
    );
}

/// Starts a run whose tool takes long, and waits until it runs.
fn slow(name: &str) -> (PathBuf, std::process::Child) {
    let yaml = r#"
version: "1"
agents:
  work:
    model: "offline:script=script.yaml"
    tools: [{ name: wait, description: waits, parameters: { type: object }, command: [sh, tool.sh] }]
steps: [{ name: work }]
"#;
    let folder = flow(name, yaml, "- {calls: [{name: wait, arguments: {}, id: a}]}\n- {reply: waited}\n");
    std::fs::write(
        folder.join("tool.sh"),
        "echo x >> ran.txt\n[ $(wc -l < ran.txt) -eq 1 ] && sleep 30\necho ok\n",
    )
    .unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_scrollback"))
        .args(["run", "flow.yaml", "--input", "go", "--id", "slow", "--json", "--progress", "none"])
        .current_dir(&folder)
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..600 {
        if folder.join("ran.txt").exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(folder.join("ran.txt").exists());
    (folder, child)
}

#[test]
fn a_run_that_is_held_is_busy_and_a_signal_interrupts_it() {
    let (folder, child) = slow("run-busy");
    let busy = scrollback(&folder, &["resume", "slow", "--json"]);
    assert_eq!((busy.code, &busy.json()["error"]["code"]), (1, &json!("busy")));
    assert_eq!(document(&folder, &["lens", "show", "slow"]).1["status"], "running");
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), &report["status"], &report["error"]),
        (Some(1), &json!("interrupted"), &Value::Null)
    );
    let refused = scrollback(&folder, &["resume", "slow", "--input", "x", "--json"]);
    assert_eq!((refused.code, &refused.json()["error"]["code"]), (2, &json!("not_waiting")));
    std::fs::write(
        folder.join("script.yaml"),
        "- {expect: {roles: [user, assistant, tool]}, reply: waited}\n",
    )
    .unwrap();
    let (code, done) = document(&folder, &["resume", "slow"]);
    assert_eq!((code, &done["output"]), (0, &json!("waited")), "{done}");
}

#[test]
fn bad_input_is_refused_with_a_reason_and_nothing_changes() {
    let folder = flow("run-bad", CHAT, "- loop: true\n- reply: Which date?\n");
    let code = |args: &[&str]| {
        let run = scrollback(&folder, &[args, &["--json"]].concat());
        let error = run.json();
        (run.code, error["error"]["code"].as_str().unwrap_or_default().to_string())
    };
    assert_eq!(code(&["resume", "none"]), (2, "unknown_run".into()));
    assert!(!folder.join("scrollback.db").exists(), "looking makes no store");
    assert_eq!(code(&["run", "missing.yaml"]), (2, "io".into()));
    assert_eq!(code(&["run", "flow.yaml", "--max-tokens", "0"]), (2, "usage".into()));
    assert_eq!(code(&["run", "flow.yaml", "--max-cost", "free"]), (2, "usage".into()));
    assert_eq!(code(&["run", "flow.yaml", "--input", "go", "--id", "a b"]), (2, "bad_id".into()));
    std::fs::write(folder.join("broken.yaml"), "version: \"1\"\nsteps: [{ name: a, agnet: b }]\n").unwrap();
    let broken = scrollback(&folder, &["run", "broken.yaml", "--json"]);
    assert_eq!((broken.code, &broken.json()["valid"]), (4, &json!(false)));
    assert_eq!(broken.json()["errors"][0]["suggestion"], "agent");
    std::fs::write(
        folder.join("keyless.yaml"),
        "version: \"1\"\nsteps: [{ name: a, agent: x }]\nagents: { x: { model: \"openai:gpt-4o\" } }\n",
    )
    .unwrap();
    let keyless = Command::new(env!("CARGO_BIN_EXE_scrollback"))
        .args(["run", "keyless.yaml"])
        .current_dir(&folder)
        .env_remove("OPENAI_API_KEY")
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .output()
        .unwrap();
    assert_eq!(keyless.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&keyless.stderr).contains("OPENAI_API_KEY"));
    assert_eq!(document(&folder, &["lens"]).1["runs"], json!([]), "nothing was stored");
    document(&folder, &["run", "flow.yaml", "--input", "go", "--id", "first"]);
    document(&folder, &["run", "flow.yaml", "--input", "go", "--id", "firstly"]);
    assert_eq!(code(&["resume", "firs", "--input", "x"]), (2, "ambiguous_run".into()));
    assert_eq!(code(&["run", "flow.yaml", "--input", "other", "--id", "first"]), (2, "id_in_use".into()));
    assert_eq!(code(&["resume", "first"]), (2, "answer_missing".into()));
    assert_eq!(code(&["resume", "first", "--input", "x", "--step", "nope"]), (2, "unknown_step".into()));
    let blank = scrollback(&folder, &["resume", "first", "--input", " ", "--json"]);
    assert_eq!((blank.code, blank.json()["errors"][0]["path"].as_str()), (4, Some("")));
    assert_eq!(document(&folder, &["lens", "show", "first"]).1["status"], "paused");
    assert_eq!(code(&["lens", "show", "nobody"]), (2, "unknown_run".into()));
    assert_eq!(code(&["lens", "prompt", "first", "nobody"]), (2, "unknown_step".into()));
    assert_eq!(code(&["lens", "list", "--status", "great"]), (2, "usage".into()));
}

#[test]
fn secrets_are_sent_and_recorded_and_shown_to_nobody() {
    let key = "sk-proj-Zx9Kq2Lm4Np6Rs8Tv0Wy1Bc3Df5Gh7Jk9Mn2Pq4Rs6Tu8Vw";
    let folder = flow("run-secrets", CHAT, &format!("- loop: true\n- reply: Is {key} your key?\n"));
    let input = format!("My key is {key}, keep it");
    let paused = scrollback_in(
        &folder,
        &["run", "flow.yaml", "--input", &input, "--id", "secret", "--progress", "json", "--json"],
        b"",
    );
    assert!(
        paused.stderr.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{}",
        paused.stderr
    );
    scrollback(&folder, &["resume", "secret", "--input", &input]);
    let mut shown = paused.stdout + &paused.stderr;
    for args in
        [vec!["show", "secret"], vec!["trace", "secret"], vec!["prompt", "secret", "clarify", "--wire"]]
    {
        let args: Vec<&str> = ["lens"].into_iter().chain(args).collect();
        shown += &scrollback(&folder, &args).stdout;
        shown += &scrollback(&folder, &[&args[..], &["--json"]].concat()).stdout;
    }
    assert!(!shown.contains("sk-proj-Zx9") && shown.contains("[redacted:"), "{shown}");
    let (_, prompt) = document(&folder, &["lens", "prompt", "secret", "chat[2]/clarify"]);
    assert_eq!(prompt["calls"][0]["redactions"], json!({ "openai": 3 }));
    let revealed =
        scrollback(&folder, &["lens", "prompt", "secret", "clarify", "--wire", "--reveal", "--json"]);
    assert!(revealed.stdout.matches(key).count() >= 4, "what the model was sent: {}", revealed.stdout);
}

#[test]
fn on_the_terminal_it_asks_and_elsewhere_it_says_how_to_answer() {
    let folder = flow("run-interactive", CHAT, "- loop: true\n- reply: Which date?\n");
    let run = scrollback_in(
        &folder,
        &["run", "flow.yaml", "--input", "go", "--interactive", "--progress", "none"],
        b"in May\nstop\n",
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, "stop\n"), "{run:?}");
    assert_eq!(run.stderr.matches("Which date?").count(), 2);
    let left = scrollback_in(
        &folder,
        &["run", "flow.yaml", "--input", "go", "--id", "left", "--interactive", "--progress", "none"],
        b"in May\n",
    );
    assert_eq!(left.code, 3, "the rest can be answered later: {left:?}");
    assert!(left.stderr.contains("scrollback resume left --input ANSWER"));
    let plain = scrollback_in(
        &folder,
        &["run", "-", "--input", "go", "--id", "piped"],
        CHAT.replace("script=script.yaml", "echo").as_bytes(),
    );
    assert_eq!((plain.code, plain.stdout.as_str()), (3, "go\n"), "{plain:?}");
    assert!(plain.stderr.contains("chat[1]/clarify: asks offline:echo"), "{}", plain.stderr);
}
