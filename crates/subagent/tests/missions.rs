//! The loop: turns, ends, limits. What is asserted is what the model was sent.

use std::sync::Arc;
use std::time::Duration;

use scrollback_agent::FakeClock;
use scrollback_lisp::Signature;
use scrollback_subagent::{AgentTool, EndReason, InheritedSettings, OutputForm, compression};
use serde_json::json;

use crate::support::{agent, ended, function, host, plain_host, programs, run, scripted, text, value, with};

#[tokio::test]
async fn a_mission_goes_on_until_a_program_returns() {
    let agent = agent("mission: 'Add {{n}}.'\nsignature: '(n :int) -> :int'\ndata: {n: '4'}\n").await;
    let (host, bodies) = host();
    let model = programs(&["(def x (+ n 1)) x", "(println \"x is\" x)", "(return (+ x *2))"]);
    let step = run(&agent, &with(model), &host).await;
    assert_eq!(ended(&step), "done 10");
    assert_eq!(step.turns.len(), 3);
    assert_eq!(step.warnings, ["n: took string for int"], "inputs are coerced, with a warning");
    let sent: Vec<Vec<String>> = bodies
        .lock()
        .unwrap()
        .iter()
        .map(|body| {
            let messages = body["messages"].as_array().unwrap();
            messages.iter().map(|message| message["role"].as_str().unwrap().to_string()).collect()
        })
        .collect();
    assert_eq!(sent[2], ["system", "user", "assistant", "user", "assistant", "user"]);
    assert_eq!(
        text(&bodies, 0, 1),
        "Add 4.\n\n;; === return ===\n(return :int)\n\n;; === data/ ===\n\
         data/n                        ; integer, sample: 4\n\nTurns left: 5"
    );
    assert_eq!(text(&bodies, 1, 3), "Result: 5\n\nStored: x\n\nTurns left: 4");
    assert_eq!(text(&bodies, 2, 5), ";; Output:\nx is 5\n\nTurns left: 3");
    let bodies = bodies.lock().unwrap();
    for pair in bodies.windows(2) {
        let (before, after) = (&pair[0]["messages"], pair[1]["messages"].as_array().unwrap());
        assert_eq!(
            before,
            &json!(after[..before.as_array().unwrap().len()]),
            "each request is a prefix of the next"
        );
    }
}

#[tokio::test]
async fn every_end_has_its_name() {
    let base = "mission: Do it.\n";
    let cases: Vec<(&str, &str, &str, usize)> = vec![
        (base, "['(fail \"no data\")']", "failed no data", 1),
        ("mission: Do it.\nmax_turns: 2\n", "['1', '2']", "max_turns_exceeded 2 turns went by", 2),
        ("mission: Do it.\nturn_budget: 1\n", "['1']", "turn_budget_exhausted 1 turn was used", 1),
        (base, "[]", "llm_error script_exhausted", 0),
        ("mission: Do it.\nmax_turns: 1\n", "['I cannot.']", "no_code_found 1 turn went by", 1),
        ("mission: Do it.\nmax_turns: 1\nsignature: ':int'\n", "['(+ 1 2)']", "done 3", 1),
        (
            "mission: Do it.\nmax_turns: 1\nsignature: ':int'\n",
            "['\"x\"']",
            "max_turns_exceeded 1 turn went by",
            1,
        ),
        (
            "mission: Do it.\nlimits: {memory_limit: 100B, on_memory_limit: stop}\n",
            "['(def x (vec (range 100)))']",
            "memory_limit_exceeded definitions would take more than 100 bytes",
            1,
        ),
    ];
    for (yaml, said, end, turns) in cases {
        let said: Vec<String> = serde_json::from_str(&said.replace('"', "\\\"").replace('\'', "\"")).unwrap();
        let replies: Vec<serde_json::Value> = said
            .iter()
            .map(|text| {
                let fenced = text.starts_with("I ");
                json!({ "reply": if fenced { text.clone() } else { format!("```clojure\n{text}\n```") } })
            })
            .collect();
        let (host, _) = host();
        let step = run(&agent(yaml).await, &with(scripted(&json!(replies).to_string())), &host).await;
        assert!(ended(&step).starts_with(end), "{yaml}: {}", ended(&step));
        assert_eq!(step.turns.len(), turns, "{yaml}");
    }
    let (host, bodies) = host();
    let step = run(&agent(base).await, &InheritedSettings::default(), &host).await;
    assert_eq!(step.end(), EndReason::LlmRequired);
    host.stop.stop();
    let step = run(&agent(base).await, &with(programs(&["1"])), &host).await;
    assert_eq!(step.end(), EndReason::Cancelled);
    assert!(bodies.lock().unwrap().is_empty(), "no model was asked");
}

