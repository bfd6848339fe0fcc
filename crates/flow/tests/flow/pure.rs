//! The pure middle: events in, actions out. No clock, no store, no model.

use std::sync::Arc;

use scrollback_flow::advance::{Action, FlowEvent, RunEnd, Write, advance};
use scrollback_flow::driver::Injection;
use scrollback_flow::error::{RunError, RunErrorKind};
use scrollback_flow::passed_values::EntryId;
use scrollback_flow::state::{RunState, evaluation_id};
use scrollback_flow::usage::RunUsage;
use serde_json::{Value, json};

use crate::support::Bench;

const FLOW: &str = r#"
version: "1"
steps:
  - kind: parallel
    name: fan
    on_branch_failure: ignore
    branches:
      left: [{ name: one }, { kind: hitl, name: ask }]
      right: [{ name: two }]
  - { name: last, when: "steps.fan.output.right == null" }
"#;

fn state(yaml: &str) -> RunState {
    RunState::new(Arc::new(Bench::echo().flow(yaml)), "run", Some("go"))
}

fn replied(key: &str, text: &str) -> FlowEvent {
    let entry = EntryId { evaluation: evaluation_id("run", key, "", 1), sequence: 1 };
    FlowEvent::Replied {
        key: key.into(),
        entry,
        text: text.into(),
        value: Value::from(text),
        usage: RunUsage::default(),
    }
}

/// What actions say, in short.
fn short(actions: &[Action]) -> Vec<String> {
    let tell = |action: &Action| match action {
        Action::Call(call) => Some(format!("call {}", call.key)),
        Action::Continue(key) => Some(format!("continue {key}")),
        Action::End(RunEnd::Done(output)) => Some(format!("done {}", output.value)),
        Action::End(RunEnd::Failed(error)) => Some(format!("failed {}", error.code)),
        Action::End(RunEnd::Paused) => Some("paused".into()),
        Action::End(RunEnd::Stopped) => Some("stopped".into()),
        Action::Write(Write::Step(row)) => Some(format!("{} {}", row.key, row.status)),
        Action::Write(_) => None,
    };
    actions.iter().filter_map(tell).collect()
}

#[test]
fn an_event_leads_to_everything_up_to_the_next_wait() {
    let (state, actions) = advance(state(FLOW), FlowEvent::Started);
    assert_eq!(
        short(&actions),
        [
            "fan running",
            "fan.left/one running",
            "call fan.left/one",
            "fan.right/two running",
            "call fan.right/two"
        ]
    );
    let (state, actions) = advance(state, replied("fan.left/one", "1"));
    assert_eq!(
        short(&actions),
        ["fan.left/one done", "fan.left/ask paused"],
        "its sibling is still asked, so the run is not paused"
    );
    let (state, actions) = advance(state, replied("fan.right/two", "2"));
    assert_eq!(short(&actions), ["fan.right/two done", "paused"]);
    let (_, actions) = advance(
        state,
        FlowEvent::Answered { key: "fan.left/ask".into(), text: "yes".into(), value: json!("yes") },
    );
    assert_eq!(
        short(&actions),
        ["fan.left/ask done", "fan done", "last skipped", "done {\"left\":\"yes\",\"right\":\"2\"}"]
    );
}

#[test]
fn late_and_repeated_events_change_nothing() {
    let (state, _) = advance(state(FLOW), FlowEvent::Started);
    let (state, first) = advance(state, replied("fan.left/one", "1"));
    assert!(!first.is_empty());
    for event in [
        FlowEvent::Started,
        replied("fan.left/one", "again"),
        replied("fan.left/ask", "not an answer"),
        replied("nowhere", "x"),
        FlowEvent::Answered { key: "fan.right/two".into(), text: "x".into(), value: json!("x") },
        FlowEvent::Continued { key: "fan.right/two".into() },
    ] {
        let told = format!("{event:?}");
        let state = RunState::new(Arc::clone(state.flow()), "run", Some("go"));
        let (state, _) = advance(state, FlowEvent::Started);
        let (state, _) = advance(state, replied("fan.left/one", "1"));
        let (_, actions) = advance(state, event);
        assert!(short(&actions).iter().all(|action| action == "paused"), "{told}: {:?}", short(&actions));
    }
}

