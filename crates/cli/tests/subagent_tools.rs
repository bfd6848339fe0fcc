//! Tools of sub-agents by the real binary: servers, programs that misbehave, what reaches the program.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use crate::support::{Run, scripted, scrollback_in};
use serde_json::{Value, json};

const HEAD: &str = "name: test\nmodel: offline:script=script.yaml\nmission: Go.\ncompression: on\n";

fn agent(name: &str, yaml: &str, script: &str) -> PathBuf {
    scripted(name, "agent.yaml", yaml, script)
}

fn run(folder: &Path, args: &[&str]) -> Run {
    let all: Vec<&str> = ["subagent", "agent.yaml"].into_iter().chain(args.iter().copied()).collect();
    scrollback_in(folder, &all, b"")
}

/// A script of replies with one program each.
fn replies(programs: &[&str]) -> String {
    json!(programs.iter().map(|program| json!({ "reply": program })).collect::<Vec<_>>()).to_string()
}

/// A server in a few lines: it answers with the path it was asked for, and fails for one.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  tool() { printf '{"name":"%s","description":"%s files","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}' "$1" "$1"; }
  case $line in
    *'"initialize"'*) answer='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"files","version":"1"}}';;
    *'"tools/list"'*) answer='"result":{"tools":['$(tool list),$(tool read),$(tool remove)']}';;
    *'"tools/call"'*secret*) answer='"result":{"isError":true,"content":[{"type":"text","text":"not for you"}]}';;
    *'"tools/call"'*) path=$(printf '%s' "$line" | sed -n 's/.*"path":"\([^"]*\)".*/\1/p')
      answer='"result":{"content":[{"type":"text","text":"content of '$path'"}]}';;
    *) answer='"error":{"code":-32601,"message":"unknown method"}';;
  esac
  printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$answer"
done
"#;

#[test]
fn tools_of_an_mcp_server_reach_the_program() {
    let yaml =
        format!("{HEAD}tools: {{files: {{mcp: {{command: [sh, server.sh]}}, allow: [list, read]}}}}\n");
    let script = replies(&[
        "(def a (tool/files__read {:path \"a.txt\"}))",
        "(tool/files__list {:path \"secret\"})",
        "(tool/files__remove {:path \"a.txt\"})",
        "(return {:a a})",
    ]);
    let folder = agent("subagent-mcp", &yaml, &script);
    std::fs::write(folder.join("server.sh"), SERVER).unwrap();
    let told = run(&folder, &["--json"]);
    assert_eq!(told.code, 0, "{told:?}");
    let answer = told.json();
    assert_eq!(answer["return"], json!({ "a": "content of a.txt" }));
    assert_eq!(
        answer["calls"][1]["messages"][1]["content"],
        "Go.\n\n;; === tool/ ===\ntool/files__list(...) -> :any  ; list files\n\
         tool/files__read(...) -> :any  ; read files\n\n;; === user/ (your prelude) ===\n\
         a                             ; = string, sample: \"content of a.txt\"\n\n;; Tool calls made:\n\
         ;   files__read({:path \"a.txt\"}) => \"content of a.txt\"\n\nTurns left: 4"
    );
    let error = |turn: usize| answer["turns"][turn]["error"].clone();
    assert_eq!(
        error(1),
        json!({ "reason": "tool_error", "message": "Tool 'files__list' failed: not for you" })
    );
    assert!(error(2)["message"].as_str().unwrap().contains("files__remove"), "{}", error(2));
    assert_eq!(answer["turns"][2]["tool_calls"], json!([]), "what is not allowed is not there");

    std::fs::write(folder.join("server.sh"), "exit 3\n").unwrap();
    let gone = run(&folder, &["--json"]);
    assert_eq!((gone.code, &gone.json()["error"]["code"]), (1, &json!("mcp_server")), "{gone:?}");
}

#[test]
fn programs_that_misbehave_cost_a_turn_and_no_more() {
    let yaml = format!(
        "{HEAD}max_turns: 9\ntools:\n  hangs: {{command: [sleep, '60'], timeout: 300ms}}\n  \
         dies: {{command: [sh, -c, 'echo half >&2; kill -9 $$']}}\n  fails: {{command: [sh, -c, 'echo on fire >&2; exit 7']}}\n  \
         garbled: {{command: [printf, 'a\\377b'], output: text}}\n  mute: {{command: ['true']}}\n  \
         prose: {{command: [echo, hello]}}\n  none: {{command: [no-such-program]}}\n  \
         huge: {{command: [head, -c, '100000000', /dev/zero], output: text}}\n  \
         doubled: {{signature: '(n :int) -> :int', command: [cat], input: n, output: text}}\n"
    );
    let script = replies(&[
        "(tool/hangs)",
        "(tool/dies)",
        "(tool/fails)",
        "(tool/mute)",
        "(tool/prose)",
        "(tool/none)",
        "(def big (tool/huge)) (def size (count big))",
        "(return [(tool/garbled) (tool/doubled {:n 4}) (< (count (tool/huge)) 1100000)])",
    ]);
    let told = run(&agent("subagent-misbehave", &yaml, &script), &["--json"]);
    assert_eq!(told.code, 0, "{told:?}");
    let answer = told.json();
    assert_eq!(answer["return"], json!(["a\u{fffd}b", 4, true]));
    for (turn, part) in [
        (0, "took longer than 0.3 s"),
        (1, "it was killed: half"),
        (2, "exit code 7: on fire"),
        (3, "answered nothing, and JSON was expected"),
        (4, "its answer is not JSON: \"hello\""),
        (5, "cannot be started"),
    ] {
        let error = &answer["turns"][turn]["error"];
        let message = error["message"].as_str().unwrap_or_default();
        assert!(error["reason"] == "tool_error" && message.contains(part), "{part}: {error}");
    }
    let limit = &answer["turns"][6]["error"]["reason"];
    assert_eq!(limit, "memory_limit_exceeded", "too much to be kept, and said so");
}

#[test]
fn signatures_of_any_depth_and_sub_agents_from_standard_input_are_read() {
    let folder = agent("subagent-piped", HEAD, "- reply: '(return (+ 1 data/n))'\n");
    let piped = |yaml: &str, args: &[&str]| {
        let all: Vec<&str> = ["subagent", "-", "--json"].into_iter().chain(args.iter().copied()).collect();
        scrollback_in(&folder, &all, yaml.as_bytes())
    };
    let told = piped(&format!("{HEAD}data: {{n: 1}}\n"), &[]);
    assert_eq!((told.code, &told.json()["return"]), (0, &json!(2)), "{told:?}");
    let deep = format!("{HEAD}signature: '{}:int{}'\n", "[".repeat(1000), "]".repeat(1000));
    let refused = piped(&deep, &[]);
    let problem = &refused.json()["error"]["problems"][0];
    assert_eq!((refused.code, &problem["path"]), (4, &json!("signature")), "{refused:?}");
    let column = |text: &Value| text.as_str().is_some_and(|text| text.contains("column"));
    assert!(column(&problem["message"]), "{problem}");
    assert_eq!(piped("mision: Go.\n", &[]).code, 4);
    assert_eq!(piped(HEAD, &["--data", "-"]).code, 2, "one of them only");
}
