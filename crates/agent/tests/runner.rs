//! The runner, by what the model was sent: scripts check every request that reaches them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use scrollback_agent::event::{
    ContextTightened, ConversationRecorded, Recorded, RequestSent, StateRolledBack, SummaryWritten,
    Throttled, ToolInvoked,
};
use scrollback_agent::journal::{Journal, Keeper, Written};
use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{Provider, ResponseFormat, Sampling, Scripted, ToolChoice};
use scrollback_agent::runner::{
    Budget, Deadline, Ended, Evaluated, EvaluationError, Meter, OnOverflow, Phase, Prompt, Runner, Spent,
    Throttle,
};
use scrollback_agent::session::{Item, Kind, Op, Session, SessionStart, append};
use scrollback_agent::tool::{Effects, Human, Spec, tool};
use scrollback_agent::{EventBus, FakeClock, Pending};
use scrollback_core::manager::parse;
use scrollback_core::model::ModelName;
use scrollback_core::{Entry, HistoryCurated, Record, Role, Slot, Status, Time};
use scrollback_store::{ConversationId, NewEntry, StoreError};
use serde_json::{Value, json};

use Role::{Assistant, System, Tool, User};

fn scripted(script: &str) -> Arc<dyn Provider> {
    let script = Script::parse(script).unwrap_or_else(|problems| panic!("{problems:?}"));
    Arc::new(Scripted::new(ModelName::parse("offline:script=test").unwrap(), Arc::new(script)))
}

fn runner(script: &str) -> Runner {
    let mut runner = Runner::new(scripted(script));
    let clock = Arc::new(FakeClock::at(Time(1_000_000)));
    runner.bus = Arc::new(EventBus::new(clock.clone()));
    runner.clock = clock;
    let schema =
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let weather = tool("weather", "Weather by city", schema, |at: Value| async move {
        Ok(json!(format!("{}: sunny", at["city"].as_str().unwrap_or_default())))
    });
    runner.tools.add(Arc::new(weather)).unwrap();
    runner
}

fn prompt(user: &str) -> Prompt {
    Prompt { name: "test".into(), system: Some("Be brief.".into()), user: user.into(), response_format: None }
}

async fn run(runner: &Runner) -> (Evaluated, Journal) {
    let mut journal = Journal::memory(Record::new());
    let done = runner.run(&mut journal, &prompt("Weather?")).await;
    (done, journal)
}

