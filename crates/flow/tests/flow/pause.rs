//! Pausing for people and going on: every row of the table, several questions at once, wrong answers, repeated scripts.

use scrollback_flow::QuotaLimits;
use scrollback_flow::driver::{RefusedKind, Resume, RunStatus, StepAnswer};
use serde_json::json;

use crate::support::Bench;

const ASK: &str = r#"
version: "1"
steps:
  - { name: think }
  - { kind: hitl, name: ask, message: "How many?", input_schema: { type: integer, minimum: 1 } }
  - { name: say, input: "{{ previous }} it is" }
"#;

fn bench() -> Bench {
    Bench::new(|asked, _| json!({ "reply": format!("re: {}", asked.last()) }))
}

#[tokio::test]
async fn an_answer_is_judged_by_its_schema_and_the_run_stays_as_it_was() {
    let bench = bench();
    let paused = bench.run(ASK, "go").await;
    assert_eq!(
        (paused.status, paused.pauses[0].step.as_str(), paused.pauses[0].message.as_str()),
        (RunStatus::Paused, "ask", "How many?")
    );
    assert_eq!(paused.pauses[0].input_schema, json!({ "type": "integer", "minimum": 1 }));
    for wrong in ["many", "0", "\"3\""] {
        let refused = bench.try_answer(&paused.run, None, wrong).await.unwrap_err();
        assert_eq!(refused.kind(), RefusedKind::InvalidAnswer, "{wrong}");
        assert!(!refused.errors.is_empty() && refused.errors[0]["path"].is_string());
    }
    let run = bench.engine.find(&paused.run).await.unwrap();
    assert_eq!(
        (bench.engine.report(&run).await.unwrap().status, bench.asked().len()),
        (RunStatus::Paused, 1)
    );
    let done = bench.answer(&paused.run[..6], "3").await;
    assert_eq!((done.status, done.output), (RunStatus::Done, json!("re: 3 it is")));
    assert_eq!(bench.said()[1], ["user: 3 it is"]);
}

#[tokio::test]
async fn the_table_of_resuming() {
    let bench = bench();
    let kind = |result: Result<scrollback_flow::driver::RunReport, scrollback_flow::driver::RunRefused>| {
        result.unwrap_err().kind()
    };
    assert_eq!(kind(bench.resume("none").await), RefusedKind::UnknownRun);
    assert_eq!(kind(bench.resume("x").await), RefusedKind::UnknownRun);
    let paused = bench.run(ASK, "go").await;
    // Paused.
    let refused = bench.resume(&paused.run).await.unwrap_err();
    assert_eq!(refused.kind(), RefusedKind::AnswerMissing);
    assert!(refused.to_string().contains("ask (How many?)"), "{refused}");
    assert_eq!(kind(bench.try_answer(&paused.run, Some("else"), "3").await), RefusedKind::UnknownStep);
    // Done.
    bench.answer(&paused.run, "3").await;
    assert_eq!(kind(bench.resume(&paused.run).await), RefusedKind::NothingToResume);
    assert_eq!(kind(bench.try_answer(&paused.run, None, "3").await), RefusedKind::NothingToResume);
    let again = bench.try_answer(&paused.run, Some("ask"), "3").await.unwrap();
    assert_eq!((again.status, bench.asked().len()), (RunStatus::Done, 2), "a script may repeat itself");
    assert_eq!(kind(bench.try_answer(&paused.run, Some("ask"), "4").await), RefusedKind::NothingToResume);
}

#[tokio::test]
async fn a_failed_step_is_tried_again_and_finished_ones_are_kept() {
    let bench = Bench::new(|asked, number| {
        if asked.last() == "second" && number < 4 {
            json!({ "error": { "kind": "auth", "message": "no key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD" } })
        } else {
            json!({ "reply": "fine" })
        }
    });
    let flow = "version: \"1\"\nsteps: [{ name: one, input: first }, { name: two, input: second }, { name: three, input: third }]\n";
    let failed = bench.run(flow, "go").await;
    assert_eq!(failed.status, RunStatus::Failed);
    let error = failed.error.unwrap();
    assert_eq!(
        (error.code.as_str(), error.step.as_deref(), &*error.detail),
        ("provider_error", Some("two"), &json!({ "kind": "auth" }))
    );
    assert!(
        error.message.contains("[redacted:") && !error.message.contains("sk-proj-abc"),
        "{}",
        error.message
    );
    assert_eq!(bench.try_answer(&failed.run, None, "x").await.unwrap_err().kind(), RefusedKind::NotWaiting);
    assert_eq!(bench.resume(&failed.run).await.unwrap().status, RunStatus::Failed);
    let done = bench.resume(&failed.run).await.unwrap();
    assert_eq!(done.status, RunStatus::Done);
    let inputs: Vec<String> = bench.asked().iter().map(crate::support::Asked::last).collect();
    assert_eq!(inputs, ["first", "second", "second", "second", "third"]);
    let steps = bench.engine.store.steps(&bench.engine.tenant, &failed.run).await.unwrap();
    assert_eq!(steps.iter().find(|step| step.key == "two").map(|step| step.attempt), Some(3));
    assert_eq!(done.usage.calls, 5, "what failed is counted");
}

