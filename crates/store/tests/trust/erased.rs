//! Erasing: what belongs to a conversation goes with it, and a reader meanwhile keeps no caller waiting.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use crate::support::block_on;
use rusqlite::Connection;
use scrollback_core::{Entry, Role, Time};
use scrollback_store::{
    Erase, Event, Expected, Follow, NewEntry, Recipient, RecordsExt, Run, RunStatus, Sqlite, Step,
    StepStatus, Store, Tenant, restore,
};

const CANARY: &str = "canary in a coal mine";

/// Whether the words are anywhere in the file or beside it.
fn left(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let holds = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
    };
    files.filter(|path| holds(path)).map(|path| path.display().to_string()).collect()
}

async fn plant(store: &dyn Store) -> scrollback_store::ConversationId {
    let (tenant, anna) = (Tenant::default(), Recipient::parse("anna").unwrap());
    let said = NewEntry::evaluation([Entry::text(Role::User, CANARY)], Time(0));
    let id = store.append_for(&tenant, Time(0), &anna, Expected::Any, said).await.unwrap().conversation;
    let text = || Some(format!("\"{CANARY}\""));
    let large = Some(format!("\"{}\"", format!("{CANARY} ").repeat(400)));
    let run = Run {
        id: "r1".into(),
        tenant: tenant.clone(),
        kind: scrollback_store::RunKind::Flow,
        name: "a flow".into(),
        hash: "hash".into(),
        text: "steps: []".into(),
        settings: None,
        status: RunStatus::Done,
        conversation: Some(id.clone()),
        input: text(),
        output: large.clone(),
        error: text(),
        usage: None,
        lease: None,
        started_at: Time(0),
        ended_at: None,
    };
    let step = Step {
        run: "r1".into(),
        key: "s1".into(),
        kind: scrollback_store::StepType::Step,
        status: StepStatus::Done,
        attempt: 1,
        input: text(),
        output: large,
        evaluation: None,
        usage: None,
        started_at: None,
        ended_at: None,
        error: text(),
    };
    let event =
        Event { run: "r1".into(), sequence: 0, at: Time(0), key: None, kind: "said".into(), data: text() };
    let build = |tx: &mut scrollback_store::Tx| {
        tx.run(run);
        tx.step(step);
        tx.event(event);
    };
    store.write(&tenant, Time(0), build).await.unwrap();
    id
}

#[test]
fn the_runs_of_an_erased_conversation_are_emptied_and_no_byte_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&folder.path().join("store.db"), Time(0)).unwrap();
    let store: &dyn Store = &store;
    block_on(async {
        let id = plant(store).await;
        let tenant = Tenant::default();
        let count = store.erase(&tenant, &id, Erase::All, "asked", Time(1)).await.unwrap();
        assert_eq!((count.erased, count.runs, count.pending), (1, 1, false));
        let run = store.runs(&tenant, "r1", 1).await.unwrap().remove(0);
        assert_eq!((run.text.as_str(), run.input, run.output), ("steps: []", None, None), "what ran stays");
        assert_eq!(store.verify(&tenant, &id).await.unwrap().problems, []);
        assert_eq!(store.examine().await.unwrap().problems, []);
    });
    assert_eq!(left(folder.path()), Vec::<String>::new());
}

#[test]
fn a_reader_keeps_erasing_pending_until_it_is_done_and_no_caller_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Sqlite::open(&path, Time(0)).unwrap();
    let store: &dyn Store = &store;
    let id = block_on(plant(store));
    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("begin; select count(*) from entries").unwrap();
    let count = block_on(store.erase(&Tenant::default(), &id, Erase::All, "asked", Time(1))).unwrap();
    assert!(count.erased == 1 && count.pending, "{count:?}");
    assert!(!left(folder.path()).is_empty(), "the reader still reads it");
    reader.execute_batch("rollback").unwrap();
    // It goes by itself.
    for _ in 0..200 {
        if left(folder.path()).is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("still there: {:?}", left(folder.path()));
}

#[test]
fn a_backup_that_follows_gives_way_to_erasing() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, backup) = (folder.path().join("store"), folder.path().join("backup"));
    std::fs::create_dir(&inside).unwrap();
    let path = inside.join("store.db");
    let store = Sqlite::open(&path, Time(0)).unwrap();
    let store: &dyn Store = &store;
    let id = block_on(plant(store));
    let mut follow = Follow::start(&path, &backup).unwrap();
    follow.step(Time(1)).unwrap();
    // Something follows in the log, so that the backup reads there.
    block_on(plant_more(store));
    follow.step(Time(2)).unwrap();
    let count = block_on(store.erase(&Tenant::default(), &id, Erase::All, "asked", Time(3))).unwrap();
    assert_eq!(count.erased, 1);
    // Every step gives the erasure another chance to end.
    for at in 4..200 {
        follow.step(Time(at)).unwrap();
        if left(&inside).is_empty() {
            let to = folder.path().join("restored.db");
            restore(&backup, &to, None).unwrap();
            assert_eq!(std::fs::read(&to).unwrap().len() as u64, std::fs::metadata(&path).unwrap().len());
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("still there: {:?}", left(&inside));
}

async fn plant_more(store: &dyn Store) {
    let (tenant, bert) = (Tenant::default(), Recipient::parse("bert").unwrap());
    let said = NewEntry::evaluation([Entry::text(Role::User, "something else")], Time(0));
    store.append_for(&tenant, Time(0), &bert, Expected::Any, said).await.unwrap();
}