#[tokio::test]
async fn what_goes_wrong_is_told_and_the_next_turn_mends_it() {
    let (host, bodies) = host();
    let model = scripted(
        &json!([
            { "reply": "Let me think." },
            { "reply": "```clojure\n(def a 1) (foo)\n```" },
            { "reply": "```clojure\n(def a 1)\n(return {:n \"x\"})\n```" },
            { "reply": "```clojure\n(return {:n 1})\n```" },
        ])
        .to_string(),
    );
    let agent =
        agent("mission: Go.\nsignature: '{n :int}'\nmax_turns: 3\nretry_turns: 1\ncompression: on\n").await;
    let step = run(&agent, &with(model), &host).await;
    assert_eq!(ended(&step), "done {:n 1}");
    let reasons: Vec<Option<&str>> =
        step.turns.iter().map(|turn| turn.error.as_ref().map(|error| error.reason.as_str())).collect();
    assert_eq!(reasons, [Some("no_code_found"), Some("unbound_var"), Some("validation_error"), None]);
    assert!(step.turns[1].memory.is_empty(), "a failed turn defines nothing");
    assert!(text(&bodies, 1, 1).contains("(no program found in the reply)"), "{}", text(&bodies, 1, 1));
    assert!(
        text(&bodies, 2, 1).ends_with("FINAL TURN - you must call (return result) or (fail reason) now.")
    );
    assert!(!text(&bodies, 2, 1).contains("no program found"), "only the newest error is shown");
    let last = text(&bodies, 3, 1);
    assert!(
        last.contains("Error: Return value does not match {n :int}:\n- n: expected int, got string\n---"),
        "{last}"
    );
    assert!(
        last.ends_with("FINAL TURN - you must call (return result) or (fail reason) now."),
        "a turn was granted"
    );
}

#[tokio::test]
async fn at_most_ten_mismatches_are_listed() {
    let (host, _) = host();
    let agent = agent("mission: Go.\nsignature: '[:int]'\nmax_turns: 1\n").await;
    let step = run(&agent, &with(programs(&["(return (map str (range 13)))"])), &host).await;
    let message = &step.turns[0].error.as_ref().unwrap().message;
    assert!(message.contains("\n- [9]: expected int, got string\n- … and 3 more"), "{message}");
    let agent = crate::support::agent("mission: Go.\nsignature: ':int'\nmax_turns: 1\n").await;
    let step = run(&agent, &with(programs(&["(return \"x\")"])), &host).await;
    assert!(step.turns[0].error.as_ref().unwrap().message.ends_with(":\n- (root): expected int, got string"));
}

#[tokio::test]
async fn all_four_modes_of_validation_are_honoured() {
    for (mode, end, warnings) in [
        ("enabled", "max_turns_exceeded", 0),
        ("strict", "max_turns_exceeded", 0),
        ("warn_only", "done {:more 1 :n \"7\"}", 1),
        ("disabled", "done {:more 1 :n \"7\"}", 0),
    ] {
        let (host, _) = host();
        let yaml =
            format!("mission: Go.\nsignature: '{{n :int}}'\nmax_turns: 1\nsignature_validation: {mode}\n");
        let step = run(&agent(&yaml).await, &with(programs(&["(return {:n \"7\" :more 1})"])), &host).await;
        assert!(ended(&step).starts_with(end), "{mode}: {}", ended(&step));
        assert_eq!(step.warnings.len(), warnings, "{mode}: {:?}", step.warnings);
    }
    for (mode, result) in [("enabled", "7"), ("strict", "error"), ("warn_only", "7"), ("disabled", "\"7\"")] {
        let (host, _) = host();
        let yaml = format!("mission: Go.\nsignature_validation: {mode}\nmax_turns: 1\n");
        let mut agent = agent(&yaml).await;
        let echo = function("echo", |args| Ok(args["n"].clone()));
        let signature = Signature::parse("(n :int) -> :any").ok();
        agent.add_tool(AgentTool::new(echo, signature, OutputForm::Text).unwrap()).unwrap();
        let step = run(&agent, &with(programs(&["(tool/echo {:n \"7\" :more 1})"])), &host).await;
        let found = step.outcome.as_ref().map_or_else(|_| "error".into(), ToString::to_string);
        assert_eq!(found, result, "{mode}");
    }
}

