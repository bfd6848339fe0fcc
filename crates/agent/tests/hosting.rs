//! Where hosts hook into a runner: a meter, how replies are drawn, overflows, a record that is kept elsewhere.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use scrollback_agent::BoxFuture;
use scrollback_agent::journal::{Journal, JournalCommit, Keeper};
use scrollback_agent::provider::Sampling;
use scrollback_agent::runner::{
    AttemptUsage, EvaluationEnd, EvaluationError, EvaluationErrorKind, FailurePhase, OnOverflow, Repair,
    UsageMeter,
};
use scrollback_core::model::ModelName;
use scrollback_core::wire::Wire;
use scrollback_core::{Entry, Record, Role, Time, json as text};
use scrollback_store::{ConversationId, NewEntry, StoreError};
use serde_json::{Value, json};

use crate::support::runner::{code, messages, prompt, replied, roles, run, runner};

use Role::{Assistant, System, Tool, User};

/// Counts what it is asked and told, and has room for so many attempts.
struct Room {
    left: AtomicUsize,
    told: AtomicUsize,
}

impl UsageMeter for Room {
    fn reserve(&self, _: &ModelName, tokens: usize) -> Result<(), EvaluationError> {
        assert!(tokens > 0);
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            return Err(EvaluationError::new(
                FailurePhase::Budget,
                EvaluationErrorKind::Host("no_room"),
                "there is none",
            ));
        }
        self.left.store(left - 1, Ordering::SeqCst);
        Ok(())
    }

    fn settle(&self, _: &AttemptUsage) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_meter_is_asked_before_every_attempt_and_told_after_it() {
    let script = "[{error: {kind: overloaded, message: busy}}, {reply: done}]";
    for (room, ended, told) in [(2, "done", 2), (1, "no_room", 1), (0, "no_room", 0)] {
        let mut runner = runner(script);
        let meter = Arc::new(Room { left: AtomicUsize::new(room), told: AtomicUsize::default() });
        runner.meter = Some(Arc::clone(&meter) as Arc<dyn UsageMeter>);
        let (done, _) = run(&runner).await;
        let found = match &done.ended {
            EvaluationEnd::Replied { text, .. } => text.clone(),
            EvaluationEnd::Failed(error) => error.code().to_string(),
            EvaluationEnd::Paused(_) => String::new(),
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
    let mut failing =
        crate::support::runner::runner("[{error: {kind: context_overflow, message: too long}}]");
    failing.overflow = OnOverflow::Fail;
    let (done, journal) = run(&failing).await;
    assert_eq!(code(&done).0, "context_overflow");
    assert!(matches!(&done.ended, EvaluationEnd::Failed(error) if error.provider.is_some()));
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

    fn keep(&self, written: JournalCommit) -> BoxFuture<'_, Result<(), StoreError>> {
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

#[tokio::test]
async fn what_was_mended_before_a_request_could_be_sent_stands_in_its_trace() {
    // As another program left it: replies that say nothing at all, and a list of calls without any.
    let left = [
        r#"{"role":"user","content":"Said before."}"#,
        r#"{"role":"assistant","content":null}"#,
        r#"{"role":"user","content":"And again."}"#,
        r#"{"role":"assistant","content":"So it was.","tool_calls":[]}"#,
    ];
    let journal = || {
        let mut record = Record::new();
        for (message, number) in left.into_iter().zip(100u128..) {
            let entry = Wire::OpenaiChat.read_message(text::check(message).unwrap()).unwrap();
            record.append(entry.stamped(uuid::Uuid::from_u128(number), 0, Time(0))).unwrap();
        }
        Journal::memory(record)
    };
    let traced = |repair: Repair| {
        let mut runner = runner("- {error: {kind: overloaded}}\n- {reply: Sunny.}");
        runner.repair = repair;
        let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = Arc::clone(&lines);
        runner.trace = Some(Arc::new(move |attempt| seen.lock().unwrap().push(json!(attempt))));
        (runner, lines)
    };
    let (repairing, lines) = traced(Repair::Auto);
    let mut kept = journal();
    assert_eq!(replied(&repairing.run(&mut kept, &prompt("Weather?")).await), "Sunny.");
    let lines = lines.lock().unwrap().clone();
    assert_eq!(lines.len(), 2, "one line an attempt");
    for line in &lines {
        assert_eq!(line["repairs"], json!(["OC-5 /messages/2/content", "OC-6 /messages/4/tool_calls"]));
        let sent = &line["request"]["messages"];
        assert_eq!((&sent[2]["content"], sent[4].get("tool_calls")), (&json!(""), None), "{sent}");
    }
    assert_eq!(&*kept.record().entry(1).unwrap().origin.raw, left[1], "the record is as it was");

    let (refusing, lines) = traced(Repair::Never);
    let done = refusing.run(&mut journal(), &prompt("Weather?")).await;
    assert_eq!(code(&done), ("invalid_request", FailurePhase::Request));
    assert!(lines.lock().unwrap().is_empty(), "no model was asked");

    let (usual, lines) = traced(Repair::Auto);
    run(&usual).await;
    assert!(lines.lock().unwrap().iter().all(|line| line.get("repairs").is_none()), "nothing to repair");
}
