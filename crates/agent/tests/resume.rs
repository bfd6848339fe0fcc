//! Going on where something stopped: after every entry, with a store that remembers who works on what.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use scrollback_agent::StopSignal;
use scrollback_agent::event::ConversationRecorded;
use scrollback_agent::journal::Journal;
use scrollback_agent::provider::Scripted;
use scrollback_agent::provider::script::Script;
use scrollback_agent::runner::{EvaluationEnd, Prompt, Runner};
use scrollback_agent::tool::tool;
use scrollback_core::model::ModelName;
use scrollback_core::{Entry, Record, Role, Slot, Time};
use scrollback_store::{ConversationId, Lease, Leased, Memory, Store, Tenant};
use serde_json::{Value, json};

const SCRIPT: &str = r#"
- {calls: [{name: look, arguments: {at: 1}, id: a}, {name: look, arguments: {at: 2}, id: b}], text: Both.}
- {expect: {contains: ["seen 1", "seen 2"], roles: [system, user, assistant, tool, tool]}, calls: [{name: look, arguments: {at: 3}, id: c}]}
- {expect: {contains: ["seen 3"]}, reply: done}
"#;

fn runner(script: &str, runs: &Arc<AtomicUsize>) -> Runner {
    let script = Script::parse(script).unwrap_or_else(|problems| panic!("{problems:?}"));
    let model = ModelName::parse("offline:script=test").unwrap();
    let mut runner = Runner::new(Arc::new(Scripted::new(model, Arc::new(script))));
    let runs = Arc::clone(runs);
    let look = tool("look", "Looks", json!({}), move |args: Value| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move { Ok(json!(format!("seen {}", args["at"]))) }
    });
    runner.tools.add(Arc::new(look)).unwrap();
    runner
}

fn prompt() -> Prompt {
    let (name, user) = ("test".into(), "Look!".into());
    Prompt { name, system: Some("Be brief.".into()), user, response_format: None }
}

fn said(record: &Record) -> Vec<(u64, String)> {
    let message = |slot: &Slot| match slot {
        Slot::Message(entry) => Some((entry.sequence, entry.origin.raw.to_string())),
        _ => None,
    };
    record.slots().iter().filter_map(message).collect()
}

fn begun(store: &Arc<dyn Store>) -> (Journal, ConversationId) {
    let journal = Journal::begin(Arc::clone(store), Tenant::default(), Time(1));
    let id = journal.conversation().unwrap().clone();
    (journal, id)
}

async fn reopened(store: &Arc<dyn Store>, id: &ConversationId) -> Journal {
    Journal::open(Arc::clone(store), Tenant::default(), id.clone()).await.unwrap()
}

#[tokio::test]
async fn stopped_after_any_entry_it_ends_with_the_same_record_and_no_call_runs_twice() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let (mut journal, _) = begun(&store);
    let runs = Arc::new(AtomicUsize::new(0));
    let whole = runner(SCRIPT, &runs).run(&mut journal, &prompt()).await;
    assert!(matches!(whole.ended, EvaluationEnd::Replied { .. }), "{:?}", whole.ended);
    let expected = said(journal.record());
    assert_eq!((expected.len(), runs.load(Ordering::SeqCst)), (8, 3));

    for after in 1..expected.len() {
        let runs = Arc::new(AtomicUsize::new(0));
        let mut runner = runner(SCRIPT, &runs);
        let (mut journal, id) = begun(&store);
        let (stop, seen) = (runner.stop.clone(), AtomicUsize::new(0));
        let token = runner.bus.subscribe::<ConversationRecorded>(move |_| {
            if seen.fetch_add(1, Ordering::SeqCst) + 1 == after {
                stop.stop();
            }
            Ok(())
        });
        let stopped = runner.run(&mut journal, &prompt()).await;
        let EvaluationEnd::Failed(error) = &stopped.ended else { panic!("{after}: {:?}", stopped.ended) };
        assert_eq!(error.code(), "interrupted");
        drop(journal);
        runner.bus.unsubscribe(token);
        runner.stop = StopSignal::default();
        let mut journal = reopened(&store, &id).await;
        assert_eq!(said(journal.record()), expected[..journal.record().len()], "{after}");
        let done = runner.resume(&mut journal, &prompt(), None).await.unwrap();
        assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{after}: {:?}", done.ended);
        assert_eq!(done.evaluation_id, stopped.evaluation_id);
        assert_eq!(said(journal.record()), expected, "{after}");
        assert_eq!(runs.load(Ordering::SeqCst), 3, "{after}: each call ran once");
        assert_eq!(said(reopened(&store, &id).await.record()), expected, "{after}: and is stored so");
        let sent = store.sent(&Tenant::default(), &id).await.unwrap();
        assert_eq!(sent.iter().filter(|sent| sent.status == scrollback_store::CallStatus::Done).count(), 3);
    }
}