#[tokio::test]
async fn branches_that_wait_are_several_questions() {
    let flow = r#"
version: "1"
steps:
  - kind: parallel
    name: fan
    branches:
      left: [{ kind: hitl, name: ask_left, message: "Left?" }, { name: left, input: "L {{ previous }}" }]
      right: [{ kind: hitl, name: ask_right, message: "Right?" }]
      busy: [{ name: work, input: work }, { name: more, input: more }]
"#;
    let bench = bench();
    let paused = bench.run(flow, "go").await;
    let open: Vec<&str> = paused.pauses.iter().map(|pause| pause.step.as_str()).collect();
    assert_eq!(open, ["fan.left/ask_left", "fan.right/ask_right"]);
    assert_eq!(bench.asked().len(), 2, "a pause does not hold siblings up");
    assert_eq!(bench.try_answer(&paused.run, None, "x").await.unwrap_err().kind(), RefusedKind::StepMissing);
    let half = bench.try_answer(&paused.run, Some("fan.left/ask_left"), "one").await.unwrap();
    assert_eq!((half.status, half.pauses.len(), bench.asked().len()), (RunStatus::Paused, 1, 3));
    let done = bench.answer(&paused.run, "two").await;
    assert_eq!(
        (done.status, done.output),
        (RunStatus::Done, json!({ "left": "re: L one", "right": "two", "busy": "re: more" }))
    );
}

#[tokio::test]
async fn two_resumes_at_once_and_a_run_that_is_held() {
    let bench = bench();
    let paused = bench.run(ASK, "go").await;
    let (one, two) =
        tokio::join!(bench.try_answer(&paused.run, None, "3"), bench.try_answer(&paused.run, None, "4"));
    let kinds: Vec<_> = [&one, &two]
        .iter()
        .filter_map(|result| result.as_ref().err())
        .map(scrollback_flow::driver::RunRefused::kind)
        .collect();
    assert!(one.is_ok() || two.is_ok());
    assert_eq!(kinds.len(), 1);
    assert!(matches!(kinds[0], RefusedKind::Busy | RefusedKind::NothingToResume), "{kinds:?}");
    assert_eq!(bench.asked().len(), 2, "one answer, one reply");
}

#[tokio::test]
async fn an_id_makes_a_run_idempotent() {
    let bench = bench();
    let start = |yaml: &str, input: &str| {
        let mut start = bench.start(yaml, Some(input));
        start.id = Some("order-1".into());
        start
    };
    let first = bench.engine.start(start(ASK, "go")).await.unwrap();
    let again = bench.engine.start(start(ASK, "go")).await.unwrap();
    assert_eq!((first.run.as_str(), again.status, bench.asked().len()), ("order-1", RunStatus::Paused, 1));
    for (yaml, input) in [(ASK, "other"), (&*format!("{ASK}\n# changed"), "go")] {
        assert_eq!(bench.engine.start(start(yaml, input)).await.unwrap_err().kind(), RefusedKind::IdInUse);
    }
    let mut bad = start(ASK, "go");
    bad.id = Some("a b".into());
    assert_eq!(bench.engine.start(bad).await.unwrap_err().kind(), RefusedKind::BadId);
}

#[tokio::test]
async fn asked_to_stop_it_is_interrupted_and_goes_on_later() {
    let bench = bench();
    let stop = bench.engine.stop.clone();
    let mut stopping = bench.clone();
    stopping.engine.watcher = Some(std::sync::Arc::new(move |told| {
        if told.kind == "agent.prompt" && told.key.as_deref() == Some("two") {
            stop.stop();
        }
    }));
    let flow = "version: \"1\"\nsteps: [{ name: one, input: first }, { name: two, input: second }, { name: three, input: third }]\n";
    let stopped = stopping.run(flow, "go").await;
    assert_eq!((stopped.status, stopped.error.is_none()), (RunStatus::Interrupted, true), "{stopped:?}");
    let mut fresh = bench.clone();
    fresh.engine.stop = scrollback_agent::StopSignal::default();
    let refused = fresh
        .engine
        .resume(Resume {
            run: stopped.run.clone(),
            answer: Some(StepAnswer { step: None, text: "x".into() }),
            limits: QuotaLimits::default(),
        })
        .await;
    assert_eq!(refused.unwrap_err().kind(), RefusedKind::NotWaiting);
    let done = fresh.resume(&stopped.run).await.unwrap();
    assert_eq!(done.status, RunStatus::Done, "{done:?}");
    let inputs: Vec<String> = bench.asked().iter().map(crate::support::Asked::last).collect();
    assert_eq!(inputs.iter().filter(|input| *input == "first").count(), 1);
    assert_eq!(inputs.last().map(String::as_str), Some("third"));
}