#[tokio::test]
async fn the_deadline_ends_model_and_tools() {
    let (mut host, _) = plain_host();
    let clock = Arc::new(FakeClock::default());
    host.clock = clock.clone();
    let host = Arc::new(host);
    let mut agent = agent("mission: Go.\nmission_timeout: 500ms\n").await;
    let slow = function("slow", move |_| {
        clock.advance(Duration::from_secs(2));
        Ok(json!(1))
    });
    agent.add_tool(AgentTool::new(slow, None, OutputForm::Text).unwrap()).unwrap();
    let step = run(&agent, &with(programs(&["(tool/slow)", "(return 1)"])), &host).await;
    assert_eq!(step.end(), EndReason::MissionTimeout, "{}", ended(&step));
    assert_eq!(step.turns.len(), 1, "what was done in time is kept");
}

#[tokio::test]
async fn throttled_requests_are_tried_again_and_broken_streams_too() {
    let (host, bodies) = host();
    let model = scripted(
        "- error: {kind: rate_limit}\n- {reply: '```clojure (return', fail_after: 5}\n- reply: '(return 1)'\n",
    );
    let step = run(&agent("mission: Go.\n").await, &with(model), &host).await;
    assert_eq!(ended(&step), "done 1");
    assert_eq!(bodies.lock().unwrap().len(), 3);
    let again = scripted("- loop: true\n- error: {kind: overloaded}\n");
    let step =
        run(&agent("mission: Go.\nllm_retry: {attempts: 2, base_ms: 1}\n").await, &with(again), &host).await;
    assert!(ended(&step).starts_with("llm_error attempts_exhausted"), "{}", ended(&step));
}

#[tokio::test]
async fn definitions_beyond_the_limit_fail_the_turn_and_are_undone() {
    let (host, bodies) = host();
    let agent = agent("mission: Go.\nmemory_limit: 1KiB\ncompression: on\n").await;
    let model = programs(&["(def small 1)", "(def small 2) (def big (vec (range 1000)))", "(return small)"]);
    let step = run(&agent, &with(model), &host).await;
    assert_eq!(ended(&step), "done 1");
    assert_eq!(step.turns[1].error.as_ref().unwrap().reason, "memory_limit_exceeded");
    assert!(text(&bodies, 2, 1).contains("Error: definitions would take more than 1024 bytes"));
    assert!(text(&bodies, 2, 1).contains("small                         ; = integer, sample: 1"));
}

#[tokio::test]
async fn programs_that_never_end_cost_a_turn_and_no_more() {
    let (host, _) = host();
    let agent = agent("mission: Go.\nlimits: {fuel: 100000}\n").await;
    let model =
        programs(&["(loop [i 0] (recur (inc i)))", "(str/join (repeat 100000000 \"x\"))", "(return 1)"]);
    let step = run(&agent, &with(model), &host).await;
    assert_eq!(ended(&step), "done 1");
    let reasons: Vec<&str> =
        step.turns.iter().filter_map(|turn| turn.error.as_ref()).map(|e| e.reason.as_str()).collect();
    assert_eq!(reasons.len(), 2);
    assert_eq!(reasons[0], "fuel_exceeded");
}

#[tokio::test]
async fn tools_that_fail_hang_or_answer_too_much_are_results() {
    let (host, bodies) = host();
    let mut agent = agent("mission: Go.\ncompression: on\nmax_turns: 6\n").await;
    let mut add = |name: &str, run: fn(serde_json::Value) -> Result<serde_json::Value, String>| {
        agent.add_tool(AgentTool::new(function(name, run), None, OutputForm::Text).unwrap()).unwrap();
    };
    add("fails", |_| Err("it is\nbroken".into()));
    add("huge", |_| Ok(json!("x".repeat(8 << 20))));
    #[allow(clippy::panic, reason = "that is what this tool does")]
    add("panics", |_| panic!("oh no"));
    let model = programs(&["(tool/fails)", "(count (tool/huge))", "(tool/panics)", "(return 1)"]);
    let step = run(&agent, &with(model), &host).await;
    assert_eq!(ended(&step), "done 1");
    let reasons: Vec<&str> =
        step.turns.iter().filter_map(|turn| turn.error.as_ref()).map(|e| e.reason.as_str()).collect();
    assert!(reasons.contains(&"tool_error"), "{reasons:?}");
    let last = text(&bodies, 3, 1);
    assert!(last.contains(";   fails() => error: it is broken  ; turn 1 failed"), "{last}");
    assert!(last.contains(";   panics() => error: the tool panicked: oh no  ; turn 3 failed"), "{last}");
    assert!(last.len() < 4000, "a huge result is not repeated");
}

#[tokio::test]
async fn a_model_that_says_nothing_uses_up_its_turns() {
    let (host, bodies) = host();
    let model = scripted("- loop: true\n- reply: ''\n");
    let step = run(&agent("mission: Go.\nmax_turns: 3\n").await, &with(model), &host).await;
    assert_eq!(step.end(), EndReason::MaxTurnsExceeded);
    assert_eq!((step.turns.len(), bodies.lock().unwrap().len()), (3, 3));
}

