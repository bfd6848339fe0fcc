//! `scrollback subagent`: the examples, every exit code, every kind of mistake, crashes, comparisons.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{Run, folder, repository, scripted, scrollback, scrollback_in};
use serde_json::{Value, json};

fn example(name: &str) -> String {
    repository(&format!("examples/subagents/{name}"))
}

/// A folder with a sub-agent in it.
fn agent(name: &str, yaml: &str, script: &str) -> PathBuf {
    scripted(name, "agent.yaml", yaml, script)
}

fn run(folder: &Path, args: &[&str]) -> Run {
    let all: Vec<&str> = ["subagent", "agent.yaml"].into_iter().chain(args.iter().copied()).collect();
    scrollback_in(folder, &all, b"")
}

const HEAD: &str = "name: test\nmodel: offline:script=script.yaml\nmission: Go.\n";

#[test]
fn the_examples_run_offline() {
    let folder = folder("subagent-examples");
    let run = |args: &[&str]| scrollback_in(&folder, &[&["subagent"], args].concat(), b"");
    let analyst = run(&[&example("analyst.yaml"), "--data", &example("orders.json")]);
    assert_eq!(
        (analyst.code, analyst.stdout.as_str()),
        (0, "{\"customers\":[\"Ana\",\"Cid\"],\"total\":280.5}\n"),
        "{analyst:?}"
    );
    let desk = run(&[&example("desk.yaml")]);
    assert_eq!(
        (desk.code, desk.stdout.as_str()),
        (0, "{\"day\":\"MONDAY\",\"label\":\"plan\",\"shout\":\"MEET AT NOON\",\"words\":3}\n"),
        "{desk:?}"
    );
    for spec in ["off", "on", "rolling_window(keep=1, slack=1)"] {
        let archive = run(&[&example("archive.yaml"), "--compression", spec]);
        assert_eq!((archive.code, archive.stdout.as_str()), (0, "{\"code\":7431}\n"), "{spec}: {archive:?}");
    }
}

#[test]
fn rendering_cases_come_out_byte_for_byte_with_their_ids() {
    let file = repository("corpus/subagent/coalesced.jsonl");
    let rendered = scrollback(&["subagent", "render", &file], "");
    assert_eq!(rendered.code, 0, "{}", rendered.stderr);
    let cases = std::fs::read_to_string(&file).unwrap();
    assert_eq!(rendered.stdout.lines().count(), cases.lines().count());
    for (case, answer) in cases.lines().zip(rendered.stdout.lines()) {
        let (case, answer): (Value, Value) =
            (serde_json::from_str(case).unwrap(), serde_json::from_str(answer).unwrap());
        assert_eq!(answer["id"], case["id"]);
        assert_eq!(answer["messages"][1], json!({ "role": "user", "content": case["user"] }));
        assert!(answer["stats"]["tokens_after"].as_u64().unwrap() > 0);
    }
    let one = cases.lines().next().unwrap();
    let piped = scrollback(&["subagent", "render", "-"], one);
    assert_eq!(piped.json()["messages"][1]["content"], serde_json::from_str::<Value>(one).unwrap()["user"]);
    let off = one.replace("\"options\": {}", "\"compression\": false, \"options\": {}");
    assert_eq!(scrollback(&["subagent", "render", "-"], &off).json()["stats"]["strategy"], "off");
}

