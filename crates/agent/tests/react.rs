//! Agents that think, act and answer, by what the model was sent and what the record reads as.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use scrollback_agent::AgentErrorKind;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{Api, Endpoint, Http, ReplyDelivery, ResponseFormat, Scripted};
use scrollback_agent::react::{AgentSession, Extract, QueryStatus, React, ReactMode, SessionResult, Stopped};
use scrollback_agent::runner::Runner;
use scrollback_agent::tool::tool;
use scrollback_agent::trajectory::{
    Current, StepKind, Trajectory, context_prompt, messages_view, recent_for_extract, steps,
};
use scrollback_core::manager::parse;
use scrollback_core::model::ModelName;
use scrollback_core::{CurationContext, Record, Slot, Time, settle_offline};
use scrollback_store::{Memory, Recipient, Store, Tenant};
use serde_json::{Value, json};

use crate::support::{Reply, Server};

fn session(script: &str, react: React) -> AgentSession {
    session_with(script, react, |_| {})
}

fn session_with(script: &str, react: React, change: impl FnOnce(&mut Runner)) -> AgentSession {
    let script = Script::parse(script).unwrap_or_else(|problems| panic!("{problems:?}"));
    let model = ModelName::parse("offline:script=test").unwrap();
    let mut runner = Runner::new(Arc::new(Scripted::new(model, Arc::new(script))));
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let weather = tool("get_weather", "Weather by city", schema, |at: Value| async move {
        match at["city"].as_str() {
            Some("Paris") => Ok(json!("72°F, sunny")),
            Some("Tokyo") => Ok(json!("65°F, cloudy")),
            _ => Err("no such city".into()),
        }
    });
    runner.tools.add(Arc::new(weather)).unwrap();
    change(&mut runner);
    AgentSession::new("weather", Some("Be brief.".into()), runner, react, Journal::memory(Record::new()))
}

fn kinds(result: &SessionResult) -> Vec<StepKind> {
    result.steps.iter().map(|step| step.kind).collect()
}

use StepKind::{FinalAnswer, Summary, Thought, ToolCall, ToolResult, UserQuery};

#[tokio::test]
async fn paris_then_tokyo() {
    let session = session(
        r#"
- {text: I need to check the weather, calls: [{name: get_weather, arguments: {city: Paris}}]}
- {expect: {contains: ["72°F, sunny"]}, reply: The weather in Paris is 72°F and sunny}
- expect: {contains: ["What's the weather in Paris?", "72°F, sunny", "The weather in Paris is 72°F and sunny", "What about Tokyo?"], roles: [system, user, assistant, tool, assistant, user]}
  text: Checking Tokyo weather
  calls: [{name: get_weather, arguments: {city: Tokyo}}]
- {expect: {contains: ["65°F, cloudy"]}, reply: Tokyo is 65°F and cloudy}
"#,
        React::default(),
    );
    let paris = session.query("What's the weather in Paris?").await.unwrap();
    assert_eq!(paris.answer.as_deref(), Some("The weather in Paris is 72°F and sunny"));
    assert_eq!((paris.status, paris.stopped, paris.iterations), (QueryStatus::Done, Stopped::Answer, 2));
    assert_eq!(kinds(&paris), [UserQuery, Thought, ToolCall, ToolResult, FinalAnswer]);
    let tokyo = session.query("What about Tokyo?").await.unwrap();
    assert_eq!(tokyo.answer.as_deref(), Some("Tokyo is 65°F and cloudy"));
    let contents: Vec<&str> = tokyo.steps.iter().map(|step| step.content.as_str()).collect();
    assert_eq!(
        contents,
        [
            "What about Tokyo?",
            "Checking Tokyo weather",
            "Using tool: get_weather",
            "65°F, cloudy",
            "Tokyo is 65°F and cloudy"
        ]
    );
    let iterations: Vec<u32> = tokyo.steps.iter().map(|step| step.iteration).collect();
    assert_eq!(iterations, [0, 1, 1, 1, 2]);
    let all = session.with_journal(|journal| steps(journal.record(), ..)).await;
    assert_eq!(all.len(), 10, "one trajectory over both queries");
    let view = messages_view(&all);
    let shape: Vec<(&str, usize)> =
        view.iter().map(|message| (message.role, message.content.len())).collect();
    assert_eq!(shape, [("user", 1), ("assistant", 4), ("user", 1), ("assistant", 4)]);
    let part = json!(view[1].content[1]);
    assert_eq!(
        part,
        json!({ "type": "tool_use", "text": "Using tool: get_weather", "tool_data": { "name": "get_weather", "args": { "city": "Paris" } }, "tool_use_id": "call_1" })
    );
}

