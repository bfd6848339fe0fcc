//! Runners against scripts, and what came of them.

use std::sync::{Arc, Mutex};

use scrollback_agent::journal::Journal;
use scrollback_agent::provider::script::Script;
use scrollback_agent::provider::{Provider, Scripted};
use scrollback_agent::runner::{Evaluated, EvaluationEnd, FailurePhase, Prompt, Runner};
use scrollback_agent::tool::tool;
use scrollback_agent::{EventBus, FakeClock};
use scrollback_core::model::ModelName;
use scrollback_core::{Entry, Record, Role, Time};
use serde_json::{Value, json};

pub fn scripted(script: &str) -> Arc<dyn Provider> {
    let script = Script::parse(script).unwrap_or_else(|problems| panic!("{problems:?}"));
    Arc::new(Scripted::new(ModelName::parse("offline:script=test").unwrap(), Arc::new(script)))
}

pub fn runner(script: &str) -> Runner {
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

pub fn prompt(user: &str) -> Prompt {
    Prompt { name: "test".into(), system: Some("Be brief.".into()), user: user.into(), response_format: None }
}

pub async fn run(runner: &Runner) -> (Evaluated, Journal) {
    let mut journal = Journal::memory(Record::new());
    let done = runner.run(&mut journal, &prompt("Weather?")).await;
    (done, journal)
}

#[track_caller]
pub fn replied(done: &Evaluated) -> &str {
    match &done.ended {
        EvaluationEnd::Replied { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn code(done: &Evaluated) -> (&str, FailurePhase) {
    match &done.ended {
        EvaluationEnd::Failed(error) => (error.code(), error.phase),
        other => panic!("{other:?}"),
    }
}

pub fn roles(record: &Record) -> Vec<Role> {
    messages(record).iter().map(|entry| entry.role).collect()
}

pub fn messages(record: &Record) -> Vec<&Entry> {
    (0..record.len() as u64).filter_map(|position| record.entry(position)).map(AsRef::as_ref).collect()
}

/// Everything that is told of one type.
pub fn told<E: scrollback_agent::Event + Clone>(runner: &Runner) -> Arc<Mutex<Vec<E>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    runner.bus.subscribe::<E>(move |told| {
        keep.lock().unwrap().push(told.event.clone());
        Ok(())
    });
    kept
}
