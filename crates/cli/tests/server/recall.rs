//! Recall from the outside: handles on the command line, agents, flows and sub-agents that look things up, the official SDK.

use std::process::Command;

use serde_json::Value;

use crate::process::Server;
use crate::support::{Run, folder, repository, required, scrollback_in};

const STORE: [&str; 2] = ["--store", "sqlite:record.db"];

fn run(folder: &std::path::Path, args: &[&str]) -> Run {
    scrollback_in(folder, &[args, &STORE].concat(), b"")
}

fn handle_of(text: &str) -> String {
    let named = text.match_indices("sb:").map(|(start, _)| {
        let rest = text[start..].chars();
        rest.take_while(|letter| letter.is_ascii_alphanumeric() || ":#".contains(*letter)).collect::<String>()
    });
    named.into_iter().find(|name| name.contains('#')).unwrap_or_else(|| panic!("no handle in {text}"))
}

#[test]
fn a_handle_reads_and_shows_what_it_names_and_says_so_when_it_is_erased() {
    let folder = folder("recall-handles");
    run(&folder, &["history", "kim", "append", "--content", "The staging port is 48123."]);
    run(&folder, &["history", "kim", "append", "--role", "assistant", "--content", "Noted."]);
    let found = run(&folder, &["search", "staging", "--json"]).json();
    let handle = found["hits"][0]["handle"].as_str().unwrap().to_string();
    let id = found["hits"][0]["conversation"].as_str().unwrap().to_string();
    let read = run(&folder, &["read", &handle]);
    assert_eq!(read.code, 0, "{}", read.stderr);
    assert!(read.stdout.contains("    1  The staging port is 48123."), "{}", read.stdout);
    let upper = run(&folder, &["read", &handle.to_uppercase(), "--json"]).json();
    assert_eq!(upper["entries"][0]["text"], "The staging port is 48123.");
    for named in [&id, &handle, &handle.split('#').next().unwrap().to_string()] {
        let shown = run(&folder, &["show", named]);
        assert!(
            shown.code == 0 && shown.stdout.contains("48123"),
            "{named}: {}{}",
            shown.stdout,
            shown.stderr
        );
    }
    for (args, code, says) in [
        (["read", "sb:0000000000#1"], 1, "search for the words instead"),
        (["read", "sb:short#1"], 2, "handles look like"),
        (["read", &format!("{}-9", handle.replace("#0", "#7"))], 1, "the conversation ends at"),
        (["show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"], 1, "no conversation and no session"),
        (["show", "nonsense"], 2, "neither an id"),
    ] {
        let refused = run(&folder, &args);
        assert_eq!(refused.code, code, "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
    }
    run(&folder, &["history", "kim", "erase", "--positions", "0", "--yes"]);
    let erased = run(&folder, &["read", &handle]);
    assert!(erased.code == 0 && erased.stdout.contains("erased"), "{}{}", erased.stdout, erased.stderr);
    assert!(!erased.stdout.contains("48123"));
}

#[test]
fn an_agent_is_offered_recall_from_the_first_request_on_and_reads_the_record() {
    let folder = folder("recall-agent");
    let agent = "name: finder\nmodel: offline:script=script.yaml\nrecall: true\n";
    std::fs::write(folder.join("AGENT.yaml"), agent).unwrap();
    let script = "- expect: {tools: [recall_search, recall_read, recall_around, recall_outline]}\n  \
                  calls: [{name: recall_search, arguments: {query: staging port}}]\n\
                  - expect: {contains: [\"1 hit in this session\"]}\n  reply: It is known.\n";
    std::fs::write(folder.join("script.yaml"), script).unwrap();
    let args = [
        "agent",
        "AGENT.yaml",
        "--input",
        "The staging port is 48123. Which is it?",
        "--recipient",
        "kim",
        "--json",
    ];
    let answered = run(&folder, &args);
    assert_eq!(answered.code, 0, "{}{}", answered.stdout, answered.stderr);
    let found = run(&folder, &["history", "kim", "show", "--all", "--json"]).stdout;
    assert!(found.contains("1 hit in this session") && found.contains("48123"), "{found}");
    let handle = handle_of(&found);
    assert!(run(&folder, &["read", &handle]).stdout.contains("48123"));
}

#[test]
fn programs_of_a_sub_agent_search_and_read_their_record() {
    let folder = folder("recall-subagent");
    let agent = "name: finder\nmodel: offline:script=script.yaml\nrecall: true\n\
                 mission: The staging port is 48123. Find it.\ncompression: on\n";
    std::fs::write(folder.join("AGENT.yaml"), agent).unwrap();
    let script = serde_json::json!([
        { "reply": "(def found (tool/search {:query \"staging port\"}))" },
        { "reply": "(return {:found found :outline (tool/outline {})})" },
    ]);
    std::fs::write(folder.join("script.yaml"), script.to_string()).unwrap();
    let told = run(&folder, &["subagent", "AGENT.yaml", "--json"]);
    assert_eq!(told.code, 0, "{}{}", told.stdout, told.stderr);
    let found = told.json()["return"]["found"].as_str().unwrap().to_string();
    assert!(found.contains("in this session") && found.contains("48123"), "{found}");
}

#[test]
fn a_step_of_a_flow_with_recall_finds_what_an_earlier_step_said() {
    let folder = folder("recall-flow");
    let flow = "version: '1'\nname: finder\nagents:\n  first: {model: 'offline:script=first.yaml'}\n  \
                second: {model: 'offline:script=second.yaml'}\nsteps:\n  - {name: say, agent: first}\n  \
                - {name: look, agent: second, recall: true, input: 'Which port?'}\n";
    std::fs::write(folder.join("flow.yaml"), flow).unwrap();
    std::fs::write(folder.join("first.yaml"), "- reply: The staging port is 48123.\n").unwrap();
    let script = "- expect: {tools: [recall_search, recall_read, recall_around, recall_outline]}\n  \
                  calls: [{name: recall_search, arguments: {query: staging port}}]\n\
                  - expect: {contains: [\"48123\", \"in this session\"]}\n  reply: 48123 it is.\n";
    std::fs::write(folder.join("second.yaml"), script).unwrap();
    let told = run(&folder, &["run", "flow.yaml", "--input", "Tell me.", "--json"]);
    assert_eq!(told.code, 0, "{}{}", told.stdout, told.stderr);
    assert!(told.stdout.contains("48123 it is."), "{}", told.stdout);
}

#[test]
fn the_official_sdk_uses_the_tools_over_a_pipe_and_over_http() {
    let target = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let untested = "the recall server with the official Python SDK";
    let Some(python) =
        required::file(&target.join("venv-sdk/bin/python"), "the Python environment", untested)
    else {
        return;
    };
    let has_sdk = Command::new(&python).args(["-c", "import mcp"]).output().unwrap().status.success();
    if !has_sdk {
        required::missing("the package mcp", untested);
        return;
    }
    let server = Server::start("recall-sdk");
    run(&server.folder, &["history", "kim", "append", "--content", "The staging port is 48123."]);
    let found: Value = run(&server.folder, &["search", "staging", "--json"]).json();
    let output = Command::new(python)
        .arg(repository("tests/sdk/recall.py"))
        .arg(env!("CARGO_BIN_EXE_scrollback"))
        .arg(format!("sqlite:{}", server.folder.join("record.db").display()))
        .arg(found["hits"][0]["conversation"].as_str().unwrap())
        .arg(format!("http://{}/mcp", server.address))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{told}");
    for line in
        ["stdio legacy 2025-11-25", "http legacy 2025-11-25", "stdio auto 2026-07-28", "http auto 2026-07-28"]
    {
        assert!(told.contains(line), "{line}\n{told}");
    }
}