#[tokio::test]
async fn text_mode_leaves_the_same_record() {
    let text = session(
        r#"
- expect: {contains: ["get_weather", "finish", "user_query: What's the weather in Paris?"], absent: ["context_prompt:"], roles: [system, user], tools: []}
  reply: 'Sure: {"thought": "I need to check the weather", "tool_name": "get_weather", "tool_args": {"city": "Paris"}}'
- expect: {contains: ["Thought: I need to check the weather", "Action: get_weather({\"city\":\"Paris\"})", "Observation: 72°F, sunny"]}
  reply: '{"thought": "I know enough", "tool_name": "finish", "tool_args": {}}'
- expect: {contains: ["User: What's the weather in Paris?", "Observation: 72°F, sunny", "Thought: I know enough"], absent: ["finish("]}
  reply: 72°F and sunny
- expect: {contains: ["User: What's the weather in Paris?", "Answer: 72°F and sunny", "Observation: 72°F, sunny", "user_query: What about Tokyo?"], absent: ["User: What about Tokyo?"]}
  reply: '{"thought": "Same", "tool_name": "finish"}'
- reply: Cloudy
"#,
        React { mode: ReactMode::Text, ..React::default() },
    );
    let paris = text.query("What's the weather in Paris?").await.unwrap();
    assert_eq!((paris.answer.as_deref(), paris.stopped), (Some("72°F and sunny"), Stopped::Finish));
    assert_eq!(kinds(&paris), [UserQuery, Thought, ToolCall, ToolResult, Thought, FinalAnswer]);
    let tokyo = text.query("What about Tokyo?").await.unwrap();
    assert_eq!(
        (tokyo.answer.as_deref(), kinds(&tokyo)),
        (Some("Cloudy"), vec![UserQuery, Thought, FinalAnswer])
    );
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_is_corrected_once() {
    let react = || React { mode: ReactMode::Text, ..React::default() };
    let repaired = session(
        r#"
- reply: no object here
- {expect: {contains: ["Your reply could not be read", "no object here"]}, reply: '{"tool_name": "finish", "thought": "ok"}'}
- reply: fine
"#,
        react(),
    );
    let done = repaired.query("hello?").await.unwrap();
    assert_eq!((done.answer.as_deref(), done.iterations), (Some("fine"), 1));
    let broken = session("- loop: true\n- reply: nonsense\n", react());
    let failed = broken.query("hello?").await.unwrap();
    assert_eq!((failed.status, failed.stopped), (QueryStatus::Failed, Stopped::Error));
    assert_eq!(failed.error.unwrap().code(), "unparsable_reply");
    assert_eq!(failed.answer, None);
}

#[tokio::test]
async fn errors_are_observations_and_the_loop_goes_on() {
    let session = session(
        r#"
- reply: '{"thought": "try", "tool_name": "no_such", "tool_args": {}}'
- {expect: {contains: ["Observation: Error: unknown tool"]}, reply: '{"thought": "again", "tool_name": "get_weather", "tool_args": {"city": "Atlantis"}}'}
- {expect: {contains: ["Observation: Error: no such city"]}, reply: '{"thought": "give up", "tool_name": "finish"}'}
- reply: There is no such city.
"#,
        React { mode: ReactMode::Text, ..React::default() },
    );
    let done = session.query("Weather in Atlantis?").await.unwrap();
    assert_eq!(done.answer.as_deref(), Some("There is no such city."));
    let result = done.steps.iter().find(|step| step.kind == ToolResult).unwrap();
    assert_eq!(result.tool_data.as_ref().unwrap()["result"], Value::Null);
}

#[tokio::test]
async fn after_the_last_iteration_the_answer_is_extracted_or_there_is_none() {
    let calls = "- {calls: [{name: get_weather, arguments: {city: Paris}}]}\n".repeat(2);
    let react = |extract| React { max_iterations: 2, extract, ..React::default() };
    let extracted = session(
        &format!(
            "{calls}- {{expect: {{contains: [\"Observation: 72°F, sunny\", \"User: Paris?\"], count: 2}}, reply: Sunny.}}\n"
        ),
        react(Extract::Auto),
    );
    let done = extracted.query("Paris?").await.unwrap();
    assert_eq!((done.answer.as_deref(), done.stopped), (Some("Sunny."), Stopped::MaxIterations));
    assert_eq!(done.status, QueryStatus::Done);

    let never = session(&calls, react(Extract::Never)).query("Paris?").await.unwrap();
    assert_eq!(
        (never.answer, never.status, never.stopped),
        (None, QueryStatus::Failed, Stopped::MaxIterations)
    );
    assert_eq!(never.error.unwrap().code(), "no_answer");
    let blank =
        session(&format!("{calls}- reply: ''\n"), react(Extract::Auto)).query("Paris?").await.unwrap();
    assert_eq!(blank.error.unwrap().code(), "no_answer");
}

#[tokio::test]
async fn fields_are_asked_for_at_the_end() {
    let schema = json!({ "type": "object", "properties": { "answer": { "type": "string" }, "sources": { "type": "array" } }, "required": ["answer", "sources"] });
    let react = React { output: Some(ResponseFormat { name: "output".into(), schema }), ..React::default() };
    let session = session(
        r#"
- {reply: Sunny.}
- {expect: {contains: ["json_schema", "answer (string), sources (array)", "Answer: Sunny."]}, reply: '{"answer": "Sunny", "sources": ["me"]}'}
"#,
        react,
    );
    let done = session.query("Paris?").await.unwrap();
    assert_eq!(done.answer.as_deref(), Some("Sunny"));
    assert_eq!(done.output, Some(json!({ "answer": "Sunny", "sources": ["me"] })));
}

#[tokio::test]
async fn blank_queries_are_refused_and_nothing_is_recorded() {
    let session = session("- reply: never\n", React::default());
    assert!(session.query(" \n").await.is_err());
    assert!(session.with_journal(|journal| journal.record().is_empty()).await);
}

#[tokio::test]
async fn two_queries_at_once_do_not_mix() {
    let session = Arc::new(session(
        "- loop: true\n- {calls: [{name: get_weather, arguments: {city: Paris}}]}\n- reply: sunny\n",
        React::default(),
    ));
    let ask = |text: &'static str| {
        let session = Arc::clone(&session);
        tokio::spawn(async move { session.query(text).await.unwrap() })
    };
    let (one, two) = (ask("one?"), ask("two?"));
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    for result in [&one, &two] {
        assert_eq!(kinds(result), [UserQuery, ToolCall, ToolResult, FinalAnswer]);
        let places: Vec<u64> = result.steps.iter().map(|step| step.position).collect();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] <= 1), "{places:?}");
    }
}