#[tokio::test]
async fn floats_are_rounded_in_what_is_returned_and_nowhere_else() {
    let (host, _) = host();
    let agent = agent("mission: Go.\nfloat_precision: 2\n").await;
    let step = run(&agent, &with(programs(&["(return {:x [1.23456 2]})"])), &host).await;
    assert_eq!(ended(&step), "done {:x [1.23 2]}");
    assert_eq!(step.turns[0].result, Some(value("{:x [1.23456 2]}")));
}

#[tokio::test]
async fn the_start_of_every_request_is_the_same_under_every_strategy() {
    let yaml = "mission: 'Find {{what}}.'\nsignature: '(what :string) -> :int'\ndata: {what: it, rows: [1, 2, 3, 4]}\nmax_turns: 12\n\
                tools: {twice: {signature: '(n :int) -> :int', lisp: '(* 2 n)', description: Doubles}}\n";
    for spec in
        ["off", "on", "rolling_window(keep=2, slack=1)", "single_user_coalesced(trigger={\"turns\":4})"]
    {
        let (host, bodies) = host();
        let said = [
            "(tool/twice 1)",
            "(def x (tool/twice {:n 2}))",
            "(boom)",
            "(println x)",
            "(defn f [a] a)",
            "(f 1)",
            "x",
            "x",
            "(return x)",
        ];
        let settings = InheritedSettings {
            compression: Some(compression::parse(spec).unwrap()),
            ..with(programs(&said))
        };
        let step = run(&agent(yaml).await, &settings, &host).await;
        assert_eq!(ended(&step), "done 4", "{spec}");
        let count = bodies.lock().unwrap().len();
        let heading = text(&bodies, 0, 1).replace("\n\nTurns left: 12", "");
        assert!(
            heading.starts_with("Find it.\n\n;; === return ===")
                && heading.contains("tool/twice(n :int) -> :int  ; Doubles")
        );
        for request in 0..count {
            assert_eq!(text(&bodies, request, 0), text(&bodies, 0, 0), "{spec}: the instructions");
            assert!(text(&bodies, request, 1).starts_with(&heading), "{spec}: request {request}");
        }
    }
}

#[tokio::test]
async fn a_trigger_waits_and_never_goes_back() {
    let (host, bodies) = host();
    let chosen = compression::parse("single_user_coalesced(trigger={\"turns\":2})").unwrap();
    let settings =
        InheritedSettings { compression: Some(chosen), ..with(programs(&["1", "2", "3", "(return 4)"])) };
    let step = run(&agent("mission: Go.\n").await, &settings, &host).await;
    let counts: Vec<usize> =
        bodies.lock().unwrap().iter().map(|body| body["messages"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [2, 4, 2, 2]);
    let triggered: Vec<bool> = step.sent.calls.iter().map(|call| call.stats.triggered).collect();
    assert_eq!(triggered, [false, false, true, true]);
    let (host, bodies) = crate::support::host();
    let chosen = compression::parse("single_user_coalesced(trigger={\"tokens\":1})").unwrap();
    let settings = InheritedSettings { compression: Some(chosen), ..with(programs(&["1", "(return 2)"])) };
    run(&agent("mission: Go.\n").await, &settings, &host).await;
    assert_eq!(bodies.lock().unwrap()[1]["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn one_turn_is_never_compressed() {
    let (host, bodies) = host();
    let agent =
        agent("mission: Go.\nsignature: ':int'\nmax_turns: 1\nretry_turns: 1\ncompression: on\n").await;
    let step = run(&agent, &with(programs(&["\"x\"", "3"])), &host).await;
    assert_eq!(ended(&step), "done 3");
    assert_eq!(bodies.lock().unwrap()[1]["messages"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_reply_of_megabytes_costs_a_turn() {
    let prose = "I think about it, and then I think again. ".repeat(50_000);
    let replies = [prose, "(return 1)".into()].map(|reply| json!({ "reply": reply }));
    let (host, bodies) = host();
    let agent = agent("mission: Go.\ncompression: on\n").await;
    let step = run(&agent, &with(scripted(&json!(replies).to_string())), &host).await;
    assert_eq!(ended(&step), "done 1");
    assert_eq!(step.turns[0].error.as_ref().unwrap().reason, "no_code_found");
    assert!(step.turns[0].raw_response.len() > 2_000_000, "kept as it came");
    assert!(text(&bodies, 1, 1).len() < 300, "and not sent again");
}
