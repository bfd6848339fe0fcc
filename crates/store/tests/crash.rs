//! Kill the writer at any moment: nothing acknowledged is lost, nothing is half there. `./dev trial crash` runs it longer.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Dice, Server, block_on, victim};
use scrollback_core::{Entry, Role, Slot, Time};
use scrollback_store::{
    ErrorKind, Expected, Listing, NewEntry, Options, Postgres, Recipient, RecordsExt, Sqlite, Store, Tenant,
    hex,
};

/// Kills in a test run; the trial sets another number.
fn kills() -> usize {
    std::env::var("SCROLLBACK_TRIAL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// What a victim said before it died.
#[derive(Default)]
struct Said {
    /// The last acknowledged link of each position.
    acked: HashMap<(String, u64), String>,
    erased: Vec<(String, u64)>,
    migrated: bool,
}

/// Runs the victim and kills it after a while; what it had said by then.
fn kill_after(mode: &str, file: &Path, seed: usize, patience: Duration) -> Said {
    let mut child = Command::new(victim())
        .args([mode, file.to_str().unwrap(), &seed.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let out = child.stdout.take().unwrap();
    let (begun, started) = std::sync::mpsc::channel();
    let listening = std::thread::spawn(move || {
        let mut said = Said::default();
        for line in BufReader::new(out).lines() {
            let Ok(line) = line else { break };
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["opening"] => drop(begun.send(())),
                ["acked", id, position, hash] if hash.len() == 64 => {
                    said.acked.insert(((*id).into(), position.parse().unwrap()), (*hash).into());
                }
                ["erased", id, position] => said.erased.push(((*id).into(), position.parse().unwrap())),
                ["migrated"] => said.migrated = true,
                _ => {}
            }
        }
        said
    });
    let _ = started.recv_timeout(Duration::from_secs(20));
    std::thread::sleep(patience);
    child.kill().unwrap();
    child.wait().unwrap();
    listening.join().unwrap()
}

/// Everything acknowledged is there, and everything there is as it was written.
async fn survived(store: &dyn Store, said: &Said, what: &str) {
    let page = store.list(None, Listing { limit: 1_000, ..Listing::default() }).await.unwrap();
    let mut links: HashMap<(String, u64), (String, bool)> = HashMap::new();
    for (row, _) in &page.conversations {
        let found = store.verify(&row.tenant, &row.id).await.unwrap();
        assert!(found.problems.is_empty(), "{what}: {:?}", found.problems);
        for placed in store.entries(&row.tenant, &row.id, 0, u64::MAX).await.unwrap() {
            let erased = matches!(placed.slot, Slot::Erased(_));
            links.insert((row.id.to_string(), placed.position), (hex(&placed.link), erased));
        }
        // An append of three is there whole or not at all.
        let record = store.record(&row.tenant, &row.id, None).await.unwrap();
        assert_eq!(record.message_count() % 3, 0, "{what}: half an append");
    }
    for (place, link) in &said.acked {
        assert_eq!(
            links.get(place).map(|(link, _)| link),
            Some(link),
            "{what}: {place:?} was acknowledged and is lost"
        );
    }
    for place in &said.erased {
        assert_eq!(links.get(place).map(|(_, erased)| *erased), Some(true), "{what}: {place:?} came back");
    }
}

#[test]
fn a_killed_writer_loses_nothing_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(std::process::id().into());
    let (mut acked, mut erased) = (0, 0);
    let seed = dice.0;
    for kill in 0..kills() * 3 / 4 {
        let mode = ["append", "compact", "erase"][kill % 3];
        // A file lives for some kills, so that what one leaves behind meets the next.
        let file = folder.path().join(format!("{mode}-{}.db", kill / 24));
        let patience = Duration::from_micros(dice.roll(80_000) as u64);
        let said = kill_after(mode, &file, kill * 1_000_000, patience);
        acked += said.acked.len();
        erased += said.erased.len();
        let store = Sqlite::open(&file, Time(0)).unwrap();
        block_on(survived(&store, &said, &format!("seed {seed}, kill {kill}, {mode}")));
    }
    println!("{acked} acknowledged appends and {erased} erasures survived {} kills", kills() * 3 / 4);
    assert!(acked > kills(), "the victims wrote something: {acked}");
}

#[test]
fn a_killed_migration_leaves_the_old_version_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.db");
    block_on(async {
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&template, Time(0)).unwrap());
        let anna = Recipient::parse("anna").unwrap();
        for number in 0..40 {
            let turn: Vec<Entry> =
                (0..3).map(|part| Entry::text(Role::User, &format!("{number} {part}"))).collect();
            let said = NewEntry::evaluation(turn, Time(number));
            store.append_for(&Tenant::default(), Time(number), &anna, Expected::Any, said).await.unwrap();
        }
        store.backup(&folder.path().join("whole.db")).await.unwrap();
    });
    let mut dice = Dice(u64::from(std::process::id()) << 3 | 1);
    let (mut old, mut new) = (0, 0);
    for kill in 0..kills() / 4 {
        let file = folder.path().join(format!("{kill}.db"));
        std::fs::copy(folder.path().join("whole.db"), &file).unwrap();
        let said = kill_after("migrate", &file, kill, Duration::from_micros(dice.roll(12_000) as u64));
        match Sqlite::open(&file, Time(0)) {
            Ok(store) => {
                assert!(!said.migrated, "kill {kill}: it said that it had migrated");
                old += 1;
                block_on(survived(&store, &said, &format!("kill {kill}, old version")));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SchemaNewer, "kill {kill}: {error}");
                new += 1;
                let copy = folder.path().join(format!("{kill}.db.v{}.bak", scrollback_store::SCHEMA));
                let store = Sqlite::open(&copy, Time(0)).expect("the copy from before is a store");
                block_on(survived(&store, &said, &format!("kill {kill}, the copy")));
                let options = Options { further_steps: vec!["select 1".into()], ..Options::default() };
                let store = Sqlite::open_with(&file, &options, Time(0)).unwrap();
                block_on(survived(&store, &said, &format!("kill {kill}, new version")));
            }
        }
    }
    println!("{old} files stayed at the old version, {new} reached the new one");
}

