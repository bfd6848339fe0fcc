//! Kinds of steps: what runs, in which order, under which key, and what comes out.

use scrollback_flow::driver::RunStatus;
use serde_json::json;

use crate::support::Bench;

async fn keys(bench: &Bench, run: &str) -> Vec<(String, String)> {
    let mut steps: Vec<_> = bench
        .engine
        .store
        .steps(&bench.engine.tenant, run)
        .await
        .unwrap()
        .into_iter()
        .map(|step| (step.key, step.status.to_string()))
        .collect();
    steps.sort();
    steps
}

#[tokio::test]
async fn steps_pass_values_on_and_templates_see_them() {
    let flow = r#"
version: "1"
agents: { a: { output_schema: { type: object } } }
steps:
  - { name: a, input: "think of {{ input }}" }
  - { name: b, template: "{{ previous.x }} and {{ steps.a.output.y }} of {{ input }}{{ nothing.here }}" }
  - { name: c, when: "steps.b.output == 'never'" }
  - { name: d, template: "{{ previous }}; c is {{ steps.c.status }}" }
"#
    .replace("{{ nothing.here }}", "{{ previous.nothing }}");
    let bench = Bench::new(|_, _| json!({ "reply": "{\"x\": 1, \"y\": [2]}" }));
    assert_eq!(bench.done(&flow, "numbers").await, json!("1 and [2] of numbers; c is skipped"));
    assert_eq!(bench.said(), [["user: think of numbers"]]);
}

#[tokio::test]
async fn the_value_as_text_selects_a_branch() {
    let flow = |value: &str| {
        format!(
            "version: \"1\"\nsteps:\n  - kind: conditional\n    name: route\n    condition_expression: \"{value}\"\n    branches:\n      true: [{{ name: yes, template: \"yes\" }}]\n      3: [{{ name: three, template: \"three\" }}]\n      bug: [{{ name: fix, template: \"fix {{{{ previous }}}}\" }}]\n    default_branch: [{{ name: other, template: \"other\" }}]\n"
        )
    };
    for (value, output, key) in [
        ("1 == 1", "yes", "route.true/yes"),
        ("1 + 2", "three", "route.3/three"),
        ("'bug'", "fix go", "route.bug/fix"),
        ("'x'", "other", "route.default/other"),
    ] {
        let bench = Bench::echo();
        let report = bench.run(&flow(value), "go").await;
        assert_eq!(report.output, json!(output), "{value}");
        assert!(keys(&bench, &report.run).await.contains(&(key.into(), "done".into())));
    }
    let without = "version: \"1\"\nsteps: [{ kind: conditional, name: route, condition_expression: \"'x'\", branches: { bug: [{ name: fix, template: fixed }] } }]\n";
    assert_eq!(Bench::echo().done(without, "go").await, json!("go"), "the previous value passes through");
}

#[tokio::test]
async fn a_person_may_be_asked_inside_a_branch_of_a_choice() {
    let flow = "version: \"1\"\nsteps: [{ kind: conditional, name: route, condition_expression: \"input\", branches: { ask: [{ kind: hitl, name: who, message: Who? }, { name: greet, template: \"hello {{ previous }}\" }] } }]\n";
    let bench = Bench::echo();
    let paused = bench.run(flow, "ask").await;
    assert_eq!(paused.pauses[0].step, "route.ask/who");
    assert_eq!(bench.answer(&paused.run, "Anna").await.output, json!("hello Anna"));
}

#[tokio::test]
async fn a_map_works_on_every_item_and_keeps_their_order() {
    let flow = |most: u32| {
        format!(
            "version: \"1\"\nsteps: [{{ kind: map, name: each, over: \"json(input)\", max_concurrency: {most}, body: [{{ name: tag, input: \"{{{{ index }}}}: {{{{ item }}}}\" }}] }}]\n"
        )
    };
    for most in [1, 3] {
        let bench = Bench::echo();
        let report = bench.run(&flow(most), "[\"a\", \"b\", \"c\"]").await;
        assert_eq!(report.output, json!(["0: a", "1: b", "2: c"]));
        let keys = keys(&bench, &report.run).await;
        assert_eq!(
            keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["each", "each[1]/tag", "each[2]/tag", "each[3]/tag"]
        );
    }
    assert_eq!(Bench::echo().done(&flow(1), "[]").await, json!([]));
    assert_eq!(Bench::echo().fails(&flow(1), "{}").await, "not_a_list");
}

