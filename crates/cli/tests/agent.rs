//! `scrollback agent`: the examples, every exit code, every kind of mistake in the file, crashes and questions.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use crate::support::{Run, folder, repository, required, scripted, scrollback_in};
use serde_json::{Value, json};

/// A folder with an agent in it.
fn agent(name: &str, yaml: &str, script: &str) -> PathBuf {
    scripted(name, "agent.yaml", yaml, script)
}

fn run(folder: &Path, args: &[&str]) -> Run {
    let all: Vec<&str> = ["agent", "agent.yaml"].into_iter().chain(args.iter().copied()).collect();
    scrollback_in(folder, &all, b"")
}

const HEAD: &str = "name: test\nmodel: offline:script=script.yaml\nsystem: Be brief.\n";

#[test]
fn the_examples_run_offline() {
    let folder = folder("agent-examples");
    let example = |name: &str| repository(&format!("examples/agents/{name}"));
    let travel = scrollback_in(
        &folder,
        &[
            "agent",
            &example("travel.yaml"),
            "--input",
            "What is the weather in Paris?",
            "--trace",
            "calls.jsonl",
        ],
        b"",
    );
    assert_eq!(
        (travel.code, travel.stdout.as_str()),
        (0, "It is 22 degrees and sunny in Paris.\n"),
        "{travel:?}"
    );
    assert!(travel.stderr.contains("weather({\"city\":\"Paris\"})"), "{}", travel.stderr);
    let trace = std::fs::read_to_string(folder.join("calls.jsonl")).unwrap();
    let lines: Vec<Value> = trace.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["view"], json!([{ "index": 0 }, { "index": 1 }, { "index": 2 }, { "index": 3 }]));
    assert_eq!(lines[1]["request"]["messages"][3]["content"], "Paris: 22 degrees, sunny\n");
    assert_eq!(
        (&lines[0]["n"], &lines[0]["attempt"], &lines[0]["status"]),
        (&json!(1), &json!(1), &json!("ok"))
    );

    let (booking, guest) = (example("booking.yaml"), ["--recipient", "anna", "--json"]);
    let ask = ["agent", booking.as_str(), "--input", "Book me a table"];
    let asked = scrollback_in(&folder, &[&ask[..], &guest].concat(), b"");
    assert_eq!(asked.code, 3, "{asked:?}");
    let asked = asked.json();
    assert_eq!(
        (&asked["status"], &asked["stopped"], &asked["question"]),
        (&json!("paused"), &json!("paused"), &json!("Which date?"))
    );
    let answered = format!("offline:script={}", example("booking.answered.yaml"));
    let answer = ["agent", booking.as_str(), "--resume", "--input", "the 4th of May", "--model", &answered];
    let booked = scrollback_in(&folder, &[&answer[..], &guest].concat(), b"");
    assert_eq!(booked.code, 0, "{booked:?}");
    assert_eq!(booked.json()["answer"], "Booked for the 4th of May.");
    assert_eq!(booked.json()["evaluation_id"], asked["evaluation_id"]);

    let think = scrollback_in(
        &folder,
        &["agent", &example("think.yaml"), "--input", "What is the weather in Paris?", "--json"],
        b"",
    );
    assert_eq!(think.json()["output"], json!({ "answer": "22 degrees and sunny", "sources": ["weather"] }));
}

#[test]
fn the_answer_has_its_shape() {
    let folder = agent("agent-shape", HEAD, "- {reply: hello, usage: {input: 10, output: 3}}\n");
    let answer = run(&folder, &["--input", "hi", "--json"]).json();
    let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "status",
            "answer",
            "output",
            "stopped",
            "evaluation_id",
            "conversation",
            "iterations",
            "tools",
            "usage",
            "calls",
            "entries",
            "steps"
        ]
    );
    assert_eq!(
        answer["usage"],
        json!({ "input": 10, "output": 3, "cache_read": 0, "cache_write": 0, "estimated": false, "total": 13 })
    );
    assert_eq!(
        (&answer["output"], &answer["conversation"], &answer["entries"]),
        (&Value::Null, &Value::Null, &json!(3))
    );
    let call = answer["calls"][0].as_object().unwrap();
    assert_eq!(
        call.keys().collect::<Vec<_>>(),
        ["n", "attempts", "original", "curated", "tokens", "instructions", "tools", "messages", "epoch"]
    );
    assert_eq!(answer["steps"][0], json!({ "kind": "user_query", "content": "hi", "iteration": 0 }));
}