#[track_caller]
fn replied(done: &Evaluated) -> &str {
    match &done.ended {
        Ended::Replied { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn code(done: &Evaluated) -> (&str, Phase) {
    match &done.ended {
        Ended::Failed(error) => (&error.code, error.phase),
        other => panic!("{other:?}"),
    }
}

fn roles(record: &Record) -> Vec<Role> {
    messages(record).iter().map(|entry| entry.role).collect()
}

fn messages(record: &Record) -> Vec<&Entry> {
    (0..record.len() as u64).filter_map(|position| record.entry(position)).map(AsRef::as_ref).collect()
}

/// Everything that is told of one type.
fn told<E: scrollback_agent::Event + Clone>(runner: &Runner) -> Arc<Mutex<Vec<E>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    runner.bus.subscribe::<E>(move |told| {
        keep.lock().unwrap().push(told.event.clone());
        Ok(())
    });
    kept
}

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
    let slice = session.select_all::<Recorded>();
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
    assert_eq!(code(&done), ("attempts_exhausted", Phase::Request));
    assert_eq!(done.calls[0].attempts, 5);
    // Too long.
    let mut hasty = runner(busy);
    hasty.throttle =
        Throttle::new(9, Duration::from_millis(1), Duration::from_secs(1), Duration::from_secs(4)).unwrap();
    hasty.clock = clock();
    assert_eq!(code(&run(&hasty).await.0), ("retry_time_exhausted", Phase::Request));
    // The deadline comes first, and nobody sleeps towards it.
    let mut late = runner(busy);
    let time = clock();
    late.clock = time.clone();
    late.deadline = Some(Deadline::after(Duration::from_millis(2500), Time(0)).unwrap());
    assert_eq!(code(&run(&late).await.0), ("deadline_before_retry", Phase::Request));
    assert!(time.slept().is_empty());
    // Not worth a second try.
    let (done, journal) = run(&runner("- error: {kind: auth, message: no}\n")).await;
    assert_eq!((code(&done), done.calls[0].attempts), (("auth", Phase::Request), 1));
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
    assert_eq!(code(&done), ("truncated", Phase::Response));
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
    assert_eq!(code(&done), ("budget", Phase::Budget));
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
- expect: {contains: ["there is no tool \"wether\"; the tools are: weather", "the arguments are not JSON", "\"city\" is a required property", "must be a JSON object, not a list"], roles: [system, user, assistant, tool, tool, tool, tool]}
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
    assert_eq!(code(&run(&runner(&five)).await.0), ("tool_errors", Phase::Tool));
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
    assert_eq!(code(&done), ("too_many_rounds", Phase::Response));
    assert_eq!(journal.record().len(), 2 + 3 * 2);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_made_smaller_step_by_step() {
    let long = "x ".repeat(3000);
    let mut script = String::new();
    for number in 0..5 {
        let _ = writeln!(script, "- {{calls: [{{name: dump, id: c{number}}}]}}");
    }
    let over = "- error: {kind: context_overflow, message: \"maximum context length is 9000 tokens\"}\n";
    script.push_str(over);
    script.push_str("- {expect: {contains: [\"[tool result cleared]\"], count: 12}, error: {kind: context_overflow, message: \"maximum context length is 9000 tokens\"}}\n");
    script.push_str("- {expect: {contains: [\"Weather?\"]}, error: {kind: context_overflow, message: \"maximum context length is 9000 tokens\"}}\n");
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
    assert_eq!(steps.iter().map(|event| event.step).collect::<Vec<_>>(), ["clear", "cut", "truncate"]);
    assert!(steps.iter().all(|event| event.after < event.before), "{steps:?}");
    let whole = messages(journal.record()).iter().filter(|entry| entry.chars() >= 6000).count();
    assert_eq!(whole, 5, "the record is untouched");
    let decisions = journal.record().slots().iter().filter(|slot| matches!(slot, Slot::Decision(..))).count();
    assert_eq!(decisions, 3);
}

#[tokio::test]
async fn a_request_that_stays_too_large_fails_and_says_the_sizes() {
    let runner = runner(
        "- loop: true\n- error: {kind: context_overflow, message: \"maximum context length is 900 tokens, you sent 5000\"}\n",
    );
    let (done, _) = run(&runner).await;
    let Ended::Failed(error) = &done.ended else { panic!("{:?}", done.ended) };
    assert_eq!(error.code, "context_overflow");
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

impl Item for Looked {
    const NAME: &'static str = "Looked";
    const KIND: Kind = Kind::State;
}

#[tokio::test]
async fn state_goes_back_where_a_reducer_fails_on_a_tool_and_the_result_stays() {
    let mut runner = runner(TWO_ROUNDS);
    let session =
        Session::new(&runner.bus, SessionStart { id: "s".into(), ..SessionStart::default() }).unwrap();
    session
        .register::<ToolInvoked, Looked>(|slice, event, _| Ok(append(slice, Looked(event.result.clone()))));
    session.register::<ToolInvoked, Looked>(|_, event, _| {
        if event.result.contains("Oslo") { Err("not Oslo".into()) } else { Ok(Op::Keep) }
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
    let Ended::Replied { output, text } = &done.ended else { panic!("{:?}", done.ended) };
    assert_eq!(
        (output, text.as_str()),
        (&Some(json!({ "city": "Paris" })), "Here: {\"city\": \"Paris\"} ok")
    );
    let reply = messages(journal.record())[2];
    assert_eq!(reply.meta.as_ref().unwrap().tags["output"], "{\"city\":\"Paris\"}");
    let done = runner.run(&mut journal, &asked).await;
    assert_eq!(code(&done), ("bad_output", Phase::Response));
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
    assert_eq!(code(&done), ("deadline", Phase::Deadline));
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

#[tokio::test]
async fn a_person_is_asked_and_the_answer_comes_by_resume() {
    let make = || {
        let mut runner = runner(
            "- {calls: [{name: ask, arguments: {text: date}, id: q}, {name: weather, arguments: {city: Paris}, id: w}]}\n\
             - {expect: {contains: [\"the 4th\", \"Paris: sunny\"], roles: [system, user, assistant, tool, tool]}, reply: booked}\n",
        );
        let ask = Human::new(Spec::new("ask", "Asks the user"), "Which {text}?");
        runner.tools.add(Arc::new(ask)).unwrap();
        runner
    };
    let runner = make();
    let mut journal = Journal::memory(Record::new());
    let paused = runner.run(&mut journal, &prompt("book")).await;
    let Ended::Paused(question) = &paused.ended else { panic!("{:?}", paused.ended) };
    assert_eq!((question.text.as_str(), question.call_id.as_str()), ("Which date?", "q"));
    assert_eq!(runner.resume(&mut journal, &prompt(""), None).await.unwrap_err().code(), "answer_missing");
    let done = runner.resume(&mut journal, &prompt(""), Some("the 4th")).await.unwrap();
    assert_eq!(replied(&done), "booked");
    assert_eq!(done.evaluation_id, paused.evaluation_id);
    assert_eq!(runner.resume(&mut journal, &prompt(""), None).await.unwrap_err().code(), "nothing_to_resume");
}

#[tokio::test]
async fn a_new_message_closes_calls_that_nobody_answered() {
    let mut runner = runner(
        "- {calls: [{name: ask, id: q}]}\n\
         - {expect: {contains: [\"[interrupted: no result was recorded]\", \"never mind\"], roles: [system, user, assistant, tool, user]}, reply: fine}\n",
    );
    runner.tools.add(Arc::new(Human::new(Spec::new("ask", ""), "What?"))).unwrap();
    let mut journal = Journal::memory(Record::new());
    runner.run(&mut journal, &prompt("book")).await;
    assert_eq!(replied(&runner.run(&mut journal, &prompt("never mind")).await), "fine");
}

#[tokio::test]
async fn tools_that_must_not_run_twice_are_not_run_again() {
    let runs = Arc::new(AtomicUsize::new(0));
    let make = |script: &str, runs: &Arc<AtomicUsize>| {
        let mut runner = runner(script);
        for (name, effects) in [("once", Effects::Once), ("again", Effects::Write)] {
            let runs = Arc::clone(runs);
            let counted = tool(name, "", json!({}), move |_: Value| {
                runs.fetch_add(1, Ordering::SeqCst);
                async move { Ok(json!("ran")) }
            });
            runner.tools.add(Arc::new(counted.with(|spec| spec.effects = effects))).unwrap();
        }
        runner
    };
    // As after a crash: the calls are recorded, their results are not.
    let mut record = Record::new();
    let id = uuid::Uuid::from_u128(7);
    let calls = [("a", "once", "{}"), ("b", "again", "{}")];
    let said =
        [Entry::text(Role::System, "Be brief."), Entry::text(Role::User, "go"), Entry::calling(None, &calls)];
    for (sequence, entry) in said.into_iter().enumerate() {
        record.append(entry.stamped(id, sequence as u64, Time(0))).unwrap();
    }
    let mut journal = Journal::memory(record);
    let runner = make(
        "- {expect: {contains: [\"[interrupted: no result was recorded]\", \"ran\"]}, reply: ok}\n",
        &runs,
    );
    let answered = runner.resume(&mut journal, &prompt(""), Some("nobody asked")).await;
    assert_eq!(answered.unwrap_err().code(), "no_question");
    let done = runner.resume(&mut journal, &prompt(""), None).await.unwrap();
    assert_eq!((replied(&done), runs.load(Ordering::SeqCst)), ("ok", 1));
    assert_eq!(messages(journal.record()).last().unwrap().sequence, 5);
}

/// Counts what it is asked and told, and has room for so many attempts.
struct Room {
    left: AtomicUsize,
    told: AtomicUsize,
}

impl Meter for Room {
    fn reserve(&self, _: &ModelName, tokens: usize) -> Result<(), EvaluationError> {
        assert!(tokens > 0);
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            return Err(EvaluationError::new(Phase::Budget, "no_room", "there is none"));
        }
        self.left.store(left - 1, Ordering::SeqCst);
        Ok(())
    }

    fn settle(&self, _: &Spent) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_meter_is_asked_before_every_attempt_and_told_after_it() {
    let script = "[{error: {kind: overloaded, message: busy}}, {reply: done}]";
    for (room, ended, told) in [(2, "done", 2), (1, "no_room", 1), (0, "no_room", 0)] {
        let mut runner = runner(script);
        let meter = Arc::new(Room { left: AtomicUsize::new(room), told: AtomicUsize::default() });
        runner.meter = Some(Arc::clone(&meter) as Arc<dyn Meter>);
        let (done, _) = run(&runner).await;
        let found = match &done.ended {
            Ended::Replied { text, .. } => text.clone(),
            Ended::Failed(error) => error.code.clone(),
            Ended::Paused(_) => String::new(),
        };
        assert_eq!((found.as_str(), meter.told.load(Ordering::SeqCst)), (ended, told), "room for {room}");
    }
}

#[tokio::test]
async fn replies_are_drawn_as_wished_and_an_overflow_can_be_left_to_others() {
    let mut runner = runner("[{reply: done}]");
    runner.sampling = Sampling { max_output_tokens: Some(7), temperature: Some(0.5), top_p: None };
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = Arc::clone(&bodies);
    runner.trace = Some(Arc::new(move |attempt| {
        seen.lock().unwrap().push(serde_json::from_str(attempt.request.get()).unwrap());
    }));
    run(&runner).await;
    let body = bodies.lock().unwrap().remove(0);
    assert_eq!((&body["max_completion_tokens"], &body["temperature"]), (&json!(7), &json!(0.5)));
    assert!(body.get("top_p").is_none());
    let mut failing = self::runner("[{error: {kind: context_overflow, message: too long}}]");
    failing.overflow = OnOverflow::Fail;
    let (done, journal) = run(&failing).await;
    assert_eq!(code(&done).0, "context_overflow");
    assert!(matches!(&done.ended, Ended::Failed(error) if error.provider.is_some()));
    assert_eq!(roles(journal.record()), [System, User], "nothing was decided about it");
}

/// Keeps what a journal writes.
#[derive(Default)]
struct Elsewhere {
    conversation: Option<ConversationId>,
    kept: Mutex<Vec<(Vec<Role>, usize, bool)>>,
}

impl Keeper for Elsewhere {
    fn conversation(&self) -> &ConversationId {
        self.conversation.as_ref().unwrap()
    }

    fn keep(&self, written: Written) -> Pending<'_, Result<(), StoreError>> {
        let roles = written.entries.iter().filter_map(|entry| match entry {
            NewEntry::Message(entry) => Some(entry.role),
            NewEntry::Decision(_) => None,
        });
        self.kept.lock().unwrap().push((roles.collect(), written.sent.len(), written.view.is_some()));
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn an_evaluation_goes_on_in_a_record_that_was_prepared_for_it() {
    let mine = uuid::Uuid::from_u128(7);
    let mut record = Record::new();
    let others = [(System, "Be brief."), (User, "Said before."), (Assistant, "So it was.")];
    for ((role, text), number) in others.into_iter().zip(100u128..) {
        record.append(Entry::text(role, text).stamped(uuid::Uuid::from_u128(number), 0, Time(0))).unwrap();
    }
    record.append(Entry::text(User, "Weather?").stamped(mine, 0, Time(0))).unwrap();
    let keeper =
        Arc::new(Elsewhere { conversation: Some(ConversationId::new(Time(0))), ..Elsewhere::default() });
    let mut journal = Journal::elsewhere(record, Arc::clone(&keeper) as Arc<dyn Keeper>);
    let script = "- {expect: {roles: [system, user, assistant, user]}, calls: [{name: weather, arguments: {city: Paris}, id: a}]}\n- {reply: Sunny.}";
    let done = runner(script).carry_on(&mut journal, &prompt(""), mine).await;
    assert_eq!((replied(&done), done.evaluation_id), ("Sunny.", mine));
    assert_eq!(roles(journal.record()), [System, User, Assistant, User, Assistant, Tool, Assistant]);
    let own = messages(journal.record()).into_iter().filter(|entry| entry.evaluation_id == mine);
    assert_eq!(own.map(|entry| entry.sequence).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let kept = keeper.kept.lock().unwrap().clone();
    let said: Vec<Role> = kept.iter().flat_map(|(roles, ..)| roles.clone()).collect();
    assert_eq!(said, [Assistant, Tool, Assistant], "only what is new");
    assert_eq!(kept.iter().filter(|(.., view)| *view).count(), 2, "each request says what it shows");
}
