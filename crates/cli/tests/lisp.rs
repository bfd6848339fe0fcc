//! `scrollback lisp` as people and scripts meet it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support::{folder, repository, scrollback, scrollback_in};
use serde_json::{Value, json};

#[test]
fn values_go_to_standard_output_and_errors_to_standard_error_with_a_caret() {
    let run = scrollback(&["lisp", "eval", "(println \"hi\") (+ 1 2)"], "");
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "hi\n3\n", ""));
    let run = scrollback(&["lisp", "eval", "(println 1) (/ 1 0)"], "");
    assert_eq!((run.code, run.stdout.as_str()), (1, "1\n"));
    assert_eq!(run.stderr, "arithmetic_error: divide by zero\n1 | (println 1) (/ 1 0)\n                ^\n");
}

#[test]
fn exit_codes_tell_whose_fault_it_is() {
    let folder = folder("lisp-exit");
    std::fs::write(folder.join("list.json"), "[1]").unwrap();
    for (args, code) in [
        (&["eval", "1"][..], 0),
        (&["eval", "(fail 1)"], 1),
        (&["eval", "(loop [] (recur))"], 1),
        (&["eval", "-1"], 0),
        (&["eval", "1", "--data", "none.json"], 2),
        (&["eval", "1", "--data", "list.json"], 2),
        (&["eval", "1", "--now", "yesterday"], 2),
        (&["run", "none.clj"], 2),
        (&["run"], 2),
        (&["eval", "("], 4),
        (&["eval", "(let [x])"], 4),
        (&["eval", "nobody"], 4),
        (&["eval", "(tool/none)"], 4),
    ] {
        let args: Vec<&str> = ["lisp"].iter().chain(args).copied().collect();
        assert_eq!(scrollback_in(&folder, &args, b"").code, code, "{args:?}");
    }
    assert_eq!(scrollback_in(&folder, &["lisp", "run", "-"], b"(+ 1\n 2)").stdout, "3\n");
    let bad = scrollback_in(&folder, &["lisp", "run", "-", "--json"], b"(+ 1 \xff)");
    assert_eq!(bad.code, 4);
    assert!(bad.json()["error"]["message"].as_str().unwrap().contains("byte 5"), "{bad:?}");
}

#[test]
fn every_case_of_the_corpus_is_answered_in_order() {
    let file = repository("corpus/lisp/cases.jsonl");
    let run = scrollback(&["lisp", "run", "--cases", &file, "--json"], "");
    assert_eq!(run.code, 0);
    let cases = std::fs::read_to_string(&file).unwrap();
    let (mut answers, mut wrong) = (run.stdout.lines(), Vec::new());
    for case in cases.lines() {
        let case: Value = serde_json::from_str(case).unwrap();
        let answer: Value = serde_json::from_str(answers.next().unwrap()).unwrap();
        assert_eq!(answer["id"], case["id"]);
        let right = match case["error"].as_str() {
            Some(reason) => answer["error"]["reason"] == reason,
            None => answer["value"] == case["value"] && answer["error"].is_null(),
        };
        let calls: Vec<Value> = answer["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|call| json!({ "name": call["name"], "args": call["args"] }))
            .collect();
        let logged = (case["prints"].is_null() || case["prints"] == answer["prints"])
            && (case["tool_calls"].is_null() || case["tool_calls"] == Value::Array(calls));
        if !right || !logged {
            wrong.push(format!("{case}\n    {answer}"));
        }
    }
    assert!(wrong.is_empty() && answers.next().is_none(), "{}", wrong.join("\n"));
}

#[test]
fn limits_and_the_clock_are_options() {
    for (args, reason) in
        [(&["--fuel", "100"][..], "fuel_exceeded"), (&["--max-memory", "1"], "memory_exceeded")]
    {
        let mut all = vec!["lisp", "eval", "(count (range 1000000))", "--json"];
        all.extend(args);
        assert_eq!(scrollback(&all, "").json()["error"]["reason"], reason);
    }
    let run = scrollback(&["lisp", "eval", "(str (LocalDate/now))", "--now", "2024-01-15T10:00:00Z"], "");
    assert_eq!(run.stdout, "\"2024-01-15\"\n");
}

#[test]
fn the_loop_keeps_definitions_and_values() {
    let input = "(def x 5)\n(* x\n   2)\n*1\n:doc inc\n:defs\n(oops)\n:quit\n";
    let run = scrollback(&["lisp", "repl"], input);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.stdout, "#'x\n10\n10\n(inc x): one more\n  (inc 1) ; => 2\nx  integer\n");
    assert!(run.stderr.contains("unbound_var: undefined variable: oops"), "{run:?}");
}
