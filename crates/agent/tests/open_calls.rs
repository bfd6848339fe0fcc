//! Calls that have no result yet: questions to people, and what a crash left behind.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scrollback_agent::journal::Journal;
use scrollback_agent::runner::EvaluationEnd;
use scrollback_agent::tool::{Effects, Human, Spec, tool};
use scrollback_core::{Entry, Record, Role, Time};
use serde_json::{Value, json};

use crate::support::runner::{messages, prompt, replied, runner};

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
    let EvaluationEnd::Paused(question) = &paused.ended else { panic!("{:?}", paused.ended) };
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