#[test]
fn a_killed_upgrade_of_an_older_file_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("template.db");
    let links = block_on(async {
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&template, Time(0)).unwrap());
        let anna = Recipient::parse("anna").unwrap();
        for number in 0..60 {
            let turn: Vec<Entry> =
                (0..3).map(|part| Entry::text(Role::User, &format!("{number} {part}"))).collect();
            let said = NewEntry::evaluation(turn, Time(number));
            store.append_for(&Tenant::default(), Time(number), &anna, Expected::Any, said).await.unwrap();
        }
        store.backup(&folder.path().join("old.db")).await.unwrap();
        let id = store.current(&Tenant::default(), &anna).await.unwrap().unwrap().id;
        let places = store.entries(&Tenant::default(), &id, 0, u64::MAX).await.unwrap();
        places
            .iter()
            .map(|place| ((id.to_string(), place.position), hex(&place.link)))
            .collect::<HashMap<_, _>>()
    });
    // A file of version 7: its rows have no digests.
    let before = 7_i64;
    let now = i64::try_from(scrollback_store::SCHEMA).unwrap();
    let old = rusqlite::Connection::open(folder.path().join("old.db")).unwrap();
    old.execute_batch(&crate::support::before_digests("")).unwrap();
    old.execute("update meta set value = ?1 where key = 'schema_version'", [before.to_string()]).unwrap();
    old.pragma_update(None, "user_version", before).unwrap();
    drop(old);
    let mut dice = Dice(u64::from(std::process::id()) << 5 | 1);
    let (mut stayed, mut upgraded) = (0, 0);
    for kill in 0..kills() / 10 {
        let file = folder.path().join(format!("old-{kill}.db"));
        std::fs::copy(folder.path().join("old.db"), &file).unwrap();
        let mut said = kill_after("append", &file, kill, Duration::from_micros(dice.roll(25_000) as u64));
        let version =
            rusqlite::Connection::open(&file)
                .unwrap()
                .pragma_query_value(None, "user_version", |row| row.get(0));
        let version: i64 = version.unwrap();
        assert!([before, now].contains(&version), "kill {kill}: version {version}");
        *(if version == before { &mut stayed } else { &mut upgraded }) += 1;
        // Whatever it was left as, opening it finishes the upgrade, and all that was said before is there.
        said.acked.extend(links.clone());
        let store = Sqlite::open(&file, Time(0)).unwrap();
        block_on(survived(&store, &said, &format!("kill {kill}, version {version}")));
        let copy = folder.path().join(format!("old-{kill}.db.v{before}.bak"));
        assert!(copy.exists(), "kill {kill}: the copy from before");
    }
    println!("{stayed} files stayed at version {before}, {upgraded} were upgraded");
}