#[test]
fn a_case_that_is_none_is_refused_at_its_place() {
    let turn = |fields: &str| format!("{{\"mission\": \"x\", \"turns\": [{{\"success\": true, {fields}}}]}}");
    for (case, told) in [
        ("{".to_string(), "error"),
        ("[]".into(), "must be an object"),
        ("{\"data\": {}}".into(), "`mission` is missing"),
        ("{\"mission\": \"x\", \"mision\": 1}".into(), "did you mean `mission`?"),
        ("{\"mission\": \"x\", \"trace\": []}".into(), "unknown field `trace`"),
        ("{\"mission\": \"{{x}}\"}".into(), "no parameters"),
        ("{\"mission\": \"x\", \"signature\": \"(a\"}".into(), "signature: signature, column 3"),
        ("{\"mission\": \"x\", \"options\": {\"printn_limit\": 1}}".into(), "did you mean `println_limit`?"),
        ("{\"mission\": \"x\", \"options\": [1]}".into(), "options: must be an object"),
        ("{\"mission\": \"x\", \"compression\": \"some\"}".into(), "there is no strategy `some`"),
        ("{\"mission\": \"x\", \"max_turns\": 0}".into(), "max_turns: must be a whole number above 0"),
        (turn("\"memory\": {\"a\": \"[1\"}"), "turns[0].memory.a"),
        (turn("\"tool_calls\": [{\"args\": {}}]"), "turns[0].tool_calls[0]: `name` is missing"),
        (turn("\"error\": {\"reason\": \"x\", \"message\": \"y\"}"), "with success has no `error`"),
    ] {
        let refused = scrollback(&["subagent", "render", "-"], &case);
        assert_eq!(refused.code, 4, "{case}: {refused:?}");
        assert!(refused.stderr.contains(told), "{case}: {}", refused.stderr);
    }
    assert_eq!(scrollback(&["subagent", "render", "none.json"], "").code, 1);
}

#[test]
fn the_answer_has_its_shape() {
    let folder = agent(
        "subagent-shape",
        HEAD,
        "- {reply: '(def x 1)', usage: {input: 10, output: 3}}\n- {reply: '(return {:x x})', usage: {input: 20, output: 4}}\n",
    );
    let told = run(&folder, &["--json", "--compression", "on"]);
    assert_eq!(told.code, 0, "{told:?}");
    let answer = told.json();
    let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "return",
            "fail",
            "turns",
            "usage",
            "compression",
            "run",
            "trace_id",
            "parent_trace_id",
            "children",
            "calls"
        ]
    );
    assert_eq!(
        (&answer["return"], &answer["fail"], &answer["run"]),
        (&json!({ "x": 1 }), &Value::Null, &Value::Null)
    );
    assert_eq!(
        answer["usage"],
        json!({ "input": 30, "output": 7, "cache_read": 0, "cache_write": 0, "estimated": false, "total": 37 })
    );
    let turn: Vec<&str> = answer["turns"][0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        turn,
        [
            "number",
            "raw_response",
            "program",
            "result",
            "prints",
            "tool_calls",
            "memory",
            "success",
            "usage",
            "defined"
        ]
    );
    assert_eq!(
        (&answer["turns"][0]["result"], &answer["turns"][0]["memory"]),
        (&json!("#'x"), &json!({ "x": "1" }))
    );
    assert_eq!(answer["calls"].as_array().unwrap().len(), 2);
    assert_eq!(
        answer["calls"][1]["messages"][1]["content"],
        "Go.\n\n;; === user/ (your prelude) ===\nx                             ; = integer, sample: 1\n\nTurns left: 4"
    );
    assert_eq!(answer["calls"][1]["stats"]["strategy"], "single_user_coalesced");
    assert!(answer["calls"][1].get("mismatch").is_none());
    assert_eq!(
        answer["calls"][1]["view"],
        json!([{ "index": 0 }, { "coalesced": [1, 2, 3], "strategy": "single_user_coalesced" }]),
        "what a message stands for is named"
    );
    // What was done can be rendered again.
    let case = json!({ "mission": "Go.", "turns": [{ "program": "(def x 1)", "result": answer["turns"][0]["result"], "memory": answer["turns"][0]["memory"], "success": true }] });
    let again = scrollback(&["subagent", "render", "-"], &case.to_string()).json();
    assert_eq!(again["messages"][1]["content"], answer["calls"][1]["messages"][1]["content"]);
}

