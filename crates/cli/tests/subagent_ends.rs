//! Every end of a mission by the real binary: reason, message, exit code, and what is kept of it.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Run, scripted, scrollback_in};
use serde_json::{Value, json};

const HEAD: &str = "name: test\nmodel: offline:script=script.yaml\nmission: Go.\n";

fn agent(name: &str, yaml: &str, script: &str) -> PathBuf {
    scripted(name, "agent.yaml", yaml, script)
}

fn run(folder: &Path, args: &[&str]) -> Run {
    let all: Vec<&str> = ["subagent", "agent.yaml"].into_iter().chain(args.iter().copied()).collect();
    scrollback_in(folder, &all, b"")
}

/// Runs an agent, and checks that it ended like this: as JSON, in words, and in the store.
#[track_caller]
fn ends(name: &str, yaml: &str, script: &str, reason: &str, message: &str, turns: usize) -> Value {
    let folder = agent(name, yaml, script);
    let told = run(&folder, &["--json", "--store", "sqlite:runs.db"]);
    let answer = told.json();
    assert_eq!(answer["fail"], json!({ "reason": reason, "message": message }), "{name}");
    assert_eq!((told.code, &answer["return"]), (1, &Value::Null), "{name}");
    assert_eq!(answer["turns"].as_array().unwrap().len(), turns, "{name}");
    let listed = scrollback_in(&folder, &["lens", "list", "--json", "--store", "sqlite:runs.db"], b"").json();
    assert_eq!(
        (&listed["runs"][0]["run"], &listed["runs"][0]["status"]),
        (&answer["run"], &json!("failed")),
        "{name}: the run is a row"
    );
    let plain = run(&folder, &[]);
    assert_eq!((plain.code, plain.stdout.as_str()), (1, ""), "{name}");
    let line = format!("error: {reason}: {}", message.lines().next().unwrap());
    assert!(plain.stderr.lines().any(|told| told.starts_with(&line)), "{name}: {}", plain.stderr);
    answer
}

#[test]
fn a_mission_that_is_done_has_its_value_and_code_0() {
    let folder = agent("subagent-done", HEAD, "- reply: '(return {:n 1})'\n");
    let told = run(&folder, &["--json", "--store", "sqlite:runs.db"]);
    let answer = told.json();
    assert_eq!((told.code, &answer["return"], &answer["fail"]), (0, &json!({ "n": 1 }), &Value::Null));
    let listed = scrollback_in(&folder, &["lens", "list", "--json", "--store", "sqlite:runs.db"], b"").json();
    assert_eq!((&listed["runs"][0]["run"], &listed["runs"][0]["status"]), (&answer["run"], &json!("done")));
}

#[test]
fn each_end_has_its_reason_its_message_and_code_1() {
    let with = |more: &str| format!("{HEAD}{more}");
    ends("end-failed", HEAD, "- reply: '(fail \"no rows\")'\n", "failed", "no rows", 1);
    ends(
        "end-max-turns",
        &with("max_turns: 2\n"),
        "- reply: '1'\n- reply: '(boom)'\n",
        "max_turns_exceeded",
        "2 turns went by without a (return value); raise max_turns; the last error: undefined variable: boom",
        2,
    );
    ends(
        "end-budget",
        &with("turn_budget: 1\n"),
        "- reply: '(+ 1 1)'\n",
        "turn_budget_exhausted",
        "1 turn was used by this agent and those it called; raise turn_budget",
        1,
    );
    ends(
        "end-model",
        HEAD,
        "- error: {kind: auth, message: the key is not known}\n",
        "llm_error",
        "auth: the key is not known",
        0,
    );
    ends(
        "end-no-model",
        "name: test\nmission: Go.\n",
        "[]",
        "llm_required",
        "there is no model; name one in the agent's file, or give --model",
        0,
    );
    ends(
        "end-memory",
        &with("limits: {memory_limit: 100B, on_memory_limit: stop}\n"),
        "- reply: '(def xs (vec (range 100)))'\n",
        "memory_limit_exceeded",
        "definitions would take more than 100 bytes, so none of this program's were kept; define less (largest: xs)",
        1,
    );
    ends(
        "end-no-code",
        &with("max_turns: 1\n"),
        "- reply: 'I cannot do that.'\n",
        "no_code_found",
        "1 turn went by without a (return value); the last error: no program found: reply with one ```clojure block",
        1,
    );
}