#[tokio::test]
async fn branches_fail_in_their_order_or_are_ignored() {
    let flow = |how: &str| {
        format!(
            "version: \"1\"\nagents: {{ default: {{ max_retries: 0 }} }}\nsteps:\n  - kind: parallel\n    name: fan\n    on_branch_failure: {how}\n    branches:\n      a: [{{ name: a1, input: slow a }}, {{ name: a2, input: bad a }}]\n      b: [{{ name: b1, input: bad b }}]\n      c: [{{ name: c1, input: slow c }}, {{ name: c2, input: never }}]\n"
        )
    };
    let reply = |asked: &crate::support::Asked, _: usize| {
        if asked.last().starts_with("bad") {
            json!({ "error": { "kind": "invalid_request", "message": asked.last() } })
        } else {
            json!({ "reply": asked.last() })
        }
    };
    let bench = Bench::new(reply);
    let failed = bench.run(&flow("fail"), "go").await;
    assert_eq!(
        failed.error.as_ref().map(|error| error.step.as_deref()),
        Some(Some("fan.b/b1")),
        "{failed:?}"
    );
    let inputs: Vec<String> = bench.asked().iter().map(crate::support::Asked::last).collect();
    assert!(
        !inputs.contains(&"never".into()) && !inputs.contains(&"bad a".into()),
        "nothing new starts: {inputs:?}"
    );
    let rows = keys(&bench, &failed.run).await;
    assert!(rows.contains(&("fan.c/c1".into(), "done".into())), "calls under way finish: {rows:?}");
    let bench = Bench::new(reply);
    assert_eq!(bench.done(&flow("ignore"), "go").await, json!({ "a": null, "b": null, "c": "never" }));
}

#[tokio::test]
async fn loops_end_by_exit_by_number_or_by_limit() {
    let flow = |more: &str| {
        format!(
            "version: \"1\"\nsteps: [{{ kind: loop, name: again, loop: {{ max_loops: 3, {more} body: [{{ name: count, template: \"{{{{ previous }}}}x\" }}] }} }}]\n"
        )
    };
    assert_eq!(Bench::echo().done(&flow(""), "").await, json!("xxx"));
    assert_eq!(Bench::echo().done(&flow("exit_expression: \"output == 'xx'\","), "").await, json!("xx"));
    assert_eq!(
        Bench::echo()
            .done(&flow("exit_expression: \"loop.iteration > 9\", on_max_loops: continue,"), "")
            .await,
        json!("xxx")
    );
    assert_eq!(Bench::echo().fails(&flow("exit_expression: \"false\","), "").await, "loop_limit");
}

#[tokio::test]
async fn what_an_agent_is_asked_with_is_what_the_flow_says() {
    let flow = "version: \"1\"\nagents: { a: { max_output_tokens: 77, temperature: 0.5, top_p: 0.9, stream: false } }\nsteps: [{ name: a }]\n";
    let bench = Bench::echo();
    bench.done(flow, "hi").await;
    let body = &bench.asked()[0].body;
    assert_eq!(
        (&body["max_completion_tokens"], &body["temperature"], &body["top_p"]),
        (&json!(77), &json!(0.5), &json!(0.9))
    );
    assert!(body.get("stream").is_none());
}