#[tokio::test]
async fn a_loop_that_waits_for_nobody_is_interrupted_and_goes_on_where_it_stood() {
    let flow = "version: \"1\"\nsteps:\n  - { kind: loop, name: l, loop: { max_loops: 2000, body: [{ name: t, template: \"{{ loop.iteration }}\" }] } }\n  - { kind: hitl, name: ask }\n";
    let bench = bench();
    let mut stopping = bench.clone();
    let stop = stopping.engine.stop.clone();
    stopping.engine.watcher = Some(std::sync::Arc::new(move |told| {
        if told.kind == "loop.iteration" && told.data["iteration"] == json!(300) {
            stop.stop();
        }
    }));
    let stopped = stopping.run(flow, "go").await;
    assert_eq!(stopped.status, RunStatus::Interrupted, "{stopped:?}");
    let rows = |run: String| {
        let bench = bench.clone();
        async move { bench.engine.store.steps(&bench.engine.tenant, &run).await.unwrap() }
    };
    let before = rows(stopped.run.clone()).await.len();
    assert!((300..1000).contains(&before), "{before}");
    let mut fresh = bench.clone();
    fresh.engine.stop = scrollback_agent::StopSignal::default();
    let paused = fresh.resume(&stopped.run).await.unwrap();
    assert_eq!((paused.status, paused.pauses.len()), (RunStatus::Paused, 1), "{paused:?}");
    assert_eq!(fresh.answer(&paused.run, "fine").await.output, json!("fine"));
    let steps = rows(stopped.run.clone()).await;
    assert_eq!(
        steps.iter().filter(|step| step.status.as_str() == "done").count(),
        2002,
        "every step is written down"
    );
    let events = bench.engine.store.events(&bench.engine.tenant, &stopped.run, 0).await.unwrap();
    let iterations = events.iter().filter(|event| event.kind == "loop.iteration").count();
    assert_eq!(iterations, 2000, "each iteration began once");
}

#[tokio::test]
async fn what_a_failure_kept_from_starting_starts_when_the_run_goes_on() {
    let flow = r#"
version: "1"
agents: { default: { max_retries: 0 } }
steps:
  - kind: parallel
    name: fan
    branches:
      a: [{ name: first, input: bad }]
      b: [{ name: second, input: slow }, { name: note, template: "noted {{ previous }}" }, { kind: hitl, name: ask }]
"#;
    let bench = Bench::new(|asked, number| {
        if asked.last() == "bad" && number <= 2 {
            json!({ "error": { "kind": "auth", "message": "no" } })
        } else {
            json!({ "reply": asked.last() })
        }
    });
    let failed = bench.run(flow, "go").await;
    assert_eq!(failed.status, RunStatus::Failed, "{failed:?}");
    let paused = bench.resume(&failed.run).await.unwrap();
    assert_eq!(paused.status, RunStatus::Paused, "{paused:?}");
    assert_eq!(paused.pauses[0].message, "noted slow", "{paused:?}");
    let done = bench.answer(&failed.run, "yes").await;
    assert_eq!(done.output, json!({ "a": "bad", "b": "yes" }));
    let steps = bench.engine.store.steps(&bench.engine.tenant, &failed.run).await.unwrap();
    assert!(steps.iter().any(|step| step.key == "fan.b/note" && step.status.as_str() == "done"), "{steps:?}");
}

#[tokio::test]
async fn a_failure_that_was_ignored_stays_one_when_the_run_goes_on() {
    let flow = r#"
version: "1"
agents: { default: { max_retries: 0, max_output_tokens: 30 } }
steps:
  - kind: parallel
    name: fan
    on_branch_failure: ignore
    branches:
      a: [{ name: good, input: hello }]
      b: [{ name: first, input: bad }, { name: never, input: never }]
      c: [{ kind: loop, name: l, limits: { max_tokens: 60 }, loop: { max_loops: 9, body: [{ name: talk, input: much }] } }]
      d: [{ kind: map, name: each, over: "'no list'", body: [{ name: x, template: x }] }]
  - { kind: hitl, name: ask, message: "{{ previous }}" }
  - { name: after, input: "{{ steps.fan.output }} {{ previous }}" }
  - { kind: hitl, name: more }
"#;
    let bench = Bench::new(|asked, _| match asked.last().as_str() {
        "bad" => json!({ "error": { "kind": "auth", "message": "no" } }),
        "much" => {
            json!({ "reply": "so much", "usage": { "input": 20, "output": 25 } })
        }
        other => json!({ "reply": other }),
    });
    let paused = bench.run(flow, "go").await;
    let fan = json!({ "a": "hello", "b": null, "c": null, "d": null });
    assert_eq!(paused.pauses.first().map(|pause| pause.message.clone()), Some(fan.to_string()), "{paused:?}");
    let before = bench.asked().len();
    let again = bench.answer(&paused.run, "yes").await;
    assert_eq!((again.status, again.pauses.len()), (RunStatus::Paused, 1), "{again:?}");
    let asked: Vec<String> = bench.asked().iter().skip(before).map(crate::support::Asked::last).collect();
    assert_eq!(asked, [format!("{fan} yes")], "nothing of the branches is tried again");
    assert_eq!(bench.answer(&paused.run, "done").await.output, json!("done"));
}