#[test]
fn neither_a_pause_nor_a_stop_is_seen_by_anything_in_the_flow() {
    // The branch that is stopped is not ignored as a failure would be, and nothing new starts.
    let (state, _) = advance(state(FLOW), FlowEvent::Started);
    let (state, actions) = advance(state, FlowEvent::Stopping);
    assert_eq!(short(&actions), Vec::<String>::new());
    let (state, actions) = advance(state, replied("fan.left/one", "1"));
    assert_eq!(
        short(&actions),
        ["fan.left/one done"],
        "what is finished is written, and the person is not asked"
    );
    let (_, actions) = advance(state, FlowEvent::Stopped { key: "fan.right/two".into() });
    assert_eq!(short(&actions), ["stopped"]);
    let (state, _) = advance(self::state(FLOW), FlowEvent::Started);
    let error = RunError::new(RunErrorKind::Timeout, "fan.right/two", "slow");
    let (state, _) =
        advance(state, FlowEvent::Failed { key: "fan.right/two".into(), error, usage: RunUsage::default() });
    let (state, _) = advance(state, replied("fan.left/one", "1"));
    let (_, actions) = advance(
        state,
        FlowEvent::Answered { key: "fan.left/ask".into(), text: "yes".into(), value: json!("yes") },
    );
    assert_eq!(
        short(&actions),
        ["fan.left/ask done", "fan done", "last running", "call last"],
        "a failure is: the branch is null"
    );
}

#[test]
fn a_loop_of_templates_waits_for_nobody_and_stops_when_asked_all_the_same() {
    let flow = "version: \"1\"\nsteps: [{ kind: loop, name: l, loop: { max_loops: 1000, body: [{ name: t, template: \"{{ loop.iteration }}\" }] } }]\n";
    let (mut state, mut actions) = advance(state(flow), FlowEvent::Started);
    let (mut events, mut finished) = (1, 0);
    loop {
        let told = short(&actions);
        finished += told.iter().filter(|told| told.starts_with("l[") && told.ends_with("done")).count();
        let last = told.last().cloned().unwrap_or_default();
        let Some(key) = last.strip_prefix("continue ") else {
            assert_eq!(last, "done \"1000\"");
            break;
        };
        events += 1;
        (state, actions) = advance(state, FlowEvent::Continued { key: key.into() });
    }
    assert_eq!((finished, events), (1000, 4), "every step once, in a few commits");
    let (state, _) = advance(self::state(flow), FlowEvent::Started);
    let (_, actions) = advance(state, FlowEvent::Stopping);
    assert_eq!(short(&actions), ["stopped"]);
    // Large texts count as many steps: what is written at once is bounded.
    let large = flow.replace("{{ loop.iteration }}", &"x".repeat(100 * 1024));
    let (_, actions) = advance(self::state(&large), FlowEvent::Started);
    assert!(short(&actions).len() < 100, "{}", short(&actions).len());
}

#[tokio::test]
async fn with_injection_switched_off_the_requests_show_it() {
    let flows = [
        "version: \"1\"\nsteps: [{ kind: loop, name: chat, loop: { conversation: true, max_loops: 2, body: [{ name: talk, input: next }] } }]\n",
        "version: \"1\"\nagents: { talk: { mode: prompt } }\nsteps: [{ kind: loop, name: chat, loop: { conversation: true, max_loops: 2, body: [{ name: talk, input: next }] } }]\n",
    ];
    for flow in flows {
        let mut bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
        bench.engine.injection = Injection::Off;
        bench.done(flow, "go").await;
        assert!(bench.said().iter().all(|said| said == &["user: next"]), "{:?}", bench.said());
        let mut bench = Bench::new(|_, number| json!({ "reply": format!("r{number}") }));
        bench.engine.injection = Injection::On;
        bench.done(flow, "go").await;
        assert!(bench.said()[1].concat().contains("r1"), "{:?}", bench.said());
    }
}