/// Runs the victim under strace: whether each acknowledgement came after a sync that came after the one before.
fn synced_before_each_ack(extra: &[&str]) -> Option<(usize, usize)> {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-s", "16", "-e", "trace=fsync,fdatasync,write", "-o"]).arg(&trace).arg(victim());
    command.args(["one", crate::support::inside(folder.path(), "traced.db").as_str(), "1"]).args(extra);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    if !status.success() {
        return None;
    }
    let (mut acks, mut unsynced, mut synced) = (0, 0, false);
    for line in std::fs::read_to_string(&trace).unwrap().lines() {
        // A call that takes long is written in two lines; it is over at the second.
        let over = line.contains("resumed>") || !line.contains("<unfinished");
        if (line.contains("fdatasync") || line.contains("fsync")) && over && line.ends_with("= 0") {
            synced = true;
        } else if line.contains("write(1, \"acked") {
            acks += 1;
            unsynced += usize::from(!synced);
            synced = false;
        }
    }
    Some((acks, unsynced))
}

#[test]
fn every_acknowledgement_comes_after_a_sync() {
    let Some((acks, unsynced)) = synced_before_each_ack(&[]) else {
        let untested = "that a sync comes before each acknowledgement";
        crate::support::required::missing("strace, or the right to use it", untested);
        return;
    };
    assert_eq!((acks, unsynced), (60, 0));
    // The same eye sees it when syncs are left out.
    let (acks, unsynced) = synced_before_each_ack(&["lazy"]).unwrap();
    assert!(acks == 60 && unsynced > 40, "the control saw only {unsynced} of {acks} without a sync");
}

#[test]
fn a_server_that_is_cut_off_loses_nothing_it_acknowledged() {
    let Some(server) = Server::start() else { return };
    let cycles = kills() / 50;
    let acked = block_on(async {
        let store: Arc<dyn Store> = Arc::new(Postgres::open(&server.url(), Time(0)).await.unwrap());
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let writers: Vec<_> = (0..8)
            .map(|number| tokio::spawn(write_through(Arc::clone(&store), number, stopped.clone())))
            .collect();
        for _ in 0..cycles {
            tokio::time::sleep(Duration::from_millis(400)).await;
            server.crash();
            server.launch();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.send(true).unwrap();
        let mut said = Said::default();
        for writer in writers {
            said.acked.extend(writer.await.unwrap());
        }
        survived(store.as_ref(), &said, "PostgreSQL").await;
        said.acked.len()
    });
    println!("{acked} acknowledged appends survived {cycles} cuts");
    assert!(acked > 20, "the writers wrote something: {acked}");
}

/// Appends and repeats what failed, with the same key, until it is told to stop.
async fn write_through(
    store: Arc<dyn Store>,
    number: usize,
    stopped: tokio::sync::watch::Receiver<bool>,
) -> HashMap<(String, u64), String> {
    let (tenant, recipient) = (Tenant::default(), Recipient::parse(&format!("r{}", number / 2)).unwrap());
    let mut acked = HashMap::new();
    while !*stopped.borrow() {
        let turn: Vec<Entry> =
            (0..3).map(|part| Entry::text(Role::User, &format!("{number} {part}"))).collect();
        let said = NewEntry::evaluation(turn, Time(1));
        loop {
            match store.append_for(&tenant, Time(1), &recipient, Expected::Any, said.clone()).await {
                Ok(done) => {
                    acked.insert((done.conversation.to_string(), done.last), hex(&done.link));
                    break;
                }
                Err(error) => {
                    let passing = [ErrorKind::Io, ErrorKind::Unknown, ErrorKind::Busy, ErrorKind::OpenFailed];
                    assert!(passing.contains(&error.kind()), "{error}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }
    acked
}
