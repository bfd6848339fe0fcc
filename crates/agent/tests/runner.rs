//! The runner, by what the model was sent: scripts check every request that reaches them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scrollback_agent::FakeClock;
use scrollback_agent::event::{
    ContextTightened, ConversationRecorded, RecordedEntry, RequestSent, StateRolledBack, SummaryWritten,
    Throttled, ToolInvoked,
};
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::{ResponseFormat, ToolChoice};
use scrollback_agent::runner::{Budget, Deadline, EvaluationEnd, FailurePhase, Prompt, Runner, Throttle};
use scrollback_agent::session::{Session, SessionStart, SliceChange, SliceItem, SliceKind, append};
use scrollback_agent::tool::tool;
use scrollback_core::manager::parse;
use scrollback_core::{Entry, HistoryCurated, Record, Role, Slot, Status, Time};
use serde_json::{Value, json};

use crate::support::runner::{code, messages, prompt, replied, roles, run, runner, told};

use Role::{Assistant, System, Tool, User};

const TWO_ROUNDS: &str = r#"
- expect: {roles: [system, user], tools: [weather], absent: ["sunny"]}
  calls: [{name: weather, arguments: {city: Paris}, id: a}]
  text: First Paris.
- expect: {roles: [system, user, assistant, tool], contains: ["Paris: sunny"]}
  calls: [{name: weather, arguments: {city: Oslo}, id: b}]
- expect: {roles: [system, user, assistant, tool, assistant, tool], contains: ["Oslo: sunny", "First Paris."]}
  reply: Sunny in both.
"#;

#[tokio::test]
async fn two_rounds_are_recorded_in_order_as_one_evaluation() {
    let runner = runner(TWO_ROUNDS);
    let session =
        Session::new(&runner.bus, SessionStart { id: "s".into(), ..SessionStart::default() }).unwrap();
    let runner = Runner { session: Some(Arc::clone(&session)), ..runner };
    let curated = told::<HistoryCurated>(&runner);
    let (done, journal) = run(&runner).await;
    assert_eq!(replied(&done), "Sunny in both.");
    let said = messages(journal.record());
    assert_eq!(
        roles(journal.record()),
        [System, User, Assistant, Tool, Assistant, Tool, Assistant],
        "everything that was said"
    );
    assert!(said.iter().enumerate().all(|(number, entry)| entry.sequence == number as u64));
    let ids: BTreeSet<_> = said.iter().map(|entry| entry.evaluation_id).collect();
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), [done.evaluation_id]);
    // The session sees the record's own entries.
    let slice = session.select_all::<RecordedEntry>();
    assert_eq!(slice.len(), 7);
    assert!(
        slice.iter().all(|item| Arc::ptr_eq(&item.entry, journal.record().entry(item.position).unwrap()))
    );
    let counts: Vec<_> =
        curated.lock().unwrap().iter().map(|event| (event.original_count, event.curated_count)).collect();
    assert_eq!(counts, [(2, 2), (4, 4), (6, 6)]);
    assert_eq!((done.calls.len(), done.rounds, done.tools["weather"].calls), (3, 3, 2));
}

#[tokio::test]
async fn the_view_is_curated_and_the_record_is_whole() {
    let mut runner = runner(
        r#"
- {expect: {count: 2}, calls: [{name: weather, arguments: {city: Paris}}]}
- {expect: {count: 4}, calls: [{name: weather, arguments: {city: Oslo}}]}
- {expect: {count: 4, absent: ["Paris"], contains: ["Oslo: sunny", "Weather?"]}, calls: [{name: weather, arguments: {city: Rome}}]}
- {expect: {count: 4, absent: ["Paris", "Oslo"], roles: [system, user, assistant, tool]}, reply: done}
"#,
    );
    runner.manager = parse("sliding_window(3)").unwrap();
    let (done, journal) = run(&runner).await;
    assert_eq!(replied(&done), "done");
    assert_eq!(journal.record().message_count(), 9);
    let all: Vec<String> = messages(journal.record()).iter().filter_map(|entry| entry.content()).collect();
    assert!(all.iter().any(|text| text == "Paris: sunny"));
}