#[test]
fn an_agent_that_is_called_too_deep_fails_the_call_by_its_name() {
    let folder = agent(
        "end-depth",
        &format!("{HEAD}max_depth: 1\nmax_turns: 1\ntools: {{helper: {{agent: helper.yaml}}}}\n"),
        "- reply: '(tool/helper {:n 1})'\n",
    );
    std::fs::write(
        folder.join("helper.yaml"),
        "name: helper\nmission: 'Say {{n}}.'\nsignature: '(n :int) -> :int'\n",
    )
    .unwrap();
    let told = run(&folder, &["--json"]);
    let answer = told.json();
    let why = "max_depth_exceeded: agents may call agents 1 deep; raise max_depth";
    assert_eq!(told.code, 1);
    assert_eq!(answer["turns"][0]["tool_calls"][0]["error"], why);
    assert_eq!(
        answer["turns"][0]["error"],
        json!({ "reason": "tool_error", "message": format!("Tool 'helper' failed: {why}") })
    );
    assert!(answer["fail"]["message"].as_str().unwrap().ends_with(why), "{}", answer["fail"]);
}

const SLOW: &str = "tools: {wait: {command: [sh, wait.sh], output: text, effects: once}}\n";

/// A folder with an agent whose tool says that it was reached, and then waits.
fn waiting(name: &str, more: &str) -> PathBuf {
    let folder =
        agent(name, &format!("{HEAD}{SLOW}{more}"), "- reply: '(def a 1)'\n- reply: '(tool/wait)'\n");
    std::fs::write(folder.join("wait.sh"), "echo > reached; exec sleep 60\n").unwrap();
    folder
}

#[test]
fn when_the_time_is_up_model_and_tools_are_stopped() {
    let folder = waiting("end-timeout", "mission_timeout: 1500ms\n");
    let told = run(&folder, &["--json", "--store", "sqlite:runs.db"]);
    let answer = told.json();
    assert_eq!((told.code, &answer["fail"]["reason"]), (1, &json!("mission_timeout")), "{}", answer["fail"]);
    assert_eq!(answer["fail"]["message"], "the deadline has passed; raise mission_timeout");
    assert_eq!(answer["turns"].as_array().unwrap().len(), 1, "what was done in time is kept");
    assert_eq!(answer["turns"][0]["memory"], json!({ "a": "1" }));
}

#[test]
fn an_interrupt_ends_the_mission_and_it_can_be_taken_up_again() {
    let folder = waiting("end-cancelled", "");
    let child = Command::new(env!("CARGO_BIN_EXE_scrollback"))
        .args(["subagent", "agent.yaml", "--json", "--store", "sqlite:runs.db"])
        .current_dir(&folder)
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !folder.join("reached").exists() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["fail"]["reason"]), (Some(1), &json!("cancelled")), "{answer}");
    assert!(!answer["fail"]["message"].as_str().unwrap().is_empty());
    assert_eq!(answer["turns"].as_array().unwrap().len(), 1, "what was done before is kept");
    let run_id = answer["run"].as_str().unwrap();

    // The command for flows says which one it is.
    let resume = |args: &[&str]| {
        let all = [&["resume", run_id, "--store", "sqlite:runs.db"], args].concat();
        scrollback_in(&folder, &all, b"")
    };
    let refused = resume(&[]);
    let right = format!("scrollback subagent AGENT.yaml --resume {run_id}");
    assert!(refused.code == 2 && refused.stderr.contains(&right), "{refused:?}");
    assert_eq!(resume(&["--json"]).json()["error"]["code"], "not_waiting");
    std::fs::write(folder.join("script.yaml"), "- reply: '(return a)'\n").unwrap();
    let resumed = run(&folder, &["--resume", run_id, "--store", "sqlite:runs.db", "--json"]);
    assert_eq!((resumed.code, &resumed.json()["return"]), (0, &json!(1)), "{resumed:?}");
    let error = &resumed.json()["turns"][1]["tool_calls"][0]["error"];
    assert_eq!(error, "[interrupted: no result was recorded]", "what may happen once is not done again");
}
