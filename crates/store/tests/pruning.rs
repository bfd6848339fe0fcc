//! Retention: what goes, in which order, in how small steps, and that others write meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Server, block_on};
use scrollback_core::{Entry, Role, Time};
use scrollback_store::prune::{PruneLimits, PruneMode, Pruned, prune};
use scrollback_store::{
    Between, CallStatus, ConversationId, Expected, FollowUps, NewEntry, Postgres, Recipient, RecordsExt,
    Sent, Sqlite, Store, Tenant, due,
};

const DAY: i64 = 24 * 60 * 60 * 1000;

/// Text that packs badly.
fn noise(seed: u64, length: usize) -> String {
    let mut dice = crate::support::Dice(seed * 7919 + 1);
    (0..length).map(|_| char::from(b'a' + dice.roll(26) as u8)).collect()
}

async fn plant(store: &dyn Store, person: &str, calls: usize, bytes: usize, at: i64) -> ConversationId {
    let tenant = Tenant::default();
    let recipient = Recipient::parse(person).unwrap();
    let said = NewEntry::evaluation(
        [Entry::text(Role::User, person), Entry::text(Role::Assistant, "yes")],
        Time(at),
    );
    let id = store.append_for(&tenant, Time(at), &recipient, Expected::Any, said).await.unwrap().conversation;
    for number in 0..calls {
        let began = Time(at + i64::try_from(number).unwrap());
        let call = Sent {
            id: format!("{person}-{number:05}"),
            conversation: id.clone(),
            run: None,
            step: None,
            evaluation: None,
            upto: 1,
            managers: "[]".into(),
            wire: "openai-chat".into(),
            model: "offline:echo".into(),
            epoch: None,
            prefix_hash: None,
            request: Some(noise(number as u64 * 2, bytes).into_bytes()),
            response: Some(noise(number as u64 * 2 + 1, bytes).into_bytes()),
            status: CallStatus::Done,
            attempt: 1,
            usage: None,
            started_at: began,
            ended_at: Some(began),
            tokens: None,
            factor: None,
            holder: None,
        };
        store.write(&tenant, Time(at), |tx| _ = tx.sent(call)).await.unwrap();
    }
    id
}

async fn to_size(store: &dyn Store, most: u64, mode: PruneMode) -> Pruned {
    let limits = PruneLimits { max_bytes: Some(most), ..PruneLimits::default() };
    prune(store, None, limits, mode, Time(DAY)).await.unwrap()
}

/// Appends from a store of its own until it is told to stop, and so often at least: how many those were, and the longest.
fn longest_of(path: &Path, least: u64, done: &AtomicBool) -> (u64, Duration) {
    let store = Sqlite::open(path, Time(0)).unwrap();
    let store: &dyn Store = &store;
    let bert = Recipient::parse("bert").unwrap();
    let (mut written, mut longest) = (0_u64, Duration::ZERO);
    while !done.load(Ordering::SeqCst) || written < least {
        let said = NewEntry::evaluation([Entry::text(Role::User, "and on")], Time(DAY));
        let began = Instant::now();
        block_on(store.append_for(&Tenant::default(), Time(DAY), &bert, Expected::Any, said)).unwrap();
        longest = longest.max(began.elapsed());
        written += 1;
    }
    (written, longest)
}

/// Calls that still have what they were sent.
async fn kept(store: &dyn Store, id: &ConversationId) -> usize {
    let calls = store.sent(&Tenant::default(), id).await.unwrap();
    calls.iter().filter(|call| call.request.is_some()).count()
}

#[test]
fn a_writer_goes_on_while_a_store_is_pruned_to_a_size() {
    let calls = std::env::var("SCROLLBACK_TRIAL_PRUNE").ok().and_then(|text| text.parse().ok());
    let trial = calls.is_some();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path, Time(0)).unwrap());
    let anna = block_on(plant(store.as_ref(), "anna", calls.unwrap_or(150), 20_000, 0));
    let old = block_on(plant(store.as_ref(), "old", 1, 100, -90 * DAY));
    let before = block_on(store.used()).unwrap();
    let (done, most) = (Arc::new(AtomicBool::new(false)), before / 3);
    let alone = longest_of(&path, 30, &AtomicBool::new(true)).1;
    // Another process's writer: a store of its own on the same file.
    let writer = std::thread::spawn({
        let (done, path) = (Arc::clone(&done), path.clone());
        move || longest_of(&path, 20, &done)
    });
    let limits =
        PruneLimits { max_bytes: Some(most), recipients_before: Some(Time(-DAY)), ..PruneLimits::default() };
    let pruned = block_on(prune(store.as_ref(), None, limits, PruneMode::Prune, Time(DAY))).unwrap();
    done.store(true, Ordering::SeqCst);
    let (written, longest) = writer.join().unwrap();
    println!(
        "{written} appends beside a prune of {} calls, the longest took {longest:?}; without it {alone:?}",
        pruned.calls
    );
    assert!(pruned.over == 0 && pruned.bytes_after <= most, "{pruned:?}");
    assert_eq!((pruned.conversations, pruned.entries), (1, 2));
    let left = block_on(kept(store.as_ref(), &anna));
    assert!(left > 0 && left as u64 + pruned.calls > 100, "the newest stay: {left}, {pruned:?}");
    for id in [&anna, &old] {
        assert_eq!(block_on(store.verify(&Tenant::default(), id)).unwrap().problems, []);
    }
    if trial {
        assert!(longest < Duration::from_millis(100), "an append waited {longest:?}");
    }
}