#[tokio::test]
async fn a_throttled_request_is_sent_again_with_the_same_bytes() {
    let mut runner = runner(
        r"
- error: {kind: rate_limit, retry_after: 2, message: slow down}
- error: {kind: overloaded}
- {expect: {roles: [system, user]}, reply: at last}
",
    );
    let clock = Arc::new(FakeClock::at(Time(0)));
    runner.clock = clock.clone();
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    runner.trace =
        Some(Arc::new(move |attempt| kept.lock().unwrap().push(attempt.request.get().to_string())));
    let throttled = told::<Throttled>(&runner);
    let (done, journal) = run(&runner).await;
    assert_eq!(replied(&done), "at last");
    assert_eq!(journal.record().len(), 3, "one reply, however many attempts");
    assert_eq!((done.calls.len(), done.calls[0].attempts), (1, 3));
    let bodies = bodies.lock().unwrap();
    assert!(bodies.len() == 3 && bodies.iter().all(|body| *body == bodies[0]));
    let slept = clock.slept();
    assert!(
        slept.len() == 2 && slept[0] >= Duration::from_secs(2) && slept[1] >= Duration::from_millis(500),
        "{slept:?}"
    );
    assert_eq!(
        throttled.lock().unwrap().iter().map(|event| event.kind).collect::<Vec<_>>(),
        ["rate_limit", "overloaded"]
    );
}

#[tokio::test]
async fn each_way_to_give_up_has_its_code() {
    let busy = "- loop: true\n- error: {kind: rate_limit, retry_after: 3}\n";
    let clock = || Arc::new(FakeClock::at(Time(0)));
    // Too often.
    let mut patient = runner("- loop: true\n- error: {kind: overloaded}\n");
    patient.clock = clock();
    let (done, _) = run(&patient).await;
    assert_eq!(code(&done), ("attempts_exhausted", FailurePhase::Request));
    assert_eq!(done.calls[0].attempts, 5);
    // Too long.
    let mut hasty = runner(busy);
    hasty.throttle =
        Throttle::new(9, Duration::from_millis(1), Duration::from_secs(1), Duration::from_secs(4)).unwrap();
    hasty.clock = clock();
    assert_eq!(code(&run(&hasty).await.0), ("retry_time_exhausted", FailurePhase::Request));
    // The deadline comes first, and no time is slept away before it.
    let mut late = runner(busy);
    let time = clock();
    late.clock = time.clone();
    late.deadline = Some(Deadline::after(Duration::from_millis(2500), Time(0)).unwrap());
    assert_eq!(code(&run(&late).await.0), ("deadline_before_retry", FailurePhase::Request));
    assert!(time.slept().is_empty());
    // Not worth a second try.
    let (done, journal) = run(&runner("- error: {kind: auth, message: no}\n")).await;
    assert_eq!((code(&done), done.calls[0].attempts), (("auth", FailurePhase::Request), 1));
    assert_eq!(roles(journal.record()), [Role::System, Role::User], "what was asked stays");
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_asked_for_again_unless_somebody_saw_part_of_it() {
    let script = "- {fail_after: 5, reply: I was about to say}\n- reply: whole\n";
    let unseen = runner(script);
    let (done, journal) = run(&unseen).await;
    assert_eq!((replied(&done), journal.record().len()), ("whole", 3));

    let mut seen = runner(script);
    let shown = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&shown);
    seen.sink = Some(Arc::new(move |delta| {
        if let scrollback_core::stream::Delta::Text(text) = delta {
            kept.lock().unwrap().push_str(text);
        }
    }));
    let (done, journal) = run(&seen).await;
    assert_eq!(code(&done), ("truncated", FailurePhase::Response));
    assert_eq!(*shown.lock().unwrap(), "I was");
    let partial = messages(journal.record())[2];
    assert_eq!((partial.status(), partial.content().as_deref()), (Status::TruncatedUpstream, Some("I was")));
}