#[tokio::test]
async fn a_reset_session_forgets_and_the_old_conversation_stays() {
    let session = session("- reply: one\n- {expect: {absent: [\"first\"]}, reply: two}\n", React::default());
    session.query("first").await.unwrap();
    let old = session.reset(Journal::memory(Record::new())).await;
    assert_eq!(session.query("second").await.unwrap().answer.as_deref(), Some("two"));
    assert_eq!(old.record().message_count(), 3);
}

#[test]
fn steps_are_added_as_entries_and_results_need_their_call() {
    let mut trajectory = Trajectory::new(Record::new());
    trajectory.add_user_query("Compare", Time(0)).unwrap();
    trajectory.add_thought("Both at once", Time(1)).unwrap();
    let a = trajectory.add_tool_use("get_weather", &json!({ "city": "Paris" }), Time(1)).unwrap();
    let b = trajectory.add_tool_use("get_weather", &json!({ "city": "Tokyo" }), Time(1)).unwrap();
    assert_eq!((a.as_str(), b.as_str()), ("call_1_0", "call_1_1"));
    trajectory.add_tool_result(&b, Ok("cloudy"), Time(2)).unwrap();
    trajectory.add_tool_result(&a, Err("broken"), Time(3)).unwrap();
    let late = trajectory.add_tool_result(&a, Ok("late"), Time(4)).unwrap_err();
    assert_eq!(late.kind(), AgentErrorKind::AnsweredBefore);
    let unknown = trajectory.add_tool_result("x", Ok("?"), Time(4)).unwrap_err();
    assert_eq!(unknown.kind(), AgentErrorKind::UnknownCall);
    trajectory.add_answer("Cloudy and broken", Time(5)).unwrap();
    let record = trajectory.into_record().unwrap();
    assert_eq!(record.len(), 5, "a thought and its tool uses are one entry");
    let read: Vec<StepKind> = steps(&record, ..).iter().map(|step| step.kind).collect();
    assert_eq!(read, [UserQuery, Thought, ToolCall, ToolCall, ToolResult, ToolResult, FinalAnswer]);
    let part = steps(&record, 2..4);
    assert_eq!(
        part.iter().map(|step| (step.kind, step.iteration)).collect::<Vec<_>>(),
        [(ToolResult, 1), (ToolResult, 1)]
    );
    assert!(messages_view(&[]).is_empty());
    let summary = record.view(&CurationContext::default(), &*parse("passthrough").unwrap()).unwrap();
    let prompt = context_prompt(summary.items(), Current::Excluded);
    assert!(
        prompt.starts_with("Thought: Both at once\nAction: get_weather({\"city\":\"Paris\"})\n"),
        "{prompt}"
    );
    assert!(prompt.contains("Observation: Error: broken"), "{prompt}");
    assert!(recent_for_extract(summary.items()).starts_with("User: Compare\n"));
    assert_eq!(context_prompt(Vec::new(), Current::Excluded), "");
}