#[tokio::test]
async fn each_refusal_has_its_code() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let (mut journal, id) = begun(&store);
    let first = runner("- {calls: [{name: look, id: a}]}\n- error: {kind: auth}\n- reply: done\n", &runs);
    let failed = first.run(&mut journal, &prompt()).await;
    assert!(matches!(failed.ended, EvaluationEnd::Failed(_)));
    drop(journal);

    // Other instructions, or other tools.
    let mut journal = reopened(&store, &id).await;
    let other = Prompt { system: Some("Be long.".into()), ..prompt() };
    assert_eq!(first.resume(&mut journal, &other, None).await.unwrap_err().code(), "prompt_changed");

    // Another process is working on it.
    let (tenant, what) = (Tenant::default(), Leased::Evaluation(failed.evaluation_id));
    let far = Time(4_000_000_000_000);
    let lease = |holder: &str| Lease { holder: holder.into(), until: far };
    store.lease(&tenant, what.clone(), lease("elsewhere/1/2/3"), Vec::new(), Time(2)).await.unwrap();
    assert_eq!(first.resume(&mut journal, &prompt(), None).await.unwrap_err().code(), "busy");
    store.release(&tenant, what.clone(), "elsewhere/1/2/3", Time(2)).await.unwrap();

    // A process that is known to be dead holds nothing.
    if let Ok(machine) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        let dead = format!("{}/{}/1/0", machine.trim(), std::process::id());
        store.lease(&tenant, what, lease(&dead), Vec::new(), Time(2)).await.unwrap();
    }
    let done = first.resume(&mut journal, &prompt(), None).await.unwrap();
    assert!(matches!(done.ended, EvaluationEnd::Replied { .. }), "{:?}", done.ended);
    assert_eq!(first.resume(&mut journal, &prompt(), None).await.unwrap_err().code(), "nothing_to_resume");
    let mut record = Record::new();
    record.append(Entry::text(Role::System, "Be brief.")).unwrap();
    let unasked = &mut Journal::memory(record);
    assert_eq!(first.resume(unasked, &prompt(), None).await.unwrap_err().code(), "nothing_to_resume");
    let empty = &mut Journal::memory(Record::new());
    assert_eq!(first.resume(empty, &prompt(), None).await.unwrap_err().code(), "nothing_to_resume");
}

#[tokio::test]
async fn an_evaluation_under_way_is_busy_and_cannot_be_talked_over() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let runs = Arc::new(AtomicUsize::new(0));
    let (journal, id) = begun(&store);
    let mut first = runner("- {calls: [{name: hang, id: h}]}\n- reply: never\n", &runs);
    let hang = || {
        tool("hang", "", json!({}), |_: Value| async move {
            std::future::pending::<()>().await;
            Ok(json!(null))
        })
    };
    first.tools.add(Arc::new(hang())).unwrap();
    let called = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&called);
    first.bus.subscribe::<ConversationRecorded>(move |told| {
        if told.event.recorded.entry.tool_calls().next().is_some() {
            tell.notify_one();
        }
        Ok(())
    });
    let stop = first.stop.clone();
    let working = tokio::spawn(async move {
        let mut journal = journal;
        first.run(&mut journal, &prompt()).await
    });
    called.notified().await;

    let mut second = runner("- reply: mine\n", &runs);
    second.tools.add(Arc::new(hang())).unwrap();
    let mut journal = reopened(&store, &id).await;
    assert_eq!(second.resume(&mut journal, &prompt(), None).await.unwrap_err().code(), "busy");
    let refused = second.run(&mut journal, &prompt()).await;
    assert!(
        matches!(&refused.ended, EvaluationEnd::Failed(error) if error.code() == "busy"),
        "{:?}",
        refused.ended
    );

    stop.stop();
    let stopped = working.await.unwrap();
    assert!(matches!(&stopped.ended, EvaluationEnd::Failed(error) if error.code() == "interrupted"));
    let mut journal = reopened(&store, &id).await;
    let done = second.run(&mut journal, &prompt()).await;
    assert!(
        matches!(done.ended, EvaluationEnd::Replied { .. }),
        "given back when it stopped: {:?}",
        done.ended
    );
}