#[tokio::test]
async fn usage_is_summed_over_rounds_and_checked_before_tools_run() {
    let script = r"
- {calls: [{name: weather, arguments: {city: Paris}}], usage: {input: 60, output: 5}}
- {calls: [{name: weather, arguments: {city: Oslo}}], usage: {input: 60, output: 5}}
- reply: never
";
    let mut poor = runner(script);
    poor.budget = Some(Budget::new(Some(100), None, None, None).unwrap());
    let (done, journal) = run(&poor).await;
    assert_eq!(code(&done), ("budget", FailurePhase::Budget));
    assert_eq!((done.spent.input, done.spent.output), (120, 10));
    assert_eq!(
        roles(journal.record()),
        [System, User, Assistant, Tool, Assistant],
        "the second call was not run"
    );
    // Exactly at the limit is not above it.
    let mut exact = runner("- {reply: ok, usage: {input: 60, output: 40}}\n");
    exact.budget = Some(Budget::new(Some(60), Some(40), Some(100), None).unwrap());
    assert_eq!(replied(&run(&exact).await.0), "ok");
}

#[tokio::test]
async fn a_forced_call_is_forced_once() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let mut runner = runner("- {calls: [{name: weather, arguments: {city: Paris}}]}\n- reply: ok\n");
    runner.tool_choice = ToolChoice::Tool("weather".into());
    let kept = Arc::clone(&sent);
    runner.trace = Some(Arc::new(move |attempt| {
        let body: Value = serde_json::from_str(attempt.request.get()).unwrap();
        kept.lock().unwrap().push(body["tool_choice"].clone());
    }));
    run(&runner).await;
    let forced = json!({ "type": "function", "function": { "name": "weather" } });
    assert_eq!(*sent.lock().unwrap(), [forced, json!("auto")]);
}

#[tokio::test]
async fn bad_calls_are_results_that_say_what_was_wrong() {
    let runner = runner(
        r#"
- calls: [{name: wether, id: a}, {name: weather, arguments: "not json", id: b}, {name: weather, arguments: {town: x}, id: c}, {name: weather, arguments: "[1]", id: d}]
- expect: {contains: ["unknown tool \"wether\"; known: weather", "the arguments are not JSON", "\"city\" is a required property", "must be a JSON object, not a list"], roles: [system, user, assistant, tool, tool, tool, tool]}
  reply: sorry
"#,
    );
    let (done, journal) = run(&runner).await;
    assert_eq!(replied(&done), "sorry");
    let failed = |entry: &&&Entry| entry.tool_result().is_some_and(|result| result.is_error == Some(true));
    assert_eq!(messages(journal.record()).iter().filter(failed).count(), 4);
    assert_eq!((done.tools["weather"].errors, done.tools["wether"].errors), (3, 1));
}

#[tokio::test]
async fn five_errors_in_a_row_end_it_and_a_success_between_them_does_not() {
    let bad = "{calls: [{name: nope}]}";
    let good = "{calls: [{name: weather, arguments: {city: Paris}}]}";
    let five = format!("- {bad}\n- {bad}\n- {bad}\n- {bad}\n- {bad}\n- reply: never\n");
    assert_eq!(code(&run(&runner(&five)).await.0), ("tool_errors", FailurePhase::Tool));
    let eight = format!("- {bad}\n- {bad}\n- {bad}\n- {bad}\n- {good}\n- {bad}\n- {bad}\n- reply: done\n");
    assert_eq!(replied(&run(&runner(&eight)).await.0), "done");
}