#[test]
fn a_summary_is_a_step_of_the_record_and_of_the_view() {
    let mut trajectory = Trajectory::new(Record::new());
    for turn in 0..4 {
        trajectory.add_user_query(&format!("question {turn}"), Time(0)).unwrap();
        trajectory.add_answer(&format!("answer {turn}"), Time(0)).unwrap();
    }
    let mut record = trajectory.into_record().unwrap();
    let manager = parse("summarize(max_turns=2, keep_recent=1)").unwrap();
    let cx = CurationContext::default();
    settle_offline(&mut record, &cx, &*manager, Time(9)).unwrap();
    let written = steps(&record, ..).into_iter().find(|step| step.kind == Summary).unwrap();
    assert!(written.content.contains("question 0") && written.tool_data.is_none(), "{written:?}");
    let view = record.view(&cx, &*manager).unwrap();
    let prompt = context_prompt(view.items(), Current::Included);
    assert!(prompt.starts_with("Summary: - user: question 0 "), "{prompt}");
    assert!(prompt.ends_with("User: question 3\nAnswer: answer 3"), "{prompt}");
    assert_eq!(messages_view(&[written])[0].role, "system");
}

#[tokio::test]
async fn twenty_four_steps_under_a_window_of_twenty_leave_no_orphan() {
    let mut script = String::new();
    for _ in 0..8 {
        script.push_str("- {text: next, calls: [{name: get_weather, arguments: {city: Paris}}]}\n");
    }
    script.push_str("- reply: done\n");
    let sent = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&sent);
    let session = session_with(&script, React::default(), |runner| {
        runner.manager = parse("trajectory_window(max_steps=20)").unwrap();
        runner.trace =
            Some(Arc::new(move |attempt| kept.lock().unwrap().push(attempt.request.get().to_string())));
    });
    let done = session.query("Paris?").await.unwrap();
    assert_eq!((done.status, done.steps.len()), (QueryStatus::Done, 26));
    for body in sent.lock().unwrap().iter() {
        let body: Value = serde_json::from_str(body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let calls =
            messages.iter().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
        let calls: Vec<&str> = calls.filter_map(|call| call["id"].as_str()).collect();
        let results: Vec<&str> =
            messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
        assert_eq!(calls, results, "{body}");
    }
    let last: Value = serde_json::from_str(sent.lock().unwrap().last().unwrap()).unwrap();
    assert!(last["messages"].as_array().unwrap().len() < 18, "something was left out");
}