#[tokio::test]
async fn failures_have_their_codes() {
    let flow = "version: \"1\"\nagents: { a: { max_retries: 1 } }\nsteps: [{ name: a }]\n";
    let failing = |item: serde_json::Value| Bench::new(move |_, _| item.clone());
    for (item, code, calls) in [
        (json!({ "error": { "kind": "overloaded", "message": "busy" } }), "provider_error", 2),
        (json!({ "error": { "kind": "invalid_request", "message": "no" } }), "provider_error", 1),
        (json!({ "error": { "kind": "quota_exhausted", "message": "no" } }), "provider_error", 1),
        (json!({ "error": { "kind": "timeout", "message": "slow" } }), "timeout", 2),
        (json!({ "error": { "kind": "context_overflow", "message": "too long" } }), "context_overflow", 1),
        (json!({ "fail_after": 3, "reply": "broken off" }), "stream_cut", 2),
    ] {
        let bench = failing(item.clone());
        assert_eq!((bench.fails(flow, "hi").await.as_str(), bench.asked().len()), (code, calls), "{item}");
    }
    let schema = flow.replace("max_retries: 1", "output_schema: { type: object, required: [x] }");
    let bench = failing(json!({ "reply": "no json" }));
    assert_eq!((bench.fails(&schema, "hi").await.as_str(), bench.asked().len()), ("output_invalid", 2));
    assert!(bench.said()[1].last().unwrap().contains("does not fit"), "{:?}", bench.said());
    let tools = "version: \"1\"\nagents: { a: { tools: [{ name: look, description: l, parameters: { type: object }, command: [\"false\"] }] } }\nsteps: [{ name: a }]\n";
    let calls = |id: usize| json!({ "calls": [{ "name": "look", "arguments": {}, "id": format!("c{id}") }] });
    assert_eq!(Bench::new(move |_, number| calls(number)).fails(tools, "hi").await, "tool_errors");
    let works = tools.replace("\"false\"", "\"true\"");
    assert_eq!(Bench::new(move |_, number| calls(number)).fails(&works, "hi").await, "too_many_rounds");
    let mut small = Bench::echo();
    let models = [(
        "offline:echo".to_string(),
        scrollback_agent::provider::ModelSettings { context_window: Some(1100), ..Default::default() },
    )];
    small.engine.catalog = std::sync::Arc::new(scrollback_agent::provider::Catalog::new(
        models.into(),
        std::collections::BTreeMap::new(),
    ));
    assert_eq!(
        small.fails("version: \"1\"\nsteps: [{ name: a }]\n", &"word ".repeat(200)).await,
        "context_too_large"
    );
    assert_eq!(small.asked().len(), 0, "nothing is sent");
}

#[tokio::test]
async fn a_reply_that_broke_off_is_asked_for_again_and_is_never_a_turn() {
    let flow = "version: \"1\"\nsteps: [{ kind: loop, name: chat, loop: { conversation: true, max_loops: 2, body: [{ name: talk, input: next }] } }]\n";
    let bench = Bench::new(|_, number| {
        if number == 1 {
            json!({ "fail_after": 4, "reply": "half of it" })
        } else {
            json!({ "reply": format!("r{number}") })
        }
    });
    let report = bench.run(flow, "go").await;
    assert_eq!(report.status, RunStatus::Done, "{report:?}");
    assert_eq!(bench.said()[0], bench.said()[1], "the same bytes again");
    assert_eq!(bench.said()[2], ["user: go", "assistant: r2", "user: next"]);
    assert_eq!(report.usage.calls, 3);
}

#[tokio::test]
async fn a_store_that_fails_is_said_and_what_was_written_goes_on() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let flow = "version: \"1\"\nsteps: [{ name: one, input: first }, { name: two, input: second }]\n";
    let bench = Bench::echo();
    let (mut failing, commits) = (bench.clone(), Arc::new(AtomicUsize::new(0)));
    failing.engine.before_commit = Some(Arc::new(move || {
        // The start, then for each step that its model is about to be asked, and its end.
        let full = commits.fetch_add(1, Ordering::SeqCst) == 4;
        let error = || scrollback_store::StoreError::new(scrollback_store::ErrorKind::Io, "the disk is full");
        if full { Err(error()) } else { Ok(()) }
    }));
    let failed = failing.run(flow, "go").await;
    let error = failed.error.unwrap();
    assert_eq!((failed.status, error.code.as_str()), (RunStatus::Failed, "store_error"), "{error}");
    assert!(error.message.contains("the disk is full"));
    let done = bench.resume(&failed.run).await.unwrap();
    assert_eq!(done.status, RunStatus::Done);
    let inputs: Vec<String> = bench.asked().iter().map(crate::support::Asked::last).collect();
    assert_eq!(inputs, ["first", "second", "second"], "the step whose end was not written, and no other");
}

#[tokio::test]
async fn the_span_of_a_step_says_whether_an_agent_did_it_failed_or_not() {
    let flow = "version: \"1\"\nsteps: [{ name: words, template: \"fixed\" }, { name: a }]\n";
    for item in
        [json!({ "reply": "yes" }), json!({ "error": { "kind": "invalid_request", "message": "no" } })]
    {
        let bench = Bench::new(move |_, _| item.clone());
        let report = bench.run(flow, "hi").await;
        let spans = bench.engine.store.spans(&bench.engine.tenant, &report.run).await.unwrap();
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        assert!(names.contains(&"step words") && names.contains(&"invoke_agent a"), "{names:?}");
        assert!(!names.contains(&"step a") && !names.contains(&"invoke_agent words"), "{names:?}");
    }
}