#[tokio::test]
async fn a_tool_that_panics_or_hangs_is_a_result() {
    let mut runner = runner(
        "- {calls: [{name: boom}, {name: slow}]}\n- {expect: {contains: [\"the tool panicked: oh\", \"took longer than 0.05 s\"]}, reply: ok}\n",
    );
    runner.clock = Arc::new(scrollback_agent::SystemClock);
    let boom = tool("boom", "", json!({}), |_: Value| async move { panic!("oh") });
    let slow = tool("slow", "", json!({}), |_: Value| async move {
        std::future::pending::<()>().await;
        Ok(json!(null))
    })
    .with(|spec| spec.timeout = Duration::from_millis(50));
    runner.tools.add(Arc::new(boom)).unwrap();
    runner.tools.add(Arc::new(slow)).unwrap();
    assert_eq!(replied(&run(&runner).await.0), "ok");
}

#[tokio::test]
async fn parallel_calls_are_recorded_as_they_finish_and_paired_by_id() {
    let mut runner = runner(
        "- {calls: [{name: wait, arguments: {turn: 2}, id: a}, {name: wait, arguments: {turn: 1}, id: b}, {name: wait, arguments: {turn: 3}, id: c}]}\n\
         - {expect: {contains: [\"turn 1\", \"turn 2\", \"turn 3\"], roles: [system, user, assistant, tool, tool, tool]}, reply: ok}\n",
    );
    runner.parallel = 3;
    // Each waits until those before it are done: run one by one, the first would wait for ever.
    let turn = Arc::new(AtomicUsize::new(1));
    let wait = tool("wait", "", json!({}), move |args: Value| {
        let turn = Arc::clone(&turn);
        async move {
            let mine = args["turn"].as_u64().unwrap() as usize;
            while turn.load(Ordering::SeqCst) != mine {
                tokio::task::yield_now().await;
            }
            turn.store(mine + 1, Ordering::SeqCst);
            Ok(json!(format!("turn {mine}")))
        }
    });
    runner.tools.add(Arc::new(wait)).unwrap();
    let (done, journal) = run(&runner).await;
    assert_eq!(replied(&done), "ok");
    let order: Vec<String> =
        messages(journal.record()).iter().filter_map(|entry| entry.tool_call_id()).collect();
    assert_eq!(order, ["b", "a", "c"]);
}