#[test]
fn a_failure_says_where_and_why_and_keeps_what_was_said() {
    let folder = agent("agent-fails", HEAD, "- error: {kind: auth, message: no entry}\n");
    let failed = run(&folder, &["--input", "hi", "--json", "--recipient", "anna"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    let answer = failed.json();
    assert_eq!(answer["error"], json!({ "code": "auth", "phase": "request", "message": "no entry" }));
    assert_eq!(
        (&answer["status"], &answer["stopped"], &answer["answer"]),
        (&json!("failed"), &json!("error"), &Value::Null)
    );
    let shown = scrollback_in(&folder, &["history", "anna", "--json"], b"").json();
    assert_eq!(shown["messages"].as_array().unwrap().len(), 2);
    let mismatch = agent("agent-mismatch", HEAD, "- {expect: {contains: [nowhere]}, reply: x}\n");
    let failed = run(&mismatch, &["--input", "hi", "--json"]).json();
    assert_eq!(failed["error"]["code"], "script_mismatch");
    assert!(failed["error"]["message"].as_str().unwrap().contains("nowhere"), "{failed}");
    let empty = agent("agent-exhausted", HEAD, "[]\n");
    assert_eq!(run(&empty, &["--input", "hi", "--json"]).json()["error"]["code"], "script_exhausted");
}

#[test]
fn a_conversation_goes_on_from_run_to_run() {
    let folder = agent("agent-goes-on", HEAD, "- reply: first answer\n");
    assert_eq!(run(&folder, &["--input", "one", "--recipient", "anna"]).code, 0);
    let script = "- {expect: {contains: [one, first answer, two], roles: [system, user, assistant, user]}, reply: second}\n";
    std::fs::write(folder.join("script.yaml"), script).unwrap();
    let second = run(&folder, &["--input", "two", "--recipient", "anna", "--json"]);
    assert_eq!(second.code, 0, "{second:?}");
    let id = second.json()["conversation"].as_str().unwrap().to_string();
    std::fs::write(folder.join("script.yaml"), "- {expect: {count: 2, contains: [three]}, reply: third}\n")
        .unwrap();
    let third = run(&folder, &["--input", "three", "--conversation", &id, "-m", "turn_window(1)", "--json"]);
    assert_eq!(third.code, 0, "{third:?}");
    assert_eq!(third.json()["entries"], 7, "the record keeps all");
    let verified = scrollback_in(&folder, &["verify", "--json"], b"");
    assert_eq!(verified.json()["ok"], true, "{verified:?}");
}

#[test]
fn what_is_wrong_on_the_command_line_is_said_before_anything_runs() {
    let folder = agent("agent-usage", HEAD, "- reply: never\n");
    let cases: [(&[&str], &str); 9] = [
        (&[], "--input is missing"),
        (&["--input", "  "], "--input is blank"),
        (&["--resume"], "--resume needs"),
        (&["--input", "x", "--recipient", "a\u{1}b"], "recipient"),
        (&["--input", "x", "--conversation", "short"], "is not a conversation id"),
        (&["--input", "x", "--model", "opnai:gpt-4o"], "openai:gpt-4o"),
        (&["--input", "x", "-m", "slidding_window(3)"], "sliding_window"),
        (&["--input", "x", "--nonsense"], "--nonsense"),
        (&["--input", "x", "--model", "gemini:gemini-2.5-pro"], "cannot be called"),
    ];
    for (args, says) in cases {
        let refused = run(&folder, args);
        assert_eq!(refused.code, 2, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
    }
    let bytes = scrollback_in(&folder, &["agent", "agent.yaml", "--input", "-"], b"\xff\xfe");
    assert_eq!((bytes.code, bytes.stderr.contains("not UTF-8")), (2, true), "{bytes:?}");
    let missing = scrollback_in(&folder, &["agent", "nowhere.yaml", "--input", "x"], b"");
    assert_eq!(missing.code, 2, "{missing:?}");
    let unknown = run(&folder, &["--resume", "--recipient", "nobody"]);
    assert_eq!((unknown.code, unknown.stderr.contains("nothing to resume")), (1, true), "{unknown:?}");
    assert!(
        !folder.join("scrollback.db").exists() || run(&folder, &["--resume", "--recipient", "x"]).code == 1
    );
    let keyless = run(&folder, &["--input", "x", "--model", "openai:gpt-4o", "--json"]);
    assert_eq!((keyless.code, &keyless.json()["error"]["code"]), (1, &json!("missing_key")), "{keyless:?}");
    assert!(keyless.stderr.contains("OPENAI_API_KEY"), "{}", keyless.stderr);
}

#[test]
fn every_mistake_in_the_file_is_told_at_its_place() {
    let tool = "tools:\n  - {name: a, description: x, command: [true]}\n";
    let cases = [
        ("nam: x\nmodel: offline:echo\n", "1:1: nam: unknown key; did you mean `name`?"),
        ("model: offline:echo\n", "`name` is missing"),
        ("name: 'a b'\nmodel: offline:echo\n", "1:7: name: must be letters, digits"),
        ("name: x\nmodel: opnai:gpt\n", "did you mean `openai:gpt`?"),
        ("name: x\n", "`model` is missing"),
        ("name: x\nmodel: offline:ech\n", "did you mean `echo`?"),
        (
            "name: x\nmodel: offline:echo\nsystem: {file: nowhere.md}\n",
            "system: the file nowhere.md cannot be read",
        ),
        ("name: x\nmodel: offline:echo\ntools: 3\n", "tools: must be a list of tools"),
        ("name: x\nmodel: offline:echo\ntools: [{name: a, description: x}]\n", "tools[0]: has no source"),
        ("name: x\nmodel: offline:echo\ntools: [{name: a, comand: [x]}]\n", "did you mean `command`?"),
        (
            "name: x\nmodel: offline:echo\ntools: [{name: a, command: [x], http: {url: 'https://x.y'}}]\n",
            "has 2 sources (command, http)",
        ),
        (
            "name: x\nmodel: offline:echo\ntools: [{name: a, lisp: x}]\n",
            "`lisp` is not a source of tools here",
        ),
        ("name: x\nmodel: offline:echo\ntools: [{name: 'a b', command: [x]}]\n", "1 to 64 letters"),
        (
            "name: x\nmodel: offline:echo\ntools: [{name: a, command: [x], parameters: {type: nonsense}}]\n",
            "is not a JSON Schema",
        ),
        (
            "name: x\nmodel: offline:echo\ntools: [{name: a, command: [x], signature: '(a :strin) -> :any'}]\n",
            "signature",
        ),
        (
            "name: x\nmodel: offline:echo\ntools: [{name: a, command: [x], timeout: soon}]\n",
            "must be a duration",
        ),
        (
            "name: x\nmodel: offline:echo\ntools: [{name: a, http: {url: 'http://example.org/x'}}]\n",
            "must be https",
        ),
        (
            "name: x\nmodel: offline:echo\ntools: [{name: a, http: {url: 'https://example.org', headers: {A: 'env:NO_SUCH_VARIABLE'}}}]\n",
            "NO_SUCH_VARIABLE is not set",
        ),
        (
            "name: x\nmodel: offline:echo\ntools: [{name: a, command: [x], env: [NO_SUCH_VARIABLE]}]\n",
            "NO_SUCH_VARIABLE is not set",
        ),
        ("name: x\nmodel: offline:echo\nhistory: [{slidding_window: 3}]\n", "sliding_window"),
        ("name: x\nmodel: offline:echo\nreact: {mode: txt}\n", "did you mean `text`?"),
        (
            "name: x\nmodel: offline:echo\nreact: {max_iterations: 0}\n",
            "react.max_iterations: must be a whole number of at least 1",
        ),
        (
            "name: x\nmodel: offline:echo\noutput: {fields: {a: string}}\n",
            "output.fields.a: must be one of text, list",
        ),
        ("name: x\nmodel: offline:echo\noutput: {}\n", "needs `fields` or `schema`"),
        ("name: x\nmodel: offline:echo\ntool_choice: {name: a}\n", "unknown tool \"a\""),
        ("name: x\nmodel: offline:echo\nlimits: {deadline_s: 1}\n", "must be more than 1 second"),
        (
            "name: x\nmodel: offline:echo\nlimits: {cost_usd: -1}\n",
            "limits.cost_usd: must be a number above 0",
        ),
        ("name: x\nmodel: offline:echo\nthrottle: {attempts: 0}\n", "throttle.attempts"),
        ("name: x\nmodel: offline:echo\nrepair: maybe\n", "must be one of auto, never"),
        ("name: [x\n", "not valid YAML"),
        ("name: x\nname: y\n", "appears twice"),
        ("- a\n", "must be a map"),
    ];
    for (number, (yaml, says)) in cases.into_iter().enumerate() {
        let folder = agent(&format!("agent-bad-{number}"), yaml, "- reply: x\n");
        let refused = run(&folder, &["--input", "hi", "--json"]);
        assert_eq!(refused.code, 4, "{yaml}: {refused:?}");
        assert!(refused.stderr.contains(says), "{yaml}: {}", refused.stderr);
    }
    let twice = format!(
        "{HEAD}{tool}  - {{name: a, description: y, command: [false]}}\nunknown: 1\nparallel_tools: 0\n"
    );
    let folder = agent("agent-bad-several", &twice, "- reply: x\n");
    let refused = run(&folder, &["--input", "hi", "--json"]);
    let told = refused.json();
    assert_eq!(told["error"]["problems"].as_array().unwrap().len(), 3, "{told}");
    assert_eq!(
        refused.stderr.lines().filter(|line| line.contains("agent.yaml:")).count(),
        3,
        "{}",
        refused.stderr
    );
    let shown = run(&folder, &["--input", "hi"]);
    for part in ["at agent.yaml:", "unknown: 1\n", "^^^^^^^"] {
        assert!(shown.stderr.contains(part), "people see the line and a mark: {shown:?}");
    }
    let script = agent("agent-bad-script", HEAD, "- reply: ok\n- repply: x\n");
    let refused = run(&script, &["--input", "hi"]);
    assert_eq!((refused.code, refused.stderr.contains("[1]")), (4, true), "{refused:?}");
}

#[test]
fn killed_in_a_tool_it_goes_on_and_what_must_not_happen_twice_does_not() {
    let yaml = format!(
        "{HEAD}tools:\n  - {{name: die, description: x, command: [sh, die.sh]}}\n  - {{name: once, description: x, command: [sh, once.sh], effects: once}}\n"
    );
    let script = "- {calls: [{name: once, id: a}, {name: die, id: b}, {name: once, id: c}]}\n";
    let folder = agent("agent-killed", &yaml, script);
    // Kills its caller the first time, and works the second.
    std::fs::write(
        folder.join("die.sh"),
        "if [ -e died ]; then echo alive; else : > died; kill -9 $PPID; sleep 5; fi\n",
    )
    .unwrap();
    std::fs::write(folder.join("once.sh"), "echo \"$SCROLLBACK_CALL_ID\" >> ran\necho ok\n").unwrap();
    let killed = run(&folder, &["--input", "go", "--recipient", "anna"]);
    assert_eq!(killed.code, -1, "{killed:?}");
    let script = "- {expect: {contains: [alive, ok, '[interrupted: no result was recorded]'], roles: [system, user, assistant, tool, tool, tool]}, reply: done}\n";
    std::fs::write(folder.join("script.yaml"), script).unwrap();
    // The lease of a process that is dead is void at once.
    let resumed = run(&folder, &["--resume", "--recipient", "anna", "--json"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(
        std::fs::read_to_string(folder.join("ran")).unwrap(),
        "a\n",
        "call c may have run, so it is not run again"
    );
    assert_eq!(resumed.json()["entries"], 7);
    assert_eq!(scrollback_in(&folder, &["verify", "--json"], b"").json()["ok"], true);
}

#[test]
fn tools_that_misbehave_are_results() {
    let yaml = format!(
        "{HEAD}tools:\n  - {{name: loud, description: x, command: [sh, -c, 'yes | head -c 3000000'], max_output: 1000}}\n  - {{name: odd, description: x, command: [printf, '\\377\\376ok']}}\n  - {{name: slow, description: x, command: [sleep, '60'], timeout: 300ms}}\n  - {{name: gone, description: x, command: [no-such-program]}}\n"
    );
    let script = "- calls: [{name: loud, id: a}, {name: odd, id: b}, {name: slow, id: c}, {name: gone, id: d}]\n\
                  - expect: {contains: ['bytes left out', 'ok', 'took longer than 0.3 s', 'cannot be started'], roles: [system, user, assistant, tool, tool, tool, tool]}\n  reply: survived\n";
    let folder = agent("agent-misbehave", &yaml, script);
    let done = run(&folder, &["--input", "go"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "survived\n"), "{done:?}");
}

/// A server that other people wrote: the reference server for times, from `PyPI`, which `./dev setup` installs.
#[test]
fn tools_of_a_published_mcp_server_are_called() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let server = target.join("venv-sdk/bin/mcp-server-time");
    let untested = "tools of a published MCP server";
    let Some(server) = required::file(&server, "mcp-server-time", untested) else { return };
    let yaml = format!(
        "{HEAD}tools:\n  - {{mcp: {{name: time, command: [{}, --local-timezone, UTC]}}, allow: [convert_time]}}\n",
        server.display()
    );
    let script = "- expect: {tools: [time__convert_time]}\n  calls: [{name: time__convert_time, arguments: {source_timezone: UTC, time: '12:00', target_timezone: Asia/Kolkata}}, {name: time__convert_time, arguments: {source_timezone: Nowhere/Land, time: '12:00', target_timezone: UTC}}]\n\
                  - expect: {contains: ['17:30', 'Nowhere/Land'], roles: [system, user, assistant, tool, tool]}\n  reply: half past five\n";
    let folder = agent("agent-mcp", &yaml, script);
    let done = run(&folder, &["--input", "When is noon in Kolkata?", "--json"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(done.json()["tools"], json!([{ "name": "time__convert_time", "calls": 2, "errors": 1 }]));
    let unknown =
        format!("{HEAD}tools: [{{mcp: {{name: time, command: [{}]}}, allow: [tell]}}]\n", server.display());
    let folder = agent("agent-mcp-unknown", &unknown, script);
    let refused = run(&folder, &["--input", "x"]);
    assert!(refused.code == 1 && refused.stderr.contains("convert_time"), "{refused:?}");
    let gone = format!("{HEAD}tools: [{{mcp: {{name: gone, command: [no-such-server]}}}}]\n");
    let refused = run(&agent("agent-mcp-gone", &gone, script), &["--input", "x", "--json"]);
    assert_eq!((refused.code, &refused.json()["error"]["code"]), (1, &json!("mcp_server")), "{refused:?}");
}

#[test]
fn streamed_text_comes_once_and_line_by_line() {
    let yaml = format!("{HEAD}tools: [{{name: look, description: x, command: [echo, seen]}}]\n");
    let script = "- {text: Let me look., calls: [{name: look}]}\n- reply: I have seen it.\n";
    let folder = agent("agent-stream", &yaml, script);
    let streamed = run(&folder, &["--input", "go", "--stream"]);
    assert_eq!(
        (streamed.code, streamed.stdout.as_str()),
        (0, "Let me look.\nI have seen it.\n"),
        "{streamed:?}"
    );
}

#[test]
fn older_turns_are_summarised_by_the_model_that_is_named() {
    let folder = folder("agent-compact");
    std::fs::write(
        folder.join("summary.yaml"),
        "- {expect: {contains: ['question 0', 'at most']}, reply: They greeted.}\n",
    )
    .unwrap();
    let turns: Vec<Value> = (0..11)
        .flat_map(|turn| {
            [
                json!({ "role": "user", "content": format!("question {turn}") }),
                json!({ "role": "assistant", "content": "answer" }),
            ]
        })
        .collect();
    std::fs::write(folder.join("turns.json"), json!(turns).to_string()).unwrap();
    assert_eq!(scrollback_in(&folder, &["history", "anna", "append", "--file", "turns.json"], b"").code, 0);
    let done = scrollback_in(
        &folder,
        &["history", "anna", "compact", "--model", "offline:script=summary.yaml", "--json"],
        b"",
    );
    assert_eq!(done.json()["summary"], "They greeted.", "{done:?}");
}