#[test]
fn each_exit_code_says_what_it_means() {
    let folder = agent("subagent-exits", HEAD, "- reply: '(fail \"no rows\")'\n");
    let failed = run(&folder, &["--json"]);
    assert_eq!(
        (failed.code, &failed.json()["fail"]),
        (1, &json!({ "reason": "failed", "message": "no rows" }))
    );
    assert_eq!(run(&folder, &["--max-turns", "0"]).code, 2);
    assert_eq!(run(&folder, &["--compression", "rolin"]).code, 2);
    assert_eq!(run(&folder, &["--show", "all"]).code, 2);
    assert_eq!(run(&folder, &["--model", "offline:none"]).code, 2);
    assert_eq!(run(&folder, &["--data", "none.json"]).code, 1);
    assert_eq!(scrollback_in(&folder, &["subagent", "none.yaml"], b"").code, 2);
    assert_eq!(scrollback_in(&folder, &["subagent"], b"").code, 2);
    assert_eq!(run(&folder, &["--resume", "none", "--store", "sqlite:s.db"]).code, 2);
    let blank = run(&folder, &["--mission", " "]);
    assert!(blank.code == 4 && blank.stderr.contains("the mission is blank"), "{blank:?}");
    std::fs::write(folder.join("agent.yaml"), "mission: Go.\n").unwrap();
    let lonely = run(&folder, &["--json"]);
    assert_eq!((lonely.code, &lonely.json()["fail"]["reason"]), (1, &json!("llm_required")));
    std::fs::write(
        folder.join("agent.yaml"),
        format!("{HEAD}signature: '(n :int, rows [{{id :int}}]) -> :int'\n"),
    )
    .unwrap();
    std::fs::write(folder.join("data.json"), r#"{"n": 1, "rows": [{"id": "x"}]}"#).unwrap();
    let unfit = run(&folder, &["--data", "data.json"]);
    assert!(
        unfit.code == 4 && unfit.stderr.contains("data rows[0].id: expected int, got string"),
        "{unfit:?}"
    );
    std::fs::write(folder.join("data.json"), "[1]").unwrap();
    assert_eq!(run(&folder, &["--data", "data.json"]).code, 4);
}

#[test]
fn every_mistake_in_the_file_is_told_at_its_place() {
    let folder = agent(
        "subagent-mistakes",
        "name: a b\nmission: 'Find {{wht}}.'\nsignature: '(what :string) -> :int'\nmax_turns: 0\ncompresion: on\ncompression: {single_user_coalesced: {keep: 1}}\n\
         limits: {timeout: soon, memory_limit: 1XB, fuell: 3}\nsystem_prompt: 'Today is {{date}}'\ndata: {return: 1}\n\
         tools:\n  ask: {human: {question: x}}\n  bad: {signature: '(a :integer) -> :int', lisp: '(+ a 1)'}\n  open: {signature: '(a :int) -> :int', lisp: '(+ a'}\n  \
         none: {agent: none.yaml}\n  prompt: {llm: 'hi'}\n  fail: {lisp: '1'}\n  both: {lisp: '1', llm: 'x'}\n  file: {command: [cat], signature: '(a :int) -> :int', input: b}\n  secret: {http: {url: 'https://example.org', headers: {Authorization: Bearer abc}}}\n  long: {lisp: '1', max_output: 9, parameters: {type: object}}\n  signed: {agent: agent.yaml, signature: ':int'}\ndescriptions: {n: [1]}\n",
        "[]",
    );
    let told = run(&folder, &["--json"]);
    assert_eq!(told.code, 4, "{told:?}");
    for part in [
        "agent.yaml:1:7: name: must be letters",
        "agent.yaml:2:10: mission: the mission has {{wht}}, which is not a parameter of the signature; did you mean `what`?",
        "agent.yaml:4:12: max_turns: must be a whole number of at least 1",
        "agent.yaml:5:1: compresion: unknown key; did you mean `compression`?",
        "compression: single_user_coalesced has no option `keep`",
        "limits.timeout: must be a duration",
        "limits.memory_limit: must be a size",
        "limits.fuell: unknown key; did you mean `fuel`?",
        "system_prompt: has {{…}}",
        "data: data \"return\"",
        "tools.ask: `human` is not a source of tools here",
        "tools.bad.signature: signature, column 4: expected a type",
        "tools.open: lisp: line 1, column 1: ( is never closed",
        "tools.none: none.yaml cannot be read",
        "tools.prompt: a prompt needs a signature",
        "tools.fail: tool \"fail\"",
        "tools.both: has 2 sources",
        "tools.secret.http.headers: Authorization: secrets do not belong in files; name a variable: `env:NAME`",
        "tools.long.max_output: does not apply to `lisp`; leave it out",
        "tools.long.parameters: does not apply to `lisp`; write a `signature`",
        "tools.signed.signature: the agent's file has the signature; leave it out",
        "descriptions: n: must be a text, not",
        "tools.file.input: \"b\" is not a parameter of the signature; there are: a",
    ] {
        assert!(told.stderr.contains(part), "{part}\n{}", told.stderr);
    }
    assert!(told.json()["error"]["problems"].as_array().unwrap().len() >= 17);
    std::fs::write(folder.join("agent.yaml"), format!("{HEAD}tools: {{me: {{agent: agent.yaml}}}}\n"))
        .unwrap();
    let circle = run(&folder, &[]);
    assert!(circle.code == 4 && circle.stderr.contains("more than 8 deep"), "{}", circle.stderr);
}

#[test]
fn views_combine_and_plain_output_has_no_colours() {
    let folder = agent(
        "subagent-views",
        HEAD,
        "- reply: 'I count. ```(count [1 2])```'\n- reply: \"I count.\\n```clojure\\n(count [1 2])\\n```\"\n- reply: '(return \"two\")'\n",
    );
    let shown = run(&folder, &["--show", "turns,usage,compressed,raw", "--compression", "on"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(!shown.stdout.contains('\u{1b}'));
    for part in [
        "call 3  single_user_coalesced",
        "turn 1  failed",
        "turn 2  ok",
        "  reply\n    I count.",
        "usage\n",
        "  system\n",
        "*1                            ; = integer, sample: 2",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    assert!(shown.stdout.ends_with("\ntwo\n"), "the value comes last");
    assert!(!shown.stdout.contains("MISMATCH"));
}

#[test]
fn killed_in_a_tool_it_goes_on_with_the_same_next_request() {
    let script = "- {reply: '(def a (tool/look {:n 1}))'}\n- {reply: '(def b (tool/look {:n 2}))'}\n- {reply: '(return [a b])'}\n";
    let yaml = format!(
        "{HEAD}compression: on\ntools: {{look: {{signature: '(n :int) -> :int', command: [sh, look.sh, '{{n}}'], effects: read}}}}\n"
    );
    let folder = agent("subagent-killed", &yaml, script);
    std::fs::write(
        folder.join("look.sh"),
        "[ -f slow ] && [ $1 = 2 ] && { echo > reached; sleep 60; }\necho $((10 * $1))\n",
    )
    .unwrap();
    let whole = run(&folder, &["--json"]).json();
    assert_eq!(whole["return"], json!([10, 20]));

    std::fs::write(folder.join("slow"), "").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_scrollback"))
        .args(["subagent", "agent.yaml", "--store", "sqlite:runs.db"])
        .current_dir(&folder)
        .env("XDG_CONFIG_HOME", folder.join("none"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !folder.join("reached").exists() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_file(folder.join("slow")).unwrap();
    // A script starts at its first item in every process; the model would simply go on.
    std::fs::write(folder.join("script.yaml"), "- {reply: '(return [a b])'}\n").unwrap();
    let resumed = run(&folder, &["--resume", "", "--store", "sqlite:runs.db", "--json"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    let resumed = resumed.json();
    assert_eq!(resumed["return"], json!([10, 20]));
    assert_eq!(resumed["calls"][2]["messages"], whole["calls"][2]["messages"], "the same next request");
    assert_eq!(resumed["turns"].as_array().unwrap().len(), 3);
    let again =
        run(&folder, &["--resume", resumed["run"].as_str().unwrap(), "--store", "sqlite:runs.db", "--json"]);
    assert_eq!((again.code, &again.json()["error"]["code"]), (1, &json!("nothing_to_resume")));
}

#[test]
fn strategies_are_compared_by_running_and_by_replaying() {
    let folder = folder("subagent-ab");
    let run = |args: &[&str]| scrollback_in(&folder, &[&["subagent"], args].concat(), b"");
    let archive = example("archive.yaml");
    let (tasks, specs) = (example("archive.tasks.jsonl"), ["--compression", "off", "--compression", "on"]);
    let report = run(&[&["ab", &archive, "--tasks", &tasks, "--repeat", "2", "--json"], &specs[..]].concat());
    assert_eq!(report.code, 0, "{report:?}");
    let rows = &report.json()["strategies"];
    for at in 0..2 {
        assert_eq!(
            (&rows[at]["right"], &rows[at]["runs"], &rows[at]["repeated_calls"]),
            (&json!(2), &json!(2), &json!(0))
        );
        assert!(rows[at]["turns"]["interval"].is_array() && rows[at]["right_interval"].is_array());
    }
    assert!(rows[1]["total_tokens_in"].as_u64() < rows[0]["total_tokens_in"].as_u64());
    let table = run(&[&["ab", &archive, "--tasks", &tasks], &specs[..]].concat());
    assert!(
        table.stdout.contains("on has ") && table.stdout.contains("% fewer input tokens than off"),
        "{}",
        table.stdout
    );

    let stored = run(&[&archive, "--store", "sqlite:s.db", "--json"]).json();
    let id = stored["run"].as_str().unwrap();
    let forgetful = "single_user_coalesced(tool_results=\"never\", last_result=false)";
    let replayed = run(&[
        "ab",
        "--replay",
        &id[..6],
        "--store",
        "sqlite:s.db",
        "--compression",
        "on",
        "--compression",
        forgetful,
        "--json",
    ]);
    assert_eq!(replayed.code, 0, "{replayed:?}");
    let rows = &replayed.json()["replay"][0]["strategies"];
    let lost = |at: usize| rows[at]["facts_lost"].to_string();
    assert_eq!(rows[0]["calls"], 4);
    assert!(rows[0]["tokens"].as_u64() < rows[0]["tokens_uncompressed"].as_u64());
    assert!(!lost(0).contains("see birch") && !lost(0).contains("code 7431"), "{}", lost(0));
    assert!(lost(1).contains("see birch") && lost(1).contains("code 7431"), "{}", lost(1));
    let bad = run(&["ab", &archive, "--tasks", &archive]);
    assert_eq!(bad.code, 4, "{bad:?}");
    assert_eq!(run(&["ab", &archive]).code, 2);
}

#[test]
fn only_the_new_names_are_known() {
    let folder = agent("subagent-names", HEAD, "- reply: '(return 1)'\n");
    for old in
        ["prompt: Go", "debug: true", "trace: true", "messages: true", "system: x", "compress_history: true"]
    {
        std::fs::write(folder.join("agent.yaml"), format!("{HEAD}{old}\n")).unwrap();
        let refused = run(&folder, &[]);
        let name = old.split(':').next().unwrap();
        assert!(
            refused.code == 4 && refused.stderr.contains(&format!("({name})\n    4 | {old}\n        ^^^")),
            "{old}: {refused:?}"
        );
    }
    std::fs::write(folder.join("agent.yaml"), HEAD).unwrap();
    let answer = run(&folder, &["--json"]).json();
    assert!(answer.get("turns").is_some() && answer.get("trace").is_none() && answer.get("prompt").is_none());
    assert_eq!(answer["turns"][0]["raw_response"], "(return 1)", "kept without being asked for");
    let help = scrollback(&["subagent", "--help"], "").stdout;
    assert!(help.contains("--mission") && !help.contains("--prompt") && !help.contains("--debug"));
}

#[test]
fn every_requirement_names_tests_that_exist() {
    let page = std::fs::read_to_string(repository("docs/subagent-requirements.md")).unwrap();
    let mut tests = 0;
    for name in page.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once(".rs::") else { continue };
        let source = std::fs::read_to_string(repository(&format!("{file}.rs")));
        let source = source.unwrap_or_else(|_| unreachable!("{file}.rs is not there"));
        assert!(source.contains(&format!("fn {test}(")), "{file}.rs has no test {test}");
        tests += 1;
    }
    assert!(tests >= 60, "only {tests} tests are named");
    let groups = [
        ("PRE", 3),
        ("BRK", 9),
        ("MIG", 6),
        ("API", 7),
        ("ARC", 12),
        ("NS", 12),
        ("FMT", 18),
        ("TYP", 12),
        ("TRN", 11),
        ("SAM", 3),
        ("DEF", 9),
        ("TC", 7),
        ("MSG", 7),
        ("CMP", 3),
        ("ERR", 5),
        ("SS", 2),
        ("DBG", 10),
        ("CLN", 12),
    ];
    for (group, last) in groups {
        for number in 1..=last {
            let id = format!("| {group}-{number:03} |");
            assert_eq!(page.matches(&id).count(), 1, "{id} has one row");
        }
    }
}