#[tokio::test]
async fn too_many_rounds_are_an_error_and_everything_is_kept() {
    let mut runner = runner("- loop: true\n- {calls: [{name: weather, arguments: {city: Paris}}]}\n");
    runner.max_rounds = 3;
    let (done, journal) = run(&runner).await;
    assert_eq!(code(&done), ("too_many_rounds", FailurePhase::Response));
    assert_eq!(journal.record().len(), 2 + 3 * 2);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_made_smaller_step_by_step() {
    let long = "x ".repeat(3000);
    let mut script = String::new();
    for number in 0..8 {
        let _ = writeln!(script, "- {{calls: [{{name: dump, id: c{number}}}]}}");
    }
    // Without a stated limit each step leaves three quarters.
    let over = "- error: {kind: context_overflow, message: \"too long\"}\n";
    script.push_str(over);
    script.push_str("- {expect: {contains: [\"Weather?\"], count: 12}, error: {kind: context_overflow, message: \"too long\"}}\n");
    script.push_str("- {expect: {contains: [\"[tool result cleared]\"], count: 12}, error: {kind: context_overflow, message: \"too long\"}}\n");
    script.push_str(
        "- {expect: {contains: [\"Weather?\"]}, calls: [{name: weather, arguments: {city: Paris}}]}\n",
    );
    // The next call repeats what was decided, and does not overflow again.
    script.push_str("- {expect: {contains: [\"Weather?\", \"Paris: sunny\"]}, reply: fits}\n");
    let mut runner = runner(&script);
    let dump = tool("dump", "", json!({}), move |_: Value| {
        let long = long.clone();
        async move { Ok(json!(long)) }
    });
    runner.tools.add(Arc::new(dump)).unwrap();
    let steps = told::<ContextTightened>(&runner);
    let (done, journal) = run(&runner).await;
    assert_eq!(replied(&done), "fits", "{:?}", done.ended);
    let steps = steps.lock().unwrap();
    assert_eq!(steps.iter().map(|event| event.step).collect::<Vec<_>>(), ["cut", "clear", "truncate"]);
    assert!(steps.iter().all(|event| event.after < event.before), "{steps:?}");
    let whole = messages(journal.record()).iter().filter(|entry| entry.chars() >= 6000).count();
    assert_eq!(whole, 8, "the record is untouched");
    let decisions = journal.record().slots().iter().filter(|slot| matches!(slot, Slot::Decision(..))).count();
    assert_eq!(decisions, 3);
}

#[tokio::test]
async fn a_request_that_stays_too_large_fails_and_says_the_sizes() {
    let runner = runner(
        "- loop: true\n- error: {kind: context_overflow, message: \"maximum context length is 900 tokens, you sent 5000\"}\n",
    );
    let (done, _) = run(&runner).await;
    let EvaluationEnd::Failed(error) = &done.ended else { panic!("{:?}", done.ended) };
    assert_eq!(error.code(), "context_overflow");
    assert!(error.message.contains("900") && error.message.contains("5000"), "{error}");
}

#[tokio::test]
async fn changed_instructions_take_the_place_of_the_old_ones() {
    let runner = runner(
        "- reply: one\n- {expect: {roles: [system, user, assistant, user], contains: [\"Be long.\"], absent: [\"Be brief.\"]}, reply: two}\n- {expect: {contains: [\"Be long.\"]}, reply: three}\n",
    );
    let mut journal = Journal::memory(Record::new());
    runner.run(&mut journal, &prompt("a")).await;
    let changed = |user: &str| Prompt { system: Some("Be long.".into()), ..prompt(user) };
    assert_eq!(replied(&runner.run(&mut journal, &changed("b")).await), "two");
    let before = journal.record().len();
    assert_eq!(replied(&runner.run(&mut journal, &changed("c")).await), "three");
    assert_eq!(journal.record().len(), before + 2, "instructions that are the same are not said again");
    assert_eq!(messages(journal.record())[0].content().as_deref(), Some("Be brief."), "nothing is rewritten");
}

#[tokio::test]
async fn an_observer_that_fails_does_not_stop_the_run() {
    let runner = runner(TWO_ROUNDS);
    runner.bus.subscribe::<ConversationRecorded>(|_| Err("deaf".into()));
    runner.bus.subscribe::<RequestSent>(|_| panic!("loud"));
    assert_eq!(replied(&run(&runner).await.0), "Sunny in both.");
}

#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
struct Looked(String);

impl SliceItem for Looked {
    const NAME: &'static str = "Looked";
    const KIND: SliceKind = SliceKind::State;
}

#[tokio::test]
async fn state_goes_back_where_a_reducer_fails_on_a_tool_and_the_result_stays() {
    let mut runner = runner(TWO_ROUNDS);
    let session =
        Session::new(&runner.bus, SessionStart { id: "s".into(), ..SessionStart::default() }).unwrap();
    session
        .register::<ToolInvoked, Looked>(|slice, event, _| Ok(append(slice, Looked(event.result.clone()))));
    session.register::<ToolInvoked, Looked>(|_, event, _| {
        if event.result.contains("Oslo") { Err("not Oslo".into()) } else { Ok(SliceChange::Keep) }
    });
    runner.session = Some(Arc::clone(&session));
    let rolled = told::<StateRolledBack>(&runner);
    let (done, journal) = run(&runner).await;
    assert_eq!(replied(&done), "Sunny in both.");
    assert_eq!(session.select_where(|_: &Looked| true), [Looked("Paris: sunny".into())]);
    let rolled = rolled.lock().unwrap();
    assert!(
        rolled.len() == 1 && rolled[0].call_id == "b" && rolled[0].reason.contains("not Oslo"),
        "{rolled:?}"
    );
    assert!(messages(journal.record()).iter().any(|entry| entry.content().as_deref() == Some("Oslo: sunny")));
}

#[tokio::test]
async fn structured_output_is_read_and_kept_beside_what_was_said() {
    let runner = runner(
        "- {expect: {contains: [\"json_schema\"]}, reply: 'Here: {\"city\": \"Paris\"} ok'}\n- reply: 'no object'\n",
    );
    let schema =
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let asked =
        Prompt { response_format: Some(ResponseFormat { name: "place".into(), schema }), ..prompt("where?") };
    let mut journal = Journal::memory(Record::new());
    let done = runner.run(&mut journal, &asked).await;
    let EvaluationEnd::Replied { output, text } = &done.ended else { panic!("{:?}", done.ended) };
    assert_eq!(
        (output, text.as_str()),
        (&Some(json!({ "city": "Paris" })), "Here: {\"city\": \"Paris\"} ok")
    );
    let reply = messages(journal.record())[2];
    assert_eq!(reply.meta.as_ref().unwrap().tags["output"], "{\"city\":\"Paris\"}");
    let done = runner.run(&mut journal, &asked).await;
    assert_eq!(code(&done), ("bad_output", FailurePhase::Response));
}

#[tokio::test]
async fn summaries_are_written_recorded_and_shown() {
    let mut script = String::from("- loop: true\n");
    script.push_str("- reply: ok\n");
    let mut runner = runner(&script);
    runner.manager = parse("summarize(max_turns=3, keep_recent=1)").unwrap();
    let written = told::<SummaryWritten>(&runner);
    let mut journal = Journal::memory(Record::new());
    let last = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&last);
    runner.trace = Some(Arc::new(move |attempt| *kept.lock().unwrap() = attempt.request.get().into()));
    for turn in 0..5 {
        runner.run(&mut journal, &prompt(&format!("question {turn}"))).await;
    }
    let written = written.lock().unwrap();
    assert!(!written.is_empty() && written.iter().all(|event| event.by == "offline"));
    let sent = last.lock().unwrap().clone();
    assert!(sent.contains("Summary of the earlier conversation:") && sent.contains("question 0"), "{sent}");
    let bodies: Value = serde_json::from_str(&sent).unwrap();
    let direct =
        bodies["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user").count();
    assert!(direct <= 3, "{sent}");
    assert_eq!(journal.record().message_count(), 11, "the record keeps all");
}