#[tokio::test]
async fn a_session_knows_whom_its_conversation_is_with() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let tenant = Tenant::default();
    let anna = Recipient::parse("anna").unwrap();
    let of = |journal: Journal| {
        let script = Script::parse("- {reply: Hello.}").unwrap();
        let model = ModelName::parse("offline:script=test").unwrap();
        let runner = Runner::new(Arc::new(Scripted::new(model, Arc::new(script))));
        AgentSession::new("greeter", None, runner, React::default(), journal)
    };
    let first = of(Journal::with(Arc::clone(&store), tenant.clone(), &anna, Time(1)).await.unwrap());
    assert_eq!(first.user_id.as_deref(), Some("anna"), "before a word is said");
    first.query("Hi").await.unwrap();
    let id = first.with_journal(|journal| journal.conversation().cloned()).await.unwrap();
    let again = of(Journal::open(Arc::clone(&store), tenant.clone(), id).await.unwrap());
    assert_eq!(again.user_id.as_deref(), Some("anna"), "by the conversation alone");
    assert_eq!(of(Journal::begin(store, tenant, Time(1))).user_id, None);
}

#[tokio::test]
async fn a_request_in_text_that_is_too_large_becomes_smaller() {
    const WINDOW: usize = 1200;
    let words =
        |body: &str| body.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count();
    let answered = AtomicUsize::new(0);
    let server = Server::answering(move |body| {
        let size = words(body);
        if size > WINDOW {
            let message = format!(
                "This model's maximum context length is {WINDOW} tokens. However, your messages resulted in {size} tokens."
            );
            let error = json!({ "error": { "code": "context_length_exceeded", "message": message } });
            return Reply::of(400, error.to_string());
        }
        let text = if body.contains("You are given the steps an agent took") {
            "Done.".to_string()
        } else {
            let number = answered.fetch_add(1, Ordering::SeqCst);
            let tool = if number < 6 { "read" } else { "finish" };
            json!({ "thought": format!("thought {number}"), "tool_name": tool, "tool_args": {} }).to_string()
        };
        let message = json!({ "role": "assistant", "content": text });
        let reply = json!({ "id": "chatcmpl-1", "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
        Reply::of(200, reply.to_string()).header("content-type", "application/json")
    })
    .await;
    let endpoint = Endpoint::new(&server.url, Api::Chat, Some("sk-test-key".to_string().into())).unwrap();
    let model = ModelName::parse("openai:gpt-4o").unwrap();
    let mut runner = Runner::new(Arc::new(Http::new(model, Api::Chat, endpoint).unwrap()));
    runner.delivery = ReplyDelivery::Whole;
    let read = tool("read", "Reads a page", json!({ "type": "object" }), |_: Value| async move {
        Ok(json!("lorem ".repeat(1500)))
    });
    runner.tools.add(Arc::new(read)).unwrap();
    let react = React { mode: ReactMode::Text, ..React::default() };
    let session = AgentSession::new("reader", None, runner, react, Journal::memory(Record::new()));
    let done = session.query("Read the pages.").await.unwrap();
    assert_eq!((done.status, done.answer.as_deref()), (QueryStatus::Done, Some("Done.")), "{done:?}");
    let decided = session
        .with_journal(|journal| {
            let slots = journal.record().slots();
            slots.iter().filter(|slot| matches!(slot, Slot::Decision(..))).count()
        })
        .await;
    let refused = server.seen().iter().filter(|seen| words(&seen.body) > WINDOW).count();
    assert!(refused > 0 && decided >= refused, "{refused} refused, {decided} decided");
    assert!(server.seen().iter().all(|seen| seen.body.contains("Read the pages.")), "the task is never lost");
}