#[test]
fn a_dry_run_counts_the_calls_that_pruning_to_a_size_empties() {
    let store = Sqlite::in_memory(Time(0)).unwrap();
    let store: &dyn Store = &store;
    block_on(async {
        let anna = plant(store, "anna", 60, 20_000, 0).await;
        let most = store.used().await.unwrap() / 2;
        let dry = to_size(store, most, PruneMode::Count).await;
        assert_eq!(kept(store, &anna).await, 60, "a dry run empties nothing");
        let done = to_size(store, most, PruneMode::Prune).await;
        println!("{} counted, {} emptied", dry.calls, done.calls);
        // Pages hold more than one row, so the figures differ a little.
        assert!(dry.calls.abs_diff(done.calls) <= 10 && done.calls > 20, "{dry:?} {done:?}");
        let none = to_size(store, u64::MAX, PruneMode::Count).await;
        assert_eq!((none.calls, none.over), (0, 0));
        // Nothing that is left may go: it is said, and nothing else is removed.
        let impossible = to_size(store, 1, PruneMode::Prune).await;
        assert!(impossible.over > 0 && kept(store, &anna).await == 0, "{impossible:?}");
        assert_eq!(store.conversation(&Tenant::default(), &anna).await.unwrap().head, 2);
    });
}

#[test]
fn two_prunes_at_once_empty_every_call_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let one = Sqlite::open(&path, Time(0)).unwrap();
    let anna = block_on(plant(&one, "anna", 80, 6_000, 0));
    let other = Sqlite::open(&path, Time(0)).unwrap();
    let limits = PruneLimits { sent_before: Some(Time(DAY)), ..PruneLimits::default() };
    let (first, second) = std::thread::scope(|scope| {
        let run = |store: &Sqlite| block_on(prune(store, None, limits, PruneMode::Prune, Time(DAY))).unwrap();
        let first = scope.spawn(move || run(&one));
        let second = run(&other);
        (first.join().unwrap(), second)
    });
    assert_eq!(first.calls + second.calls, 80, "{first:?} {second:?}");
    let store = Sqlite::open(&path, Time(0)).unwrap();
    assert_eq!(block_on(kept(&store, &anna)), 0);
    assert_eq!(block_on(store.examine()).unwrap().problems, []);
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_old_and_nothing_due() {
    let store = Sqlite::in_memory(Time(0)).unwrap();
    let store: &dyn Store = &store;
    block_on(async {
        let anna = plant(store, "anna", 3, 6_000, 400 * DAY).await;
        // A year before what was written: thirty days ago is long before that, too.
        let now = Time(35 * DAY);
        let before = Some(Time(now.0 - 30 * DAY));
        let limits = PruneLimits {
            sent_before: before,
            conversations_before: before,
            recipients_before: before,
            max_bytes: None,
        };
        let done = prune(store, None, limits, PruneMode::Prune, now).await.unwrap();
        assert_eq!((done.calls, done.conversations), (0, 0));
        assert_eq!(kept(store, &anna).await, 3);
        let due = async |at| due(store, None, &FollowUps::default(), Between::until(at)).await;
        assert!(due(now).await.unwrap().is_empty());
        assert_eq!(due(Time(401 * DAY)).await.unwrap().len(), 1, "it is due again when the clock is right");
    });
}

#[test]
fn on_postgresql_only_as_many_bodies_go_as_the_size_asks_for() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store = Postgres::open(&server.url(), Time(0)).await.unwrap();
        let store: &dyn Store = &store;
        // What an empty store takes: tables and indexes of sixteen parts each.
        let empty = store.live().await.unwrap();
        let anna = plant(store, "anna", 60, 20_000, 0).await;
        let all = store.live().await.unwrap();
        let most = empty + (all - empty) / 2;
        let dry = to_size(store, most, PruneMode::Count).await;
        let done = to_size(store, most, PruneMode::Prune).await;
        println!("{all} bytes; {dry:?} {done:?}");
        // Rows that are gone take room until they are vacuumed; what is kept is what counts.
        assert!((20..50).contains(&done.calls) && dry.calls.abs_diff(done.calls) <= 5, "{dry:?} {done:?}");
        assert!(done.over == 0 && kept(store, &anna).await as u64 == 60 - done.calls);
        // Asked again, before anything was vacuumed, nothing more goes.
        assert_eq!(to_size(store, most, PruneMode::Prune).await.calls, 0);
    });
}