#[tokio::test]
async fn the_deadline_is_checked_before_each_request_and_tool() {
    let clock = Arc::new(FakeClock::at(Time(0)));
    let mut late = runner(
        "- {calls: [{name: tick}, {name: weather, arguments: {city: Paris}, id: never}]}\n- reply: never\n",
    );
    late.clock = clock.clone();
    late.deadline = Some(Deadline::after(Duration::from_secs(5), Time(0)).unwrap());
    let passes = clock.clone();
    let tick = tool("tick", "", json!({}), move |_: Value| {
        passes.advance(Duration::from_secs(6));
        async move { Ok(json!("done")) }
    });
    late.tools.add(Arc::new(tick)).unwrap();
    let (done, journal) = run(&late).await;
    assert_eq!(code(&done), ("deadline", FailurePhase::Deadline));
    let answered: Vec<String> =
        messages(journal.record()).iter().filter_map(|entry| entry.tool_call_id()).collect();
    assert!(!answered.contains(&"never".to_string()), "calls not yet run stay pending");
}

#[tokio::test]
async fn a_reply_that_is_there_counts_although_somebody_asked_to_stop() {
    let runner = runner("- reply: finished\n");
    let stop = runner.stop.clone();
    runner.bus.subscribe::<ConversationRecorded>(move |told| {
        if told.event.recorded.entry.role == Assistant {
            stop.stop();
        }
        Ok(())
    });
    assert_eq!(replied(&run(&runner).await.0), "finished");
}
